//! A device that reports every request to a listener.

use spindle_device::{AlignedBuf, Device, Info, Op, Request, Result, Ticket};
use std::sync::Arc;

type Listener = dyn Fn(Op, u64, usize) + Send + Sync;

/// A device over another one, with a listener that is called with the direction, the offset and the
/// length in bytes of each request.
pub struct Tap {
    below: Arc<dyn Device>,
    listener: Box<Listener>,
}

impl Tap {
    /// Makes a device that calls `listener` with every request to `below` before it starts.
    pub fn new(below: Arc<dyn Device>, listener: impl Fn(Op, u64, usize) + Send + Sync + 'static) -> Self {
        Self { below, listener: Box::new(listener) }
    }
}

impl Device for Tap {
    fn info(&self) -> &Info {
        self.below.info()
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        (self.listener)(request.op, request.offset, request.buf.len());
        self.below.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.below.wait(ticket)
    }

    fn flush(&self) -> Result<()> {
        self.below.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.below.discard(offset, len)
    }

    fn prepare(&self, offset: u64) {
        self.below.prepare(offset);
    }
}
