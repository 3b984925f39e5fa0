//! FIFO: evicts the block that came in first, used since or not.

use super::Replacement;
use spindle_cache::policy::Lists;
use std::num::NonZeroU32;

/// First in, first out.
#[derive(Clone, Debug)]
pub struct Fifo {
    capacity: usize,
    queue: Lists<1>,
}

impl Fifo {
    /// Returns an empty cache of `capacity` blocks.
    #[must_use]
    pub fn new(capacity: NonZeroU32) -> Self {
        Self { capacity: capacity.get() as usize, queue: Lists::new() }
    }
}

impl Replacement for Fifo {
    #[inline]
    fn access(&mut self, key: u32, mut evicted: impl FnMut(u32)) -> bool {
        if self.queue.holds(key) {
            return true;
        }
        if self.queue.len(0) == self.capacity {
            self.queue.pop_back(0).into_iter().for_each(&mut evicted);
        }
        self.queue.reach(key);
        self.queue.push_front(0, key);
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        let there = self.queue.holds(key);
        if there {
            self.queue.unlink(0, key);
        }
        there
    }

    #[inline]
    fn contains(&self, key: u32) -> bool {
        self.queue.holds(key)
    }

    fn len(&self) -> usize {
        self.queue.len(0)
    }
}
