//! A set of inode numbers, as the maps of a stream have it: a bit for each, from inode 1.

use crate::header::RECORD;

/// A set of inode numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InodeMap(Vec<u8>);

/// Returns the byte and the bit of an inode; none for number 0, which no inode has.
fn place(ino: u32) -> Option<(usize, u8)> {
    let n = ino.checked_sub(1)?;
    Some((usize::try_from(n / 8).ok()?, 1 << (n % 8)))
}

impl InodeMap {
    /// Returns an empty set that has room for the inodes up to `last`, so that a map of it has so
    /// many bits.
    #[must_use]
    pub fn with_room(last: u32) -> Self {
        Self(vec![0; place(last).map_or(0, |(byte, _)| byte + 1)])
    }

    /// Returns the set whose map begins with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Adds an inode.
    pub fn insert(&mut self, ino: u32) {
        let Some((byte, bit)) = place(ino) else { return };
        if self.0.len() <= byte {
            self.0.resize(byte + 1, 0);
        }
        self.0[byte] |= bit;
    }

    /// Removes an inode.
    pub fn remove(&mut self, ino: u32) {
        if let Some((byte, bit)) = place(ino)
            && let Some(byte) = self.0.get_mut(byte)
        {
            *byte &= !bit;
        }
    }

    /// Returns true if the inode is in the set.
    #[must_use]
    pub fn contains(&self, ino: u32) -> bool {
        place(ino).is_some_and(|(byte, bit)| self.0.get(byte).is_some_and(|byte| byte & bit != 0))
    }

    /// Returns the inodes in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let numbers = |byte: usize| (0..8).map(move |bit| (bit, byte * 8 + bit + 1));
        self.0.iter().enumerate().filter(|(_, bits)| **bits != 0).flat_map(move |(at, &bits)| {
            numbers(at)
                .filter(move |(bit, _)| bits >> bit & 1 != 0)
                .filter_map(|(_, n)| u32::try_from(n).ok())
        })
    }

    /// Returns the bytes of the map, in whole records.
    #[must_use]
    pub fn records(&self) -> Vec<u8> {
        let mut bytes = self.0.clone();
        bytes.resize(bytes.len().next_multiple_of(RECORD).max(RECORD), 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the set has what was put into it, in order, bit 0 is inode 1, and maps are whole
    /// records.
    #[test]
    fn bits_count_from_inode_one() {
        let mut map = InodeMap::with_room(9);
        for ino in [2, 9, 8193, 1, 0] {
            map.insert(ino);
        }
        assert_eq!(map.iter().collect::<Vec<_>>(), [1, 2, 9, 8193]);
        map.remove(9);
        map.remove(1 << 30);
        assert!(map.contains(2) && !map.contains(9) && !map.contains(0) && !map.contains(u32::MAX));
        let bytes = map.records();
        assert_eq!((bytes.len(), bytes[0], bytes[1024]), (2 * RECORD, 0b11, 1));
        assert_eq!(InodeMap::from_bytes(bytes).iter().collect::<Vec<_>>(), [1, 2, 8193]);
        assert_eq!(InodeMap::default().records().len(), RECORD);
    }
}
