//! From events to accesses: what happened to a file from an `open` to its `close`, put together.
//!
//! The one idea: an [`Access`] is a handful of numbers that each event of its open updates, so a
//! file that is read in a million runs needs no more memory than one read in a single run; who
//! wants the runs sees them pass by as events. What is held is one [`Access`] for each file that is
//! open.
//!
//! Traces begin and end in the middle of things. An event of an open that is not known
//! ([`Step::Unknown`]) belongs to a file that was open before the recording, or whose `open` was
//! lost; what is never closed is there at the end ([`Follow::left`]).

use crate::{Event, FileId, Flags, Kind};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// What an open of a file was used for, so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access<T = ()> {
    /// Which open.
    pub open: u64,
    /// Of which file.
    pub file: FileId,
    /// By whom.
    pub user: u32,
    /// How it was opened: [`Flags`] of the `open` or `create`.
    pub flags: Flags,
    /// True if the file was made by this open.
    pub created: bool,
    /// Bytes of the file before the open.
    pub size: u64,
    /// When it was opened, in ns since 1970.
    pub opened: i64,
    /// When its last event was; at its close, that of the close.
    pub last: i64,
    /// How long before [`Access::last`] the event before that was, in ns: 0 at the `open`.
    pub interval: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Runs that moved bytes.
    pub runs: u64,
    /// Seeks.
    pub seeks: u64,
    /// `fsync` and `fdatasync`.
    pub syncs: u64,
    /// Where the first run began.
    start: u64,
    /// Where the last one ended.
    end: u64,
    /// A run did not begin where the one before had ended.
    broken: bool,
    /// What the caller knows of it.
    pub tag: T,
}

/// In which order an access went through its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// No byte was moved, though the file had some.
    Untouched,
    /// From the first byte to the last without a gap or a step back. So is the access to an empty
    /// file.
    Whole,
    /// In one direction without a gap, but not from the first to the last byte: at most one move,
    /// before anything was read or written.
    Sequential,
    /// Anything else.
    Random,
}

/// For what a file was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Only to be read.
    Read,
    /// Only to be written.
    Write,
    /// For both.
    Both,
}

impl Mode {
    /// All, in the order of their numbers.
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

    /// For what the file was opened. What nobody knows (neither flag) goes by what was done: read,
    /// if nothing.
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

    /// In which order bytes were read and written, in a file that had `size` bytes at the close
    /// (1985 paper, Table V).
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

    /// Returns true if it was opened before the recording began: when, and what was done with it
    /// until then, is not known.
    #[must_use]
    pub const fn is_from_before(&self) -> bool {
        self.flags.has(Flags::BEFORE)
    }

    /// Returns how long it has been open, in ns.
    #[must_use]
    pub fn duration(&self) -> u64 {
        self.last.saturating_sub(self.opened).try_into().unwrap_or(0)
    }
}

/// What an event did to the access that it belongs to.
#[derive(Debug)]
pub enum Step<'a, T> {
    /// It belongs to none.
    Apart,
    /// It begins one.
    Opened(&'a mut Access<T>),
    /// It is one of its middle: a seek, a run, an `fsync`. The access has it already.
    During(&'a mut Access<T>),
    /// It ends one; the file's size at the close is the event's.
    Closed(Access<T>),
    /// It names an open that is not known.
    Unknown,
}

/// The files that are open.
#[derive(Debug)]
pub struct Follow<T = ()> {
    open: HashMap<u64, Access<T>, RandomState>,
    /// As many as there are in the map, where an entry of it is borrowed.
    now: usize,
    most: usize,
}

impl<T> Default for Follow<T> {
    fn default() -> Self {
        Self { open: HashMap::default(), now: 0, most: 0 }
    }
}

impl<T> Follow<T> {
    /// Takes the next event; `tag` is asked at the beginning of an access only. An open number that
    /// is opened again without having been closed begins anew: the close was lost.
    pub fn event(&mut self, event: &Event, tag: impl FnOnce() -> T) -> Step<'_, T> {
        if event.open == 0 {
            return Step::Apart;
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
            _ => Step::Apart,
        }
    }

    /// Returns the number of files that are open now.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.now
    }

    /// Returns true if none is.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.now == 0
    }

    /// Returns the most that were open at once.
    #[must_use]
    pub const fn most(&self) -> usize {
        self.most
    }

    /// Takes what is open under this number, if anything is.
    pub fn take(&mut self, open: u64) -> Option<Access<T>> {
        let access = self.open.remove(&open);
        self.now -= usize::from(access.is_some());
        access
    }

    /// Returns what is open still, in no order: at the end of a trace, what was never closed.
    pub fn left(&self) -> impl Iterator<Item = &Access<T>> {
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

    /// Promise: whole, sequential and other accesses are told apart by where their runs lie,
    /// whatever ended these.
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

    /// Promise: an access has its bytes, runs and times; what is not known is said to be; what is
    /// not closed is left.
    #[test]
    fn accesses() {
        let mut follow = Follow::<u8>::default();
        let mut take = |event: &Event| match follow.event(event, || 7) {
            Step::Closed(access) => Ok(access),
            other => Err(format!("{other:?}").split('(').next().unwrap().to_owned()),
        };
        assert_eq!(take(&event(0, Kind::Close, 0, 5, 0, 5)), Err("Unknown".into()));
        assert_eq!(take(&Event { open: 0, ..event(0, Kind::Run, 0, 5, 0, 0) }), Err("Apart".into()));
        assert_eq!(take(&event(1, Kind::Exec, 0, 0, 0, 9)), Err("Apart".into()));
        let opened = Event { flags: Flags::READ | Flags::WRITE, ..event(10, Kind::Create, 0, 0, 0, 0) };
        assert_eq!(take(&opened), Err("Opened".into()));
        assert_eq!(take(&event(20, Kind::Seek, 0, 0, 30, 0)), Err("During".into()));
        assert_eq!(take(&event(21, Kind::Sync, 0, 0, 0, 0)), Err("During".into()));
        let closed = take(&event(50, Kind::Close, 10, 4, 0, 30)).unwrap();
        assert_eq!((closed.read, closed.written, closed.runs, closed.seeks, closed.syncs), (4, 30, 2, 1, 1));
        assert_eq!((closed.duration(), closed.interval, closed.tag), (40, 29, 7));
        assert_eq!((closed.created, closed.mode()), (true, Mode::Both));
        assert_eq!(take(&opened), Err("Opened".into()));
        assert_eq!((follow.len(), follow.most(), follow.left().count()), (1, 1, 1));
    }
}
