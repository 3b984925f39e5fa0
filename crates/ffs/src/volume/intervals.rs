//! Sets of runs of fragments that do not overlap.

use crate::format::units::Frag;
use std::collections::BTreeMap;

/// Runs of fragments, none of which overlaps another.
#[derive(Default)]
pub(crate) struct Intervals {
    /// Ends of the runs, by their starts.
    ends: BTreeMap<u64, u64>,
}

impl Intervals {
    /// Returns true if a run shares a fragment with one that is here.
    pub(crate) fn overlaps(&self, at: Frag, count: u64) -> bool {
        self.ends.range(..at.0 + count).next_back().is_some_and(|(_, &end)| end > at.0)
    }

    /// Adds a run that overlaps none.
    pub(crate) fn insert(&mut self, at: Frag, count: u64) {
        debug_assert!(!self.overlaps(at, count), "runs do not overlap");
        self.ends.insert(at.0, at.0 + count);
    }

    /// Takes a run out that was added.
    pub(crate) fn remove(&mut self, at: Frag) {
        self.ends.remove(&at.0);
    }

    /// Takes all runs out, in the order of their addresses; neighbours are joined.
    pub(crate) fn take(&mut self) -> Vec<(Frag, u64)> {
        let mut runs: Vec<(Frag, u64)> = Vec::new();
        for (start, end) in std::mem::take(&mut self.ends) {
            match runs.last_mut() {
                Some((at, count)) if at.0 + *count == start => *count += end - start,
                _ => runs.push((Frag(start), end - start)),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: overlaps are found at both ends and in the middle, neighbours are no overlap and
    /// come out as one run; what was removed is gone.
    #[test]
    fn runs_join_and_do_not_overlap() {
        let mut runs = Intervals::default();
        for (at, count) in [(10, 2), (20, 5), (12, 3), (8, 2)] {
            runs.insert(Frag(at), count);
        }
        for (at, count, overlaps) in [
            (0, 8, false),
            (7, 2, true),
            (14, 1, true),
            (15, 5, false),
            (15, 6, true),
            (0, 99, true),
            (25, 1, false),
        ] {
            assert_eq!(runs.overlaps(Frag(at), count), overlaps, "{at} {count}");
        }
        runs.insert(Frag(30), 4);
        runs.remove(Frag(30));
        assert_eq!(runs.take(), [(Frag(8), 7), (Frag(20), 5)]);
        assert_eq!(runs.take(), []);
    }
}
