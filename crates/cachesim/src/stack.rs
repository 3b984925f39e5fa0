//! LRU caches of all sizes and with all write policies, in one pass.
//!
//! The contents of a cache do not depend on when it writes, so the depths of one [stack](Depths)
//! give the misses of all. Writes follow Thompson and Smith ("Efficient (stack) algorithms for
//! analysis of write-back and sector memories", 1989). After a write, a block is dirty in every
//! cache. As it sinks, caches smaller than its depth write and evict it. Its depth only grows
//! between two accesses, so the caches in which it is still dirty are those from some size up, its
//! *level*: one level for each block and policy is enough. The level is updated at the block's next
//! access (or its deletion, or the end), when all caches from the level to the depth are known to
//! have written it once. A flush writes a block in all caches from its level up; those smaller than
//! its depth at that time have written it before.
//!
//! Levels are indices of the requested sizes, so the results are exact for these.

use super::blocks::{Access, Op};
use super::counts::{Counts, Write};
use super::flushes::Flushes;
use crate::curve::Stack as Depths;

/// Level of a block that is clean in all caches.
const CLEAN: u16 = u16::MAX;
/// Level of such a block that is still on the list for the next flush.
const LISTED: u16 = u16::MAX - 1;
/// Maximum number of sizes in one pass.
pub(super) const MAX_SIZES: usize = 4096;

/// The state of one write policy for caches of several sizes.
struct WriteState {
    policy: Write,
    levels: Vec<u16>,
    flushes: Option<Flushes>,
    /// Number of blocks written, as differences between each size and the one before it.
    written: Vec<i64>,
    /// Number of dirty blocks deleted, in the sizes from this one up.
    dropped: Vec<u64>,
    left: Vec<u64>,
}

impl WriteState {
    fn new(policy: Write, sizes: usize) -> Self {
        let flushes = if let Write::Flush(every) = policy { Some(Flushes::new(every)) } else { None };
        Self {
            policy,
            levels: Vec::new(),
            flushes,
            written: vec![0; sizes + 1],
            dropped: vec![0; sizes + 1],
            left: vec![0; sizes + 1],
        }
    }

    /// Counts a write of a block in the sizes from `level` to before `stop`.
    fn write(&mut self, level: u16, stop: usize) {
        self.written[level as usize] += 1;
        self.written[stop] -= 1;
    }

    /// Writes the modified blocks if a flush is due.
    fn flush(&mut self, now: i64, sizes: usize) {
        let Some(flushes) = &mut self.flushes else { return };
        for block in flushes.due(now) {
            let level = std::mem::replace(&mut self.levels[block as usize], CLEAN);
            if usize::from(level) < sizes {
                self.written[usize::from(level)] += 1;
                self.written[sizes] -= 1;
            }
        }
    }

    /// Updates the level of a block that is accessed or deleted; `held` is the index of the
    /// smallest size that holds it. Returns the new level.
    fn settle(&mut self, block: u32, held: usize, sizes: usize) -> u16 {
        let level = self.levels[block as usize];
        if usize::from(level) >= held || level >= LISTED {
            return level;
        }
        self.write(level, held);
        let listed = if self.flushes.is_some() { LISTED } else { CLEAN };
        // Sizes are at most MAX_SIZES.
        let level = if held < sizes { u16::try_from(held).unwrap_or(CLEAN) } else { listed };
        self.levels[block as usize] = level;
        level
    }

    fn access(&mut self, access: Access, held: usize, sizes: usize) {
        if self.policy == Write::Through {
            return;
        }
        let block = access.block;
        if block as usize >= self.levels.len() {
            self.levels.resize(block as usize + 1, CLEAN);
        }
        let level = self.settle(block, held, sizes);
        match access.op {
            Op::Read => {}
            Op::Modify | Op::Overwrite => {
                self.levels[block as usize] = 0;
                if let Some(flushes) = self.flushes.as_mut().filter(|_| level == CLEAN) {
                    flushes.list(block);
                }
            }
            Op::Delete | Op::Sync => {
                match usize::from(level) {
                    level if level >= sizes => {}
                    level if access.op == Op::Delete => self.dropped[level] += 1,
                    _ => self.write(level, sizes),
                }
                let listed = level != CLEAN && self.flushes.is_some();
                self.levels[block as usize] = if listed { LISTED } else { CLEAN };
            }
        }
    }
}

