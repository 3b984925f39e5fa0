//! Distributions in a fixed number of buckets.
//!
//! The one idea: 64 buckets to each doubling. Below 128 every value has its own; above, a bucket's
//! bounds are less than 1.6 % apart, so a value told as the middle of its bucket is off by less
//! than 0.8 %. A bucket counts values, and adds up a weight that comes with them (bytes, most
//! often), so that one histogram draws both halves of the paper's figures. Powers of two are
//! bounds: where the paper's curves jump (1024, 4096), ours do.

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use std::fmt;

/// Buckets to a doubling, as a power of two.
const FINE: u32 = 6;
/// Values below it have a bucket each.
const EXACT: u64 = 2 << FINE;
/// Buckets for every `u64`.
const BUCKETS: usize = (2 << FINE) + ((63 - FINE as usize) << FINE);

/// How often values occurred, and what weight they had.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<(u64, u64)>,
    count: u64,
    weight: u64,
    sum: u128,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![(0, 0); BUCKETS], count: 0, weight: 0, sum: 0, most: 0 }
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.buckets().map(|b| (b.from, b.count, b.weight))).finish()
    }
}

/// What is counted: how many values there are, or what they weigh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Each value is one.
    Count,
    /// Each value has its weight.
    Weight,
}

/// A bucket that is not empty: values from `from` to below `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The least value that falls into it.
    pub from: u64,
    /// The least value above that does not; in the last one the greatest that does.
    pub to: u64,
    /// How many values fell into it.
    pub count: u64,
    /// What they weighed.
    pub weight: u64,
}

fn index(value: u64) -> usize {
    if value < EXACT {
        // Below 128.
        #[allow(clippy::cast_possible_truncation)]
        return value as usize;
    }
    let shift = value.ilog2() - FINE;
    // Below 2^13.
    #[allow(clippy::cast_possible_truncation)]
    let place = (value >> shift) as usize;
    place + ((shift as usize) << FINE)
}

fn lower(index: usize) -> u64 {
    let place = index as u64;
    if place < EXACT {
        return place;
    }
    let shift = (place >> FINE) - 1;
    (place - (shift << FINE)) << shift
}

impl Histogram {
    /// Counts a value of some weight.
    pub fn add(&mut self, value: u64, weight: u64) {
        let bucket = &mut self.buckets[index(value)];
        bucket.0 += 1;
        bucket.1 = bucket.1.saturating_add(weight);
        self.count += 1;
        self.weight = self.weight.saturating_add(weight);
        self.sum += u128::from(value);
        self.most = self.most.max(value);
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &Self) {
        for ((count, weight), (more, heavier)) in self.buckets.iter_mut().zip(&other.buckets) {
            *count += more;
            *weight = weight.saturating_add(*heavier);
        }
        self.count += other.count;
        self.weight = self.weight.saturating_add(other.weight);
        self.sum = self.sum.saturating_add(other.sum);
        self.most = self.most.max(other.most);
    }

    /// Returns the number of values.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns what all values weigh.
    #[must_use]
    pub const fn weight(&self) -> u64 {
        self.weight
    }

    /// Returns the greatest value, exactly; 0 if there is none.
    #[must_use]
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// Returns the mean of the values, exactly; 0 if there is none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        // Rounding to 53 bits does not matter to a mean.
        #[allow(clippy::cast_precision_loss)]
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Returns the total of what is counted.
    #[must_use]
    pub const fn total(&self, by: By) -> u64 {
        match by {
            By::Count => self.count,
            By::Weight => self.weight,
        }
    }

