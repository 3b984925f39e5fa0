//! A member that several areas share.
//!
//! A flush makes the writes to all areas of a member durable, and one that fails may have lost any
//! of them; the next one, which another area asks for, would not report that. So after a flush has
//! failed, every later write and flush of the member is refused, whichever area asks for it: each
//! area learns of it before anything is acknowledged. Reads go on.

use spindle_clock::Mutex;
use spindle_device::{AlignedBuf, Device, Error, Info, Op, Request, Result, Ticket};
use std::sync::{Arc, OnceLock};

/// A member, whose failed flush all its users see.
pub(super) struct Shared {
    device: Arc<dyn Device>,
    /// True if several areas have its heads.
    has_several: bool,
    /// The reason why a flush has failed.
    failure: OnceLock<String>,
    /// Held while a flush is made: of two at the same time the device may report a loss to one
    /// only.
    flushing: Mutex<()>,
}

impl Shared {
    /// Returns a member with one area, or with several.
    pub(super) fn new(device: Arc<dyn Device>, has_several: bool) -> Self {
        Self { device, has_several, failure: OnceLock::new(), flushing: Mutex::default() }
    }

    fn check(&self) -> Result<()> {
        let refused = |reason: &String| {
            let device = self.info().name.clone();
            Err(Error::Latched { device, reason: reason.clone() })
        };
        self.failure.get().map_or(Ok(()), refused)
    }
}

impl Device for Shared {
    fn info(&self) -> &Info {
        self.device.info()
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        if request.op == Op::Write {
            self.check()?;
        }
        self.device.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.device.wait(ticket)
    }

    fn flush(&self) -> Result<()> {
        let _one = self.flushing.lock();
        self.check()?;
        self.device.flush().inspect_err(|error| drop(self.failure.set(error.to_string())))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.device.discard(offset, len)
    }

    /// Moves the heads only if no other area may want them next.
    fn prepare(&self, offset: u64) {
        if !self.has_several {
            self.device.prepare(offset);
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.device.read_at(offset, buf)
    }
}
