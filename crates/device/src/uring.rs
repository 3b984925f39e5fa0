//! Asynchronous transfers through Linux's `io_uring`: one ring per device.
//!
//! Two roles share the ring. *Submitting* has a lock of its own, one request per system call, so
//! the submission queue has one user and is empty between calls. Data in the page cache is copied
//! in that call, so threads that only wait for a result must not take this lock. *Reaping*
//! (blocking for completions and draining their queue) is done outside the lock by one waiter at a
//! time, marked by `State::reaping`; the others wait for its progress, and then one that still
//! needs a result takes over.
//!
//! Invariants:
//! 1. The kernel only ever writes to buffers in `State::in_flight`, and a buffer stays there until
//!    its completion was reaped, even if its ticket was dropped. Closing reaps everything; if the
//!    ring itself fails, its buffers are leaked, because the kernel may still use them.
//! 2. At most [`DEPTH`] requests are in flight, half the size of the completion queue, so it never
//!    overflows.
//! 3. A transfer that the kernel shortened, or cancelled because the submitting thread ended, is
//!    completed by the reaper with ordinary calls.

#![allow(unsafe_code)] // The ring shares memory with the kernel; each use says why it is sound.

use crate::backing::Backing;
use crate::tickets::Tickets;
use crate::{AlignedBuf, Error, Op, Request, Result};
use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::io::Errno;
use spindle_clock::{Condvar, Mutex, MutexGuard};
use std::collections::HashMap;
use std::io::Error as IoError;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Maximum number of requests in flight.
const DEPTH: u32 = 256;
/// Maximum number of bytes per call to the kernel, rounded down to an aligned size; the rest
/// follows by invariant 3.
const MAX_TRANSFER: usize = 1 << 30;
/// `IORING_ENTER_GETEVENTS`: wait for completions.
const ENTER_GETEVENTS: u32 = 1;

/// The ring of one device.
pub(crate) struct Ring {
    uring: IoUring,
    backing: Arc<Backing>,
    /// Held while submitting. Taken before the state's lock or without it, never while holding it.
    submitting: Mutex<()>,
    state: Mutex<State>,
    progress: Condvar,
}

#[derive(Default)]
struct State {
    tickets: Tickets,
    in_flight: HashMap<u64, Request>,
    reaping: bool,
    /// The error after which the ring accepts no more requests.
    broken: Option<Arc<IoError>>,
}

