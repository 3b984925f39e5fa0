//! How long new data lives (1985 paper, figure 4).
//!
//! A *life* is that of a new file's data: it begins when a file is made, or cut to nothing (by its
//! open or later), and ends when its last name goes, when the file is cut to nothing again, or when
//! one run overwrites all of it. Its length counts from the beginning, as the paper's does ("within
//! about 3 minutes of creation"). Its bytes are what was written, no more than the file reaches.
//! Data written into files that were there before is not followed: neither does the paper, whose
//! cache simulation (section 6) has it.
//!
//! What is held is a [`Life`] for each file that has one. A file whose last name goes while it is
//! still being written (a scratch file) lives until it is closed. A life that begins where another
//! still goes on had an end that the trace did not see.

use super::histogram::Histogram;
use crate::follow::Access;
use crate::{Event, FileId, Flags};
use foldhash::fast::RandomState;
use serde::Serialize;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// What dies sooner than this, in ns, died young: the 30 seconds after which UNIX, and Linux still,
/// writes data to the disk.
pub const YOUNG: u64 = 30 * 1_000_000_000;

/// Lives of new files' data.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lifetimes {
    /// Lengths in ns of the lives that ended, each with its bytes as its weight.
    pub ended: Histogram,
    /// Those that ended as the file was deleted.
    pub deleted: Lives,
    /// As it was cut to nothing, or opened so.
    pub truncated: Lives,
    /// As all of it was overwritten.
    pub overwritten: Lives,
    /// Those that went on when the trace ended.
    pub surviving: Lives,
    /// Those of which the trace did not see the end.
    pub lost: u64,
    /// Bytes written to files while their data was new, of all bytes written.
    pub written: u64,
}

/// How many, and how many bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lives {
    /// Files.
    pub files: u64,
    /// Their data in bytes.
    pub bytes: u64,
}

impl Lives {
    pub(super) fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Lifetimes {
    /// Returns all lives of which the end is known, or known not to have come: what shares are of.
    #[must_use]
    pub fn all(&self) -> Lives {
        Lives {
            files: self.ended.count() + self.surviving.files,
            bytes: self.ended.weight().saturating_add(self.surviving.bytes),
        }
    }
}

/// The data of a file since it was new.
#[derive(Clone, Debug)]
struct Life<T> {
    birth: i64,
    written: u64,
    /// Where the last byte written lies.
    extent: u64,
    /// The open that made it, while that goes on; then 0.
    maker: u64,
    /// Its last name went.
    nameless: bool,
    tag: T,
}

impl<T> Life<T> {
    fn bytes(&self) -> u64 {
        self.written.min(self.extent)
    }
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Deleted,
    Truncated,
    Overwritten,
}

/// A life that has ended: how long it was in ns, how many bytes it had, and who began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended<T> {
    pub(super) age: u64,
    pub(super) bytes: u64,
    pub(super) tag: T,
}

/// Follows lives.
#[derive(Debug)]
pub(super) struct Alive<T> {
    files: HashMap<FileId, Life<T>, RandomState>,
    found: Lifetimes,
}

impl<T> Default for Alive<T> {
    fn default() -> Self {
        Self { files: HashMap::default(), found: Lifetimes::default() }
    }
}

impl<T: Clone> Alive<T> {
    /// Returns a file is opened: that begins a life if it is new or was cut, and then perhaps ends
    /// one.
    pub(super) fn opened(&mut self, event: &Event, created: bool, tag: &T) -> Option<Ended<T>> {
        if created {
            self.found.lost += u64::from(self.files.contains_key(&event.file));
            self.begin(event, event.open, tag);
            None
        } else if event.flags.has(Flags::TRUNCATED) && !event.flags.has(Flags::BEFORE) {
            self.cut(event, event.open, tag)
        } else {
            None
        }
    }

    fn begin(&mut self, event: &Event, maker: u64, tag: &T) {
        let tag = tag.clone();
        let life = Life { birth: event.time, written: 0, extent: 0, maker, nameless: false, tag };
        self.files.insert(event.file, life);
    }

    fn cut(&mut self, event: &Event, maker: u64, tag: &T) -> Option<Ended<T>> {
        // There was nothing to lose yet: the life goes on.
        if let Some(life) = self.files.get_mut(&event.file).filter(|life| life.bytes() == 0) {
            life.maker = maker;
            return None;
        }
        let ended = self.end(event.file, event.time, End::Truncated);
        self.begin(event, maker, tag);
        ended
    }

    /// Returns a file was cut or extended to a size.
    pub(super) fn truncated(&mut self, event: &Event, tag: &T) -> Option<Ended<T>> {
        if event.size == 0 {
            let maker = self.files.get(&event.file).map_or(0, |life| life.maker);
            return self.cut(event, maker, tag);
        }
        if let Some(life) = self.files.get_mut(&event.file) {
            life.extent = life.extent.min(event.size);
        }
        None
    }

    /// Returns a run wrote to a file.
    pub(super) fn written(&mut self, event: &Event) -> Option<Ended<T>> {
        let Entry::Occupied(mut entry) = self.files.entry(event.file) else { return None };
        self.found.written = self.found.written.saturating_add(event.written);
        let life = entry.get_mut();
        if life.bytes() > 0 && event.position == 0 && event.end() >= life.extent {
            return self.end(event.file, event.time, End::Overwritten);
        }
        life.written = life.written.saturating_add(event.written);
        life.extent = life.extent.max(event.end());
        None
    }

    /// Returns the last name of a file went.
    pub(super) fn unlinked(&mut self, event: &Event) -> Option<Ended<T>> {
        let life = self.files.get_mut(&event.file)?;
        if life.maker != 0 {
            life.nameless = true;
            return None;
        }
        self.end(event.file, event.time, End::Deleted)
    }

    /// Returns an access ended. Only those that could write, and the last of a file without a name,
    /// can matter.
    pub(super) fn closed<A>(&mut self, access: &Access<A>, event: &Event) -> Option<Ended<T>> {
        let last = event.flags.has(Flags::LAST);
        if !last && !access.created && !access.flags.has(Flags::TRUNCATED) {
            return None;
        }
        let life = self.files.get_mut(&event.file)?;
        let made = life.maker == event.open;
        if made {
            life.maker = 0;
        }
        if last || (made && life.nameless) {
            return self.end(event.file, event.time, End::Deleted);
        }
        None
    }

    fn end(&mut self, file: FileId, time: i64, how: End) -> Option<Ended<T>> {
        let life = self.files.remove(&file)?;
        let ended = Ended {
            age: time.saturating_sub(life.birth).try_into().unwrap_or(0),
            bytes: life.bytes(),
            tag: life.tag,
        };
        self.found.ended.add(ended.age, ended.bytes);
        let lives = match how {
            End::Deleted => &mut self.found.deleted,
            End::Truncated => &mut self.found.truncated,
            End::Overwritten => &mut self.found.overwritten,
        };
        lives.add(ended.bytes);
        Some(ended)
    }

    pub(super) fn finish(mut self) -> Lifetimes {
        for life in self.files.values() {
            self.found.surviving.add(life.bytes());
        }
        self.found
    }
}
