//! What a candidate does with a window of a trace: a replay in virtual time, and a filling.
//!
//! The one idea: nothing is estimated. The file system that the user would make is made, by the
//! same code, on a device in memory; the files that were there are made in it; then the window is
//! replayed at its own times on the modelled disk, and what the calls took and the disk did is read
//! off. The space is measured on a second new file system, in which the files that the trace has
//! left are made.
//!
//! Invariant: a prediction depends on the candidate, the window and the [`Ground`], and on nothing
//! else.

use super::candidate::{Apart, Candidate, Layout, Names, second_bytes};
use super::window::Window;
use super::{Ground, REQUEST};
use crate::bench::machine::Machine;
use crate::bench::subject::Kind;
use crate::kernel::{Kernel, Ticking};
use crate::replay::Files;
use crate::{Error, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::Serialize;
use spindle_analyze::By;
use spindle_cache::{DataSettings, Naming, Settings};
use spindle_clock::{Clock, ManualClock};
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::newfs::{Format, Parameters};
use spindle_ffs::{Ffs, LogUse};
use spindle_mfs::newfs::{Member, NewArea, Wishes};
use spindle_mfs::{Mfs, Role, Set};
use spindle_report::number::real;
use spindle_sim::Discipline;
use spindle_sim::disk::Disk;
use spindle_synth::replay::{self, Name, Pace, Replay, Target, Timings};
use spindle_trace::{Batch, Event};
use spindle_vfs::FileSystem;
use std::sync::Arc;
use std::time::Duration;

/// Start of all random numbers inside file systems.
const SEED: u64 = 1984;
/// Files that must be left for their space to be measured.
const LEAST_LEFT: usize = 100;

/// What a candidate does with a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Bytes that calls read and wrote, in a second of the slower of programs and disk.
    pub bytes_per_second: f64,
    /// Calls in such a second.
    pub calls_per_second: f64,
    /// Times within which half, 95 % and 99 % of the calls returned, in milliseconds.
    pub latency_ms: [f64; 3],
    /// Seconds in which programs waited for calls.
    pub waited_seconds: f64,
    /// Seconds in which the disk, or the busier one, worked.
    pub disk_seconds: f64,
    /// Reads of all disks.
    pub disk_reads: u64,
    /// Writes of all disks.
    pub disk_writes: u64,
    /// Bytes that disks read.
    pub disk_bytes_read: u64,
    /// Bytes that disks wrote.
    pub disk_bytes_written: u64,
    /// Space that files like those of the trace take; `None` if too few were left.
    pub space: Option<Space>,
    /// The seconds of each half of the events.
    #[serde(skip)]
    pub halves: [Half; 2],
}

/// The seconds of a half of the events.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Half {
    /// In which programs waited.
    pub waited: f64,
    /// In which the busiest disk worked.
    pub disk: f64,
}

impl Prediction {
    /// Returns the seconds of both halves together.
    #[must_use]
    pub const fn whole(&self) -> Half {
        Half { waited: self.waited_seconds, disk: self.disk_seconds }
    }
}

impl Half {
    /// Returns what limits the load: no machine carries it faster than the slower of the two.
    #[must_use]
    pub const fn time(self) -> f64 {
        self.waited.max(self.disk)
    }
}

/// The space of files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Space {
    /// Bytes of the files that were made.
    pub file_bytes: u64,
    /// Bytes that they take besides, in percent of that.
    pub waste_percent: f64,
    /// Inodes that they take.
    pub inodes_used: u64,
    /// Inodes of the file system.
    pub inodes: u64,
    /// Bytes of such files that fit into it: of the half of them of which fewer fit.
    pub fits_bytes: u64,
    /// The same in percent of its size.
    pub fits_percent: f64,
    /// True if it is the inodes that end first.
    pub inodes_end_first: bool,
}

/// Returns what a candidate does.
///
/// # Errors
/// When it cannot be made, or the load does not fit it.
pub fn predict(candidate: &Candidate, window: &Arc<Window>, ground: &Ground) -> Result<Prediction> {
    let space = filled(candidate, window, ground)?;
    let stores = prepared(candidate, window, ground)?;
    let (window, memory) = (window.clone(), candidate.memory_bytes);
    on_machine(candidate, ground, &stores, move |machine, fs| {
        replayed(machine, fs, memory, &window.events, space)
    })
}

/// Makes the file system with the files that were there before a window, on new devices: one for
/// each disk that it uses.
pub(crate) fn prepared(
    candidate: &Candidate,
    window: &Window,
    ground: &Ground,
) -> Result<Vec<Arc<MemoryDevice>>> {
    let stores = made(candidate, ground)?;
    let clock = Arc::new(ManualClock::at(0));
    let fs = opened(candidate, devices(&stores), clock.clone(), true)?;
    let mut files = Files::new(&*fs, &*clock, 0)?;
    window.population.files.iter().try_for_each(|&(name, size)| files.make(name, size))?;
    fs.unmount()?;
    Ok(stores)
}

