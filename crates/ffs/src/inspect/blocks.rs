//! A block read as what it is said to be.

use super::Inspector;
use super::owners::{Owner, structure};
use crate::check::EntryDamage;
use crate::check::walk::pointer_at;
use crate::format::entries::Entries;
use crate::format::units::Frag;

/// What stands in a block of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// An entry.
    Entry {
        /// Its byte in the block.
        at: usize,
        /// Inode that it names; 0 for none.
        ino: u32,
        /// `d_type`, where the format has it.
        kind: Option<u8>,
        /// The name.
        name: Vec<u8>,
    },
    /// Bytes up to the end of a chunk that are no entries.
    Broken {
        /// The first one in the block.
        at: usize,
        /// Number of them.
        bytes: usize,
        /// What is wrong.
        why: EntryDamage,
    },
}

impl Inspector<'_> {
    /// Returns what stands in `bytes` as a block of a directory.
    #[must_use]
    pub fn directory_slots(&self, bytes: &[u8]) -> Vec<Slot> {
        Entries::new(self.layout, bytes)
            .map(|slot| match slot {
                Ok(entry) => {
                    Slot::Entry { at: entry.at, ino: entry.ino, kind: entry.kind, name: entry.name.to_vec() }
                }
                Err(broken) => Slot::Broken { at: broken.at, bytes: broken.bytes, why: broken.why },
            })
            .collect()
    }

    /// Returns the pointers in `bytes` as an indirect block. One that is negative is far out of
    /// range.
    #[must_use]
    pub fn pointers(&self, bytes: &[u8]) -> Vec<u64> {
        bytes.chunks_exact(self.layout.pointer_size()).map(|bytes| pointer_at(self.layout, bytes)).collect()
    }

    /// Returns the structure of the file system itself that a fragment belongs to; none if it can
    /// belong to a file.
    #[must_use]
    pub fn structure_at(&self, frag: u64) -> Option<Owner> {
        self.layout.contains(Frag(frag), 1).then(|| structure(self.layout, frag)).flatten()
    }
}
