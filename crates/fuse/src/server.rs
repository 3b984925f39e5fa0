//! The requests of the kernel, answered by a [`FileSystem`].
//!
//! The one idea: the kernel is the only front-end and caches everything, so the server keeps
//! nothing but the count of references ([`Nodes`]). What follows from it:
//!
//! - Names, absent names and attributes are good for a day. The kernel itself follows the changes
//!   that it asks for (`nlink` after an unlink, both directories after a rename), as it does for
//!   every FUSE file system.
//! - Files and directories need no handles: an open file holds its inode by a reference, so OPEN,
//!   OPENDIR and their releases are refused with ENOSYS once, and the kernel stops asking. Without
//!   OPEN there is no atomic `O_TRUNC`; truncation arrives as a SETATTR instead, which is one
//!   request in place of two. The kernel learns this from the first answer to an OPEN, and until
//!   then releases what it creates; so the session opens a file that only it can see ([`PROBE`])
//!   before anyone else comes.
//! - A write is passed on before it returns, so that who writes hears of a full disk, and a write
//!   that has returned has its space. Only pages changed through a mapping come late, and then the
//!   file is dated by their coming.
//! - With `writeback` the kernel keeps all writes: size, mtime and ctime of regular files are the
//!   kernel's and arrive by SETATTR, so that late pages must not date the file: nothing would put
//!   it right where the kernel found the time unchanged. Offsets of appending writes are already
//!   right; any file may be read.
//! - Late pages come in nobody's name ([`late_writer`]), and nobody may be there any more to hear
//!   that they found no room, so what is lost of them is kept in mind ([`Losses`]).
//! - Direct I/O is not done asynchronously (`FUSE_ASYNC_DIO`): the kernel drops the cached pages
//!   under a direct write only before it where it is queued, so that readers would go on seeing
//!   what they read meanwhile; and it turns ENOSPC into EIO there.
//! - Locks stay in the kernel, which serves all processes of a mount, releases them on exit, finds
//!   deadlocks and lets signals interrupt a waiting one.
//! - An image with extended attributes asks for `HANDLE_KILLPRIV_V2`: otherwise the kernel looks
//!   for `security.capability` at every write. In return the set-id bits of a file that is written,
//!   truncated or given away are cleared here, and the kernel, which takes the attributes that it
//!   knows for good, is told to ask again ([`Inner::kill_setid`]).
//!
//! No call here may wait for the kernel to answer anything: it would wait for itself.

mod observed;
mod requests;

use crate::convert::{FileAttr, NodeIds, Presented, absent, file_attr};
use crate::later::{Later, Room};
use crate::losses::Losses;
use crate::nodes::Nodes;
use crate::options::{Access, MountOptions};
use crate::protocol::{Directory, NodeId, Notifier, Reply, Request, write};
use observed::Observed;
use spindle_vfs::{
    APPEND, Attr, Checking, Cred, DirEntry, Error, FileKind, FileSystem, IMMUTABLE, Ino, NewNode, Observer,
    Options, Privilege, Rdev, Result, SetAttr, Vfs, without_set_id,
};
use std::cell::RefCell;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long names and attributes are good in the kernel.
const VALID: Duration = Duration::from_secs(24 * 60 * 60);
/// Largest read or write, in bytes: the kernel's limit of 256 pages.
pub(crate) const MAX_REQUEST_BYTES: u32 = 1 << 20;
/// Read-ahead and late writes under way at once.
const MAX_BACKGROUND: u16 = 64;

/// The name, in the root directory and for this process alone, of a file to try an OPEN on.
pub(crate) const PROBE: &str = ".spindle: does opening take a request?";
/// Its number, which no file system uses.
const PROBE_NODE: NodeId = NodeId(u64::MAX);

