//! An LRU cache of all sizes and under all policies of writing, in one pass.
//!
//! Which blocks a cache holds does not depend on when it writes, so the depths of one
//! [stack](Depths) tell the misses of all. For writes, the argument of Thompson and Smith
//! ("Efficient (stack) algorithms for analysis of write-back and sector memories", 1989): after a
//! write a block is dirty in every cache; as it sinks, those that are smaller than it is deep write
//! it and push it out; and as a depth only grows between two accesses of a block, the caches in
//! which it is still dirty are those from some size up, its *level*. So a level for each block and
//! policy is enough. It is brought up to date at the block's next access (or deletion, or the end),
//! when all caches from the level to the depth are known to have written it once. A flush writes a
//! block in all caches from its level up, those that are smaller than its depth at that time having
//! done so before.
//!
//! Levels are indices of the sizes that are asked for, so results are exact for these.

use super::blocks::{Access, Op};
use super::counts::{Counts, Write};
use super::flushes::Flushes;
use crate::curve::Stack as Depths;

/// The level of a block that is clean in all caches.
const CLEAN: u16 = u16::MAX;
/// The same, while the block is on the list for the next flush.
const LISTED: u16 = u16::MAX - 1;
/// Most sizes of one pass.
pub(super) const SIZES: usize = 4096;

/// Caches of several sizes that write by one policy.
struct Writing {
    policy: Write,
    levels: Vec<u16>,
    flushes: Option<Flushes>,
    /// Blocks written, as differences between a size and the one before it.
    written: Vec<i64>,
    /// Dirty blocks deleted, in the sizes from this one up.
    dropped: Vec<u64>,
    left: Vec<u64>,
}

impl Writing {
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

    /// The caches of these sizes write a block.
    fn write(&mut self, level: u16, stop: usize) {
        self.written[level as usize] += 1;
        self.written[stop] -= 1;
    }

    /// Modified blocks go if it is time for that.
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

    /// Returns a block whose depth is within size number `held` and not below is accessed or
    /// deleted.
    fn settle(&mut self, block: u32, held: usize, sizes: usize) -> u16 {
        let level = self.levels[block as usize];
        if usize::from(level) >= held || level >= LISTED {
            return level;
        }
        self.write(level, held);
        let listed = if self.flushes.is_some() { LISTED } else { CLEAN };
        // Sizes are at most SIZES.
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
            Op::Delete => {
                if usize::from(level) < sizes {
                    self.dropped[usize::from(level)] += 1;
                }
                let listed = level != CLEAN && self.flushes.is_some();
                self.levels[block as usize] = if listed { LISTED } else { CLEAN };
            }
        }
    }
}

/// LRU caches of several sizes.
pub struct Stack {
    /// In blocks, ascending.
    sizes: Vec<u32>,
    depths: Depths,
    reads: u64,
    writes: u64,
    /// Disk reads in the sizes before this one.
    missed: Vec<u64>,
    writings: Vec<Writing>,
}

impl Stack {
    /// Caches of these sizes (in blocks, ascending, each once, at most 4096 of them) and policies
    /// of writing.
    ///
    /// # Panics
    /// If the sizes are not so.
    #[must_use]
    pub fn new(sizes: &[u32], writes: &[Write]) -> Self {
        assert!(sizes.len() <= SIZES && sizes.is_sorted_by(|a, b| a < b), "sizes ascend");
        let depths = Depths::default();
        let writings = writes.iter().map(|&policy| Writing::new(policy, sizes.len())).collect();
        Self {
            sizes: sizes.to_vec(),
            depths,
            reads: 0,
            writes: 0,
            missed: vec![0; sizes.len() + 1],
            writings,
        }
    }

    /// The time of the trace's first event: flushes come at intervals from there.
    pub fn start(&mut self, time: i64) {
        self.writings.iter_mut().filter_map(|writing| writing.flushes.as_mut()).for_each(|f| f.start(time));
    }

    /// Takes the next accesses.
    pub fn take(&mut self, accesses: &[Access]) {
        let sizes = self.sizes.len();
        for &access in accesses {
            for writing in &mut self.writings {
                writing.flush(access.time, sizes);
            }
            let depth = match access.op {
                Op::Delete => self.depths.depth(access.block),
                _ => self.depths.access(access.block),
            };
            // The number of the smallest size that holds it.
            let held = depth.map_or(sizes, |depth| self.sizes.partition_point(|&size| size < depth));
            for writing in &mut self.writings {
                writing.access(access, held, sizes);
            }
            match access.op {
                Op::Delete => {
                    self.depths.remove(access.block);
                }
                Op::Read => self.reads += 1,
                Op::Modify | Op::Overwrite => self.writes += 1,
            }
            if matches!(access.op, Op::Read | Op::Modify) {
                self.missed[held] += 1;
            }
        }
    }

    /// Returns what each cache did until the trace's last event, at `end`, by policy of writing and
    /// size, in their orders.
    #[must_use]
    pub fn finish(mut self, end: i64) -> Vec<Vec<Counts>> {
        let sizes = self.sizes.len();
        for writing in &mut self.writings {
            writing.flush(end, sizes);
            for block in 0..u32::try_from(writing.levels.len()).unwrap_or(u32::MAX) {
                let Some(depth) = self.depths.depth(block) else { continue };
                let held = self.sizes.partition_point(|&size| size < depth);
                let level = usize::from(writing.settle(block, held, sizes));
                if level < sizes {
                    writing.left[level] += 1;
                }
            }
        }
        let Self { reads, writes, missed, writings, .. } = self;
        let counts = |writing: &Writing| {
            let (mut written, mut dropped, mut left) = (0, 0, 0);
            let mut disk_reads: u64 = missed.iter().sum();
            let one = |n: usize| {
                disk_reads -= missed[n];
                written += writing.written[n];
                dropped += writing.dropped[n];
                left += writing.left[n];
                let through = writing.policy == Write::Through;
                let disk_writes = if through { writes } else { u64::try_from(written).unwrap_or(0) };
                Counts { reads, writes, disk_reads, disk_writes, dropped, left }
            };
            (0..sizes).map(one).collect()
        };
        writings.iter().map(counts).collect()
    }
}
