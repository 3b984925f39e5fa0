//! The drive's volatile write cache: runs of sectors that the host believes written.
//!
//! Invariant: runs neither touch nor overlap each other.

use std::collections::BTreeMap;

/// Sectors that are not on the platters yet.
#[derive(Clone, Debug)]
pub struct WriteCache {
    /// End by start of each run.
    runs: BTreeMap<u64, u64>,
    sectors: u64,
    capacity: u64,
    /// Sectors that lie in one on the platters, which is not cut.
    together: u64,
}

impl WriteCache {
    /// Returns an empty cache for `capacity` sectors, of which so many lie in one on the platters.
    #[must_use]
    pub const fn new(capacity: u64, together: u64) -> Self {
        Self { runs: BTreeMap::new(), sectors: 0, capacity, together }
    }

    /// Returns true if nothing waits to be written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns true if `sectors` more fit.
    #[must_use]
    pub const fn has_room(&self, sectors: u64) -> bool {
        self.sectors + sectors <= self.capacity
    }

    /// Returns true if a request of `sectors` can fit at all.
    #[must_use]
    pub const fn accepts(&self, sectors: u64) -> bool {
        sectors <= self.capacity
    }

    /// Takes the sectors from `start` to `end`.
    pub fn insert(&mut self, mut start: u64, mut end: u64) {
        while let Some((&from, &to)) = self.runs.range(..=end).next_back().filter(|(_, to)| **to >= start) {
            self.runs.remove(&from);
            self.sectors -= to - from;
            (start, end) = (start.min(from), end.max(to));
        }
        self.runs.insert(start, end);
        self.sectors += end - start;
    }

    /// Returns true if all of the sectors from `start` to `end` are here.
    #[must_use]
    pub fn holds(&self, start: u64, end: u64) -> bool {
        self.runs.range(..=start).next_back().is_some_and(|(_, to)| *to >= end)
    }

    /// Takes out what is to be written next by heads before sector `head`: a one-way elevator, at
    /// most `most` sectors at a time.
    pub fn take_next(&mut self, head: u64, most: u64) -> Option<(u64, u64)> {
        let (&start, _) = self.runs.range(head..).next().or_else(|| self.runs.first_key_value())?;
        self.take(start, most)
    }

    /// Takes out a run that has some of the sectors from `start` to `end`.
    pub fn take_overlapping(&mut self, start: u64, end: u64) -> Option<(u64, u64)> {
        let (&from, _) = self.runs.range(..end).next_back().filter(|(_, to)| **to > start)?;
        self.take(from, u64::MAX)
    }

    fn take(&mut self, start: u64, most: u64) -> Option<(u64, u64)> {
        let end = self.runs.remove(&start)?;
        let cut = match start.saturating_add(most) {
            cut if cut >= end => end,
            cut => end.min((cut / self.together * self.together).max(start + 1)),
        };
        if cut < end {
            self.runs.insert(cut, end);
        }
        self.sectors -= cut - start;
        Some((start, cut))
    }
}
