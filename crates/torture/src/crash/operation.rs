//! Operations by path, and the driver that runs them on any file system.
//!
//! Each write has a serial number, which alone determines its bytes. So bytes that are found after
//! a crash show which write they come from.

use super::oracle::{Identity, Tree};
use spindle_ffs::Ffs;
use spindle_vfs::{
    Cred, Error, FallocateMode, FileKind, FileSystem, Ino, NewNode, Privilege, Rdev, RenameMode, Result,
    SetAttr, XattrMode,
};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// One operation. Paths are relative to the root, with `/` between names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Makes a file that is no symbolic link.
    Create(String, FileKind),
    /// Makes a symbolic link with a target of this many bytes.
    Symlink(String, usize),
    /// Links the file of the first path as the second.
    Link(String, String),
    /// Removes a name.
    Unlink(String),
    /// Removes a directory.
    Rmdir(String),
    /// Renames the first to the second.
    Rename(String, String, RenameMode),
    /// Sets the size in bytes.
    Truncate(String, u64),
    /// Writes bytes: offset and length.
    Write(String, u64, usize),
    /// Allocates, zeroes or frees bytes: offset and length.
    Fallocate(String, FallocateMode, u64, u64),
    /// Sets the permission bits.
    Chmod(String, u32),
    /// Sets owner and group.
    Chown(String, u32, u32),
    /// Sets an extended attribute to a value of this many bytes.
    SetXattr(String, &'static str, usize),
    /// Removes an extended attribute.
    RemoveXattr(String, &'static str),
    /// Opens the first path. The second, which begins with `#`, then stands for this inode, even
    /// without a name.
    Open(String, String),
    /// Makes a file without a name in the directory of the first path, for which the second stands.
    OpenUnnamed(String, String),
    /// Closes the inode that this stands for.
    Close(String),
    /// Declares all free space unused to the device.
    Trim,
    /// Makes a snapshot of this path.
    MakeSnapshot(String),
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(path, kind) => write!(f, "create {kind:?} {path}"),
            Self::Symlink(path, len) => write!(f, "symlink of {len} bytes {path}"),
            Self::Link(from, to) => write!(f, "link {from} as {to}"),
            Self::Unlink(path) => write!(f, "unlink {path}"),
            Self::Rmdir(path) => write!(f, "rmdir {path}"),
            Self::Rename(from, to, mode) => write!(f, "rename {mode:?} {from} to {to}"),
            Self::Truncate(path, size) => write!(f, "truncate {path} to {size}"),
            Self::Write(path, offset, len) => write!(f, "write {len} at {offset} of {path}"),
            Self::Fallocate(path, mode, offset, len) => write!(f, "{mode:?} {len} at {offset} of {path}"),
            Self::Chmod(path, perm) => write!(f, "chmod {path} {perm:o}"),
            Self::Chown(path, uid, gid) => write!(f, "chown {path} {uid}:{gid}"),
            Self::SetXattr(path, name, len) => write!(f, "setxattr {path} {name} of {len} bytes"),
            Self::RemoveXattr(path, name) => write!(f, "removexattr {path} {name}"),
            Self::Open(path, handle) => write!(f, "open {path} as {handle}"),
            Self::OpenUnnamed(path, handle) => write!(f, "make {handle} without a name in /{path}"),
            Self::Close(path) => write!(f, "close {path}"),
            Self::Trim => f.write_str("trim"),
            Self::MakeSnapshot(path) => write!(f, "make snapshot {path}"),
        }
    }
}

/// The files that are made durable after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Nothing.
    None,
    /// The file of the operation; after a removal, the directory.
    Fsync,
    /// The same file, only its data and size.
    Fdatasync,
    /// Everything.
    All,
}

impl Sync {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::Fsync, Self::Fdatasync, Self::All];
}

/// An operation, and what is made durable after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The operation.
    pub op: Op,
    /// The files that are made durable.
    pub sync: Sync,
}

/// Returns the bytes of write `serial`.
#[must_use]
pub fn bytes_of(serial: u64, len: usize) -> Vec<u8> {
    // Never zero, so that a zero byte is one that was not written.
    let mut x = serial.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(|| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        1 + u8::try_from(x % 255).unwrap_or(0)
    })
    .take(len)
    .collect()
}

