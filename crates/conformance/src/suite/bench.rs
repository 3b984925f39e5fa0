//! Helpers for the behaviours.

pub(super) use super::errnos::*;
use super::{Feature, Harness};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use spindle_vfs::{Attr, FileKind, FileSystem, Ino, NewNode, Privilege, Rdev, RenameMode, Result, SetAttr};
use std::fmt::Debug;
use std::ops::{ControlFlow, Deref};
use std::sync::Arc;

/// A mounted file system during a behaviour; dereferences to it.
pub struct Bench<'a> {
    harness: &'a mut dyn Harness,
    fs: Option<Arc<dyn FileSystem>>,
}

impl Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bench")
    }
}

impl Deref for Bench<'_> {
    type Target = dyn FileSystem;

    fn deref(&self) -> &Self::Target {
        self.fs.as_deref().expect("mounted")
    }
}

/// Asserts that `result` is a refusal with one of `allowed` error numbers.
#[track_caller]
#[allow(clippy::needless_pass_by_value)] // Results of calls are passed directly.
pub(super) fn refuses<T: Debug>(result: Result<T>, allowed: &[i32]) {
    assert!(allowed.contains(&errno(&result)), "{result:?} instead of one of the errors {allowed:?}");
}

/// Returns `len` bytes that depend on the position and on `seed`; none is zero.
pub(super) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    for byte in &mut bytes {
        *byte |= 1;
    }
    bytes
}

/// Returns a node of `kind` with permission `0o644` and owner 0.
pub(super) fn node(kind: FileKind) -> NewNode<'static> {
    let target: &[u8] = if kind == FileKind::Symlink { b"target" } else { b"" };
    NewNode { kind, perm: 0o644, uid: 0, gid: 0, masked: 0, rdev: Rdev::default(), target }
}

impl<'a> Bench<'a> {
    pub(super) fn new(harness: &'a mut dyn Harness) -> Self {
        let fs = Some(harness.fs());
        Self { harness, fs }
    }

    pub(super) fn remount(&mut self) {
        self.fs = None;
        self.harness.remount();
        self.fs = Some(self.harness.fs());
    }

    /// Asserts that the checker finds no problem, and mounts again.
    #[track_caller]
    pub(super) fn check(&mut self) {
        self.fs = None;
        let complaints = self.harness.check();
        assert!(complaints.is_empty(), "the check found:\n{}", complaints.join("\n"));
        self.fs = Some(self.harness.fs());
    }

    pub(super) fn tick(&mut self) -> bool {
        self.harness.tick()
    }

    pub(super) fn has(&self, feature: Feature) -> bool {
        !self.harness.lacks().contains(&feature)
    }

    /// Returns the file system, for threads.
    pub(super) fn shared(&self) -> Arc<dyn FileSystem> {
        self.fs.clone().expect("mounted")
    }

    /// Creates a node and keeps the reference.
    #[track_caller]
    pub(super) fn make(&self, dir: Ino, name: impl AsRef<[u8]>, kind: FileKind) -> Ino {
        let name = name.as_ref();
        match self.create(dir, name, &node(kind), Privilege::Root) {
            Ok(attr) => attr.ino,
            Err(error) => panic!("create {:?}: {error}", String::from_utf8_lossy(name)),
        }
    }

    #[track_caller]
    pub(super) fn file(&self, dir: Ino, name: impl AsRef<[u8]>) -> Ino {
        self.make(dir, name, FileKind::Regular)
    }

    #[track_caller]
    pub(super) fn dir(&self, dir: Ino, name: impl AsRef<[u8]>) -> Ino {
        self.make(dir, name, FileKind::Directory)
    }

    /// Returns the attributes of a name, without keeping a reference.
    pub(super) fn peek(&self, dir: Ino, name: impl AsRef<[u8]>) -> Result<Attr> {
        let attr = self.lookup(dir, name.as_ref())?;
        self.forget(attr.ino, 1);
        Ok(attr)
    }

    /// Returns the inode of a name; panics if there is no such name.
    #[track_caller]
    pub(super) fn at(&self, dir: Ino, name: impl AsRef<[u8]>) -> Ino {
        self.peek(dir, name).expect("the name exists").ino
    }

    #[track_caller]
    pub(super) fn nlink(&self, ino: Ino) -> u32 {
        self.getattr(ino).expect("getattr").nlink
    }

    #[track_caller]
    pub(super) fn size(&self, ino: Ino) -> u64 {
        self.getattr(ino).expect("getattr").size
    }

    pub(super) fn mv(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), mode: RenameMode) -> Result<()> {
        self.rename(from.0, from.1, to.0, to.1, mode, Privilege::Root)
    }

    /// Writes all of `data`.
    #[track_caller]
    pub(super) fn put(&self, ino: Ino, offset: u64, data: &[u8]) {
        let written = self.write(ino, offset, data, Privilege::Root).expect("write");
        assert_eq!(written, data.len(), "a write may be short only when space runs out");
    }

    /// Reads `len` bytes, or less at the end of the file.
    #[track_caller]
    pub(super) fn get(&self, ino: Ino, offset: u64, len: usize) -> Vec<u8> {
        let mut buf = vec![0xee; len];
        let n = self.read(ino, offset, &mut buf).expect("read");
        let left = self.size(ino).saturating_sub(offset);
        assert_eq!(n as u64, left.min(len as u64), "a read may be short only at the end");
        buf.truncate(n);
        buf
    }

    /// Asserts that the file's contents are exactly `data`.
    #[track_caller]
    pub(super) fn holds(&self, ino: Ino, data: &[u8]) {
        assert_eq!(self.size(ino), data.len() as u64, "size");
        let found = self.get(ino, 0, data.len() + 1);
        if let Some(at) = found.iter().zip(data).position(|(a, b)| a != b) {
            panic!("byte {at} of {} is {:#x} instead of {:#x}", data.len(), found[at], data[at]);
        }
        assert_eq!(found.len(), data.len(), "length read");
    }

    /// Sets the size.
    #[track_caller]
    pub(super) fn resize(&self, ino: Ino, size: u64) {
        let attr = self.set(ino, &SetAttr { size: Some(size), ..SetAttr::default() });
        assert_eq!(attr.size, size);
    }

    /// Sets attributes.
    #[track_caller]
    pub(super) fn set(&self, ino: Ino, set: &SetAttr) -> Attr {
        self.setattr(ino, set, Privilege::Root).expect("setattr")
    }

    /// Returns all entries except `.` and `..`, with their cookies.
    #[track_caller]
    pub(super) fn list(&self, dir: Ino) -> Vec<(Vec<u8>, Ino, u64)> {
        let mut entries = Vec::new();
        self.readdir(dir, 0, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                entries.push((entry.name.to_vec(), entry.ino, entry.next));
            }
            ControlFlow::Continue(())
        })
        .expect("readdir");
        entries
    }

    /// Returns the names of a directory, sorted.
    #[track_caller]
    pub(super) fn sorted(&self, dir: Ino) -> Vec<Vec<u8>> {
        let mut names: Vec<_> = self.list(dir).into_iter().map(|entry| entry.0).collect();
        names.sort();
        names
    }

    /// Returns free space in bytes and free inodes, after a sync.
    #[track_caller]
    pub(super) fn free(&self) -> (u64, u64) {
        self.sync().expect("sync");
        let stat = self.statfs().expect("statfs");
        (stat.bfree * u64::from(stat.frsize), stat.ffree)
    }

    /// Returns true if the format permits a file of `size` bytes.
    pub(super) fn fits(&self, size: u64) -> bool {
        size <= self.limits().file_size_max
    }
}
