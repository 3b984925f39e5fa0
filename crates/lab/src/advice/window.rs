//! The part of a trace that is simulated, and what is known of the whole.
//!
//! The one idea: a simulation needs no more of a trace than a stretch of it that is like the whole.
//! The trace is read twice: the first reading counts it in stretches of equally many events, the
//! second keeps the events of the stretch whose mix of events and bytes is nearest to that of all.
//!
//! Invariants: whatever a trace contains, a window has no more than [`Bounds`] allow, in events,
//! calls, bytes that move, bytes of files, and time; and what was changed for that is counted in
//! [`Basis`].

use super::{Open, REQUEST};
use crate::{Error, Result};
use serde::Serialize;
use spindle_report::number::real;
use spindle_synth::replay::{Population, population};
use spindle_trace::{Batch, Event, FileId, Flags, Kind};
use std::collections::{BTreeMap, HashMap};

/// What a window has at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Events.
    pub events: usize,
    /// Calls that read or write, as far as the trace has their number.
    pub calls: u64,
    /// Bytes that are read and written.
    pub moved: u64,
    /// Bytes of all files that were there before it; and of a file.
    pub files: u64,
    /// Files that are left, of which the space is measured.
    pub left: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { events: 100_000, calls: 2_000_000, moved: 8 << 30, files: 8 << 30, left: 20_000 }
    }
}

/// Files of which the size is remembered while the trace is read.
const MOST_REMEMBERED: usize = 4 << 20;
/// A file is cut to so many bytes at the least, for all to be within [`Bounds::files`].
const LEAST_FILE: u64 = 64 << 10;
/// A pause is cut to so many nanoseconds: the longest interval of commits that is tried, twice.
const LONGEST_PAUSE: i64 = 60 * 1_000_000_000;

/// What an advice rests on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Basis {
    /// Events of the trace.
    pub events: u64,
    /// Seconds from its first event to its last.
    pub seconds: f64,
    /// Bytes read by calls.
    pub bytes_read: u64,
    /// Bytes written by calls.
    pub bytes_written: u64,
    /// Bytes that were mapped into memory, at most all of which were used: they carry no advice.
    pub bytes_mapped: u64,
    /// Calls that made files durable.
    pub syncs: u64,
    /// Number of the first event that was simulated, from 0.
    pub first_event: u64,
    /// Events that were simulated.
    pub events_simulated: u64,
    /// Seconds of the trace that were simulated, without what was cut from pauses.
    pub seconds_simulated: f64,
    /// Files that were there before these events, and their bytes.
    pub files_before: u64,
    /// Their bytes, as they were simulated.
    pub bytes_before: u64,
    /// Largest size of a file in bytes, if files were larger and simulated as if they had that.
    pub cut_to: Option<u64>,
    /// Events that move more than a window may have, and were left out.
    pub left_out: u64,
    /// Files that were left at the end of the trace, as far as it mentions them.
    pub files_left: u64,
    /// Their bytes.
    pub bytes_left: u64,
}

/// A stretch of a trace in memory.
#[derive(Clone, Debug)]
pub struct Window {
    /// Its events, in order, as they are simulated.
    pub events: Vec<Event>,
    /// The files that must be there before.
    pub population: Population,
    /// Sizes of some of the files that were left at the end of the trace, evenly from all of them.
    pub left: Vec<u64>,
    /// What it was taken from.
    pub basis: Basis,
}

/// What a stretch of the trace has, or the whole.
#[derive(Clone, Copy, Debug, Default)]
struct Mix {
    events: u64,
    kinds: [u64; Kind::ALL.len()],
    read: u64,
    written: u64,
}

impl Mix {
    fn add(&mut self, event: &Event) {
        self.events += 1;
        self.kinds[event.kind as usize] += 1;
        if !event.flags.has(Flags::MAPPED) {
            self.read = self.read.saturating_add(event.read);
            self.written = self.written.saturating_add(event.written);
        }
    }

    /// Returns how far the mix is from that of the whole trace: the sum of the differences of the
    /// shares of the kinds of events, and of the bytes that an event moves, relative to theirs.
    fn distance(&self, whole: &Self) -> f64 {
        let each = |count: u64, mix: &Self| real(count) / real(mix.events.max(1));
        let kinds = self.kinds.iter().zip(&whole.kinds);
        let kinds: f64 = kinds.map(|(&own, &all)| (each(own, self) - each(all, whole)).abs()).sum();
        let bytes = |own: u64, all: u64| {
            let (own, all) = (each(own, self), each(all, whole));
            if all > 0.0 { ((own - all) / all).abs() } else { 0.0 }
        };
        kinds + bytes(self.read, whole.read) + bytes(self.written, whole.written)
    }
}

