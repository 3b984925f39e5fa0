//! The time of a revolution.
//!
//! The same places are read twice, in two orders. Between the two reads of a place whole
//! revolutions pass, whatever else happened. So the revolution is the longest time of which all
//! these distances are multiples. Places lie far apart, and there are more of them than a drive
//! remembers; what it had in memory all the same took no time, and does not count.

use super::Error;
use super::bench::{Bench, float, median};
use rand::seq::SliceRandom;
use std::f64::consts::TAU;

/// Places that are read twice at first.
const PLACES: usize = 200;
/// How often their number is doubled, if the drive has most of them in memory.
const DOUBLED: u32 = 3;
/// Distances that show where it is worth to look at all of them.
const FEW: usize = 48;
/// Distances that must be known.
const LEAST: usize = 60;
/// The fastest and slowest rotation that is looked for, in revolutions a second.
const HERTZ: (f64, f64) = (20.0, 500.0);

/// Measures the time of a revolution in seconds. `ms` is that of a random read in milliseconds.
///
/// # Errors
/// [`Error::NoRotation`] if the reads follow none.
pub fn measure(bench: &mut Bench<'_>, ms: f64) -> Result<f64, Error> {
    for doubled in 0..=DOUBLED {
        let places: Vec<u64> = (0..PLACES << doubled).map(|_| bench.somewhere(1)).collect();
        let mut distances = between_reads(bench, &places)?;
        distances.truncate(PLACES);
        if distances.len() >= LEAST {
            return period(&distances).ok_or(Error::NoRotation(ms));
        }
    }
    Err(Error::NoRotation(ms))
}

/// Reads places twice. Returns the time between the ends of both reads of each place that the
/// platters served twice.
fn between_reads(bench: &mut Bench<'_>, places: &[u64]) -> Result<Vec<f64>, Error> {
    let first = places.iter().map(|place| bench.read(*place)).collect::<Result<Vec<_>, _>>()?;
    let usual = median(first.iter().map(|access| access.took()).collect());
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.shuffle(&mut bench.random);
    let mut distances = Vec::new();
    for index in order {
        let again = bench.read(places[index])?;
        if again.took() > usual / 8.0 {
            distances.push(again.end - first[index].end);
        }
    }
    Ok(distances)
}

/// Returns the longest period of which all these distances are multiples, within some noise; none
/// if there is none.
fn period(distances: &[f64]) -> Option<f64> {
    // 1 if all are multiples of 1/hertz, about 0 if they have nothing to do with it.
    let agreement_of = |distances: &[f64], hertz: f64| {
        distances.iter().map(|distance| (TAU * hertz * distance).cos()).sum::<f64>()
            / float(distances.len() as u64)
    };
    let agreement = |hertz: f64| agreement_of(distances, hertz);
    // Few are enough to see that nothing is here.
    let few = &distances[..distances.len().min(FEW)];

    // So far from 0 by chance comes none of the many that are tried.
    let sure = 5.0 / float(distances.len() as u64).sqrt();
    let longest = distances.iter().copied().fold(0.0, f64::max);
    let step = 1.0 / (16.0 * longest);
    let tried = |from: f64, to: f64, step: f64| {
        let count = ((to - from) / step).ceil().max(0.0);
        (0..super::bench::whole(count)).map(move |n| from + float(n) * step)
    };
    let slowest = tried(HERTZ.0, HERTZ.1, step)
        .find(|hertz| agreement_of(few, *hertz) > 0.2 && agreement(*hertz) > sure)?;
    let best = |from: f64, to: f64, step: f64| {
        tried(from, to, step).max_by(|a, b| agreement(*a).total_cmp(&agreement(*b)))
    };
    let coarse = best(slowest, slowest + 16.0 * step, step / 8.0)?;
    let fine = best(coarse - step / 8.0, coarse + step / 8.0, step / 1024.0)?;
    Some(1.0 / fine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    /// Promise: the period is found, and not a half or a double of it; distances without a period
    /// have none.
    #[test]
    fn periods_are_found() {
        let counts = (1..100_u32).map(|n| f64::from(n * n * 7919 % 601));
        for revolution in [0.004, 0.008_333, 0.016_667] {
            let found = period(&counts.clone().map(|count| count * revolution).collect::<Vec<_>>()).unwrap();
            assert!((found / revolution - 1.0).abs() < 1e-5, "{found}");
        }
        let mut random = SmallRng::seed_from_u64(1);
        let without = (0..100).map(|_| random.random_range(0.0..5.0));
        assert_eq!(period(&without.collect::<Vec<_>>()), None);
    }
}
