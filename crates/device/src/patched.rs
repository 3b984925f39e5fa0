//! A device some of whose bytes are others: for looking at a device as it will be once they are written.

use crate::{AlignedBuf, Device, Info, Op, Request, Result, Ticket};
use spindle_clock::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Another device, read-only, with runs of bytes replaced.
pub struct Patched {
    inner: Arc<dyn Device>,
    info: Info,
    /// By address, without overlap.
    patches: BTreeMap<u64, Vec<u8>>,
    /// Addresses of the reads under way, by ticket.
    reads: Mutex<HashMap<u64, u64>>,
}

impl Patched {
    /// `inner` with each of `patches` (address in bytes, contents) in place of what it has there; they do not overlap.
    #[must_use]
    pub fn new(inner: Arc<dyn Device>, patches: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Self {
        let info = Info { read_only: true, ..inner.info().clone() };
        Self { inner, info, patches: patches.into_iter().collect(), reads: Mutex::default() }
    }

    fn patch(&self, offset: u64, buf: &mut [u8]) {
        let end = offset + buf.len() as u64;
        let before = self.patches.range(..offset).next_back();
        for (&at, bytes) in before.into_iter().chain(self.patches.range(offset..end)) {
            let (from, to) = (at.max(offset), (at + bytes.len() as u64).min(end));
            if from < to {
                let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
                buf[index(from - offset)..index(to - offset)]
                    .copy_from_slice(&bytes[index(from - at)..index(to - at)]);
            }
        }
    }
}

impl Device for Patched {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        self.info.check(request.op, request.offset, request.buf.len())?;
        let offset = request.offset;
        let ticket = self.inner.submit(request)?;
        self.reads.lock().insert(ticket.id(), offset);
        Ok(ticket)
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let offset = self.reads.lock().remove(&ticket.id());
        let mut buf = self.inner.wait(ticket)?;
        if let Some(offset) = offset {
            self.patch(offset, &mut buf);
        }
        Ok(buf)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.info.check(Op::Write, offset, usize::try_from(len).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    /// Promise: reads see the patches wherever they fall in a request, the device below stays as it is, and nothing can be
    /// written.
    #[test]
    fn shows_what_is_not_there() {
        let inner = Arc::new(MemoryDevice::from_bytes(&[1; 8192]));
        let device = Patched::new(inner.clone(), [(512, vec![2; 512]), (4096, vec![3; 1024])]);
        let mut all = vec![0; 8192];
        device.read_at(0, &mut all).unwrap();
        assert!(all[..512] == [1; 512] && all[512..1024] == [2; 512] && all[4096..5120] == [3; 1024]);
        let mut part = vec![0; 1024];
        device.read_at(4608, &mut part).unwrap();
        assert!(part[..512] == [3; 512] && part[512..] == [1; 512]);
        assert!(device.write_at(0, &part).is_err() && device.discard(0, 512).is_err());
        assert!(inner.to_bytes() == [1; 8192]);
    }
}
