//! The memory of the drive: what it costs to get something from there, and how much it holds.

use super::Error;
use super::bench::{Bench, float, median, quantile};
use spindle_device::Op;

/// Reads whose median counts.
const READS: usize = 9;
/// Reads of half a track. Of a drive that begins in the middle about a fifth of them show it; more
/// than so many must.
const HALVES: usize = 100;
const SHOWN: usize = 8;
/// A read from memory takes at most this part of a revolution longer than the shortest ones.
/// Others may take as little by chance.
const HIT: f64 = 1.0 / 16.0;
/// How often it is tried whether a drive remembers so many places: a host that is late lets it
/// read on over what it had.
const TRIES: usize = 3;
/// Places behind which it is seen whether a drive has read on; most of them must show it.
const BEHIND: usize = 7;
/// Parts of a revolution that are no noise.
const SURE: f64 = 0.03;
/// From this part on, a read of half a track is late by more than the work of the host.
const SLOW: f64 = 0.1;
/// Bytes of a large read, which are tried until the memory has them soon.
const LARGE: [u64; 3] = [128 << 10, 16 << 10, 4 << 10];
/// Numbers of places that are tried, and sizes of what is read on in KiB, each twice the one
/// before.
const PLACES: [usize; 6] = [4, 8, 16, 32, 64, 128];
const KIB: [u64; 10] = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];

/// What a drive remembers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buffer {
    /// Seconds from the command to the first byte of what it has.
    pub overhead: f64,
    /// Bytes in a second on the bus; none where no larger read is soon there.
    pub bus: Option<f64>,
    /// How many places it remembers.
    pub segments: u32,
    /// How much it holds of each, in KiB; none where it does not read on.
    pub segment_kib: Option<u32>,
}

impl Buffer {
    /// Returns the bytes of all places together.
    pub fn bytes(&self) -> u64 {
        u64::from(self.segments) * u64::from(self.segment_kib.unwrap_or(1)) * 1024
    }
}

/// Measures the memory of a drive; none if it remembers nothing. `rotation` is the time of a
/// revolution in seconds.
///
/// # Errors
/// [`Error::Disk`].
pub fn measure(bench: &mut Bench<'_>, rotation: f64) -> Result<Option<Buffer>, Error> {
    let soon = rotation / 4.0;
    let small = again(bench, 1)?;
    if small > soon {
        return Ok(None);
    }
    let mut bus = None;
    for bytes in LARGE {
        let count = bench.sectors_of(bytes);
        let large = again(bench, count)?;
        if large > small && large < soon {
            bus = Some(float((count - 1) * u64::from(bench.sector_bytes())) / (large - small));
            break;
        }
    }
    let sector = bus.map_or(0.0, |bus| f64::from(bench.sector_bytes()) / bus);
    let hit = small + HIT * rotation;
    let mut segments = 1;
    for count in PLACES {
        if !remembers(bench, count, hit)? {
            break;
        }
        segments = u32::try_from(count).unwrap_or(segments);
    }
    let mut segment_kib = None;
    for kib in KIB {
        if !reads_on(bench, kib, rotation, hit)? {
            break;
        }
        segment_kib = u32::try_from(kib).ok();
    }
    Ok(Some(Buffer { overhead: (small - sector).max(0.0), bus, segments, segment_kib }))
}

/// Returns how long it takes to read the same again.
fn again(bench: &mut Bench<'_>, count: u64) -> Result<f64, Error> {
    let mut took = Vec::new();
    for _ in 0..READS {
        let place = bench.somewhere(count);
        bench.transfer(Op::Read, place, count)?;
        took.push(bench.transfer(Op::Read, place, count)?.took());
    }
    Ok(median(took))
}

/// Returns true if most of `count` places are still in the memory after all of them were read.
/// `hit` is the longest time of a read from memory in seconds.
fn remembers(bench: &mut Bench<'_>, count: usize, hit: f64) -> Result<bool, Error> {
    for _ in 0..TRIES {
        let places: Vec<u64> = (0..count).map(|_| bench.somewhere(1)).collect();
        for place in &places {
            bench.read(*place)?;
        }
        let mut held = 0;
        for place in &places {
            held += usize::from(bench.read(*place)?.took() < hit);
        }
        if held * 2 > count {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if a drive that was let alone has read on over so many KiB. `hit` is the longest
/// time of a read from memory in seconds.
fn reads_on(bench: &mut Bench<'_>, kib: u64, rotation: f64, hit: f64) -> Result<bool, Error> {
    let ahead = bench.sectors_of(kib << 10) - 1;
    let mut held = 0;
    for _ in 0..BEHIND {
        let place = bench.somewhere(ahead + 1);
        let took = bench.read(place)?.took();
        // Tracks of old drives have 10 KiB.
        bench.pause((took + rotation * (float(kib) / 10.0).min(16.0)).min(0.5));
        held += usize::from(bench.read(place + ahead)?.took() < hit);
    }
    Ok(held * 2 > BEHIND)
}

/// How long reads end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ends {
    /// With their last sector, as the platters have it.
    Platters,
    /// Anywhere: they may begin in the middle.
    Anywhere,
    /// Later, because the bus is slower than the platters: by so many seconds for each sector.
    Later(f64),
}

/// Sees how reads of `count` sectors end, about half a track. `rotation` is the time of a
/// revolution in seconds.
///
/// # Errors
/// [`Error::Disk`].
pub fn ends(bench: &mut Bench<'_>, rotation: f64, count: u64) -> Result<Ends, Error> {
    let mut late = Vec::new();
    for _ in 0..HALVES {
        let place = bench.somewhere(count);
        let last = bench.read(place + count - 1)?.end;
        let away = bench.somewhere(1);
        bench.read(away)?;
        let turn = ((bench.transfer(Op::Read, place, count)?.end - last) / rotation).rem_euclid(1.0);
        late.push(if turn > 1.0 - SURE { turn - 1.0 } else { turn });
    }
    let (low, usual, high) =
        (quantile(late.clone(), 0.25), median(late.clone()), quantile(late.clone(), 0.75));
    let elsewhere = late.iter().filter(|late| (*late - usual).abs() > SURE).count();
    Ok(if high - low < SURE && low > SLOW {
        Ends::Later(low * rotation / float(count - 1))
    } else if elsewhere > SHOWN {
        Ends::Anywhere
    } else {
        Ends::Platters
    })
}
