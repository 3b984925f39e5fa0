//! The connection with the kernel: INIT, then requests and replies until the kernel has unmounted.
//!
//! They go through `/dev/fuse`, or, if both sides agree, through the rings of
//! [`spindle_fuse_uring`]; FORGETs and notices always through `/dev/fuse`.

use super::operation::{NodeId, Operation, Request, forgets};
use super::reply::{Reply, send};
use super::wire::{
    Builder, Fields, Malformed, NOTIFY_INVAL_ENTRY, NOTIFY_INVAL_INODE, VERSION, init, opcode,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::read;
use spindle_clock::{Clock, SystemClock};
use spindle_fuse_uring::{Pace, Ring};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// `FUSE_MIN_READ_BUFFER`: what a ring has room for in any case.
const MIN_READ_BUFFER_BYTES: usize = 8192;
/// Buffer space for the header and the fields of a request, in addition to its data.
const HEADROOM_BYTES: usize = 4096;

/// How long FORGETs may gather.
const GATHERING: Duration = Duration::from_millis(1);

/// Where each request is logged, by its name.
const REQUESTS: &str = "spindle_fuse::requests";

/// A server that answers requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Answers a request.
    fn answer(&self, request: &Request, operation: Operation<'_>, reply: Reply);

    /// Releases references of the kernel.
    fn forget(&self, node: NodeId, count: u64);

    /// Takes note that the kernel has unmounted a block device. The caller of umount(2) waits for
    /// the reply.
    fn destroy(&self, reply: Reply);
}

/// The offer of the kernel in INIT, and the reply to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Negotiation {
    offered: u64,
    /// Flags of [`init`] that are accepted.
    pub(crate) flags: u64,
    /// Maximum read-ahead of the kernel in bytes.
    pub(crate) max_readahead: u32,
    /// Maximum size of a write in bytes.
    pub(crate) max_write: u32,
    /// Maximum number of late writes and read-ahead requests in flight.
    pub(crate) max_background: u16,
    /// Resolution of timestamps in nanoseconds, a power of ten up to a second.
    pub(crate) time_granularity_ns: u32,
    /// Number of rings for each CPU, if the kernel offers `io_uring`.
    pub(crate) rings: usize,
}

impl Negotiation {
    /// Accepts those of these flags that are offered. Returns the others.
    pub(crate) fn accept(&mut self, flags: u64) -> u64 {
        self.flags |= flags & self.offered;
        flags & !self.offered
    }

    pub(crate) fn offers(&self, flag: u64) -> bool {
        self.offered & flag != 0
    }
}

/// An open `/dev/fuse` after the handshake.
#[derive(Debug)]
pub(crate) struct Connection {
    device: Arc<File>,
    buffer_bytes: usize,
    /// [`init::SETXATTR_EXT`] is on.
    setxattr_ext: bool,
    /// The rings of all CPUs; none if requests come through `/dev/fuse`.
    rings: Vec<Ring>,
}

