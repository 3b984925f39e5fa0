//! The first directories: the root, and what some systems' newfs puts into it.
//!
//! FreeBSD makes `.snap` for snapshots; the systems up to 4.3BSD and Solaris make `lost+found` with
//! a whole block of empty entries, so that `fsck` need not allocate. Each starts on a block of its
//! own, as the first blocks of the first group.

use super::parameters::{Format, Resolved};
use crate::format::dialect::Dialect;
use crate::format::dinode::put_owner;
use crate::format::layout::{InodeFormat, Layout, Version};
use crate::format::ondisk::{DIRECT_HEADER, Dinode1, Dinode2, DirectHeader, dirsiz};
use crate::format::units::Frag;
use spindle_clock::Timestamp;
use spindle_ondisk::Endian;

/// The root's inode.
pub const ROOTINO: u32 = 2;
/// Kind of a directory in `d_type`.
const DT_DIR: u8 = 4;
const IFDIR: u16 = 0o040_000;
/// FreeBSD's group "operator".
const OPERATOR: u32 = 5;

/// A directory to be made.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub ino: u32,
    pub frag: Frag,
    /// Bytes.
    pub size: u32,
    mode: u16,
    /// User and group.
    owner: (u32, u32),
    nlink: i16,
    entries: Vec<(u32, &'static str)>,
}

/// Returns the directories of a new file system whose first group has its first `reserved`
/// fragments in use.
pub(super) fn directories(wishes: &Resolved, reserved: u64) -> Vec<Directory> {
    let frag = u64::from(wishes.bsize / wishes.fsize);
    let first = Frag(reserved.next_multiple_of(frag));
    let second = first + frag;
    let chunk = wishes.dialect.dirblksiz();
    let mut root = Directory {
        ino: ROOTINO,
        frag: first,
        size: chunk,
        mode: IFDIR | 0o755,
        owner: wishes.root_owner,
        nlink: 2,
        entries: vec![(ROOTINO, "."), (ROOTINO, "..")],
    };
    let child = ROOTINO + 1;
    let entries = vec![(child, "."), (ROOTINO, "..")];
    let below = match wishes.dialect {
        Dialect::FreeBsd if wishes.snap_dir => {
            root.entries.push((child, ".snap"));
            Directory {
                ino: child,
                frag: second,
                size: chunk,
                mode: IFDIR | 0o775,
                // Who has mounted it makes snapshots here.
                owner: if wishes.root_owner.0 == 0 { (0, OPERATOR) } else { wishes.root_owner },
                nlink: 2,
                entries,
            }
        }
        Dialect::Bsd43 | Dialect::Sun { .. } => {
            root.entries.push((child, "lost+found"));
            root.frag = second;
            let mode = IFDIR | if wishes.format == Format::Old { 0o755 } else { 0o700 };
            Directory { ino: child, frag: first, size: wishes.bsize, mode, owner: (0, 0), nlink: 2, entries }
        }
        _ => return vec![root],
    };
    root.nlink += 1;
    vec![root, below]
}

impl Directory {
    /// Returns the contents: the entries in the first chunk, the others empty.
    pub fn contents(&self, layout: &Layout) -> Vec<u8> {
        let (endian, chunk_bytes) = (layout.endian, layout.dirblksiz as usize);
        let mut bytes = vec![0; self.size.next_multiple_of(layout.fs_fsize) as usize];
        let mut at = 0;
        for (n, &(ino, name)) in self.entries.iter().enumerate() {
            let last = n + 1 == self.entries.len();
            let reclen = if last { chunk_bytes - at } else { dirsiz(name.len()) };
            put_head(&mut bytes[at..], layout.inode_format, ino, reclen, name.len(), endian);
            bytes[at + DIRECT_HEADER..at + DIRECT_HEADER + name.len()].copy_from_slice(name.as_bytes());
            at += reclen;
        }
        for chunk in bytes[..self.size as usize].chunks_mut(chunk_bytes).skip(1) {
            put_head(chunk, layout.inode_format, 0, chunk_bytes, 0, endian);
        }
        bytes
    }

    /// Writes the inode into its place, keeping the generation that is already there.
    pub fn put_inode(&self, layout: &Layout, now: Timestamp, inode: &mut [u8]) {
        let endian = layout.endian;
        let sectors = self.size.next_multiple_of(layout.fs_fsize) / 512;
        match layout.version {
            Version::Ufs1 => {
                let mut di = Dinode1::decode(inode, endian);
                let secs = crate::format::units::low_word(now.secs);
                di.di_mode = self.mode;
                di.di_nlink = self.nlink;
                di.di_size = self.size.into();
                (di.di_atime, di.di_mtime, di.di_ctime) = (secs, secs, secs);
                di.di_db[0] = i32::try_from(self.frag.0).unwrap_or(i32::MAX);
                di.di_blocks = sectors;
                put_owner(&mut di, layout.inode_format, self.owner);
                di.encode(inode, endian);
            }
            Version::Ufs2 => {
                let mut di = Dinode2::decode(inode, endian);
                let nanos = i32::try_from(now.nanos).unwrap_or(0);
                di.di_mode = self.mode;
                di.di_nlink = self.nlink;
                (di.di_uid, di.di_gid) = self.owner;
                di.di_size = self.size.into();
                di.di_blocks = sectors.into();
                (di.di_atime, di.di_mtime) = (now.secs, now.secs);
                (di.di_ctime, di.di_birthtime) = (now.secs, now.secs);
                (di.di_atimensec, di.di_mtimensec) = (nanos, nanos);
                (di.di_ctimensec, di.di_birthnsec) = (nanos, nanos);
                di.di_db[0] = i64::try_from(self.frag.0).unwrap_or(i64::MAX);
                di.encode(inode, endian);
            }
        }
    }
}

fn put_head(bytes: &mut [u8], format: InodeFormat, ino: u32, reclen: usize, namlen: usize, endian: Endian) {
    let d_reclen = u16::try_from(reclen).unwrap_or(0);
    let d_namlen = u8::try_from(namlen).unwrap_or(0);
    let (d_type, d_namlen) = match (format, endian) {
        (InodeFormat::New, _) => (if ino == 0 { 0 } else { DT_DIR }, d_namlen),
        // One length of 16 bits stands in the place of both.
        (_, Endian::Big) => (0, d_namlen),
        (_, _) => (d_namlen, 0),
    };
    DirectHeader { d_ino: ino, d_reclen, d_type, d_namlen }.encode(bytes, endian);
}
