//! The server: it answers the requests of the kernel with a [`FileSystem`].
//!
//! The kernel is the only client and caches everything, so the server keeps only the counts of
//! references ([`Nodes`]). This has these consequences:
//!
//! - Names, absent names and attributes are valid in the kernel for a day. The kernel itself
//!   updates them after its own requests (`nlink` after an unlink, both directories after a
//!   rename), as for every FUSE file system.
//! - Files and directories need no handles: an open file holds a reference to its inode. So OPEN
//!   and OPENDIR fail once with ENOSYS, and the kernel then sends neither these nor their releases.
//!   Without OPEN there is no atomic `O_TRUNC`; truncation arrives as a SETATTR, one request
//!   instead of two. The kernel learns this from the first reply to an OPEN, and before that it
//!   releases the files that it creates. So the session first opens a file that only it can see
//!   ([`PROBE`]).
//! - A write is passed on before it returns, so a full disk makes it fail, and a write that has
//!   returned has its space. Only pages changed through a mapping arrive late, and their arrival
//!   sets the time of the file.
//! - With `writeback` the kernel keeps all writes. Size, mtime and ctime of regular files come from
//!   the kernel by SETATTR, so late pages must not set times: the kernel would not correct them if
//!   it found its own time unchanged. Appending writes have their final offsets, and the kernel may
//!   read any file, even one that is open only for writing.
//! - Late pages arrive without the ID of a user ([`late_privilege`]). If there is no space for
//!   them, possibly no program is left that could get the error, so lost ranges are recorded
//!   ([`LostWrites`]).
//! - Direct I/O is not done asynchronously (`FUSE_ASYNC_DIO`). The kernel drops the cached pages of
//!   a queued direct write only before the write, so readers would keep the old data that they read
//!   meanwhile; and it turns ENOSPC into EIO.
//! - Advisory locks stay in the kernel, which handles all processes of a mount, releases locks at
//!   the exit of a process, detects deadlocks, and lets signals interrupt a wait.
//! - The numbers of inodes are the kernel's numbers ([`NodeIds`]), and every entry has its
//!   generation. So a file handle is good as long as its file has a name, also when the kernel has
//!   forgotten the file, and on the next mount.
//! - The server requests `HANDLE_KILLPRIV_V2`: otherwise the kernel looks up `security.capability`
//!   at every write, and leaves a set-group-id bit that it would clear on its own file systems. In
//!   return the server must clear the set-id bits of a file that is written, truncated or given to
//!   another owner, and must invalidate the attributes in the kernel ([`Inner::clear_setid`]). It
//!   looks up the groups of the caller for it where they count ([`Processes`]).
//! - If the file system has access control lists of POSIX.1e, the kernel enforces them
//!   (`POSIX_ACL`): it asks for the list of each file that somebody but its owner uses, once, and
//!   forgets it when it changes mode or list. It knows nothing of default lists: a new file gets
//!   its list from the file system, and only where there is none the umask counts, which the kernel
//!   therefore sends (`DONT_MASK`). Not with `uid=`, `umask=` and such: what they show does not
//!   come from the lists.
//! - Lists of `NFSv4` no kernel knows. Where users may use the mount, the server checks all
//!   permissions, of each caller with all groups ([`Inner::caller`]), and the kernel none: names
//!   are valid in it for no time, so that each step of a path comes here, and so do opens. What it
//!   would write late has no user to check, so `writeback` has no effect.
//!
//! No call here may wait for the kernel: the kernel may be waiting for this server.

mod file_flags;
mod ioctl;
mod observed;
mod requests;

