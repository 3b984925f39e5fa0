//! A real device that takes as long as a modelled disk: real requests, in real time.
//!
//! A request is passed on at once, and returns when the model says that the disk would have served
//! it: after it has waited in the queue, behind flushes that came before it, and for the arm. There
//! is no thread and no timer: who waits brings the model up to the present, step by step and each
//! step at its own time, and sleeps until the next. So the model is not late when its callers are,
//! and a clock in virtual time gives exactly what a [`DriveDevice`](crate::DriveDevice) does on a
//! host without costs.
//!
//! A request takes longer than on the model by what the host takes to wake up, and if the device
//! below is slower than the disk.

use crate::commands::Commands;
use crate::device::Tally;
use crate::disk::Disk;
use crate::queue::{Discipline, Transfer};
use crate::time::Time;
use spindle_clock::{Clock, Mutex};
use spindle_device::{AlignedBuf, Device, Error, Info, Op, Request, Result, Ticket};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// What the disk does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Transfer(u64),
    Flush(u64),
}

/// The model: what waits, what is in service until when, and what has ended and is not fetched yet.
struct State {
    disk: Disk,
    queue: Commands<u64>,
    flushes: Vec<u64>,
    in_service: Vec<(Time, Job)>,
    ended: HashSet<u64>,
    since: HashMap<u64, Time>,
    /// The device's own tickets, by the number of the transfer.
    below: HashMap<u64, Ticket>,
    submitted: u64,
    active_since: Time,
    tally: Tally,
}

/// A device behind a modelled disk, its controller and its driver's queue.
pub struct SlowedDevice {
    info: Info,
    below: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    began: Duration,
    state: Mutex<State>,
}

impl SlowedDevice {
    /// Returns `below` as slow as `disk`, which is idle; as large as the smaller of both.
    #[must_use]
    pub fn new(below: Arc<dyn Device>, clock: Arc<dyn Clock>, disk: Disk, discipline: Discipline) -> Self {
        let sector_bytes = disk.sector_bytes().max(below.info().sector_bytes);
        let sector = u64::from(sector_bytes);
        let size = disk.capacity_sectors() * u64::from(disk.sector_bytes());
        let info = Info {
            name: format!("{}, slowed", below.info().name),
            size_bytes: size.min(below.info().size_bytes) / sector * sector,
            sector_bytes,
            read_only: below.info().read_only,
        };
        let state = State {
            queue: Commands::new(discipline, &disk),
            disk,
            flushes: Vec::new(),
            in_service: Vec::new(),
            ended: HashSet::new(),
            since: HashMap::new(),
            below: HashMap::new(),
            submitted: 0,
            active_since: Time::ZERO,
            tally: Tally::default(),
        };
        let began = clock.monotonic();
        Self { info, below, clock, began, state: Mutex::new(state) }
    }

