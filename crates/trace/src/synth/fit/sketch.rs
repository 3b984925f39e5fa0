//! Distributions that are being measured, thousands at a time.
//!
//! The one idea: a [`Sketch`] holds only the buckets that occur, eight to a doubling, each with its
//! count and its sum. What it becomes, a few values with weights, keeps the mean exactly, so that a
//! model moves as many bytes as the trace that it was fitted to.

use super::super::spread::Spread;

/// Buckets to a doubling, as a power of two; values below have buckets of their own.
const FINE: u32 = 3;

/// Counts and sums of values, by bucket from small to large.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sketch {
    buckets: Vec<(u16, u64, f64)>,
}

/// Values of about the same size.
#[derive(Clone, Copy, Debug)]
struct Lump {
    count: f64,
    sum: f64,
}

impl Lump {
    fn mean(self) -> f64 {
        self.sum / self.count
    }

    const fn and(self, other: Self) -> Self {
        Self { count: self.count + other.count, sum: self.sum + other.sum }
    }
}

fn bucket(value: u64) -> u16 {
    let shift = value.checked_ilog2().unwrap_or(0).saturating_sub(FINE);
    u16::try_from((value >> shift) + (u64::from(shift) << FINE)).unwrap_or(u16::MAX)
}

#[allow(clippy::cast_precision_loss)] // Sums and counts need not be exact to the last digit.
impl Sketch {
    /// Takes a value.
    pub fn add(&mut self, value: u64) {
        self.add_times(value, 1);
    }

    /// Takes a value so many times.
    pub fn add_times(&mut self, value: u64, times: u64) {
        self.put(bucket(value), times, value as f64 * times as f64);
    }

    /// Takes all values of another.
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

    /// Returns how many values there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.1).sum()
    }

    /// Returns the mean of the values; 0 if there are none.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.buckets.iter().map(|bucket| bucket.2).sum();
        sum / self.count().max(1) as f64
    }

    /// At most `points` values with weights, in parts of `unit`; nothing if there are no values.
    /// Neighbours become one where that moves the least of what is counted and of what is summed.
    pub fn spread(&self, points: usize, unit: f64) -> Option<Spread> {
        let mut lumps: Vec<Lump> =
            self.buckets.iter().map(|&(_, count, sum)| Lump { count: count as f64, sum }).collect();
        let all = lumps.iter().copied().reduce(Lump::and)?;
        let weight = |lump: Lump| lump.count / all.count + lump.sum / all.sum.max(1.0);
        let cost = |pair: &[Lump]| {
            let [a, b] = [weight(pair[0]), weight(pair[1])];
            let distance = (pair[1].mean() + 1.0).ln() - (pair[0].mean() + 1.0).ln();
            a * b / (a + b) * distance * distance
        };
        while lumps.len() > points.max(1) {
            let costs = lumps.windows(2).map(cost).enumerate();
            let Some((at, _)) = costs.min_by(|a, b| a.1.total_cmp(&b.1)) else { break };
            lumps[at] = lumps[at].and(lumps[at + 1]);
            lumps.remove(at + 1);
        }
        if let [one] = lumps[..] {
            return Some(Spread::Fixed(short(one.mean() / unit)));
        }
        Some(Spread::Values(lumps.iter().map(|lump| (short(lump.mean() / unit), lump.count)).collect()))
    }
}

/// Returns a number to six digits, as a file shows it.
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

    /// Promise: however few values are left of many, their mean is that of the many; few values are
    /// told exactly.
    #[test]
    fn means_stay() {
        let mut sketch = Sketch::default();
        for n in 0..1000_u64 {
            sketch.add(n * n * n);
        }
        for points in [1, 2, 5, 12, 100] {
            let spread = sketch.spread(points, 1.0).unwrap();
            let mean = match &spread {
                Spread::Values(values) => {
                    assert!(values.len() <= points);
                    let weights: f64 = values.iter().map(|value| value.1).sum();
                    values.iter().map(|value| value.0 * value.1).sum::<f64>() / weights
                }
                Spread::Fixed(value) => *value,
                other => panic!("{other:?}"),
            };
            assert!((mean / sketch.mean() - 1.0).abs() < 1e-5, "{points}: {spread:?}");
        }
        let mut few = Sketch::default();
        few.add_times(3, 2);
        few.add(4096);
        assert_eq!(few.spread(12, 1.0), Some(Spread::Values(vec![(3.0, 2.0), (4096.0, 1.0)])));
        assert_eq!(Sketch::default().spread(12, 1.0), None);
    }
}
