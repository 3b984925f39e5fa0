//! The analyser: how a trace uses files, after sections 3 to 5 of the 1985 paper, with additions
//! for today's systems.
//!
//! The one idea: one pass hands each event to a few small accumulators, each for one table or
//! figure. Memory grows with open files ([`spindle_trace::follow`]), with files whose new data is
//! alive, and with users, but not with the number of events. The results are [`Findings`]: raw
//! numbers and distributions for other programs and for JSON. [`Findings::sections`] shows them
//! beside the paper's ([`paper`]). Those of several traces merge before they are results
//! ([`Partial`]).
//!
//! The time of an event is when its call returned; bytes count at the event that ends their run
//! ("billing", section 3.1).

mod activity;
mod caches;
pub mod difference;
mod group_sums;
mod groups;
mod heavy;
mod histogram;
mod latencies;
mod lifetimes;
mod outcome;
pub mod paper;
mod partial;
mod parts;
mod patterns;
mod requests;

pub use activity::{Activity, LENGTHS, Moments, Windows};
pub use caches::Caches;
pub use groups::{Amounts, Dimension, Group, Measure, Order};
pub use histogram::{Bucket, By, Histogram};
pub use lifetimes::{Lifetimes, Lives, YOUNG};
pub use outcome::Show;
pub use partial::{MAGIC, Partial};
pub use patterns::{Orders, Patterns};
pub use requests::{CALLS_1991, Class, Requests, Slots};

use activity::ActivityMeter;
use groups::{Charge, Names, Unattributed};
use lifetimes::{Ended, LiveData};
use parts::{Count, Each, Lines, Listed, Most, OfAll, Span, Sum, Whole, parts};
use serde::Serialize;
use spindle_trace::follow::{Access, Follow, Step};
use spindle_trace::latency::Latencies;
use spindle_trace::{Batch, Event, Flags, Info, Kind, Result, Source};

/// The results of analysing a trace, or several.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Findings {
    /// The trace as a whole (Table III).
    pub totals: Totals,
    /// Users (Table IV).
    pub activity: Activity,
    /// Accesses (Table V, figures 1 to 3).
    pub patterns: Patterns,
    /// New data (figure 4).
    pub lifetimes: Lifetimes,
    /// Additions to the paper.
    pub today: Today,
    /// Calls by what they ask for.
    pub requests: Requests,
    /// How long calls took, if the trace says it.
    pub latencies: Latencies,
    /// Amounts by the requested dimensions.
    pub groups: Vec<Group>,
}

/// Counts over the whole trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    /// Number of traces.
    pub traces: u64,
    /// The program that made the trace; different ones of several traces are separated by
    /// semicolons.
    pub source: String,
    /// Notes of the trace; of several traces, the different ones.
    pub notes: Vec<String>,
    /// Number of events lost while recording.
    pub lost: u64,
    /// Size of the trace file in bytes, if it is a file; of several, their sum.
    pub file_bytes: Option<u64>,
    /// Number of events by [`Kind`], without `open` events of files that were open before the
    /// recording.
    pub events: [u64; Kind::ALL.len()],
    /// Number of files that were open before the recording.
    pub open_before: u64,
    /// Times of the first and the last event, in ns since 1970.
    pub span: Option<(i64, i64)>,
    /// Time from the first to the last event in ns; of several traces, the sum of their times.
    pub duration: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Sizes in bytes of the programs loaded, summed over all loads.
    pub loaded: u64,
}

impl Totals {
    /// Returns the number of all events, including opens from before the recording.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.events.iter().sum::<u64>() + self.open_before
    }

    /// Returns the number of events of a kind.
    #[must_use]
    pub const fn count(&self, kind: Kind) -> u64 {
        self.events[kind as usize]
    }

    /// Returns the bytes read and written.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.read.saturating_add(self.written)
    }

    /// Returns the duration in seconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Only a few digits are shown.
    pub const fn seconds(&self) -> f64 {
        self.duration as f64 / 1e9
    }
}

parts!(Totals {
    traces: Count,
    source: Listed,
    notes: Lines,
    lost: Count,
    file_bytes: OfAll<Sum>,
    events: Each<Count>,
    open_before: Count,
    span: Span,
    duration: Sum,
    read: Sum,
    written: Sum,
    loaded: Sum,
});

