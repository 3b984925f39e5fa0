//! LIRS (Jiang and Zhang, SIGMETRICS 2002): blocks used twice within a short distance (LIR) fill
//! the cache but for a hundredth, through which all others (HIR) pass.
//!
//! The stack S orders blocks by last use: all LIR blocks, and what was used since the oldest of
//! them, present or not. The queue Q has the HIR blocks that are present. At the bottom of S is a
//! LIR block, always.
//!
//! The paper's warm-up rule, that blocks become LIR while there are too few, holds again after
//! removals. S is not bounded, as in the paper: its links have a place for each block number
//! anyway.

use super::Replacement;
use super::marks::Marks;
use spindle_cache::policy::Lists;
use std::num::NonZeroU32;

const NEITHER: u8 = 0;
const LIR: u8 = 1;
/// Present, in Q, and perhaps in S.
const HIR: u8 = 2;
/// Not present, in S.
const GHOST: u8 = 3;

/// Low inter-reference recency set.
#[derive(Clone, Debug)]
pub struct Lirs {
    capacity: usize,
    /// The paper's `Llirs`: how many blocks may be LIR.
    lir_capacity: usize,
    lir: usize,
    marks: Marks,
    stack: Lists<1>,
    queue: Lists<1>,
}

impl Lirs {
    /// Returns an empty cache of `capacity` blocks, with the paper's `Lhirs` of 1 % of them, at
    /// least 1.
    #[must_use]
    pub fn new(capacity: NonZeroU32) -> Self {
        let capacity = capacity.get() as usize;
        Self {
            capacity,
            lir_capacity: capacity - (capacity / 100).max(1),
            lir: 0,
            marks: Marks::default(),
            stack: Lists::new(),
            queue: Lists::new(),
        }
    }

    /// Removes blocks that are not LIR from the bottom of S.
    fn prune(&mut self) {
        while let Some(key) = self.stack.back(0) {
            match self.marks.get(key) {
                LIR => return,
                GHOST => self.marks.set(key, NEITHER),
                _ => {}
            }
            self.stack.unlink(0, key);
        }
    }

    /// Puts a block on top of S; true if it was in S already.
    fn use_now(&mut self, key: u32) -> bool {
        let known = self.stack.holds(key);
        if known {
            self.stack.bring_forward(0, key);
        } else {
            self.stack.push_front(0, key);
        }
        known
    }

    /// Brings in a block that is neither LIR nor in Q: as LIR if S `knew` it or there are too few
    /// LIR blocks.
    fn enter(&mut self, key: u32, knew: bool) {
        if self.lir_capacity > 0 && (knew || self.lir < self.lir_capacity) {
            self.marks.set(key, LIR);
            self.lir += 1;
            if self.lir > self.lir_capacity
                && let Some(oldest) = self.stack.pop_back(0)
            {
                self.lir -= 1;
                self.queue.push_front(0, oldest);
                self.marks.set(oldest, HIR);
            }
        } else {
            self.marks.set(key, HIR);
            self.queue.push_front(0, key);
        }
        self.prune();
    }
}

impl Replacement for Lirs {
    #[inline]
    fn access(&mut self, key: u32, mut evicted: impl FnMut(u32)) -> bool {
        let mark = self.marks.get(key);
        match mark {
            LIR => {
                self.stack.bring_forward(0, key);
                self.prune();
            }
            HIR => {
                self.queue.unlink(0, key);
                let knew = self.use_now(key);
                self.enter(key, knew);
            }
            _ => {
                self.stack.reach(key);
                self.queue.reach(key);
                if self.len() == self.capacity
                    && let Some(victim) = self.queue.pop_back(0)
                {
                    self.marks.set(victim, if self.stack.holds(victim) { GHOST } else { NEITHER });
                    evicted(victim);
                }
                let knew = self.use_now(key);
                self.enter(key, knew);
            }
        }
        mark == LIR || mark == HIR
    }

    fn remove(&mut self, key: u32) -> bool {
        let mark = self.marks.get(key);
        self.marks.set(key, NEITHER);
        if self.stack.holds(key) {
            self.stack.unlink(0, key);
        }
        match mark {
            LIR => {
                self.lir -= 1;
                self.prune();
            }
            HIR => self.queue.unlink(0, key),
            _ => {}
        }
        mark == LIR || mark == HIR
    }

    #[inline]
    fn contains(&self, key: u32) -> bool {
        matches!(self.marks.get(key), LIR | HIR)
    }

    fn len(&self) -> usize {
        self.lir + self.queue.len(0)
    }
}
