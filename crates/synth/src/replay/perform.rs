//! Turns events into calls.

use super::names::{Found, Names};
use super::outcome::{Call, Timings};
use super::{Name, OpenMode, Target};
use spindle_clock::Clock;
use spindle_trace::{Batch, Event, FileId, Flags, Kind, Result};
use std::collections::HashMap;
use std::time::Duration;

/// The times at which events are replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// This many times as fast as recorded; a late event does not wait.
    Times(f64),
    /// Without pauses.
    FullSpeed,
}

impl Pace {
    /// Returns when an event is due that was recorded at `time`, in nanoseconds, after one that was
    /// at `first` and begins the replay; nothing if it does not wait for a time.
    #[must_use]
    pub fn due(self, first: i64, time: i64) -> Option<Duration> {
        let Self::Times(speed) = self else { return None };
        #[allow(clippy::cast_precision_loss)] // A time.
        let seconds = time.saturating_sub(first).max(0) as f64 / 1e9 / speed;
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }
}

/// Settings of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The times of events.
    pub pace: Pace,
    /// Number of bytes per call, if the trace does not have the number of calls.
    pub request: usize,
    /// Delay before the first event; copies that start one after the other do not run in lockstep.
    pub shift: Duration,
}

/// An open file of the trace.
#[derive(Debug)]
struct Opened<O> {
    open: O,
    file: FileId,
}

/// Replays one copy of a trace.
pub struct Replay<'a, T: Target> {
    target: T,
    clock: &'a dyn Clock,
    settings: Settings,
    names: Names,
    open: HashMap<u64, Opened<T::Open>>,
    /// Time of the first event in the trace, and of the start of the replay.
    began: Option<(i64, Duration)>,
    timings: Timings,
}

