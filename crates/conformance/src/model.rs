//! The file system that is obviously right: everything in memory, every operation with the shortest
//! code that meets the contract of [`FileSystem`]. Others are compared with it.
//!
//! Where several errors apply, the order is that of the checks below, which is Linux's: the
//! directory (`ESTALE`, `ENOTDIR`), the names (`EINVAL`, `ENAMETOOLONG`), the inodes that they name
//! (`ENOENT`, `EEXIST`), loops (`EINVAL`), kinds (`EISDIR`, `ENOTDIR`), emptiness (`ENOTEMPTY`),
//! limits (`EMLINK`, `EFBIG`, `EOVERFLOW`), space (`ENOSPC`).

#![allow(clippy::cast_possible_truncation, reason = "lengths and offsets within buffers fit in memory")]

mod blocks;
mod operations;
mod options;
mod tree;

pub use options::ModelOptions;

use blocks::Blocks;
use spindle_clock::{Clock, Mutex, MutexGuard, Timestamp};
use spindle_vfs::{
    AtimePolicy, Attr, Error, FileKind, FileSystem, Ino, NewNode, Privilege, Rdev, Result, SetTime,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tree::{Body, Inode, Names, Tree};

const ROOT: Ino = Ino(2);
/// Largest name of an attribute with its name space, and largest value, in bytes (Linux's
/// `XATTR_*_MAX`).
const XATTR_NAME_MAX: usize = 255;
const XATTR_VALUE_MAX: usize = 65536;

/// The model file system.
pub struct ModelFs {
    options: ModelOptions,
    clock: Arc<dyn Clock>,
    tree: Mutex<Tree>,
    unmounted: AtomicBool,
}

impl std::fmt::Debug for ModelFs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelFs").field("options", &self.options).finish_non_exhaustive()
    }
}

impl ModelFs {
    /// Returns an empty file system whose times come from `clock`.
    #[must_use]
    pub fn new(options: ModelOptions, clock: Arc<dyn Clock>) -> Self {
        let tree = Tree::new(ROOT);
        let fs = Self { options, clock, tree: Mutex::new(tree), unmounted: AtomicBool::new(false) };
        let node = NewNode::new(FileKind::Directory, 0o755);
        let mut tree = fs.tree.lock();
        let root = tree.new_ino();
        let mut root = fs.new_inode(&mut tree, root, &node);
        root.body = Body::Directory(Names::new(ROOT));
        root.references = 1;
        tree.inodes.insert(ROOT, root);
        drop(tree);
        fs
    }

    /// Makes all references void and drops inodes without names, as unmounting and mounting does.
    pub fn remount(&self) {
        self.void_references();
        self.unmounted.store(false, Ordering::Release);
    }

    fn void_references(&self) {
        let mut tree = self.tree.lock();
        let all: Vec<Ino> = tree.inodes.keys().copied().collect();
        for ino in all {
            if let Ok(inode) = tree.get_mut(ino) {
                inode.references = u64::from(ino == ROOT);
            }
            tree.free_if_dead(ino);
        }
    }

    /// Returns the contradictions to the model's own invariants; none if it is right.
    #[must_use]
    pub fn check(&self) -> Vec<String> {
        self.tree.lock().complaints()
    }

    fn now(&self) -> Timestamp {
        self.stored_time(self.clock.now())
    }

    /// Returns the time as the format stores it.
    fn stored_time(&self, time: Timestamp) -> Timestamp {
        Timestamp::new(time.secs, time.nanos - time.nanos % self.options.limits.time_granularity_ns)
    }

    fn given_time(&self, time: Timestamp) -> Result<Timestamp> {
        let (first, last) = self.options.limits.time_range;
        if time.nanos >= 1_000_000_000 {
            return Err(Error::Invalid);
        }
        if time.secs < first || time.secs > last {
            return Err(Error::Overflow);
        }
        Ok(self.stored_time(time))
    }

    fn set_time(&self, time: SetTime) -> Result<Timestamp> {
        match time {
            SetTime::Now => Ok(self.now()),
            SetTime::At(time) => self.given_time(time),
        }
    }

