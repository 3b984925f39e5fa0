//! OPT (Belady, "A study of replacement algorithms for a virtual-storage computer", 1966): it
//! evicts the block whose next use is the latest. No policy has fewer misses, so it is the bound
//! for all others. It needs to know the future.

use super::marks::Marks;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;

/// The optimal policy: each access states when the block is used again.
#[derive(Clone, Debug)]
pub struct Opt {
    capacity: usize,
    len: usize,
    present: Marks,
    /// When each block is used next.
    next: Vec<u64>,
    /// Blocks by next use, with outdated entries among them.
    heap: BinaryHeap<(u64, u32)>,
}

impl Opt {
    /// For a block that is not used again before it is removed.
    pub const NEVER: u64 = u64::MAX;

    /// Returns an empty cache of `capacity` blocks.
    #[must_use]
    pub fn new(capacity: NonZeroU32) -> Self {
        Self {
            capacity: capacity.get() as usize,
            len: 0,
            present: Marks::default(),
            next: Vec::new(),
            heap: BinaryHeap::new(),
        }
    }

    /// Uses block `key`, which will be used again at time `next`, and returns true if it was in the
    /// cache. Otherwise it is brought in, and `evicted` is called with each block that had to leave
    /// for it. Time may have any unit that increases with each access.
    pub fn access(&mut self, key: u32, next: u64, mut evicted: impl FnMut(u32)) -> bool {
        let hit = self.contains(key);
        if !hit {
            if self.len == self.capacity {
                self.evict().into_iter().for_each(&mut evicted);
            }
            self.present.set(key, 1);
            self.len += 1;
        }
        if key as usize >= self.next.len() {
            self.next.resize(key as usize + 1, Self::NEVER);
        }
        self.next[key as usize] = next;
        self.heap.push((next, key));
        if self.heap.len() > 2 * self.capacity + 64 {
            let (present, uses) = (&self.present, &self.next);
            self.heap.retain(|&(next, key)| present.get(key) == 1 && uses[key as usize] == next);
        }
        hit
    }

    fn evict(&mut self) -> Option<u32> {
        while let Some((next, key)) = self.heap.pop() {
            if self.contains(key) && self.next[key as usize] == next {
                self.remove(key);
                return Some(key);
            }
        }
        None
    }

    /// Removes a block as [`super::Replacement::remove`] does.
    pub fn remove(&mut self, key: u32) -> bool {
        let there = self.contains(key);
        if there {
            self.present.set(key, 0);
            self.len -= 1;
        }
        there
    }

    /// Returns true if block `key` is in the cache.
    #[must_use]
    pub fn contains(&self, key: u32) -> bool {
        self.present.get(key) != 0
    }

    /// Returns the number of blocks in the cache.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the cache is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}
