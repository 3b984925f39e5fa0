//! Replies to requests.

use super::operation::NodeId;
use super::wire::{Builder, OUT_HEADER_BYTES};
use crate::convert::{FileAttr, absent, decode_rdev};
use libc::{STATX_BASIC_STATS, STATX_BTIME};
use nix::sys::uio::writev;
use spindle_clock::Timestamp;
use spindle_vfs::{FileKind, FsStat};
use std::cell::RefCell;
use std::fs::File;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

/// The pending reply to one request. If it is dropped, the kernel gets an I/O error.
#[derive(Debug)]
pub(crate) struct Reply(Option<Road>);

/// The way of a reply to the kernel.
#[derive(Debug)]
enum Road {
    Device { device: Arc<File>, unique: u64 },
    Ring(spindle_fuse_uring::Reply),
}

thread_local! {
    /// Buffer for replies through the device that are written in place; each thread has its own.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Sends one message in a single write.
pub(super) fn send(device: &File, code: i32, unique: u64, body: &[u8]) -> nix::Result<()> {
    let len = u32::try_from(OUT_HEADER_BYTES + body.len()).map_err(|_| nix::Error::E2BIG)?;
    let header = Builder::default().u32(len).u32(code.cast_unsigned()).u64(unique).0;
    writev(device, &[IoSlice::new(&header), IoSlice::new(body)]).map(drop)
}

/// Sends a reply through the device.
fn send_reply(device: &File, errno: i32, unique: u64, body: &[u8]) {
    match send(device, -errno, unique, body) {
        // The request was interrupted, or the mount is gone: no reply is needed.
        Ok(()) | Err(nix::Error::ENOENT | nix::Error::ENODEV | nix::Error::ECONNABORTED) => {}
        Err(error) => log::error!("the kernel refused a reply: {error}"),
    }
}

impl Reply {
    pub(super) fn new(device: &Arc<File>, unique: u64) -> Self {
        Self(Some(Road::Device { device: Arc::clone(device), unique }))
    }

    pub(super) const fn through_ring(reply: spindle_fuse_uring::Reply) -> Self {
        Self(Some(Road::Ring(reply)))
    }

    /// Returns true if the reply can wait until other requests of the kernel are answered, which
    /// may be queued behind this one.
    pub(crate) fn can_wait_for_others(&self) -> bool {
        match &self.0 {
            Some(Road::Ring(reply)) => reply.can_wait_for_others(),
            _ => true,
        }
    }

    /// Replies with an error number.
    pub(crate) fn error(mut self, errno: i32) {
        self.send_error(errno);
    }

    fn send_error(&mut self, errno: i32) {
        match self.0.take() {
            Some(Road::Device { device, unique }) => send_reply(&device, errno, unique, &[]),
            Some(Road::Ring(reply)) => reply.error(errno),
            None => {}
        }
    }

    /// Replies with success.
    pub(crate) fn ok(self) {
        self.data(&[]);
    }

    /// Replies with bytes.
    pub(crate) fn data(mut self, bytes: &[u8]) {
        match self.0.take() {
            Some(Road::Device { device, unique }) => send_reply(&device, 0, unique, bytes),
            Some(Road::Ring(reply)) => reply.data(bytes),
            None => {}
        }
    }

    /// Replies with up to `len` bytes that `fill` writes; it returns their number or an error
    /// number.
    pub(crate) fn fill(mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> Result<usize, i32>) {
        match self.0.take() {
            Some(Road::Device { device, unique }) => BUFFER.with_borrow_mut(|buffer| {
                if buffer.len() < len {
                    buffer.resize(len, 0);
                }
                match fill(&mut buffer[..len]) {
                    Ok(filled) => send_reply(&device, 0, unique, &buffer[..filled]),
                    Err(errno) => send_reply(&device, errno, unique, &[]),
                }
            }),
            Some(Road::Ring(reply)) => reply.fill(len, fill),
            None => {}
        }
    }

    /// Replies with an inode.
    pub(crate) fn entry(self, valid: Valid, attr: &FileAttr, generation: u64) {
        self.data(&entry(Builder::default(), valid, attr, generation).0);
    }

    /// Replies with attributes.
    pub(crate) fn attr(self, valid: Duration, attr: &FileAttr) {
        let head = Builder::default().u64(valid.as_secs()).u32(valid.subsec_nanos()).u32(0);
        self.data(&attributes(head, attr).0);
    }

    /// Replies with attributes and the time of creation (`fuse_statx_out`).
    pub(crate) fn attr_with_birthtime(self, valid: Duration, a: &FileAttr, birthtime: Timestamp) {
        let head = Builder::default().u64(valid.as_secs()).u32(valid.subsec_nanos()).zeros(4 + 16);
        let mode = u16::try_from(a.mode).unwrap_or(u16::MAX);
        let head = head.u32(STATX_BASIC_STATS | STATX_BTIME).u32(a.blksize).u64(0);
        let head = head.u32(a.nlink).u32(a.uid).u32(a.gid).u16(mode).u16(0);
        let head = head.u64(a.node.0).u64(a.size).u64(a.blocks).u64(0);
        let time = |to: Builder, time: &Timestamp| to.u64(time.secs.cast_unsigned()).u32(time.nanos).u32(0);
        let times = [a.atime, birthtime, a.ctime, a.mtime].iter().fold(head, time);
        let rdev = decode_rdev(a.rdev);
        self.data(&times.u32(rdev.major).u32(rdev.minor).zeros(8 + 14 * 8).0);
    }

    /// Replies with the result of an `ioctl`: `output` is what the caller gets.
    pub(crate) fn ioctl(self, output: &[u8]) {
        self.data(&Builder::default().zeros(16).bytes(output).0);
    }

    /// Replies with an open file.
    pub(crate) fn opened(self, handle: u64, flags: u32) {
        self.data(&Builder::default().u64(handle).u32(flags).u32(0).0);
    }

    /// Replies with a new open file.
    pub(crate) fn created(self, valid: Valid, attr: &FileAttr, generation: u64, handle: u64, flags: u32) {
        let made = entry(Builder::default(), valid, attr, generation);
        self.data(&made.u64(handle).u32(flags).u32(0).0);
    }

    /// Replies with the number of bytes written, or the size of an extended attribute.
    pub(crate) fn count(self, count: u32) {
        self.data(&Builder::default().u32(count).u32(0).0);
    }

    /// Replies with an offset in a file.
    pub(crate) fn offset(self, offset: u64) {
        self.data(&Builder::default().u64(offset).0);
    }

    /// Replies with the statistics of the file system.
    pub(crate) fn statfs(self, s: &FsStat) {
        let counts = Builder::default().u64(s.blocks).u64(s.bfree).u64(s.bavail).u64(s.files).u64(s.ffree);
        self.data(&counts.u32(s.bsize).u32(s.name_max).u32(s.frsize).zeros(28).0);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.send_error(libc::EIO);
    }
}

/// Appends a `fuse_entry_out`.
fn entry(
    to: Builder,
    Valid { name, attributes: of_file }: Valid,
    attr: &FileAttr,
    generation: u64,
) -> Builder {
    let head = to.u64(attr.node.0).u64(generation).u64(name.as_secs()).u64(of_file.as_secs());
    let head = head.u32(name.subsec_nanos()).u32(of_file.subsec_nanos());
    attributes(head, attr)
}

/// Appends a `fuse_attr`.
fn attributes(to: Builder, a: &FileAttr) -> Builder {
    let to = to.u64(a.node.0).u64(a.size).u64(a.blocks);
    let to = [a.atime, a.mtime, a.ctime].iter().fold(to, |to, time| to.u64(time.secs.cast_unsigned()));
    let to = [a.atime, a.mtime, a.ctime].iter().fold(to, |to, time| to.u32(time.nanos));
    to.u32(a.mode).u32(a.nlink).u32(a.uid).u32(a.gid).u32(a.rdev).u32(a.blksize).u32(0)
}

/// How long the kernel may use an entry without asking again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Valid {
    /// The name.
    pub(crate) name: Duration,
    /// The attributes of the file.
    pub(crate) attributes: Duration,
}

