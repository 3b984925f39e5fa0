//! Combines events into accesses: what happened to a file from an `open` to its `close`.
//!
//! The one idea: an [`Access`] is a small set of numbers that each event of its open updates, so a
//! file that is read in a million runs needs no more memory than one read in a single run; callers
//! that need the runs see them in the events. Memory holds one [`Access`] for each open file.
//!
//! A trace begins and ends at any moment. An event of an unknown open ([`Step::Unknown`]) belongs
//! to a file that was open before the recording, or whose `open` was lost; files that are never
//! closed remain at the end ([`Follow::still_open`]).

use crate::{Event, FileId, Flags, Kind};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The use of one open of a file, so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access<T = ()> {
    /// Number of the open.
    pub open: u64,
    /// The file.
    pub file: FileId,
    /// Account number.
    pub user: u32,
    /// Flags of the `open` or `create`.
    pub flags: Flags,
    /// The open created the file.
    pub created: bool,
    /// Size of the file before the open, in bytes.
    pub size: u64,
    /// Time of the open, in ns since 1970.
    pub opened: i64,
    /// Time of the last event (at the end, of the close), in ns since 1970.
    pub last: i64,
    /// Time between the last event and the one before it, in ns; 0 at the `open`.
    pub interval: u64,
    /// Number of bytes read.
    pub read: u64,
    /// Number of bytes written.
    pub written: u64,
    /// Number of runs that transferred bytes.
    pub runs: u64,
    /// Number of seeks.
    pub seeks: u64,
    /// Number of `fsync` and `fdatasync` calls.
    pub syncs: u64,
    /// Position where the first run began.
    start: u64,
    /// Position where the last run ended.
    end: u64,
    /// Set if a run did not begin where the previous one ended.
    broken: bool,
    /// Data of the caller.
    pub tag: T,
}

/// The order of an access within its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// No bytes were transferred, although the file was not empty.
    Untouched,
    /// From the first byte to the last without a gap or a step back. An access to an empty file
    /// counts as this.
    Whole,
    /// In one direction without a gap, but not from the first to the last byte: at most one seek,
    /// before the first read or write.
    Sequential,
    /// Anything else.
    Random,
}

/// The access mode of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Read-only.
    Read,
    /// Write-only.
    Write,
    /// Read and write.
    Both,
}

impl Mode {
    /// All modes, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Both];
}

impl<T> Access<T> {
    fn new(event: &Event, tag: T) -> Self {
        Self {
            open: event.open,
            file: event.file,
            user: event.user,
            flags: event.flags,
            created: event.kind == Kind::Create,
            size: event.size,
            opened: event.time,
            last: event.time,
            interval: 0,
            read: 0,
            written: 0,
            runs: 0,
            seeks: 0,
            syncs: 0,
            start: event.position,
            end: event.position,
            broken: false,
            tag,
        }
    }

    fn take(&mut self, event: &Event) {
        self.interval = event.time.saturating_sub(self.last).try_into().unwrap_or(0);
        self.last = self.last.max(event.time);
        self.seeks += u64::from(event.kind == Kind::Seek);
        self.syncs += u64::from(event.kind == Kind::Sync);
        if event.kind.ends_run() && event.bytes() > 0 {
            if self.runs == 0 {
                self.start = event.position;
            } else if event.position != self.end {
                self.broken = true;
            }
            self.end = event.end();
            self.runs += 1;
            self.read = self.read.saturating_add(event.read);
            self.written = self.written.saturating_add(event.written);
        }
    }

    /// Returns the bytes read and written.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.read.saturating_add(self.written)
    }

    /// Returns the mode of the open. If it is unknown (neither flag), the mode follows from the
    /// transfers, or is `Read` without any.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        match (self.flags.has(Flags::READ), self.flags.has(Flags::WRITE)) {
            (true, true) => Mode::Both,
            (true, false) => Mode::Read,
            (false, true) => Mode::Write,
            (false, false) => match (self.read, self.written) {
                (_, 0) => Mode::Read,
                (0, _) => Mode::Write,
                _ => Mode::Both,
            },
        }
    }

    /// Returns the order of the access, given the file's `size` in bytes at the close (1985 paper,
    /// Table V).
    #[must_use]
    pub const fn pattern(&self, size: u64) -> Pattern {
        if self.runs == 0 {
            if size == 0 { Pattern::Whole } else { Pattern::Untouched }
        } else if self.broken {
            Pattern::Random
        } else if self.start == 0 && self.end >= size {
            Pattern::Whole
        } else {
            Pattern::Sequential
        }
    }

    /// Returns true if the file was opened before the recording began: the time of the open and
    /// earlier use are unknown.
    #[must_use]
    pub const fn predates_recording(&self) -> bool {
        self.flags.has(Flags::BEFORE)
    }

    /// Returns the time for which it has been open, in ns.
    #[must_use]
    pub fn duration(&self) -> u64 {
        self.last.saturating_sub(self.opened).try_into().unwrap_or(0)
    }
}