/// Runs a program on the modelled machine with the file system on `stores`, which commits as a
/// mount does.
pub(crate) fn on_machine<T: Send + 'static>(
    candidate: &Candidate,
    ground: &Ground,
    stores: &[Arc<MemoryDevice>],
    program: impl FnOnce(&Machine, &dyn FileSystem) -> Result<T> + Send + 'static,
) -> Result<T> {
    let disk = |name: &str| Ok::<_, Error>(Disk::new(&spindle_sim::preset::disk(name)?)?);
    let names = std::iter::once(ground.disk.as_str()).chain(ground.second.as_deref());
    let disks = names.zip(stores).map(|(name, store)| Ok((disk(name)?, store.clone())));
    let disks = disks.collect::<Result<Vec<_>>>()?;
    let machine = Machine::with_unlike_disks(&ground.host, Discipline::Disksort, disks)?;
    let own = candidate.clone();
    machine.run(move |machine| {
        let drives = machine.drives.iter().map(|drive| drive.clone() as Arc<dyn Device>).collect();
        let ticking = Arc::new(Ticking(machine.clock.clone()));
        let fs = opened(&own, drives, ticking, false)?;
        let (committed, clock, every) = (fs.clone(), machine.clock.clone(), own.commit_seconds);
        machine.background("commit", move || {
            loop {
                clock.sleep(Duration::from_secs(every.into()));
                if committed.sync().is_err() {
                    return;
                }
            }
        });
        program(machine, &*fs)
    })
}

