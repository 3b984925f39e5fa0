//! A modelled drive as a device: the driver's queue, the drive, and what is stored on it.
//!
//! A transfer waits in the queue, is served by the [`Disk`], raises an interrupt, and is complete
//! when the host's processor has taken that. The bytes live in a [`MemoryDevice`] that
//! [`DriveDevice::store`] gives without any time passing, to prepare a disk or to look at it.

use crate::clock::HostClock;
use crate::commands::Commands;
use crate::disk::{Cleaning, Disk, Service, Wear};
use crate::queue::{Discipline, Transfer};
use crate::scheduler::{Core, Simulation};
use crate::time::Time;
use spindle_clock::hook::Scheduler;
use spindle_clock::{Clock, Mutex, Work};
use spindle_device::{AlignedBuf, Device, Error, Info, MemoryDevice, Op, Request, Result, Ticket};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a drive has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Sectors read.
    pub sectors_read: u64,
    /// Sectors written.
    pub sectors_written: u64,
    /// Transfers that the drive's own memory answered, at least in part.
    pub hits: u64,
    /// Time in which the drive worked: with at least one transfer in service, or on a flush.
    pub active: Time,
    /// Time in service, summed over all transfers, and what of it went into seeks and rotation.
    pub busy: Time,
    /// Moving the arm.
    pub seek: Time,
    /// Waiting for sectors to come round.
    pub rotation: Time,
    /// Sum of the times from submission to completion.
    pub response: Time,
    /// Most transfers that were queued at once.
    pub longest_queue: usize,
}

/// A transfer that has been submitted.
struct Pending {
    request: Request,
    since: Time,
}

struct State {
    disk: Disk,
    queue: Commands<u64>,
    pending: HashMap<u64, Pending>,
    done: HashMap<u64, AlignedBuf>,
    submitted: u64,
    in_service: u32,
    /// Since when there have been transfers in service, if there are any.
    active_since: Time,
    /// Flushes for which nothing new is started.
    held: u32,
    tally: Tally,
}

struct Drive {
    core: Arc<Core>,
    clock: Arc<HostClock>,
    store: Arc<MemoryDevice>,
    sector_bytes: u32,
    /// What those who wait for it to be idle are woken by, and with the number of a transfer added
    /// those who wait for that: beyond every address, so that it is nobody else's.
    key: usize,
    state: Mutex<State>,
}

/// A modelled drive, its controller and its driver's queue.
pub struct DriveDevice {
    info: Info,
    drive: Arc<Drive>,
}

/// The key of the next drive; the transfers of one have the keys up to that of the next.
static KEYS: AtomicUsize = AtomicUsize::new(1 << (usize::BITS - 1));
const TRANSFERS: usize = 1 << (usize::BITS / 2);

impl DriveDevice {
    /// Returns a drive without data, as large as `disk` is.
    #[must_use]
    pub fn new(simulation: &Simulation, clock: &Arc<HostClock>, disk: Disk, discipline: Discipline) -> Self {
        let size = disk.capacity_sectors() * u64::from(disk.sector_bytes());
        Self::over(simulation, clock, disk, discipline, Arc::new(MemoryDevice::new(size)))
    }

    /// Returns a drive that holds what is in `store`; as large as the smaller of both.
    #[must_use]
    pub fn over(
        simulation: &Simulation,
        clock: &Arc<HostClock>,
        disk: Disk,
        discipline: Discipline,
        store: Arc<MemoryDevice>,
    ) -> Self {
        let sector_bytes = disk.sector_bytes();
        let size = disk.capacity_sectors() * u64::from(sector_bytes);
        let info = Info {
            name: "modelled disk".into(),
            size_bytes: size.min(store.info().size_bytes) / u64::from(sector_bytes) * u64::from(sector_bytes),
            sector_bytes,
            read_only: false,
        };
        let state = State {
            queue: Commands::new(discipline, &disk),
            disk,
            pending: HashMap::new(),
            done: HashMap::new(),
            submitted: 0,
            in_service: 0,
            active_since: Time::ZERO,
            held: 0,
            tally: Tally::default(),
        };
        let drive = Drive {
            core: simulation.core().clone(),
            clock: clock.clone(),
            store,
            sector_bytes,
            key: KEYS.fetch_add(TRANSFERS, Ordering::Relaxed),
            state: Mutex::new(state),
        };
        Self { info, drive: Arc::new(drive) }
    }

