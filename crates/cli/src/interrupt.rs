//! SIGINT, SIGTERM and SIGHUP, which end a command that writes between two steps of its work.
//!
//! The signals are blocked, so they interrupt no system call. The command calls [`check`] at points
//! where it can stop, and waits for signals and files together ([`Reader`], [`Writer`]). A signal
//! becomes an ordinary failure: images are closed and unfinished files are removed as after any
//! failure. Only the exit code is that of the signal.

use crate::error::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use spindle_clock::{Clock as _, SystemClock};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

struct Watch {
    signals: SignalFd,
    /// Number of the signal received, or 0.
    seen: AtomicU8,
    /// The time in which the kernel was asked last, in units of [`BETWEEN_MS`] from 1 on.
    asked: AtomicU64,
}

/// Time between two questions whether there is a signal, in milliseconds: to ask takes a system
/// call, and small steps of work take less.
const BETWEEN_MS: u128 = 10;

static WATCH: OnceLock<Watch> = OnceLock::new();

/// Starts watching for the signals, and blocks them. Call it before starting threads, which inherit
/// the blocked signals.
pub fn watch() -> Result<()> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        set.add(signal);
    }
    let what = "cannot watch for signals";
    set.thread_block().map_err(io::Error::from).context(what)?;
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
    let signals = signals.map_err(io::Error::from).context(what)?;
    WATCH.get_or_init(|| Watch { signals, seen: AtomicU8::new(0), asked: AtomicU64::new(0) });
    Ok(())
}

/// Returns the number of the signal that ends the command, after [`check`] has found one.
pub fn received() -> Option<u8> {
    WATCH.get().map(|watch| watch.seen.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
}

/// Fails if a signal was received. It costs next to nothing, and may be called before each step.
pub fn check() -> spindle::Result<()> {
    let Some(watch) = WATCH.get() else { return Ok(()) };
    let now = u64::try_from(SystemClock.monotonic().as_millis() / BETWEEN_MS).unwrap_or(u64::MAX - 1) + 1;
    if received().is_none() && watch.asked.swap(now, Ordering::Relaxed) == now {
        return Ok(());
    }
    ask()
}

/// Asks the kernel for a signal, and fails if one was received.
fn ask() -> spindle::Result<()> {
    let Some(watch) = WATCH.get() else { return Ok(()) };
    if let Ok(Some(signal)) = watch.signals.read_signal() {
        watch.seen.store(u8::try_from(signal.ssi_signo).unwrap_or(0), Ordering::Relaxed);
    }
    if received().is_some() { Err(spindle::Error::interrupted()) } else { Ok(()) }
}

/// Waits until `fd` is ready or `timeout` has passed; fails if a signal comes first, or has come
/// before: a buffer that is dropped then tries to write once more.
fn wait_for(fd: Option<(BorrowedFd<'_>, PollFlags)>, timeout: PollTimeout) -> io::Result<()> {
    ask().map_err(io::Error::other)?;
    let signals = WATCH.get().map(|watch| PollFd::new(watch.signals.as_fd(), PollFlags::POLLIN));
    let mut fds: Vec<_> = signals.into_iter().collect();
    fds.extend(fd.map(|(fd, events)| PollFd::new(fd, events)));
    while let Err(error) = poll(&mut fds, timeout) {
        if error != nix::errno::Errno::EINTR {
            return Err(error.into());
        }
    }
    ask().map_err(io::Error::other)
}

/// Waits 50 ms before a retry; fails if a signal comes.
pub fn pause() -> io::Result<()> {
    wait_for(None, PollTimeout::from(50_u8))
}

/// A file, pipe or terminal whose reads fail when a signal comes.
#[derive(Debug)]
pub struct Reader<R>(pub R);

impl<R: Read + AsFd> Read for Reader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        wait_for(Some((self.0.as_fd(), PollFlags::POLLIN)), PollTimeout::NONE)?;
        self.0.read(buf)
    }
}

impl<R: Seek> Seek for Reader<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

/// A pipe or device whose writes fail when a signal comes.
#[derive(Debug)]
pub struct Writer<W>(pub W);

/// Bytes that a ready pipe accepts without blocking (`PIPE_BUF`).
const PIECE: usize = 4096;

impl<W: Write + AsFd> Write for Writer<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        wait_for(Some((self.0.as_fd(), PollFlags::POLLOUT)), PollTimeout::NONE)?;
        self.0.write(&buf[..buf.len().min(PIECE)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
