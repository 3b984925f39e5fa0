//! CLOCK (Corbató, "A Paging Experiment with the Multics System", 1969): the hand passes blocks
//! that were used since it came by last.
//!
//! Here a block that comes in counts as unused until it is used again (second chance, FIFO with
//! reinsertion). The circle is a queue whose back is at the hand.

use super::Replacement;
use super::placed::{NONE, Placed};
use std::num::NonZeroU32;

/// The only list.
const CIRCLE: u8 = 1;
/// The note of a block that was used since the hand came by.
const UNUSED: u8 = 0;
const USED: u8 = 1;

/// One bit of use, and a hand that goes around.
#[derive(Clone, Debug)]
pub struct Clock {
    capacity: usize,
    blocks: Placed<2>,
}

impl Clock {
    /// Returns an empty cache of `capacity` blocks.
    #[must_use]
    pub fn new(capacity: NonZeroU32) -> Self {
        Self { capacity: capacity.get() as usize, blocks: Placed::new() }
    }

    fn evict(&mut self) -> Option<u32> {
        while let Some(key) = self.blocks.back(CIRCLE) {
            if self.blocks.note(key) == UNUSED {
                break;
            }
            self.blocks.put(CIRCLE, key);
        }
        self.blocks.take_back(CIRCLE)
    }
}

impl Replacement for Clock {
    #[inline]
    fn access(&mut self, key: u32, mut evicted: impl FnMut(u32)) -> bool {
        if self.contains(key) {
            self.blocks.set_note(key, USED);
            return true;
        }
        if self.len() == self.capacity {
            self.evict().into_iter().for_each(&mut evicted);
        }
        self.blocks.put(CIRCLE, key);
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        self.blocks.remove(key) != NONE
    }

    #[inline]
    fn contains(&self, key: u32) -> bool {
        self.blocks.list(key) != NONE
    }

    fn len(&self) -> usize {
        self.blocks.len(CIRCLE)
    }
}
