//! The persistent cache of a shingled disk: which sectors of the host lie in it, and where.
//!
//! It is a log that goes round in one region of the platters. Positions only grow; a position
//! modulo the size of the region is a sector of it. The space of what was overwritten or cleaned
//! comes back when everything older has gone, too.
//!
//! Invariant: no two runs overlap, in the addresses of the host nor in the log; the log from the
//! oldest run to the head is not longer than the region. Costs grow with the number of runs only.

use std::collections::BTreeMap;

/// Consecutive sectors of the host that follow each other in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First sector of the host.
    pub start: u64,
    /// The sector after the last one.
    pub end: u64,
    /// Position of the first one.
    at: u64,
}

/// Sectors of the host that are read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First sector of the host.
    pub start: u64,
    /// The sector after the last one.
    pub end: u64,
    /// Sector of the region that has the first one; none if it is in its band.
    pub cached: Option<u64>,
}

/// Map and log.
#[derive(Clone, Debug)]
pub struct MediaCache {
    /// The end of each run and its position, by its start.
    runs: BTreeMap<u64, (u64, u64)>,
    /// The start of each run by its position.
    log: BTreeMap<u64, u64>,
    /// Where the log goes on.
    head: u64,
    /// Size of the region.
    sectors: u64,
    /// Most runs that the map can have.
    most_runs: usize,
}

impl MediaCache {
    /// Returns an empty cache of so many sectors, with a map of at most `most_runs`.
    #[must_use]
    pub const fn new(sectors: u64, most_runs: usize) -> Self {
        Self { runs: BTreeMap::new(), log: BTreeMap::new(), head: 0, sectors, most_runs }
    }

    /// Returns the number of runs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Returns true if `sectors` more, at most the size of the region, can be appended.
    #[must_use]
    pub fn has_room(&self, sectors: u64) -> bool {
        let end = self.next(sectors) + sectors;
        // An overwritten run may become two, and the new one is added.
        let fits_map = self.runs.len() + 2 <= self.most_runs;
        self.log.first_key_value().is_none_or(|(tail, _)| fits_map && end - tail <= self.sectors)
    }

    /// Returns the sector of the region where `sectors` would be appended.
    #[must_use]
    pub fn place(&self, sectors: u64) -> u64 {
        self.next(sectors) % self.sectors
    }

    /// Appends the sectors of the host from `start` to `end`, for which there must be room, in
    /// `taken` sectors of the log. Returns the first of these in the region.
    pub fn append(&mut self, start: u64, end: u64, taken: u64) -> u64 {
        self.forget(start, end);
        let at = self.next(taken);
        self.insert(Run { start, end, at });
        self.head = at + taken;
        at % self.sectors
    }

    /// Forgets the sectors of the host from `start` to `end`: they are in their bands. Returns
    /// true if some of them were here.
    pub fn forget(&mut self, start: u64, end: u64) -> bool {
        let found: Vec<Run> = self.overlapping(start, end).collect();
        for run in &found {
            self.runs.remove(&run.start);
            self.log.remove(&run.at);
            self.insert(Run { end: start.min(run.end), ..*run });
            let from = end.max(run.start);
            self.insert(Run { start: from, end: run.end, at: run.at + (from - run.start) });
        }
        !found.is_empty()
    }

