//! CLOCK (Corbató, "A Paging Experiment with the Multics System", 1969): the hand passes blocks that were used since it came by last.
//!
//! Here a block that comes in counts as unused until it is used again (second chance, FIFO with reinsertion). The
//! circle is a queue whose back is at the hand.

use super::Replacement;
use super::marks::Marks;
use crate::policy::list::Lists;
use std::num::NonZeroU32;

const ABSENT: u8 = 0;
const UNUSED: u8 = 1;
const USED: u8 = 2;

/// One bit of use, and a hand that goes around.
#[derive(Clone, Debug)]
pub struct Clock {
    capacity: usize,
    marks: Marks,
    circle: Lists<1>,
}

impl Clock {
    /// An empty cache of `capacity` blocks.
    #[must_use]
    pub fn new(capacity: NonZeroU32) -> Self {
        Self { capacity: capacity.get() as usize, marks: Marks::default(), circle: Lists::new() }
    }

    fn evict(&mut self) -> Option<u32> {
        while let Some(key) = self.circle.back(0) {
            if self.marks.get(key) == UNUSED {
                self.circle.unlink(0, key);
                self.marks.set(key, ABSENT);
                return Some(key);
            }
            self.marks.set(key, UNUSED);
            self.circle.bring_forward(0, key);
        }
        None
    }
}

impl Replacement for Clock {
    #[inline]
    fn access(&mut self, key: u32, mut evicted: impl FnMut(u32)) -> bool {
        if self.marks.get(key) != ABSENT {
            self.marks.set(key, USED);
            return true;
        }
        if self.circle.len(0) == self.capacity {
            self.evict().into_iter().for_each(&mut evicted);
        }
        self.circle.reach(key);
        self.circle.push_front(0, key);
        self.marks.set(key, UNUSED);
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        let there = self.contains(key);
        if there {
            self.circle.unlink(0, key);
            self.marks.set(key, ABSENT);
        }
        there
    }

    #[inline]
    fn contains(&self, key: u32) -> bool {
        self.marks.get(key) != ABSENT
    }

    fn len(&self) -> usize {
        self.circle.len(0)
    }
}