impl Valid {
    /// Not at all.
    pub(crate) const NEVER: Self = Self { name: Duration::ZERO, attributes: Duration::ZERO };
}

/// The reply to a READDIR: as many entries as fit into the buffer of the kernel.
#[derive(Debug)]
pub(crate) struct Directory {
    reply: Reply,
    entries: Builder,
    capacity: usize,
}

impl Directory {
    pub(crate) fn new(reply: Reply, capacity: u32) -> Self {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        Self { reply, entries: Builder::default(), capacity }
    }

    /// Appends an entry with `build`. Returns true if it did not fit.
    fn add_built(&mut self, build: impl FnOnce(Builder) -> Builder) -> bool {
        let before = self.entries.0.len();
        self.entries = build(std::mem::take(&mut self.entries));
        let full = self.entries.0.len() > self.capacity;
        if full {
            self.entries.0.truncate(before);
        }
        full
    }

    /// Adds a name, with its kind if that is known. Returns true if it did not fit.
    pub(crate) fn add(&mut self, node: NodeId, next: u64, kind: Option<FileKind>, name: &[u8]) -> bool {
        self.add_built(|to| dirent(to, node, next, kind.map_or(0, FileKind::mode_bits), name))
    }

    /// Adds a name with attributes. Returns true if it did not fit.
    pub(crate) fn add_plus(
        &mut self,
        next: u64,
        name: &[u8],
        valid: Valid,
        attr: &FileAttr,
        generation: u64,
    ) -> bool {
        self.add_built(|to| dirent(entry(to, valid, attr, generation), attr.node, next, attr.mode, name))
    }

    /// Adds a name whose attributes cannot be read. Its kind is unknown, so that a program asks for
    /// them, and gets the error. Returns true if it did not fit.
    pub(crate) fn add_unknown(&mut self, node: NodeId, next: u64, name: &[u8]) -> bool {
        self.add_built(|to| dirent(entry(to, Valid::NEVER, &absent(), 0), node, next, 0, name))
    }

    /// Returns true if there is no entry.
    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.0.is_empty()
    }

    /// Replies with the entries.
    pub(crate) fn ok(self) {
        self.reply.data(&self.entries.0);
    }

    /// Replies with an error number.
    pub(crate) fn error(self, errno: i32) {
        self.reply.error(errno);
    }
}

/// Appends a `fuse_dirent`, padded to a multiple of 8 bytes.
fn dirent(to: Builder, node: NodeId, next: u64, mode: u32, name: &[u8]) -> Builder {
    let len = u32::try_from(name.len()).unwrap_or(u32::MAX);
    let padding = name.len().next_multiple_of(8) - name.len();
    to.u64(node.0).u64(next).u32(len).u32(mode >> 12 & 0xf).bytes(name).zeros(padding)
}
