//! The analyser: what a trace says of how files are used, after sections 3 to 5 of the 1985 paper,
//! and what today adds.
//!
//! The one idea: one pass over the events, each handed to a few small accumulators that know one
//! table or figure each, in memory that grows with what is open ([`crate::follow`]), with the files
//! whose new data is alive, and with the users, never with the number of events. What comes out are
//! [`Findings`]: raw numbers and distributions, to be asked (advice, a generator to be fitted), and
//! told as JSON. How they are shown, the paper's beside ([`paper`]), is the business of
//! [`Findings::sections`].
//!
//! Times of an event are when its call returned; bytes count at the event that ends their run
//! ("billing", section 3.1).

mod activity;
mod caches;
mod groups;
mod heavy;
mod histogram;
mod lifetimes;
mod outcome;
pub mod paper;
mod patterns;

pub use activity::{Activity, LENGTHS, Moments, Windows};
pub use caches::Caches;
pub use groups::{Amounts, Dimension, Group, Measure};
pub use histogram::{Bucket, By, Histogram};
pub use lifetimes::{Lifetimes, Lives, YOUNG};
pub use outcome::Show;
pub use patterns::{Orders, Patterns};

use crate::follow::{Access, Follow, Step};
use crate::{Batch, Event, Flags, Info, Kind, Result, Source};
use activity::Watch;
use groups::{Charge, Names, Nobody};
use lifetimes::{Alive, Ended};
use serde::Serialize;

/// What a trace says of how files are used.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Findings {
    /// Of the trace as a whole (Table III).
    pub totals: Totals,
    /// Of users (Table IV).
    pub activity: Activity,
    /// Of accesses (Table V, figures 1 to 3).
    pub patterns: Patterns,
    /// Of new data (figure 4).
    pub lifetimes: Lifetimes,
    /// What the paper did not have to ask.
    pub today: Today,
    /// Who does it: what was asked for.
    pub groups: Vec<Group>,
}

/// Counts over the whole trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    /// What made the trace.
    pub source: String,
    /// What else it says of itself.
    pub notes: Vec<String>,
    /// Events that were lost while recording.
    pub lost: u64,
    /// Bytes of its file, if it is one.
    pub file_bytes: Option<u64>,
    /// Events, by the numbers of their [`Kind`]. An `open` that tells of what was open before the
    /// recording is not among them.
    pub events: [u64; Kind::ALL.len()],
    /// Files that were open before the recording.
    pub open_before: u64,
    /// Time of the first and the last event, in ns since 1970.
    pub span: Option<(i64, i64)>,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Bytes of the programs that were loaded, as often as they were.
    pub loaded: u64,
}

impl Totals {
    /// Returns all events, those that tell of what was open before with them.
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

    /// From the first to the last event, in seconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Shown to a few digits.
    pub fn seconds(&self) -> f64 {
        self.span.map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 / 1e9)
    }
}

/// What today's systems have beyond those of 1985, and what advice needs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Today {
    /// Bytes per call of the runs whose calls were counted; each run with its number of calls as
    /// its weight.
    pub requests: Histogram,
    /// Runs, of which each moved some bytes.
    pub runs: u64,
    /// Runs and bytes that had a position of their own (`pread`).
    pub positional: Lives,
    /// Runs and bytes through memory: what was mapped, an upper bound.
    pub mapped: Lives,
    /// Runs and bytes past the cache (`O_DIRECT`).
    pub direct: Lives,
    /// Runs and bytes that belong to no open file: of traces of disks and caches, or of opens that
    /// are not known.
    pub apart: Lives,
    /// Accesses with at least one `fsync`.
    pub synced: u64,
    /// Bytes written in these.
    pub synced_bytes: u64,
    /// Bytes written into what an existing file had when it was opened.
    pub overwritten: u64,
    /// Bytes written behind that.
    pub appended: u64,
    /// The most files open at once.
    pub open_most: u64,
}

/// Goes through events.
struct Pass<C: Charge> {
    charge: C,
    follow: Follow<C::Tag>,
    watch: Watch,
    alive: Alive<C::Tag>,
    found: Findings,
}

/// Analyses a trace to its end; `progress` is told now and then how much of it is done, from 0 to
/// 1, if that is known. It wants the columns [`crate::format::Columns::USAGE`].
///
/// # Errors
/// Those of the source.
pub fn analyze(source: &mut dyn Source, progress: impl FnMut(Option<f64>)) -> Result<Findings> {
    Pass::new(Nobody).all(source, progress)
}