    /// Returns what the disk has done so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let now = self.now();
        let mut state = self.state.lock();
        state.advance(now);
        state.tally
    }

    fn now(&self) -> Time {
        self.clock.monotonic().saturating_sub(self.began).into()
    }

    /// Waits until the model has ended what has this number.
    fn await_end(&self, id: u64) {
        loop {
            let now = self.now();
            let next = {
                let mut state = self.state.lock();
                state.advance(now);
                if state.ended.remove(&id) {
                    return;
                }
                state.next_end().map_or(now, |(at, _)| at)
            };
            self.clock.sleep((next - now).into());
        }
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.submitted += 1;
        self.submitted
    }

    /// Returns what ends first, and when.
    fn next_end(&self) -> Option<(Time, Job)> {
        self.in_service.iter().copied().min_by_key(|(at, _)| *at)
    }

    /// Ends what ends until `now`, each at its time, and starts what comes next then.
    fn advance(&mut self, now: Time) {
        while let Some((at, job)) = self.next_end().filter(|(at, _)| *at <= now) {
            self.in_service.retain(|(_, other)| *other != job);
            let (Job::Transfer(id) | Job::Flush(id)) = job;
            self.ended.insert(id);
            if let Some(since) = self.since.remove(&id) {
                self.tally.response += at - since;
            }
            if self.in_service.is_empty() {
                self.tally.active += at - self.active_since;
            }
            self.start(at);
        }
    }

    /// Starts at `at` what the disk can take: a flush when nothing is in service, and nothing new
    /// before it has ended.
    fn start(&mut self, at: Time) {
        if self.in_service.is_empty() {
            for id in std::mem::take(&mut self.flushes) {
                let done = self.disk.flush(at).max(at);
                self.serve(at, done, Job::Flush(id));
            }
        }
        let is_held = |state: &Self| state.in_service.iter().any(|(_, job)| matches!(job, Job::Flush(_)));
        while self.flushes.is_empty()
            && !is_held(self)
            && self.in_service.len() < self.disk.parallelism() as usize
        {
            let Some((transfer, id)) = self.queue.pop(at, &self.disk) else { return };
            let service = self.disk.start(at, &transfer);
            self.tally.note(&transfer, &service, at);
            self.serve(at, service.done, Job::Transfer(id));
        }
    }

    fn serve(&mut self, at: Time, done: Time, job: Job) {
        if self.in_service.is_empty() {
            self.active_since = at;
        }
        self.in_service.push((done, job));
    }
}

