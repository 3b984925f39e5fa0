//! A device that is changed in memory only: for finding out what something would make of it.

use crate::{AlignedBuf, Device, Info, Op, Request, Result, Ticket};
use spindle_clock::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Another device, whatever its permission, with every write kept in memory, sector by sector.
pub struct Trial {
    inner: Arc<dyn Device>,
    info: Info,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By address.
    written: HashMap<u64, Vec<u8>>,
    finished: HashMap<u64, AlignedBuf>,
    tickets: u64,
}

impl Trial {
    /// A trial on `inner`, to which nothing is ever written.
    #[must_use]
    pub fn new(inner: Arc<dyn Device>) -> Self {
        let info = Info { read_only: false, ..inner.info().clone() };
        Self { inner, info, state: Mutex::default() }
    }

    fn sectors(&self, offset: u64) -> impl Iterator<Item = u64> + use<> {
        (offset..).step_by(self.info.sector_bytes as usize)
    }
}

impl Device for Trial {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        let Request { op, offset, mut buf } = request;
        self.info.check(op, offset, buf.len())?;
        let sector = self.info.sector_bytes as usize;
        if op == Op::Read {
            self.inner.read_at(offset, &mut buf)?;
        }
        let mut state = self.state.lock();
        for (at, bytes) in self.sectors(offset).zip(buf.chunks_mut(sector)) {
            match op {
                Op::Write => drop(state.written.insert(at, bytes.to_vec())),
                Op::Read => state.written.get(&at).into_iter().for_each(|new| bytes.copy_from_slice(new)),
            }
        }
        state.tickets += 1;
        let id = state.tickets;
        state.finished.insert(id, buf);
        Ok(Ticket::new(id))
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        Ok(self.state.lock().finished.remove(&ticket.id()).expect("each ticket is waited for once"))
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

    /// Promise: what is written is read back, the rest is the device's own, and the device stays as it is.
    #[test]
    fn writes_stay_in_memory() {
        let inner = Arc::new(MemoryDevice::from_bytes(&[1; 4096]));
        let device = Trial::new(inner.clone());
        device.write_at(512, &[2; 1024]).unwrap();
        device.flush().unwrap();
        let mut all = vec![0; 4096];
        device.read_at(0, &mut all).unwrap();
        assert!(all[..512] == [1; 512] && all[512..1536] == [2; 1024] && all[1536..] == [1; 2560]);
        assert!(device.write_at(4096, &[2; 512]).is_err() && device.write_at(1, &[2; 512]).is_err());
        assert!(inner.to_bytes() == [1; 4096]);
    }
}
