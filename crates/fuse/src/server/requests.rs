//! The handlers of the single requests. Each calls the file system and sends the reply. Common
//! parts are in [`super`].

use super::observed::caller;
use super::{
    Inner, MAX_BACKGROUND, MAX_REQUEST_BYTES, Server, VALID, cred, errno_of, has_name_space, new_node, probe,
    reply_directory, reply_empty, reply_seek, reply_xattr,
};
use crate::convert::{absent, decode_rdev};
use crate::protocol::{
    Directory, Negotiation, NodeId, Operation, Reply, Request, Valid, init, open, setxattr, write,
};
use crate::readdir::walk;
use spindle_clock::{Clock, Mutex, SystemClock};
use spindle_vfs::access::permit_fallocate_by_flags;
use spindle_vfs::acl::NFS4_ACL;
use spindle_vfs::{
    Access, AclKind, Action, Caller, Error, FallocateMode, FileKind, Ino, Rdev, RenameMode, Result, Seek,
    SetAttr, XattrMode,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Time after which a search for data that may block others is answered.
const SEARCH_TIME: Duration = Duration::from_millis(200);

impl Server {
    pub(crate) fn answer(&self, req: &Request, operation: Operation<'_>, reply: Reply) {
        let _serving = self.state.serving.read();
        let node = req.node;
        match operation {
            Operation::Lookup { name } => self.lookup(req, node, name, reply),
            Operation::GetAttr => self.getattr(node, reply),
            Operation::SetAttr { set, of_open } => self.setattr(req, node, set, of_open, reply),
            Operation::ReadLink => self.readlink(node, reply),
            Operation::Symlink { name, target } => self.symlink(req, node, name, target, reply),
            Operation::MkNod { name, mode, umask, rdev } => {
                self.mknod(req, node, name, (mode, umask), rdev, reply);
            }
            Operation::MkDir { name, mode, umask } => self.mkdir(req, node, name, (mode, umask), reply),
            Operation::Unlink { name } => self.unlink(req, node, name, reply),
            Operation::RmDir { name } => self.rmdir(req, node, name, reply),
            Operation::Rename { name, to, new, flags } => {
                self.rename(req, (node, name), (to, new), flags, reply);
            }
            Operation::Link { of, name } => self.link(req, of, node, name, reply),
            Operation::Open { flags } => self.open(req, node, flags, reply),
            Operation::Read { handle, offset, size } => self.read(req, node, handle, offset, size, reply),
            Operation::Write { handle, offset, flags, data } => {
                self.write(req, (node, handle), offset, data, flags, reply);
            }
            Operation::StatFs => self.statfs(node, reply),
            Operation::Release { handle } => self.release(req, node, handle, reply),
            Operation::Fsync { handle, data_only } => self.fsync(req, node, handle, data_only, reply),
            Operation::SetXattr { name, value, flags, more_flags } => {
                self.setxattr(req, node, (name, value), flags, more_flags, reply);
            }
            Operation::GetXattr { name, size } => self.getxattr(req, node, name, size, reply),
            Operation::ListXattr { size } => self.listxattr(req, node, size, reply),
            Operation::RemoveXattr { name } => self.removexattr(req, node, name, reply),
            Operation::OpenDir => self.opendir(req, node, reply),
            Operation::ReadDir { offset, size } => self.readdir(node, offset, Directory::new(reply, size)),
            Operation::ReadDirPlus { offset, size } => {
                self.readdirplus(node, offset, Directory::new(reply, size));
            }
            Operation::ReleaseDir => reply.ok(),
            Operation::FsyncDir { data_only } => reply_empty(self.fs.fsync(self.ino(node), data_only), reply),
            Operation::Access { mask } => self.access(req, node, mask, reply),
            Operation::Create { name, mode, umask, flags } => {
                self.create(req, node, Some(name), (mode, umask), flags, reply);
            }
            Operation::TmpFile { mode, umask, flags } => {
                self.create(req, node, None, (mode, umask), flags, reply);
            }
            Operation::Ioctl { command, input, output } => {
                self.ioctl(req, node, (command, input), output, reply);
            }
            Operation::Fallocate { offset, len, mode } => self.fallocate(req, node, offset, len, mode, reply),
            Operation::Seek { offset, whence } => self.seek(node, offset, whence, reply),
            Operation::SyncFs => self.syncfs(reply),
            Operation::StatX => self.statx(node, reply),
            // For example COPY_FILE_RANGE: the kernel then copies pages in its own
            // cache.
            Operation::Unknown => reply.error(libc::ENOSYS),
        }
    }

    pub(crate) fn forget(&self, node: NodeId, count: u64) {
        let _serving = self.state.serving.read();
        let ino = self.ino(node);
        let released = self.state.nodes.release(ino, count);
        if released > 0 {
            if self.observed.is_on() && !self.state.nodes.knows(ino) {
                self.observed.notify(Caller::default(), &Action::Forgotten(ino));
            }
            // This may be the last reference to an unlinked file.
            self.state.space.forget(|| self.fs.forget(ino, released));
            self.note_change();
        }
    }
}

impl Server {
    /// Chooses the flags and limits of the connection in reply to INIT.
    pub(crate) fn negotiate(&self, negotiation: &mut Negotiation) {
        let wanted = init::ASYNC_READ
            | init::BIG_WRITES
            | init::PARALLEL_DIROPS
            | init::DO_READDIRPLUS
            | init::READDIRPLUS_AUTO
            | init::EXPORT_SUPPORT
            | init::CACHE_SYMLINKS
            | init::MAX_PAGES
            | init::EXPLICIT_INVAL_DATA
            | init::HANDLE_KILLPRIV_V2;
        let acls = if self.acls == AclKind::Posix {
            init::POSIX_ACL | init::DONT_MASK | init::SETXATTR_EXT
        } else {
            0
        };
        let missing = negotiation.accept(wanted | acls);
        if missing != 0 {
            log::info!("this kernel does not offer the INIT flags {missing:#x}");
        }
        let writes_cached = self.writeback && negotiation.accept(init::WRITEBACK_CACHE) == 0;
        self.writes_cached.store(writes_cached, Ordering::Relaxed);
        let zero_message_open =
            negotiation.offers(init::NO_OPEN_SUPPORT) && !self.observed.is_on() && !self.checks;
        self.zero_message_open.store(zero_message_open, Ordering::Relaxed);
        negotiation.max_write = MAX_REQUEST_BYTES;
        negotiation.max_readahead = negotiation.max_readahead.min(MAX_REQUEST_BYTES);
        negotiation.max_background = MAX_BACKGROUND;
        negotiation.rings = self.rings;
        negotiation.time_granularity_ns = self.fs.limits().time_granularity_ns;
    }

    fn syncfs(&self, reply: Reply) {
        reply_empty(self.fs.sync(), reply);
    }

    fn lookup(&self, req: &Request, parent: NodeId, name: &[u8], reply: Reply) {
        let dir = self.ino(parent);
        // With a file handle the kernel asks for `.` in an inode of any kind, which may be unknown
        // to it and free by now.
        let found = match self.caller(req) {
            _ if name == b"." => self.fs.reference(dir),
            Ok(by) => self.vfs.lookup(&by, dir, name),
            Err(error) => Err(error),
        };
        match found {
            Err(Error::NotFound) => match probe(req, parent, name) {
                Some(attr) => reply.entry(Valid::NEVER, &attr, 0),
                // An entry without an inode: the kernel caches that the name does not exist.
                None => reply.entry(self.valid(), &absent(), 0),
            },
            result => {
                if let Ok(attr) = &result {
                    self.observed.notify_named(dir, name, attr);
                }
                self.reply_entry(result, reply);
            }
        }
    }

    fn getattr(&self, ino: NodeId, reply: Reply) {
        match self.fs.getattr(self.ino(ino)) {
            Ok(attr) => reply.attr(VALID, &self.stat_attr(&attr)),
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    /// Answers the question for the time of creation, with all other attributes.
    fn statx(&self, node: NodeId, reply: Reply) {
        if !self.fs.limits().birthtime {
            return reply.error(libc::ENOSYS);
        }
        match self.fs.getattr(self.ino(node)) {
            Ok(attr) => {
                let birthtime = attr.birthtime.unwrap_or_default();
                reply.attr_with_birthtime(VALID, &self.stat_attr(&attr), birthtime);
            }
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    fn setattr(&self, req: &Request, ino: NodeId, set: SetAttr, of_open: bool, reply: Reply) {
        let size = set.size;
        match self.set_attributes(req, self.ino(ino), set, of_open) {
            Ok(attr) => {
                if size.is_some() {
                    self.observed.notify(caller(req), &Action::Resized(attr.ino, attr.size));
                }
                reply.attr(VALID, &self.stat_attr(&attr));
            }
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    fn readlink(&self, ino: NodeId, reply: Reply) {
        match self.fs.readlink(self.ino(ino)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    fn mknod(&self, req: &Request, parent: NodeId, name: &[u8], mode: (u32, u32), rdev: u32, reply: Reply) {
        let kind = match mode.0 & 0o170_000 {
            0 => Some(FileKind::Regular),
            _ => FileKind::from_mode(mode.0),
        };
        let Some(kind) = kind else { return reply.error(libc::EINVAL) };
        let rdev = if matches!(kind, FileKind::BlockDevice | FileKind::CharDevice) {
            decode_rdev(rdev)
        } else {
            Rdev::default()
        };
        let node = new_node(req, kind, mode, rdev, b"");
        self.make_entry(req, parent, name, &node, reply);
    }

    fn mkdir(&self, req: &Request, parent: NodeId, name: &[u8], mode: (u32, u32), reply: Reply) {
        let node = new_node(req, FileKind::Directory, mode, Rdev::default(), b"");
        self.make_entry(req, parent, name, &node, reply);
    }

    fn unlink(&self, req: &Request, parent: NodeId, name: &[u8], reply: Reply) {
        let (dir, name) = (self.ino(parent), name);
        let before = self.attr_if_observed(dir, name);
        let result = self.caller(req).and_then(|by| self.vfs.unlink(&by, dir, name));
        if result.is_ok() {
            self.notify_removed(caller(req), dir, name, before.as_ref());
        }
        self.reply_removed(result, reply);
    }

    fn rmdir(&self, req: &Request, parent: NodeId, name: &[u8], reply: Reply) {
        let (dir, name) = (self.ino(parent), name);
        let before = self.attr_if_observed(dir, name);
        let result = self.caller(req).and_then(|by| self.vfs.rmdir(&by, dir, name));
        if result.is_ok() {
            self.notify_removed(caller(req), dir, name, before.as_ref());
        }
        self.reply_removed(result, reply);
    }

    fn symlink(&self, req: &Request, parent: NodeId, name: &[u8], target: &[u8], reply: Reply) {
        let node = new_node(req, FileKind::Symlink, (0o777, 0), Rdev::default(), target);
        self.make_entry(req, parent, name, &node, reply);
    }

    fn rename(
        &self,
        req: &Request,
        (parent, name): (NodeId, &[u8]),
        (newparent, newname): (NodeId, &[u8]),
        flags: u32,
        reply: Reply,
    ) {
        let mode = match flags {
            0 => RenameMode::Replace,
            libc::RENAME_NOREPLACE => RenameMode::NoReplace,
            libc::RENAME_EXCHANGE => RenameMode::Exchange,
            libc::RENAME_WHITEOUT => RenameMode::Whiteout { uid: req.uid(), gid: req.gid() },
            _ => return reply.error(libc::EINVAL),
        };
        let (from, to) = (self.ino(parent), self.ino(newparent));
        let before = (self.attr_if_observed(from, name), self.attr_if_observed(to, newname));
        let result = self.caller(req).and_then(|by| self.vfs.rename(&by, (from, name), (to, newname), mode));
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
            self.observed.notify(caller(req), &action);
        }
        self.reply_removed(result, reply);
    }

    fn link(&self, req: &Request, ino: NodeId, newparent: NodeId, newname: &[u8], reply: Reply) {
        let (file, dir) = (self.ino(ino), self.ino(newparent));
        let result = self.caller(req).and_then(|by| self.vfs.link(&by, file, dir, newname));
        self.note_change();
        if let Ok(attr) = &result {
            self.observed.notify_named(dir, newname, attr);
        }
        self.reply_entry(result, reply);
    }

    fn open(&self, req: &Request, ino: NodeId, flags: i32, reply: Reply) {
        if self.zero_message_open.load(Ordering::Relaxed) {
            return reply.error(libc::ENOSYS);
        }
        if let Err(error) = self.permit(req, self.ino(ino), access_of_open(flags)) {
            return reply.error(errno_of(&error));
        }
        let attr = if self.observed.is_on() { self.fs.getattr(self.ino(ino)).ok() } else { None };
        let handle = attr.map_or(0, |attr| self.observed.notify_opened(caller(req), &attr, flags, false));
        reply.opened(handle, open::KEEP_CACHE);
    }

    fn release(&self, req: &Request, ino: NodeId, fh: u64, reply: Reply) {
        if self.observed.is_on() {
            let attr = self.fs.getattr(self.ino(ino)).ok();
            self.observed.notify(caller(req), &Action::Closed { handle: fh, attr: attr.as_ref() });
        }
        reply.ok();
    }

    fn read(&self, req: &Request, ino: NodeId, fh: u64, offset: u64, size: u32, reply: Reply) {
        reply.fill(size as usize, |buffer| {
            let ino = self.ino(ino);
            let len = self.fs.read(ino, offset, buffer).map_err(|error| errno_of(&error))?;
            let bytes = len as u64;
            self.observed.notify(caller(req), &Action::Read { handle: fh, ino, offset, bytes });
            Ok(len)
        });
    }

    fn write(
        &self,
        req: &Request,
        (ino, fh): (NodeId, u64),
        offset: u64,
        data: &[u8],
        write_flags: u32,
        reply: Reply,
    ) {
        let (by, node, ino) = (cred(req), ino, self.ino(ino));
        let (caller, handle) = (caller(req), fh);
        let late = write_flags & write::CACHE != 0;
        let finish = move |inner: &Inner, written: &Result<usize>| match written {
            Ok(len) => {
                inner.observed.notify(caller, &Action::Written { handle, ino, offset, bytes: *len as u64 });
            }
            Err(error) if late => {
                inner.state.lost_writes.log(ino);
                if matches!(error, Error::NotPermitted) {
                    inner.drop_pages(node, offset);
                }
            }
            Err(_) => {}
        };
        let written = self.write_file(&by, ino, offset, data, write_flags);
        if !self.may_get_space(&written) {
            finish(self, &written);
            return self.reply_written(written, reply);
        }
        let (inner, data) = (Arc::clone(&self.0), data.to_vec());
        self.state.retries.push(Box::new(move |_| {
            let again = || inner.write_file(&by, ino, offset, &data, write_flags);
            let written = inner.state.space.retry(again);
            finish(&inner, &written);
            inner.reply_written(written, reply);
        }));
    }

    fn fsync(&self, req: &Request, ino: NodeId, fh: u64, datasync: bool, reply: Reply) {
        let result = self
            .fs
            .fsync(self.ino(ino), datasync)
            .and_then(|()| self.state.lost_writes.report(self.ino(ino)));
        if result.is_ok() {
            self.observed.notify(caller(req), &Action::Synced { handle: fh, ino: self.ino(ino) });
        }
        reply_empty(result, reply);
    }

    fn opendir(&self, req: &Request, node: NodeId, reply: Reply) {
        if self.zero_message_open.load(Ordering::Relaxed) {
            return reply.error(libc::ENOSYS);
        }
        match self.permit(req, self.ino(node), Access::READ) {
            Ok(()) => reply.opened(0, open::KEEP_CACHE | open::CACHE_DIR),
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    fn access(&self, req: &Request, node: NodeId, mask: u32, reply: Reply) {
        if self.checks {
            reply_empty(self.permit(req, self.ino(node), Access::from_bits(mask)), reply);
        } else {
            reply.error(libc::ENOSYS);
        }
    }

    fn readdir(&self, ino: NodeId, offset: u64, mut reply: Directory) {
        let dir = self.ino(ino);
        let result = walk(&*self.fs, dir, offset, &mut |entry| {
            let kind = entry.kind.or_else(|| self.fs.getattr(entry.ino).ok().map(|attr| attr.kind));
            let full = reply.add(NodeId(entry.ino.0), entry.next, kind, entry.name);
            if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        reply_directory(result, reply);
    }

    fn readdirplus(&self, ino: NodeId, offset: u64, mut reply: Directory) {
        let dir = self.ino(ino);
        let result = walk(&*self.fs, dir, offset, &mut |entry| {
            let full = self.add_with_attributes(dir, entry, &mut reply);
            if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        reply_directory(result, reply);
    }

    fn statfs(&self, node: NodeId, reply: Reply) {
        match self.fs.statfs_at(self.ino(node)) {
            Ok(stat) => reply.statfs(&stat),
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    /// Returns the error for an attribute that is not passed on to the file system. After ENOSYS
    /// the kernel asks for none any more, not even for access control lists.
    fn refusal_of_xattr(&self, name: &[u8]) -> Option<i32> {
        if self.acls.has(name) || self.xattrs && has_name_space(name) {
            None
        } else {
            let some = self.xattrs || self.acls != AclKind::None;
            Some(if some { libc::EOPNOTSUPP } else { libc::ENOSYS })
        }
    }

    fn setxattr(
        &self,
        req: &Request,
        ino: NodeId,
        (name, value): (&[u8], &[u8]),
        flags: i32,
        more_flags: u32,
        reply: Reply,
    ) {
        if let Some(errno) = self.refusal_of_xattr(name) {
            return reply.error(errno);
        }
        let mode = match flags {
            0 => XattrMode::Set,
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => return reply.error(libc::EINVAL),
        };
        let by = match self.caller(req) {
            Ok(by) => by,
            Err(error) => return reply.error(errno_of(&error)),
        };
        let ino = self.ino(ino);
        let prepared = if more_flags & setxattr::ACL_KILL_SGID == 0 {
            Ok(())
        } else {
            self.fs.getattr(ino).and_then(|attr| self.vfs.clear_set_gid(&attr, &by))
        };
        let result = prepared.and_then(|()| self.vfs.setxattr(&by, ino, name, value, mode));
        self.note_list(ino, name, &result);
        self.reply_change(result, reply);
    }

    fn getxattr(&self, req: &Request, ino: NodeId, name: &[u8], size: u32, reply: Reply) {
        if let Some(errno) = self.refusal_of_xattr(name) {
            return reply.error(errno);
        }
        let value = self.caller(req).and_then(|by| self.vfs.getxattr(&by, self.ino(ino), name));
        reply_xattr(value, size, reply);
    }

    fn listxattr(&self, req: &Request, ino: NodeId, size: u32, reply: Reply) {
        if !self.xattrs && self.acls == AclKind::None {
            return reply.error(libc::ENOSYS);
        }
        let names = self.vfs.listxattr(&cred(req), self.ino(ino)).map(|names| {
            let shown = names.into_iter().filter(|name| self.refusal_of_xattr(name).is_none());
            shown.flat_map(|name| name.into_iter().chain(std::iter::once(0))).collect()
        });
        reply_xattr(names, size, reply);
    }

    fn removexattr(&self, req: &Request, ino: NodeId, name: &[u8], reply: Reply) {
        if let Some(errno) = self.refusal_of_xattr(name) {
            return reply.error(errno);
        }
        let ino = self.ino(ino);
        let result = self.caller(req).and_then(|by| self.vfs.removexattr(&by, ino, name));
        self.note_list(ino, name, &result);
        self.reply_change(result, reply);
    }

    /// Has the kernel forget the mode of a file that got another list of `NFSv4`, which changes it.
    fn note_list(&self, ino: Ino, name: &[u8], result: &Result<()>) {
        if result.is_ok() && name == NFS4_ACL {
            self.invalidate_attributes(ino);
        }
    }

    /// Creates a file and opens it; it has no name if none is given.
    fn create(
        &self,
        req: &Request,
        parent: NodeId,
        name: Option<&[u8]>,
        mode: (u32, u32),
        flags: i32,
        reply: Reply,
    ) {
        let node = new_node(req, FileKind::Regular, mode, Rdev::default(), b"");
        let by = caller(req);
        let unnamed = name.is_none();
        self.create_or_defer(req, parent, name, &node, move |inner, made| match made {
            Ok(attr) => {
                inner.state.nodes.add_reference(&attr);
                if unnamed {
                    inner.state.nodes.note_nameable(attr.ino);
                }
                let handle = inner.observed.notify_opened(by, &attr, flags, true);
                let shown = inner.entry_attr(&attr);
                reply.created(inner.valid(), &shown, attr.generation, handle, open::KEEP_CACHE);
            }
            Err(error) => reply.error(errno_of(&error)),
        });
    }

    fn fallocate(&self, req: &Request, ino: NodeId, offset: u64, length: u64, mode: i32, reply: Reply) {
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
            _ => return reply.error(libc::EOPNOTSUPP),
        };
        let ino = self.ino(ino);
        let by = cred(req);
        let allowed = self
            .permit_write(ino, offset.saturating_add(length))
            .and_then(|()| permit_fallocate_by_flags(self.fs.getattr(ino)?.flags, mode))
            .and_then(|()| if by.is_root() { Ok(()) } else { self.clear_setid(&by, ino) });
        let result = allowed.and_then(|()| self.fs.fallocate(ino, mode, offset, length, by.privilege()));
        self.reply_change(result, reply);
    }

    fn seek(&self, ino: NodeId, offset: i64, whence: u32, reply: Reply) {
        let what = match i32::try_from(whence) {
            Ok(libc::SEEK_DATA) => Seek::Data,
            Ok(libc::SEEK_HOLE) => Seek::Hole,
            _ => return reply.error(libc::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(libc::ENXIO) };
        let file = self.ino(ino);
        if self.fs.read_only() {
            return reply_seek(self.fs.seek(file, offset, what), reply);
        }
        let may_block = !reply.can_wait_for_others();
        let reply = Arc::new(Mutex::new(Some(reply)));
        if may_block {
            self.answer_seek_in_time((file, offset, what), &reply);
        }
        let inner = Arc::clone(&self.0);
        self.state.seeks.push(Box::new(move |notifier| {
            let from = i64::try_from(offset).unwrap_or(i64::MAX);
            // Writes back to the end of the file. If the kernel has forgotten the file,
            // this fails, and there are no pages.
            if let Err(error) = notifier.inval_inode(ino, from) {
                log::debug!("cannot write back inode {}: {error}", file.0);
            }
            if let Some(reply) = reply.lock().take() {
                reply_seek(inner.fs.seek(file, offset, what), reply);
            }
        }));
    }

    /// Answers a search after a while without what the kernel has not written back, if that is not
    /// done by then: the writes may be queued behind the search. Then everything is data. If the
    /// kernel keeps writes, only it knows the size, and answers all searches from then on itself,
    /// in this way.
    fn answer_seek_in_time(&self, search: (Ino, u64, Seek), reply: &Arc<Mutex<Option<Reply>>>) {
        let (inner, late) = (Arc::clone(&self.0), Arc::clone(reply));
        let answer = move || {
            SystemClock.sleep(SEARCH_TIME);
            let Some(reply) = late.lock().take() else { return };
            if inner.writes_cached.load(Ordering::Relaxed) {
                return reply.error(libc::ENOSYS);
            }
            let (file, offset, what) = search;
            let found = inner.fs.getattr(file).and_then(|attr| match what {
                _ if offset >= attr.size => Err(Error::NoSuchOffset),
                Seek::Data => Ok(offset),
                Seek::Hole => Ok(attr.size),
            });
            reply_seek(found, reply);
        };
        if let Err(error) = thread::Builder::new().name("fuse-search".into()).spawn(answer) {
            log::warn!("cannot search for data: {error}");
            if let Some(reply) = reply.lock().take() {
                reply.error(libc::EAGAIN);
            }
        }
    }
}

/// Returns the access that an open with these flags needs.
fn access_of_open(flags: i32) -> Access {
    /// The file is to be executed, which the kernel says to file systems alone (`__FMODE_EXEC`).
    const EXECUTED: i32 = 0x20;
    match flags & libc::O_ACCMODE {
        _ if flags & EXECUTED != 0 => Access::EXECUTE,
        libc::O_RDONLY => Access::READ,
        libc::O_WRONLY => Access::WRITE,
        _ => Access::READ.and(Access::WRITE),
    }
}
