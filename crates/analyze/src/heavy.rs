//! Finds the largest amounts among too many names to count each.
//!
//! The one idea: counts are exact until there are more names than the capacity. Then the median of
//! all counts is subtracted from every count, and names without a count are dropped. So a count is
//! too small by at most [`HeavyHitters::missed`], which is at most the total divided by half the
//! capacity, and 0 while no name has been dropped. (Misra and Gries 1982, in the form of Anderson
//! et al., "A High-Performance Algorithm for Identifying Frequent Items in Data Streams", 2017.)

use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Arc;

/// Amounts by name.
#[derive(Debug)]
pub(super) struct HeavyHitters {
    capacity: usize,
    counts: HashMap<Arc<str>, u64, RandomState>,
    missed: u64,
    total: u64,
}

impl HeavyHitters {
    /// Returns an empty table for `capacity` names, at least two.
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(2), counts: HashMap::default(), missed: 0, total: 0 }
    }

    pub(super) fn add(&mut self, name: &Arc<str>, amount: u64) {
        if amount == 0 {
            return;
        }
        self.total = self.total.saturating_add(amount);
        if let Some(count) = self.counts.get_mut(name) {
            *count = count.saturating_add(amount);
            return;
        }
        if self.counts.len() >= self.capacity {
            self.forget();
        }
        self.counts.insert(Arc::clone(name), amount);
    }

    fn forget(&mut self) {
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        let middle = counts.len() / 2;
        let (_, &mut median, _) = counts.select_nth_unstable(middle);
        self.counts.retain(|_, count| {
            *count = count.saturating_sub(median);
            *count > 0
        });
        self.missed = self.missed.saturating_add(median);
    }

    /// Returns the names with their amounts, which may be too small by up to
    /// [`HeavyHitters::missed`].
    pub(super) const fn amounts(&self) -> &HashMap<Arc<str>, u64, RandomState> {
        &self.counts
    }

    /// Returns the total of all names.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the maximum error by which an amount may be too small.
    pub(super) const fn missed(&self) -> u64 {
        self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: with enough capacity counts are exact; otherwise each is too small by at most the
    /// reported error, which is small; the largest names are found.
    #[test]
    fn counts_are_bounded() {
        for (capacity, exact) in [(2000, true), (100, false)] {
            let mut heavy = HeavyHitters::new(capacity);
            let mut expected = HashMap::<Arc<str>, u64>::new();
            for n in 0..20_000_u64 {
                // Three large names among a thousand.
                let number = if n % 3 == 0 { n % 9 / 3 } else { n * 7919 % 1000 };
                let name: Arc<str> = number.to_string().into();
                heavy.add(&name, 1 + n % 5);
                *expected.entry(name).or_default() += 1 + n % 5;
            }
            assert_eq!(heavy.missed() == 0, exact);
            assert_eq!(heavy.total(), expected.values().sum::<u64>());
            assert!(heavy.missed() <= heavy.total() / (capacity as u64 / 2));
            for (name, &count) in &expected {
                let found = heavy.amounts().get(name).copied().unwrap_or(0);
                assert!(found <= count && count <= found + heavy.missed(), "{name}: {found} of {count}");
            }
            let mut largest: Vec<_> =
                heavy.amounts().iter().map(|(name, amount)| (amount, &**name)).collect();
            largest.sort_unstable_by(|a, b| b.cmp(a));
            let mut names: Vec<_> = largest[..3].iter().map(|&(_, name)| name).collect();
            names.sort_unstable();
            assert_eq!(names, ["0", "1", "2"]);
        }
    }
}