impl Ring {
    /// Sets up a ring, if the system allows one that reads and writes.
    pub fn start(backing: Arc<Backing>) -> std::io::Result<Self> {
        let uring = IoUring::new(DEPTH)?;
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) || !probe.is_supported(opcode::Write::CODE) {
            return Err(Errno::OPNOTSUPP.into());
        }
        Ok(Self {
            uring,
            backing,
            submitting: Mutex::default(),
            state: Mutex::default(),
            progress: Condvar::new(),
        })
    }

    pub fn submit(&self, mut request: Request) -> Result<u64> {
        let mut state = self.state.lock();
        while state.in_flight.len() >= DEPTH as usize {
            state = self.advance(state);
        }
        if let Some(source) = &state.broken {
            return Err(self.ring_failed(source));
        }
        let id = state.tickets.issue();
        let entry = self.entry(id, &mut request);
        state.in_flight.insert(id, request);
        drop(state);
        let submitting = self.submitting.lock();
        // SAFETY: `submitting` makes this the only user of the submission queue. The entry's buffer
        // is the heap memory of an `AlignedBuf` in `in_flight`, which stays in place until the
        // completion.
        let pushed = unsafe { self.uring.submission_shared().push(&entry) };
        pushed.expect("the submission queue is empty between calls");
        let submitted = loop {
            match self.uring.submit() {
                Err(e) if is_temporary(&e) => std::thread::yield_now(),
                result => break result,
            }
        };
        if let Err(e) = submitted {
            let source = Arc::new(e);
            let mut state = self.state.lock();
            state.broken = Some(Arc::clone(&source));
            // The entry may still be in the queue, so its buffer is never freed.
            std::mem::forget(state.in_flight.remove(&id));
            return Err(self.ring_failed(&source));
        }
        drop(submitting);
        Ok(id)
    }

    pub fn wait(&self, id: u64) -> Result<AlignedBuf> {
        let mut state = self.state.lock();
        loop {
            if let Some(result) = state.tickets.take(id) {
                return result;
            }
            state = self.advance(state);
        }
    }

    fn entry(&self, id: u64, request: &mut Request) -> squeue::Entry {
        let fd = types::Fd(self.backing.file.as_raw_fd());
        let len = u32::try_from(request.buf.len().min(MAX_TRANSFER)).expect("at most a GiB");
        let start = request.buf.as_mut_ptr();
        match request.op {
            Op::Read => opcode::Read::new(fd, start, len).offset(request.offset).build(),
            Op::Write => opcode::Write::new(fd, start, len).offset(request.offset).build(),
        }
        .user_data(id)
    }

    fn ring_failed(&self, source: &Arc<IoError>) -> Error {
        Error::Io {
            device: self.backing.info.name.clone(),
            action: "submitting to io_uring".into(),
            source: Arc::clone(source),
        }
    }

    /// Waits until some transfers have finished. Something must be in flight, or being reaped.
    fn advance<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.reaping {
            self.progress.wait(&mut state);
            return state;
        }
        state.reaping = true;
        drop(state);
        let completions = self.completions();
        state = self.state.lock();
        let finished: Vec<(u64, Result<AlignedBuf>)> = match completions {
            Ok(completions) => {
                let reaped: Vec<(u64, Option<Request>, i32)> = completions
                    .into_iter()
                    .map(|(id, result)| (id, state.in_flight.remove(&id), result))
                    .collect();
                drop(state);
                let finished = reaped
                    .into_iter()
                    .filter_map(|(id, request, result)| Some((id, self.finish(request?, result))))
                    .collect();
                state = self.state.lock();
                finished
            }
            Err(e) => {
                // The kernel may still use the buffers.
                let source = Arc::new(e);
                state.broken = Some(Arc::clone(&source));
                std::mem::take(&mut state.in_flight)
                    .into_iter()
                    .map(|(id, request)| {
                        std::mem::forget(request);
                        (id, Err(self.ring_failed(&source)))
                    })
                    .collect()
            }
        };
        for (id, result) in finished {
            state.tickets.finish(id, result);
        }
        state.reaping = false;
        self.progress.notify_all();
        state
    }

    /// Waits for at least one completion; returns tickets with the kernel's results.
    fn completions(&self) -> std::io::Result<Vec<(u64, i32)>> {
        loop {
            // SAFETY: `State::reaping` makes the caller the only user of the completion queue.
            let completions: Vec<(u64, i32)> = unsafe { self.uring.completion_shared() }
                .map(|completion| (completion.user_data(), completion.result()))
                .collect();
            if !completions.is_empty() {
                return Ok(completions);
            }
            // SAFETY: submits nothing and passes no argument.
            match unsafe { self.uring.submitter().enter::<()>(0, 1, ENTER_GETEVENTS, None) } {
                Ok(_) => {}
                Err(e) if is_temporary(&e) => std::thread::yield_now(),
                Err(e) => return Err(e),
            }
        }
    }

    /// Converts the kernel's result into that of the whole transfer.
    fn finish(&self, mut request: Request, result: i32) -> Result<AlignedBuf> {
        let done = usize::try_from(result).unwrap_or(0);
        if result < 0 {
            let error = IoError::from_raw_os_error(-result);
            if !is_temporary(&error) && error.raw_os_error() != Some(Errno::CANCELED.raw_os_error()) {
                let Request { op, offset, buf } = request;
                return Err(self.backing.transfer_failed(op, offset, buf.len(), error));
            }
        }
        self.backing.transfer(request.op, request.offset + done as u64, &mut request.buf[done..])?;
        Ok(request.buf)
    }
}

/// Returns true if the call should be tried again.
fn is_temporary(error: &IoError) -> bool {
    [Errno::INTR, Errno::AGAIN, Errno::BUSY].iter().any(|e| error.raw_os_error() == Some(e.raw_os_error()))
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        while !state.in_flight.is_empty() {
            state = self.advance(state);
        }
    }
}