/// LRU caches of several sizes.
pub struct Stack {
    /// Sizes in blocks, ascending.
    sizes: Vec<u32>,
    depths: Depths,
    reads: u64,
    writes: u64,
    /// Number of disk reads in the sizes before this one.
    missed: Vec<u64>,
    write_states: Vec<WriteState>,
}

impl Stack {
    /// Returns caches of these sizes (in blocks, ascending, without duplicates, at most 4096) and
    /// write policies.
    ///
    /// # Panics
    /// Panics if the sizes are not as required.
    #[must_use]
    pub fn new(sizes: &[u32], writes: &[Write]) -> Self {
        assert!(sizes.len() <= MAX_SIZES && sizes.is_sorted_by(|a, b| a < b), "sizes ascend");
        let depths = Depths::default();
        let write_states = writes.iter().map(|&policy| WriteState::new(policy, sizes.len())).collect();
        Self {
            sizes: sizes.to_vec(),
            depths,
            reads: 0,
            writes: 0,
            missed: vec![0; sizes.len() + 1],
            write_states,
        }
    }

    /// Sets the time of the first event, from which the intervals of flushes count.
    pub fn start(&mut self, time: i64) {
        self.write_states.iter_mut().filter_map(|state| state.flushes.as_mut()).for_each(|f| f.start(time));
    }

    /// Processes accesses.
    pub fn take(&mut self, accesses: &[Access]) {
        let sizes = self.sizes.len();
        for &access in accesses {
            for state in &mut self.write_states {
                state.flush(access.time, sizes);
            }
            let depth = match access.op {
                Op::Delete | Op::Sync => self.depths.depth(access.block),
                _ => self.depths.access(access.block),
            };
            // The index of the smallest size that holds the block.
            let held = depth.map_or(sizes, |depth| self.sizes.partition_point(|&size| size < depth));
            for state in &mut self.write_states {
                state.access(access, held, sizes);
            }
            match access.op {
                Op::Delete => {
                    self.depths.remove(access.block);
                }
                Op::Sync => {}
                Op::Read => self.reads += 1,
                Op::Modify | Op::Overwrite => self.writes += 1,
            }
            if matches!(access.op, Op::Read | Op::Modify) {
                self.missed[held] += 1;
            }
        }
    }

    /// Returns the counts of each cache at the end of the trace, at time `end`, by write policy and
    /// size, in order.
    #[must_use]
    pub fn finish(mut self, end: i64) -> Vec<Vec<Counts>> {
        let sizes = self.sizes.len();
        for state in &mut self.write_states {
            state.flush(end, sizes);
            for block in 0..u32::try_from(state.levels.len()).unwrap_or(u32::MAX) {
                let Some(depth) = self.depths.depth(block) else { continue };
                let held = self.sizes.partition_point(|&size| size < depth);
                let level = usize::from(state.settle(block, held, sizes));
                if level < sizes {
                    state.left[level] += 1;
                }
            }
        }
        let Self { reads, writes, missed, write_states, .. } = self;
        let counts = |state: &WriteState| {
            let (mut written, mut dropped, mut left) = (0, 0, 0);
            let mut disk_reads: u64 = missed.iter().sum();
            let one = |n: usize| {
                disk_reads -= missed[n];
                written += state.written[n];
                dropped += state.dropped[n];
                left += state.left[n];
                let through = state.policy == Write::Through;
                let disk_writes = if through { writes } else { u64::try_from(written).unwrap_or(0) };
                Counts { reads, writes, disk_reads, disk_writes, dropped, left }
            };
            (0..sizes).map(one).collect()
        };
        write_states.iter().map(counts).collect()
    }
}
