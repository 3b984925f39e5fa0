//! How many sectors a track has, and how far tracks are turned against each other.
//!
//! Along a track the phase of sectors rises evenly, by a revolution for all of them; from a track
//! to the next it jumps by the skew. Reads go from high places to low ones, because drives read on
//! behind what they were asked for.

use super::Error;
use super::bench::{Bench, float, mean_without, median, quantile, whole};
use rand::Rng;
use spindle_device::Op;

/// Samples of the phase along a track, and how many tracks they go over.
const SAMPLES: u64 = 16;
const OVER: u64 = 3;
/// Tracks whose skew is measured.
const TRACKS: u64 = 100;
/// A jump that is longer by this part of a revolution is one to another cylinder.
const LONGER: f64 = 0.04;
/// So many jumps on each side may be wrong.
const EXTREME: usize = 4;
/// The most heads whose jumps are recognised.
const MOST_HEADS: usize = 33;

/// Tracks around a place.
#[derive(Clone, Debug)]
pub struct Tracks {
    /// Sectors of a track.
    pub sectors: f64,
    /// From each track to the next, by how many revolutions it is turned.
    pub skews: Vec<f64>,
}

/// Measures the tracks behind `place`. `rotation` is the time of a revolution in seconds, and
/// `per_turn` at most the sectors of a track, and not much less.
///
/// # Errors
/// [`Error::Disk`].
pub fn measure(bench: &mut Bench<'_>, place: u64, rotation: f64, per_turn: f64) -> Result<Tracks, Error> {
    let sectors = along(bench, place, rotation, per_turn)?.round();
    let mut skews = Vec::new();
    let mut later: Option<f64> = None;
    for track in (0..TRACKS).rev() {
        let end = bench.read(place + whole(float(track) * sectors))?.end;
        if let Some(later) = later {
            let turn = (later - end) / rotation;
            // Noise may let a skew of none look as one of almost a revolution.
            let skew = turn.rem_euclid(1.0);
            skews.push(if skew > 0.9 { skew - 1.0 } else { skew });
        }
        later = Some(end);
    }
    skews.reverse();
    Ok(Tracks { sectors, skews })
}

/// Returns how many tracks a cylinder has, by reads of a track each that follow each other: those
/// that go on to another cylinder take a revolution more. None if that is not regular.
///
/// # Errors
/// [`Error::Disk`].
pub fn lost_between(
    bench: &mut Bench<'_>,
    place: u64,
    rotation: f64,
    sectors: f64,
) -> Result<Option<u32>, Error> {
    let count = whole(sectors);
    // Reads that end where a cylinder ends would not show what that costs.
    let place = place + bench.random.random_range(1..count.max(2));
    let mut turns = Vec::new();
    for track in 0..TRACKS {
        turns.push(bench.transfer(Op::Read, place + track * count, count)?.took() / rotation);
    }
    Ok(pattern(&turns).map(|pattern| pattern.heads))
}

/// Measures the sectors of a track by the phases along some of them.
fn along(bench: &mut Bench<'_>, place: u64, rotation: f64, per_turn: f64) -> Result<f64, Error> {
    let step = whole(per_turn / float(SAMPLES)).max(1);
    let per_half = (whole(per_turn / 2.0) / step).max(1);
    let count = (OVER * whole(per_turn) / step).max(per_half + 1);
    let mut ends = Vec::new();
    for sample in (0..count).rev() {
        ends.push(bench.read(place + sample * step)?.end);
    }
    ends.reverse();
    let far = usize::try_from(per_half).unwrap_or(1);
    let turned = ends.iter().zip(ends.iter().skip(far));
    let turned = turned.map(|(low, high)| ((high - low) / rotation).rem_euclid(1.0)).collect();
    // Half of the pairs have the edge of a track between them, whose skew makes them longer.
    Ok(float(per_half * step) / quantile(turned, 0.25))
}

/// How tracks of a cylinder and cylinders follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pattern {
    /// Tracks of a cylinder.
    pub heads: u32,
    /// By how many revolutions the first track of a cylinder is turned against the last one of the
    /// cylinder before.
    pub cylinder_skew: f64,
}

/// Returns what regular longer jumps say about cylinders; none if there are no regular ones.
pub fn pattern(skews: &[f64]) -> Option<Pattern> {
    let usual = median(skews.to_vec());
    let long: Vec<bool> = skews.iter().map(|skew| *skew > usual + LONGER).collect();
    let agrees = |heads: usize, first: usize| {
        let count = |regular: bool, is_long: bool| {
            let is = |(n, long): &(usize, &bool)| (n % heads == first) == regular && **long == is_long;
            long.iter().enumerate().filter(is).count()
        };
        // One disturbed read makes two jumps wrong.
        count(true, true) >= 3 && count(true, false) <= 1 && count(false, true) <= 2
    };
    let heads = (2..=MOST_HEADS).find(|heads| (0..*heads).any(|first| agrees(*heads, first)))?;
    let longer = skews.iter().zip(&long).filter(|(_, long)| **long).map(|(skew, _)| *skew);
    Some(Pattern { heads: u32::try_from(heads).ok()?, cylinder_skew: median(longer.collect()) })
}

impl Tracks {
    /// Returns the mean skew. A disturbed read makes two jumps wrong, by a revolution together, so
    /// the most extreme do not count unless they are regular.
    pub fn mean_skew(&self) -> f64 {
        if let Some(Pattern { heads, cylinder_skew }) = pattern(&self.skews) {
            let heads = f64::from(heads);
            return (median(self.skews.clone()) * (heads - 1.0) + cylinder_skew) / heads;
        }
        let mut skews = self.skews.clone();
        skews.sort_by(f64::total_cmp);
        let kept = skews.get(EXTREME..skews.len() - EXTREME).unwrap_or_default().to_vec();
        mean_without(kept, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: cylinders are recognised by their jumps, with a disturbed read among them; equal
    /// jumps and jumps at random are not.
    #[test]
    fn cylinders_are_recognised() {
        let skews = |heads: u32| (0..79).map(move |n| if n % heads == 1 { 0.23 } else { 0.06 });
        for heads in [2, 3, 14, 20] {
            let mut skews: Vec<_> = skews(heads).collect();
            (skews[40], skews[41]) = (0.8, -0.1);
            assert_eq!(pattern(&skews), Some(Pattern { heads, cylinder_skew: 0.23 }));
        }
        assert_eq!(pattern(&skews(100).map(|_| 0.06).collect::<Vec<_>>()), None);
        let disturbed = (0..79).map(|n| if [20, 21, 48, 49].contains(&n) { 0.4 } else { 0.06 });
        assert_eq!(pattern(&disturbed.collect::<Vec<_>>()), None);
        let golden = (0..79_u32).map(|n| (f64::from(n) * 0.618).fract() * 0.3);
        assert_eq!(pattern(&golden.collect::<Vec<_>>()), None);
    }
}
