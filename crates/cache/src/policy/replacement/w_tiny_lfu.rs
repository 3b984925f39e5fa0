//! W-TinyLFU (Einziger, Friedman and Manes, "A Highly Efficient Cache Admission Policy", ACM Transactions on Storage, 2017): what falls out of a small
//! LRU window enters the main part only if it was used more often, lately, than what would have to leave there.
//!
//! The paper counts uses in a sketch, because keys are large and many. Here every block number has a place anyway, so its
//! counter is exact: four bits as in the sketch, halved after each sample of ten times the capacity. Halving is put off: a counter
//! remembers in which sample it was last touched. The doorkeeper, which saves space in a sketch, has no use here.

use super::Replacement;
use super::marks::Marks;
use crate::policy::list::Lists;
use std::num::NonZeroU32;

/// The lists, which are also the marks of the blocks in them; 0 is in none.
const WINDOW: u8 = 1;
const PROBATION: u8 = 2;
const PROTECTED: u8 = 3;

/// Accesses in a sample, times the capacity.
const SAMPLE: u64 = 10;
/// What four bits hold.
const MOST: u32 = 15;

/// A window, a segmented LRU, and counters that say who passes from one to the other.
#[derive(Clone, Debug)]
pub struct WTinyLfu {
    window: usize,
    main: usize,
    protected: usize,
    marks: Marks,
    lists: Lists<4>,
    uses: Uses,
}

impl WTinyLfu {
    /// An empty cache of `capacity` blocks: a window of 1 % (at least 1), of the rest 80 % protected.
    #[must_use]
    pub fn new(capacity: NonZeroU32) -> Self {
        let blocks = capacity.get() as usize;
        let window = (blocks / 100).max(1);
        let main = blocks - window;
        Self {
            window,
            main,
            protected: main * 4 / 5,
            marks: Marks::default(),
            lists: Lists::new(),
            uses: Uses {
                counters: Vec::new(),
                sample: 0,
                left: SAMPLE * u64::from(capacity.get()),
                capacity,
            },
        }
    }

    fn transfer(&mut self, from: u8, to: u8, key: u32) {
        self.lists.transfer(from.into(), to.into(), key);
        self.marks.set(key, to);
    }

    fn leave(&mut self, list: u8, key: u32) {
        self.lists.unlink(list.into(), key);
        self.marks.set(key, 0);
    }

    /// Moves on what the window has no room for.
    fn overflow(&mut self) -> Option<u32> {
        if self.lists.len(WINDOW.into()) <= self.window {
            return None;
        }
        let candidate = self.lists.back(WINDOW.into())?;
        let main = self.lists.len(PROBATION.into()) + self.lists.len(PROTECTED.into());
        if main < self.main {
            self.transfer(WINDOW, PROBATION, candidate);
            return None;
        }
        let victim =
            [PROBATION, PROTECTED].into_iter().find_map(|list| Some((list, self.lists.back(list.into())?)));
        match victim {
            Some((list, victim)) if self.uses.of(candidate) > self.uses.of(victim) => {
                self.transfer(WINDOW, PROBATION, candidate);
                self.leave(list, victim);
                Some(victim)
            }
            _ => {
                self.leave(WINDOW, candidate);
                Some(candidate)
            }
        }
    }
}

impl Replacement for WTinyLfu {
    #[inline]
    fn access(&mut self, key: u32, mut evicted: impl FnMut(u32)) -> bool {
        self.uses.count(key);
        match self.marks.get(key) {
            PROBATION => {
                self.transfer(PROBATION, PROTECTED, key);
                if self.lists.len(PROTECTED.into()) > self.protected
                    && let Some(oldest) = self.lists.back(PROTECTED.into())
                {
                    self.transfer(PROTECTED, PROBATION, oldest);
                }
            }
            0 => {
                self.lists.reach(key);
                self.lists.push_front(WINDOW.into(), key);
                self.marks.set(key, WINDOW);
                self.overflow().into_iter().for_each(&mut evicted);
                return false;
            }
            list => self.lists.bring_forward(list.into(), key),
        }
        true
    }

    fn remove(&mut self, key: u32) -> bool {
        self.uses.forget(key);
        let list = self.marks.get(key);
        if list != 0 {
            self.leave(list, key);
        }
        list != 0
    }

    #[inline]
    fn contains(&self, key: u32) -> bool {
        self.marks.get(key) != 0
    }

    fn len(&self) -> usize {
        [WINDOW, PROBATION, PROTECTED].into_iter().map(|list| self.lists.len(list.into())).sum()
    }
}

/// How often each block was used lately.
#[derive(Clone, Debug)]
struct Uses {
    /// The count in the lowest four bits, above them the sample at whose time it was that.
    counters: Vec<u32>,
    sample: u32,
    /// Accesses until the sample ends.
    left: u64,
    capacity: NonZeroU32,
}

impl Uses {
    fn of(&self, key: u32) -> u32 {
        let counter = self.counters.get(key as usize).copied().unwrap_or(0);
        // Sample numbers wrap where the counter has no more bits for them.
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