    /// Returns what is stored on it, without a drive in front.
    #[must_use]
    pub fn store(&self) -> &Arc<MemoryDevice> {
        &self.drive.store
    }

    /// Returns what it has done so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.drive.state.lock().tally
    }

    /// Returns what was written to its flash so far; none if it has none.
    #[must_use]
    pub fn wear(&self) -> Option<Wear> {
        self.drive.state.lock().disk.wear()
    }

    /// Returns what it has done by itself so far; none if its tracks are not shingled.
    #[must_use]
    pub fn cleaning(&self) -> Option<Cleaning> {
        self.drive.state.lock().disk.cleaning()
    }
}

impl Drive {
    /// Starts what the drive can take.
    fn start(self: &Arc<Self>, state: &mut State) {
        while state.held == 0 && state.in_service < state.disk.parallelism() {
            let now = self.core.now();
            let Some((transfer, id)) = state.queue.pop(now, &state.disk) else { return };
            let service = state.disk.start(now, &transfer);
            if state.in_service == 0 {
                state.active_since = now;
            }
            state.in_service += 1;
            state.tally.note(&transfer, &service, now);
            self.plan(service.done, move |drive| drive.interrupt(id));
        }
    }

    /// Schedules what the drive does at `at`, if it still exists then.
    fn plan(self: &Arc<Self>, at: Time, call: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let drive = Arc::downgrade(self);
        self.core.plan(at, move || {
            if let Some(drive) = drive.upgrade() {
                call(&drive);
            }
        });
    }

    /// Notes that the drive has done its part of a request.
    fn interrupt(self: &Arc<Self>, id: u64) {
        let served = self.clock.interrupt();
        if served <= self.core.now() {
            self.complete(id);
        } else {
            self.plan(served, move |drive| drive.complete(id));
        }
    }

    /// Completes a request after the processor has taken the interrupt.
    fn complete(self: &Arc<Self>, id: u64) {
        let mut state = self.state.lock();
        state.in_service -= 1;
        if state.in_service == 0 {
            let since = state.active_since;
            state.tally.active += self.core.now() - since;
        }
        if let Some(Pending { mut request, since }) = state.pending.remove(&id) {
            state.tally.response += self.core.now() - since;
            // Inside the store nothing fails that fitted the device.
            let moved = match request.op {
                Op::Read => self.store.read_at(request.offset, &mut request.buf),
                Op::Write => self.store.write_at(request.offset, &request.buf),
            };
            if moved.is_ok() {
                state.done.insert(id, request.buf);
            }
        }
        self.start(&mut state);
        let idle = state.in_service == 0;
        drop(state);
        self.core.wake(self.key_of(id), true);
        if idle {
            self.core.wake(self.key, true);
        }
    }

    /// Returns what waits for transfer `id` is woken by.
    fn key_of(&self, id: u64) -> usize {
        self.key + usize::try_from(id).unwrap_or(0) % TRANSFERS
    }
}

impl Tally {
    /// Counts a transfer that is started at `now`.
    pub(crate) fn note(&mut self, transfer: &Transfer, service: &Service, now: Time) {
        let sectors = u64::from(transfer.sectors);
        let (transfers, moved) = match transfer.op {
            Op::Read => (&mut self.reads, &mut self.sectors_read),
            Op::Write => (&mut self.writes, &mut self.sectors_written),
        };
        *transfers += 1;
        *moved += sectors;
        self.hits += u64::from(service.hit);
        self.busy += service.done - now;
        self.seek += service.seek;
        self.rotation += service.rotation;
    }
}

