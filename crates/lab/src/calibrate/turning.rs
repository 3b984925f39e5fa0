//! The figures of a disk that turns, from reads alone.
//!
//! First the rotation, which explains all other times ([`rotation`](super::rotation)), then rates
//! in order across the disk, tracks by the phases of their sectors, and seeks. Distances in
//! cylinders need the number of heads, which shows only where changes of cylinder differ from those
//! of head; otherwise it is that of the like disk, and seeks are right for distances in sectors all
//! the same.

mod preset;

use super::bench::{Bench, float, median, whole};
use super::buffer::{self, Buffer, Ends};
use super::seeks::{Band, Layout, Way};
use super::tracks::{self, Pattern};
use super::zones::{InOrder, Zone};
use super::{Error, rotation};
use crate::Progress;
use spindle_device::Op;
use spindle_sim::disk::Spec;
use spindle_sim::preset as presets;

/// Bytes that must be there for rates and seeks to show, and how many seconds it must take to read
/// them.
const LEAST_BYTES: u64 = 128 << 20;
const LEAST_SECONDS: f64 = 10.0;
/// Places at which tracks are measured.
const PLACES: u64 = 5;
/// Rates by tracks that differ by less are those of one zone.
const SAME: f64 = 0.03;
/// From this many revolutions for a track on, one is lost now and then.
const LOST: f64 = 0.015;
/// How much skew must be longer than a movement, in seconds, so that no rounding makes it too
/// short.
const MARGIN: f64 = 2e-6;
/// Transfers at once by which it is seen whether the drive chooses among them, and how many times
/// as fast they must be.
const QUEUE: u32 = 32;
const CHOSEN: f64 = 1.4;
/// Runs of each kind: one has only some dozens of reads on an old disk.
const RUNS: usize = 2;
/// Steps of the progress.
const STEPS: u64 = 1000;

/// What was measured of a disk that turns. Times are in seconds.
#[derive(Clone, Debug)]
pub struct Turning {
    /// Of a revolution.
    pub rotation: f64,
    sector_bytes: u32,
    like: &'static str,
    layout: Layout,
    heads: Heads,
    /// Of each band of the layout: skews from track to track and from cylinder to cylinder.
    skews: Vec<(f64, f64)>,
    /// Sectors of the last cylinder that the disk does not have.
    beyond: u64,
    overhead: f64,
    head_switch: f64,
    /// By distance in cylinders.
    seeks: Vec<(u32, f64)>,
    /// A change of cylinder comes in time for the next sector in order.
    covered: bool,
    buffer: Option<Buffer>,
    ends: Ends,
    chooses: bool,
}

/// How the number of heads is known.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Heads {
    /// By the skew of cylinders, in revolutions.
    Skew(f64),
    /// By the revolutions that changes of cylinder lose.
    Lost,
    /// By the time that changes of cylinder take.
    Seeks,
    /// Not at all.
    Like,
}

/// Measures a disk that turns, on which a random read takes `ms` milliseconds.
///
/// # Errors
/// [`Error::Disk`], and [`Error::Small`] and [`Error::NoRotation`] for what is no such disk.
pub fn measure(bench: &mut Bench<'_>, ms: f64, progress: &dyn Progress) -> Result<Turning, Error> {
    let bytes = bench.sectors() * u64::from(bench.sector_bytes());
    if bytes < LEAST_BYTES {
        return Err(Error::Small { bytes, least: LEAST_BYTES });
    }
    progress.at(0, STEPS, "rotation");
    let rotation = rotation::measure(bench, ms)?;
    progress.at(50, STEPS, "memory of the drive");
    let buffer = buffer::measure(bench, rotation)?;
    let zones = InOrder::measure(bench, rotation)?
        .zones(bench, &mut |done, all| progress.at(120 + done * 400 / all, STEPS, "rates in order"))?;
    let outside = zones.first().map_or(0.0, |zone| zone.rate) * f64::from(bench.sector_bytes());
    let least =
        LEAST_BYTES.max(8 * buffer.map_or(0, |buffer| buffer.bytes())).max(whole(LEAST_SECONDS * outside));
    if bytes < least {
        return Err(Error::Small { bytes, least });
    }
    let like = match buffer {
        _ if outside > 20e6 => "nearline-20tb",
        Some(_) => "ibm-0661",
        None => "eagle",
    };
    let model = presets::disk(like)?;
    let like_heads = model.geometry.as_ref().map_or(1, |geometry| geometry.heads);
    progress.at(520, STEPS, "tracks");
    let half = zones.get(zones.len() / 2).map_or(1.0, |zone| zone.rate * rotation / 2.0);
    let ends = buffer::ends(bench, rotation, whole(half).max(2))?;
    let mut found = Found::measure(bench, rotation, zones, like_heads, matches!(ends, Ends::Later(_)))?;
    let together = physical_sectors(&model, bench.sector_bytes());
    if found.how == Heads::Like
        && buffer.is_none()
        && let Some(heads) = found.layout(bench.sectors(), together).0.heads_by_seeks(bench)?
    {
        (found.heads, found.how) = (heads, Heads::Seeks);
    }
    let (layout, beyond) = found.layout(bench.sectors(), together);
    let skews = found.skews(&layout);
    let mut turning = Turning {
        rotation,
        sector_bytes: bench.sector_bytes(),
        like,
        layout,
        heads: found.how,
        skews,
        beyond,
        overhead: 0.0,
        head_switch: 0.0,
        seeks: Vec::new(),
        covered: !found.slow_bus && found.how != Heads::Lost,
        buffer,
        ends,
        chooses: false,
    };
    turning.measure_seeks(bench, progress)?;
    progress.at(850, STEPS, "many reads at once");
    turning.chooses = chooses(bench)?;
    Ok(turning)
}