/// Measurements that the paper lacks: features of today's systems, and input for advice.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Today {
    /// Bytes per call of the runs whose calls were counted, weighted by the number of calls.
    pub requests: Histogram,
    /// Number of runs that transferred data.
    pub runs: u64,
    /// Runs and bytes with a position of their own (`pread`, `pwrite`).
    pub positional: Lives,
    /// Mappings of files into memory, and their bytes. Nothing else counts them: a trace does not
    /// say what of them was touched, which may be nothing.
    pub mapped: Lives,
    /// Runs and bytes that bypass the cache (`O_DIRECT`).
    pub direct: Lives,
    /// Runs and bytes of no known open file: in traces of disks and caches, or if the open is
    /// missing.
    pub apart: Lives,
    /// Number of accesses with at least one `fsync`.
    pub synced: u64,
    /// Bytes written in these accesses.
    pub synced_bytes: u64,
    /// Bytes written over data that the file had when it was opened.
    pub overwritten: u64,
    /// Bytes written beyond that data.
    pub appended: u64,
    /// Maximum number of files open at once.
    pub open_most: u64,
}

parts!(Today {
    requests: Whole,
    runs: Count,
    positional: Whole,
    mapped: Whole,
    direct: Whole,
    apart: Whole,
    synced: Count,
    synced_bytes: Sum,
    overwritten: Sum,
    appended: Sum,
    open_most: Most,
});

/// A pass over the events.
struct Pass<C: Charge> {
    charge: C,
    follow: Follow<C::Tag>,
    activity: ActivityMeter,
    live: LiveData<C::Tag>,
    found: Findings,
}

/// Analyses a trace to its end. Calls `progress` now and then with the part that is done, from 0 to
/// 1, if known. Needs the columns [`spindle_trace::format::Columns::USAGE`].
///
/// # Errors
/// Errors of the source.
pub fn analyze(source: &mut dyn Source, progress: impl FnMut(Option<f64>)) -> Result<Findings> {
    analyze_by(source, &[], 0, progress)
}

/// Analyses a trace like [`analyze`], and adds the `top` largest names of each measure for each of
/// the dimensions, which need further columns: [`Dimension::columns`].
///
/// # Errors
/// Errors of the source.
pub fn analyze_by(
    source: &mut dyn Source,
    wanted: &[Dimension],
    top: usize,
    progress: impl FnMut(Option<f64>),
) -> Result<Findings> {
    Ok(analyze_partially(source, wanted, progress)?.findings(wanted, top))
}

/// Analyses a trace like [`analyze_by`], and returns what merges with that of other traces.
///
/// # Errors
/// Errors of the source.
pub fn analyze_partially(
    source: &mut dyn Source,
    wanted: &[Dimension],
    progress: impl FnMut(Option<f64>),
) -> Result<Partial> {
    if wanted.is_empty() {
        return Pass::new(Unattributed).all(source, progress);
    }
    Pass::new(Names::new(wanted)).all(source, progress)
}

impl<C: Charge> Pass<C> {
    fn new(charge: C) -> Self {
        let (follow, activity, live) = (Follow::default(), ActivityMeter::default(), LiveData::default());
        Self { charge, follow, activity, live, found: Findings::default() }
    }

    fn all(mut self, source: &mut dyn Source, mut progress: impl FnMut(Option<f64>)) -> Result<Partial> {
        let mut batch = Batch::default();
        while source.next(&mut batch)? {
            self.charge.begin(&batch);
            for event in &batch.events {
                self.event(event, &batch);
            }
            progress(source.progress());
        }
        Ok(self.finish(source.info()))
    }

    fn event(&mut self, event: &Event, batch: &Batch) {
        let totals = &mut self.found.totals;
        if event.kind == Kind::Open && event.flags.has(Flags::BEFORE) {
            totals.open_before += 1;
        } else {
            totals.events[event.kind as usize] += 1;
        }
        let (first, last) = totals.span.unwrap_or((event.time, event.time));
        totals.span = Some((first.min(event.time), last.max(event.time)));
        if event.kind == Kind::Run && event.flags.has(Flags::MAPPED) {
            self.found.today.mapped.add(event.bytes());
            return;
        }
        totals.read = totals.read.saturating_add(event.read);
        totals.written = totals.written.saturating_add(event.written);
        self.found.requests.event(event);
        // The paper's users are active when they do what its traces had.
        if !event.kind.is_control_call() {
            self.activity.event(event);
        }
        if event.flags.has(Flags::DIRECTORY) {
            self.directory(event);
            return;
        }
        if event.kind.ends_run() && event.bytes() > 0 {
            self.found.patterns.run(event.bytes());
            self.found.today.run(event);
            if event.written > 0 {
                let ended = self.live.written(event);
                self.ended(ended);
            }
        }
        match self.follow.event(event, || self.charge.who(event, batch)) {
            Step::Opened(access) => {
                let ended = self.live.opened(event, access.created, &access.tag);
                self.charge.charge(&access.tag, Measure::Opens, 1);
                self.charge.charge(&access.tag, Measure::Created, u64::from(access.created));
                self.ended(ended);
            }
            Step::During(access) => {
                self.found.patterns.interval(access, event);
                self.found.today.written(access, event);
            }
            Step::Closed(access) => {
                self.found.patterns.interval(&access, event);
                self.found.patterns.closed(&access, event.size);
                self.found.today.written(&access, event);
                self.found.today.access(&access);
                self.charge.charge(&access.tag, Measure::Read, access.read);
                self.charge.charge(&access.tag, Measure::Written, access.written);
                let ended = self.live.closed(&access, event);
                self.ended(ended);
            }
            Step::Unknown => self.unknown(event, batch),
            Step::NoOpen => self.without_open(event, batch),
        }
    }

