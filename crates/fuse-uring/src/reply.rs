//! Replies: from the thread of the ring at once, or from any thread later.

use crate::queue::Queue;
use rustix::event::{EventfdFlags, eventfd};
use spindle_clock::Mutex;
use spindle_device::AlignedBuf;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The thread of the ring answers it, or has nothing to answer.
    AtRing,
    /// The thread of the ring has gone on; who answers wakes it.
    Late,
    Answered,
}

/// A request at one place of a ring and what is answered.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) stage: Stage,
    /// The answer waits for other requests.
    pub(crate) waits: bool,
    /// Positive; 0 is success.
    pub(crate) errno: i32,
    /// Bytes of the answer.
    pub(crate) len: usize,
    /// The memory where the kernel expects the answer, if no part of the request is in it.
    pub(crate) payload: Option<AlignedBuf>,
    /// Otherwise the answer is kept here until nobody looks at the request any more.
    pub(crate) body: Vec<u8>,
}

/// A place of a ring, as who answers sees it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) number: usize,
    pub(crate) exchange: Mutex<Exchange>,
    pub(crate) late: Arc<Late>,
    queue: Queue,
}

impl Slot {
    pub(crate) fn new(number: usize, late: &Arc<Late>, queue: &Queue) -> Arc<Self> {
        let stage = Stage::AtRing;
        let exchange = Exchange { stage, waits: false, errno: 0, len: 0, payload: None, body: Vec::new() };
        Arc::new(Self {
            number,
            exchange: Mutex::new(exchange),
            late: Arc::clone(late),
            queue: queue.clone(),
        })
    }
}

/// The places of a ring that were answered late, and what wakes its thread.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) answered: Mutex<Vec<usize>>,
    pub(crate) wake: OwnedFd,
}

impl Late {
    pub(crate) fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { answered: Mutex::default(), wake })
    }

    fn push(&self, number: usize) {
        self.answered.lock().push(number);
        // It fails only if the counter is full, and then it wakes anyway.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Returns the places that were answered since the last call.
    pub(crate) fn take(&self) -> Vec<usize> {
        // Before the list is taken: what is added after that wakes again.
        let _ = rustix::io::read(&self.wake, &mut [0_u8; 8]);
        std::mem::take(&mut *self.answered.lock())
    }
}

/// The pending reply to one request. If it is dropped, the kernel gets an I/O error.
#[derive(Debug)]
pub struct Reply(Option<Arc<Slot>>);

impl Reply {
    pub(crate) fn new(slot: &Arc<Slot>) -> Self {
        Self(Some(Arc::clone(slot)))
    }

    /// Returns true if the answer can wait until other requests of the kernel are answered: another
    /// place of the queue takes those that wait behind this one. If not, it must not wait.
    #[must_use]
    pub fn can_wait_for_others(&self) -> bool {
        let Some(slot) = &self.0 else { return false };
        let mut exchange = slot.exchange.lock();
        exchange.waits = exchange.waits || slot.queue.remove_taker();
        exchange.waits
    }

    /// Replies with an error number, which is positive.
    pub fn error(mut self, errno: i32) {
        self.finish(errno, 0);
    }

    /// Replies with bytes; with EIO if they are more than a reply can have.
    pub fn data(self, bytes: &[u8]) {
        self.fill(bytes.len(), |buffer| {
            buffer.copy_from_slice(bytes);
            Ok(bytes.len())
        });
    }

    /// Replies with up to `len` bytes which `fill` writes, where possible into the memory from
    /// which the kernel takes them. It returns their number, or an error number; EIO if `len` is
    /// more than a reply can have.
    pub fn fill(mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> Result<usize, i32>) {
        let Some(slot) = &self.0 else { return };
        let filled = {
            // Nobody else looks at it before the request is answered.
            let mut exchange = slot.exchange.lock();
            let Exchange { payload, body, .. } = &mut *exchange;
            let buffer = if let Some(payload) = payload {
                payload.get_mut(..len)
            } else {
                body.resize(len, 0);
                Some(&mut body[..])
            };
            buffer.map_or(Err(libc::EIO), fill)
        };
        match filled {
            Ok(filled) => self.finish(0, filled.min(len)),
            Err(errno) => self.finish(errno, 0),
        }
    }

    fn finish(&mut self, errno: i32, len: usize) {
        let Some(slot) = self.0.take() else { return };
        let mut exchange = slot.exchange.lock();
        let is_late = exchange.stage == Stage::Late;
        (exchange.stage, exchange.errno, exchange.len) = (Stage::Answered, errno, len);
        drop(exchange);
        if is_late {
            slot.late.push(slot.number);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.finish(libc::EIO, 0);
    }
}