impl Device for SlowedDevice {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        self.info.check(request.op, request.offset, request.buf.len())?;
        let now = self.now();
        let mut state = self.state.lock();
        let sector = u64::from(state.disk.sector_bytes());
        let sectors = u32::try_from(request.buf.len() as u64 / sector).map_err(|_| Error::Unusable {
            device: self.info.name.clone(),
            reason: "a transfer has too many sectors".into(),
        })?;
        let transfer = Transfer::new(request.op, request.offset / sector, sectors);
        let below = self.below.submit(request)?;
        state.advance(now);
        let id = state.number();
        state.below.insert(id, below);
        state.since.insert(id, now);
        state.queue.push(transfer, id);
        state.tally.longest_queue = state.tally.longest_queue.max(state.queue.len());
        state.start(now);
        Ok(Ticket::new(id))
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.await_end(ticket.id());
        let below = self.state.lock().below.remove(&ticket.id());
        let unknown = || Error::Unusable {
            device: self.info.name.clone(),
            reason: "a ticket was waited for twice".into(),
        };
        self.below.wait(below.ok_or_else(unknown)?)
    }

    fn flush(&self) -> Result<()> {
        let now = self.now();
        let id = {
            let mut state = self.state.lock();
            state.advance(now);
            let id = state.number();
            state.flushes.push(id);
            state.start(now);
            id
        };
        self.await_end(id);
        self.below.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.info.check(Op::Write, offset, usize::try_from(len).unwrap_or(usize::MAX))?;
        let now = self.now();
        {
            let mut state = self.state.lock();
            state.advance(now);
            let sector = u64::from(state.disk.sector_bytes());
            state.disk.discard(offset / sector, len / sector);
        }
        self.below.discard(offset, len)
    }

    fn prepare(&self, offset: u64) {
        let now = self.now();
        let mut state = self.state.lock();
        state.advance(now);
        if state.in_service.is_empty() && offset < self.info.size_bytes {
            let sector = u64::from(state.disk.sector_bytes());
            state.disk.prepare(now, offset / sector);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::HostClock;
    use crate::device::DriveDevice;
    use crate::preset::Library;
    use crate::scheduler::Simulation;
    use spindle_device::MemoryDevice;

    const SIZE: u64 = 64 << 20;
    const ROUNDS: u64 = 40;
    const AT_ONCE: u64 = 8;

    /// Has requests at once, far from each other, on a device, and flushes between them; returns
    /// when they have ended.
    fn worked(simulation: &Simulation, device: &Arc<dyn Device>) -> Time {
        let device = device.clone();
        simulation.run_client(move || {
            for round in 0..ROUNDS {
                let tickets: Vec<_> = (0..AT_ONCE)
                    .map(|nth| {
                        let offset = (nth * 7919 + round * 104_729) % 16_000 * 4096;
                        let op = if (nth + round).is_multiple_of(3) { Op::Write } else { Op::Read };
                        device.submit(Request { op, offset, buf: AlignedBuf::zeroed(4096) }).unwrap()
                    })
                    .collect();
                for ticket in tickets {
                    device.wait(ticket).unwrap();
                }
                if round.is_multiple_of(4) {
                    device.flush().unwrap();
                }
            }
        });
        simulation.now()
    }

    /// Promise: requests take as long as on a drive of the simulation, to the nanosecond, and are
    /// counted alike: on disks with queues of commands, write caches, and flash.
    #[test]
    fn takes_as_long_as_the_modelled_drive() {
        let library = Library::built_in().unwrap();
        for name in ["eagle", "nearline-20tb", "nvme", "sata-ssd"] {
            let disk = Disk::new(library.disk(name).unwrap()).unwrap();
            let (simulation, store) = (Simulation::new(), Arc::new(MemoryDevice::new(SIZE)));
            let clock = Arc::new(HostClock::new(&simulation, |_| Time::ZERO));
            let drive =
                Arc::new(DriveDevice::over(&simulation, &clock, disk.clone(), Discipline::Disksort, store));
            let expected = worked(&simulation, &(drive.clone() as Arc<dyn Device>));

            let simulation = Simulation::new();
            let clock = Arc::new(HostClock::new(&simulation, |_| Time::ZERO));
            let below = Arc::new(MemoryDevice::new(SIZE));
            let slowed = Arc::new(SlowedDevice::new(below, clock, disk, Discipline::Disksort));
            let found = worked(&simulation, &(slowed.clone() as Arc<dyn Device>));
            assert!(found > Time::ZERO && slowed.tally().reads > 200, "{name}");
            assert_eq!((found, slowed.tally()), (expected, drive.tally()), "{name}");
        }
    }

    /// Promise: what is written is in the device below.
    #[test]
    fn bytes_are_passed_on() {
        let disk = Disk::new(Library::built_in().unwrap().disk("nvme").unwrap()).unwrap();
        let simulation = Simulation::new();
        let clock = Arc::new(HostClock::new(&simulation, |_| Time::ZERO));
        let below = Arc::new(MemoryDevice::new(SIZE));
        let device = SlowedDevice::new(below.clone(), clock, disk, Discipline::Disksort);
        simulation.run_client(move || {
            device.write_at(8192, &[7; 512]).unwrap();
            let mut back = [0; 512];
            device.read_at(8192, &mut back).unwrap();
            assert_eq!(back, [7; 512]);
        });
        assert_eq!(below.to_bytes()[8192..8704], [7; 512]);
    }

    /// Promise: the model is not late when its callers are: a request that nobody waits for ends at
    /// its time, and the next begins then.
    #[test]
    fn late_callers_do_not_delay_the_disk() {
        let library = Library::built_in().unwrap();
        let disk = Disk::new(library.disk("eagle").unwrap()).unwrap();
        let simulation = Simulation::new();
        let clock = Arc::new(HostClock::new(&simulation, |_| Time::ZERO));
        let below = Arc::new(MemoryDevice::new(SIZE));
        let device = Arc::new(SlowedDevice::new(below, clock.clone(), disk, Discipline::Disksort));
        let inner = device.clone();
        simulation.run_client(move || {
            let read = |offset| Request { op: Op::Read, offset, buf: AlignedBuf::zeroed(8192) };
            let tickets = [0, 32 << 20].map(|offset| inner.submit(read(offset)).unwrap());
            clock.sleep(Duration::from_secs(10));
            for ticket in tickets {
                inner.wait(ticket).unwrap();
            }
        });
        assert_eq!(simulation.now(), Time::from_secs_f64(10.0));
        let tally = device.tally();
        assert!(tally.reads == 2 && tally.active < Time::from_ms_f64(200.0), "{tally:?}");
    }
}