impl Device for DriveDevice {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        self.info.check(request.op, request.offset, request.buf.len())?;
        let drive = &self.drive;
        drive.clock.work(Work::Request);
        let sector_bytes = u64::from(drive.sector_bytes);
        let sectors =
            u32::try_from(request.buf.len() as u64 / sector_bytes).map_err(|_| Error::Unusable {
                device: self.info.name.clone(),
                reason: "a transfer has too many sectors".into(),
            })?;
        let transfer = Transfer::new(request.op, request.offset / sector_bytes, sectors);
        let mut state = drive.state.lock();
        state.submitted += 1;
        let id = state.submitted;
        let now = drive.core.now();
        state.pending.insert(id, Pending { request, since: now });
        state.queue.push(transfer, id);
        state.tally.longest_queue = state.tally.longest_queue.max(state.queue.len());
        drive.start(&mut state);
        Ok(Ticket::new(id))
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let drive = &self.drive;
        let landed = || drive.state.lock().done.contains_key(&ticket.id());
        drive.core.wait_until(drive.key_of(ticket.id()), landed);
        drive.state.lock().done.remove(&ticket.id()).ok_or_else(|| Error::Unusable {
            device: self.info.name.clone(),
            reason: "the simulation ended before a transfer did".into(),
        })
    }

    fn flush(&self) -> Result<()> {
        let drive = &self.drive;
        drive.state.lock().held += 1;
        drive.core.wait_until(drive.key, || drive.state.lock().in_service == 0);
        let now = drive.core.now();
        let done = drive.state.lock().disk.flush(now);
        if done > now {
            drive.core.pass_time(done - now);
        }
        let mut state = drive.state.lock();
        state.tally.active += done.max(now) - now;
        state.held -= 1;
        drive.start(&mut state);
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.info.check(Op::Write, offset, usize::try_from(len).unwrap_or(usize::MAX))?;
        let sector_bytes = u64::from(self.drive.sector_bytes);
        self.drive.state.lock().disk.discard(offset / sector_bytes, len / sector_bytes);
        Ok(())
    }

    fn prepare(&self, offset: u64) {
        let drive = &self.drive;
        let mut state = drive.state.lock();
        if state.in_service == 0 && state.held == 0 && offset < self.info.size_bytes {
            let now = drive.core.now();
            state.disk.prepare(now, offset / u64::from(drive.sector_bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::preset::Library;

    fn drive(disk: &str, host: &str) -> (Simulation, Arc<HostClock>, Arc<DriveDevice>) {
        let library = Library::built_in().unwrap();
        let simulation = Simulation::new();
        let host = Host::new(library.host(host).unwrap()).unwrap();
        let clock = Arc::new(HostClock::new(&simulation, move |work| host.cost(work)));
        let disk = Disk::new(library.disk(disk).unwrap()).unwrap();
        let device = Arc::new(DriveDevice::new(&simulation, &clock, disk, Discipline::Disksort));
        (simulation, clock, device)
    }

    /// Promise: what is written is read back, time passes, and the processor is charged.
    #[test]
    fn bytes_and_time() {
        let (simulation, clock, device) = drive("capricorn-massbus", "vax-11-750");
        let inner = device.clone();
        simulation.run_client(move || {
            inner.write_at(8192, &[7; 8192]).unwrap();
            let mut back = vec![0; 8192];
            inner.read_at(8192, &mut back).unwrap();
            assert!(back.iter().all(|&b| b == 7));
            inner.flush().unwrap();
        });
        let tally = device.tally();
        assert_eq!((tally.reads, tally.writes, tally.sectors_read), (1, 1, 16));
        assert!(simulation.now() > Time::from_ms_f64(16.0) && clock.busy() > Time::ZERO);
        assert_eq!(device.store().to_bytes()[8192], 7);
    }

    /// Promise: a client that a simulation ends does not wait for its transfers, which never end.
    #[test]
    fn transfers_of_the_end_are_not_waited_for() {
        struct Waits(Arc<DriveDevice>, Option<Ticket>);
        impl Drop for Waits {
            fn drop(&mut self) {
                let waited = self.1.take().map(|ticket| self.0.wait(ticket));
                assert!(waited.is_some_and(|waited| waited.is_err()));
            }
        }
        let (simulation, clock, device) = drive("eagle", "vax-11-780");
        simulation.spawn_background("late", move || {
            let buf = AlignedBuf::zeroed(65_536);
            let ticket = device.submit(Request { op: Op::Write, offset: 0, buf }).unwrap();
            let _waits = Waits(device, Some(ticket));
            clock.sleep(std::time::Duration::from_secs(1));
        });
        let ends = simulation.clone();
        simulation.run_client(move || ends.core().pass_time(Time::from_ms_f64(3.0)));
    }

    /// Promise: several clients' transfers are queued and sorted, each gets its own bytes, and the
    /// run repeats exactly.
    #[test]
    fn clients_share_a_drive() {
        let run = || {
            let (simulation, _, device) = drive("eagle", "vax-11-780");
            for client in 0..8_u64 {
                let device = device.clone();
                simulation.spawn("client", move || {
                    for n in 0..50_u64 {
                        let at = (client * 7919 + n * 104_729) % 100_000 * 8 * 512 + client * 512;
                        let byte = u8::try_from(client + 1).unwrap();
                        device.write_at(at, &[byte; 512]).unwrap();
                        let mut back = [0; 512];
                        device.read_at(at, &mut back).unwrap();
                        assert!(back == [byte; 512]);
                    }
                });
            }
            simulation.run();
            (simulation.now(), simulation.events(), device.tally())
        };
        let (first, second) = (run(), run());
        assert_eq!(first, second);
        assert!(first.2.longest_queue > 3);
    }

    /// Promise: the time in which a drive works counts once, however many transfers it serves at
    /// once, and is no longer than the time that passes.
    #[test]
    fn work_counts_once() {
        let (simulation, _, device) = drive("nvme", "today");
        for client in 0..8_u64 {
            let device = device.clone();
            simulation.spawn("client", move || {
                (0..50).for_each(|n| device.write_at((client * 50 + n) << 20, &[1; 512]).unwrap());
            });
        }
        simulation.run();
        let tally = device.tally();
        assert!(tally.active > Time::ZERO && tally.active <= simulation.now(), "{tally:?}");
        assert!(tally.busy > tally.active + tally.active, "{tally:?}");
    }

    /// Promise: a transfer spends no time on moving heads that were moved ahead; one that comes
    /// before they are there waits for them.
    #[test]
    fn heads_are_moved_ahead() {
        const AT: u64 = 200 << 20;
        let transfer = |prepared: bool, pause: u64| {
            let (simulation, clock, device) = drive("super-eagle", "vax-11-780");
            let inner = device.clone();
            simulation.run_client(move || {
                if prepared {
                    inner.prepare(AT);
                }
                clock.sleep(std::time::Duration::from_millis(pause));
                inner.write_at(AT, &[1; 512]).unwrap();
            });
            device.tally()
        };
        let seek = transfer(false, 50).seek;
        assert!(seek > Time::from_ms_f64(5.0));
        assert_eq!(transfer(true, 50).seek, Time::ZERO);
        let early = transfer(true, 0);
        assert!(early.seek == Time::ZERO && early.response >= seek);
    }

    /// Promise: outside of a run the same device works for the thread that made it.
    #[test]
    fn without_clients() {
        let (simulation, _, device) = drive("ibm-0661", "sparcstation-1");
        device.write_at(0, &[1; 512]).unwrap();
        let mut back = [0; 512];
        device.read_at(0, &mut back).unwrap();
        assert_eq!(back, [1; 512]);
        assert!(simulation.now() > Time::ZERO);
    }
}
