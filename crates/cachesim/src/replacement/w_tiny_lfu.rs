//! W-TinyLFU (Einziger, Friedman and Manes, "A Highly Efficient Cache Admission Policy", ACM
//! Transactions on Storage, 2017): a block that leaves a small LRU window enters the main part only
//! if it was recently used more often than the block that it would replace.
//!
//! The paper counts uses in a sketch, because keys are large and many. Here every block number has
//! a place anyway, so its counter is exact: four bits as in the sketch, halved after each sample of
//! ten times the capacity. Halving is put off: a counter remembers in which sample it was last
//! touched. The doorkeeper, which saves space in a sketch, has no use here.

use super::Replacement;
use super::placed::{NONE, Placed};
use std::num::NonZeroU32;

/// The lists.
const WINDOW: u8 = 1;
const PROBATION: u8 = 2;
const PROTECTED: u8 = 3;

/// Accesses in a sample, times the capacity.
const SAMPLE: u64 = 10;
/// What four bits hold.
const MOST: u32 = 15;

/// A window, a segmented LRU, and counters that decide which blocks pass from one to the other.
#[derive(Clone, Debug)]
pub struct WTinyLfu {
    window: usize,
    main: usize,
    protected: usize,
    lists: Placed<4>,
    uses: Uses,
}

impl WTinyLfu {
    /// Returns an empty cache of `capacity` blocks: a window of 1 % (at least 1), of the rest 80 %
    /// protected.
    #[must_use]
    pub fn new(capacity: NonZeroU32) -> Self {
        let blocks = capacity.get() as usize;
        let window = (blocks / 100).max(1);
        let main = blocks - window;
        Self {
            window,
            main,
            protected: main * 4 / 5,
            lists: Placed::new(),
            uses: Uses {
                counters: Vec::new(),
                sample: 0,
                left: SAMPLE * u64::from(capacity.get()),
                capacity,
            },
        }
    }

    /// Moves on the blocks that the window has no room for.
    fn overflow(&mut self) -> Option<u32> {
        if self.lists.len(WINDOW) <= self.window {
            return None;
        }
        let candidate = self.lists.back(WINDOW)?;
        let main = self.lists.len(PROBATION) + self.lists.len(PROTECTED);
        if main < self.main {
            self.lists.put(PROBATION, candidate);
            return None;
        }
        let gone = match [PROBATION, PROTECTED].into_iter().find_map(|list| self.lists.back(list)) {
            Some(victim) if self.uses.of(candidate) > self.uses.of(victim) => {
                self.lists.put(PROBATION, candidate);
                victim
            }
            _ => candidate,
        };
        self.lists.remove(gone);
        Some(gone)
    }
}

impl Replacement for WTinyLfu {
    #[inline]
    fn access(&mut self, key: u32, mut evicted: impl FnMut(u32)) -> bool {
        self.uses.count(key);
        match self.lists.list(key) {
            NONE => {
                self.lists.put(WINDOW, key);
                self.overflow().into_iter().for_each(&mut evicted);
                return false;
            }
            PROBATION => {
                self.lists.put(PROTECTED, key);
                if self.lists.len(PROTECTED) > self.protected
                    && let Some(oldest) = self.lists.back(PROTECTED)
                {
                    self.lists.put(PROBATION, oldest);
                }
            }
            _ => self.lists.bring_forward(key),
        }
        true
    }

    fn remove(&mut self, key: u32) -> bool {
        self.uses.forget(key);
        self.lists.remove(key) != NONE
    }

    #[inline]
    fn contains(&self, key: u32) -> bool {
        self.lists.list(key) != NONE
    }

    fn len(&self) -> usize {
        [WINDOW, PROBATION, PROTECTED].into_iter().map(|list| self.lists.len(list)).sum()
    }
}

/// Counts of the recent uses of each block.
#[derive(Clone, Debug)]
struct Uses {
    /// The count in the lowest four bits; above them the sample in which it was set.
    counters: Vec<u32>,
    sample: u32,
    /// Accesses until the sample ends.
    left: u64,
    capacity: NonZeroU32,
}

impl Uses {
    fn of(&self, key: u32) -> u32 {
        let counter = self.counters.get(key as usize).copied().unwrap_or(0);
        // Sample numbers wrap when the counter has no more bits for them.
        let halvings = (self.sample.wrapping_sub(counter >> 4) << 4 >> 4).min(4);
        (counter & MOST) >> halvings
    }

    fn count(&mut self, key: u32) {
        if key as usize >= self.counters.len() {
            self.counters.resize(key as usize + 1, 0);
        }
        self.counters[key as usize] = (self.of(key) + 1).min(MOST) | self.sample << 4;
        self.left -= 1;
        if self.left == 0 {
            self.sample = self.sample.wrapping_add(1);
            self.left = SAMPLE * u64::from(self.capacity.get());
        }
    }

    fn forget(&mut self, key: u32) {
        if let Some(counter) = self.counters.get_mut(key as usize) {
            *counter = 0;
        }
    }
}
