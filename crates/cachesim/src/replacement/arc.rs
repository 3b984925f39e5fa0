//! ARC (Megiddo and Modha, FAST 2003): blocks used once (T1) and more often (T2) share the cache,
//! and the lists of what either has lost (B1, B2) move the border between them. It has no
//! parameters.
//!
//! Without removals the directory is full whenever the cache is, as the paper has it; after some
//! there is room, and then nothing is replaced.

use super::Replacement;
use super::placed::Placed;
use std::num::NonZeroU32;

/// The lists.
const T1: u8 = 1;
const T2: u8 = 2;
const B1: u8 = 3;
const B2: u8 = 4;

/// The adaptive replacement cache.
#[derive(Clone, Debug)]
pub struct Arc {
    capacity: usize,
    /// How many blocks T1 is to have: the paper's p.
    target: f64,
    lists: Placed<5>,
}

impl Arc {
    /// Returns an empty cache of `capacity` blocks.
    #[must_use]
    pub fn new(capacity: NonZeroU32) -> Self {
        Self { capacity: capacity.get() as usize, target: 0.0, lists: Placed::new() }
    }

    /// Returns the paper's REPLACE, if the cache is full.
    fn replace(&mut self, hit_b2: bool) -> Option<u32> {
        if self.len() < self.capacity {
            return None;
        }
        let t1 = real(self.lists.len(T1));
        let from_t1 = t1 > self.target || (hit_b2 && t1 >= self.target);
        let (from, to) = if t1 > 0.0 && from_t1 { (T1, B1) } else { (T2, B2) };
        let key = self.lists.back(from)?;
        self.lists.put(to, key);
        Some(key)
    }

    /// Makes room for a block that is in no list (the paper's case IV).
    fn make_room(&mut self) -> Option<u32> {
        let (l1, l2) = (self.lists.len(T1) + self.lists.len(B1), self.lists.len(T2) + self.lists.len(B2));
        if l1 == self.capacity {
            if self.lists.len(T1) == self.capacity {
                return self.lists.take_back(T1);
            }
            self.lists.take_back(B1);
        } else if l1 + l2 == 2 * self.capacity {
            self.lists.take_back(B2);
        }
        self.replace(false)
    }
}

impl Replacement for Arc {
    #[inline]
    fn access(&mut self, key: u32, mut evicted: impl FnMut(u32)) -> bool {
        match self.lists.list(key) {
            T1 | T2 => {
                self.lists.put(T2, key);
                return true;
            }
            ghost @ (B1 | B2) => {
                let (b1, b2) = (real(self.lists.len(B1)), real(self.lists.len(B2)));
                self.target = if ghost == B1 {
                    (self.target + (b2 / b1).max(1.0)).min(real(self.capacity))
                } else {
                    (self.target - (b1 / b2).max(1.0)).max(0.0)
                };
                let gone = self.replace(ghost == B2);
                self.lists.put(T2, key);
                gone.into_iter().for_each(&mut evicted);
            }
            _ => {
                self.make_room().into_iter().for_each(&mut evicted);
                self.lists.put(T1, key);
            }
        }
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        matches!(self.lists.remove(key), T1 | T2)
    }

    #[inline]
    fn contains(&self, key: u32) -> bool {
        matches!(self.lists.list(key), T1 | T2)
    }

    fn len(&self) -> usize {
        self.lists.len(T1) + self.lists.len(T2)
    }
}

/// Returns a number of blocks, which is below 2^33.
#[expect(clippy::cast_precision_loss)]
const fn real(blocks: usize) -> f64 {
    blocks as f64
}
