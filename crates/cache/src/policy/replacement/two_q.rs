//! 2Q, full version (Johnson and Shasha, VLDB 1994): a block must be asked for again after it has left a short queue before it may
//! enter the long-lived list.
//!
//! Where the paper leaves no block to give up (a cache of one block), the queue's oldest goes.

use super::Replacement;
use super::marks::Marks;
use crate::policy::list::Lists;
use std::num::NonZeroU32;

/// The lists, which are also the marks of the blocks in them; 0 is in none.
const A1IN: u8 = 1;
const A1OUT: u8 = 2;
const AM: u8 = 3;

/// Two queues and a list.
#[derive(Clone, Debug)]
pub struct TwoQ {
    capacity: usize,
    kin: usize,
    kout: usize,
    marks: Marks,
    lists: Lists<4>,
}

impl TwoQ {
    /// An empty cache of `capacity` blocks, with the paper's `Kin` of 25 % of them and `Kout` of 50 %, each at least 1.
    #[must_use]
    pub fn new(capacity: NonZeroU32) -> Self {
        let capacity = capacity.get() as usize;
        Self {
            capacity,
            kin: (capacity / 4).max(1),
            kout: (capacity / 2).max(1),
            marks: Marks::default(),
            lists: Lists::new(),
        }
    }

    fn put(&mut self, list: u8, key: u32) {
        self.lists.push_front(usize::from(list), key);
        self.marks.set(key, list);
    }

    fn take(&mut self, list: u8) -> Option<u32> {
        let key = self.lists.pop_back(usize::from(list))?;
        self.marks.set(key, 0);
        Some(key)
    }

    /// The paper's `reclaimfor`.
    fn reclaim(&mut self) -> Option<u32> {
        if self.len() < self.capacity {
            return None;
        }
        let from_queue = self.lists.len(A1IN.into()) > self.kin || self.lists.len(AM.into()) == 0;
        if !from_queue {
            return self.take(AM);
        }
        let key = self.take(A1IN)?;
        self.put(A1OUT, key);
        if self.lists.len(A1OUT.into()) > self.kout {
            self.take(A1OUT);
        }
        Some(key)
    }
}

impl Replacement for TwoQ {
    #[inline]
    fn access(&mut self, key: u32, mut evicted: impl FnMut(u32)) -> bool {
        match self.marks.get(key) {
            A1IN => return true,
            AM => {
                self.lists.bring_forward(AM.into(), key);
                return true;
            }
            A1OUT => {
                self.lists.unlink(A1OUT.into(), key);
                self.reclaim().into_iter().for_each(&mut evicted);
                self.put(AM, key);
            }
            _ => {
                self.lists.reach(key);
                self.reclaim().into_iter().for_each(&mut evicted);
                self.put(A1IN, key);
            }
        }
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        let list = self.marks.get(key);
        if list != 0 {
            self.lists.unlink(list.into(), key);
            self.marks.set(key, 0);
        }
        list == A1IN || list == AM
    }

    #[inline]
    fn contains(&self, key: u32) -> bool {
        matches!(self.marks.get(key), A1IN | AM)
    }

    fn len(&self) -> usize {
        self.lists.len(A1IN.into()) + self.lists.len(AM.into())
    }
}
