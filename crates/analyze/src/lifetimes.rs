//! Lifetimes of new data (1985 paper, figure 4).
//!
//! A *life* is that of the data of a new file. It begins when a file is created, or truncated to 0
//! (by its open or later). It ends when the last name is removed, when the file is truncated to 0
//! again, or when one run overwrites all of it. Its length counts from its beginning, as in the
//! paper ("within about 3 minutes of creation"). Its bytes are those written, at most the extent of
//! the file. Data written into existing files is not followed; the paper does not follow it either,
//! except in its cache simulation (section 6).
//!
//! Each file with a life has a [`Life`] in memory. A file whose last name is removed while it is
//! still being written (a scratch file) lives until it is closed. If a life begins while another
//! one is still open, the trace has missed the end of that one.

use super::histogram::Histogram;
use super::parts::{Count, Sum, Whole, parts};
use foldhash::fast::RandomState;
use serde::Serialize;
use spindle_trace::follow::Access;
use spindle_trace::{Event, FileId, Flags};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Data that dies within this time, in ns, died young: 30 seconds, after which UNIX, and still
/// Linux, writes data to the disk.
pub const YOUNG: u64 = 30 * 1_000_000_000;

/// Lifetimes of the data of new files.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lifetimes {
    /// Lengths in ns of the lives that ended, each weighted by its bytes.
    pub ended: Histogram,
    /// Lives ended by deleting the file.
    pub deleted: Lives,
    /// Lives ended by truncating the file to 0.
    pub truncated: Lives,
    /// Lives ended by overwriting all of the file.
    pub overwritten: Lives,
    /// Lives that had not ended at the end of the trace.
    pub surviving: Lives,
    /// Number of lives whose end the trace missed.
    pub lost: u64,
    /// Bytes written to files while their data was new.
    pub written: u64,
}

parts!(Lifetimes {
    ended: Whole,
    deleted: Whole,
    truncated: Whole,
    overwritten: Whole,
    surviving: Whole,
    lost: Count,
    written: Sum,
});

/// A number of files (or other items) and of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lives {
    /// Number of files.
    pub files: u64,
    /// Number of bytes.
    pub bytes: u64,
}

parts!(Lives { files: Count, bytes: Sum });

impl Lives {
    pub(super) fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Lifetimes {
    /// Returns all lives except those whose end was missed: the total for shares.
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
    /// End of the last byte written.
    extent: u64,
    /// The open that created the data, or 0 after its close.
    maker: u64,
    /// Set when the last name is removed.
    unlinked: bool,
    tag: T,
}

impl<T> Life<T> {
    fn bytes(&self) -> u64 {
        self.written.min(self.extent)
    }
}

/// The kinds of end of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Deleted,
    Truncated,
    Overwritten,
}

/// A life that has ended: its length in ns, its bytes, and the tag of its creator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended<T> {
    pub(super) age: u64,
    pub(super) bytes: u64,
    pub(super) tag: T,
}

/// Tracks lives.
#[derive(Debug)]
pub(super) struct LiveData<T> {
    files: HashMap<FileId, Life<T>, RandomState>,
    found: Lifetimes,
}

impl<T> Default for LiveData<T> {
    fn default() -> Self {
        Self { files: HashMap::default(), found: Lifetimes::default() }
    }
}

impl<T: Clone> LiveData<T> {
    /// Processes an open, which begins a life if the file is created or truncated, and may end one.
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
        let life = Life { birth: event.time, written: 0, extent: 0, maker, unlinked: false, tag };
        self.files.insert(event.file, life);
    }

    fn cut(&mut self, event: &Event, maker: u64, tag: &T) -> Option<Ended<T>> {
        // There is no data yet: the life continues.
        if let Some(life) = self.files.get_mut(&event.file).filter(|life| life.bytes() == 0) {
            life.maker = maker;
            return None;
        }
        let ended = self.end(event.file, event.time, End::Truncated);
        self.begin(event, maker, tag);
        ended
    }

    /// Processes a truncation to a size.
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

    /// Processes a run that writes to a file.
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

    /// Processes the removal of the last name of a file.
    pub(super) fn unlinked(&mut self, event: &Event) -> Option<Ended<T>> {
        let life = self.files.get_mut(&event.file)?;
        if life.maker != 0 {
            life.unlinked = true;
            return None;
        }
        self.end(event.file, event.time, End::Deleted)
    }

    /// Processes a close. It matters only if the open could write, or if it is the last one of a
    /// file without a name.
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
        if last || (made && life.unlinked) {
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

    /// Returns what has been found so far; of the lives that go on only the number.
    pub(super) fn so_far(&self) -> Lifetimes {
        let surviving = Lives { files: self.files.len() as u64, bytes: 0 };
        Lifetimes { surviving, ..self.found.clone() }
    }

    pub(super) fn finish(mut self) -> Lifetimes {
        for life in self.files.values() {
            self.found.surviving.add(life.bytes());
        }
        self.found
    }
}