/// What the first reading counts.
#[derive(Default)]
struct Counted {
    basis: Basis,
    whole: Mix,
    /// The stretches, each with as many events as a window.
    stretches: Vec<Mix>,
    times: Option<(i64, i64)>,
    /// Sizes last seen of the files that are there.
    left: HashMap<FileId, u64>,
    /// Runs outside of any file, as a trace of disks has.
    requests: u64,
}

impl Counted {
    fn event(&mut self, event: &Event, stretch: usize) {
        let basis = &mut self.basis;
        if basis.events.is_multiple_of(stretch as u64) {
            self.stretches.push(Mix::default());
        }
        basis.events += 1;
        self.whole.add(event);
        if let Some(mix) = self.stretches.last_mut() {
            mix.add(event);
        }
        let (first, last) = self.times.get_or_insert((event.time, event.time));
        (*first, *last) = ((*first).min(event.time), (*last).max(event.time));
        if event.flags.has(Flags::MAPPED) {
            basis.bytes_mapped = basis.bytes_mapped.saturating_add(event.bytes());
        } else {
            basis.bytes_read = basis.bytes_read.saturating_add(event.read);
            basis.bytes_written = basis.bytes_written.saturating_add(event.written);
        }
        basis.syncs += u64::from(event.kind == Kind::Sync);
        self.requests += u64::from(is_of_disk(event));
        self.remember(event);
    }

    /// Follows which files are there.
    fn remember(&mut self, event: &Event) {
        if event.flags.has(Flags::DIRECTORY) || event.file == FileId::default() {
            return;
        }
        match event.kind {
            Kind::Unlink | Kind::Close if event.flags.has(Flags::LAST) => {
                self.left.remove(&event.file);
            }
            Kind::Open | Kind::Create | Kind::Close | Kind::Truncate | Kind::Exec
                if self.left.len() < MOST_REMEMBERED || self.left.contains_key(&event.file) =>
            {
                self.left.insert(event.file, event.size);
            }
            _ => {}
        }
    }

    /// Returns the number of the stretch that is most like the whole; the last one, which may be
    /// short, only if it is the only one.
    fn most_alike(&self) -> usize {
        let whole =
            &self.stretches[..self.stretches.len().saturating_sub(1).max(1).min(self.stretches.len())];
        let distances = whole.iter().map(|mix| mix.distance(&self.whole)).enumerate();
        distances.min_by(|(_, one), (_, other)| one.total_cmp(other)).map_or(0, |(at, _)| at)
    }
}

/// Returns true for a request of a trace of disks.
const fn is_of_disk(event: &Event) -> bool {
    matches!(event.kind, Kind::Run) && event.open == 0 && event.file.inode == 0
}

impl Window {
    /// Reads a trace twice and returns its window. `progress` is called with the part that is done.
    ///
    /// # Errors
    /// When it cannot be read, or is one of disks.
    pub fn of(open: Open<'_>, bounds: Bounds, progress: &dyn Fn(f64)) -> Result<Self> {
        let mut counted = Counted::default();
        let (mut source, mut batch) = (open()?, Batch::default());
        while source.next(&mut batch)? {
            batch.events.iter().for_each(|event| counted.event(event, bounds.events.max(1)));
            progress(source.progress().unwrap_or(0.0) / 2.0);
        }
        if counted.requests > 0 && counted.requests == counted.basis.events {
            let why = "it is a trace of disks; advice on file systems needs one of files";
            return Err(Error::Contradiction(why.into()));
        }
        let mut basis = counted.basis.clone();
        let first = counted.most_alike() * bounds.events.max(1);
        let (mut at, mut kept) = (0, Vec::new());
        let mut source = open()?;
        while kept.len() < bounds.events && source.next(&mut batch)? {
            let skipped = first.saturating_sub(at).min(batch.events.len());
            kept.extend(batch.events[skipped..].iter().take(bounds.events - kept.len()));
            at += batch.events.len();
            progress(0.5 + source.progress().unwrap_or(0.0) / 2.0);
        }
        basis.first_event = first as u64;
        let (from, to) = counted.times.unwrap_or_default();
        basis.seconds = seconds(to.saturating_sub(from));
        let left: BTreeMap<_, _> = counted.left.iter().collect();
        basis.files_left = left.len() as u64;
        basis.bytes_left = left.values().fold(0, |sum: u64, &&size| sum.saturating_add(size));
        Self::within(&kept, &left.values().map(|&&size| size).collect::<Vec<_>>(), basis, bounds)
    }

