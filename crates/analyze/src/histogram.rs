//! Histograms with a fixed number of buckets.
//!
//! The one idea: 64 buckets per doubling. Each value below 128 has its own bucket; above, the
//! bounds of a bucket are less than 1.6 % apart, so the middle of a bucket differs from its values
//! by less than 0.8 %. A bucket counts values and sums a weight that comes with them (usually
//! bytes), so one histogram draws both halves of the paper's figures. Powers of two are bounds: the
//! jumps of the paper's curves (at 1024, 4096) stay jumps.

use super::parts::{Count, How, Part, Read, Reader, Sum, number};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use std::fmt;

/// Number of buckets per doubling, as a power of two.
const BUCKETS_LOG2: u32 = 6;
/// Smaller values have a bucket each.
const EXACT: u64 = 2 << BUCKETS_LOG2;
/// Number of buckets for all values of `u64`.
const BUCKETS: usize = (2 << BUCKETS_LOG2) + ((63 - BUCKETS_LOG2 as usize) << BUCKETS_LOG2);

/// Counts and weights of values.
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

/// The quantity that is summed: the number of values, or their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Each value counts 1.
    Count,
    /// Each value counts its weight.
    Weight,
}

/// A bucket that is not empty: values from `from` to below `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Smallest value of the bucket.
    pub from: u64,
    /// Smallest value above the bucket; of the last bucket, its largest value.
    pub to: u64,
    /// Number of values.
    pub count: u64,
    /// Sum of their weights.
    pub weight: u64,
}

fn index(value: u64) -> usize {
    if value < EXACT {
        // Below 128.
        #[allow(clippy::cast_possible_truncation)]
        return value as usize;
    }
    let shift = value.ilog2() - BUCKETS_LOG2;
    // Below 2^13.
    #[allow(clippy::cast_possible_truncation)]
    let place = (value >> shift) as usize;
    place + ((shift as usize) << BUCKETS_LOG2)
}

fn lower(index: usize) -> u64 {
    let place = index as u64;
    if place < EXACT {
        return place;
    }
    let shift = (place >> BUCKETS_LOG2) - 1;
    (place - (shift << BUCKETS_LOG2)) << shift
}

impl Histogram {
    /// Adds a value with a weight.
    pub fn add(&mut self, value: u64, weight: u64) {
        let bucket = &mut self.buckets[index(value)];
        bucket.0 += 1;
        bucket.1 = bucket.1.saturating_add(weight);
        self.count += 1;
        self.weight = self.weight.saturating_add(weight);
        self.sum += u128::from(value);
        self.most = self.most.max(value);
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        for ((count, weight), (more, heavier)) in self.buckets.iter_mut().zip(&other.buckets) {
            Count::merge(count, more);
            Sum::merge(weight, heavier);
        }
        Count::merge(&mut self.count, &other.count);
        Sum::merge(&mut self.weight, &other.weight);
        self.sum = self.sum.saturating_add(other.sum);
        self.most = self.most.max(other.most);
    }

    /// Returns the number of values.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all weights.
    #[must_use]
    pub const fn weight(&self) -> u64 {
        self.weight
    }

    /// Returns the largest value, exactly; 0 if there is none.
    #[must_use]
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// Returns the mean of the values, exactly; 0 if there are none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        // A mean needs no more than 53 bits.
        #[allow(clippy::cast_precision_loss)]
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Returns the number of values or the sum of their weights.
    #[must_use]
    pub const fn total(&self, by: By) -> u64 {
        match by {
            By::Count => self.count,
            By::Weight => self.weight,
        }
    }

    /// Returns the buckets that are not empty, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.0 > 0).map(|(at, &(count, weight))| {
            let to = if at + 1 < BUCKETS { lower(at + 1) } else { u64::MAX };
            Bucket { from: lower(at), to, count, weight }
        })
    }

    /// Returns the count or weight of the values below `value`; assumes that values are spread
    /// evenly within a bucket.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // A share needs no more than 53 bits.
    pub fn below(&self, value: u64, by: By) -> f64 {
        let mut below = 0.0;
        for bucket in self.buckets().take_while(|bucket| bucket.from < value) {
            let part = (value.min(bucket.to) - bucket.from) as f64 / (bucket.to - bucket.from) as f64;
            below += bucket.amount(by) as f64 * part;
        }
        below
    }

    /// Returns the share of count or weight, from 0 to 1, below `value`; `None` if the total is 0.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn share_below(&self, value: u64, by: By) -> Option<f64> {
        (self.total(by) > 0).then(|| self.below(value, by) / self.total(by) as f64)
    }

    /// Returns the value below which the share `part` (from 0 to 1) of count or weight lies, to
    /// within 0.8 %; `None` if the histogram is empty.
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
    /// Returns the count or weight of the bucket.
    #[must_use]
    pub const fn amount(&self, by: By) -> u64 {
        match by {
            By::Count => self.count,
            By::Weight => self.weight,
        }
    }

    /// Returns the value that represents the bucket.
    #[must_use]
    pub const fn middle(&self) -> u64 {
        self.from + (self.to - self.from - 1) / 2
    }
}

/// Stores the buckets that are not empty, by their numbers, and the sum and the maximum of the
/// values. The totals follow from the buckets.
impl Part for Histogram {
    fn merge(&mut self, other: &Self) {
        Self::merge(self, other);
    }

    fn write(&self, out: &mut Vec<u8>) {
        number(self.buckets().count() as u64, out);
        for (at, (count, weight)) in self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.0 > 0) {
            number(at as u64, out);
            Count::write(count, out);
            Sum::write(weight, out);
        }
        out.extend(self.sum.to_le_bytes());
        number(self.most, out);
    }

    fn read(from: &mut Reader<'_>) -> Read<Self> {
        let mut read = Self::default();
        let mut next = 0;
        for _ in 0..from.index(BUCKETS + 1, "more buckets than a histogram has")? {
            let at = from.index(BUCKETS, "a bucket that a histogram does not have")?;
            from.expect(at >= next, "buckets out of order")?;
            next = at + 1;
            let (count, weight) = (Count::read(from)?, Sum::read(from)?);
            read.buckets[at] = (count, weight);
            Count::merge(&mut read.count, &count);
            Sum::merge(&mut read.weight, &weight);
        }
        read.sum = from.wide()?;
        read.most = from.number()?;
        let is_last = next == index(read.most) + 1 || (next == 0 && read.most == 0);
        from.expect(is_last, "a maximum outside of the last bucket")?;
        Ok(read)
    }
}

/// Writes the buckets that are not empty as `[from, count, weight]`.
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

    /// Promise: counts, weights, shares and quantiles are exact for values that have buckets of
    /// their own.
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

    /// Promise: large values are returned to within 0.8 %.
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
