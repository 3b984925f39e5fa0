//! A cache of one size under any policy of replacement, with all policies of writing at once: what
//! it holds does not depend on when it writes.
//!
//! Besides counts it tells *ages*: how long blocks stayed in the cache, and how long they were
//! dirty, which is what a crash would have lost (1985 paper, 6.2: with 4 Mbytes 20% of all blocks
//! stay longer than 20 minutes).

use super::blocks::{Access, Op};
use super::counts::{Counts, Write};
use super::flushes::Flushes;
use spindle_cache::policy::replacement::{Policy, PolicyName, Replacement};
use spindle_report::number::share;
use std::num::NonZeroU32;

/// How long things lasted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    counts: [u64; Ages::OVER.len() + 1],
}

impl Ages {
    /// Seconds that are told apart.
    pub const OVER: [u32; 6] = [5, 30, 300, 1200, 3600, 86400];

    fn add(&mut self, tenths: u32) {
        self.counts[Self::OVER.partition_point(|&seconds| seconds.saturating_mul(10) < tenths)] += 1;
    }

    /// Returns how many there were.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns true if there were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the part that lasted longer than `OVER[which]`.
    #[must_use]
    pub fn over(&self, which: usize) -> f64 {
        share(self.counts.iter().skip(which + 1).sum(), self.len()).unwrap_or(0.0)
    }
}

/// What a cache did under one policy of writing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Blocks.
    pub counts: Counts,
    /// How long blocks were dirty: from the first write to the disk's, or to their deletion, or to
    /// the trace's end.
    pub dirty: Ages,
}

struct Writing {
    policy: Write,
    /// When a block was first modified, in tenths of a second after the start and 1; 0 if it is
    /// clean.
    since: Vec<u32>,
    /// Blocks on the list for the next flush.
    listed: Vec<bool>,
    flushes: Option<Flushes>,
    outcome: Outcome,
}

impl Writing {
    fn new(policy: Write) -> Self {
        let flushes = if let Write::Flush(every) = policy { Some(Flushes::new(every)) } else { None };
        Self { policy, since: Vec::new(), listed: Vec::new(), flushes, outcome: Outcome::default() }
    }

    /// Returns a block becomes clean: false if it was.
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
    writings: Vec<Writing>,
    /// When blocks came, in tenths of a second after the start.
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
            writings: writes.iter().copied().map(Writing::new).collect(),
            since: Vec::new(),
            stays: Ages::default(),
            evicted: Vec::new(),
        }
    }

    /// The time of the trace's first event: flushes come at intervals from there.
    pub fn start(&mut self, time: i64) {
        self.start = time;
        self.writings.iter_mut().filter_map(|writing| writing.flushes.as_mut()).for_each(|f| f.start(time));
    }

    /// Takes the next accesses.
    pub fn take(&mut self, accesses: &[Access]) {
        for access in accesses {
            self.proceed(access.time);
            let (block, now) = (access.block, self.now);
            if access.op == Op::Delete {
                if self.cache.remove(block) {
                    self.stays.add(now - self.since[block as usize]);
                }
                for writing in &mut self.writings {
                    writing.outcome.counts.dropped += u64::from(writing.clean(block, now));
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
                self.writings.iter_mut().for_each(|writing| writing.modify(block, now));
            }
        }
    }

    /// It is so late.
    #[inline]
    fn proceed(&mut self, time: i64) {
        self.now = u32::try_from(time.abs_diff(self.start) / 100_000_000 + 1).unwrap_or(u32::MAX);
        for writing in &mut self.writings {
            writing.flush(time, self.now);
        }
    }

    fn evict(&mut self) {
        for gone in self.evicted.drain(..) {
            self.stays.add(self.now - self.since[gone as usize]);
            for writing in &mut self.writings {
                writing.outcome.counts.disk_writes += u64::from(writing.clean(gone, self.now));
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

    /// Returns what the cache did until the trace's last event, at `end`, for each policy of
    /// writing in their order, and how long blocks stayed in it (those that are there at the end:
    /// until then).
    #[must_use]
    pub fn finish(mut self, end: i64) -> (Vec<Outcome>, Ages) {
        self.proceed(end);
        for (block, since) in (0..).zip(&self.since) {
            if self.cache.contains(block) {
                self.stays.add(self.now - since);
            }
        }
        let Self { reads, writes, disk_reads, writings, now, stays, .. } = self;
        let finished = writings.into_iter().map(|mut writing| {
            let dirty = 0..u32::try_from(writing.since.len()).unwrap_or(u32::MAX);
            let left = dirty.filter(|&block| writing.clean(block, now)).count();
            let counts = Counts { reads, writes, disk_reads, left: left as u64, ..writing.outcome.counts };
            Outcome { counts, dirty: writing.outcome.dirty }
        });
        (finished.collect(), stays)
    }
}
