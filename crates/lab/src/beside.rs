//! Predicted beside real: the same trace on a simulated machine, and on this one with a disk that
//! takes as long as the model says.
//!
//! The one idea: both begin with the same bytes. The file system is made, and the files that were
//! there before the trace, once ([`Trial::new`]); the simulation then replays the trace as
//! [`advice`](crate::advice) does, and the real run does its calls in a directory where somebody
//! has mounted the file system of [`Trial::disk`]. Both are read off in the same way
//! ([`Work`]), so every difference is one between the simulation and the machine: its kernel above
//! the mount, the trips to a daemon, and the time that its processor takes.

use crate::advice::simulate::{SECTOR, on_machine, prepared, waited};
use crate::advice::{Bounds, Candidate, Ground, Open, REQUEST, Window};
use crate::kernel::Kernel;
use crate::replay::Files;
use crate::{Error, Result};
use serde::Serialize;
use spindle_cache::Settings;
use spindle_clock::Clock;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::{Ffs, LogUse};
use spindle_report::number::real;
use spindle_sim::disk::Disk;
use spindle_sim::{Discipline, SlowedDevice, Tally, preset};
use spindle_synth::replay::{self, Directory, Pace, Replay, Target, Timings};
use spindle_trace::{Batch, Event};
use spindle_vfs::FileSystem;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The size of the file system at least, in bytes.
const LEAST_SIZE: u64 = 1 << 30;

/// Events between two questions whether to go on.
const EVENTS_OF_STEP: usize = 32;

/// The disk, the host, and how the trace is replayed.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The disk: a preset, or a file.
    pub disk: String,
    /// The preset of the simulated host.
    pub host: String,
    /// Bytes of memory of the simulated host for file data.
    pub memory: u64,
    /// The times of events.
    pub pace: Pace,
}

/// What a trace has made a file system and its disk do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Work {
    /// Calls that were made.
    pub calls: u64,
    /// Reads of the disk: what no cache had.
    pub reads: u64,
    /// Bytes of these.
    pub bytes_read: u64,
    /// Writes of the disk.
    pub writes: u64,
    /// Bytes of these.
    pub bytes_written: u64,
    /// Seconds in which the disk worked.
    pub disk_seconds: f64,
    /// Seconds in which its arm moved.
    pub seek_seconds: f64,
    /// Seconds in which programs waited for calls.
    pub waited_seconds: f64,
    /// Seconds from the first event to the last.
    pub elapsed_seconds: f64,
}

impl Work {
    fn of(timings: &Timings, before: &Tally, after: &Tally) -> Self {
        let between = |of: fn(&Tally) -> u64| of(after) - of(before);
        Self {
            calls: timings.all().count(),
            reads: between(|tally| tally.reads),
            bytes_read: between(|tally| tally.sectors_read) * SECTOR,
            writes: between(|tally| tally.writes),
            bytes_written: between(|tally| tally.sectors_written) * SECTOR,
            disk_seconds: (after.active - before.active).as_secs_f64(),
            seek_seconds: (after.seek - before.seek).as_secs_f64(),
            waited_seconds: waited(timings),
            elapsed_seconds: timings.elapsed.as_secs_f64(),
        }
    }

