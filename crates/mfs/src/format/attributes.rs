//! Extended attributes, and the headers that hold them.
//!
//! The attributes of a file are records in the order of their name spaces and names. They fill a
//! chain of *attribute headers*, of which all but the last are full. Each says whose it is and its
//! position, so no chain leads to a header twice.

use super::checksum::{is_sealed, seal};
use super::layout::HEADER_BYTES;
use spindle_ondisk::{Endian, Field, structure};
use spindle_tree::xattr::{is_space, join};
use spindle_vfs::{Error, Result};
use std::collections::BTreeMap;

/// Most attribute headers of a file.
pub const ATTRIBUTE_HEADERS_MAX: usize = 256;
/// Bytes of records in an attribute header.
pub const ATTRIBUTE_BYTES: usize = CHECKSUM - PAYLOAD;
const MAGIC: u16 = u16::from_le_bytes(*b"MA");
const PAYLOAD: usize = 32;
const CHECKSUM: usize = HEADER_BYTES - 4;
/// Bytes of a record without its name and value.
const RECORD_HEAD: usize = 6;
/// Longest name in bytes, without its name space.
const NAME_MAX: usize = 255;

structure! {
    /// An attribute header; the records follow at byte 32, the checksum is at byte 508.
    pub struct DiskAttributes: 32 {
        /// `MA`.
        0 magic: u16,
        /// Bytes of records in it.
        2 count: u16,
        /// Its position in the chain.
        4 position: u32,
        /// The file.
        8 ino: u64,
        /// The next attribute header, or 0.
        16 next: u64,
    }
}

/// The attributes of a file: values by name space and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(BTreeMap<(u8, Vec<u8>), Vec<u8>>);

/// A part of the records, in an attribute header.
pub struct Piece {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The next attribute header.
    pub next: Option<u64>,
}

/// The attributes of a file, and the headers that hold them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The attribute headers, in order.
    pub headers: Vec<u64>,
    /// What they hold.
    pub attributes: Attributes,
}

impl Attributes {
    /// Returns the value of an attribute.
    #[must_use]
    pub fn get(&self, space: u8, name: &[u8]) -> Option<&[u8]> {
        self.0.get(&(space, name.to_vec())).map(Vec::as_slice)
    }

    /// Returns the names with the prefixes of their name spaces.
    pub fn names(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.0.keys().filter_map(|(space, name)| join(*space, name))
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// [`Error::NameTooLong`], [`Error::Invalid`] for a name that there cannot be.
    pub fn set(&mut self, space: u8, name: &[u8], value: &[u8]) -> Result<()> {
        if name.len() > NAME_MAX {
            return Err(Error::NameTooLong);
        }
        if name.is_empty() || name.contains(&0) {
            return Err(Error::Invalid);
        }
        self.0.insert((space, name.to_vec()), value.to_vec());
        Ok(())
    }

    /// Removes an attribute.
    pub fn remove(&mut self, space: u8, name: &[u8]) {
        self.0.remove(&(space, name.to_vec()));
    }

    /// Reads the records of file `ino`.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn decode(bytes: &[u8], ino: u64) -> Result<Self> {
        let damaged = |what| Error::corrupt(what, format!("attributes of file {ino}"));
        let (mut known, mut rest) = (BTreeMap::new(), bytes);
        while !rest.is_empty() {
            let short = || damaged("a record that does not fit");
            let head = rest.get(..RECORD_HEAD).ok_or_else(short)?;
            let value_len = usize::try_from(u32::get(head, Endian::Little)).map_err(|_| short())?;
            let (space, name_len) = (head[4], usize::from(head[5]));
            let name = rest.get(RECORD_HEAD..RECORD_HEAD + name_len).ok_or_else(short)?;
            let value = &rest[RECORD_HEAD + name_len..];
            let value = value.get(..value_len).ok_or_else(short)?;
            if !is_space(space) || name.is_empty() || name.contains(&0) {
                return Err(damaged("a name that cannot be"));
            }
            let key = (space, name.to_vec());
            if known.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return Err(damaged("names out of order"));
            }
            known.insert(key, value.to_vec());
            rest = &rest[RECORD_HEAD + name_len + value_len..];
        }
        Ok(Self(known))
    }

    /// Returns the records.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if they are more than a file can have.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for ((space, name), value) in &self.0 {
            let at = bytes.len();
            bytes.resize(at + RECORD_HEAD, 0);
            u32::try_from(value.len()).map_err(|_| Error::NoSpace)?.put(&mut bytes[at..], Endian::Little);
            bytes[at + 4] = *space;
            bytes[at + 5] = u8::try_from(name.len()).map_err(|_| Error::NameTooLong)?;
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(value);
        }
        if bytes.len() > ATTRIBUTE_HEADERS_MAX * ATTRIBUTE_BYTES { Err(Error::NoSpace) } else { Ok(bytes) }
    }
}