    /// Returns a sector of the host from the oldest run.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.log.first_key_value().map(|(_, start)| *start)
    }

    /// Returns what must be read for the sectors of the host from `start` to `end`, in their order.
    #[must_use]
    pub fn pieces(&self, start: u64, end: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut next = start;
        for run in self.overlapping(start, end) {
            let from = run.start.max(start);
            if next < from {
                pieces.push(Piece { start: next, end: from, cached: None });
            }
            next = run.end.min(end);
            let at = (run.at + (from - run.start)) % self.sectors;
            pieces.push(Piece { start: from, end: next, cached: Some(at) });
        }
        if next < end {
            pieces.push(Piece { start: next, end, cached: None });
        }
        pieces
    }

    /// Returns the position for `sectors` that are not cut at the end of the region.
    const fn next(&self, sectors: u64) -> u64 {
        if self.head % self.sectors + sectors <= self.sectors {
            self.head
        } else {
            self.head.next_multiple_of(self.sectors)
        }
    }

    fn insert(&mut self, run: Run) {
        if run.start < run.end {
            self.runs.insert(run.start, (run.end, run.at));
            self.log.insert(run.at, run.start);
        }
    }

    /// Returns the runs that have some of the sectors from `start` to `end`, by address.
    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = Run> {
        let run = |(&start, &(end, at)): (&u64, &(u64, u64))| Run { start, end, at };
        let before = self.runs.range(..start).next_back().map(run).filter(|run| run.end > start);
        before.into_iter().chain(self.runs.range(start..end.max(start)).map(run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    const HOST: u64 = 600;
    const REGION: u64 = 256;

    /// Promise: every sector is where it was written last, in the cache or in its band, through
    /// overwriting, cleaning in the order of age, and laps of the log; the map has no more runs
    /// than it may.
    #[test]
    fn sectors_are_where_they_were_written_last() {
        let seed = std::env::var("SPINDLE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1984);
        println!("SPINDLE_SEED={seed} cargo test -p spindle-sim --lib media_cache");
        let mut random = SmallRng::seed_from_u64(seed);
        let mut cache = MediaCache::new(REGION, 24);
        // What was written last: to each sector of the host; to each of the region; to the bands.
        let place = |sector: u64| usize::try_from(sector).unwrap();
        let (mut wanted, mut region) = (vec![0; place(HOST)], vec![0; place(REGION)]);
        let mut bands = wanted.clone();
        let mut laps = 0;
        for version in 1..20_000_u32 {
            let start = random.random_range(0..HOST);
            let end = (start + random.random_range(1..40)).min(HOST);
            wanted[place(start)..place(end)].fill(version);
            if random.random_range(0..8) == 0 {
                cache.forget(start, end);
                bands[place(start)..place(end)].fill(version);
            } else {
                let taken = (end - start).next_multiple_of(8) + 8;
                while !cache.has_room(taken) {
                    let from = cache.oldest().unwrap() / 50 * 50;
                    for Piece { start, end, cached } in cache.pieces(from, from + 50) {
                        let Some(at) = cached else { continue };
                        for n in 0..end - start {
                            bands[place(start + n)] = region[place(at + n)];
                        }
                    }
                    assert!(cache.forget(from, from + 50));
                }
                let head = cache.head;
                let at = cache.append(start, end, taken);
                laps += u64::from(cache.head / REGION > head / REGION);
                assert!(at + taken <= REGION && at.is_multiple_of(8));
                // The whole of the space is written, what it does not need with nothing of worth.
                region[place(at)..place(at + taken)].fill(0);
                region[place(at)..place(at + end - start)].fill(version);
            }
            assert!(cache.len() <= 24 && cache.log.len() == cache.runs.len());
            let mut next = 0;
            for Piece { start, end, cached } in cache.pieces(0, HOST) {
                assert_eq!(start, next);
                next = end;
                for n in 0..end - start {
                    let found = cached.map_or(bands[place(start + n)], |at| region[place(at + n)]);
                    assert_eq!(found, wanted[place(start + n)], "sector {}", start + n);
                }
            }
            assert_eq!(next, HOST);
        }
        assert!(laps > 100, "{laps}");
    }

    /// Promise: of a run in the middle of which others are written, both ends stay where they were.
    #[test]
    fn runs_are_split() {
        let mut cache = MediaCache::new(64, 8);
        assert_eq!(cache.append(100, 116, 24), 0);
        assert_eq!(cache.append(104, 108, 16), 24);
        let piece = |start, end, cached| Piece { start, end, cached };
        let expected = [
            piece(96, 100, None),
            piece(100, 104, Some(0)),
            piece(104, 108, Some(24)),
            piece(108, 116, Some(8)),
            piece(116, 120, None),
        ];
        assert_eq!(cache.pieces(96, 120), expected);
        // 24 sectors do not fit between 40 and the oldest run at 64.
        assert!(cache.has_room(24) && !cache.has_room(32));
        cache.forget(100, 104);
        assert!(!cache.has_room(32));
        cache.forget(108, 116);
        assert!(!cache.has_room(32), "from 40 on they would be cut, and from 64 on reach the run at 24 + 64");
        assert!(cache.has_room(24));
    }
}