    fn directory(&mut self, event: &Event) {
        self.found.patterns.directories += u64::from(event.kind == Kind::Open);
    }

    /// Processes an event that belongs to no open file.
    fn without_open(&mut self, event: &Event, batch: &Batch) {
        match event.kind {
            Kind::Unlink => {
                let who = self.charge.who(event, batch);
                self.charge.charge(&who, Measure::Deleted, 1);
                if event.flags.has(Flags::LAST) {
                    let ended = self.live.unlinked(event);
                    self.ended(ended);
                }
            }
            Kind::Truncate => {
                let who = self.charge.who(event, batch);
                let ended = self.live.truncated(event, &who);
                self.ended(ended);
            }
            Kind::Exec => {
                self.found.totals.loaded = self.found.totals.loaded.saturating_add(event.size);
            }
            Kind::Close | Kind::Seek | Kind::Run => self.unknown(event, batch),
            _ => {}
        }
    }

    /// Processes a run of no known open file.
    fn unknown(&mut self, event: &Event, batch: &Batch) {
        if event.bytes() > 0 {
            let who = self.charge.who(event, batch);
            self.charge.charge(&who, Measure::Read, event.read);
            self.charge.charge(&who, Measure::Written, event.written);
            self.found.today.apart.add(event.bytes());
        }
    }

    /// Charges data that died young.
    fn ended(&mut self, life: Option<Ended<C::Tag>>) {
        if let Some(life) = life.filter(|life| life.age < YOUNG) {
            self.charge.charge(&life.tag, Measure::DiedYoung, life.bytes);
        }
    }

    /// Returns what has been found of accesses and lives so far.
    fn so_far(&self) -> Findings {
        Findings { lifetimes: self.live.so_far(), ..self.found.clone() }
    }

    fn finish(mut self, info: Info) -> Partial {
        let totals = &mut self.found.totals;
        totals.traces = 1;
        totals.source = info.source;
        totals.lost = info.lost;
        totals.notes = info.notes;
        totals.duration = totals.span.map_or(0, |(first, last)| last.saturating_sub(first).unsigned_abs());
        self.found.today.open_most = self.follow.most() as u64;
        for access in self.follow.still_open() {
            self.found.patterns.unfinished += 1;
            self.found.today.access(access);
            self.charge.charge(&access.tag, Measure::Read, access.read);
            self.charge.charge(&access.tag, Measure::Written, access.written);
        }
        let Findings { totals, patterns, today, requests, .. } = self.found;
        Partial {
            names: Vec::new(),
            totals,
            activity: self.activity.finish(),
            patterns,
            lifetimes: self.live.finish(),
            today,
            requests,
            latencies: info.latencies,
            groups: self.charge.finish(),
            caches: None,
        }
    }
}

impl Today {
    fn run(&mut self, event: &Event) {
        self.runs += 1;
        let bytes = event.bytes();
        if event.calls > 0 {
            self.requests.add(bytes / u64::from(event.calls), event.calls.into());
        }
        for (flag, total) in [(Flags::POSITIONAL, &mut self.positional), (Flags::DIRECT, &mut self.direct)] {
            if event.flags.has(flag) {
                total.add(bytes);
            }
        }
    }

    /// Divides the bytes that a run wrote into those over the file's old data and those beyond it.
    fn written<T>(&mut self, access: &Access<T>, event: &Event) {
        let cut = access.created || access.flags.has(Flags::TRUNCATED);
        let had = if cut { 0 } else { access.size };
        let over = had.saturating_sub(event.position).min(event.written);
        self.overwritten = self.overwritten.saturating_add(over);
        self.appended = self.appended.saturating_add(event.written - over);
    }

    fn access<T>(&mut self, access: &Access<T>) {
        if access.syncs > 0 {
            self.synced += 1;
            self.synced_bytes = self.synced_bytes.saturating_add(access.written);
        }
    }
}

#[cfg(test)]
mod tests;
