//! A cache of one size with any replacement policy, and with all write policies at once, because
//! its contents do not depend on when it writes.
//!
//! Besides counts it measures *ages*: how long blocks stay in the cache, and how long they are
//! dirty, which is what a crash would lose (1985 paper, 6.2: with 4 Mbytes 20% of all blocks stay
//! longer than 20 minutes).

use super::blocks::{Access, Op};
use super::counts::{Counts, Write};
use super::flushes::Flushes;
use crate::replacement::{Policy, PolicyName, Replacement};
use spindle_report::number::share;
use std::num::NonZeroU32;

/// Distribution of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    counts: [u64; Ages::OVER.len() + 1],
}

impl Ages {
    /// Bounds between the classes of durations, in seconds.
    pub const OVER: [u32; 6] = [5, 30, 300, 1200, 3600, 86400];

    fn add(&mut self, tenths: u32) {
        self.counts[Self::OVER.partition_point(|&seconds| seconds.saturating_mul(10) < tenths)] += 1;
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the share of durations longer than `OVER[which]`.
    #[must_use]
    pub fn over(&self, which: usize) -> f64 {
        share(self.counts.iter().skip(which + 1).sum(), self.len()).unwrap_or(0.0)
    }
}

/// Results of one cache with one write policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Numbers of blocks.
    pub counts: Counts,
    /// Durations for which blocks were dirty: from the first write to the write to the disk, their
    /// deletion, or the end of the trace.
    pub dirty: Ages,
}

struct WriteState {
    policy: Write,
    /// Time when a block was first modified, in tenths of a second after the start, plus 1; 0 if it
    /// is clean.
    since: Vec<u32>,
    /// Set for each block on the list for the next flush.
    listed: Vec<bool>,
    flushes: Option<Flushes>,
    outcome: Outcome,
}

impl WriteState {
    fn new(policy: Write) -> Self {
        let flushes = if let Write::Flush(every) = policy { Some(Flushes::new(every)) } else { None };
        Self { policy, since: Vec::new(), listed: Vec::new(), flushes, outcome: Outcome::default() }
    }

    /// Marks a block as clean; returns false if it already was.
    fn clean(&mut self, block: u32, now: u32) -> bool {
        let since = self.since.get_mut(block as usize).map_or(0, std::mem::take);
        if since > 0 {
            self.outcome.dirty.add(now.saturating_sub(since));
        }
        since > 0
    }

    fn flush(&mut self, time: i64, now: u32) {
        let Some(mut flushes) = self.flushes.take() else { return };
        for block in flushes.due(time) {
            self.listed[block as usize] = false;
            self.outcome.counts.disk_writes += u64::from(self.clean(block, now));
        }
        self.flushes = Some(flushes);
    }

    fn modify(&mut self, block: u32, now: u32) {
        if self.policy == Write::Through {
            self.outcome.counts.disk_writes += 1;
            return;
        }
        let at = block as usize;
        if at >= self.since.len() {
            self.since.resize(at + 1, 0);
        }
        if self.since[at] == 0 {
            self.since[at] = now;
        }
        if let Some(flushes) = &mut self.flushes {
            if at >= self.listed.len() {
                self.listed.resize(at + 1, false);
            }
            if !std::mem::replace(&mut self.listed[at], true) {
                flushes.list(block);
            }
        }
    }
}

/// A cache of one size.
pub struct Model {
    cache: Policy,
    start: i64,
    now: u32,
    reads: u64,
    writes: u64,
    disk_reads: u64,
    write_states: Vec<WriteState>,
    /// Time when each block entered the cache, in tenths of a second after the start.
    since: Vec<u32>,
    stays: Ages,
    evicted: Vec<u32>,
}

impl Model {
    /// Returns an empty cache of `capacity` blocks.
    #[must_use]
    pub fn new(policy: PolicyName, capacity: NonZeroU32, writes: &[Write]) -> Self {
        Self {
            cache: Policy::new(policy, capacity),
            start: 0,
            now: 1,
            reads: 0,
            writes: 0,
            disk_reads: 0,
            write_states: writes.iter().copied().map(WriteState::new).collect(),
            since: Vec::new(),
            stays: Ages::default(),
            evicted: Vec::new(),
        }
    }

    /// Sets the time of the first event, from which the intervals of flushes count.
    pub fn start(&mut self, time: i64) {
        self.start = time;
        self.write_states.iter_mut().filter_map(|state| state.flushes.as_mut()).for_each(|f| f.start(time));
    }

    /// Processes accesses.
    pub fn take(&mut self, accesses: &[Access]) {
        for access in accesses {
            self.proceed(access.time);
            let (block, now) = (access.block, self.now);
            if access.op == Op::Delete {
                if self.cache.remove(block) {
                    self.stays.add(now - self.since[block as usize]);
                }
                for state in &mut self.write_states {
                    state.outcome.counts.dropped += u64::from(state.clean(block, now));
                }
                continue;
            }
            if access.op == Op::Sync {
                for state in &mut self.write_states {
                    state.outcome.counts.disk_writes += u64::from(state.clean(block, now));
                }
                continue;
            }
            let hit = self.cache.access(block, |block| self.evicted.push(block));
            self.evict();
            if !hit {
                self.miss(block, access.op);
            }
            if access.op == Op::Read {
                self.reads += 1;
            } else {
                self.writes += 1;
                self.write_states.iter_mut().for_each(|state| state.modify(block, now));
            }
        }
    }

    /// Advances the clock and flushes what is due.
    #[inline]
    fn proceed(&mut self, time: i64) {
        self.now = u32::try_from(time.abs_diff(self.start) / 100_000_000 + 1).unwrap_or(u32::MAX);
        for state in &mut self.write_states {
            state.flush(time, self.now);
        }
    }

    fn evict(&mut self) {
        for gone in self.evicted.drain(..) {
            self.stays.add(self.now - self.since[gone as usize]);
            for state in &mut self.write_states {
                state.outcome.counts.disk_writes += u64::from(state.clean(gone, self.now));
            }
        }
    }

    fn miss(&mut self, block: u32, op: Op) {
        self.disk_reads += u64::from(op != Op::Overwrite);
        if block as usize >= self.since.len() {
            self.since.resize(block as usize + 1, 0);
        }
        self.since[block as usize] = self.now;
    }

    /// Returns the results at the end of the trace, at time `end`: one outcome per write policy, in
    /// order, and how long blocks stayed in the cache (those still in it count until the end).
    #[must_use]
    pub fn finish(mut self, end: i64) -> (Vec<Outcome>, Ages) {
        self.proceed(end);
        for (block, since) in (0..).zip(&self.since) {
            if self.cache.contains(block) {
                self.stays.add(self.now - since);
            }
        }
        let Self { reads, writes, disk_reads, write_states, now, stays, .. } = self;
        let finished = write_states.into_iter().map(|mut state| {
            let dirty = 0..u32::try_from(state.since.len()).unwrap_or(u32::MAX);
            let left = dirty.filter(|&block| state.clean(block, now)).count();
            let counts = Counts { reads, writes, disk_reads, left: left as u64, ..state.outcome.counts };
            Outcome { counts, dirty: state.outcome.dirty }
        });
        (finished.collect(), stays)
    }
}