thread_local! {
    /// What a read is answered from; each worker thread keeps its own.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Serves one mount. The shared part goes with requests that are finished later.
pub(crate) struct Server(Arc<Inner>);

impl Deref for Server {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

pub(crate) struct Inner {
    fs: Arc<dyn FileSystem>,
    ids: NodeIds,
    presented: Presented,
    /// Group rule and file flags; the kernel has checked permissions.
    front: Vfs,
    upkeep: Arc<Upkeep>,
    xattrs: bool,
    /// Opening needs no request, which the kernel says in INIT. Never so if someone observes.
    zero_message_open: AtomicBool,
    /// `writeback` is asked for.
    writeback: bool,
    /// The kernel has agreed to keep writes, in INIT, and so keeps the times of regular files.
    writes_cached: AtomicBool,
    /// For whom late pages take space.
    late_writer: Privilege,
    observed: Observed,
}

/// What the server shares with the other threads of its session.
#[derive(Default)]
pub(crate) struct Upkeep {
    pub(crate) nodes: Nodes,
    seeks: Later,
    retries: Later,
    room: Room,
    /// What was written late and is not in the image.
    pub(crate) losses: Losses,
    /// For what the kernel must be told; set before the first request is served.
    pub(crate) notifier: OnceLock<Notifier>,
    /// Something was changed since this was last cleared: set after the change.
    pub(crate) changed: AtomicBool,
}

impl Server {
    pub(crate) fn new(
        fs: Arc<dyn FileSystem>,
        options: &MountOptions,
        upkeep: Arc<Upkeep>,
        observer: Option<Arc<dyn Observer>>,
    ) -> Self {
        Self(Arc::new(Inner {
            ids: NodeIds::new(fs.root()),
            presented: Presented {
                uid: options.uid,
                gid: options.gid,
                file_mask: options.file_mask,
                dir_mask: options.dir_mask,
            },
            front: Vfs::new(Arc::clone(&fs), Options { checking: Checking::ByKernel, group: options.groups }),
            upkeep,
            xattrs: options.xattrs && fs.limits().xattrs,
            zero_message_open: AtomicBool::new(true),
            writeback: options.writeback,
            writes_cached: AtomicBool::new(false),
            late_writer: late_writer(options),
            observed: Observed::new(observer),
            fs,
        }))
    }

    /// Creates a node and gives it to `answer`, later if there is no space yet.
    fn make(
        &self,
        req: &Request,
        parent: NodeId,
        name: &[u8],
        node: &NewNode<'_>,
        answer: impl FnOnce(&Inner, Result<Attr>) + Send + 'static,
    ) {
        let (by, parent, name) = (cred(req), self.ino(parent), name);
        let caller = observed::caller(req);
        let made = self.create_node(&by, parent, name, node);
        if !self.may_yet_fit(&made) {
            if let Ok(attr) = &made {
                self.made(caller, parent, name, attr);
            }
            return answer(self, made);
        }
        let (inner, name, target) = (Arc::clone(&self.0), name.to_vec(), node.target.to_vec());
        let node = NewNode { target: b"", ..*node };
        self.upkeep.retries.push(Box::new(move |_| {
            let node = NewNode { target: &target, ..node };
            let made = inner.upkeep.room.retry(|| inner.create_node(&by, parent, &name, &node));
            if let Ok(attr) = &made {
                inner.made(caller, parent, &name, attr);
            }
            answer(&inner, made);
        }));
    }

    fn make_entry(&self, req: &Request, parent: NodeId, name: &[u8], node: &NewNode<'_>, reply: Reply) {
        self.make(req, parent, name, node, |inner, made| inner.reply_entry(made, reply));
    }
}

impl Upkeep {
    /// Questions for data and holes.
    pub(crate) fn seeks(&self) -> &Later {
        &self.seeks
    }

    /// Returns the requests that wait for space.
    pub(crate) fn retries(&self) -> &Later {
        &self.retries
    }
}

impl Inner {
    fn ino(&self, node: NodeId) -> Ino {
        self.ids.ino(node)
    }

    /// Returns the attributes under the number that the kernel uses for requests.
    fn entry_attr(&self, attr: &Attr) -> FileAttr {
        file_attr(self.ids.node(attr.ino), attr, self.presented)
    }

    /// Returns the attributes under the number that users see: even the root has its own here.
    fn stat_attr(&self, attr: &Attr) -> FileAttr {
        file_attr(NodeId(attr.ino.0), attr, self.presented)
    }

    fn note_change(&self) {
        self.upkeep.changed.store(true, Ordering::Release);
    }

    /// Answers with an inode, on which the file system has just taken a reference for us.
    fn reply_entry(&self, result: Result<Attr>, reply: Reply) {
        match result {
            Ok(attr) => {
                self.upkeep.nodes.take(&attr);
                reply.entry(VALID, &self.entry_attr(&attr), attr.generation);
            }
            Err(error) => reply.error(reported(&error)),
        }
    }

    fn reply_change(&self, result: Result<()>, reply: Reply) {
        self.note_change();
        reply_empty(result, reply);
    }

    /// Returns true if a request found no space but may find some when the kernel has forgotten
    /// what was removed.
    fn may_yet_fit<T>(&self, result: &Result<T>) -> bool {
        matches!(result, Err(Error::NoSpace)) && self.upkeep.room.may_grow()
    }

    fn create_node(&self, by: &Cred<'_>, parent: Ino, name: &[u8], node: &NewNode<'_>) -> Result<Attr> {
        let attr = self.front.create(by, parent, name, node)?;
        self.upkeep.losses.forget(attr.ino);
        self.note_change();
        Ok(attr)
    }

    fn write_file(&self, by: &Cred<'_>, ino: Ino, offset: u64, data: &[u8], flags: u32) -> Result<usize> {
        let cached = flags & write::CACHE != 0;
        let end = offset.saturating_add(data.len() as u64);
        self.permit_write(ino, end).inspect_err(|error| {
            if cached {
                self.upkeep.losses.note(ino, offset..end, error);
            }
        })?;
        let share = if cached { self.late_writer } else { by.privilege() };
        if flags & write::KILL_SUIDGID != 0 {
            self.kill_setid(ino)?;
        }
        // Without its cache of writes the kernel sends pages of mapped files late, too, but no
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
        self.upkeep.losses.made_good(ino, offset..kept);
        match error {
            // The kernel does not look at how much of a late page was written: there, a part is as
            // bad as nothing.
            Some(error) if cached => {
                self.upkeep.losses.note(ino, kept..end, &error);
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
            Err(error) => reply.error(reported(&error)),
        }
    }

    fn reply_removed(&self, result: Result<()>, reply: Reply) {
        if result.is_ok() {
            self.upkeep.room.note_removal();
        }
        self.reply_change(result, reply);
    }

    /// Clears the bits that must not survive a change of contents or of owner by someone without
    /// privilege.
    fn kill_setid(&self, ino: Ino) -> Result<()> {
        let attr = self.fs.getattr(ino)?;
        if let Some(perm) = without_setid(&attr) {
            self.fs.setattr(ino, &SetAttr { perm: Some(perm), ..SetAttr::default() }, Privilege::User)?;
            self.have_attributes_asked_again(ino);
        }
        Ok(())
    }

    /// Tells the kernel that the attributes it knows are old, and older answers that are under way
    /// with them. As no pages are meant, and whoever's request this is keeps the inode in use, the
    /// kernel waits for nothing here.
    fn have_attributes_asked_again(&self, ino: Ino) {
        const NO_PAGES: i64 = -1;
        if let Some(notifier) = self.upkeep.notifier.get()
            && let Err(error) = notifier.inval_inode(self.ids.node(ino), NO_PAGES)
        {
            log::warn!("the kernel may know old attributes of inode {}: {error}", ino.0);
        }
    }

    /// With `uid=` and `gid=` nothing can be given away, and giving it to whom it seems to belong
    /// does nothing.
    fn presented_owner(shown: Option<u32>, wanted: Option<u32>) -> Result<Option<u32>> {
        match (shown, wanted) {
            (Some(shown), Some(wanted)) if shown != wanted => Err(Error::NotPermitted),
            (Some(_), _) => Ok(None),
            (None, wanted) => Ok(wanted),
        }
    }

    fn set_attributes(&self, req: &Request, ino: Ino, mut set: SetAttr) -> Result<Attr> {
        set.uid = Self::presented_owner(self.presented.uid, set.uid)?;
        set.gid = Self::presented_owner(self.presented.gid, set.gid)?;
        let given_away = set.uid.is_some() || set.gid.is_some();
        if set.perm.is_none() && (given_away || (set.size.is_some() && req.uid() != 0)) {
            set.perm = without_setid(&self.fs.getattr(ino)?);
        }
        if set == SetAttr::default() {
            return self.fs.getattr(ino);
        }
        // The kernel dates an unlink, too, and sends the times of the file before it forgets it:
        // not worth a write.
        if is_late_times(&set) {
            let attr = self.fs.getattr(ino)?;
            if attr.nlink == 0 {
                return Ok(attr);
            }
        }
        let attr = self.front.setattr(&cred(req), ino, &set, None)?;
        self.note_change();
        if let Some(size) = set.size {
            self.upkeep.losses.cut(ino, size);
        }
        Ok(attr)
    }

    /// Checks that file flags let a write be done. Appending to an append-only file rewrites its
    /// last page, so that only writes that end within the file are refused.
    fn permit_write(&self, ino: Ino, end: u64) -> Result<()> {
        let flags = self.upkeep.nodes.flags(ino);
        if flags & IMMUTABLE != 0 || (flags & APPEND != 0 && end <= self.fs.getattr(ino)?.size) {
            Err(Error::NotPermitted)
        } else {
            Ok(())
        }
    }

    /// Adds an entry, its attributes and the reference that goes with them; true if it did not fit.
    fn add_with_attributes(&self, dir: Ino, entry: &DirEntry<'_>, reply: &mut Directory) -> bool {
        // The kernel takes no reference from these two.
        let is_dot = matches!(entry.name, b"." | b"..");
        let found = if is_dot { self.fs.getattr(entry.ino) } else { self.fs.lookup(dir, entry.name) };
        let attr = match found {
            Ok(attr) => attr,
            Err(Error::NotFound) => return false,
            Err(error) => {
                log::error!("an entry of directory {} cannot be shown: {error}", dir.0);
                return false;
            }
        };
        let shown = if is_dot { self.stat_attr(&attr) } else { self.entry_attr(&attr) };
        if !is_dot {
            self.upkeep.nodes.take(&attr);
        }
        let full = reply.add_plus(entry.next, entry.name, VALID, &shown, attr.generation);
        if full && !is_dot {
            self.upkeep.nodes.release(attr.ino, 1);
            self.fs.forget(attr.ino, 1);
        } else if !is_dot {
            self.observed.named(dir, entry.name, &attr);
        }
        full
    }
}

/// Returns the attributes of the file to try an OPEN on, for the one who may see it.
fn probe(req: &Request, parent: NodeId, name: &[u8]) -> Option<FileAttr> {
    let ours = parent == NodeId::ROOT && req.pid() == std::process::id() && name == PROBE.as_bytes();
    ours.then(|| {
        let mut attr = absent();
        (attr.node, attr.nlink, attr.uid) = (PROBE_NODE, 1, req.uid());
        attr.mode |= 0o400;
        attr
    })
}

/// For whom late pages take space. They come in nobody's name, so that the reserve of the superuser
/// is not theirs, unless nobody but the superuser can have written them.
fn late_writer(options: &MountOptions) -> Privilege {
    let only_root = options.access != Access::Everyone && nix::unistd::geteuid().is_root();
    if only_root { Privilege::Root } else { Privilege::User }
}

fn cred(req: &Request) -> Cred<'static> {
    Cred::user(req.uid(), req.gid())
}

/// Returns true for what the kernel sends when it writes an inode back: the times that it keeps,
/// and nothing else.
fn is_late_times(set: &SetAttr) -> bool {
    let times = SetAttr { mtime: set.mtime, ctime: set.ctime, ..SetAttr::default() };
    set.ctime.is_some() && *set == times
}

/// Returns the permission bits without set-id bits, if there are any to clear.
fn without_setid(attr: &Attr) -> Option<u32> {
    let perm = without_set_id(attr.perm);
    (attr.kind == FileKind::Regular && perm != attr.perm).then_some(perm)
}

fn new_node<'a>(req: &Request, kind: FileKind, mode: u32, rdev: Rdev, target: &'a [u8]) -> NewNode<'a> {
    NewNode { kind, perm: mode & 0o7777, uid: req.uid(), gid: req.gid(), rdev, target }
}

