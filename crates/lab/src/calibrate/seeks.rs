//! How long the heads take from one place to another.
//!
//! A read that begins when another ends takes the overhead, the seek, and then until its sector
//! comes round, which is anything below a revolution. So it shows that the heads arrive not later
//! than it took, and later than a revolution before. The next read is aimed at the middle between
//! what is known, until both are near each other: the search for the minimum time between request
//! completions of Worthington and others (1995), and without knowing where tracks begin.

use super::Error;
use super::bench::{Bench, float};
use super::tracks;
use rand::Rng;

/// Most attempts for a distance.
const ATTEMPTS: usize = 24;
/// As near as this part of a revolution, the bounds are near enough.
const NEAR: f64 = 1.0 / 200.0;
/// Changes of track by which heads are counted, and by which part of a revolution more than they
/// take those are aimed that stay in a cylinder.
const CHANGES: usize = 100;
const LATER: f64 = 1.0 / 16.0;
/// How often that is tried: something may disturb it.
const TRIES: usize = 3;
/// Distances from one of these parts of the disk on are measured in even steps.
const EVEN: u32 = 8;

/// A band of cylinders in which all tracks have as many sectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// Its first sector.
    pub start: u64,
    /// Its first cylinder.
    pub cylinder: u32,
    /// How many cylinders it has.
    pub cylinders: u32,
    /// Sectors of its tracks.
    pub per_track: u32,
}

/// Where sectors are, and how fast they turn.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Seconds of a revolution.
    pub rotation: f64,
    /// Tracks of a cylinder.
    pub heads: u32,
    /// From the outside inwards.
    pub bands: Vec<Band>,
}

impl Layout {
    /// Returns the cylinders of the disk.
    pub fn cylinders(&self) -> u32 {
        self.bands.last().map_or(0, |band| band.cylinder + band.cylinders)
    }

    /// Returns the first sector of a cylinder and the sectors of its tracks.
    fn cylinder(&self, cylinder: u32) -> (u64, u64) {
        let found = self.bands.iter().rfind(|band| band.cylinder <= cylinder);
        found.map_or((0, 1), |band| {
            let per_track = u64::from(band.per_track);
            let before = u64::from(cylinder - band.cylinder) * u64::from(self.heads) * per_track;
            (band.start + before, per_track)
        })
    }

    /// Returns the distances in cylinders at which seeks are measured: each twice the one before,
    /// and then in even steps.
    pub fn distances(&self) -> Vec<u32> {
        let most = (self.cylinders() / 64 * 63).max(2);
        let doubled = (0..32).map(|power| 1 << power).take_while(|distance| distance * EVEN < most);
        let even = (1..=EVEN).map(|part| u32::try_from(u64::from(most) * u64::from(part) / u64::from(EVEN)));
        let mut distances: Vec<u32> =
            doubled.chain(even.flatten()).filter(|distance| *distance > 0).collect();
        distances.dedup();
        distances
    }

    /// Measures how long the heads take on `way`: from the command to the end of the first sector
    /// that they can reach, in seconds.
    ///
    /// # Errors
    /// [`Error::Disk`].
    pub fn reach(&self, bench: &mut Bench<'_>, way: Way) -> Result<f64, Error> {
        let mut reach = Reach { rotation: self.rotation, took: Vec::new() };
        for _ in 0..ATTEMPTS {
            let aim = reach.aim(bench.random.random_range(0.0..1.0));
            reach.took.push(self.attempt(bench, way, aim)?);
            let (low, high) = reach.bounds();
            if high - low < NEAR * self.rotation {
                break;
            }
        }
        let (low, high) = reach.bounds();
        Ok(f64::midpoint(low, high))
    }