    /// Returns the tree for a change.
    fn change(&self) -> Result<MutexGuard<'_, Tree>> {
        if self.read_only() { Err(Error::ReadOnly) } else { Ok(self.tree.lock()) }
    }

    fn new_inode(&self, tree: &mut Tree, ino: Ino, node: &NewNode<'_>) -> Inode {
        let now = self.now();
        let generation = tree.next_generation;
        tree.next_generation += 1;
        let is_device = matches!(node.kind, FileKind::BlockDevice | FileKind::CharDevice);
        let attr = Attr {
            ino,
            generation,
            kind: node.kind,
            perm: node.perm & 0o7777,
            nlink: if node.kind == FileKind::Directory { 2 } else { 1 },
            uid: node.uid,
            gid: node.gid,
            rdev: if is_device { node.rdev } else { Rdev::default() },
            size: if node.kind == FileKind::Symlink { node.target.len() as u64 } else { 0 },
            blocks512: 0,
            blksize: self.options.block_bytes,
            atime: now,
            mtime: now,
            ctime: now,
            birthtime: self.options.limits.birthtime.then_some(now),
            flags: 0,
        };
        let body = match node.kind {
            FileKind::Regular => Body::File(Blocks::new(u64::from(self.options.block_bytes))),
            FileKind::Directory => Body::Directory(Names::new(ino)),
            FileKind::Symlink => Body::Symlink(node.target.to_vec()),
            _ => Body::Node,
        };
        Inode { attr, body, xattrs: BTreeMap::new(), references: 1, nameable: false }
    }

    fn attr(&self, inode: &Inode) -> Attr {
        let mut attr = inode.attr.clone();
        match &inode.body {
            Body::File(blocks) => {
                attr.blocks512 = blocks.count() * u64::from(self.options.block_bytes) / 512;
            }
            Body::Directory(names) => attr.size = 512 * (1 + names.from(0).count() as u64 / 16),
            _ => {}
        }
        attr
    }

    fn check_name(&self, name: &[u8]) -> Result<()> {
        if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
            Err(Error::Invalid)
        } else if name.len() > self.options.limits.name_max {
            Err(Error::NameTooLong)
        } else {
            Ok(())
        }
    }

    /// Returns a directory that can take new names, that is, one that was not removed.
    fn living<'a>(&self, tree: &'a Tree, dir: Ino, name: &[u8]) -> Result<&'a Names> {
        let names = tree.names(dir)?;
        self.check_name(name)?;
        if tree.get(dir)?.attr.nlink == 0 { Err(Error::NotFound) } else { Ok(names) }
    }

    /// Sets the times of an inode whose data (or names) changed.
    fn touch(&self, tree: &mut Tree, ino: Ino) -> Result<()> {
        let now = self.now();
        let attr = &mut tree.get_mut(ino)?.attr;
        attr.mtime = now;
        attr.ctime = now;
        Ok(())
    }

    /// Writes as much as there is space for.
    fn write_bytes(
        &self,
        tree: &mut Tree,
        ino: Ino,
        offset: u64,
        data: &[u8],
        by: Privilege,
    ) -> Result<usize> {
        tree.blocks(ino)?;
        let end = offset.checked_add(data.len() as u64).ok_or(Error::TooBig)?;
        if data.is_empty() {
            return Ok(0);
        }
        if end > self.options.limits.file_size_max {
            return Err(Error::TooBig);
        }
        let available = self.available(tree, by);
        let end = tree.blocks(ino)?.reach(&(offset..end), available);
        if end == offset {
            return Err(Error::NoSpace);
        }
        let len = (end - offset) as usize;
        tree.change_blocks(ino, |blocks| blocks.write(offset, &data[..len]))?;
        let attr = &mut tree.get_mut(ino)?.attr;
        attr.size = attr.size.max(end);
        Ok(len)
    }

    /// Sets the access time of an inode that was read.
    fn accessed(&self, inode: &mut Inode) {
        let now = self.now();
        let attr = &mut inode.attr;
        let old = attr.atime <= attr.mtime || attr.atime <= attr.ctime || now.secs - attr.atime.secs >= 86400;
        let set = match self.options.atime {
            AtimePolicy::Never => false,
            AtimePolicy::Relative => old,
            AtimePolicy::Always => true,
        };
        if set && !self.read_only() {
            attr.atime = now;
        }
    }

    /// Returns the number of blocks that `by` may still use.
    fn available(&self, tree: &Tree, by: Privilege) -> u64 {
        let reserve = if by.is_root() { 0 } else { self.options.reserve_blocks };
        self.options.blocks.saturating_sub(reserve).saturating_sub(tree.blocks_used)
    }

    /// Removes one name of `ino`.
    fn drop_name(&self, tree: &mut Tree, ino: Ino) -> Result<()> {
        let now = self.now();
        let inode = tree.get_mut(ino)?;
        inode.attr.ctime = now;
        if inode.attr.kind == FileKind::Directory {
            inode.attr.nlink = 0;
        } else {
            inode.attr.nlink -= 1;
        }
        tree.free_if_dead(ino);
        Ok(())
    }

    fn is_dir(tree: &Tree, ino: Ino) -> Result<bool> {
        Ok(tree.get(ino)?.attr.kind == FileKind::Directory)
    }

    /// Makes directory `ino` a child of `to` instead of `from`.
    fn reparent(tree: &mut Tree, ino: Ino, from: Ino, to: Ino) -> Result<()> {
        tree.names_mut(ino)?.parent = to;
        tree.get_mut(from)?.attr.nlink -= 1;
        tree.get_mut(to)?.attr.nlink += 1;
        Ok(())
    }

    fn check_xattr(&self, name: &[u8]) -> Result<()> {
        let spaces = [&b"user."[..], b"system.", b"trusted."];
        let rest = spaces.iter().find_map(|space| name.strip_prefix(*space));
        match rest {
            _ if !self.options.limits.xattrs => Err(Error::NotSupported),
            None => Err(Error::NotSupported),
            Some(b"") => Err(Error::Invalid),
            Some(_) if name.len() > XATTR_NAME_MAX => Err(Error::Range),
            Some(_) => Ok(()),
        }
    }
}
