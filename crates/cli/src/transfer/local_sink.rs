//! A directory of this machine as a sink.
//!
//! Names come from images, which may be hostile: every one is checked, nothing is written through a
//! symbolic link, and what stands in the way is replaced, except that directories are kept and filled.
//! A directory gets its own times and permissions when everything in it is done.

use super::{Body, CHUNK, Content, LeftOut, Meta, Node, Sink, check_name, names, split};
use crate::error::{Context, Failure, Result};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, fsetxattr};
use rustix::io::Errno;
use spindle_clock::Timestamp;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Everything goes below one directory.
pub struct LocalSink {
    root: OwnedFd,
    stack: Vec<Open>,
    /// The root's own metadata, if it came as a node.
    root_meta: Option<Meta>,
    preserve: bool,
    is_root: bool,
    umask: u32,
    left_out: LeftOut,
    buffer: Vec<u8>,
}

/// An open directory below the root, and what to set when it is left.
struct Open {
    name: Vec<u8>,
    fd: OwnedFd,
    meta: Option<Meta>,
}

impl LocalSink {
    /// Below the existing directory `root`. With `preserve` owners (as root), permissions, times and extended
    /// attributes are kept; otherwise new files belong to the caller.
    pub fn new(root: &Path, preserve: bool, umask: u32) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty()).context(root.display())?;
        let is_root = rustix::process::geteuid().is_root();
        Ok(Self {
            root,
            stack: Vec::new(),
            root_meta: None,
            preserve,
            is_root,
            umask,
            left_out: LeftOut::default(),
            buffer: vec![0; CHUNK],
        })
    }

    fn top(&self) -> BorrowedFd<'_> {
        self.stack.last().map_or(self.root.as_fd(), |open| open.fd.as_fd())
    }

    /// Leaves directories until the stack is a part of `dir`, then enters the rest of it.
    fn enter(&mut self, dir: &[u8]) -> Result<()> {
        let common = self.stack.iter().zip(names(dir)).take_while(|(open, name)| open.name == *name).count();
        while self.stack.len() > common {
            self.leave()?;
        }
        for name in names(dir).skip(common) {
            check_name(name)?;
            let fd = open_dir(self.top(), name).named(name)?;
            self.stack.push(Open { name: name.to_vec(), fd, meta: None });
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<()> {
        if let Some(Open { name, fd, meta: Some(meta) }) = self.stack.pop() {
            self.finish_fd(&fd, &meta).named(&name)?;
        }
        Ok(())
    }

    /// Owner, permissions, attributes and times of something open, in the order in which they last.
    fn finish_fd(&mut self, fd: &OwnedFd, meta: &Meta) -> Result<()> {
        if !self.preserve {
            let bits = meta.perm & 0o777;
            rustix::fs::fchmod(fd, Mode::from_raw_mode(bits & !self.umask))?;
            return Ok(());
        }
        for (name, value) in &meta.xattrs {
            let set = if name.starts_with(b"user.") {
                fsetxattr(fd, OsStr::from_bytes(name), value, XattrFlags::empty())
            } else {
                Err(Errno::OPNOTSUPP)
            };
            match set {
                Ok(()) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSPC | Errno::TOOBIG | Errno::RANGE) => {
                    self.left_out.xattrs += 1;
                }
                Err(e) => return Err(e.into()),
            }
        }
        let perm = if self.is_root {
            rustix::fs::fchown(fd, Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)))?;
            meta.perm
        } else {
            self.left_out.owners += u64::from(meta.uid != rustix::process::geteuid().as_raw());
            // Set-id bits of somebody else's program must not become ours.
            meta.perm & 0o1777
        };
        rustix::fs::fchmod(fd, Mode::from_raw_mode(perm))?;
        rustix::fs::futimens(fd, &times(meta))?;
        Ok(())
    }

    /// The same for what cannot be opened.
    fn finish_at(&mut self, name: &OsStr, meta: &Meta, symlink: bool) -> Result<()> {
        if !self.preserve {
            return Ok(());
        }
        self.left_out.xattrs += meta.xattrs.len() as u64;
        let nofollow = AtFlags::SYMLINK_NOFOLLOW;
        if self.is_root {
            let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
            rustix::fs::chownat(self.top(), name, Some(uid), Some(gid), nofollow)?;
        }
        if !symlink {
            rustix::fs::chmodat(self.top(), name, Mode::from_raw_mode(meta.perm), AtFlags::empty())?;
        }
        rustix::fs::utimensat(self.top(), name, &times(meta), nofollow)?;
        Ok(())
    }

    /// Removes what stands at `name`, unless it is a directory.
    fn make_way(&self, name: &OsStr) -> Result<()> {
        match rustix::fs::unlinkat(self.top(), name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR | Errno::PERM) if open_dir(self.top(), name.as_bytes()).is_ok() => {
                Err(Failure::new("a directory stands where a file is to go"))
            }
            Err(e) => Err(e.into()),
        }
    }

    fn put_directory(&mut self, name: &[u8], meta: Meta) -> Result<()> {
        let key = OsStr::from_bytes(name);
        let mut made = true;
        match rustix::fs::mkdirat(self.top(), key, Mode::RWXU) {
            Ok(()) => {}
            Err(Errno::EXIST) if open_dir(self.top(), name).is_ok() => made = false,
            Err(Errno::EXIST) => {
                self.make_way(key)?;
                rustix::fs::mkdirat(self.top(), key, Mode::RWXU)?;
            }
            Err(e) => return Err(e.into()),
        }
        let fd = open_dir(self.top(), name)?;
        let meta = (self.preserve || made).then_some(meta);
        self.stack.push(Open { name: name.to_vec(), fd, meta });
        Ok(())
    }

    fn put_file(&mut self, name: &OsStr, size: u64, content: &mut dyn Content, meta: &Meta) -> Result<()> {
        self.make_way(name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(self.top(), name, flags, Mode::RUSR | Mode::WUSR)?;
        let mut end = 0;
        while let Some((at, len)) = content.next(&mut self.buffer)? {
            let mut done = 0;
            while done < len {
                match rustix::io::pwrite(&fd, &self.buffer[done..len], at + done as u64) {
                    Ok(n) => done += n,
                    Err(Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            end = at + len as u64;
        }
        if end != size {
            rustix::fs::ftruncate(&fd, size)?;
        }
        self.finish_fd(&fd, meta)
    }

    fn put_here(&mut self, name: &[u8], body: Body<'_>, meta: Meta) -> Result<()> {
        let key = OsStr::from_bytes(name);
        let (file_type, rdev) = match body {
            Body::Directory => return self.put_directory(name, meta),
            Body::File { size, content } => return self.put_file(key, size, content, &meta),
            Body::Symlink(target) => {
                self.make_way(key)?;
                rustix::fs::symlinkat(OsStr::from_bytes(target), self.top(), key)?;
                return self.finish_at(key, &meta, true);
            }
            Body::HardLink(first) => {
                self.make_way(key)?;
                let first = OsStr::from_bytes(first);
                return Ok(rustix::fs::linkat(&self.root, first, self.top(), key, AtFlags::empty())?);
            }
            Body::Device { block, rdev } => (
                if block { FileType::BlockDevice } else { FileType::CharacterDevice },
                rustix::fs::makedev(rdev.major, rdev.minor),
            ),
            Body::Fifo => (FileType::Fifo, 0),
            Body::Socket => (FileType::Socket, 0),
        };
        self.make_way(key)?;
        rustix::fs::mknodat(self.top(), key, file_type, Mode::RUSR | Mode::WUSR, rdev)?;
        self.finish_at(key, &meta, false)
    }
}

impl Sink for LocalSink {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        let (dir, name) = split(node.path);
        self.enter(dir)?;
        if name.is_empty() {
            if !matches!(node.body, Body::Directory) {
                return Err(Failure::new("only a directory can become the root of a directory"));
            }
            self.root_meta = self.preserve.then_some(node.meta);
            return Ok(());
        }
        check_name(name)?;
        self.put_here(name, node.body, node.meta)
    }

    fn finish(&mut self) -> Result<()> {
        while !self.stack.is_empty() {
            self.leave()?;
        }
        if let Some(meta) = self.root_meta.take() {
            let root = self.root.try_clone()?;
            self.finish_fd(&root, &meta)?;
        }
        self.left_out.tell();
        Ok(())
    }
}

fn open_dir(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, OsStr::from_bytes(name), flags, Mode::empty())?)
}

fn times(meta: &Meta) -> Timestamps {
    let spec = |time: Timestamp| Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() };
    Timestamps { last_access: spec(meta.atime.unwrap_or(meta.mtime)), last_modification: spec(meta.mtime) }
}
