//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023): three queues. A small one filters what is used
//! once, the main one gives second chances, and a ghost queue knows what the small one has lost.
//!
//! Uses are counted up to 3. A block that was used more than once while in the small queue goes from there to the main one,
//! where its count starts anew.

use super::Replacement;
use super::marks::Marks;
use crate::policy::list::Lists;
use std::num::NonZeroU32;

/// The lists, which are the upper bits of the marks; 0 is in none. The lower two bits count uses.
const SMALL: u8 = 1;
const MAIN: u8 = 2;
const GHOST: u8 = 3;
const USES: u8 = 3;

/// Three static queues.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    capacity: usize,
    small: usize,
    main: usize,
    marks: Marks,
    lists: Lists<4>,
}

impl S3Fifo {
    /// An empty cache of `capacity` blocks, with the paper's 10 % of them (at least 1) for the small queue, and as many ghosts
    /// as the main queue has blocks.
    #[must_use]
    pub fn new(capacity: NonZeroU32) -> Self {
        let capacity = capacity.get() as usize;
        let small = (capacity / 10).max(1);
        Self { capacity, small, main: capacity - small, marks: Marks::default(), lists: Lists::new() }
    }

    fn put(&mut self, list: u8, key: u32) {
        self.lists.push_front(list.into(), key);
        self.marks.set(key, list << 2);
    }

    /// Takes a block out of the small queue's end, unless all have been used more than once.
    fn evict_small(&mut self) -> Option<u32> {
        while let Some(key) = self.lists.pop_back(SMALL.into()) {
            if self.marks.get(key) & USES <= 1 {
                self.put(GHOST, key);
                if self.lists.len(GHOST.into()) > self.main
                    && let Some(forgotten) = self.lists.pop_back(GHOST.into())
                {
                    self.marks.set(forgotten, 0);
                }
                return Some(key);
            }
            self.put(MAIN, key);
            if self.lists.len(MAIN.into()) > self.main {
                return self.evict_main();
            }
        }
        None
    }

    fn evict_main(&mut self) -> Option<u32> {
        while let Some(key) = self.lists.back(MAIN.into()) {
            let mark = self.marks.get(key);
            if mark & USES == 0 {
                self.lists.unlink(MAIN.into(), key);
                self.marks.set(key, 0);
                return Some(key);
            }
            self.marks.set(key, mark - 1);
            self.lists.bring_forward(MAIN.into(), key);
        }
        None
    }

    fn evict(&mut self) -> Option<u32> {
        let from_small = if self.lists.len(SMALL.into()) >= self.small { self.evict_small() } else { None };
        from_small.or_else(|| self.evict_main())
    }
}

impl Replacement for S3Fifo {
    #[inline]
    fn access(&mut self, key: u32, mut evicted: impl FnMut(u32)) -> bool {
        let mark = self.marks.get(key);
        if self.contains(key) {
            if mark & USES < USES {
                self.marks.set(key, mark + 1);
            }
            return true;
        }
        self.lists.reach(key);
        if self.len() == self.capacity {
            self.evict().into_iter().for_each(&mut evicted);
        }
        // Asked only now, as in the paper: the ghost may just have been forgotten.
        if self.marks.get(key) >> 2 == GHOST {
            self.lists.unlink(GHOST.into(), key);
            self.put(MAIN, key);
        } else {
            self.put(SMALL, key);
        }
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        let list = self.marks.get(key) >> 2;
        if list != 0 {
            self.lists.unlink(list.into(), key);
            self.marks.set(key, 0);
        }
        list == SMALL || list == MAIN
    }

    #[inline]
    fn contains(&self, key: u32) -> bool {
        matches!(self.marks.get(key) >> 2, SMALL | MAIN)
    }

    fn len(&self) -> usize {
        self.lists.len(SMALL.into()) + self.lists.len(MAIN.into())
    }
}
