//! A host and its disks of the past, in virtual time.

use crate::Result;
use spindle_clock::Work;
use spindle_device::MemoryDevice;
use spindle_sim::disk::Disk;
use spindle_sim::host::Host;
use spindle_sim::preset;
use spindle_sim::{Discipline, DriveDevice, HostClock, Simulation, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A host with one disk or several, each with a controller of its own.
#[derive(Clone)]
pub struct Machine {
    simulation: Simulation,
    /// The host's time and processor.
    pub clock: Arc<HostClock>,
    /// The first disk.
    pub drive: Arc<DriveDevice>,
    /// All disks.
    pub drives: Vec<Arc<DriveDevice>>,
    spent: Arc<Spent>,
}

/// Processor time of some kinds of work in nanoseconds.
#[derive(Default)]
struct Spent {
    reclaiming: AtomicU64,
    copying: AtomicU64,
    allocating: AtomicU64,
}

impl Spent {
    fn of(&self, work: Work) -> Option<&AtomicU64> {
        match work {
            Work::Reclaim => Some(&self.reclaiming),
            Work::Copy { .. } => Some(&self.copying),
            Work::Allocate => Some(&self.allocating),
            _ => None,
        }
    }

    /// Returns the times so far: of the page daemon, of copying, and of finding space.
    fn so_far(&self) -> [Time; 3] {
        [&self.reclaiming, &self.copying, &self.allocating].map(|time| Time(time.load(Ordering::Relaxed)))
    }
}

impl Machine {
    /// Returns the presets `host` and `disk`, or those of files, with `store` on the disk, and the
    /// classic disk sort in the driver.
    ///
    /// # Errors
    /// When there is no such preset.
    pub fn new(host: &str, disk: &str, store: Arc<MemoryDevice>) -> Result<Self> {
        Self::with_disks(host, disk, Discipline::Disksort, vec![store])
    }

    /// Returns the same with a disk for each of `stores`, as large as that, and this order in their
    /// queues.
    ///
    /// # Errors
    /// When there is no such preset, or no disk.
    pub fn with_disks(
        host: &str,
        disk: &str,
        discipline: Discipline,
        stores: Vec<Arc<MemoryDevice>>,
    ) -> Result<Self> {
        let disk = Disk::new(&preset::disk(disk)?)?;
        let disks = stores.into_iter().map(|store| (disk.clone(), store)).collect();
        Self::with_unlike_disks(host, discipline, disks)
    }

    /// Returns the same with disks that need not be equal.
    ///
    /// # Errors
    /// As [`Self::with_disks`].
    pub fn with_unlike_disks(
        host: &str,
        discipline: Discipline,
        disks: Vec<(Disk, Arc<MemoryDevice>)>,
    ) -> Result<Self> {
        let host = Host::new(&preset::host(host)?)?;
        let simulation = Simulation::new();
        let spent = Arc::new(Spent::default());
        let counted = spent.clone();
        let price = move |work| {
            let cost = host.cost(work);
            if let Some(spent) = counted.of(work) {
                spent.fetch_add(cost.0, Ordering::Relaxed);
            }
            cost
        };
        let clock = Arc::new(HostClock::new(&simulation, price));
        let drive = |(disk, store)| Arc::new(DriveDevice::over(&simulation, &clock, disk, discipline, store));
        let drives: Vec<_> = disks.into_iter().map(drive).collect();
        let none = || crate::Error::Contradiction("a machine without disks".into());
        let drive = drives.first().ok_or_else(none)?.clone();
        Ok(Self { simulation, clock, drive, drives, spent })
    }

    /// Runs a program on it until it ends, and returns its result.
    ///
    /// # Errors
    /// The program's.
    pub fn run<T: Send + 'static>(
        &self,
        program: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let own = self.clone();
        self.simulation.run_client(move || program(&own)).unwrap_or_else(|| {
            Err(crate::Error::Contradiction("a simulation ended before its program".into()))
        })
    }

    /// Adds a program that runs beside the one of [`Self::run`], which ends after all of these
    /// have.
    pub fn client(&self, name: &str, program: impl FnOnce() + Send + 'static) {
        self.simulation.spawn(name, program);
    }

    /// Adds a program that goes on for as long as there are others.
    pub fn background(&self, name: &str, program: impl FnOnce() + Send + 'static) {
        self.simulation.spawn_background(name, program);
    }

    /// Runs `work`, which moves `bytes`, and returns its rate.
    ///
    /// # Errors
    /// The work's.
    pub fn measure(&self, bytes: u64, work: impl FnOnce() -> Result<()>) -> Result<Rate> {
        let (start, busy, before) = (self.simulation.now(), self.clock.busy(), self.spent.so_far());
        work()?;
        let spent = self.spent.so_far();
        let [daemon, copying, allocating] = std::array::from_fn(|n| spent[n] - before[n]);
        Ok(Rate {
            bytes,
            elapsed: self.simulation.now() - start,
            busy: self.clock.busy() - busy,
            daemon,
            copying,
            allocating,
        })
    }
}

/// The rate of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Bytes moved.
    pub bytes: u64,
    /// Time it took.
    pub elapsed: Time,
    /// Processor time in it.
    pub busy: Time,
    /// The page daemon's part of the processor time.
    pub daemon: Time,
    /// The part in which bytes were copied between program and system.
    pub copying: Time,
    /// The part in which space was found for new blocks.
    pub allocating: Time,
}

impl Rate {
    /// Returns the bytes per second.
    #[allow(clippy::cast_precision_loss)] // A rate.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns the part of the time in which the processor worked, in percent.
    pub fn percent_busy(&self) -> f64 {
        100.0 * self.busy.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9)
    }
}
