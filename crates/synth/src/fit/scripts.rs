//! Merges the bursts of programs into scripts.
//!
//! The one idea: a *burst* of a process, its operations without a long pause, is described by the
//! number of times it did each [`StepKind`]. Bursts of the same program with the same kinds of step
//! are merged into one [`Script`], whose numbers are distributions. If there are too many scripts,
//! the rarest ones of a program are merged into one in which each step has a probability. Merging
//! keeps all means, so a model does as much of everything as its trace, however few scripts remain.

use super::super::model::{AccessMethod, Operation};
use super::sketch::Sketch;
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};

/// Maximum number of scripts at the end, and while they are collected.
const MAX_SCRIPTS: usize = 256;
const MAX_SCRIPTS_HELD: usize = 16 * MAX_SCRIPTS;

/// The kind of a step, without its amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepKind {
    /// Operation.
    pub act: Operation,
    /// Number of the class, or of the program.
    pub on: u32,
    /// The file is open for reading and writing.
    pub both: bool,
    /// The whole file is transferred, so a number of bytes is not needed.
    pub whole: bool,
    /// Access method, if always the same.
    pub way: AccessMethod,
}

impl StepKind {
    /// Returns a step without a number of bytes.
    pub const fn of(act: Operation, on: u32) -> Self {
        Self { act, on, both: false, whole: true, way: AccessMethod::Calls }
    }
}

/// Bytes transferred in one direction, in sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Position of the first byte.
    pub at: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Set if it writes.
    pub writes: bool,
    /// Set if it begins at or beyond the end of the file.
    pub grows: bool,
    /// Access method.
    pub way: AccessMethod,
}

/// The runs of a kind of step. Runs that recur at the same position are kept with their positions,
/// in the order in which they first appeared; of all others only the numbers of bytes are kept.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// Runs that recur, with their counts.
    pub placed: Vec<(Run, u64)>,
    /// Numbers of bytes of the other runs: of reads, and of writes.
    pub bytes: [Sketch; 2],
    /// Number of the other runs, of those of them that write, and of those that write at the end of
    /// the file.
    pub counts: [u64; 3],
}

/// Maximum number of runs kept with their positions.
const MAX_PLACED: usize = 24;

impl Runs {
    /// Adds a run `times` times; keeps its position if `placed` is set.
    pub fn add(&mut self, run: Run, times: u64, placed: bool) {
        if !placed || run.grows {
            self.other(run, times);
        } else if let Some(known) = self.placed.iter_mut().find(|known| known.0 == run) {
            known.1 += times;
        } else {
            self.placed.push((run, times));
            if self.placed.len() > MAX_PLACED {
                let all: u64 = self.placed.iter().map(|piece| piece.1).sum();
                self.keep(all / MAX_PLACED as u64 + 1);
            }
        }
    }

    /// Adds the first run of a created file, of which only the bytes are kept.
    pub fn first(&mut self, bytes: u64, writes: bool) {
        self.bytes[usize::from(writes)].add(bytes);
    }

    /// Adds a run without its position.
    fn other(&mut self, run: Run, times: u64) {
        self.bytes[usize::from(run.writes)].add_times(run.bytes, times);
        for (sum, counts) in self.counts.iter_mut().zip([true, run.writes, run.grows]) {
            *sum += if counts { times } else { 0 };
        }
    }

    /// Drops the positions of runs that occurred fewer than `least` times.
    pub fn keep(&mut self, least: u64) {
        let (kept, others) = self.placed.drain(..).partition(|piece| piece.1 >= least);
        self.placed = kept;
        for (run, times) in others {
            self.other(run, times);
        }
    }

    /// Adds all runs of `other`.
    pub fn merge(&mut self, other: &Self) {
        for &(run, times) in &other.placed {
            self.add(run, times, true);
        }
        for (sum, more) in self.bytes.iter_mut().zip(&other.bytes) {
            sum.merge(more);
        }
        for (sum, more) in self.counts.iter_mut().zip(other.counts) {
            *sum += more;
        }
    }

    /// Returns the number of runs.
    pub fn count(&self) -> u64 {
        self.counts[0] + self.placed.iter().map(|piece| piece.1).sum::<u64>()
    }
}

/// Statistics of a kind of step: over one burst while it is collected, then over all bursts of a
/// script.
#[derive(Clone, Debug, Default)]
pub struct StepStats {
    /// Number of bursts that did it.
    pub bursts: u64,
    /// Number of times it was done in each of these bursts.
    pub times: Sketch,
    /// Number of times it was done to a file that the burst had used before.
    pub again: u64,
    /// Number of times it failed.
    pub failed: u64,
    /// Bytes transferred.
    pub moved: Runs,
    /// Number of runs of each step.
    pub runs: Sketch,
    /// Number of syncs of each step.
    pub syncs: Sketch,
    /// Time per run, in nanoseconds.
    pub hold: Sketch,
    /// Time from the end of the step to the next operation, in nanoseconds.
    pub gap: Sketch,
    /// Sum over bursts of the relative position in the burst where it was first done, from 0 to 1.
    pub position: f64,
}

impl StepStats {
    fn merge(&mut self, other: &Self) {
        self.bursts += other.bursts;
        self.times.merge(&other.times);
        self.again += other.again;
        self.failed += other.failed;
        self.moved.merge(&other.moved);
        self.runs.merge(&other.runs);
        self.syncs.merge(&other.syncs);
        self.hold.merge(&other.hold);
        self.gap.merge(&other.gap);
        self.position += other.position;
    }
}

