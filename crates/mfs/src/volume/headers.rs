//! Headers of files in their blocks.

use super::tx::{Deferred, Tx};
use super::{Owner, Volume, update};
use crate::format::header::{Contents, Header, generation_of};
use crate::format::layout::HEADER_BYTES;
use crate::format::overflow::{self, Overflow, Part};
use spindle_vfs::{Error, Result};

/// How a header begins that an open transaction has allocated and not stored yet.
pub(super) const RESERVED: &[u8; 2] = b"M?";

impl Volume {
    /// Reads the header of a file, also a free one.
    ///
    /// # Errors
    /// [`Error::Stale`] if there is no such header, or no file in it yet; [`Error::Corrupt`].
    pub(crate) fn read_header(&self, ino: u64) -> Result<Header> {
        let bytes = self.header_bytes(ino)?;
        // No name leads there, but the number of a former file may.
        if bytes.starts_with(RESERVED) {
            return Err(Error::Stale);
        }
        Header::decode(&bytes, ino, &self.layout, |at| {
            let bytes = self.header_bytes(at).map_err(|error| match error {
                Error::Stale => Error::corrupt("its overflow header is none", format!("file header {ino}")),
                other => other,
            })?;
            Overflow::decode(&bytes, ino, at)
        })
    }

    pub(super) fn header_bytes(&self, ino: u64) -> Result<Vec<u8>> {
        let (cylinder, slot) = self.layout.header_place(ino).ok_or(Error::Stale)?;
        let (at, within) = self.layout.header_at(ino).ok_or(Error::Stale)?;
        if !self.holds_headers(cylinder) {
            return Err(Error::Stale);
        }
        let block = slot / self.layout.headers_in_block();
        if block >= self.layout.cylinder_blocks() - self.cylinder(cylinder)?.fresh {
            return Err(Error::Stale);
        }
        let buffer = self.block(at)?;
        let bytes = buffer.read()[within..within + HEADER_BYTES].to_vec();
        Ok(bytes)
    }

    /// Returns the number of files that a free header had before.
    pub(crate) fn generation(&self, ino: u64) -> Result<u32> {
        let (at, within) = self.layout.header_at(ino).ok_or(Error::Stale)?;
        let buffer = self.block(at)?;
        let bytes = buffer.read();
        Ok(generation_of(&bytes[within..within + HEADER_BYTES]))
    }

    /// Keeps the block of a header in memory until the commit, so that storing it cannot fail.
    pub(crate) fn hold_header(&self, tx: &Tx<'_>, ino: u64) -> Result<()> {
        let (at, _) = self.layout.header_at(ino).ok_or(Error::Stale)?;
        self.block(at)?.hold(tx);
        Ok(())
    }

    /// Writes the overflow headers that hold extents that have changed: makes those that are
    /// needed, and gives up the others. The caller stores the header.
    pub(crate) fn store_overflow(&self, tx: &Tx<'_>, ino: u64, header: &mut Header) -> Result<()> {
        let Contents::Extents(extents) = &mut header.contents else { return Ok(()) };
        let Some(changed) = extents.take_changed() else { return Ok(()) };
        let (range, lens) = overflow::plan(&header.overflow, changed, extents.as_slice().len());
        let mut headers: Vec<u64> = header.overflow[range.clone()].iter().map(|part| part.at).collect();
        while headers.len() < lens.len() {
            headers.push(self.alloc_header(tx, ino)?);
        }
        for at in headers.drain(lens.len()..) {
            self.give_up_header(tx, at, 0)?;
        }
        // The one before leads to the first of them.
        let (first, end) = (range.start.saturating_sub(1), range.start + lens.len());
        let parts = headers.into_iter().zip(lens).map(|(at, len)| Part { at, len });
        header.overflow.splice(range, parts);
        let behind: usize = header.overflow[first..].iter().map(|part| part.len).sum();
        let mut rest = &extents.as_slice()[extents.as_slice().len() - behind..];
        for n in first..end {
            let Part { at, len } = header.overflow[n];
            let (here, more) = rest.split_at(len);
            let next = header.overflow.get(n + 1).map(|part| part.at);
            self.put_header(tx, at, |bytes| overflow::encode(bytes, ino, here, next))?;
            rest = more;
        }
        Ok(())
    }

    /// Writes a header into its block.
    pub(crate) fn store(&self, tx: &Tx<'_>, ino: u64, header: &Header) -> Result<()> {
        self.put_header(tx, ino, |bytes| header.encode(bytes, ino))
    }

    pub(super) fn put_header(&self, tx: &Tx<'_>, ino: u64, encode: impl FnOnce(&mut [u8])) -> Result<()> {
        let (at, within) = self.layout.header_at(ino).ok_or(Error::Stale)?;
        let buffer = self.block(at)?;
        let mut bytes = [0; HEADER_BYTES];
        encode(&mut bytes);
        let mut locked = buffer.write(tx);
        let range = within..within + HEADER_BYTES;
        if locked[range.clone()] != bytes {
            locked.bytes_mut(range).copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// Frees a header when the transaction ends; `generation` files have had it before.
    pub(crate) fn give_up_header(&self, tx: &Tx<'_>, ino: u64, generation: u32) -> Result<()> {
        // Both are read now: clearing the header later must not fail.
        let (at, _) = self.layout.header_at(ino).ok_or(Error::Stale)?;
        let (number, _) = self.layout.header_place(ino).ok_or(Error::Stale)?;
        self.block(at)?.hold(tx);
        self.block(self.layout.cylinder_at(number))?.hold(tx);
        tx.defer(Deferred::Header(ino, generation));
        Ok(())
    }

    /// Clears a header, which makes it free.
    pub(super) fn clear_header(&self, tx: &spindle_cache::Tx<'_>, ino: u64, generation: u32) -> Result<()> {
        let (at, within) = self.layout.header_at(ino).ok_or(Error::Stale)?;
        update(tx, &self.block(at)?, Owner::Shared, |bytes| {
            let bytes = &mut bytes[within..within + HEADER_BYTES];
            Header::free(generation).encode(bytes, ino);
            Ok(())
        })?;
        self.enter_free_header(tx, ino)
    }
}