impl Connection {
    /// Waits for INIT and replies to the offer of the kernel as `negotiate` decides.
    pub(crate) fn open(device: OwnedFd, negotiate: impl FnOnce(&mut Negotiation)) -> io::Result<Self> {
        let device = Arc::new(File::from(device));
        let mut buffer = vec![0; HEADROOM_BYTES * 4];
        let mut negotiate = Some(negotiate);
        loop {
            let Some(message) = receive(&device, &mut buffer)? else {
                return Err(io::Error::new(io::ErrorKind::NotConnected, "unmounted before it was served"));
            };
            let (request, mut fields) = Request::parse(message).map_err(malformed)?;
            if request.opcode != opcode::INIT {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the first request of the kernel is not INIT",
                ));
            }
            let mut next = || fields.u32().map_err(malformed);
            let (major, minor, max_readahead, offered) = (next()?, next()?, next()?, next()?);
            let reply = Reply::new(&device, request.unique);
            if major > VERSION.0 {
                // The kernel repeats INIT with our version.
                reply.data(&Builder::default().u32(VERSION.0).u32(VERSION.1).zeros(56).0);
                continue;
            }
            if (major, minor) < (7, 28) {
                reply.error(libc::EPROTO);
                return Err(io::Error::new(io::ErrorKind::Unsupported, "Spindle needs Linux 4.20 or newer"));
            }
            let more = if u64::from(offered) & init::INIT_EXT == 0 { 0 } else { next()? };
            let mut negotiation = Negotiation {
                offered: u64::from(more) << 32 | u64::from(offered),
                flags: 0,
                max_readahead,
                max_write: 0,
                max_background: 12,
                time_granularity_ns: 1,
                rings: 0,
            };
            if let Some(negotiate) = negotiate.take() {
                negotiate(&mut negotiation);
            }
            let max_write = usize::try_from(negotiation.max_write).unwrap_or(0);
            let rings = rings(&device, &negotiation, max_write).unwrap_or_else(|error| {
                log::warn!("io_uring cannot be used: {error}");
                Vec::new()
            });
            if !rings.is_empty() {
                negotiation.accept(init::INIT_EXT | init::OVER_IO_URING);
            }
            reply.data(&accepted(&negotiation, max_readahead).0);
            let setxattr_ext = negotiation.flags & init::SETXATTR_EXT != 0;
            return Ok(Self { device, buffer_bytes: max_write + HEADROOM_BYTES, setxattr_ext, rings });
        }
    }

    /// Returns true if requests come through `io_uring`.
    pub(crate) fn uses_rings(&self) -> bool {
        !self.rings.is_empty()
    }

    /// Returns a handle that sends notices to the kernel.
    pub(crate) fn notifier(&self) -> Notifier {
        Notifier(Arc::clone(&self.device))
    }

    /// Serves requests until the kernel has unmounted: with a thread for each ring, or with
    /// `threads` threads. Returns the first failure of a thread.
    pub(crate) fn serve(self, handler: &Arc<dyn Handler>, threads: usize) -> io::Result<()> {
        let mut workers = Vec::new();
        let gathers = !self.rings.is_empty();
        let threads = if gathers { 1 } else { threads };
        for (number, ring) in self.rings.into_iter().enumerate() {
            let (handler, setxattr_ext) = (Arc::clone(handler), self.setxattr_ext);
            let work = move || {
                ring.serve(|message, reply, placement| {
                    let parts = Request::parse_parts(message.header, message.operation, message.payload);
                    let reply = Reply::through_ring(reply);
                    answer(&*handler, parts, reply, setxattr_ext, |pace| placement.expect(pace));
                })
            };
            workers.push(thread::Builder::new().name(format!("fuse-ring-{number}")).spawn(work)?);
        }
        for number in 0..threads {
            // Each thread has its own descriptor, and so its own queue in the kernel.
            let device = if number == 0 { Arc::clone(&self.device) } else { Arc::new(clone(&self.device)?) };
            let handler = Arc::clone(handler);
            let (buffer_bytes, setxattr_ext) = (self.buffer_bytes, self.setxattr_ext);
            let work = move || work(&device, &*handler, buffer_bytes, setxattr_ext, gathers);
            workers.push(thread::Builder::new().name(format!("fuse-{number}")).spawn(work)?);
        }
        let mut outcome = Ok(());
        for worker in workers {
            let ended = worker.join().unwrap_or_else(|_| Err(io::Error::other("a worker thread panicked")));
            outcome = outcome.and(ended);
        }
        outcome
    }
}

/// Returns the reply to INIT, a `fuse_init_out`.
fn accepted(negotiation: &Negotiation, max_readahead: u32) -> Builder {
    let page = u32::try_from(page_bytes()).unwrap_or(4096);
    let pages = u16::try_from(negotiation.max_write.div_ceil(page)).unwrap_or(u16::MAX);
    let congestion = negotiation.max_background / 4 * 3;
    let half = |flags: u64| u32::try_from(flags & u64::from(u32::MAX)).unwrap_or_default();
    let (lower, upper) = (half(negotiation.flags), half(negotiation.flags >> 32));
    Builder::default()
        .u32(VERSION.0)
        .u32(VERSION.1)
        .u32(negotiation.max_readahead.min(max_readahead))
        .u32(lower)
        .u16(negotiation.max_background)
        .u16(congestion)
        .u32(negotiation.max_write)
        .u32(negotiation.time_granularity_ns)
        .u16(if negotiation.flags & init::MAX_PAGES == 0 { 0 } else { pages })
        .zeros(2)
        .u32(upper)
        .zeros(4 + 24)
}

fn page_bytes() -> i64 {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096)
}

fn malformed(_: Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel sent an invalid request")
}

/// Reads the next message; returns `None` when the kernel has unmounted, or has ended the
/// connection otherwise. A mount that is detached in use was seen to end with either error.
fn receive<'a>(device: &File, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
    let len = loop {
        match read(device, buffer) {
            Ok(len) => break len,
            // The request was withdrawn, or the read was interrupted.
            Err(nix::Error::ENOENT | nix::Error::EINTR | nix::Error::EAGAIN) => {}
            Err(nix::Error::ENODEV | nix::Error::ECONNABORTED) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    };
    Ok(Some(&buffer[..len]))
}

