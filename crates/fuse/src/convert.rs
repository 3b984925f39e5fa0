//! Conversion between the values of `spindle-vfs` and those of the kernel.
//!
//! The kernel's number of the root is always 1. So [`NodeIds`] exchanges the number 1 with the
//! root's inode number.

use crate::protocol::NodeId;
use spindle_clock::Timestamp;
use spindle_vfs::{Attr, FileKind, Ino, Rdev};

/// Mapping between inode numbers and the kernel's numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeIds {
    root: Ino,
}

impl NodeIds {
    pub(crate) const fn new(root: Ino) -> Self {
        Self { root }
    }

    const fn swap(self, number: u64) -> u64 {
        if number == NodeId::ROOT.0 {
            self.root.0
        } else if number == self.root.0 {
            NodeId::ROOT.0
        } else {
            number
        }
    }

    pub(crate) const fn node(self, ino: Ino) -> NodeId {
        NodeId(self.swap(ino.0))
    }

    pub(crate) const fn ino(self, node: NodeId) -> Ino {
        Ino(self.swap(node.0))
    }
}

/// Owner, group and permissions that are shown instead of those of the files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShownAttrs {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) file_mask: Option<u32>,
    pub(crate) dir_mask: Option<u32>,
}

impl ShownAttrs {
    fn perm(self, attr: &Attr) -> u32 {
        let mask = match attr.kind {
            FileKind::Directory => self.dir_mask,
            FileKind::Symlink => None,
            _ => self.file_mask,
        };
        mask.map_or(attr.perm & 0o7777, |mask| 0o777 & !mask)
    }
}

/// The attributes as `stat` shows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileAttr {
    /// The kernel's number; 0 means that the name does not exist.
    pub(crate) node: NodeId,
    pub(crate) size: u64,
    /// Allocated blocks of 512 bytes.
    pub(crate) blocks: u64,
    pub(crate) atime: Timestamp,
    pub(crate) mtime: Timestamp,
    pub(crate) ctime: Timestamp,
    /// Type and permissions.
    pub(crate) mode: u32,
    pub(crate) nlink: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u32,
    pub(crate) blksize: u32,
}

/// Returns the attributes as `stat` shows them, with the kernel's number of the inode.
pub(crate) fn file_attr(node: NodeId, attr: &Attr, shown_attrs: ShownAttrs) -> FileAttr {
    FileAttr {
        node,
        size: attr.size,
        blocks: attr.blocks512,
        atime: attr.atime,
        mtime: attr.mtime,
        ctime: attr.ctime,
        mode: attr.kind.mode_bits() | shown_attrs.perm(attr),
        nlink: attr.nlink,
        uid: shown_attrs.uid.unwrap_or(attr.uid),
        gid: shown_attrs.gid.unwrap_or(attr.gid),
        rdev: encode_rdev(attr.rdev),
        blksize: attr.blksize,
    }
}

/// Returns attributes with the number 0, which mean that a name does not exist.
pub(crate) const fn absent() -> FileAttr {
    const EPOCH: Timestamp = Timestamp { secs: 0, nanos: 0 };
    FileAttr {
        node: NodeId(0),
        size: 0,
        blocks: 0,
        atime: EPOCH,
        mtime: EPOCH,
        ctime: EPOCH,
        mode: FileKind::Regular.mode_bits(),
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
    }
}

/// Returns the kernel's 32-bit device number (`new_encode_dev` of Linux `kdev_t.h`): 12 bits of
/// major, 20 of minor.
pub(crate) const fn encode_rdev(rdev: Rdev) -> u32 {
    let (major, minor) = (rdev.major & 0xfff, rdev.minor & 0xf_ffff);
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

pub(crate) const fn decode_rdev(dev: u32) -> Rdev {
    Rdev { major: (dev >> 8) & 0xfff, minor: (dev & 0xff) | ((dev >> 12) & 0xf_ff00) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: for any number of the root, all inodes have different kernel numbers, and the
    /// two conversions are inverse.
    #[test]
    fn node_numbers_are_swapped_with_the_root() {
        for root in [1, 2, 7] {
            let ids = NodeIds::new(Ino(root));
            assert_eq!(ids.node(Ino(root)), NodeId::ROOT);
            let mut seen = std::collections::BTreeSet::new();
            for n in 1..10 {
                assert_eq!(ids.ino(ids.node(Ino(n))), Ino(n));
                assert!(seen.insert(ids.node(Ino(n)).0));
            }
        }
    }

    /// Promise: device numbers of 12 bits of major and 20 bits of minor number are converted in
    /// both directions.
    #[test]
    fn device_numbers() {
        for (major, minor) in [(0, 0), (8, 1), (0xfff, 0xf_ffff), (1, 0x100), (259, 300)] {
            let rdev = Rdev { major, minor };
            assert_eq!(decode_rdev(encode_rdev(rdev)), rdev);
        }
        assert_eq!(encode_rdev(Rdev { major: 8, minor: 1 }), 0x801);
    }
}