impl Piece {
    /// Reads the attribute header of file `ino` at header `at`, which is that at `position`.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn decode(bytes: &[u8], ino: u64, at: u64, position: usize) -> Result<Self> {
        let disk = DiskAttributes::decode(bytes, Endian::Little);
        let damaged = |what: String| Err(Error::corrupt(what, format!("attribute header {at}")));
        if !is_attributes(bytes) || !is_sealed(&bytes[..HEADER_BYTES], CHECKSUM) {
            return damaged("it is damaged".into());
        }
        if disk.ino != ino || usize::try_from(disk.position) != Ok(position) {
            return damaged(format!("it is number {} of file {}", disk.position, disk.ino));
        }
        let (count, next) = (usize::from(disk.count), (disk.next != 0).then_some(disk.next));
        let full = count == ATTRIBUTE_BYTES;
        if count == 0 || count > ATTRIBUTE_BYTES || next.is_some() && !full {
            return damaged(format!("it has {count} bytes"));
        }
        Ok(Self { bytes: bytes[PAYLOAD..PAYLOAD + count].to_vec(), next })
    }

    /// Writes it as the attribute header of file `ino` at `position` to its [`HEADER_BYTES`] bytes.
    pub fn encode(&self, bytes: &mut [u8], ino: u64, position: usize) {
        bytes[..HEADER_BYTES].fill(0);
        let count = u16::try_from(self.bytes.len()).unwrap_or(0);
        let position = u32::try_from(position).unwrap_or(u32::MAX);
        let next = self.next.unwrap_or(0);
        DiskAttributes { magic: MAGIC, count, position, ino, next }.encode(bytes, Endian::Little);
        bytes[PAYLOAD..PAYLOAD + self.bytes.len()].copy_from_slice(&self.bytes);
        seal(&mut bytes[..HEADER_BYTES], CHECKSUM);
    }
}

impl Chain {
    /// Reads the attributes of file `ino`, the first of whose attribute headers is `first`. `read`
    /// gets the number of a header and its position.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; those of `read`.
    pub fn read(
        first: Option<u64>,
        ino: u64,
        mut read: impl FnMut(u64, usize) -> Result<Piece>,
    ) -> Result<Self> {
        let (mut headers, mut bytes, mut next) = (Vec::new(), Vec::new(), first);
        while let Some(at) = next {
            if headers.len() == ATTRIBUTE_HEADERS_MAX {
                return Err(Error::corrupt("too many headers", format!("attributes of file {ino}")));
            }
            let piece = read(at, headers.len())?;
            headers.push(at);
            bytes.extend(piece.bytes);
            next = piece.next;
        }
        Ok(Self { headers, attributes: Attributes::decode(&bytes, ino)? })
    }
}

/// Returns true if a header is an attribute header.
#[must_use]
pub fn is_attributes(bytes: &[u8]) -> bool {
    bytes[..2] == MAGIC.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(count: u8) -> Attributes {
        let mut attributes = Attributes::default();
        for n in 0..count {
            let name = vec![b'a' + n; usize::from(n) + 1];
            attributes.set(1 + n % 2, &name, &vec![n; usize::from(n) * 40]).unwrap();
        }
        attributes
    }

    /// Promise: records read back are those written; no part of them and no other order is taken
    /// for attributes.
    #[test]
    fn records_round_trip() {
        let attributes = some(9);
        let bytes = attributes.encode().unwrap();
        assert_eq!(Attributes::decode(&bytes, 5).unwrap(), attributes);
        let ends: Vec<_> =
            (0..=bytes.len()).filter(|&end| Attributes::decode(&bytes[..end], 5).is_ok()).collect();
        assert_eq!(ends.len(), 10, "the ends of records");
        let twice = [bytes.clone(), bytes].concat();
        assert!(Attributes::decode(&twice, 5).is_err());
    }

    /// Promise: as many attributes as there can be fit, and not one byte more.
    #[test]
    fn attributes_have_a_limit() {
        let most = ATTRIBUTE_HEADERS_MAX * ATTRIBUTE_BYTES - RECORD_HEAD - 1;
        assert!(most >= 65536 + NAME_MAX, "Linux sets no longer value");
        let mut attributes = Attributes::default();
        attributes.set(1, b"n", &vec![3; most]).unwrap();
        assert!(attributes.encode().is_ok());
        attributes.set(1, b"n", &vec![3; most + 1]).unwrap();
        assert!(matches!(attributes.encode(), Err(Error::NoSpace)));
        assert!(matches!(attributes.set(1, &[b'n'; 256], b""), Err(Error::NameTooLong)));
        assert!(matches!(attributes.set(1, b"a\0b", b""), Err(Error::Invalid)));
    }

    /// Promise: a chain that leads back, is of another file, or has a hole in it is damage.
    #[test]
    fn chains_end() {
        let bytes = some(9).encode().unwrap();
        let read = |change: &dyn Fn(usize, &mut Piece) -> (u64, usize)| {
            Chain::read(Some(100), 5, |at, position| {
                let n = usize::try_from(at - 100).unwrap();
                let part = bytes.chunks(ATTRIBUTE_BYTES).nth(n).unwrap().to_vec();
                let next = ((n + 1) * ATTRIBUTE_BYTES < bytes.len()).then_some(at + 1);
                let mut piece = Piece { bytes: part, next };
                let (ino, number) = change(n, &mut piece);
                let mut header = [0; HEADER_BYTES];
                piece.encode(&mut header, ino, number);
                Piece::decode(&header, 5, at, position)
            })
        };
        let whole = read(&|n, _| (5, n)).unwrap();
        assert_eq!((whole.headers.len(), whole.attributes), (4, some(9)));
        assert!(read(&|n, _| (6, n)).is_err());
        assert!(read(&|n, _| (5, n + 1)).is_err());
        let back = |n, piece: &mut Piece| {
            piece.next = piece.next.map(|_| 100);
            (5, n)
        };
        assert!(read(&back).is_err());
        let short = |n, piece: &mut Piece| {
            piece.bytes.truncate(ATTRIBUTE_BYTES - 1);
            (5, n)
        };
        assert!(read(&short).is_err());
    }
}
