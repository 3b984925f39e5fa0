//! The records of extended attributes of UFS2 (`sys/ufs/ufs/extattr.h`).
//!
//! A record is its length, name space, padding, length of the name, the name padded to eight bytes,
//! and the value padded to eight bytes ([`spindle_tree::xattr`] has the name spaces).

use spindle_ondisk::{Endian, Field};
use spindle_vfs::{Error, Result};

/// Bytes of a record before its name.
const HEADER: usize = 7;

/// One attribute.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its name space.
    pub space: u8,
    /// Its name, without the name space.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// The whole record.
    pub bytes: &'a [u8],
}

/// Returns the records of the attribute area of an inode, up to its end or the first damage, which
/// comes as `None`: a record that does not fit.
pub fn records(area: &[u8], endian: Endian) -> impl Iterator<Item = Option<Record<'_>>> {
    let mut rest = area;
    std::iter::from_fn(move || {
        // The area may end in padding too short for a record.
        if rest.len() < HEADER + 1 || u32::get(rest, endian) == 0 {
            return None;
        }
        let record = record_at(rest, endian);
        rest = record.as_ref().map_or(&[], |r| &rest[r.bytes.len()..]);
        Some(record)
    })
}

fn record_at(bytes: &[u8], endian: Endian) -> Option<Record<'_>> {
    let length = usize::try_from(u32::get(bytes, endian)).ok()?;
    let (space, padding, namelen) = (bytes[4], usize::from(bytes[5]), usize::from(bytes[6]));
    let value_at = (HEADER + namelen).next_multiple_of(8);
    let bytes = bytes.get(..length)?;
    let value = bytes.get(value_at..length.checked_sub(padding)?)?;
    Some(Record { space, name: &bytes[HEADER..HEADER + namelen], value, bytes })
}

/// Appends a record to an attribute area.
///
/// # Errors
/// [`Error::NameTooLong`], [`Error::NoSpace`].
pub fn push_record(area: &mut Vec<u8>, endian: Endian, space: u8, name: &[u8], value: &[u8]) -> Result<()> {
    let start = area.len();
    let namelen = u8::try_from(name.len()).map_err(|_| Error::NameTooLong)?;
    let padding = value.len().next_multiple_of(8) - value.len();
    area.extend([0; 4]);
    area.extend([space, u8::try_from(padding).unwrap_or(0), namelen]);
    area.extend_from_slice(name);
    area.resize(start + (HEADER + name.len()).next_multiple_of(8), 0);
    area.extend_from_slice(value);
    area.resize(area.len() + padding, 0);
    u32::try_from(area.len() - start).map_err(|_| Error::NoSpace)?.put(&mut area[start..], endian);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a record read back is the record written, in both byte orders, and nothing is read
    /// past damage.
    #[test]
    fn records_round_trip() {
        for endian in [Endian::Little, Endian::Big] {
            let mut area = Vec::new();
            for len in 0..20 {
                push_record(&mut area, endian, 1, &vec![b'n'; len + 1], &vec![7; len]).unwrap();
            }
            assert!(area.len().is_multiple_of(8));
            let lengths: Vec<_> = records(&area, endian).map(|r| r.unwrap().value.len()).collect();
            assert_eq!(lengths, (0..20).collect::<Vec<_>>());
            1_u32.put(&mut area, endian);
            assert!(records(&area, endian).next().unwrap().is_none());
        }
    }
}