/// Returns the same, and who does it, by each of these dimensions the `top` largest of each
/// measure. By program it wants the column of commands, too, by directory those of paths.
///
/// # Errors
/// Those of the source.
pub fn analyze_by(
    source: &mut dyn Source,
    wanted: &[Dimension],
    top: usize,
    progress: impl FnMut(Option<f64>),
) -> Result<Findings> {
    if wanted.is_empty() {
        return analyze(source, progress);
    }
    Pass::new(Names::new(wanted, top)).all(source, progress)
}

impl<C: Charge> Pass<C> {
    fn new(charge: C) -> Self {
        let (follow, watch, alive) = (Follow::default(), Watch::default(), Alive::default());
        Self { charge, follow, watch, alive, found: Findings::default() }
    }

    fn all(mut self, source: &mut dyn Source, mut progress: impl FnMut(Option<f64>)) -> Result<Findings> {
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
        totals.read = totals.read.saturating_add(event.read);
        totals.written = totals.written.saturating_add(event.written);
        let (first, last) = totals.span.unwrap_or((event.time, event.time));
        totals.span = Some((first.min(event.time), last.max(event.time)));
        self.watch.event(event);
        if event.flags.has(Flags::DIRECTORY) {
            self.directory(event);
            return;
        }
        if event.kind.ends_run() && event.bytes() > 0 {
            self.found.patterns.run(event.bytes());
            self.found.today.run(event);
            if event.written > 0 {
                let ended = self.alive.written(event);
                self.ended(ended);
            }
        }
        match self.follow.event(event, || self.charge.who(event, batch)) {
            Step::Opened(access) => {
                let ended = self.alive.opened(event, access.created, &access.tag);
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
                let ended = self.alive.closed(&access, event);
                self.ended(ended);
            }
            Step::Unknown => self.unknown(event, batch),
            Step::Apart => self.apart(event, batch),
        }
    }

    fn directory(&mut self, event: &Event) {
        self.found.patterns.directories += u64::from(event.kind == Kind::Open);
    }

    /// Takes what belongs to no open file.
    fn apart(&mut self, event: &Event, batch: &Batch) {
        match event.kind {
            Kind::Unlink => {
                let who = self.charge.who(event, batch);
                self.charge.charge(&who, Measure::Deleted, 1);
                if event.flags.has(Flags::LAST) {
                    let ended = self.alive.unlinked(event);
                    self.ended(ended);
                }
            }
            Kind::Truncate => {
                let who = self.charge.who(event, batch);
                let ended = self.alive.truncated(event, &who);
                self.ended(ended);
            }
            Kind::Exec => {
                self.found.totals.loaded = self.found.totals.loaded.saturating_add(event.size);
            }
            Kind::Close | Kind::Seek | Kind::Run => self.unknown(event, batch),
            _ => {}
        }
    }

    /// Takes a run of no open file that is known.
    fn unknown(&mut self, event: &Event, batch: &Batch) {
        if event.bytes() > 0 {
            let who = self.charge.who(event, batch);
            self.charge.charge(&who, Measure::Read, event.read);
            self.charge.charge(&who, Measure::Written, event.written);
            self.found.today.apart.add(event.bytes());
        }
    }

    /// Takes a life that may have ended.
    fn ended(&mut self, life: Option<Ended<C::Tag>>) {
        if let Some(life) = life.filter(|life| life.age < YOUNG) {
            self.charge.charge(&life.tag, Measure::DiedYoung, life.bytes);
        }
    }

    fn finish(mut self, info: Info) -> Findings {
        self.found.totals.source = info.source;
        self.found.totals.lost = info.lost;
        self.found.totals.notes = info.notes;
        self.found.today.open_most = self.follow.most() as u64;
        for access in self.follow.left() {
            self.found.patterns.unfinished += 1;
            self.found.today.access(access);
            self.charge.charge(&access.tag, Measure::Read, access.read);
            self.charge.charge(&access.tag, Measure::Written, access.written);
        }
        self.found.groups = self.charge.finish();
        self.found.activity = self.watch.finish();
        self.found.lifetimes = self.alive.finish();
        self.found
    }
}

impl Today {
    fn run(&mut self, event: &Event) {
        self.runs += 1;
        let bytes = event.bytes();
        if event.calls > 0 {
            self.requests.add(bytes / u64::from(event.calls), event.calls.into());
        }
        for (flag, total) in [
            (Flags::POSITIONAL, &mut self.positional),
            (Flags::MAPPED, &mut self.mapped),
            (Flags::DIRECT, &mut self.direct),
        ] {
            if event.flags.has(flag) {
                total.add(bytes);
            }
        }
    }

    /// Takes what a run of an open file wrote: over what the file had at the open, or behind that.
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
