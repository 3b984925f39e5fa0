//! Sets of data blocks, as runs: to enter an extent takes time for the runs that it meets, not for
//! its blocks, so hostile extents cost no more than honest ones.

use std::collections::BTreeMap;
use std::ops::Range;

/// The blocks that are held. Runs neither overlap nor touch.
pub(crate) struct Runs {
    /// End of each run by its beginning.
    ends: BTreeMap<u64, u64>,
    /// The number of the first block that does not exist.
    blocks: u64,
    /// No block before it is free.
    cursor: u64,
}

impl Runs {
    /// Returns a set of some of so many blocks, of which none is held.
    pub(crate) const fn new(blocks: u64) -> Self {
        Self { ends: BTreeMap::new(), blocks, cursor: 0 }
    }

    /// Enters blocks, and returns those of them that were held before, in order.
    pub(crate) fn enter(&mut self, blocks: Range<u64>) -> Vec<Range<u64>> {
        let (mut whole, mut before) = (blocks.clone(), Vec::new());
        while let Some((&start, &end)) = self.ends.range(..=blocks.end).next_back() {
            if end < blocks.start {
                break;
            }
            self.ends.remove(&start);
            whole = whole.start.min(start)..whole.end.max(end);
            let both = start.max(blocks.start)..end.min(blocks.end);
            if !both.is_empty() {
                before.push(both);
            }
        }
        self.ends.insert(whole.start, whole.end);
        before.reverse();
        before
    }

    /// Finds free blocks, at most `most`, and enters them.
    pub(crate) fn allocate(&mut self, most: u64) -> Option<Range<u64>> {
        if let Some((_, &end)) = self.ends.range(..=self.cursor).next_back() {
            self.cursor = self.cursor.max(end);
        }
        let next = self.ends.range(self.cursor..).next().map_or(self.blocks, |(&start, _)| start);
        let found = self.cursor..next.min(self.cursor.saturating_add(most));
        if found.is_empty() {
            return None;
        }
        self.enter(found.clone());
        Some(found)
    }

    /// Returns the runs of blocks within `range` that are held.
    pub(crate) fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.ends.range(..=range.start).next_back().map_or(range.start, |(&start, _)| start);
        self.ends
            .range(first..range.end)
            .map(move |(&start, &end)| start.max(range.start)..end.min(range.end))
            .filter(|run| !run.is_empty())
    }

    /// Returns the number of blocks that are held.
    pub(crate) fn held(&self) -> u64 {
        self.ends.iter().map(|(start, end)| end - start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::layout::index;
    use rand::{Rng, SeedableRng};

    /// Promise: runs hold what a set of single blocks holds, whatever is entered and allocated.
    #[test]
    fn runs_are_sets_of_blocks() {
        let mut rng = rand::rngs::StdRng::seed_from_u64(9);
        for _ in 0..300 {
            let (mut runs, mut held) = (Runs::new(80), [false; 80]);
            for _ in 0..rng.random_range(1..25) {
                if rng.random_range(0..4) == 0 {
                    let found = runs.allocate(rng.random_range(1..6));
                    assert_eq!(found.is_none(), !held.contains(&false));
                    for block in found.into_iter().flatten() {
                        assert!(!std::mem::replace(&mut held[index(block)], true));
                    }
                    continue;
                }
                let start = rng.random_range(0..79);
                let range = start..rng.random_range(start + 1..=80.min(start + 20));
                let before: Vec<u64> = runs.enter(range.clone()).into_iter().flatten().collect();
                let expected: Vec<u64> = range.clone().filter(|&block| held[index(block)]).collect();
                assert_eq!(before, expected);
                held[index(range.start)..index(range.end)].fill(true);
            }
            let (from, to) = (rng.random_range(0..40), rng.random_range(40..=80));
            let within: Vec<u64> = runs.within(from..to).flatten().collect();
            let expected: Vec<u64> = (from..to).filter(|&block| held[index(block)]).collect();
            assert_eq!(within, expected);
            assert_eq!(runs.held(), held.iter().filter(|&&held| held).count() as u64);
        }
    }
}