    /// Returns the buckets that are not empty, from small to large.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.0 > 0).map(|(at, &(count, weight))| {
            let to = if at + 1 < BUCKETS { lower(at + 1) } else { u64::MAX };
            Bucket { from: lower(at), to, count, weight }
        })
    }

    /// Returns how much of what is counted lies below `value`; within a bucket it is taken to be
    /// spread evenly.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // A share is not better known than to 53 bits.
    pub fn below(&self, value: u64, by: By) -> f64 {
        let mut below = 0.0;
        for bucket in self.buckets().take_while(|bucket| bucket.from < value) {
            let part = (value.min(bucket.to) - bucket.from) as f64 / (bucket.to - bucket.from) as f64;
            below += bucket.amount(by) as f64 * part;
        }
        below
    }

    /// Returns the share of what is counted, from 0 to 1, that lies below `value`; nothing if there
    /// is nothing.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn share_below(&self, value: u64, by: By) -> Option<f64> {
        (self.total(by) > 0).then(|| self.below(value, by) / self.total(by) as f64)
    }

    /// Returns the value below which the share `part` (from 0 to 1) of what is counted lies, to 0.8
    /// %; nothing if there is nothing.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn quantile(&self, part: f64, by: By) -> Option<u64> {
        let wanted = self.total(by) as f64 * part;
        let mut found = None;
        let mut passed = 0.0;
        for bucket in self.buckets() {
            passed += bucket.amount(by) as f64;
            if bucket.amount(by) > 0 {
                found = Some(bucket.middle().min(self.most));
            }
            if passed >= wanted && found.is_some() {
                break;
            }
        }
        found
    }
}

impl Bucket {
    /// Returns what is counted in it.
    #[must_use]
    pub const fn amount(&self, by: By) -> u64 {
        match by {
            By::Count => self.count,
            By::Weight => self.weight,
        }
    }

    /// Returns the value that stands for all in it.
    #[must_use]
    pub const fn middle(&self) -> u64 {
        self.from + (self.to - self.from - 1) / 2
    }
}

/// Buckets that are not empty, as `[from, count, weight]`.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for bucket in self.buckets() {
            list.serialize_element(&(bucket.from, bucket.count, bucket.weight))?;
        }
        list.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: every value lies within its bucket, buckets adjoin, powers of two are bounds, and
    /// no bucket is wider than 1.6 %.
    #[test]
    fn buckets_adjoin() {
        for at in 0..BUCKETS {
            assert_eq!(index(lower(at)), at);
            if at > 0 {
                assert_eq!(index(lower(at) - 1), at - 1);
                let wide = lower(at) - lower(at - 1);
                assert!(wide * 64 <= lower(at - 1).max(64), "{at}");
            }
        }
        assert_eq!(index(u64::MAX), BUCKETS - 1);
        for power in 0..64 {
            assert_eq!(lower(index(1 << power)), 1 << power);
        }
    }

    /// Promise: counts, weights, shares and quantiles of values that have buckets of their own are
    /// exact.
    #[test]
    fn small_values_are_exact() {
        let mut histogram = Histogram::default();
        for value in 1..=100 {
            histogram.add(value, 10 * value);
        }
        assert_eq!((histogram.count(), histogram.weight(), histogram.most()), (100, 50_500, 100));
        assert!((histogram.mean() - 50.5).abs() < 1e-9);
        assert_eq!(histogram.share_below(51, By::Count), Some(0.5));
        assert!((histogram.below(11, By::Weight) - 550.0).abs() < 1e-9);
        assert_eq!(histogram.quantile(0.9, By::Count), Some(90));
        assert_eq!(histogram.quantile(0.0, By::Count), Some(1));
        assert_eq!(histogram.quantile(1.0, By::Weight), Some(100));
        assert_eq!(Histogram::default().quantile(0.5, By::Count), None);
        assert_eq!(Histogram::default().share_below(5, By::Weight), None);
    }

    /// Promise: large values come back to 0.8 %.
    #[test]
    fn large_values_are_close() {
        for value in [1000, 123_456, 99_999_999, 1 << 40, u64::MAX / 3] {
            let mut histogram = Histogram::default();
            histogram.add(value, 1);
            histogram.add(u64::MAX, 1);
            let found = histogram.quantile(0.5, By::Count).unwrap();
            assert!(found.abs_diff(value) <= value / 125, "{value}: {found}");
        }
    }
}
