//! 2Q, full version (Johnson and Shasha, VLDB 1994): a block must be asked for again after it has
//! left a short queue before it may enter the long-lived list.
//!
//! Where the paper leaves no block to give up (a cache of one block), the queue's oldest goes.

use super::Replacement;
use super::placed::Placed;
use std::num::NonZeroU32;

/// The lists.
const A1IN: u8 = 1;
const A1OUT: u8 = 2;
const AM: u8 = 3;

/// Two queues and a list.
#[derive(Clone, Debug)]
pub struct TwoQ {
    capacity: usize,
    kin: usize,
    kout: usize,
    lists: Placed<4>,
}

impl TwoQ {
    /// Returns an empty cache of `capacity` blocks, with the paper's `Kin` of 25 % of them and
    /// `Kout` of 50 %, each at least 1.
    #[must_use]
    pub fn new(capacity: NonZeroU32) -> Self {
        let capacity = capacity.get() as usize;
        Self { capacity, kin: (capacity / 4).max(1), kout: (capacity / 2).max(1), lists: Placed::new() }
    }

    /// Returns the paper's `reclaimfor`.
    fn reclaim(&mut self) -> Option<u32> {
        if self.len() < self.capacity {
            return None;
        }
        let from_queue = self.lists.len(A1IN) > self.kin || self.lists.len(AM) == 0;
        if !from_queue {
            return self.lists.take_back(AM);
        }
        let key = self.lists.back(A1IN)?;
        self.lists.put(A1OUT, key);
        if self.lists.len(A1OUT) > self.kout {
            self.lists.take_back(A1OUT);
        }
        Some(key)
    }
}

impl Replacement for TwoQ {
    #[inline]
    fn access(&mut self, key: u32, mut evicted: impl FnMut(u32)) -> bool {
        match self.lists.list(key) {
            A1IN => return true,
            AM => {
                self.lists.bring_forward(key);
                return true;
            }
            A1OUT => {
                self.lists.remove(key);
                self.reclaim().into_iter().for_each(&mut evicted);
                self.lists.put(AM, key);
            }
            _ => {
                self.reclaim().into_iter().for_each(&mut evicted);
                self.lists.put(A1IN, key);
            }
        }
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        matches!(self.lists.remove(key), A1IN | AM)
    }

    #[inline]
    fn contains(&self, key: u32) -> bool {
        matches!(self.lists.list(key), A1IN | AM)
    }

    fn len(&self) -> usize {
        self.lists.len(A1IN) + self.lists.len(AM)
    }
}
