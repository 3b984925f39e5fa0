//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023): three
//! queues. A small one filters blocks that are used once, the main one gives second chances, and a
//! ghost queue remembers blocks that left the small one.
//!
//! Uses are counted up to 3. A block that was used more than once while in the small queue goes
//! from there to the main one, where its count starts anew.

use super::Replacement;
use super::placed::Placed;
use std::num::NonZeroU32;

/// The queues. The note of a block is its number of uses.
const SMALL: u8 = 1;
const MAIN: u8 = 2;
const GHOST: u8 = 3;
/// Uses are counted so far.
const MOST: u8 = 3;

/// Three static queues.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    capacity: usize,
    small: usize,
    main: usize,
    queues: Placed<4>,
}

impl S3Fifo {
    /// Returns an empty cache of `capacity` blocks, with the paper's 10 % of them (at least 1) for
    /// the small queue, and as many ghosts as the main queue has blocks.
    #[must_use]
    pub fn new(capacity: NonZeroU32) -> Self {
        let capacity = capacity.get() as usize;
        let small = (capacity / 10).max(1);
        Self { capacity, small, main: capacity - small, queues: Placed::new() }
    }

    /// Evicts a block from the end of the small queue, unless all have been used more than once.
    fn evict_small(&mut self) -> Option<u32> {
        while let Some(key) = self.queues.back(SMALL) {
            if self.queues.note(key) <= 1 {
                self.queues.put(GHOST, key);
                if self.queues.len(GHOST) > self.main {
                    self.queues.take_back(GHOST);
                }
                return Some(key);
            }
            self.queues.put(MAIN, key);
            if self.queues.len(MAIN) > self.main {
                return self.evict_main();
            }
        }
        None
    }

    fn evict_main(&mut self) -> Option<u32> {
        while let Some(key) = self.queues.back(MAIN) {
            let uses = self.queues.note(key);
            if uses == 0 {
                break;
            }
            self.queues.set_note(key, uses - 1);
            self.queues.bring_forward(key);
        }
        self.queues.take_back(MAIN)
    }

    fn evict(&mut self) -> Option<u32> {
        let from_small = if self.queues.len(SMALL) >= self.small { self.evict_small() } else { None };
        from_small.or_else(|| self.evict_main())
    }
}

impl Replacement for S3Fifo {
    #[inline]
    fn access(&mut self, key: u32, mut evicted: impl FnMut(u32)) -> bool {
        if self.contains(key) {
            let uses = self.queues.note(key);
            if uses < MOST {
                self.queues.set_note(key, uses + 1);
            }
            return true;
        }
        if self.len() == self.capacity {
            self.evict().into_iter().for_each(&mut evicted);
        }
        // Looked up only now, as in the paper: the ghost may just have been dropped.
        let queue = if self.queues.list(key) == GHOST { MAIN } else { SMALL };
        self.queues.put(queue, key);
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        matches!(self.queues.remove(key), SMALL | MAIN)
    }

    #[inline]
    fn contains(&self, key: u32) -> bool {
        matches!(self.queues.list(key), SMALL | MAIN)
    }

    fn len(&self) -> usize {
        self.queues.len(SMALL) + self.queues.len(MAIN)
    }
}