/// Splits a path into its directory and its last name.
#[must_use]
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Runs operations on a file system.
pub struct Driver<'a> {
    fs: &'a dyn FileSystem,
    /// The same, if it can have snapshots. Without that a snapshot is an empty file, of which the
    /// tree that it should hold is kept.
    maker: Option<&'a Ffs>,
    open: BTreeMap<String, Ino>,
    snapshots: HashMap<Identity, Arc<Tree>>,
}

impl<'a> Driver<'a> {
    /// Returns a driver that has nothing open.
    #[must_use]
    pub fn new(fs: &'a dyn FileSystem) -> Self {
        Self { fs, maker: None, open: BTreeMap::new(), snapshots: HashMap::new() }
    }

    /// Returns the same for a file system that makes snapshots.
    #[must_use]
    pub fn of_ffs(ffs: &'a Ffs) -> Self {
        Self { maker: Some(ffs), ..Self::new(ffs) }
    }

    /// Returns the tree, with the files that are open, and what snapshots should hold.
    ///
    /// # Errors
    /// The first of the file system's, with its path.
    pub fn tree(&self) -> std::result::Result<Tree, String> {
        let mut tree = Tree::of(self.fs, self.held())?;
        for (node, identity) in tree.nodes.iter().zip(&tree.identities) {
            if let Some(held) = self.snapshots.get(identity) {
                tree.snapshots.insert(node.path.clone(), Arc::clone(held));
            }
        }
        Ok(tree)
    }

    /// Returns the inodes that are open.
    pub fn held(&self) -> impl Iterator<Item = Ino> {
        self.open.values().copied()
    }

    /// Returns the inode of a path, or of an open file.
    ///
    /// # Errors
    /// Those of looking it up.
    pub fn resolve(&self, path: &str) -> Result<Ino> {
        if let Some(&ino) = self.open.get(path) {
            return Ok(ino);
        }
        path.split('/').filter(|name| !name.is_empty()).try_fold(self.fs.root(), |dir, name| {
            let attr = self.fs.lookup(dir, name.as_bytes())?;
            self.fs.forget(attr.ino, 1);
            Ok(attr.ino)
        })
    }