/// The effect of an event on its access.
#[derive(Debug)]
pub enum Step<'a, T> {
    /// The event belongs to no open.
    NoOpen,
    /// The event begins an access.
    Opened(&'a mut Access<T>),
    /// The event is a seek, a run or an `fsync`; the access includes it already.
    During(&'a mut Access<T>),
    /// The event ends an access; its `size` is the file's size at the close.
    Closed(Access<T>),
    /// The event belongs to an unknown open.
    Unknown,
}

/// The open files.
#[derive(Debug)]
pub struct Follow<T = ()> {
    open: HashMap<u64, Access<T>, RandomState>,
    /// Size of the map, for use while an entry of it is borrowed.
    now: usize,
    most: usize,
}

impl<T> Default for Follow<T> {
    fn default() -> Self {
        Self { open: HashMap::default(), now: 0, most: 0 }
    }
}

impl<T> Follow<T> {
    /// Processes an event; calls `tag` only at the beginning of an access. If an open number is
    /// opened again without a close, the close was lost, and the access begins again.
    pub fn event(&mut self, event: &Event, tag: impl FnOnce() -> T) -> Step<'_, T> {
        if event.open == 0 {
            return Step::NoOpen;
        }
        match event.kind {
            Kind::Open | Kind::Create => {
                let access = Access::new(event, tag());
                match self.open.entry(event.open) {
                    Entry::Occupied(mut entry) => {
                        entry.insert(access);
                        Step::Opened(entry.into_mut())
                    }
                    Entry::Vacant(entry) => {
                        self.now += 1;
                        self.most = self.most.max(self.now);
                        Step::Opened(entry.insert(access))
                    }
                }
            }
            Kind::Close => match self.open.remove(&event.open) {
                Some(mut access) => {
                    self.now -= 1;
                    access.take(event);
                    Step::Closed(access)
                }
                None => Step::Unknown,
            },
            Kind::Seek | Kind::Run | Kind::Sync => match self.open.get_mut(&event.open) {
                Some(access) => {
                    access.take(event);
                    Step::During(access)
                }
                None => Step::Unknown,
            },
            _ => Step::NoOpen,
        }
    }

    /// Returns the number of open files.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.now
    }

    /// Returns true if no file is open.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.now == 0
    }

    /// Returns the maximum number of files open at once.
    #[must_use]
    pub const fn most(&self) -> usize {
        self.most
    }

    /// Removes and returns the access with this open number, if there is one.
    pub fn take(&mut self, open: u64) -> Option<Access<T>> {
        let access = self.open.remove(&open);
        self.now -= usize::from(access.is_some());
        access
    }

    /// Returns the accesses still open, in no order: at the end of a trace, those never closed.
    pub fn still_open(&self) -> impl Iterator<Item = &Access<T>> {
        self.open.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time: i64, kind: Kind, position: u64, read: u64, written: u64, size: u64) -> Event {
        Event { time, kind, open: 1, position, read, written, size, ..Event::default() }
    }

    /// Returns the pattern of an access with these runs (position, read, written) in a file that
    /// has `size` bytes at the close.
    fn pattern(runs: &[(u64, u64, u64)], size: u64) -> Pattern {
        let mut follow = Follow::<()>::default();
        follow.event(&event(0, Kind::Open, 0, 0, 0, size), || ());
        for &(position, read, written) in runs {
            follow.event(&event(1, Kind::Run, position, read, written, 0), || ());
        }
        match follow.event(&event(2, Kind::Close, 0, 0, 0, size), || ()) {
            Step::Closed(access) => access.pattern(size),
            other => panic!("{other:?}"),
        }
    }

    /// Promise: whole, sequential and other accesses are distinguished by the positions of their
    /// runs, whatever event ends these.
    #[test]
    fn patterns() {
        assert_eq!(pattern(&[(0, 100, 0)], 100), Pattern::Whole);
        assert_eq!(pattern(&[(0, 60, 0), (60, 40, 0)], 100), Pattern::Whole);
        assert_eq!(pattern(&[(0, 60, 0), (60, 0, 40)], 100), Pattern::Whole);
        assert_eq!(pattern(&[(0, 99, 0)], 100), Pattern::Sequential);
        assert_eq!(pattern(&[(50, 50, 0)], 100), Pattern::Sequential);
        assert_eq!(pattern(&[(0, 60, 0), (61, 39, 0)], 100), Pattern::Random);
        assert_eq!(pattern(&[(0, 100, 0), (0, 100, 0)], 100), Pattern::Random);
        assert_eq!(pattern(&[], 100), Pattern::Untouched);
        assert_eq!(pattern(&[], 0), Pattern::Whole);
        assert_eq!(pattern(&[(u64::MAX, 5, 0)], u64::MAX), Pattern::Sequential);
    }

    /// Promise: an access has its bytes, runs and times; unknown opens are reported; unclosed
    /// accesses remain.
    #[test]
    fn accesses() {
        let mut follow = Follow::<u8>::default();
        let mut take = |event: &Event| match follow.event(event, || 7) {
            Step::Closed(access) => Ok(access),
            other => Err(format!("{other:?}").split('(').next().unwrap().to_owned()),
        };
        assert_eq!(take(&event(0, Kind::Close, 0, 5, 0, 5)), Err("Unknown".into()));
        assert_eq!(take(&Event { open: 0, ..event(0, Kind::Run, 0, 5, 0, 0) }), Err("NoOpen".into()));
        assert_eq!(take(&event(1, Kind::Exec, 0, 0, 0, 9)), Err("NoOpen".into()));
        let opened = Event { flags: Flags::READ | Flags::WRITE, ..event(10, Kind::Create, 0, 0, 0, 0) };
        assert_eq!(take(&opened), Err("Opened".into()));
        assert_eq!(take(&event(20, Kind::Seek, 0, 0, 30, 0)), Err("During".into()));
        assert_eq!(take(&event(21, Kind::Sync, 0, 0, 0, 0)), Err("During".into()));
        let closed = take(&event(50, Kind::Close, 10, 4, 0, 30)).unwrap();
        assert_eq!((closed.read, closed.written, closed.runs, closed.seeks, closed.syncs), (4, 30, 2, 1, 1));
        assert_eq!((closed.duration(), closed.interval, closed.tag), (40, 29, 7));
        assert_eq!((closed.created, closed.mode()), (true, Mode::Both));
        assert_eq!(take(&opened), Err("Opened".into()));
        assert_eq!((follow.len(), follow.most(), follow.still_open().count()), (1, 1, 1));
    }
}
