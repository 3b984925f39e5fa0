//! Who has the most, among more than can be counted one by one.
//!
//! The one idea: count exactly as long as there are no more names than room; when it is full, take
//! the median of all counts off every count and forget those that are gone. So what a count lacks
//! is at most [`Heavy::missed`], which is at most the total over half the room; as long as nothing
//! was forgotten it is 0. (Misra and Gries 1982, in the form of Anderson et al., "A
//! High-Performance Algorithm for Identifying Frequent Items in Data Streams", 2017.)

use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Arc;

/// Amounts by name.
#[derive(Debug)]
pub(super) struct Heavy {
    room: usize,
    counts: HashMap<Arc<str>, u64, RandomState>,
    missed: u64,
    total: u64,
}

impl Heavy {
    /// With room for so many names, at least two.
    pub(super) fn new(room: usize) -> Self {
        Self { room: room.max(2), counts: HashMap::default(), missed: 0, total: 0 }
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
        if self.counts.len() >= self.room {
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

    /// Returns what is known of a name: at most [`Heavy::missed`] less than it has.
    pub(super) fn of(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Returns what all have.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// By how much a count may be too small.
    pub(super) const fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns the names of those who have the most, in this order; equal ones in that of their
    /// names.
    pub(super) fn top(&self, most: usize) -> Vec<Arc<str>> {
        let mut all: Vec<_> = self.counts.iter().collect();
        all.sort_unstable_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        all.into_iter().take(most).map(|(name, _)| Arc::clone(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: with enough room counts are exact; without, each lacks no more than is said, and
    /// that is little; the largest are found.
    #[test]
    fn counts_are_bounded() {
        for (room, exact) in [(2000, true), (100, false)] {
            let mut heavy = Heavy::new(room);
            let mut expected = HashMap::<Arc<str>, u64>::new();
            for n in 0..20_000_u64 {
                // Three large ones among a thousand.
                let number = if n % 3 == 0 { n % 9 / 3 } else { n * 7919 % 1000 };
                let name: Arc<str> = number.to_string().into();
                heavy.add(&name, 1 + n % 5);
                *expected.entry(name).or_default() += 1 + n % 5;
            }
            assert_eq!(heavy.missed() == 0, exact);
            assert_eq!(heavy.total(), expected.values().sum::<u64>());
            assert!(heavy.missed() <= heavy.total() / (room as u64 / 2));
            for (name, &count) in &expected {
                let found = heavy.of(name);
                assert!(found <= count && count <= found + heavy.missed(), "{name}: {found} of {count}");
            }
            let mut top = heavy.top(3);
            top.sort();
            assert_eq!(top.iter().map(|name| &**name).collect::<Vec<_>>(), ["0", "1", "2"]);
        }
    }
}