/// The merged operations of some bursts.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Number of bursts.
    pub bursts: u64,
    /// Kinds of step, with their statistics.
    pub steps: BTreeMap<StepKind, StepStats>,
    /// The account of all bursts, if it is the same.
    pub account: Option<u32>,
    /// Times at which the first and the last burst began, in ns since 1970.
    pub span: (i64, i64),
    /// Intervals between successive bursts in ns, as far as bursts were added one by one.
    pub intervals: Sketch,
}

impl Script {
    fn merge(&mut self, other: &Self) {
        if self.bursts == 0 {
            (self.account, self.span) = (other.account, other.span);
        } else if self.account != other.account {
            self.account = None;
        }
        if other.bursts == 1 && self.bursts > 0 {
            self.intervals.add(other.span.0.abs_diff(self.span.1));
        }
        self.span = (self.span.0.min(other.span.0), self.span.1.max(other.span.1));
        self.bursts += other.bursts;
        for (kind, stats) in &other.steps {
            self.steps.entry(*kind).or_default().merge(stats);
        }
    }

    /// Returns the steps in the average order in which they are first done.
    pub fn in_order(&self) -> Vec<(&StepKind, &StepStats)> {
        let mut steps: Vec<_> = self.steps.iter().collect();
        #[allow(clippy::cast_precision_loss)] // An order.
        steps.sort_by(|a, b| {
            let position = |stats: &StepStats| stats.position / stats.bursts as f64;
            position(a.1).total_cmp(&position(b.1))
        });
        steps
    }
}

/// All scripts: separate ones of each program, and one for the rest of it.
#[derive(Debug, Default)]
pub struct Scripts {
    separate: HashMap<(u32, Vec<StepKind>), Script, RandomState>,
    rest: BTreeMap<u32, Script>,
}

impl Scripts {
    /// Adds a burst of a program.
    pub fn add(&mut self, program: u32, burst: &Script) {
        let steps = burst.steps.keys().copied().collect();
        self.separate.entry((program, steps)).or_default().merge(burst);
        if self.separate.len() > MAX_SCRIPTS_HELD {
            self.reduce(MAX_SCRIPTS_HELD / 2);
        }
    }

    /// Keeps the `most` most frequent scripts and merges the others into the rest of their
    /// programs.
    fn reduce(&mut self, most: usize) {
        let mut all: Vec<_> = self.separate.drain().collect();
        all.sort_by(|a, b| b.1.bursts.cmp(&a.1.bursts).then_with(|| a.0.cmp(&b.0)));
        for ((program, _), script) in all.drain(most.min(all.len())..) {
            self.rest.entry(program).or_default().merge(&script);
        }
        self.separate.extend(all);
    }

    /// Returns the scripts with their programs, the most frequent first.
    pub fn finish(mut self) -> Vec<(u32, Script)> {
        self.reduce(MAX_SCRIPTS);
        let mut all: Vec<_> =
            self.separate.into_iter().map(|((program, _), script)| (program, script)).collect();
        all.extend(self.rest);
        all.sort_by(|a, b| {
            (b.1.bursts, a.0).cmp(&(a.1.bursts, b.0)).then_with(|| a.1.steps.keys().cmp(b.1.steps.keys()))
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: however many different bursts there are, few scripts remain, and together they do
    /// the same work as the bursts.
    #[test]
    fn merging_loses_nothing() {
        let mut scripts = Scripts::default();
        let (mut done, mut bytes) = (0, 0);
        for number in 0..3 * MAX_SCRIPTS_HELD as u64 {
            let mut burst = Script { bursts: 1, account: Some(1), ..Script::default() };
            for bit in (0..12_u32).filter(|bit| ((number * 2_654_435_761) >> (7 + bit)) & 1 == 1) {
                let mut stats = StepStats { bursts: 1, ..StepStats::default() };
                stats.times.add(1);
                stats.runs.add(1);
                stats.moved.first(number, false);
                burst.steps.insert(StepKind::of(Operation::Read, bit), stats);
                (done, bytes) = (done + 1, bytes + number);
            }
            scripts.add(u32::try_from(number % 5).unwrap(), &burst);
        }
        let all = scripts.finish();
        assert!(all.len() <= MAX_SCRIPTS + 5, "{} scripts", all.len());
        assert_eq!(all.iter().map(|(_, script)| script.bursts).sum::<u64>(), 3 * MAX_SCRIPTS_HELD as u64);
        let stats = || all.iter().flat_map(|(_, script)| script.steps.values());
        assert_eq!(stats().map(|stats| stats.runs.count()).sum::<u64>(), done);
        let read = |stats: &StepStats| {
            let [read, _] = &stats.moved.bytes;
            read.mean() * f64::from(u32::try_from(read.count()).unwrap())
        };
        let sum: f64 = stats().map(read).sum();
        assert!(
            (sum / f64::from(u32::try_from(bytes / 1024).unwrap()) / 1024.0 - 1.0).abs() < 1e-3,
            "{sum} of {bytes}"
        );
    }

    /// Promise: positions that recur are kept among many that do not, and no run is lost.
    #[test]
    fn recurring_positions_are_kept() {
        let mut runs = Runs::default();
        let run = |at, bytes| Run { at, bytes, writes: false, grows: false, way: AccessMethod::Mapped };
        for n in 0..1000 {
            runs.add(run(64, 784), 1, true);
            runs.add(run(n * 4096, 100), 1, true);
        }
        runs.keep(10);
        assert_eq!((runs.count(), runs.counts[0]), (2000, 1000));
        assert_eq!(runs.placed, [(run(64, 784), 1000)]);
    }
}
