//! Attribute headers in their blocks: read and written as a whole, of which only what has changed
//! gets to the log.

use super::Volume;
use super::tx::{OPERATION_BYTES, Tx};
use crate::format::attributes::{ATTRIBUTE_BYTES, Attributes, Chain, Piece};
use crate::format::header::Header;
use spindle_vfs::{Error, Result};

impl Volume {
    /// Reads the attributes of a file.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn read_attributes(&self, ino: u64, header: &Header) -> Result<Chain> {
        Chain::read(header.attributes, ino, |at, position| {
            let bytes = self.header_bytes(at).map_err(|error| match error {
                Error::Stale => Error::corrupt("its attribute header is none", format!("file header {ino}")),
                other => other,
            })?;
            Piece::decode(&bytes, ino, at, position)
        })
    }

    /// Replaces the attributes of a file: those of `chain`, which are there, by `attributes`. The
    /// caller stores the header.
    ///
    /// # Errors
    /// [`Error::NoSpace`], also if they are more than a file can have.
    pub(crate) fn write_attributes(
        &self,
        tx: &Tx<'_>,
        (ino, header): (u64, &mut Header),
        chain: Chain,
        attributes: &Attributes,
    ) -> Result<()> {
        let bytes = attributes.encode()?;
        let needed = bytes.len().div_ceil(ATTRIBUTE_BYTES);
        let mut headers = chain.headers;
        while headers.len() < needed {
            headers.push(self.alloc_header(tx, ino)?);
        }
        for at in headers.drain(needed..) {
            self.give_up_header(tx, at, 0)?;
        }
        for (n, part) in bytes.chunks(ATTRIBUTE_BYTES).enumerate() {
            let piece = Piece { bytes: part.to_vec(), next: headers.get(n + 1).copied() };
            self.put_header(tx, headers[n], |out| piece.encode(out, ino, n))?;
        }
        header.attributes = headers.first().copied();
        Ok(())
    }
}

/// Returns the bytes of log for replacing the attributes of `chain` by others that need so many
/// headers: each is written or freed, and its cylinder says so.
pub(crate) fn bytes_for_attributes(chain: &Chain, needed: usize) -> usize {
    OPERATION_BYTES + chain.headers.len().max(needed) * 1024
}
