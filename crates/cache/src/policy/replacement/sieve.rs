//! SIEVE (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024): a hand walks from the oldest block to the newest, spares what was used
//! and takes what was not; what it spares stays where it is, so new blocks are tried before old ones that have proved themselves.

use super::Replacement;
use super::marks::Marks;
use crate::policy::list::Lists;
use std::num::NonZeroU32;

const ABSENT: u8 = 0;
const UNUSED: u8 = 1;
const USED: u8 = 2;

/// A queue with a hand that does not move what it spares.
#[derive(Clone, Debug)]
pub struct Sieve {
    capacity: usize,
    marks: Marks,
    queue: Lists<1>,
    /// The block to look at next; none: the oldest.
    hand: Option<u32>,
}

impl Sieve {
    /// An empty cache of `capacity` blocks.
    #[must_use]
    pub fn new(capacity: NonZeroU32) -> Self {
        Self { capacity: capacity.get() as usize, marks: Marks::default(), queue: Lists::new(), hand: None }
    }

    fn evict(&mut self) -> Option<u32> {
        while let Some(key) = self.hand.or_else(|| self.queue.back(0)) {
            self.hand = self.queue.before(key);
            if self.marks.get(key) == UNUSED {
                self.queue.unlink(0, key);
                self.marks.set(key, ABSENT);
                return Some(key);
            }
            self.marks.set(key, UNUSED);
        }
        None
    }
}

impl Replacement for Sieve {
    #[inline]
    fn access(&mut self, key: u32, mut evicted: impl FnMut(u32)) -> bool {
        if self.marks.get(key) != ABSENT {
            self.marks.set(key, USED);
            return true;
        }
        if self.queue.len(0) == self.capacity {
            self.evict().into_iter().for_each(&mut evicted);
        }
        self.queue.reach(key);
        self.queue.push_front(0, key);
        self.marks.set(key, UNUSED);
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        let there = self.contains(key);
        if there {
            if self.hand == Some(key) {
                self.hand = self.queue.before(key);
            }
            self.queue.unlink(0, key);
            self.marks.set(key, ABSENT);
        }
        there
    }

    #[inline]
    fn contains(&self, key: u32) -> bool {
        self.marks.get(key) != ABSENT
    }

    fn len(&self) -> usize {
        self.queue.len(0)
    }
}