/// Returns how many sectors of this size lie in one on the platters of a like disk.
fn physical_sectors(like: &Spec, sector_bytes: u32) -> u32 {
    let physical = like.geometry.as_ref().and_then(|geometry| geometry.physical_sector_bytes);
    physical.map_or(1, |physical| (physical / sector_bytes).max(1))
}

/// Returns true if many random reads at once are faster than one after the other.
fn chooses(bench: &mut Bench<'_>) -> Result<bool, Error> {
    let count = bench.sectors_of(u64::from(super::SMALL));
    let mut rate = |depth: u32| {
        let mut sum = 0.0;
        for _ in 0..RUNS {
            let places: Vec<u64> = (0..2000).map(|_| bench.somewhere(count) / count * count).collect();
            sum += bench.run(Op::Read, count, depth, &places)?.rate();
        }
        Ok::<_, Error>(sum)
    };
    Ok(rate(QUEUE)? > CHOSEN * rate(1)?)
}

/// Returns the first of these whose number of heads another has, too.
fn seen_twice<T>(all: &[T], heads: impl Fn(&T) -> u32) -> Option<&T> {
    all.iter()
        .enumerate()
        .find_map(|(n, one)| all.iter().skip(n + 1).any(|other| heads(other) == heads(one)).then_some(one))
}

/// What tracks at several places have shown.
struct Found {
    rotation: f64,
    zones: Vec<Zone>,
    /// The bus is slower than the platters, so that rates in order say nothing about these.
    slow_bus: bool,
    /// From a track to the next in order, in revolutions beyond one.
    between: f64,
    /// By how many revolutions a track is turned against the one before.
    skew: f64,
    heads: u32,
    how: Heads,
}

impl Found {
    fn measure(
        bench: &mut Bench<'_>,
        rotation: f64,
        mut zones: Vec<Zone>,
        like_heads: u32,
        slow_bus: bool,
    ) -> Result<Self, Error> {
        let slice = bench.sectors() / PLACES;
        let rate_at = |place| zones.iter().rfind(|zone| zone.start <= place).map_or(1.0, |zone| zone.rate);
        let (mut sectors, mut between, mut mean) = (Vec::new(), Vec::new(), Vec::new());
        let (mut usual, mut patterns, mut by_tracks): (_, Vec<Pattern>, _) =
            (Vec::new(), Vec::new(), Vec::new());
        for n in 0..PLACES {
            let place = n * slice + slice / 2;
            let rate = rate_at(place);
            let tracks = tracks::measure(bench, place, rotation, rate * rotation)?;
            let skew = tracks.mean_skew();
            sectors.push(tracks.sectors);
            between.push(tracks.sectors / rate / rotation - 1.0);
            usual.push(median(tracks.skews.clone()));
            mean.push(skew);
            patterns.extend(tracks::pattern(&tracks.skews));
            let rate = tracks.sectors / rotation / (1.0 + skew);
            by_tracks.push(Zone { start: n * slice, rate });
        }
        if slow_bus {
            between.clone_from(&mean);
            by_tracks.dedup_by(|zone, before| (zone.rate / before.rate - 1.0).abs() < SAME);
            zones = by_tracks;
        }
        let lost = median(between.iter().zip(&mean).map(|(between, skew)| between - skew).collect());
        let (heads, how) = if lost > LOST {
            let mut seen = Vec::new();
            for (n, sectors) in sectors.into_iter().enumerate() {
                seen.extend(tracks::lost_between(bench, n as u64 * slice, rotation, sectors)?);
            }
            let by_rate = u32::try_from(whole(1.0 / lost)).unwrap_or(1).max(1);
            (seen_twice(&seen, |heads| *heads).copied().unwrap_or(by_rate), Heads::Lost)
        } else {
            match seen_twice(&patterns, |pattern| pattern.heads) {
                Some(pattern) => (pattern.heads, Heads::Skew(pattern.cylinder_skew)),
                None => (like_heads, Heads::Like),
            }
        };
        let (between, skew) = (median(between), median(usual).max(0.0));
        Ok(Self { rotation, zones, slow_bus, between, skew, heads, how })
    }

