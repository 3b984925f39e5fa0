//! A device that refuses to read for a while.

use spindle_device::{AlignedBuf, Device, Error, Info, Op, Request, Result, Ticket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device whose reads fail while a test wants it so. Writes and flushes work.
pub struct Reluctant {
    inner: Arc<dyn Device>,
    refuses: AtomicBool,
}

impl Reluctant {
    /// Returns a device that reads from `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Device>) -> Self {
        Self { inner, refuses: AtomicBool::new(false) }
    }

    /// Refuses to read from now on, or stops refusing.
    pub fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }
}

impl Device for Reluctant {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        if request.op == Op::Read && self.refuses.load(Ordering::Relaxed) {
            let why = std::io::Error::other("it does not read at present");
            return Err(Error::io(&self.info().name, "read", why));
        }
        self.inner.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.inner.wait(ticket)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.discard(offset, len)
    }
}