    fn parent<'p>(&self, path: &'p str) -> Result<(Ino, &'p [u8])> {
        let (dir, name) = split(path);
        Ok((self.resolve(dir)?, name.as_bytes()))
    }

    fn create(&self, path: &str, kind: FileKind, target: &[u8]) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        let perm = if kind == FileKind::Directory { 0o755 } else { 0o644 };
        let rdev = Rdev { major: 1, minor: 3 };
        let node = NewNode { kind, perm, uid: 1, gid: 2, masked: 0, rdev, target };
        let made = self.fs.create(dir, name, &node, Privilege::Root)?;
        self.fs.forget(made.ino, 1);
        Ok(())
    }

    fn make_snapshot(&mut self, path: &str) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        if let Some(ffs) = self.maker {
            return ffs.make_snapshot(dir, name, &Cred::root()).map(drop);
        }
        let mut held = Tree::of(self.fs, std::iter::empty()).map_err(|what| Error::corrupt(what, "model"))?;
        // In the view of a snapshot, older ones are empty files.
        held.snapshots.clear();
        let made = self.fs.create(dir, name, &NewNode::new(FileKind::Regular, 0o400), Privilege::Root)?;
        self.fs.forget(made.ino, 1);
        self.snapshots.insert((made.ino, made.generation), Arc::new(held));
        Ok(())
    }

    /// Runs an operation, and returns the bytes that a write has written. A write stops after
    /// `limit` bytes, where the space of another file system ran out.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn apply(&mut self, op: &Op, serial: u64, limit: usize) -> Result<usize> {
        let (fs, by) = (self.fs, Privilege::Root);
        match op {
            Op::Create(path, kind) => self.create(path, *kind, b""),
            Op::Symlink(path, len) => self.create(path, FileKind::Symlink, &bytes_of(serial, *len)),
            Op::Link(from, to) => {
                let (ino, (dir, name)) = (self.resolve(from)?, self.parent(to)?);
                fs.link(ino, dir, name, by).map(|attr| fs.forget(attr.ino, 1))
            }
            Op::Unlink(path) => self.parent(path).and_then(|(dir, name)| fs.unlink(dir, name)),
            Op::Rmdir(path) => self.parent(path).and_then(|(dir, name)| fs.rmdir(dir, name)),
            Op::Rename(from, to, mode) => {
                let ((from_dir, from), (to_dir, to)) = (self.parent(from)?, self.parent(to)?);
                fs.rename(from_dir, from, to_dir, to, *mode, by)
            }
            Op::Truncate(path, size) => {
                let set = SetAttr { size: Some(*size), ..SetAttr::default() };
                fs.setattr(self.resolve(path)?, &set, by).map(drop)
            }
            Op::Write(path, offset, len) => {
                let bytes = bytes_of(serial, *len);
                return fs.write(self.resolve(path)?, *offset, &bytes[..limit.min(*len)], by);
            }
            Op::Fallocate(path, mode, offset, len) => {
                fs.fallocate(self.resolve(path)?, *mode, *offset, *len, by)
            }
            Op::Chmod(path, perm) => {
                let set = SetAttr { perm: Some(*perm), ..SetAttr::default() };
                fs.setattr(self.resolve(path)?, &set, by).map(drop)
            }
            Op::Chown(path, uid, gid) => {
                let set = SetAttr { uid: Some(*uid), gid: Some(*gid), ..SetAttr::default() };
                fs.setattr(self.resolve(path)?, &set, by).map(drop)
            }
            Op::SetXattr(path, name, len) => {
                let value = bytes_of(serial, *len);
                fs.setxattr(self.resolve(path)?, name.as_bytes(), &value, XattrMode::Set, by)
            }
            Op::RemoveXattr(path, name) => fs.removexattr(self.resolve(path)?, name.as_bytes()),
            Op::Open(path, handle) => {
                let (dir, name) = self.parent(path)?;
                let ino = fs.lookup(dir, name)?.ino;
                self.open.insert(handle.clone(), ino);
                Ok(())
            }
            Op::OpenUnnamed(path, handle) => {
                let node = NewNode { uid: 1, gid: 2, ..NewNode::new(FileKind::Regular, 0o644) };
                let ino = fs.create_unnamed(self.resolve(path)?, &node, by)?.ino;
                self.open.insert(handle.clone(), ino);
                Ok(())
            }
            Op::Trim => match fs.trim(0..u64::MAX, 0) {
                // Nothing is lost by that.
                Err(Error::NotSupported) => Ok(()),
                trimmed => trimmed.map(drop),
            },
            Op::MakeSnapshot(path) => self.make_snapshot(path),
            Op::Close(handle) => {
                let ino = self.open.remove(handle).ok_or(Error::BadHandle)?;
                fs.forget(ino, 1);
                Ok(())
            }
        }
        .map(|()| 0)
    }

    /// Returns the file that [`Sync::Fsync`] makes durable after an operation.
    ///
    /// # Errors
    /// Those of looking it up.
    pub fn subject(&self, op: &Op) -> Result<Ino> {
        match op {
            Op::Unlink(path) | Op::Rmdir(path) => self.resolve(split(path).0),
            Op::Link(_, path)
            | Op::Rename(_, path, _)
            | Op::Create(path, _)
            | Op::Symlink(path, _)
            | Op::Truncate(path, _)
            | Op::Write(path, ..)
            | Op::Fallocate(path, ..)
            | Op::Chmod(path, _)
            | Op::Chown(path, ..)
            | Op::SetXattr(path, ..)
            | Op::RemoveXattr(path, _)
            | Op::OpenUnnamed(_, path)
            | Op::MakeSnapshot(path)
            | Op::Open(path, _) => self.resolve(path),
            Op::Close(_) | Op::Trim => Ok(self.fs.root()),
        }
    }

    /// Continues a write that has written the bytes before `rest`, to the end of `rest`, as a
    /// front-end does.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write_on(&self, op: &Op, serial: u64, mut rest: Range<usize>) -> Result<()> {
        let Op::Write(path, offset, len) = op else { return Ok(()) };
        let bytes = bytes_of(serial, *len);
        while !rest.is_empty() {
            let at = *offset + rest.start as u64;
            rest.start += self.fs.write(self.resolve(path)?, at, &bytes[rest.clone()], Privilege::Root)?;
        }
        Ok(())
    }

    /// Makes the files durable that `sync` says.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn sync(&self, op: &Op, sync: Sync) -> Result<()> {
        match sync {
            Sync::None => Ok(()),
            Sync::Fsync | Sync::Fdatasync => self.fs.fsync(self.subject(op)?, sync == Sync::Fdatasync),
            Sync::All => self.fs.sync(),
        }
    }
}