    /// Returns where sectors are on a disk of so many with these zones, and how many sectors its
    /// last cylinder has too many.
    fn layout(&self, sectors: u64, together: u32) -> (Layout, u64) {
        let mut bands: Vec<Band> = Vec::new();
        let (mut start, mut cylinder) = (0, 0);
        for (n, zone) in self.zones.iter().enumerate() {
            let per_track = zone.rate * self.rotation * (1.0 + self.between);
            let per_track = super::zones::multiple(per_track, together);
            let per_cylinder = u64::from(per_track) * u64::from(self.heads);
            let count = match self.zones.get(n + 1) {
                Some(next) => whole(float(next.start.saturating_sub(start)) / float(per_cylinder)),
                None => sectors.saturating_sub(start).div_ceil(per_cylinder),
            };
            let cylinders = u32::try_from(count.max(1)).unwrap_or(u32::MAX);
            bands.push(Band { start, cylinder, cylinders, per_track });
            start += u64::from(cylinders) * per_cylinder;
            cylinder += cylinders;
        }
        let layout = Layout { rotation: self.rotation, heads: self.heads, bands };
        (layout, start.saturating_sub(sectors))
    }

    /// Returns the skews of each band, in seconds, with which it has the rate of its zone.
    fn skews(&self, layout: &Layout) -> Vec<(f64, f64)> {
        let of = |(band, zone): (&Band, &Zone)| {
            let between = (f64::from(band.per_track) / zone.rate - self.rotation).max(0.0);
            let heads = f64::from(self.heads);
            match self.how {
                Heads::Lost => (self.skew * self.rotation, self.skew * self.rotation),
                Heads::Skew(skew) => {
                    let cylinder = skew * self.rotation;
                    (((heads * between - cylinder) / (heads - 1.0)).max(0.0), cylinder)
                }
                Heads::Seeks | Heads::Like => (between, between),
            }
        };
        layout.bands.iter().zip(&self.zones).map(of).collect()
    }
}

impl Turning {
    /// Returns the seconds of a sector in the middle of the disk.
    fn sector(&self) -> f64 {
        let bands = self.layout.bands.iter();
        let of_a_head = bands.map(|band| f64::from(band.cylinders) * f64::from(band.per_track)).sum::<f64>();
        self.rotation * f64::from(self.layout.cylinders()) / of_a_head
    }

    /// Returns the bytes in a second on the bus, if they show.
    fn bus(&self) -> Option<f64> {
        let bytes = f64::from(self.sector_bytes);
        match self.ends {
            Ends::Later(seconds) => Some(bytes / (self.sector() + seconds)),
            _ => self.buffer.and_then(|buffer| buffer.bus),
        }
    }

    /// Measures overhead, change of head, and seeks.
    fn measure_seeks(&mut self, bench: &mut Bench<'_>, progress: &dyn Progress) -> Result<(), Error> {
        let shortest = |of: fn(&(f64, f64)) -> f64| self.skews.iter().map(of).fold(f64::MAX, f64::min);
        let track_skew = (shortest(|skews| skews.0) - MARGIN).max(0.0);
        let cylinder_skew = (shortest(|skews| skews.1) - MARGIN).max(0.0);
        let last = self.sector() + self.bus().map_or(0.0, |bus| f64::from(self.sector_bytes) / bus);
        let changed = self.layout.reach(bench, Way::OtherTrack)? - last;
        // Skew is made to cover a change of head, and not much more.
        self.overhead = match self.buffer {
            Some(buffer) => buffer.overhead.max(changed - track_skew),
            None => self.layout.reach(bench, Way::SameTrack)? - last,
        }
        .max(0.0);
        self.head_switch = (changed - self.overhead).clamp(0.0, track_skew);
        let distances = self.layout.distances();
        let mut shorter = self.head_switch;
        for (n, distance) in distances.iter().enumerate() {
            progress.at(560 + n as u64 * 290 / distances.len() as u64, STEPS, "seeks");
            let mut time =
                (self.layout.reach(bench, Way::Cylinders(*distance))? - last - self.overhead).max(shorter);
            if n == 0 && self.covered {
                time = time.min(cylinder_skew);
            }
            self.seeks.push((*distance, time));
            shorter = time;
        }
        Ok(())
    }
}