use crate::convert::{FileAttr, NodeIds, ShownAttrs, absent, file_attr};
use crate::deferred::{DeferredRequests, ExpectedSpace};
use crate::kernel::server_checks;
use crate::lost_writes::LostWrites;
use crate::nodes::Nodes;
use crate::options::{Access, MountOptions};
use crate::processes::Processes;
use crate::protocol::{Directory, NodeId, Notifier, Reply, Request, Valid, write};
use observed::Observed;
use spindle_clock::RwLock;
use spindle_vfs::acl::{NFS4_ACL, is_acl_name};
use spindle_vfs::{
    APPEND, AclKind, Attr, Checking, Cred, DirEntry, Error, FileKind, FileSystem, Ino, NewNode, Observer,
    Options, Privilege, Rdev, Result, SetAttr, Vfs, permit_write_by_flags, without_set_id,
};
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Time for which names and attributes are valid in the kernel.
const VALID: Duration = Duration::from_secs(24 * 60 * 60);
/// Largest read or write, in bytes: the kernel's limit of 256 pages.
pub(crate) const MAX_REQUEST_BYTES: u32 = 1 << 20;
/// Maximum number of read-ahead and late-write requests in flight.
const MAX_BACKGROUND: u16 = 64;

/// Name of a file in the root directory that only this process can see, for a first OPEN.
pub(crate) const PROBE: &str = ".spindle: does opening take a request?";
/// Number of that file, which no file system uses.
const PROBE_NODE: NodeId = NodeId(u64::MAX);

/// The set-group-id bit of a mode (POSIX `S_ISGID`).
const SET_GID: u32 = 0o2000;

/// The server of one mount. Deferred requests share [`Inner`].
pub(crate) struct Server(Arc<Inner>);

impl Deref for Server {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// The shared part of the server.
pub(crate) struct Inner {
    fs: Arc<dyn FileSystem>,
    ids: NodeIds,
    shown_attrs: ShownAttrs,
    /// Applies the group rule and the file flags, and checks permissions unless the kernel does.
    vfs: Vfs,
    /// The server checks permissions.
    checks: bool,
    state: Arc<ServerState>,
    processes: Processes,
    xattrs: bool,
    /// The access control lists that decide. The kernel enforces those of POSIX.1e.
    acls: AclKind,
    /// The kernel supports opens without a request, and there is no observer and nothing to check.
    zero_message_open: AtomicBool,
    /// The option `writeback` is set.
    writeback: bool,
    /// The kernel has accepted to keep writes, and so keeps the times of regular files.
    writes_cached: AtomicBool,
    /// Privilege of late pages when they need space.
    late_privilege: Privilege,
    /// Number of threads for each CPU where the kernel offers `io_uring`.
    rings: usize,
    observed: Observed,
}

/// State that the server shares with the other threads of its session.
#[derive(Default)]
pub(crate) struct ServerState {
    pub(crate) nodes: Nodes,
    seeks: DeferredRequests,
    retries: DeferredRequests,
    space: ExpectedSpace,
    /// Late writes that are not in the image.
    pub(crate) lost_writes: LostWrites,
    /// Sends notices to the kernel; set before the first request is served.
    pub(crate) notifier: OnceLock<Notifier>,
    /// Set after each change; cleared by the commit timer.
    pub(crate) changed: AtomicBool,
    /// Held by each request while it is served, so that a remount can wait for all of them.
    pub(crate) serving: RwLock<()>,
}

impl Server {
    pub(crate) fn new(
        fs: Arc<dyn FileSystem>,
        options: &MountOptions,
        state: Arc<ServerState>,
        processes: Processes,
        observer: Option<Arc<dyn Observer>>,
    ) -> Self {
        let checks = server_checks(options);
        let checking = if checks { Checking::Checked } else { Checking::ByKernel };
        let acls = if options.changes_shown_attrs() { AclKind::None } else { fs.limits().acls };
        Self(Arc::new(Inner {
            ids: NodeIds::new(fs.root()),
            shown_attrs: ShownAttrs {
                uid: options.uid,
                gid: options.gid,
                file_mask: options.file_mask,
                dir_mask: options.dir_mask,
            },
            vfs: Vfs::new(Arc::clone(&fs), Options { checking, group: options.groups }),
            checks,
            state,
            processes,
            xattrs: options.xattrs && fs.limits().xattrs,
            acls,
            zero_message_open: AtomicBool::new(true),
            writeback: options.writeback && !checks,
            writes_cached: AtomicBool::new(false),
            late_privilege: late_privilege(options),
            rings: rings(options),
            observed: Observed::new(observer),
            fs,
        }))
    }

