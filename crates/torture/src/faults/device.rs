//! A device in memory to which faults happen as a [`Plan`] says.
//!
//! It knows three things apart: what a read sees, what is on the medium for good, and the writes in
//! between, each of which a power cut may lose: those since the last flush, and those that nobody
//! had waited for at that flush. [`FaultyDevice::medium`] is what the next one to open the medium
//! finds.
//!
//! Beyond an allowance of requests everything fails, which ends an endless loop that heeds errors.

use super::plan::{Among, Fault, Plan, ReportedAt};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_clock::Mutex;
use spindle_device::{AlignedBuf, Device, Error, Info, MemoryDevice, Op, Request, Result, Ticket};
use std::collections::HashMap;

/// Requests that a device answers: many times what any workload needs.
pub const MOST_REQUESTS: u64 = 20_000;

/// What becomes of the writes that are not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unflushed {
    /// They are on the medium: the program ended and the device did not.
    Kept,
    /// They are gone: the power did.
    Lost,
    /// Each is there or not.
    Either,
}

/// How many requests there were of each kind, and how many of them went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Requests that a fault has happened to.
    pub struck: u64,
    /// Writes and flushes among them whose failure has been reported.
    pub errors_reported: u64,
}

impl Counts {
    /// Returns the requests of one kind.
    #[must_use]
    pub const fn among(&self, among: Among) -> u64 {
        match among {
            Among::Reads => self.reads,
            Among::Writes => self.writes,
            Among::Flushes => self.flushes,
            Among::All => self.reads + self.writes + self.flushes,
        }
    }
}

/// The device.
pub struct FaultyDevice {
    info: Info,
    plan: Plan,
    state: Mutex<State>,
}

struct State {
    /// What a read sees.
    seen: MemoryDevice,
    /// What is on the medium whatever happens.
    durable: MemoryDevice,
    /// Writes that are not durable, in their order.
    unflushed: Vec<Write>,
    counts: Counts,
    rng: SmallRng,
    tickets: u64,
    finished: HashMap<u64, (Op, Result<AlignedBuf>)>,
}

struct Write {
    /// Whose end nobody has waited for yet: no flush makes it durable.
    ticket: Option<u64>,
    offset: u64,
    bytes: Vec<u8>,
}

impl State {
    /// Notes that the result of a request was returned.
    fn end(&mut self, op: Op, ticket: u64, well: bool) {
        if op == Op::Write {
            self.counts.errors_reported += u64::from(!well);
            for write in self.unflushed.iter_mut().filter(|write| write.ticket == Some(ticket)) {
                write.ticket = None;
            }
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.seen.write_at(offset, bytes)?;
        self.unflushed.push(Write { ticket: Some(self.tickets), offset, bytes: bytes.to_vec() });
        Ok(())
    }

    /// Writes those sectors of `bytes` for which `keep` says so.
    fn write_sectors(
        &mut self,
        offset: u64,
        bytes: &[u8],
        sector: usize,
        mut keep: impl FnMut(&mut Self, usize) -> bool,
    ) -> Result<()> {
        for (nth, part) in bytes.chunks(sector).enumerate() {
            if keep(self, nth) {
                self.write(offset + (nth * sector) as u64, part)?;
            }
        }
        Ok(())
    }
}

impl FaultyDevice {
    /// Returns a device that holds what `medium` holds; `seed` decides what a plan leaves open:
    /// which sectors, which bits, where to.
    #[must_use]
    pub fn new(medium: &MemoryDevice, plan: Plan, seed: u64) -> Self {
        Self {
            info: Info { name: "faulty".into(), ..medium.info().clone() },
            plan,
            state: Mutex::new(State {
                seen: medium.branch(),
                durable: medium.branch(),
                unflushed: Vec::new(),
                counts: Counts::default(),
                rng: SmallRng::seed_from_u64(seed),
                tickets: 0,
                finished: HashMap::new(),
            }),
        }
    }

    /// Returns what was asked so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    /// Returns what is found when the medium is opened next, by a healthy device.
    ///
    /// # Panics
    /// Never: the writes were in range when they were made.
    #[must_use]
    pub fn medium(&self, unflushed: Unflushed) -> MemoryDevice {
        let state = &mut *self.state.lock();
        let medium = state.durable.branch();
        for Write { offset, bytes, .. } in &state.unflushed {
            let kept = match unflushed {
                Unflushed::Kept => true,
                Unflushed::Lost => false,
                Unflushed::Either => state.rng.random(),
            };
            if kept {
                medium.write_at(*offset, bytes).expect("it was in range");
            }
        }
        medium
    }

    /// Returns true if more was asked for than the allowance.
    #[must_use]
    pub fn exhausted(&self) -> bool {
        self.counts().among(Among::All) > MOST_REQUESTS
    }

