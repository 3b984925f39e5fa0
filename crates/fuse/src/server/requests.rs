//! The requests one by one: decode, ask the file system, answer. What they have in common is in [`super`].

use super::observed::caller;
use super::{
    Inner, MAX_BACKGROUND, MAX_REQUEST_BYTES, READ_BUFFER, Server, VALID, cred, has_name_space, new_node,
    probe, reply_empty, reply_sought, reply_xattr, reported,
};
use crate::convert::{absent, decode_rdev, file_type, from_kernel_time, set_time};
use crate::readdir::walk;
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, FopenFlags, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use spindle_vfs::{
    Action, Caller, Error, FallocateMode, FileKind, Rdev, RenameMode, Result, Seek, SetAttr, XattrMode,
};
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

impl fuser::Filesystem for Server {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_EXPORT_SUPPORT,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_MAX_PAGES,
            InitFlags::FUSE_EXPLICIT_INVAL_DATA,
        ];
        let killpriv = self.xattrs.then_some(InitFlags::FUSE_HANDLE_KILLPRIV_V2);
        for flag in wanted.into_iter().chain(killpriv) {
            if config.add_capabilities(flag).is_err() {
                log::info!("this kernel has no {flag:?}");
            }
        }
        let writes_cached =
            self.writeback && config.add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE).is_ok();
        self.writes_cached.store(writes_cached, Ordering::Relaxed);
        let zero_message_open =
            config.capabilities().contains(InitFlags::FUSE_NO_OPEN_SUPPORT) && !self.observed.is_on();
        self.zero_message_open.store(zero_message_open, Ordering::Relaxed);
        // Each of these answers a value that is too large with the largest that is possible.
        let _ = config.set_max_write(MAX_REQUEST_BYTES);
        if let Err(most) = config.set_max_readahead(MAX_REQUEST_BYTES) {
            let _ = config.set_max_readahead(most);
        }
        let _ = config.set_max_background(MAX_BACKGROUND);
        let granularity = Duration::from_nanos(self.fs.limits().time_granularity_ns.into());
        if config.set_time_granularity(granularity).is_err() {
            log::info!("time stamps have steps of {granularity:?}, which the kernel cannot round to");
        }
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.fs.lookup(self.ino(parent), name.as_bytes()) {
            Err(Error::NotFound) => match probe(req, parent, name) {
                Some(attr) => reply.entry(&Duration::ZERO, &attr, Generation(0)),
                // An entry without an inode: the kernel remembers that there is none.
                None => reply.entry(&VALID, &absent(), Generation(0)),
            },
            // A file handle of an NFS client asks any inode for `.`.
            Err(Error::NotDirectory) if name == "." => reply.error(Errno::ESTALE),
            result => {
                if let Ok(attr) = &result {
                    self.observed.named(self.ino(parent), name.as_bytes(), attr);
                }
                self.reply_entry(result, reply);
            }
        }
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        let ino = self.ino(ino);
        let released = self.upkeep.nodes.release(ino, nlookup);
        if released > 0 {
            if self.observed.is_on() && !self.upkeep.nodes.knows(ino) {
                self.observed.tell(Caller::default(), &Action::Forgotten(ino));
            }
            self.fs.forget(ino, released);
            // It may have been the last reference to an unlinked file.
            self.note_change();
            self.upkeep.room.note_forget();
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.fs.getattr(self.ino(ino)) {
            Ok(attr) => reply.attr(&VALID, &self.stat_attr(&attr)),
            Err(error) => reply.error(reported(&error)),
        }
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetAttr {
            perm: mode.map(|mode| mode & 0o7777),
            uid,
            gid,
            size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
            ctime: ctime.map(from_kernel_time),
            birthtime: None,
            flags: None,
        };
        match self.set_attributes(req, self.ino(ino), set) {
            Ok(attr) => {
                if size.is_some() {
                    self.observed.tell(caller(req), &Action::Resized(attr.ino, attr.size));
                }
                reply.attr(&VALID, &self.stat_attr(&attr));
            }
            Err(error) => reply.error(reported(&error)),
        }
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        match self.fs.readlink(self.ino(ino)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(reported(&error)),
        }
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let kind = match mode & 0o170_000 {
            0 => Some(FileKind::Regular),
            _ => FileKind::from_mode(mode),
        };
        let Some(kind) = kind else { return reply.error(Errno::EINVAL) };
        let rdev = if matches!(kind, FileKind::BlockDevice | FileKind::CharDevice) {
            decode_rdev(rdev)
        } else {
            Rdev::default()
        };
        let node = new_node(req, kind, mode, rdev, b"");
        self.make_entry(req, parent, name, &node, reply);
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let node = new_node(req, FileKind::Directory, mode, Rdev::default(), b"");
        self.make_entry(req, parent, name, &node, reply);
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (dir, name) = (self.ino(parent), name.as_bytes());
        let before = self.before(dir, name);
        let result = self.front.unlink(&cred(req), dir, name);
        if result.is_ok() {
            self.removed(caller(req), dir, name, before.as_ref());
        }
        self.reply_removed(result, reply);
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (dir, name) = (self.ino(parent), name.as_bytes());
        let before = self.before(dir, name);
        let result = self.front.rmdir(&cred(req), dir, name);
        if result.is_ok() {
            self.removed(caller(req), dir, name, before.as_ref());
        }
        self.reply_removed(result, reply);
    }

    fn symlink(&self, req: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes();
        let node = new_node(req, FileKind::Symlink, 0o777, Rdev::default(), target);
        self.make_entry(req, parent, name, &node, reply);
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            f if f.is_empty() => RenameMode::Replace,
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let (from, to) = (self.ino(parent), self.ino(newparent));
        let (name, newname) = (name.as_bytes(), newname.as_bytes());
        let before = (self.before(from, name), self.before(to, newname));
        let result = self.front.rename(&cred(req), (from, name), (to, newname), mode);
        if let (Ok(()), (Some(attr), replaced)) = (&result, &before) {
            let exchanged = mode == RenameMode::Exchange;
            let replaced = replaced.as_ref();
            let action = Action::Renamed {
                from_dir: from,
                from: name,
                to_dir: to,
                to: newname,
                attr,
                replaced,
                exchanged,
            };
            self.observed.tell(caller(req), &action);
        }
        self.reply_removed(result, reply);
    }

    fn link(&self, req: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let result = self.front.link(&cred(req), self.ino(ino), self.ino(newparent), newname.as_bytes());
        self.note_change();
        if let Ok(attr) = &result {
            self.observed.named(self.ino(newparent), newname.as_bytes(), attr);
        }
        self.reply_entry(result, reply);
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if self.zero_message_open.load(Ordering::Relaxed) {
            return reply.error(Errno::ENOSYS);
        }
        let attr = if self.observed.is_on() { self.fs.getattr(self.ino(ino)).ok() } else { None };
        let handle = attr.map_or(0, |attr| self.observed.opened(caller(req), &attr, flags.0, false));
        reply.opened(FileHandle(handle), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn release(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        if self.observed.is_on() {
            let attr = self.fs.getattr(self.ino(ino)).ok();
            self.observed.tell(caller(req), &Action::Closed { handle: fh.0, attr: attr.as_ref() });
        }
        reply.ok();
    }

    fn read(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        READ_BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            match self.fs.read(self.ino(ino), offset, &mut buffer[..size]) {
                Ok(len) => {
                    let (handle, ino, bytes) = (fh.0, self.ino(ino), len as u64);
                    self.observed.tell(caller(req), &Action::Read { handle, ino, offset, bytes });
                    reply.data(&buffer[..len]);
                }
                Err(error) => reply.error(reported(&error)),
            }
        });
    }

    fn write(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (by, ino) = (cred(req), self.ino(ino));
        let (caller, handle) = (caller(req), fh.0);
        let late = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let tell = move |inner: &Inner, written: &Result<usize>| match written {
            Ok(len) => {
                inner.observed.tell(caller, &Action::Written { handle, ino, offset, bytes: *len as u64 });
            }
            Err(_) if late => inner.upkeep.losses.log(ino),
            Err(_) => {}
        };
        let written = self.write_file(&by, ino, offset, data, write_flags);
        if !self.may_yet_fit(&written) {
            tell(self, &written);
            return self.reply_written(written, reply);
        }
        let (inner, data) = (Arc::clone(&self.0), data.to_vec());
        self.upkeep.retries.push(Box::new(move |_| {
            let again = || inner.write_file(&by, ino, offset, &data, write_flags);
            let written = inner.upkeep.room.retry(again);
            tell(&inner, &written);
            inner.reply_written(written, reply);
        }));
    }

    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, req: &Request, ino: INodeNo, fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        let result =
            self.fs.fsync(self.ino(ino), datasync).and_then(|()| self.upkeep.losses.tell(self.ino(ino)));
        if result.is_ok() {
            self.observed.tell(caller(req), &Action::Synced { handle: fh.0, ino: self.ino(ino) });
        }
        reply_empty(result, reply);
    }

    fn opendir(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if self.zero_message_open.load(Ordering::Relaxed) {
            reply.error(Errno::ENOSYS);
        } else {
            reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR);
        }
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let dir = self.ino(ino);
        let result = walk(&*self.fs, dir, offset, &mut |entry| {
            let kind = entry.kind.or_else(|| self.fs.getattr(entry.ino).ok().map(|attr| attr.kind));
            let kind = file_type(kind.unwrap_or(FileKind::Regular));
            let full = reply.add(INodeNo(entry.ino.0), entry.next, kind, OsStr::from_bytes(entry.name));
            if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(reported(&error)),
        }
    }

    fn readdirplus(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let dir = self.ino(ino);
        let result = walk(&*self.fs, dir, offset, &mut |entry| {
            let full = self.add_with_attributes(dir, entry, &mut reply);
            if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(reported(&error)),
        }
    }

    fn fsyncdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        reply_empty(self.fs.fsync(self.ino(ino), datasync), reply);
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        match self.fs.statfs() {
            Ok(s) => {
                reply.statfs(s.blocks, s.bfree, s.bavail, s.files, s.ffree, s.bsize, s.name_max, s.frsize);
            }
            Err(error) => reply.error(reported(&error)),
        }
    }

    fn setxattr(
        &self,
        req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        if !self.xattrs {
            return reply.error(Errno::ENOSYS);
        }
        let mode = match flags {
            0 => XattrMode::Set,
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => return reply.error(Errno::EINVAL),
        };
        if !has_name_space(name) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let result = self.front.setxattr(&cred(req), self.ino(ino), name.as_bytes(), value, mode);
        self.reply_change(result, reply);
    }

    fn getxattr(&self, req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if !self.xattrs {
            reply.error(Errno::ENOSYS);
        } else if has_name_space(name) {
            reply_xattr(self.front.getxattr(&cred(req), self.ino(ino), name.as_bytes()), size, reply);
        } else {
            reply.error(Errno::EOPNOTSUPP);
        }
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        if !self.xattrs {
            return reply.error(Errno::ENOSYS);
        }
        let names = self.front.listxattr(&cred(req), self.ino(ino)).map(|names| {
            names.into_iter().flat_map(|name| name.into_iter().chain(std::iter::once(0))).collect()
        });
        reply_xattr(names, size, reply);
    }

    fn removexattr(&self, req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if !self.xattrs {
            reply.error(Errno::ENOSYS);
        } else if has_name_space(name) {
            self.reply_change(self.front.removexattr(&cred(req), self.ino(ino), name.as_bytes()), reply);
        } else {
            reply.error(Errno::EOPNOTSUPP);
        }
    }

    fn access(&self, _req: &Request, _ino: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let node = new_node(req, FileKind::Regular, mode, Rdev::default(), b"");
        let by = caller(req);
        self.make(req, parent, name, &node, move |inner, made| match made {
            Ok(attr) => {
                inner.upkeep.nodes.take(&attr);
                let handle = FileHandle(inner.observed.opened(by, &attr, flags, true));
                let generation = Generation(attr.generation);
                let flags = FopenFlags::FOPEN_KEEP_CACHE;
                reply.created(&VALID, &inner.entry_attr(&attr), generation, handle, flags);
            }
            Err(error) => reply.error(reported(&error)),
        });
    }

    fn ioctl(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
        const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
        const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
        const ZERO_KEEP: i32 = ZERO | KEEP;
        let mode = match mode {
            0 => FallocateMode::Allocate { keep_size: false },
            KEEP => FallocateMode::Allocate { keep_size: true },
            PUNCH => FallocateMode::PunchHole,
            ZERO => FallocateMode::ZeroRange { keep_size: false },
            ZERO_KEEP => FallocateMode::ZeroRange { keep_size: true },
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        let ino = self.ino(ino);
        let by = cred(req);
        let allowed = self
            .permit_write(ino, offset.saturating_add(length))
            .and_then(|()| if by.is_root() { Ok(()) } else { self.kill_setid(ino) });
        let result = allowed.and_then(|()| self.fs.fallocate(ino, mode, offset, length, by.privilege()));
        self.reply_change(result, reply);
    }

    fn lseek(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let what = match whence {
            libc::SEEK_DATA => Seek::Data,
            libc::SEEK_HOLE => Seek::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let file = self.ino(ino);
        if self.fs.read_only() {
            return reply_sought(self.fs.seek(file, offset, what), reply);
        }
        let inner = Arc::clone(&self.0);
        self.upkeep.seeks.push(Box::new(move |notifier| {
            let from = i64::try_from(offset).unwrap_or(i64::MAX);
            // To the end of the file. The kernel refuses if it has forgotten the file: then it has no pages either.
            if let Err(error) = notifier.inval_inode(ino, from, 0) {
                log::debug!("write-back of inode {}: {error}", file.0);
            }
            reply_sought(inner.fs.seek(file, offset, what), reply);
        }));
    }

    fn copy_file_range(
        &self,
        _req: &Request,
        _ino_in: INodeNo,
        _fh_in: FileHandle,
        _offset_in: u64,
        _ino_out: INodeNo,
        _fh_out: FileHandle,
        _offset_out: u64,
        _len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        // The kernel then copies from page to page in its own cache.
        reply.error(Errno::ENOSYS);
    }
}
