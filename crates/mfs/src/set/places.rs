//! Where the members were when the set was last opened to write: paths, by which the others can be
//! found when one is named.
//!
//! They are hints: a path leads to a member only if its label says so. So they need no order with
//! other writes, and damage to them costs nothing but a search.

use crate::format::checksum::{is_sealed, seal};
use spindle_device::{Device, Result};
use spindle_ondisk::{Endian, structure};

/// Byte of a member at which its list begins.
pub(crate) const PLACES_AT: u64 = 4096;
/// Bytes of the list.
const BYTES: usize = 16 << 10;
const MAGIC: [u8; 8] = *b"SpindPth";
const CHECKSUM: usize = 12;
const ENTRY: usize = 18;

structure! {
    /// The head of the list. An entry follows another: the identity of a member (16 bytes), the
    /// bytes of its path (2), and the path.
    pub struct DiskPlaces: 16 {
        /// `SpindPth`.
        0 magic: [u8; 8],
        /// Number of entries.
        8 count: u32,
        /// CRC-32C of the list.
        12 checksum: u32,
    }
}

/// A member and the path that it had.
pub type Place = ([u8; 16], String);

/// Reads the list of a member; an empty one if there is none.
///
/// # Errors
/// Device errors.
pub fn read_places(device: &dyn Device) -> Result<Vec<Place>> {
    let mut bytes = vec![0; BYTES];
    if device.info().size_bytes < PLACES_AT + BYTES as u64 {
        return Ok(Vec::new());
    }
    device.read_at(PLACES_AT, &mut bytes)?;
    Ok(decode(&bytes).unwrap_or_default())
}

/// Returns true if a list stands where that of a member would be which begins at byte `start`.
///
/// # Errors
/// Device errors.
pub(crate) fn has_places(disk: &dyn Device, start: u64) -> Result<bool> {
    let at = start.saturating_add(PLACES_AT);
    if at.checked_add(BYTES as u64).is_none_or(|end| end > disk.info().size_bytes) {
        return Ok(false);
    }
    let mut bytes = vec![0; BYTES];
    disk.read_at(at, &mut bytes)?;
    Ok(decode(&bytes).is_some())
}

fn decode(bytes: &[u8]) -> Option<Vec<Place>> {
    let head = DiskPlaces::decode(bytes, Endian::Little);
    if head.magic != MAGIC || !is_sealed(bytes, CHECKSUM) {
        return None;
    }
    let mut places = Vec::new();
    let mut rest = &bytes[DiskPlaces::SIZE..];
    for _ in 0..head.count {
        let (entry, after) = rest.split_at_checked(ENTRY)?;
        let len = usize::from(u16::from_le_bytes([entry[16], entry[17]]));
        let (path, after) = after.split_at_checked(len)?;
        places.push((entry[..16].try_into().ok()?, String::from_utf8(path.to_vec()).ok()?));
        rest = after;
    }
    Some(places)
}

/// Writes the list of a member, unless it has it already. Paths that find no room are left out.
///
/// # Errors
/// Device errors.
pub(crate) fn write_places(device: &dyn Device, places: &[Place]) -> Result<()> {
    if read_places(device)? == places {
        return Ok(());
    }
    let mut bytes = vec![0; BYTES];
    let (mut at, mut count) = (DiskPlaces::SIZE, 0);
    for (member, path) in places {
        let Ok(len) = u16::try_from(path.len()) else { continue };
        if at + ENTRY + path.len() > BYTES {
            continue;
        }
        bytes[at..at + 16].copy_from_slice(member);
        bytes[at + 16..at + ENTRY].copy_from_slice(&len.to_le_bytes());
        bytes[at + ENTRY..at + ENTRY + path.len()].copy_from_slice(path.as_bytes());
        at += ENTRY + path.len();
        count += 1;
    }
    DiskPlaces { magic: MAGIC, count, checksum: 0 }.encode(&mut bytes, Endian::Little);
    seal(&mut bytes, CHECKSUM);
    device.write_at(PLACES_AT, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_device::MemoryDevice;

    /// Promise: paths are read as they were written; too many of them, or damage, give fewer paths
    /// and no failure.
    #[test]
    fn paths_are_hints() {
        let device = MemoryDevice::new(64 << 10);
        assert!(read_places(&device).unwrap().is_empty());
        let places: Vec<_> = (0..40_u8).map(|n| ([n; 16], format!("/dev/{n}").repeat(80))).collect();
        write_places(&device, &places).unwrap();
        let found = read_places(&device).unwrap();
        assert!(found.len() == 29 && found[..] == places[..found.len()]);
        write_places(&device, &places[..3]).unwrap();
        assert_eq!(read_places(&device).unwrap(), places[..3]);
        let mut bytes = [0; 512];
        device.read_at(PLACES_AT, &mut bytes).unwrap();
        bytes[40] ^= 1;
        device.write_at(PLACES_AT, &bytes).unwrap();
        assert!(read_places(&device).unwrap().is_empty());
        assert!(read_places(&MemoryDevice::new(4096)).unwrap().is_empty());
    }
}
