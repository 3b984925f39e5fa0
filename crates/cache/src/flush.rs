//! Writing changes to their places: delayed file data, then changed buffers, each in address order,
//! neighbours in one transfer.

use crate::Cache;
use crate::buffer::Slot;
use crate::settings::Naming;
use crate::stream::Stream;
use spindle_device::{AlignedBuf, Op, Request, Result};
use std::sync::Arc;

/// Neighbouring buffers are gathered into transfers of up to this many bytes.
const CLUSTER_BYTES: usize = 1 << 20;

/// The changes that a flush has taken while no transaction was open.
struct Collected {
    slots: Vec<Arc<Slot>>,
    requests: Vec<Request>,
    /// The streams whose data has been started.
    streams: Result<Vec<Arc<Stream>>>,
}

impl Cache {
    /// Writes every change of every ended transaction to the device, without a log.
    ///
    /// # Errors
    /// When the device fails; the cache accepts no changes after that.
    pub fn flush(&self) -> Result<()> {
        debug_assert!(self.log.is_none(), "with a log, changes are written by commits and checkpoints");
        let _one = self.flushing.lock();
        self.check()?;
        // Most of the data is started while transactions go on, so that they are kept out only for
        // a short time.
        self.start_delayed()?;
        let Collected { slots, requests, streams } = self.collect();
        // Data first: metadata on the device never points to data that is not there.
        let result =
            streams.and_then(|streams| self.land_delayed(&streams)).and_then(|()| self.transfer(requests));
        {
            let _guard = self.landed.0.lock();
            for slot in &slots {
                slot.set_in_flight(false);
            }
        }
        self.landed.1.notify_all();
        result.map_err(|error| self.fail(error))
    }

    /// Flushes ([`Self::flush`]) and then issues a barrier: all earlier changes are durable.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub fn sync(&self) -> Result<()> {
        self.flush()?;
        self.device.flush().map_err(|error| self.fail(error))
    }

    /// Has `write` write what nothing points to yet, and makes it durable, if names are.
    pub(crate) fn precede(&self, write: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        if self.log.is_some() || self.settings.naming != Naming::Durable {
            return Ok(());
        }
        write(self)?;
        self.directly(|device| device.flush())
    }

    /// Writes one buffer at once, and waits for it.
    pub(crate) fn write_slot(&self, slot: &Arc<Slot>) -> Result<()> {
        self.await_landing(slot);
        if !self.note_clean(slot.at()) {
            return Ok(());
        }
        let mut buf = AlignedBuf::zeroed(slot.len());
        slot.set_in_flight(true);
        slot.copy_sealed(&mut buf);
        let result = self.transfer(vec![Request { op: Op::Write, offset: slot.at(), buf }]);
        {
            let _guard = self.landed.0.lock();
            slot.set_in_flight(false);
        }
        self.landed.1.notify_all();
        result.map_err(|error| self.fail(error))
    }

    /// Takes copies of all changed buffers, and starts writing all delayed data, while no
    /// transaction is open.
    fn collect(&self) -> Collected {
        let _gate = self.gate.write();
        let slots = self.take_dirty();
        let requests = gather(&slots, |slot, out| {
            slot.copy_sealed(out);
            slot.set_in_flight(true);
        });
        Collected { slots, requests, streams: self.start_delayed() }
    }

    /// Carries out all transfers, also after one fails, and returns the first failure.
    pub(crate) fn transfer(&self, requests: Vec<Request>) -> Result<()> {
        const IN_FLIGHT: usize = 32;
        let mut result = Ok(());
        let mut requests = requests.into_iter().peekable();
        while requests.peek().is_some() {
            let tickets: Vec<_> = requests.by_ref().take(IN_FLIGHT).map(|r| self.device.submit(r)).collect();
            for ticket in tickets {
                let landed = ticket.and_then(|ticket| self.device.wait(ticket)).map(drop);
                result = result.and(landed);
            }
        }
        result
    }
}

/// Returns the writes of buffers in the order of their addresses, one for each run of neighbours.
/// `copy` fills in the bytes of each buffer.
pub(crate) fn gather(slots: &[Arc<Slot>], copy: impl Fn(&Slot, &mut [u8])) -> Vec<Request> {
    let mut requests = Vec::new();
    let mut rest = slots;
    while let Some(first) = rest.first() {
        let mut end = first.at() + first.len() as u64;
        let mut count = 1;
        while let Some(next) = rest.get(count) {
            let bytes = end - first.at() + next.len() as u64;
            if next.at() != end || bytes > CLUSTER_BYTES as u64 {
                break;
            }
            end += next.len() as u64;
            count += 1;
        }
        let (cluster, others) = rest.split_at(count);
        let mut buf = AlignedBuf::zeroed(cluster.iter().map(|slot| slot.len()).sum());
        let mut done = 0;
        for slot in cluster {
            copy(slot, &mut buf[done..done + slot.len()]);
            done += slot.len();
        }
        requests.push(Request { op: Op::Write, offset: first.at(), buf });
        rest = others;
    }
    requests
}
