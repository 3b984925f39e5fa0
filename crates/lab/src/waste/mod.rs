//! Table 1 of the 1984 paper: what an organisation of the disk costs for a given population of
//! files.
//!
//! A [`Survey`] counts every object and adds up, for each [`Organisation`], what its data takes
//! in whole blocks or fragments, its inodes and its indirect blocks. What the paper counts, as far
//! as it says: space used over space in which files stand end to end; the waste in percent of the
//! latter (807.8 over 775.2 is its 4.2 %).
//!
//! What is ours to settle: inodes count where they are in use (how many a file system has is its
//! maker's choice, and most are free); a directory is a file of 16 bytes an entry, as in the old
//! file system, and in the new one of chunks; the free pieces of a broken block are free;
//! superblocks and group blocks count in proportion to the space they manage.

mod organisation;

pub use organisation::{ORGANISATIONS, Organisation};

use serde::Serialize;
use std::ops::Range;

/// Bytes of a directory entry of the old file system.
const OLD_ENTRY: u64 = 16;

/// An object that takes space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object<'a> {
    /// A regular file without holes, of so many bytes.
    File(u64),
    /// A regular file of which only some ranges hold data. They rise.
    Sparse(u64, &'a [Range<u64>]),
    /// A directory, by the lengths of the names in it besides `.` and `..`.
    Directory(&'a [usize]),
    /// A symbolic link to a path of so many bytes.
    Symlink(u64),
    /// A device, pipe or socket.
    Special,
}

/// Bytes in an organisation, by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Blocks and fragments with data, unused ends included.
    pub data: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// Blocks of pointers.
    pub indirect: u64,
    /// Superblock copies, maps and summaries, in proportion to the rest.
    pub maps: u64,
}

impl Usage {
    /// Returns all of it.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.data + self.inodes + self.indirect + self.maps
    }
}

/// The space that a population takes in each organisation.
#[derive(Clone, Debug)]
pub struct Survey {
    objects: u64,
    bytes: u64,
    usage: Vec<(Organisation, Usage)>,
}

impl Survey {
    /// Returns an empty survey of these organisations.
    #[must_use]
    pub fn new(organisations: &[Organisation]) -> Self {
        Self {
            objects: 0,
            bytes: 0,
            usage: organisations.iter().map(|&organisation| (organisation, Usage::default())).collect(),
        }
    }

    /// Counts an object.
    pub fn add(&mut self, object: Object<'_>) {
        self.objects += 1;
        self.bytes += data_bytes(object);
        for (organisation, usage) in &mut self.usage {
            organisation.add(object, usage);
        }
    }

    /// Returns the number of objects counted.
    #[must_use]
    pub const fn objects(&self) -> u64 {
        self.objects
    }

    /// Returns the bytes of data counted: what they would take end to end.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the space that each organisation takes, in the order given to `new`.
    pub fn usage(&self) -> impl Iterator<Item = (Organisation, Usage)> + '_ {
        self.usage.iter().map(|&(organisation, usage)| (organisation, organisation.with_maps(usage)))
    }

    /// Returns the space beyond the data, in percent of the data; 0 without any data.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Percentages.
    pub fn percent_waste(&self, usage: &Usage) -> f64 {
        if self.bytes == 0 {
            return 0.0;
        }
        (usage.total() as f64 / self.bytes as f64 - 1.0) * 100.0
    }
}

/// Returns the data of an object, end to end.
fn data_bytes(object: Object<'_>) -> u64 {
    match object {
        Object::File(size) | Object::Symlink(size) => size,
        Object::Sparse(size, extents) => {
            extents.iter().map(|range| range.end.min(size).saturating_sub(range.start)).sum()
        }
        Object::Directory(names) => OLD_ENTRY * (2 + names.len() as u64),
        Object::Special => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    fn usage(organisation: Organisation, object: Object<'_>) -> (u64, u64, u64) {
        let mut survey = Survey::new(&[organisation]);
        survey.add(object);
        let (_, usage) = survey.usage().next().unwrap();
        (usage.data, usage.inodes, usage.indirect)
    }

    /// Promise: the paper's own example, 11,000 bytes on a 4096/1024 file system, takes two blocks
    /// and three fragments.
    #[test]
    fn the_papers_example() {
        let fast = Organisation::Fast { bsize: 4096, fsize: 1024, ufs2: false, short_links: false };
        assert_eq!(usage(fast, Object::File(11_000)), (2 * 4096 + 3 * 1024, 128, 0));
        assert_eq!(usage(Organisation::Old { block: 1024 }, Object::File(11_000)), (11 * 1024, 64, 1024));
        assert_eq!(usage(Organisation::Packed, Object::File(11_000)), (11_000, 0, 0));
        assert_eq!(usage(Organisation::Aligned { to: 512 }, Object::File(11_000)), (22 * 512, 0, 0));
    }

    /// Promise: holes take no space, but the last block is there; indirect blocks count once each.
    #[test]
    fn holes_and_indirect_blocks() {
        let fast = Organisation::Fast { bsize: 4096, fsize: 512, ufs2: false, short_links: false };
        let far = (12 + 1024 + 5000) * 4096_u64;
        assert_eq!(
            usage(fast, Object::Sparse(far + 4096, from_ref(&(far..far + 100)))),
            (4096, 128, 2 * 4096)
        );
        assert_eq!(usage(fast, Object::Sparse(1 << 20, &[])), (4096, 128, 4096));
        // 12 direct, 1024 by the single, then a double with two blocks below it.
        let size = (12 + 1024 + 1025) * 4096;
        assert_eq!(usage(fast, Object::File(size)), (size, 128, 4 * 4096));
        let halves = [0..size / 2, size / 2 + 7..size];
        assert_eq!(usage(fast, Object::Sparse(size, &halves)), (size, 128, 4 * 4096));
    }

    /// Promise: directories take whole chunks in the new file system and 16 bytes an entry in the
    /// old.
    #[test]
    fn directories_and_links() {
        let fast = Organisation::Fast { bsize: 8192, fsize: 1024, ufs2: true, short_links: true };
        assert_eq!(usage(fast, Object::Directory(&[255; 2])), (1024, 256, 0));
        assert_eq!(usage(fast, Object::Directory(&[255; 3])), (2048, 256, 0));
        assert_eq!(usage(Organisation::Old { block: 512 }, Object::Directory(&[3; 31])), (1024, 64, 0));
        assert_eq!(usage(fast, Object::Symlink(119)), (0, 256, 0));
        assert_eq!(usage(fast, Object::Symlink(120)), (1024, 256, 0));
        assert_eq!(usage(fast, Object::Special), (0, 256, 0));
    }

    /// Promise: an empty survey wastes nothing.
    #[test]
    fn nothing() {
        let survey = Survey::new(ORGANISATIONS);
        assert!(survey.usage().all(|(_, usage)| survey.percent_waste(&usage) == 0.0));
    }
}
