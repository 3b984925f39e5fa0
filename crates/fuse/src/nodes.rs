//! The references of the kernel to inodes.
//!
//! Each reply that names an inode gives the kernel one reference, and FORGET releases references.
//! When a session ends, the kernel does not release the rest. So the references are counted here,
//! and [`Nodes::release_all`] releases them: otherwise a file that was unlinked while open would
//! keep its blocks in an image that is marked clean.
//!
//! Each inode also has BSD's file flags here, which the kernel does not know.

use spindle_clock::Mutex;
use spindle_vfs::{Attr, FileSystem, Ino};
use std::collections::HashMap;

/// Number of shards; enough that worker threads rarely contend for one.
const SHARDS: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Node {
    references: u64,
    /// BSD's file flags.
    flags: u32,
    /// It was made without a name, and has none yet.
    nameable: bool,
}

/// The inodes to which the kernel has references.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    shards: [Mutex<HashMap<Ino, Node>>; SHARDS],
}

impl Nodes {
    fn shard(&self, ino: Ino) -> &Mutex<HashMap<Ino, Node>> {
        &self.shards[usize::try_from(ino.0 % SHARDS as u64).unwrap_or(0)]
    }

    /// Adds one reference. Call it before sending the reply that passes the reference to the
    /// kernel.
    pub(crate) fn add_reference(&self, attr: &Attr) {
        let mut shard = self.shard(attr.ino).lock();
        let node = shard.entry(attr.ino).or_insert(Node { references: 0, flags: 0, nameable: false });
        node.references += 1;
        node.flags = attr.flags;
        node.nameable &= attr.nlink == 0;
    }

    /// Notes that an inode that the kernel knows was made without a name.
    pub(crate) fn note_nameable(&self, ino: Ino) {
        if let Some(node) = self.shard(ino).lock().get_mut(&ino) {
            node.nameable = true;
        }
    }

    /// Returns true for an inode that was made without a name and has none yet.
    pub(crate) fn is_nameable(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|node| node.nameable)
    }

    /// Releases up to `count` references. Returns the number to release in the file system.
    pub(crate) fn release(&self, ino: Ino, count: u64) -> u64 {
        let mut shard = self.shard(ino).lock();
        let Some(node) = shard.get_mut(&ino) else { return 0 };
        let released = count.min(node.references);
        node.references -= released;
        if node.references == 0 {
            shard.remove(&ino);
        }
        released
    }

    /// Returns true while the kernel has references to the inode.
    pub(crate) fn knows(&self, ino: Ino) -> bool {
        self.shard(ino).lock().contains_key(&ino)
    }

    /// Returns the file flags, without a call to the file system.
    pub(crate) fn flags(&self, ino: Ino) -> u32 {
        self.shard(ino).lock().get(&ino).map_or(0, |node| node.flags)
    }

    /// Keeps new file flags of an inode that the kernel knows.
    pub(crate) fn set_flags(&self, attr: &Attr) {
        if let Some(node) = self.shard(attr.ino).lock().get_mut(&attr.ino) {
            node.flags = attr.flags;
        }
    }

    /// Returns the inodes to which the kernel has references, and their number.
    pub(crate) fn references(&self) -> Vec<(Ino, u64)> {
        let of = |shard: &Mutex<HashMap<Ino, Node>>| {
            shard.lock().iter().map(|(&ino, node)| (ino, node.references)).collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of).collect()
    }

    /// Releases all remaining references in the file system.
    pub(crate) fn release_all(&self, fs: &dyn FileSystem) {
        for (ino, references) in self.drain() {
            fs.forget(ino, references);
        }
    }

    fn drain(&self) -> Vec<(Ino, u64)> {
        let take = |shard: &Mutex<HashMap<Ino, Node>>| std::mem::take(&mut *shard.lock());
        self.shards.iter().flat_map(take).map(|(ino, node)| (ino, node.references)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_clock::Timestamp;
    use spindle_vfs::{FileKind, Rdev};

    fn attr(ino: u64) -> Attr {
        let time = Timestamp::default();
        Attr {
            ino: Ino(ino),
            generation: 1,
            kind: FileKind::Regular,
            perm: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: Rdev::default(),
            size: 0,
            blocks512: 0,
            blksize: 4096,
            atime: time,
            mtime: time,
            ctime: time,
            birthtime: None,
            flags: 0,
        }
    }

    /// Promise: exactly the added references are released, even if the kernel splits them or
    /// releases too many.
    #[test]
    fn references_balance() {
        let nodes = Nodes::default();
        for _ in 0..3 {
            nodes.add_reference(&attr(5));
        }
        nodes.add_reference(&attr(21));
        assert_eq!(nodes.release(Ino(5), 2), 2);
        assert_eq!(nodes.release(Ino(5), 2), 1);
        assert_eq!(nodes.release(Ino(5), 1), 0);
        nodes.add_reference(&attr(5));
        let mut references = nodes.references();
        references.sort_unstable();
        let mut rest = nodes.drain();
        rest.sort_unstable();
        assert_eq!(references, rest);
        assert_eq!(rest, [(Ino(5), 1), (Ino(21), 1)]);
        assert_eq!(nodes.drain(), []);
    }
}