/// Writes as much as there is space for: how much that was, and what kept the rest out.
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

/// Returns the error number for the kernel; what the user should hear of besides is logged. That
/// nothing is written any more has been told when it began.
fn reported(error: &Error) -> i32 {
    let errno = error.errno();
    if error.is_failure() && errno != libc::EROFS {
        log::error!("{error}");
    }
    errno
}

/// Answers a question for data or a hole.
fn reply_sought(result: Result<u64>, reply: Reply) {
    match result {
        Ok(found) if i64::try_from(found).is_ok() => reply.offset(found),
        Ok(_) => reply.error(libc::EOVERFLOW),
        Err(error) => reply.error(reported(&error)),
    }
}

fn reply_empty(result: Result<()>, reply: Reply) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(reported(&error)),
    }
}

/// An attribute's value or list in the two-step manner of `getxattr`: first the size, then the
/// bytes.
fn reply_xattr(result: Result<Vec<u8>>, size: u32, reply: Reply) {
    match result {
        Ok(value) => match u32::try_from(value.len()) {
            Ok(len) if size == 0 => reply.count(len),
            Ok(len) if len <= size => reply.data(&value),
            _ => reply.error(libc::ERANGE),
        },
        Err(error) => reply.error(reported(&error)),
    }
}

/// Only these name spaces exist in our formats; the kernel also asks for others, and for access
/// control lists as it has them, which programs must hear that there are none.
fn has_name_space(name: &[u8]) -> bool {
    name.starts_with(b"user.") || name.starts_with(b"system.") && !name.starts_with(b"system.posix_acl_")
}