    /// Creates a node, without a name if none is given, and passes it to `answer`. Defers the
    /// request if space may become free.
    fn create_or_defer(
        &self,
        req: &Request,
        parent: NodeId,
        name: Option<&[u8]>,
        node: &NewNode<'_>,
        answer: impl FnOnce(&Inner, Result<Attr>) + Send + 'static,
    ) {
        let (parent, caller) = (self.ino(parent), observed::caller(req));
        let by = match self.caller(req) {
            Ok(by) => by,
            Err(error) => return answer(self, Err(error)),
        };
        let made = self.create_node(&by, parent, name, node);
        if !self.may_get_space(&made) {
            if let (Ok(attr), Some(name)) = (&made, name) {
                self.notify_made(caller, parent, name, attr);
            }
            return answer(self, made);
        }
        let (inner, name, target) = (Arc::clone(&self.0), name.map(<[u8]>::to_vec), node.target.to_vec());
        let node = NewNode { target: b"", ..*node };
        self.state.retries.push(Box::new(move |_| {
            let node = NewNode { target: &target, ..node };
            let made = inner.state.space.retry(|| inner.create_node(&by, parent, name.as_deref(), &node));
            if let (Ok(attr), Some(name)) = (&made, &name) {
                inner.notify_made(caller, parent, name, attr);
            }
            answer(&inner, made);
        }));
    }

    fn make_entry(&self, req: &Request, parent: NodeId, name: &[u8], node: &NewNode<'_>, reply: Reply) {
        self.create_or_defer(req, parent, Some(name), node, |inner, made| inner.reply_entry(made, reply));
    }
}

impl ServerState {
    /// Returns the deferred searches for data and holes.
    pub(crate) fn seeks(&self) -> &DeferredRequests {
        &self.seeks
    }

    /// Returns the deferred requests that wait for space.
    pub(crate) fn retries(&self) -> &DeferredRequests {
        &self.retries
    }
}

impl Inner {
    fn ino(&self, node: NodeId) -> Ino {
        self.ids.ino(node)
    }

    /// Returns the attributes with the number that the kernel uses in requests.
    fn entry_attr(&self, attr: &Attr) -> FileAttr {
        file_attr(self.ids.node(attr.ino), attr, self.shown_attrs)
    }

    /// Returns the attributes with the number that users see, also for the root.
    fn stat_attr(&self, attr: &Attr) -> FileAttr {
        file_attr(NodeId(attr.ino.0), attr, self.shown_attrs)
    }

    fn note_change(&self) {
        self.state.changed.store(true, Ordering::Release);
    }

