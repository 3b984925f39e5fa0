//! LRU: the block that was used longest ago goes.

use super::Replacement;
use spindle_cache::policy::Lists;
use std::num::NonZeroU32;

/// Least recently used.
#[derive(Clone, Debug)]
pub struct Lru {
    capacity: usize,
    order: Lists<1>,
}

impl Lru {
    /// Returns an empty cache of `capacity` blocks.
    #[must_use]
    pub fn new(capacity: NonZeroU32) -> Self {
        Self { capacity: capacity.get() as usize, order: Lists::new() }
    }
}

impl Replacement for Lru {
    #[inline]
    fn access(&mut self, key: u32, mut evicted: impl FnMut(u32)) -> bool {
        self.order.reach(key);
        if self.order.holds(key) {
            self.order.bring_forward(0, key);
            return true;
        }
        if self.order.len(0) == self.capacity {
            self.order.pop_back(0).into_iter().for_each(&mut evicted);
        }
        self.order.push_front(0, key);
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        let there = self.order.holds(key);
        if there {
            self.order.unlink(0, key);
        }
        there
    }

    #[inline]
    fn contains(&self, key: u32) -> bool {
        self.order.holds(key)
    }

    fn len(&self) -> usize {
        self.order.len(0)
    }
}