impl<T: Target + std::fmt::Debug> std::fmt::Debug for Replay<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay")
            .field("target", &self.target)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<'a, T: Target> Replay<'a, T> {
    /// Returns a replay on a target that contains the [`super::population`] of the trace.
    pub fn new(target: T, clock: &'a dyn Clock, settings: Settings) -> Self {
        Self {
            target,
            clock,
            settings,
            names: Names::default(),
            open: HashMap::new(),
            began: None,
            timings: Timings::default(),
        }
    }

    /// Replays the next events of the trace.
    ///
    /// # Errors
    /// Errors of the target.
    pub fn take(&mut self, batch: &Batch) -> Result<()> {
        batch.events.iter().try_for_each(|event| {
            self.wait(event.time);
            self.perform(event)
        })
    }

    /// Returns the timings so far.
    pub const fn timings(&self) -> &Timings {
        &self.timings
    }

    /// Closes the files that the trace leaves open; returns the target and the timings.
    ///
    /// # Errors
    /// Errors of the target.
    pub fn finish(mut self) -> Result<(T, Timings)> {
        let mut left: Vec<_> = self.open.drain().collect();
        left.sort_unstable_by_key(|(id, _)| *id);
        for (_, opened) in left {
            self.target.close(opened.open)?;
        }
        if let Some((_, start)) = self.began {
            self.timings.elapsed = self.clock.monotonic().saturating_sub(start);
        }
        Ok((self.target, self.timings))
    }

    fn wait(&mut self, time: i64) {
        let now = self.clock.monotonic();
        let (first, start) = *self.began.get_or_insert((time, now));
        if let Some(after) = self.settings.pace.due(first, time) {
            let due = start + self.settings.shift + after;
            match due.checked_sub(now) {
                Some(early) => self.clock.sleep(early),
                None => self.timings.latest = self.timings.latest.max(now.saturating_sub(due)),
            }
        }
    }

    /// Makes a call and records the time it takes.
    fn timed<R>(&mut self, what: Call, bytes: u64, work: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        let start = self.clock.monotonic();
        let done = work(&mut self.target)?;
        self.timings.add(what, self.clock.monotonic().saturating_sub(start), bytes);
        Ok(done)
    }

    fn perform(&mut self, event: &Event) -> Result<()> {
        let (Found::Known(name) | Found::Old(name)) = self.names.find(event) else {
            self.timings.skipped += 1;
            return Ok(());
        };
        match event.kind {
            Kind::Open | Kind::Create => {
                let (what, mode) = match event.kind {
                    Kind::Create => (Call::Create, OpenMode::New),
                    _ if event.flags.has(Flags::TRUNCATED) => (Call::Open, OpenMode::Truncated),
                    _ => (Call::Open, OpenMode::Existing),
                };
                let open = self.timed(what, 0, |target| target.open(name, mode))?;
                if event.flags.has(Flags::UNNAMED) {
                    self.remove(event, name)?;
                }
                if let Some(lost) = self.open.insert(event.open, Opened { open, file: event.file }) {
                    self.target.close(lost.open)?;
                }
            }
            // What of a mapped file was touched is not known.
            Kind::Run if event.flags.has(Flags::MAPPED) => {
                self.timings.mapped = self.timings.mapped.saturating_add(event.bytes());
            }
            Kind::Close | Kind::Seek | Kind::Run => self.run(event, name)?,
            Kind::Unlink => self.remove(event, name)?,
            Kind::Truncate => self.timed(Call::Truncate, 0, |target| target.truncate(name, event.size))?,
            Kind::Rename => {
                if let Some(next) = self.names.rename(event.file) {
                    self.timed(Call::Rename, 0, |target| target.rename(name, next))?;
                }
            }
            Kind::Exec => {
                let mut open = self.timed(Call::Open, 0, |target| target.open(name, OpenMode::Existing))?;
                let done =
                    self.transfer(&mut open, &Event { read: event.size, position: 0, calls: 0, ..*event });
                self.target.close(open)?;
                done?;
            }
            Kind::Sync => {
                if let Some(mut opened) = self.open.remove(&event.open) {
                    let done = self.timed(Call::Sync, 0, |target| target.sync(&mut opened.open));
                    self.open.insert(event.open, opened);
                    done?;
                } else {
                    self.timings.skipped += 1;
                }
            }
            Kind::Stat | Kind::Access | Kind::Readlink => {
                self.timed(Call::Stat, 0, |target| target.stat(name))?;
            }
            Kind::Chmod | Kind::Chown | Kind::Utime => {
                self.timed(Call::Change, 0, |target| target.change(name))?;
            }
            Kind::Mkdir | Kind::Rmdir | Kind::List | Kind::Chdir | Kind::Link | Kind::Symlink => {
                self.timings.skipped += 1;
            }
        }
        Ok(())
    }

    /// Transfers the bytes of a run that an event ends, and closes the file on a close event.
    fn run(&mut self, event: &Event, name: Name) -> Result<()> {
        let opened = self.open.remove(&event.open).filter(|opened| opened.file == event.file);
        let mut open = match opened {
            Some(opened) => opened.open,
            // The file was opened before the trace, or never (a trace of a disk).
            None if event.bytes() > 0 => self.target.open(name, OpenMode::Existing)?,
            None => return Ok(()),
        };
        let known = event.open != 0 && event.kind != Kind::Close;
        self.transfer(&mut open, event)?;
        if known {
            self.open.insert(event.open, Opened { open, file: event.file });
            return Ok(());
        }
        self.timed(Call::Close, 0, |target| target.close(open))
    }

    fn transfer(&mut self, open: &mut T::Open, event: &Event) -> Result<()> {
        let bytes = event.bytes();
        let request = match event.calls {
            0 => self.settings.request,
            calls => usize::try_from(bytes.div_ceil(calls.into())).unwrap_or(usize::MAX).min(MAX_REQUEST),
        };
        let mut done = 0;
        while done < bytes {
            let part = usize::try_from(bytes - done).unwrap_or(usize::MAX).min(request.max(1));
            let position = event.position.saturating_add(done);
            if event.written > 0 {
                self.timed(Call::Write, part as u64, |target| target.write(open, position, part))?;
            } else {
                let read = self.timed(Call::Read, part as u64, |target| target.read(open, position, part))?;
                self.timings.short += u64::from(read < part);
                if read == 0 {
                    // There is no more in the file, however much the trace says.
                    break;
                }
            }
            done += part as u64;
        }
        Ok(())
    }

    fn remove(&mut self, event: &Event, name: Name) -> Result<()> {
        self.names.forget(event.file);
        self.timed(Call::Remove, 0, |target| target.remove(name))
    }
}

/// Maximum number of bytes per call.
const MAX_REQUEST: usize = 1 << 20;
