//! Distributions while they are measured; there are thousands of them at a time.
//!
//! The one idea: a [`Sketch`] holds only the buckets that occur, eight per doubling, each with its
//! count and sum. It is reduced to a few values with weights that keep the mean exactly, so a model
//! transfers as many bytes as the trace that it was fitted to.

use super::super::distribution::Distribution;

/// Number of buckets per doubling, as a power of two; smaller values have buckets of their own.
const BUCKETS_LOG2: u32 = 3;

/// Counts and sums of values, by bucket, in ascending order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sketch {
    buckets: Vec<(u16, u64, f64)>,
}

/// A bin: values of similar size.
#[derive(Clone, Copy, Debug)]
struct Bin {
    count: f64,
    sum: f64,
}

impl Bin {
    fn mean(self) -> f64 {
        self.sum / self.count
    }

    const fn and(self, other: Self) -> Self {
        Self { count: self.count + other.count, sum: self.sum + other.sum }
    }
}

fn bucket(value: u64) -> u16 {
    let shift = value.checked_ilog2().unwrap_or(0).saturating_sub(BUCKETS_LOG2);
    u16::try_from((value >> shift) + (u64::from(shift) << BUCKETS_LOG2)).unwrap_or(u16::MAX)
}

#[allow(clippy::cast_precision_loss)] // Sums and counts need not be exact to the last digit.
impl Sketch {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.add_times(value, 1);
    }

    /// Adds a value `times` times.
    pub fn add_times(&mut self, value: u64, times: u64) {
        self.put(bucket(value), times, value as f64 * times as f64);
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        for &(bucket, count, sum) in &other.buckets {
            self.put(bucket, count, sum);
        }
    }

    fn put(&mut self, bucket: u16, count: u64, sum: f64) {
        match self.buckets.binary_search_by_key(&bucket, |known| known.0) {
            Ok(at) => {
                self.buckets[at].1 += count;
                self.buckets[at].2 += sum;
            }
            Err(at) => self.buckets.insert(at, (bucket, count, sum)),
        }
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.1).sum()
    }

    /// Returns the mean of the values, or 0 if there are none.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.buckets.iter().map(|bucket| bucket.2).sum();
        sum / self.count().max(1) as f64
    }

    /// Reduces the sketch to at most `points` values with weights, in multiples of `unit`; returns
    /// `None` if there are no values. Merges the pair of neighbours that changes counts and sums
    /// the least.
    pub fn reduce(&self, points: usize, unit: f64) -> Option<Distribution> {
        let mut bins: Vec<Bin> =
            self.buckets.iter().map(|&(_, count, sum)| Bin { count: count as f64, sum }).collect();
        let all = bins.iter().copied().reduce(Bin::and)?;
        let weight = |bin: Bin| bin.count / all.count + bin.sum / all.sum.max(1.0);
        let cost = |pair: &[Bin]| {
            let [a, b] = [weight(pair[0]), weight(pair[1])];
            let distance = (pair[1].mean() + 1.0).ln() - (pair[0].mean() + 1.0).ln();
            a * b / (a + b) * distance * distance
        };
        while bins.len() > points.max(1) {
            let costs = bins.windows(2).map(cost).enumerate();
            let Some((at, _)) = costs.min_by(|a, b| a.1.total_cmp(&b.1)) else { break };
            bins[at] = bins[at].and(bins[at + 1]);
            bins.remove(at + 1);
        }
        if let [one] = bins[..] {
            return Some(Distribution::Fixed(short(one.mean() / unit)));
        }
        Some(Distribution::Values(bins.iter().map(|bin| (short(bin.mean() / unit), bin.count)).collect()))
    }
}

/// Rounds a number to six digits.
pub fn short(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let digits = 10_f64.powf(5.0 - value.abs().log10().floor());
    let rounded = (value * digits).round() / digits;
    if rounded.is_finite() { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: reducing many values to a few keeps their mean; few values are kept exactly.
    #[test]
    fn reduction_keeps_the_mean() {
        let mut sketch = Sketch::default();
        for n in 0..1000_u64 {
            sketch.add(n * n * n);
        }
        for points in [1, 2, 5, 12, 100] {
            let distribution = sketch.reduce(points, 1.0).unwrap();
            let mean = match &distribution {
                Distribution::Values(values) => {
                    assert!(values.len() <= points);
                    let weights: f64 = values.iter().map(|value| value.1).sum();
                    values.iter().map(|value| value.0 * value.1).sum::<f64>() / weights
                }
                Distribution::Fixed(value) => *value,
                other => panic!("{other:?}"),
            };
            assert!((mean / sketch.mean() - 1.0).abs() < 1e-5, "{points}: {distribution:?}");
        }
        let mut few = Sketch::default();
        few.add_times(3, 2);
        few.add(4096);
        assert_eq!(few.reduce(12, 1.0), Some(Distribution::Values(vec![(3.0, 2.0), (4096.0, 1.0)])));
        assert_eq!(Sketch::default().reduce(12, 1.0), None);
    }
}