    /// Counts a request, and says whether the plan is for it.
    fn count(&self, state: &mut State, among: Among) -> Option<Fault> {
        let counts = &mut state.counts;
        let Plan { fault, requests, .. } = &self.plan;
        let nth = counts.among(fault.among());
        match among {
            Among::Reads => counts.reads += 1,
            Among::Writes => counts.writes += 1,
            Among::Flushes => counts.flushes += 1,
            Among::All => {}
        }
        if counts.among(Among::All) > MOST_REQUESTS {
            return Some(Fault::Dead);
        }
        let struck = (fault.among() == among || fault.among() == Among::All) && requests.contains(&nth);
        counts.struck += u64::from(struck);
        struck.then_some(*fault)
    }

    fn error(&self, op: &str) -> Error {
        Error::io(&self.info.name, op, std::io::ErrorKind::Other.into())
    }

    /// Carries a read out as far as `fault` lets it.
    fn read(&self, state: &mut State, fault: Option<Fault>, offset: u64, buf: &mut [u8]) -> Result<()> {
        match fault {
            None => state.seen.read_at(offset, buf),
            Some(Fault::FlippedRead) => {
                state.seen.read_at(offset, buf)?;
                for _ in 0..state.rng.random_range(1..=8) {
                    let at = state.rng.random_range(0..buf.len());
                    buf[at] ^= 1 << state.rng.random_range(0..8);
                }
                Ok(())
            }
            Some(Fault::ShortRead) => {
                let sector = self.info.sector_bytes as usize;
                let done = state.rng.random_range(0..buf.len() / sector) * sector;
                state.seen.read_at(offset, &mut buf[..done])?;
                Err(self.error("short read"))
            }
            Some(_) => Err(self.error("read")),
        }
    }

    /// Carries a write out as far as `fault` lets it.
    fn write(&self, state: &mut State, fault: Option<Fault>, offset: u64, bytes: &[u8]) -> Result<()> {
        let sector = self.info.sector_bytes as usize;
        let sectors = bytes.len() / sector;
        match fault {
            None => state.write(offset, bytes),
            Some(Fault::LostWrite) => Ok(()),
            Some(Fault::MisdirectedWrite) => {
                let places = (self.info.size_bytes - bytes.len() as u64) / sector as u64;
                let elsewhere = state.rng.random_range(0..=places) * sector as u64;
                state.write(elsewhere, bytes)
            }
            Some(Fault::ShortWrite) => {
                let done = state.rng.random_range(0..sectors);
                state.write_sectors(offset, bytes, sector, |_, nth| nth < done)?;
                Err(self.error("short write"))
            }
            Some(Fault::TornWrite) => {
                state.write_sectors(offset, bytes, sector, |state, _| state.rng.random())?;
                Err(self.error("torn write"))
            }
            Some(_) => Err(self.error("write")),
        }
    }
}

impl Device for FaultyDevice {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, mut request: Request) -> Result<Ticket> {
        let Request { op, offset, .. } = request;
        self.info.check(op, offset, request.buf.len())?;
        let state = &mut *self.state.lock();
        state.tickets += 1;
        let result = match op {
            Op::Read => {
                let fault = self.count(state, Among::Reads);
                self.read(state, fault, offset, &mut request.buf)
            }
            Op::Write => {
                let fault = self.count(state, Among::Writes);
                self.write(state, fault, offset, &request.buf)
            }
        };
        if let (Err(error), ReportedAt::AtSubmit) = (&result, self.plan.reported) {
            state.end(op, state.tickets, false);
            return Err(error.clone());
        }
        state.finished.insert(state.tickets, (op, result.map(|()| request.buf)));
        Ok(Ticket::new(state.tickets))
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let state = &mut *self.state.lock();
        let (op, result) =
            state.finished.remove(&ticket.id()).expect("a ticket is waited for once, where it was given");
        state.end(op, ticket.id(), result.is_ok());
        result
    }

    fn flush(&self) -> Result<()> {
        let state = &mut *self.state.lock();
        match self.count(state, Among::Flushes) {
            None => {
                for write in state.unflushed.extract_if(.., |write| write.ticket.is_none()) {
                    state.durable.write_at(write.offset, &write.bytes)?;
                }
                Ok(())
            }
            Some(Fault::IdleFlush) => Ok(()),
            Some(fault) => {
                state.counts.errors_reported += 1;
                if fault == Fault::FlushError {
                    // The system above drops what it could not write, and the next flush knows
                    // nothing of it.
                    let State { unflushed, rng, .. } = state;
                    unflushed.retain(|_| rng.random());
                }
                Err(self.error("flush"))
            }
        }
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        // What was discarded may read as before, which is the hardest case for a caller that relies
        // on anything else.
        self.info.check(Op::Write, offset, usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.info.check(Op::Read, offset, buf.len())?;
        let state = &mut *self.state.lock();
        let fault = self.count(state, Among::Reads);
        self.read(state, fault, offset, buf)
    }
}

#[cfg(test)]
mod tests;
