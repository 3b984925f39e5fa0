//! A device whose requests fail after a signal.

use crate::interrupt;
use spindle_device::{AlignedBuf, Device, Error, Info, Request, Result, Ticket};
use std::ops::Deref;

/// The device of a new file system, which is not valid before its last write.
pub struct Interruptible<D>(pub D);

impl<D: Deref<Target: Device> + Send + Sync> Device for Interruptible<D> {
    fn info(&self) -> &Info {
        self.0.info()
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        interrupt::check().map_err(|failure| {
            Error::io(&self.info().name, "writing", std::io::Error::other(failure.to_string()))
        })?;
        self.0.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.0.wait(ticket)
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.0.discard(offset, len)
    }

    fn prepare(&self, offset: u64) {
        self.0.prepare(offset);
    }
}
