//! A device in memory that injects faults as a [`Plan`] says.
//!
//! It keeps three things: the bytes that a read returns; the durable bytes; and the writes that a
//! power cut may lose, which are those since the last flush, and those that were not waited for
//! before that flush. [`FaultyDevice::medium`] returns what is found when the medium is opened
//! next.
//!
//! Beyond an allowance of requests everything fails, which ends an endless loop that stops at
//! errors.

use super::plan::{Fault, Plan, ReportedAt, RequestKind};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_clock::Mutex;
use spindle_device::{AlignedBuf, Device, Error, Info, MemoryDevice, Op, Request, Result, Ticket};
use std::collections::HashMap;
use std::ops::Range;

/// Most requests that a device answers: many times what any workload needs.
pub const MOST_REQUESTS: u64 = 20_000;

/// The fate of the writes that are not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unflushed {
    /// They are on the medium: the program ended and the device kept its power.
    Kept,
    /// They are lost: the device lost its power.
    Lost,
    /// Each is on the medium or lost, at random.
    Either,
}

/// The numbers of requests, and of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Requests of all kinds with an injected fault.
    pub injected: u64,
    /// Writes and flushes whose failure was reported.
    pub errors_reported: u64,
}

impl Counts {
    /// Returns the number of requests of one kind.
    #[must_use]
    pub const fn of(&self, kind: RequestKind) -> u64 {
        match kind {
            RequestKind::Reads => self.reads,
            RequestKind::Writes => self.writes,
            RequestKind::Flushes => self.flushes,
            RequestKind::All => self.reads + self.writes + self.flushes,
        }
    }
}

/// A device that injects faults.
pub struct FaultyDevice {
    info: Info,
    plan: Plan,
    state: Mutex<State>,
}

struct State {
    /// The bytes that a read returns.
    seen: MemoryDevice,
    /// The bytes that are on the medium whatever happens.
    durable: MemoryDevice,
    /// Writes that are not durable, in the order of their submission.
    unflushed: Vec<Write>,
    /// Bytes of writes that may be lost, because the write or a flush has failed, and that no later
    /// write has replaced.
    lost: Vec<Range<u64>>,
    counts: Counts,
    rng: SmallRng,
    tickets: u64,
    finished: HashMap<u64, (Op, Result<AlignedBuf>)>,
}

struct Write {
    /// Present until the write was waited for; a flush does not make it durable before.
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
        let written = offset..offset + bytes.len() as u64;
        self.lost.retain(|lost| lost.start < written.start || written.end < lost.end);
        self.unflushed.push(Write { ticket: Some(self.tickets), offset, bytes: bytes.to_vec() });
        Ok(())
    }

    /// Writes the sectors of `bytes` for which `keep` returns true.
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
    /// Returns a device that holds what `medium` holds. `seed` determines what a plan leaves open:
    /// sectors, bits and addresses.
    #[must_use]
    pub fn new(medium: &MemoryDevice, plan: Plan, seed: u64) -> Self {
        Self {
            info: Info { name: "faulty".into(), ..medium.info().clone() },
            plan,
            state: Mutex::new(State {
                seen: medium.branch(),
                durable: medium.branch(),
                unflushed: Vec::new(),
                lost: Vec::new(),
                counts: Counts::default(),
                rng: SmallRng::seed_from_u64(seed),
                tickets: 0,
                finished: HashMap::new(),
            }),
        }
    }

    /// Returns the requests and faults so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    /// Returns true after the last request that the plan affects.
    #[must_use]
    pub fn fault_has_passed(&self) -> bool {
        self.counts().of(self.plan.fault.affects()) >= self.plan.requests.end
    }

    /// Returns true if writes to these bytes may be lost, because they or a flush after them have
    /// failed, and were not repeated.
    #[must_use]
    pub fn may_have_lost(&self, bytes: &Range<u64>) -> bool {
        self.state.lock().lost.iter().any(|lost| lost.start < bytes.end && bytes.start < lost.end)
    }

    /// Forgets which writes may be lost.
    pub fn forgive(&self) {
        self.state.lock().lost.clear();
    }

    /// Returns what a healthy device finds when it opens the medium next.
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
                medium.write_at(*offset, bytes).expect("the write was in range before");
            }
        }
        medium
    }

    /// Returns true if there were more requests than the allowance.
    #[must_use]
    pub fn exhausted(&self) -> bool {
        self.counts().of(RequestKind::All) > MOST_REQUESTS
    }

    /// Counts a request, and returns the fault if the plan affects it.
    fn count(&self, state: &mut State, kind: RequestKind) -> Option<Fault> {
        let counts = &mut state.counts;
        let Plan { fault, requests, .. } = &self.plan;
        let nth = counts.of(fault.affects());
        match kind {
            RequestKind::Reads => counts.reads += 1,
            RequestKind::Writes => counts.writes += 1,
            RequestKind::Flushes => counts.flushes += 1,
            RequestKind::All => {}
        }
        if counts.of(RequestKind::All) > MOST_REQUESTS {
            return Some(Fault::Dead);
        }
        let injected =
            (fault.affects() == kind || fault.affects() == RequestKind::All) && requests.contains(&nth);
        counts.injected += u64::from(injected);
        injected.then_some(*fault)
    }

    fn error(&self, op: &str) -> Error {
        Error::io(&self.info.name, op, std::io::ErrorKind::Other.into())
    }

    /// Carries out a read with a fault, if any.
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

    /// Carries out a write with a fault, if any.
    fn write(&self, state: &mut State, fault: Option<Fault>, offset: u64, bytes: &[u8]) -> Result<()> {
        let sector = self.info.sector_bytes as usize;
        let sectors = bytes.len() / sector;
        match fault {
            None => state.write(offset, bytes),
            Some(Fault::LostWrite) => Ok(()),
            Some(Fault::MisdirectedWrite) => {
                let last = (self.info.size_bytes - bytes.len() as u64) / sector as u64;
                let elsewhere = state.rng.random_range(0..=last) * sector as u64;
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
                let fault = self.count(state, RequestKind::Reads);
                self.read(state, fault, offset, &mut request.buf)
            }
            Op::Write => {
                let fault = self.count(state, RequestKind::Writes);
                let result = self.write(state, fault, offset, &request.buf);
                if result.is_err() {
                    state.lost.push(offset..offset + request.buf.len() as u64);
                }
                result
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
        match self.count(state, RequestKind::Flushes) {
            None => {
                for write in state.unflushed.extract_if(.., |write| write.ticket.is_none()) {
                    state.durable.write_at(write.offset, &write.bytes)?;
                }
                Ok(())
            }
            Some(Fault::IdleFlush) => Ok(()),
            Some(fault) => {
                state.counts.errors_reported += 1;
                let bytes = |write: &Write| write.offset..write.offset + write.bytes.len() as u64;
                state.lost.extend(state.unflushed.iter().map(bytes));
                if fault == Fault::FlushError {
                    // The operating system drops what it could not write, and the next flush does
                    // not report it.
                    let State { unflushed, rng, .. } = state;
                    unflushed.retain(|_| rng.random());
                }
                Err(self.error("flush"))
            }
        }
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        // The discarded bytes may still read as before, which is the hardest case for a caller that
        // expects anything else.
        self.info.check(Op::Write, offset, usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.info.check(Op::Read, offset, buf.len())?;
        let state = &mut *self.state.lock();
        let fault = self.count(state, RequestKind::Reads);
        self.read(state, fault, offset, buf)
    }
}

#[cfg(test)]
mod tests;
