//! Measures a disk, and describes it as a preset.
//!
//! Single random reads show whether something turns. [`solid`] measures the figures of flash, and
//! [`turning`] those of platters and an arm. What no access shows comes from the preset that is
//! nearest, and is marked so.

mod bench;
mod buffer;
mod rotation;
mod rows;
mod seeks;
pub mod solid;
mod tracks;
pub mod turning;
mod writes;
mod zones;

use crate::Progress;
use bench::{Bench, float, median};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_device::Op;
use spindle_sim::{Time, preset};
use std::io;

/// Bytes of a transfer whose latency is measured.
const SMALL: u32 = 4096;
/// From this latency of a random read on, in milliseconds, something turns.
const TURNS_MS: f64 = 2.0;

/// A disk that can be measured.
pub trait Probe {
    /// Returns the bytes that may be accessed.
    fn size_bytes(&self) -> u64;

    /// Returns the bytes of the smallest transfer, a power of two from 512 to 4096.
    fn unit_bytes(&self) -> u32;

    /// Transfers `bytes` at each of these offsets, `depth` at once, without a cache of the host;
    /// begins none after [`BUDGET`]. All are multiples of [`Self::unit_bytes`].
    ///
    /// # Errors
    /// Those of the disk.
    fn run(&mut self, op: Op, bytes: u32, depth: u32, offsets: &[u64]) -> io::Result<Run>;

    /// Makes durable what was written. Returns how long that took.
    ///
    /// # Errors
    /// Those of the disk.
    fn flush(&mut self) -> io::Result<Time>;

    /// Lets time pass without an access.
    fn pause(&mut self, time: Time);
}

/// How long a run goes on.
pub const BUDGET: Time = Time(2_000_000_000);

/// The accesses of a run that were done.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// How long each took, in any order.
    pub each: Vec<Time>,
    /// When the first began, on a clock that runs on between the runs of a probe.
    pub begin: Time,
    /// From the beginning of the first to the end of the last.
    pub total: Time,
}

impl Run {
    fn median_us(&self) -> f64 {
        median(self.each.iter().map(|time| time.as_secs_f64() * 1e6).collect())
    }

    fn rate(&self) -> f64 {
        float(self.each.len() as u64) / self.total.as_secs_f64().max(1e-9)
    }
}

/// Why a disk was not measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// It turns, and only a file on it may be measured.
    #[error(
        "a random read takes {0:.1} ms, so something turns, and a file of a directory shows only a small part \
         of it: name the block device, and the directory with --scratch"
    )]
    Part(f64),
    /// It turns, and too little of it may be accessed.
    #[error(
        "something turns here, and {} MiB of it are too few to show rates and seeks past the memory of the \
         drive: name the block device, or a file of {} MiB and more",
        bytes >> 20,
        (least >> 20) + 1
    )]
    Small {
        /// Bytes that may be.
        bytes: u64,
        /// Bytes that must be.
        least: u64,
    },
    /// It turns, but its accesses follow no rotation.
    #[error(
        "a random read takes {0:.1} ms, but no time of a revolution explains when reads of the same places \
         end: other work on the disk disturbs, or it is several disks, or one behind a network: take the \
         preset of a like disk (spindle lab presets), and change what its data sheet gives"
    )]
    NoRotation(f64),
    /// The measured figures make no disk.
    #[error("what was measured makes no disk: {0}")]
    Impossible(#[from] preset::Error),
}

/// Where writes are measured.
pub enum Writes<'a> {
    /// Nowhere: they are those of a like disk.
    Nowhere,
    /// In the same place as reads, of which nothing need be kept.
    There,
    /// In another place of the same disk.
    On(&'a mut dyn Probe),
}

/// What is measured, and what the preset says about it.
pub struct Job<'a> {
    /// What is measured, for people.
    pub title: String,
    /// Where and when, for people.
    pub source: String,
    /// Bytes of the whole disk, a multiple of 4096.
    pub capacity_bytes: u64,
    /// Where reads are measured.
    pub disk: &'a mut dyn Probe,
    /// Where writes are.
    pub writes: Writes<'a>,
    /// Chooses the places of accesses.
    pub seed: u64,
}

/// Measures a disk. Returns the text of a preset.
///
/// # Errors
/// [`Error`].
pub fn calibrate(job: Job<'_>, progress: &dyn Progress) -> Result<String, Error> {
    let Job { title, source, capacity_bytes, disk, writes, seed } = job;
    progress.at(0, 1, "kind of disk");
    let random = &mut SmallRng::seed_from_u64(seed);
    let ms = disk.run(Op::Read, SMALL, 1, &scattered(disk, 200, random))?.median_us() / 1e3;
    if ms > TURNS_MS {
        let scratch = match writes {
            Writes::Nowhere => None,
            Writes::There => return Err(Error::Part(ms)),
            Writes::On(scratch) => Some(scratch),
        };
        let measured = turning::measure(&mut Bench::new(disk, seed), ms, progress)?;
        let write = scratch
            .map(|scratch| {
                progress.at(9, 10, "writes");
                writes::measure(&mut Bench::new(scratch, seed), measured.rotation)
            })
            .transpose()?;
        return measured.preset(&title, &source, write);
    }
    progress.at(1, 10, "reads");
    let read = solid::reads(disk, seed)?;
    progress.at(5, 10, "writes");
    let write = match writes {
        Writes::Nowhere => None,
        Writes::There => Some(solid::writes(disk, seed + 1)?),
        Writes::On(scratch) => Some(solid::writes(scratch, seed + 1)?),
    };
    solid::Measured { title, source, capacity_bytes, read, write }.preset()
}

/// Returns this many offsets of 4 KiB at random.
fn scattered(probe: &dyn Probe, count: usize, random: &mut SmallRng) -> Vec<u64> {
    let places = (probe.size_bytes() / u64::from(SMALL)).max(1);
    (0..count).map(|_| random.random_range(0..places) * u64::from(SMALL)).collect()
}
