//! A device that tracks whether it has writes that no barrier has made durable.
//!
//! The rule of durability is implemented here: a completed write is not durable until a later
//! [`Device::flush`] has returned, and nothing else makes it durable. Code that promises durability
//! always calls `flush`; this device passes the call on if anything was written since the last
//! successful barrier, by any function, and skips it only if nothing was.

use crate::{AlignedBuf, Device, Info, Op, Request, Result, Ticket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device with a count of the writes that no barrier has made durable.
pub struct Tracked {
    inner: Arc<dyn Device>,
    /// Number of completed writes.
    landed: AtomicU64,
    /// Number of completed writes that a barrier has made durable.
    durable: AtomicU64,
}

impl Tracked {
    /// Returns a tracker of `inner`. Earlier writes to it may not be durable, so the first flush is
    /// passed on.
    #[must_use]
    pub fn new(inner: Arc<dyn Device>) -> Self {
        let (landed, durable) = (AtomicU64::new(1), AtomicU64::new(0));
        Self { inner, landed, durable }
    }
}

impl Device for Tracked {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        // The number of a write is odd.
        let write = u64::from(request.op == Op::Write);
        Ok(Ticket::new(self.inner.submit(request)?.id() << 1 | write))
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let result = self.inner.wait(Ticket::new(ticket.id() >> 1));
        if ticket.id() & 1 != 0 {
            // A failed write may have changed something, too.
            self.landed.fetch_add(1, Ordering::AcqRel);
        }
        result
    }

    fn flush(&self) -> Result<()> {
        let landed = self.landed.load(Ordering::Acquire);
        if self.durable.load(Ordering::Acquire) >= landed {
            return Ok(());
        }
        self.inner.flush()?;
        self.durable.fetch_max(landed, Ordering::AcqRel);
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.discard(offset, len)
    }

    fn prepare(&self, offset: u64) {
        self.inner.prepare(offset);
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let result = self.inner.write_at(offset, buf);
        self.landed.fetch_add(1, Ordering::AcqRel);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, MemoryDevice};
    use std::sync::atomic::AtomicBool;

    /// Counts the barriers that reach it; can make them fail.
    struct Counting(MemoryDevice, AtomicU64, AtomicBool);

    impl Device for Counting {
        fn info(&self) -> &Info {
            self.0.info()
        }
        fn submit(&self, request: Request) -> Result<Ticket> {
            self.0.submit(request)
        }
        fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
            self.0.wait(ticket)
        }
        fn flush(&self) -> Result<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            if self.2.load(Ordering::Relaxed) {
                return Err(Error::io("counting", "flushing", std::io::ErrorKind::Other.into()));
            }
            self.0.flush()
        }
        fn discard(&self, offset: u64, len: u64) -> Result<()> {
            self.0.discard(offset, len)
        }
    }

    /// Promise: a flush reaches the device unless no write was completed since the last successful
    /// one; a write that completes during a barrier, or after a failed one, still needs its own
    /// barrier.
    #[test]
    fn only_a_barrier_makes_a_write_durable() {
        let inner = Arc::new(Counting(MemoryDevice::new(4096), AtomicU64::new(0), AtomicBool::new(false)));
        let device = Tracked::new(inner.clone());
        let barriers = |expected: u64| assert_eq!(inner.1.load(Ordering::Relaxed), expected);
        device.flush().unwrap();
        barriers(1);
        device.flush().unwrap();
        barriers(1);
        device.write_at(0, &[1; 512]).unwrap();
        device.flush().unwrap();
        device.flush().unwrap();
        barriers(2);
        // A barrier that begins now does not include a write in flight.
        let buf = AlignedBuf::from(&[2; 512][..]);
        let ticket = device.submit(Request { op: Op::Write, offset: 512, buf }).unwrap();
        device.write_at(0, &[3; 512]).unwrap();
        device.flush().unwrap();
        barriers(3);
        device.wait(ticket).unwrap();
        device.flush().unwrap();
        barriers(4);
        device.write_at(0, &[4; 512]).unwrap();
        inner.2.store(true, Ordering::Relaxed);
        assert!(device.flush().is_err());
        inner.2.store(false, Ordering::Relaxed);
        device.flush().unwrap();
        barriers(6);
        device.read_at(0, &mut [0; 512]).unwrap();
        device.flush().unwrap();
        barriers(6);
    }
}
