//! Rates in order across the disk, and where they change.

use super::Error;
use super::bench::{Bench, float, median, whole};
use rand::Rng;
use spindle_device::Op;

/// Places at which the rate is measured.
const PLACES: u64 = 32;
/// Parts of a place.
const PARTS: usize = 4;
/// After so many seconds at a place, no further part is begun: a disk is so slow that a part is
/// many tracks.
const LONG: f64 = 1.5;
/// Revolutions of a part.
const TURNS: f64 = 8.0;
/// A part of which a read takes so many times the median, or less than that part of it, does not
/// count: something made the host late, and the drive may have read on meanwhile.
const DISTURBED: f64 = 1.7;
/// Parts that are begun at most.
const BEGUN: usize = 3 * PARTS;
/// The largest transfer in bytes.
const LARGE: u64 = 1 << 20;
/// Rates that differ by less are those of one zone; where revolutions are lost now and then, by
/// more.
const SAME: f64 = 0.006;
const SAME_WITH_LOSSES: f64 = 0.06;
/// How often the stretch in which the rate changes is halved.
const HALVED: u32 = 5;

/// A zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zone {
    /// Its first sector.
    pub start: u64,
    /// Sectors in a second, in order.
    pub rate: f64,
}

/// What reads in order do between two of them.
#[derive(Clone, Copy, Debug)]
pub struct InOrder {
    /// Seconds of a revolution.
    pub rotation: f64,
    /// The drive reads on, or takes the next command in time; otherwise each read waits for a
    /// revolution.
    pub goes_on: bool,
}

/// The rates at a place, of parts of it, in rising order.
#[derive(Clone, Debug)]
struct Rates {
    place: u64,
    rates: Vec<f64>,
}

impl Rates {
    /// Returns the least and the highest, without the one that something may have disturbed.
    fn range(&self) -> (f64, f64) {
        let at = |n: usize| self.rates.get(n).copied().unwrap_or(0.0);
        let last = self.rates.len().saturating_sub(1);
        (at(last.min(1)), at(last))
    }

    fn is_like(&self, other: &Self, same: f64) -> bool {
        let ((low, high), (other_low, other_high)) = (self.range(), other.range());
        low <= other_high * (1.0 + same) && other_low <= high * (1.0 + same)
    }
}

impl InOrder {
    /// Measures how small reads follow each other.
    pub fn measure(bench: &mut Bench<'_>, rotation: f64) -> Result<Self, Error> {
        let count = bench.sectors_of(u64::from(super::SMALL));
        let start = bench.somewhere(64 * count);
        let places: Vec<u64> = (0..64).map(|n| start + n * count).collect();
        let each = bench.run(Op::Read, count, 1, &places)?.each;
        let goes_on = median(each.iter().map(|time| time.as_secs_f64()).collect()) < rotation / 2.0;
        Ok(Self { rotation, goes_on })
    }

    const fn same(self) -> f64 {
        if self.goes_on { SAME } else { SAME_WITH_LOSSES }
    }

    /// Returns the sectors in a second from `place` on, in each part of some revolutions.
    fn rates(self, bench: &mut Bench<'_>, place: u64) -> Result<Rates, Error> {
        let lost = if self.goes_on { 0.0 } else { self.rotation };
        let large = bench.sectors_of(LARGE);
        // Reads that always ended where a cylinder ends would hide what that costs.
        let aside = bench.random.random_range(0..large);
        let room = large * if self.goes_on { 24 } else { 6 };
        let place = (place + aside).min(bench.sectors().saturating_sub(room));
        let mut at = place + large;
        let mut last = bench.transfer(Op::Read, place, large)?.end;
        let (mut rates, mut uneven) = (Vec::new(), Vec::new());
        let (first, end) = (last, bench.sectors());
        for _ in 0..BEGUN {
            if rates.len() == PARTS || last - first > LONG || at + large > end {
                break;
            }
            let (begin, mut took) = (last, Vec::new());
            while last - begin - lost * float(took.len() as u64) < TURNS * self.rotation && at + large <= end
            {
                let before = last;
                last = bench.transfer(Op::Read, at, large)?.end;
                took.push(last - before - lost);
                at += large;
            }
            let usual = median(took.clone());
            let even = took.iter().all(|took| (usual / DISTURBED..usual * DISTURBED).contains(took));
            let of = if even { &mut rates } else { &mut uneven };
            of.push(float(large * took.len() as u64) / took.iter().sum::<f64>());
        }
        if rates.is_empty() {
            rates = uneven;
        }
        rates.sort_by(f64::total_cmp);
        Ok(Rates { place, rates })
    }

    /// Measures the zones.
    ///
    /// # Errors
    /// [`Error::Disk`].
    pub fn zones(self, bench: &mut Bench<'_>, at: &mut dyn FnMut(u64, u64)) -> Result<Vec<Zone>, Error> {
        let slice = bench.sectors() / PLACES;
        let mut measured = Vec::new();
        for n in 0..PLACES {
            at(n, 2 * PLACES);
            measured.push(self.rates(bench, n * slice + slice / 2)?);
        }
        let mut zones = Vec::new();
        let (mut start, mut of) = (0, Vec::new());
        for (n, pair) in measured.windows(2).enumerate() {
            let [low, high] = pair else { continue };
            of.extend(&low.rates);
            if !low.is_like(high, self.same()) {
                at(PLACES + n as u64, 2 * PLACES);
                zones.push(Zone { start, rate: usual(&of) });
                start = self.change(bench, low.clone(), high.clone())?;
                of.clear();
            }
        }
        of.extend(measured.last().map_or(&[][..], |last| &last.rates));
        zones.push(Zone { start, rate: usual(&of) });
        Ok(zones)
    }

    /// Returns about the sector at which the rate changes.
    fn change(self, bench: &mut Bench<'_>, mut low: Rates, mut high: Rates) -> Result<u64, Error> {
        for _ in 0..HALVED {
            let middle = self.rates(bench, low.place.midpoint(high.place))?;
            if middle.is_like(&low, self.same()) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low.place.midpoint(high.place))
    }
}

/// Returns the rate of parts of a zone together, without those that something disturbed, and as
/// many on the other side.
fn usual(rates: &[f64]) -> f64 {
    let least = median(rates.to_vec()) / 1.25;
    let mut times: Vec<f64> = rates.iter().filter(|rate| **rate > least).map(|rate| 1.0 / rate).collect();
    times.sort_by(f64::total_cmp);
    let cut = if times.len() < 4 { 0 } else { times.len().div_ceil(32) };
    let kept = times.get(cut..times.len() - cut).unwrap_or_default();
    float(kept.len() as u64) / kept.iter().sum::<f64>()
}

/// Returns sectors as a multiple of `together`, at least one.
pub fn multiple(sectors: f64, together: u32) -> u32 {
    let count = whole(sectors / f64::from(together)).max(1);
    u32::try_from(count).unwrap_or(1) * together
}