/// Replays events at their times, and reads off what happened.
fn replayed(
    machine: &Machine,
    fs: &dyn FileSystem,
    memory_bytes: u64,
    events: &[Event],
    space: Option<Space>,
) -> Result<Prediction> {
    let settings = replay::Settings { pace: Pace::Times(1.0), request: REQUEST, shift: Duration::ZERO };
    let clock: &dyn Clock = &*machine.clock;
    let seconds = |timings: &Timings| Half { waited: waited(timings), disk: worked(machine) };
    let opened = seconds(&Timings::default());
    let target = Files::new(fs, clock, 0)?.behind(Kernel::new(memory_bytes));
    let mut replay = Replay::new(target, clock, settings);
    let (first, second) = events.split_at(events.len() / 2);
    replay.take(&Batch { events: first.to_vec(), ..Batch::default() })?;
    let middle = seconds(replay.timings());
    replay.take(&Batch { events: second.to_vec(), ..Batch::default() })?;
    let (_, timings) = replay.finish()?;
    fs.sync()?;
    let end = seconds(&timings);
    let between =
        |one: Half, other: Half| Half { waited: other.waited - one.waited, disk: other.disk - one.disk };
    let (all, whole) = (timings.all(), between(opened, end));
    let time = whole.time().max(1e-9);
    let latency = |part| all.quantile(part, By::Count).map_or(0.0, |ns| real(ns) / 1e6);
    let tallies: Vec<_> = machine.drives.iter().map(|drive| drive.tally()).collect();
    let sum = |of: fn(&spindle_sim::Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    Ok(Prediction {
        bytes_per_second: real(all.weight()) / time,
        calls_per_second: real(all.count()) / time,
        latency_ms: [0.5, 0.95, 0.99].map(latency),
        waited_seconds: whole.waited,
        disk_seconds: whole.disk,
        disk_reads: sum(|tally| tally.reads),
        disk_writes: sum(|tally| tally.writes),
        disk_bytes_read: sum(|tally| tally.sectors_read) * SECTOR,
        disk_bytes_written: sum(|tally| tally.sectors_written) * SECTOR,
        space,
        halves: [between(opened, middle), between(middle, end)],
    })
}

/// Bytes of a sector: other disks are refused before.
pub(crate) const SECTOR: u64 = 512;

/// Returns the seconds that calls have taken.
pub(crate) fn waited(timings: &Timings) -> f64 {
    let all = timings.all();
    all.mean() * real(all.count()) / 1e9
}

/// Returns the seconds in which the busiest disk has worked.
fn worked(machine: &Machine) -> f64 {
    machine.drives.iter().map(|drive| drive.tally().active.as_secs_f64()).fold(0.0, f64::max)
}

/// Makes files like those that the trace has left in a new file system; returns what they take. How
/// many fit is asked of each half of them: sizes differ, and a half with smaller files needs more
/// inodes.
fn filled(candidate: &Candidate, window: &Window, ground: &Ground) -> Result<Option<Space>> {
    if window.left.len() < LEAST_LEFT {
        return Ok(None);
    }
    let clock = Arc::new(ManualClock::at(0));
    let fs = opened(candidate, devices(&made(candidate, ground)?), clock.clone(), true)?;
    let mut files = Files::new(&*fs, &*clock, 0)?;
    let empty = fs.statfs()?;
    let mut numbers = (0..).map(|file| Name { file, generation: 0 });
    let mut before = empty.clone();
    let mut fits: Option<(f64, bool)> = None;
    for half in [0, 1] {
        let sizes = window.left.iter().skip(half).step_by(2);
        sizes.clone().zip(&mut numbers).try_for_each(|(&size, name)| files.make(name, size))?;
        fs.sync()?;
        let now = fs.statfs()?;
        let used = |before: u64, now: u64| real(before.saturating_sub(now).max(1));
        let by_inodes = real(empty.ffree) / used(before.ffree, now.ffree);
        let by_space = real(empty.bavail) / used(before.bfree, now.bfree);
        let bytes = real(sizes.sum()) * by_inodes.min(by_space);
        if fits.is_none_or(|(least, _)| bytes < least) {
            fits = Some((bytes, by_inodes < by_space));
        }
        before = now;
    }
    let file_bytes: u64 = window.left.iter().sum();
    let taken = empty.bfree.saturating_sub(before.bfree) * u64::from(empty.frsize);
    let (bytes, inodes_end_first) = fits.unwrap_or_default();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Bytes of a disk.
    let fits_bytes = bytes as u64;
    Ok(Some(Space {
        file_bytes,
        waste_percent: (real(taken) / real(file_bytes.max(1)) - 1.0) * 100.0,
        inodes_used: empty.ffree.saturating_sub(before.ffree),
        inodes: empty.files,
        fits_bytes,
        fits_percent: 100.0 * real(fits_bytes) / real(ground.size),
        inodes_end_first,
    }))
}

fn devices(stores: &[Arc<MemoryDevice>]) -> Vec<Arc<dyn Device>> {
    stores.iter().map(|store| store.clone() as Arc<dyn Device>).collect()
}

/// Makes the file system on new devices: one for each disk that it uses.
fn made(candidate: &Candidate, ground: &Ground) -> Result<Vec<Arc<MemoryDevice>>> {
    let one = Arc::new(MemoryDevice::new(ground.size));
    match candidate.layout {
        Layout::Ufs { version, block_bytes, fragment_bytes, density_bytes } => {
            Kind::Fast(Box::new(Parameters {
                format: if version == 1 { Format::Ufs1 } else { Format::Ufs2 },
                bsize: Some(block_bytes),
                fsize: Some(fragment_bytes),
                density: Some(density_bytes),
                maxcontig: Some(candidate.cluster_blocks()),
                ..Parameters::new(ground.size)
            }))
            .make(&*one)?;
            Ok(vec![one])
        }
        Layout::Mfs { block_bytes, apart } => {
            let mut wishes = Wishes::new();
            wishes.parameters.data_block_bytes = block_bytes;
            wishes.parameters.track_blocks = candidate.cluster_blocks();
            let roles: &[&[Role]] = match apart {
                Apart::Nothing => &[&[Role::Control, Role::Data, Role::Log]],
                Apart::Log => &[&[Role::Control, Role::Data], &[Role::Log]],
                Apart::Control => &[&[Role::Data], &[Role::Control, Role::Log]],
            };
            let second = || Arc::new(MemoryDevice::new(second_bytes(ground.size)));
            let stores: Vec<_> =
                std::iter::once(one).chain(std::iter::once_with(second)).take(roles.len()).collect();
            let member = |(device, roles): (Arc<dyn Device>, &&[Role])| Member {
                device,
                areas: roles.iter().map(|&role| NewArea::of(role)).collect(),
            };
            let members: Vec<_> = devices(&stores).into_iter().zip(roles).map(member).collect();
            let mut random = StdRng::seed_from_u64(SEED);
            spindle_mfs::newfs::make(&members, &wishes, &ManualClock::at(0), &mut random)?;
            Ok(stores)
        }
    }
}

/// Opens the file system as a mount does; `is_new` if files are only to be made, so that their
/// zeros need not be written.
fn opened(
    candidate: &Candidate,
    mut devices: Vec<Arc<dyn Device>>,
    clock: Arc<dyn Clock>,
    is_new: bool,
) -> Result<Arc<dyn FileSystem>> {
    let (naming, log) = match candidate.names {
        Names::Logged => (Naming::Delayed, LogUse::Wanted),
        Names::Unordered => (Naming::Delayed, LogUse::Never),
        Names::Synchronous => (Naming::Durable, LogUse::Never),
    };
    let data = DataSettings { zeros_left_out: is_new, ..DataSettings::THROUGH };
    let cache = Settings { naming, data, ..Settings::default() };
    let (fs, reasons): (Arc<dyn FileSystem>, _) = match candidate.layout {
        Layout::Ufs { .. } => {
            let options = spindle_ffs::OpenOptions { seed: Some(SEED), cache, log, ..Default::default() };
            let fs = Ffs::open(devices.swap_remove(0), clock, &options)?;
            let reasons = fs.read_only_reasons().len();
            (Arc::new(fs), reasons)
        }
        Layout::Mfs { .. } => {
            let options = spindle_mfs::OpenOptions { cache, ..Default::default() };
            let fs = Mfs::open(&Set::open(&devices)?, clock, &options)?;
            let reasons = fs.read_only_reasons().len();
            (Arc::new(fs), reasons)
        }
    };
    if reasons == 0 { Ok(fs) } else { Err(Error::Contradiction("a new file system can only be read".into())) }
}
