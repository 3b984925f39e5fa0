//! The references that the kernel holds.
//!
//! Each answer that names an inode gives the kernel one reference, and FORGET brings them back.
//! When a session ends the kernel does not bring back the rest, so they are counted here, and
//! [`Nodes::give_back`] returns them: otherwise a file that was unlinked while open would keep its
//! blocks in an image that calls itself clean.
//!
//! Beside the count stand BSD's file flags, of which the kernel knows nothing: whether a file may
//! be written at all.

use spindle_clock::Mutex;
use spindle_vfs::{Attr, FileSystem, Ino};
use std::collections::HashMap;

/// Enough that worker threads seldom meet on one.
const SHARDS: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Node {
    references: u64,
    /// BSD's file flags.
    flags: u32,
}

/// The inodes that the kernel knows.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    shards: [Mutex<HashMap<Ino, Node>>; SHARDS],
}

impl Nodes {
    fn shard(&self, ino: Ino) -> &Mutex<HashMap<Ino, Node>> {
        &self.shards[usize::try_from(ino.0 % SHARDS as u64).unwrap_or(0)]
    }

    /// Counts one reference, before the answer that gives it is sent.
    pub(crate) fn take(&self, attr: &Attr) {
        let mut shard = self.shard(attr.ino).lock();
        let node = shard.entry(attr.ino).or_insert(Node { references: 0, flags: 0 });
        node.references += 1;
        node.flags = attr.flags;
    }

    /// Takes `count` references back; says how many the file system is to be given back.
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

    /// Returns true while the kernel has references.
    pub(crate) fn knows(&self, ino: Ino) -> bool {
        self.shard(ino).lock().contains_key(&ino)
    }

    /// Returns the file flags, without asking the file system.
    pub(crate) fn flags(&self, ino: Ino) -> u32 {
        self.shard(ino).lock().get(&ino).map_or(0, |node| node.flags)
    }

    /// Gives the file system back all references that are still out.
    pub(crate) fn give_back(&self, fs: &dyn FileSystem) {
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

    /// Promise: exactly the references taken come back, however the kernel splits or overstates
    /// them.
    #[test]
    fn references_balance() {
        let nodes = Nodes::default();
        for _ in 0..3 {
            nodes.take(&attr(5));
        }
        nodes.take(&attr(21));
        assert_eq!(nodes.release(Ino(5), 2), 2);
        assert_eq!(nodes.release(Ino(5), 2), 1);
        assert_eq!(nodes.release(Ino(5), 1), 0);
        nodes.take(&attr(5));
        let mut rest = nodes.drain();
        rest.sort_unstable();
        assert_eq!(rest, [(Ino(5), 1), (Ino(21), 1)]);
        assert_eq!(nodes.drain(), []);
    }
}
