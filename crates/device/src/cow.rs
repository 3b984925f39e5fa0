//! A copy-on-write device, which keeps changes in memory: for trying out changes, and for reading
//! their result.

use crate::{AlignedBuf, Device, Info, Op, Request, Result, Ticket};
use spindle_clock::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes written at once.
const RUN_BYTES: usize = 1 << 20;

/// A device over another one of any permission that keeps every write in memory, sector by sector.
pub struct CowDevice {
    inner: Arc<dyn Device>,
    info: Info,
    state: Mutex<State>,
}

/// A sector that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its address in bytes.
    pub at: u64,
    /// What it is on the other device.
    pub old: Vec<u8>,
    /// What it was changed to.
    pub new: Vec<u8>,
}

#[derive(Default)]
struct State {
    /// Changed sectors by address.
    written: HashMap<u64, Vec<u8>>,
    in_flight: HashMap<u64, InFlight>,
    tickets: u64,
}

/// A request in flight.
enum InFlight {
    /// A read from this address, passed on to the other device.
    Read(u64, Ticket),
    /// A finished write.
    Written(AlignedBuf),
}

impl CowDevice {
    /// Returns a copy-on-write device over `inner`, which is never written to.
    #[must_use]
    pub fn new(inner: Arc<dyn Device>) -> Self {
        let info = Info { read_only: false, ..inner.info().clone() };
        Self { inner, info, state: Mutex::default() }
    }

    /// Returns the device under it, without the changes.
    #[must_use]
    pub fn under(&self) -> &Arc<dyn Device> {
        &self.inner
    }

    /// Makes the device with its changes read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.info.read_only = true;
        self
    }

    /// Returns the sectors that were written and are no longer what they are on the other device,
    /// by address.
    ///
    /// # Errors
    /// Those of reading the other device.
    pub fn changes(&self) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        for (&at, new) in &self.state.lock().written {
            let mut old = vec![0; new.len()];
            self.inner.read_at(at, &mut old)?;
            if old != *new {
                changes.push(Change { at, old, new: new.clone() });
            }
        }
        changes.sort_unstable_by_key(|change| change.at);
        Ok(changes)
    }

    /// Returns the sectors of `buf` and their addresses, from `offset` on.
    fn sectors<'a>(
        &self,
        offset: u64,
        buf: &'a mut [u8],
    ) -> impl Iterator<Item = (u64, &'a mut [u8])> + use<'a> {
        let sector = self.info.sector_bytes as usize;
        (offset..).step_by(sector).zip(buf.chunks_mut(sector))
    }
}

impl Device for CowDevice {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        let Request { op, offset, mut buf } = request;
        self.info.check(op, offset, buf.len())?;
        let in_flight = match op {
            Op::Read => InFlight::Read(offset, self.inner.submit(Request { op, offset, buf })?),
            Op::Write => {
                let mut state = self.state.lock();
                state.written.extend(self.sectors(offset, &mut buf).map(|(at, bytes)| (at, bytes.to_vec())));
                InFlight::Written(buf)
            }
        };
        let mut state = self.state.lock();
        state.tickets += 1;
        let id = state.tickets;
        state.in_flight.insert(id, in_flight);
        Ok(Ticket::new(id))
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let in_flight = self.state.lock().in_flight.remove(&ticket.id());
        match in_flight.expect("each ticket is waited for once") {
            InFlight::Written(buf) => Ok(buf),
            InFlight::Read(offset, ticket) => {
                let mut buf = self.inner.wait(ticket)?;
                let state = self.state.lock();
                for (at, bytes) in self.sectors(offset, &mut buf) {
                    state.written.get(&at).into_iter().for_each(|new| bytes.copy_from_slice(new));
                }
                Ok(buf)
            }
        }
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.info.check(Op::Write, offset, usize::try_from(len).unwrap_or(usize::MAX))
    }
}

/// Writes sectors, which are in order, and makes them durable.
///
/// # Errors
/// Those of the device.
pub fn write_sectors<'a>(device: &dyn Device, sectors: impl Iterator<Item = (u64, &'a [u8])>) -> Result<()> {
    let (mut start, mut run) = (0, Vec::new());
    for (at, bytes) in sectors {
        if at != start + run.len() as u64 || run.len() >= RUN_BYTES {
            if !run.is_empty() {
                device.write_at(start, &run)?;
            }
            (start, run) = (at, Vec::new());
        }
        run.extend_from_slice(bytes);
    }
    if !run.is_empty() {
        device.write_at(start, &run)?;
    }
    device.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    /// Promise: written data is read back at any place in a request, the rest comes from the inner
    /// device, which does not change; a read-only device refuses writes.
    #[test]
    fn writes_stay_in_memory() {
        let inner = Arc::new(MemoryDevice::from_bytes(&[1; 4096]));
        let device = CowDevice::new(inner.clone());
        device.write_at(512, &[2; 1024]).unwrap();
        device.flush().unwrap();
        let mut all = vec![0; 4096];
        device.read_at(0, &mut all).unwrap();
        assert!(all[..512] == [1; 512] && all[512..1536] == [2; 1024] && all[1536..] == [1; 2560]);
        assert!(device.write_at(4096, &[2; 512]).is_err() && device.write_at(1, &[2; 512]).is_err());
        let device = device.read_only();
        let mut part = vec![0; 1024];
        device.read_at(1024, &mut part).unwrap();
        assert!(part[..512] == [2; 512] && part[512..] == [1; 512]);
        assert!(device.write_at(0, &part).is_err() && device.discard(0, 512).is_err());
        assert!(inner.to_bytes() == [1; 4096]);
    }

    /// Promise: the changes are the sectors whose bytes are different now, in order.
    #[test]
    fn lists_what_has_changed() {
        let device = CowDevice::new(Arc::new(MemoryDevice::from_bytes(&[1; 4096])));
        device.write_at(2048, &[3; 512]).unwrap();
        device.write_at(512, &[[1; 512], [2; 512]].concat()).unwrap();
        let change = |at, new| Change { at, old: vec![1; 512], new: vec![new; 512] };
        assert_eq!(device.changes().unwrap(), [change(1024, 2), change(2048, 3)]);
    }
}
