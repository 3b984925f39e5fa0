//! What a drive has in its memory of what it wrote from its write cache: it need not read that.
//!
//! Invariant: no two runs overlap; a newer one takes the place of those that it overlaps.

use std::collections::VecDeque;

/// Runs of sectors, each from its first to its end, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Recent(VecDeque<(u64, u64)>);

impl Recent {
    /// Runs that are remembered: an estimate, of the order of the segments of drives.
    const RUNS: usize = 64;

    /// Adds the sectors from `start` to `end`.
    pub fn add(&mut self, start: u64, end: u64) {
        self.forget(start, end);
        if self.0.len() == Self::RUNS {
            self.0.pop_front();
        }
        self.0.push_back((start, end));
    }

    /// Forgets the runs that have some of the sectors from `start` to `end`.
    pub fn forget(&mut self, start: u64, end: u64) {
        self.0.retain(|&(from, to)| to <= start || end <= from);
    }

    /// Returns true if it has all sectors from `start` to `end`.
    pub fn holds(&self, start: u64, end: u64) -> bool {
        self.0.iter().any(|&(from, to)| from <= start && end <= to)
    }
}