    /// Cuts files, requests and pauses to the bounds.
    fn within(kept: &[Event], left: &[u64], mut basis: Basis, bounds: Bounds) -> Result<Self> {
        let mut cap = bounds.files / 2;
        let (events, population) = loop {
            let events: Vec<_> = kept.iter().map(|event| cut(event, cap)).collect();
            let population = population(&mut Batch { events: events.clone(), ..Batch::default() })?;
            if cap <= LEAST_FILE || population.space() <= bounds.files {
                break (events, population);
            }
            cap /= 2;
        };
        let is_cut = |event: &Event| event.size > cap || event.end() > cap;
        basis.cut_to = kept.iter().any(|e| !e.flags.has(Flags::MAPPED) && is_cut(e)).then_some(cap);
        let every = left.len().div_ceil(bounds.left.max(1)).max(1);
        let mut room = bounds.files;
        let left: Vec<_> = left.iter().step_by(every).map(|&size| size.min(cap)).collect();
        let left = left.into_iter().take_while(|&size| {
            let fits = size <= room;
            room = room.saturating_sub(size);
            fits
        });
        let left = left.collect();
        let (mut calls, mut moved) = (0, 0);
        let mut within = Vec::with_capacity(events.len());
        for event in events {
            let (own_calls, own) = work(&event);
            if own > bounds.moved / 4 || own_calls > bounds.calls / 4 {
                basis.left_out += 1;
                continue;
            }
            (calls, moved) = (calls + own_calls, moved + own);
            if calls > bounds.calls || moved > bounds.moved {
                break;
            }
            within.push(event);
        }
        without_pauses(&mut within);
        let population = if basis.left_out > 0 || within.len() < kept.len() {
            spindle_synth::replay::population(&mut Batch { events: within.clone(), ..Batch::default() })?
        } else {
            population
        };
        basis.events_simulated = within.len() as u64;
        basis.files_before = population.files.len() as u64;
        basis.bytes_before = population.files.iter().map(|(_, size)| size).sum();
        if let (Some(first), Some(last)) = (within.first(), within.last()) {
            basis.seconds_simulated = seconds(last.time - first.time);
        }
        Ok(Self { events: within, population, left, basis })
    }

    /// Returns the number of events that a replay turns into calls on files, as far as each shows
    /// that by itself.
    #[must_use]
    pub fn uses(&self) -> u64 {
        let left_out = Flags::DIRECTORY.0 | Flags::FAILED.0 | Flags::MAPPED.0;
        let is_use = |event: &&Event| {
            event.file != FileId::default()
                && event.flags.0 & left_out == 0
                && !matches!(
                    event.kind,
                    Kind::Mkdir | Kind::Rmdir | Kind::List | Kind::Chdir | Kind::Link | Kind::Symlink
                )
        };
        self.events.iter().filter(is_use).count() as u64
    }

    /// Returns the bytes that the files of the window need at most.
    #[must_use]
    pub fn space(&self) -> u64 {
        let written = self.events.iter().filter(|event| !event.flags.has(Flags::MAPPED));
        written.fold(self.basis.bytes_before, |sum, event| sum.saturating_add(event.written))
    }
}

/// Returns the calls that read or write, and the bytes, that an event stands for.
fn work(event: &Event) -> (u64, u64) {
    let bytes = match event.kind {
        _ if event.flags.has(Flags::MAPPED) => return (0, 0),
        Kind::Exec => event.size,
        _ => event.bytes(),
    };
    let calls = if event.calls == 0 { bytes.div_ceil(REQUEST as u64) } else { event.calls.into() };
    (calls, bytes)
}

#[allow(clippy::cast_precision_loss)] // A time.
fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// Returns an event on a file that has no more than `cap` bytes: places behind that are moved to
/// the same place in a page before it.
fn cut(event: &Event, cap: u64) -> Event {
    let mut cut = Event { size: event.size.min(cap), ..*event };
    if event.flags.has(Flags::MAPPED) || event.end() <= cap {
        return cut;
    }
    let bytes = event.bytes();
    (cut.read, cut.written) = (event.read.min(cap), event.written.min(cap));
    let share = u128::from(cut.bytes()) * u128::from(event.calls);
    cut.calls = u32::try_from(share.div_ceil(u128::from(bytes.max(1)))).unwrap_or(u32::MAX);
    let room = (cap - cut.bytes().min(cap)) / 4096 * 4096;
    cut.position = if room == 0 { 0 } else { event.position % room };
    cut
}

/// Sets times so that no event is before another, and no pause is longer than a minute.
fn without_pauses(events: &mut [Event]) {
    let (mut before, mut now) = (None, 0);
    for event in events {
        let pause = event.time.saturating_sub(*before.get_or_insert(event.time)).clamp(0, LONGEST_PAUSE);
        before = before.max(Some(event.time));
        now += pause;
        event.time = now;
    }
}