    /// Replies with an inode to which the file system has just added a reference.
    fn reply_entry(&self, result: Result<Attr>, reply: Reply) {
        match result {
            Ok(attr) => {
                self.state.nodes.add_reference(&attr);
                // In the kernel the root's generation is 0.
                let generation = if attr.ino == self.fs.root() { 0 } else { attr.generation };
                reply.entry(self.valid(), &self.entry_attr(&attr), generation);
            }
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    /// Returns how long the kernel may use names and attributes.
    fn valid(&self) -> Valid {
        Valid { name: if self.checks { Duration::ZERO } else { VALID }, attributes: VALID }
    }

    /// Returns the caller of a request, with all groups if the server checks permissions. A caller
    /// whose groups are not known could be in one that a list denies something.
    fn caller(&self, req: &Request) -> Result<Cred<'static>> {
        let by = cred(req);
        if self.checks && !by.is_root() { self.processes.known(&by).ok_or(Error::Access) } else { Ok(by) }
    }

    /// Checks a permission of the caller, if the server does.
    fn permit(&self, req: &Request, ino: Ino, want: spindle_vfs::Access) -> Result<()> {
        if self.checks { self.vfs.access(&self.caller(req)?, ino, want) } else { Ok(()) }
    }

    fn reply_change(&self, result: Result<()>, reply: Reply) {
        self.note_change();
        reply_empty(result, reply);
    }

    /// Returns true if a request found no space, but may find some when the kernel forgets
    /// removed files.
    fn may_get_space<T>(&self, result: &Result<T>) -> bool {
        matches!(result, Err(Error::NoSpace)) && self.state.space.is_expected()
    }

    fn create_node(
        &self,
        by: &Cred<'_>,
        parent: Ino,
        name: Option<&[u8]>,
        node: &NewNode<'_>,
    ) -> Result<Attr> {
        // Only then the groups of the caller decide about the mode.
        let by = if node.perm & SET_GID == 0 {
            Cow::Borrowed(by)
        } else {
            Cow::Owned(self.processes.with_groups(by))
        };
        let attr = match name {
            Some(name) => self.vfs.create(&by, parent, name, node)?,
            None => self.vfs.create_unnamed(&by, parent, node)?,
        };
        self.state.lost_writes.note_created(attr.ino);
        self.note_change();
        Ok(attr)
    }

    fn write_file(&self, by: &Cred<'_>, ino: Ino, offset: u64, data: &[u8], flags: u32) -> Result<usize> {
        let cached = flags & write::CACHE != 0;
        let end = offset.saturating_add(data.len() as u64);
        self.permit_write(ino, end).inspect_err(|error| {
            if cached {
                self.state.lost_writes.note(ino, offset..end, error);
            }
        })?;
        let share = if cached { self.late_privilege } else { by.privilege() };
        if flags & write::KILL_SUIDGID != 0 {
            self.clear_setid(by, ino)?;
        }
        // Without `writeback` the kernel also sends pages of mapped files late, but no
        // times.
        let dated_by_kernel = cached && self.writes_cached.load(Ordering::Relaxed);
        let write = |offset, data: &[u8]| {
            if dated_by_kernel {
                self.fs.write_late(ino, offset, data, share)
            } else {
                self.fs.write(ino, offset, data, share)
            }
        };
        let (done, error) = write_all(write, offset, data);
        let kept = offset + done as u64;
        self.state.lost_writes.note_written(ino, offset..kept);
        match error {
            // The kernel ignores the count of a partial late write, so it is an error.
            Some(error) if cached => {
                self.state.lost_writes.note(ino, kept..end, &error);
                Err(error)
            }
            Some(error) if done == 0 => Err(error),
            _ => Ok(done),
        }
    }

    fn reply_written(&self, result: Result<usize>, reply: Reply) {
        self.note_change();
        match result {
            Ok(len) => reply.count(u32::try_from(len).unwrap_or(u32::MAX)),
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    fn reply_removed(&self, result: Result<()>, reply: Reply) {
        if result.is_ok() {
            self.state.space.note_removal();
        }
        self.reply_change(result, reply);
    }

    /// Clears the set-id bits, after a change of content or owner by a user without privilege.
    fn clear_setid(&self, by: &Cred<'_>, ino: Ino) -> Result<()> {
        let attr = self.fs.getattr(ino)?;
        if let Some(perm) = self.without_setid(&attr, by) {
            self.fs.setattr(ino, &SetAttr { perm: Some(perm), ..SetAttr::default() }, Privilege::User)?;
            self.invalidate_attributes(ino);
        }
        Ok(())
    }

    /// Returns the permission bits without set-id bits, if the file has set-id bits to clear.
    fn without_setid(&self, attr: &Attr, by: &Cred<'_>) -> Option<u32> {
        let in_group = || by.is_root() || self.processes.with_groups(by).in_group(attr.gid);
        let perm = without_set_id(attr.perm, in_group);
        (attr.kind == FileKind::Regular && perm != attr.perm).then_some(perm)
    }

    /// Invalidates the attributes in the kernel, and replies with older attributes that are in
    /// flight. The kernel does not wait here, because no pages are invalidated and the current
    /// request keeps the inode in use.
    fn invalidate_attributes(&self, ino: Ino) {
        const NO_PAGES: i64 = -1;
        if let Some(notifier) = self.state.notifier.get()
            && let Err(error) = notifier.inval_inode(self.ids.node(ino), NO_PAGES)
        {
            log::warn!("the kernel may show old attributes of inode {}: {error}", ino.0);
        }
    }

    /// Has the kernel drop the pages of a file from `offset` on, once the present request is
    /// answered: file flags forbid what was stored into them, so nobody may read it there.
    fn drop_pages(&self, node: NodeId, offset: u64) {
        let ino = self.ino(node);
        let from = i64::try_from(offset).unwrap_or(i64::MAX);
        self.state.seeks.push(Box::new(move |notifier| {
            if let Err(error) = notifier.inval_inode(node, from) {
                log::debug!("inode {} keeps pages that could not be written: {error}", ino.0);
            }
        }));
    }

    /// Returns the owner to set. With `uid=` and `gid=` the owner cannot be changed, and a
    /// change to the shown owner does nothing.
    fn check_owner(shown: Option<u32>, wanted: Option<u32>) -> Result<Option<u32>> {
        match (shown, wanted) {
            (Some(shown), Some(wanted)) if shown != wanted => Err(Error::NotPermitted),
            (Some(_), _) => Ok(None),
            (None, wanted) => Ok(wanted),
        }
    }

    fn set_attributes(&self, req: &Request, ino: Ino, mut set: SetAttr, of_open: bool) -> Result<Attr> {
        set.uid = Self::check_owner(self.shown_attrs.uid, set.uid)?;
        set.gid = Self::check_owner(self.shown_attrs.gid, set.gid)?;
        let changes_owner = set.uid.is_some() || set.gid.is_some();
        if !self.checks && set.perm.is_none() && (changes_owner || (set.size.is_some() && req.uid() != 0)) {
            set.perm = self.without_setid(&self.fs.getattr(ino)?, &cred(req));
        }
        if set == SetAttr::default() {
            return self.fs.getattr(ino);
        }
        // Before the kernel forgets an unlinked file it sends its times; they need no
        // write. A file that never had a name may still get one.
        if is_writeback_of_times(&set) && !self.state.nodes.is_nameable(ino) {
            let attr = self.fs.getattr(ino)?;
            if attr.nlink == 0 {
                return Ok(attr);
            }
        }
        let attr = if of_open && is_writeback_of_times(&set) {
            // Of a write that was permitted. If a program sets times, no handle comes with them.
            self.fs.setattr(ino, &set, Privilege::User)?
        } else {
            self.vfs.set_attributes(&self.caller(req)?, ino, &set, of_open)?
        };
        self.note_change();
        if let Some(size) = set.size {
            self.state.lost_writes.note_truncated(ino, size);
        }
        Ok(attr)
    }

    /// Checks that the file flags permit a write. An append to an append-only file rewrites its
    /// last page, so only writes that end within the file are refused.
    fn permit_write(&self, ino: Ino, end: u64) -> Result<()> {
        let flags = self.state.nodes.flags(ino);
        let grows = flags & APPEND == 0 || end > self.fs.getattr(ino)?.size;
        permit_write_by_flags(flags, grows)
    }

    /// Adds an entry with its attributes and a reference. Returns true if it did not fit.
    fn add_with_attributes(&self, dir: Ino, entry: &DirEntry<'_>, reply: &mut Directory) -> bool {
        // The kernel takes no reference to these two.
        let is_dot = matches!(entry.name, b"." | b"..");
        let found = if is_dot { self.fs.getattr(entry.ino) } else { self.fs.lookup(dir, entry.name) };
        let attr = match found {
            Ok(attr) => attr,
            Err(Error::NotFound) => return false,
            Err(error) => {
                log::error!("an entry of directory {}: {error}", dir.0);
                return reply.add_unknown(NodeId(entry.ino.0), entry.next, entry.name);
            }
        };
        let shown = if is_dot { self.stat_attr(&attr) } else { self.entry_attr(&attr) };
        if !is_dot {
            self.state.nodes.add_reference(&attr);
        }
        let full = reply.add_plus(entry.next, entry.name, self.valid(), &shown, attr.generation);
        if full && !is_dot {
            self.state.nodes.release(attr.ino, 1);
            self.fs.forget(attr.ino, 1);
        } else if !is_dot {
            self.observed.notify_named(dir, entry.name, &attr);
        }
        full
    }
}

/// Returns the attributes of the file [`PROBE`], if this process asks for it.
fn probe(req: &Request, parent: NodeId, name: &[u8]) -> Option<FileAttr> {
    let ours = parent == NodeId::ROOT && req.pid() == std::process::id() && name == PROBE.as_bytes();
    ours.then(|| {
        let mut attr = absent();
        (attr.node, attr.nlink, attr.uid) = (PROBE_NODE, 1, req.uid());
        attr.mode |= 0o400;
        attr
    })
}

/// Returns the privilege of late pages when they need space. They arrive without the ID of a user,
/// so they cannot use the reserve of the superuser, unless only the superuser can have written
/// them.
fn late_privilege(options: &MountOptions) -> Privilege {
    let only_root = options.access != Access::Everyone && nix::unistd::geteuid().is_root();
    if only_root { Privilege::Root } else { Privilege::User }
}

/// Returns the number of threads for each CPU if requests are to come through `io_uring`. With
/// `auto_unmount` they do not: the system ends the connection a moment after a daemon that dies,
/// and `fusermount3` looks once, perhaps before that.
fn rings(options: &MountOptions) -> usize {
    if options.io_uring == Some(false) || options.auto_unmount { 0 } else { options.threads }
}

fn cred(req: &Request) -> Cred<'static> {
    Cred { process: req.pid(), ..Cred::user(req.uid(), req.gid()) }
}

/// Returns true if only the times are set that the kernel sends when it writes back an inode.
fn is_writeback_of_times(set: &SetAttr) -> bool {
    let times = SetAttr { mtime: set.mtime, ctime: set.ctime, ..SetAttr::default() };
    set.ctime.is_some() && *set == times
}

/// Returns a node to create. With access control lists the kernel leaves the umask to us; otherwise
/// the mode has nothing any more for it to take away.
fn new_node<'a>(
    req: &Request,
    kind: FileKind,
    (mode, umask): (u32, u32),
    rdev: Rdev,
    target: &'a [u8],
) -> NewNode<'a> {
    let masked = mode & umask & 0o777;
    let perm = mode & 0o7777 & !masked;
    NewNode { kind, perm, masked, uid: req.uid(), gid: req.gid(), rdev, target }
}

/// Writes as many bytes as possible. Returns their number, and the error if it is not all.
fn write_all(
    write: impl Fn(u64, &[u8]) -> Result<usize>,
    offset: u64,
    data: &[u8],
) -> (usize, Option<Error>) {
    let mut done = 0;
    while done < data.len() {
        match write(offset + done as u64, &data[done..]) {
            Ok(0) => return (done, Some(Error::NoSpace)),
            Ok(len) => done += len,
            Err(error) => return (done, Some(error)),
        }
    }
    (done, None)
}

/// Returns the error number for the kernel, and logs serious errors. EROFS is not logged, because
/// the first failed write was.
fn errno_of(error: &Error) -> i32 {
    let errno = error.errno();
    if error.is_failure() && errno != libc::EROFS {
        log::error!("{error}");
    }
    errno
}

/// Replies to a search for data or a hole.
fn reply_seek(result: Result<u64>, reply: Reply) {
    match result {
        Ok(found) if i64::try_from(found).is_ok() => reply.offset(found),
        Ok(_) => reply.error(libc::EOVERFLOW),
        Err(error) => reply.error(errno_of(&error)),
    }
}

/// Replies with entries of a directory. An error comes alone, as the reply to the next request,
/// where the kernel asks for what follows the last entry.
fn reply_directory(result: Result<()>, reply: Directory) {
    match result {
        Err(error) if reply.is_empty() => reply.error(errno_of(&error)),
        _ => reply.ok(),
    }
}

fn reply_empty(result: Result<()>, reply: Reply) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno_of(&error)),
    }
}

/// Replies with the value or the list of attributes in the two steps of `getxattr`: first the size,
/// then the bytes.
fn reply_xattr(result: Result<Vec<u8>>, size: u32, reply: Reply) {
    match result {
        Ok(value) => match u32::try_from(value.len()) {
            Ok(len) if size == 0 => reply.count(len),
            Ok(len) if len <= size => reply.data(&value),
            _ => reply.error(libc::ERANGE),
        },
        Err(error) => reply.error(errno_of(&error)),
    }
}

/// Returns true for the name spaces that our formats have. The kernel also asks for others, and for
/// access control lists, which are not passed on unless they decide.
fn has_name_space(name: &[u8]) -> bool {
    name.starts_with(b"user.")
        || name.starts_with(b"trusted.")
        || name.starts_with(b"system.") && !is_acl_name(name) && name != NFS4_ACL
}
