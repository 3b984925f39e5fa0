//! SIEVE (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024): a hand walks from the oldest block
//! to the newest, spares used blocks and evicts the first unused one. Spared blocks keep their
//! place, so new blocks are tried before old ones that were used.

use super::Replacement;
use super::placed::{NONE, Placed};
use std::num::NonZeroU32;

/// The only list.
const QUEUE: u8 = 1;
/// The note of a block that was used since the hand came by.
const UNUSED: u8 = 0;
const USED: u8 = 1;

/// A queue with a hand that does not move spared blocks.
#[derive(Clone, Debug)]
pub struct Sieve {
    capacity: usize,
    blocks: Placed<2>,
    /// The block to look at next; none: the oldest.
    hand: Option<u32>,
}

impl Sieve {
    /// Returns an empty cache of `capacity` blocks.
    #[must_use]
    pub fn new(capacity: NonZeroU32) -> Self {
        Self { capacity: capacity.get() as usize, blocks: Placed::new(), hand: None }
    }

    fn evict(&mut self) -> Option<u32> {
        while let Some(key) = self.hand.or_else(|| self.blocks.back(QUEUE)) {
            self.hand = self.blocks.before(key);
            if self.blocks.note(key) == UNUSED {
                self.blocks.remove(key);
                return Some(key);
            }
            self.blocks.set_note(key, UNUSED);
        }
        None
    }
}

impl Replacement for Sieve {
    #[inline]
    fn access(&mut self, key: u32, mut evicted: impl FnMut(u32)) -> bool {
        if self.contains(key) {
            self.blocks.set_note(key, USED);
            return true;
        }
        if self.len() == self.capacity {
            self.evict().into_iter().for_each(&mut evicted);
        }
        self.blocks.put(QUEUE, key);
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        if self.hand == Some(key) {
            self.hand = self.blocks.before(key);
        }
        self.blocks.remove(key) != NONE
    }

    #[inline]
    fn contains(&self, key: u32) -> bool {
        self.blocks.list(key) != NONE
    }

    fn len(&self) -> usize {
        self.blocks.len(QUEUE)
    }
}
