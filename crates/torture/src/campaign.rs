//! Campaigns: thousands of mutated images, and the report of what was found.

use crate::base;
use crate::case::{Failure, Outcome, run};
use crate::overlay::Usage;
use crate::workers::{Budget, Done, run_cases};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

/// Different failures that end a campaign.
const MOST_FAILURES: usize = 40;

/// The results of a campaign.
#[derive(Debug, Default)]
pub struct Report {
    /// Cases run.
    pub cases: u64,
    /// Cases that could be opened for reading.
    pub opened: u64,
    /// Cases that the check could work on.
    pub checked: u64,
    /// Cases that could be opened for writing.
    pub written: u64,
    /// Cases whose unmount succeeded afterwards.
    pub unmounted: u64,
    /// The most that a phase asked of its device.
    pub usage: Usage,
    /// The most memory that a phase took, in bytes.
    pub memory: usize,
    /// The slowest case and its time.
    pub slowest: (u64, Duration),
    /// Declared fields that were mutated, and how many there are.
    pub fields: (usize, usize),
    /// Broken promises by place or message: the first case, its failure, and the number of cases.
    pub failures: BTreeMap<String, (u64, Failure, u64)>,
    fields_hit: BTreeSet<(usize, usize)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cases, opened, checked, written, unmounted, usage, memory, fields, .. } = self;
        write!(
            f,
            "{cases} mutated images: {opened} opened, {checked} checked, {written} written, {unmounted} of them \
             unmounted without an error; {} of {} declared fields mutated; at most {} requests, {} KiB transferred, {} KiB \
             of memory in a phase; the slowest was case {} with {} ms",
            fields.0,
            fields.1,
            usage.requests,
            usage.bytes >> 10,
            memory >> 10,
            self.slowest.0,
            self.slowest.1.as_millis()
        )
    }
}

impl Report {
    fn add(&mut self, base: usize, id: u64, result: Result<Outcome, Failure>, panicked_at: Option<String>) {
        self.cases += 1;
        match result {
            Ok(outcome) => {
                self.opened += u64::from(outcome.opened);
                self.checked += u64::from(outcome.checked);
                self.written += u64::from(outcome.changed.is_some());
                self.unmounted += u64::from(outcome.changed == Some(true));
                self.usage = self.usage.max(outcome.usage);
                self.memory = self.memory.max(outcome.memory);
                self.fields_hit.extend(outcome.field.map(|n| (base, n)));
            }
            Err(failure) => {
                // Panics at one place are one failure.
                let key = panicked_at.unwrap_or_else(|| format!("{}: {}", failure.phase, failure.what));
                self.failures.entry(key).or_insert((id, failure, 0)).2 += 1;
            }
        }
    }
}

/// Returns the command that repeats a case.
#[must_use]
pub fn repeat(seed: u64, id: u64) -> String {
    format!(
        "SPINDLE_SEED={seed} SPINDLE_CASE={id} cargo test -p spindle-torture --test hostile -- --nocapture"
    )
}

/// Runs a campaign. If a case hangs, the process prints the command that repeats it, and ends.
///
/// # Panics
/// If a valid image cannot be made, or a thread cannot be started.
#[must_use]
pub fn campaign(seed: u64, budget: Budget) -> Report {
    let bases = base::all();
    let mut report = Report::default();
    let take = |done: Done<Result<Outcome, Failure>>| {
        let base = usize::try_from(done.id).unwrap_or(0) % bases.len();
        report.add(base, done.id, done.result, done.panicked_at);
        if done.time > report.slowest.1 {
            report.slowest = (done.id, done.time);
        }
        if report.failures.len() < MOST_FAILURES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    run_cases(budget, |id| run(&bases, seed, id), take, |id| repeat(seed, id));
    report.fields = (report.fields_hit.len(), bases.iter().map(|base| base.anatomy.fields()).sum());
    report
}