    /// Returns all figures with their names, in the order in which they are shown.
    #[must_use]
    pub fn figures(&self) -> [(&'static str, f64); 9] {
        [
            ("calls", real(self.calls)),
            ("disk reads (cache misses)", real(self.reads)),
            ("MB read", real(self.bytes_read) / 1e6),
            ("disk writes", real(self.writes)),
            ("MB written", real(self.bytes_written) / 1e6),
            ("seconds of the disk", self.disk_seconds),
            ("of these its arm moved", self.seek_seconds),
            ("seconds of waiting for calls", self.waited_seconds),
            ("seconds in all", self.elapsed_seconds),
        ]
    }
}

/// A trace, and the file system on which it is replayed.
pub struct Trial {
    setup: Setup,
    candidate: Candidate,
    ground: Ground,
    window: Arc<Window>,
    store: Arc<MemoryDevice>,
}

impl Trial {
    /// Reads a trace, and makes the file system with the files that were there before it: UFS2 as
    /// `newfs` makes it without options.
    ///
    /// # Errors
    /// When the trace cannot be read, or does not fit the disk.
    pub fn new(setup: Setup, open: Open<'_>) -> Result<Self> {
        let window = Window::of(open, Bounds::default(), &|_| ())?;
        let ground = Ground {
            disk: setup.disk.clone(),
            second: None,
            host: setup.host.clone(),
            size: window.space().saturating_mul(2).max(LEAST_SIZE).next_power_of_two(),
            memory: setup.memory,
            only_ufs: true,
        };
        let candidate = Candidate::usual(setup.memory);
        let none = || Error::Contradiction("a file system without a device".into());
        let store = prepared(&candidate, &window, &ground)?.pop().ok_or_else(none)?;
        Ok(Self { setup, candidate, ground, window: Arc::new(window), store })
    }

    /// Returns what the simulation says.
    ///
    /// # Errors
    /// When there is no such preset, or the file system fails.
    pub fn predicted(&self) -> Result<Work> {
        let (window, pace, memory) = (self.window.clone(), self.setup.pace, self.setup.memory);
        let stores = [Arc::new(self.store.branch())];
        on_machine(&self.candidate, &self.ground, &stores, move |machine, fs| {
            let before = machine.drive.tally();
            let target = Files::new(fs, &*machine.clock, 0)?.behind(Kernel::new(memory));
            let timings = replayed(target, &*machine.clock, pace, &window.events, &|| Ok(()))?;
            fs.sync()?;
            Ok(Work::of(&timings, &before, &machine.drive.tally()))
        })
    }

    /// Returns a copy of the file system on a disk that takes as long as the model, by `clock`.
    ///
    /// # Errors
    /// When there is no such preset.
    pub fn disk(&self, clock: Arc<dyn Clock>) -> Result<Arc<SlowedDevice>> {
        let disk = Disk::new(&preset::disk(&self.setup.disk)?)?;
        let below: Arc<dyn Device> = Arc::new(self.store.branch());
        Ok(Arc::new(SlowedDevice::new(below, clock, disk, Discipline::Disksort)))
    }

    /// Opens the file system on such a disk as a mount with these settings of the cache does.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(disk: Arc<SlowedDevice>, clock: Arc<dyn Clock>, cache: Settings) -> Result<Arc<Ffs>> {
        let options = spindle_ffs::OpenOptions { cache, log: LogUse::Wanted, ..Default::default() };
        Ok(Arc::new(Ffs::open(disk, clock, &options)?))
    }

    /// Does the calls of the trace below the directory `dir`, on which `fs` is mounted from `disk`,
    /// and makes everything durable; returns what that took. Calls `step` now and then, whose error
    /// ends it.
    ///
    /// # Errors
    /// When a call fails, and those of `step`.
    pub fn real(
        &self,
        (fs, disk): (&dyn FileSystem, &SlowedDevice),
        dir: &Path,
        clock: &dyn Clock,
        step: &dyn Fn() -> Result<()>,
    ) -> Result<Work> {
        let before = disk.tally();
        let target = Directory::made(&dir.join("copy0"))?;
        let timings = replayed(target, clock, self.setup.pace, &self.window.events, step)?;
        fs.sync()?;
        Ok(Work::of(&timings, &before, &disk.tally()))
    }
}

/// Replays events on a target, and calls `step` before some of them.
fn replayed(
    target: impl Target,
    clock: &dyn Clock,
    pace: Pace,
    events: &[Event],
    step: &dyn Fn() -> Result<()>,
) -> Result<Timings> {
    let settings = replay::Settings { pace, request: REQUEST, shift: Duration::ZERO };
    let mut replay = Replay::new(target, clock, settings);
    for some in events.chunks(EVENTS_OF_STEP) {
        step()?;
        replay.take(&Batch { events: some.to_vec(), ..Batch::default() })?;
    }
    Ok(replay.finish()?.1)
}