/// Serves requests in one thread. If it `gathers`, which it may where only FORGETs come, it lets
/// them gather in the kernel, which need not wake it for each.
fn work(
    device: &Arc<File>,
    handler: &dyn Handler,
    buffer_bytes: usize,
    setxattr_ext: bool,
    gathers: bool,
) -> io::Result<()> {
    let mut buffer = vec![0; buffer_bytes];
    while let Some(message) = receive(device, &mut buffer)? {
        let (request, arguments) = Request::parse(message).map_err(malformed)?;
        if let Some(forgotten) = forgets(&request, arguments).map_err(malformed)? {
            trace(&request);
            for (node, count) in forgotten {
                handler.forget(node, count);
            }
            if gathers {
                SystemClock.sleep(GATHERING);
            }
            continue;
        }
        let reply = Reply::new(device, request.unique);
        answer(handler, Ok((request, arguments)), reply, setxattr_ext, |_| ());
    }
    Ok(())
}

/// Has a request answered. `expect` is called before with what that takes.
fn answer(
    handler: &dyn Handler,
    request: Result<(Request, Fields<'_>), Malformed>,
    reply: Reply,
    setxattr_ext: bool,
    expect: impl FnOnce(Pace),
) {
    let (request, arguments) = match request {
        Ok((request, _)) if request.opcode == opcode::DESTROY => return handler.destroy(reply),
        Ok(request) => request,
        Err(Malformed) => {
            log::error!("the header of a request of the kernel is malformed");
            return reply.error(libc::EIO);
        }
    };
    trace(&request);
    match Operation::parse(request.opcode, arguments, setxattr_ext) {
        Ok(Operation::Unknown) => reply.error(libc::ENOSYS),
        Ok(operation) => {
            expect(operation.pace());
            handler.answer(&request, operation, reply);
        }
        Err(Malformed) => {
            log::error!("request {} of the kernel is malformed", request.opcode);
            reply.error(libc::EIO);
        }
    }
}

/// Logs which request it is.
fn trace(request: &Request) {
    match opcode::name(request.opcode) {
        Some(name) => log::trace!(target: REQUESTS, "{name}"),
        None => log::trace!(target: REQUESTS, "request {}", request.opcode),
    }
}

/// Makes the rings that the server wants, if the kernel offers `io_uring`.
fn rings(device: &Arc<File>, negotiation: &Negotiation, max_write: usize) -> io::Result<Vec<Ring>> {
    if negotiation.rings == 0 || !negotiation.offers(init::OVER_IO_URING) {
        return Ok(Vec::new());
    }
    let payload_bytes = max_write.max(MIN_READ_BUFFER_BYTES);
    let queues = spindle_fuse_uring::queues()?;
    let ring = |queue| (0..negotiation.rings).map(move |_| Ring::new(device, queue, payload_bytes));
    queues.iter().flat_map(ring).collect()
}

/// Opens another descriptor of the same connection.
#[allow(unsafe_code)]
fn clone(device: &File) -> io::Result<File> {
    nix::ioctl_read!(fuse_dev_ioc_clone, 229, 0, u32);
    let new = File::options().read(true).write(true).open("/dev/fuse")?;
    let mut source = device.as_raw_fd().cast_unsigned();
    // SAFETY: the kernel reads one number through the pointer, that of an open descriptor.
    unsafe { fuse_dev_ioc_clone(new.as_raw_fd(), &raw mut source)? };
    Ok(new)
}

/// Sends notices to the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Notifier(Arc<File>);

impl Notifier {
    /// Returns true if the kernel has ended the connection, as the last unmount does before its
    /// device number can be that of another mount.
    pub(crate) fn has_ended(&self) -> bool {
        let mut device = [PollFd::new(self.0.as_fd(), PollFlags::empty())];
        matches!(poll(&mut device, PollTimeout::ZERO), Ok(1))
            && device[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
    }

    /// Invalidates the attributes of an inode in the kernel, and its pages from `from` to the
    /// end; the kernel writes back changed pages first. If `from` is negative, no pages are
    /// invalidated. Succeeds if the kernel does not know the inode.
    pub(crate) fn inval_inode(&self, node: NodeId, from: i64) -> io::Result<()> {
        let body = Builder::default().u64(node.0).u64(from.cast_unsigned()).u64(0).0;
        self.notify(NOTIFY_INVAL_INODE, &body)
    }

    /// Has the kernel forget what it knows of a name in a directory, also that there is none.
    /// Succeeds if it knows nothing.
    pub(crate) fn inval_entry(&self, dir: NodeId, name: &[u8]) -> io::Result<()> {
        let len = u32::try_from(name.len()).unwrap_or(u32::MAX);
        let body = Builder::default().u64(dir.0).u32(len).u32(0).bytes(name).zeros(1).0;
        self.notify(NOTIFY_INVAL_ENTRY, &body)
    }

    fn notify(&self, code: i32, body: &[u8]) -> io::Result<()> {
        match send(&self.0, code, 0, body) {
            Ok(()) | Err(nix::Error::ENOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