    /// Returns how many tracks a cylinder has, by changes of track: those that go on to another
    /// cylinder come too late for a sector that others reach. None if that is not regular. The
    /// drive must not read on by itself.
    ///
    /// # Errors
    /// [`Error::Disk`].
    pub fn heads_by_seeks(&self, bench: &mut Bench<'_>) -> Result<Option<u32>, Error> {
        let aim = self.reach(bench, Way::OtherTrack)? + self.rotation * LATER;
        let (_, per_track) = self.cylinder(0);
        for _ in 0..TRIES {
            let mut place = bench.somewhere(bench.sectors() / 2);
            let mut turns = Vec::new();
            for _ in 0..CHANGES {
                let left = place;
                place += per_track;
                turns.push(self.aimed(bench, Some(left), place, per_track, aim)? / self.rotation);
            }
            if let Some(pattern) = tracks::pattern(&turns) {
                return Ok(Some(pattern.heads));
            }
        }
        Ok(None)
    }

    /// Reads on `way`, from somewhere, so that the read takes about `aim` if the heads come in
    /// time. Returns how long it took.
    fn attempt(&self, bench: &mut Bench<'_>, way: Way, aim: f64) -> Result<f64, Error> {
        let distance = if let Way::Cylinders(distance) = way { distance } else { 0 };
        let first = bench.random.random_range(0..self.cylinders().saturating_sub(distance).max(1));
        let other = first + distance;
        let (from, to) = if bench.random.random() { (first, other) } else { (other, first) };
        let ((from, from_track), (to, to_track)) = (self.cylinder(from), self.cylinder(to));
        let to = to + bench.random.random_range(0..to_track);
        let left = match way {
            Way::SameTrack => None,
            Way::OtherTrack => Some(to + to_track),
            Way::Cylinders(_) => {
                // The drive must not come to the next cylinder when it reads on.
                let tracks = u64::from(self.heads).saturating_sub(2).max(1);
                Some(from + bench.random.random_range(0..tracks * from_track))
            }
        };
        self.aimed(bench, left, to, to_track, aim)
    }

    /// Reads `to`, whose track has `per_track` sectors, behind `left` if that is another place, so
    /// that it takes about `aim` if the heads come in time. Returns how long it took.
    fn aimed(
        &self,
        bench: &mut Bench<'_>,
        left: Option<u64>,
        to: u64,
        per_track: u64,
        aim: f64,
    ) -> Result<f64, Error> {
        // The phase is seen just behind, and nearly always on the same track.
        let behind = (per_track / 64).clamp(1, 16);
        let seen = bench.read(to + behind)?.end;
        let begin = match left {
            Some(left) => bench.read(left)?.end,
            None => seen,
        };
        let comes = seen - float(behind) / float(per_track) * self.rotation;
        bench.pause((comes - aim - begin).rem_euclid(self.rotation));
        Ok(bench.read(to)?.took())
    }
}

/// What the heads do between two reads.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// They stay on the track; only shown by a drive that remembers nothing and does not read on.
    SameTrack,
    /// To another track of the cylinder.
    OtherTrack,
    /// Over so many cylinders, at least one.
    Cylinders(u32),
}

/// What reads over a distance have shown.
struct Reach {
    rotation: f64,
    took: Vec<f64>,
}

impl Reach {
    /// Returns bounds of the time to reach the first sector. One read may have been disturbed, and
    /// so does not suffice for the lower one.
    fn bounds(&self) -> (f64, f64) {
        let high = self.took.iter().copied().fold(f64::MAX, f64::min);
        let lows = self.took.iter().map(|took| took - self.rotation).filter(|low| *low < high);
        let mut lows: Vec<f64> = lows.collect();
        lows.sort_by(f64::total_cmp);
        let low = lows.iter().rev().nth(1).copied().unwrap_or(0.0);
        (low.clamp(0.0, high), high)
    }

    /// Returns how long the next read should take; `random`, from 0 to 1, chooses among times of
    /// which nothing is known.
    fn aim(&self, random: f64) -> f64 {
        let (low, high) = self.bounds();
        if self.took.is_empty() {
            random * self.rotation
        } else {
            f64::midpoint(low.max(high - self.rotation), high)
        }
    }
}
