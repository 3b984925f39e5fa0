//! Takes a part of a trace: chosen files, programs, processes and users, and a window of time.
//!
//! The one idea: an open is one thing. Whether it is wanted is decided when it begins, by the file
//! and by who opened it, and holds for all its events, also those of other processes that inherit
//! it. The window then cuts it as a recording does that begins and ends with the window: an open
//! from before has an `open` with [`Flags::BEFORE`] at its first use in the window, and one that
//! lasts longer has no `close`. So the part is a trace like any other, of which no analysis
//! counts more than was there.
//!
//! Memory holds the open files, and does not grow with the number of events.
//!
//! What the part cannot have: the bytes of a run count at the event that ends it, so a run over the
//! beginning of the window counts as a whole, and one over its end not at all. What others do with
//! a file that is kept, such as its deletion, is left out.

use crate::latency::Latencies;
use crate::{Batch, Event, FileId, Flags, Info, Kind, Names, Result, Source, Symbol};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

/// A moment of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A time in ns since 1970.
    At(i64),
    /// A time in ns since the first event.
    After(i64),
}

impl Moment {
    /// Returns the time in ns since 1970, in a trace whose first event is at `first`.
    const fn since_1970(self, first: i64) -> i64 {
        match self {
            Self::At(time) => time,
            Self::After(time) => first.saturating_add(time),
        }
    }
}

/// A type of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// A regular file, or one of unknown type.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

impl FileType {
    /// Returns the type of the file of an event.
    const fn of(event: &Event) -> Self {
        match event.kind {
            Kind::Mkdir | Kind::Rmdir | Kind::List | Kind::Chdir => Self::Directory,
            Kind::Readlink | Kind::Symlink => Self::Symlink,
            _ if event.flags.has(Flags::DIRECTORY) => Self::Directory,
            _ => Self::Regular,
        }
    }
}

/// Returns true for the words that are wanted.
pub type WordTest = Box<dyn Fn(&str) -> bool>;

/// What is wanted: events that have one of the values of each property that is given.
#[derive(Default)]
pub struct Selection {
    /// Paths of the file; a `rename` and a `link` are wanted if one of their two paths is.
    pub paths: Option<WordTest>,
    /// Types of the file; any if it is empty.
    pub types: Vec<FileType>,
    /// Names of the program.
    pub commands: Option<WordTest>,
    /// Process numbers; any if it is empty.
    pub processes: Vec<u32>,
    /// Account numbers; any if it is empty.
    pub users: Vec<u32>,
    /// When the window begins; with the trace by default.
    pub from: Option<Moment>,
    /// The first moment behind the window.
    pub until: Option<Moment>,
}

/// The answers of a test about the words of the current batch.
#[derive(Default)]
struct Answers(Vec<Option<bool>>);

impl Answers {
    fn get(&mut self, test: &WordTest, word: Symbol, names: &Names) -> bool {
        *self.0[word.number()].get_or_insert_with(|| test(names.word(word)))
    }

    fn begin(&mut self, names: &Names) {
        self.0.clear();
        self.0.resize(names.len(), None);
    }
}

/// An open file.
struct Open {
    is_wanted: bool,
    /// The `open` that it gets at its first use in the window, if it began before.
    before: Option<Box<Before>>,
}

/// An `open` from before the window, and its words.
struct Before {
    event: Event,
    command: Box<str>,
    path: Box<str>,
}

/// The size of a file that is open before the window begins, and by how many wanted opens.
struct Sized {
    size: u64,
    opens: u64,
}

/// A part of a trace.
pub struct Filtered {
    source: Box<dyn Source>,
    wanted: Selection,
    note: String,
    /// The times of the window in ns since 1970, from the first event on.
    window: Option<(i64, i64)>,
    opens: HashMap<u64, Open, RandomState>,
    sizes: HashMap<FileId, Sized, RandomState>,
    paths: Answers,
    commands: Answers,
}

impl fmt::Debug for Filtered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filtered").field("window", &self.window).finish_non_exhaustive()
    }
}

impl Filtered {
    /// Takes a part of `source`, which must have all columns; `how` describes what is wanted, for
    /// the note that the part gets.
    #[must_use]
    pub fn new(source: Box<dyn Source>, wanted: Selection, how: &str) -> Self {
        Self {
            source,
            wanted,
            note: format!("a part of a trace, filtered by {how}"),
            window: None,
            opens: HashMap::default(),
            sizes: HashMap::default(),
            paths: Answers::default(),
            commands: Answers::default(),
        }
    }

    /// Returns true if an event is wanted, whenever it was.
    fn is_wanted(&mut self, event: &Event, names: &Names) -> bool {
        let Self { wanted, paths, commands, .. } = self;
        let has = |list: &[u32], number| list.is_empty() || list.contains(&number);
        if !has(&wanted.processes, event.process) || !has(&wanted.users, event.user) {
            return false;
        }
        if wanted.commands.as_ref().is_some_and(|test| !commands.get(test, event.command, names)) {
            return false;
        }
        // What is done to all files is done to those that are wanted.
        if event.is_sync_of_all() {
            return true;
        }
        if !wanted.types.is_empty() && !wanted.types.contains(&FileType::of(event)) {
            return false;
        }
        let mut has_path = |test, path: Symbol| path != Symbol::default() && paths.get(test, path, names);
        wanted.paths.as_ref().is_none_or(|test| has_path(test, event.path) || has_path(test, event.new_path))
    }

    /// Processes an event; adds to `kept` what the part has of it.
    fn event(&mut self, event: Event, names: &mut Names, kept: &mut Vec<Event>) {
        let (from, until) = *self.window.get_or_insert_with(|| {
            let at = |moment: Option<Moment>, none| moment.map_or(none, |m| m.since_1970(event.time));
            (at(self.wanted.from, i64::MIN), at(self.wanted.until, i64::MAX))
        });
        let is_before = event.time < from;
        let is_within = !is_before && (event.time < until || until == i64::MAX);
        if event.open == 0 {
            if is_before {
                self.resize(&event);
            }
            if is_within && self.is_wanted(&event, names) {
                kept.push(event);
            }
            return;
        }
        if matches!(event.kind, Kind::Open | Kind::Create) {
            let is_wanted = self.is_wanted(&event, names);
            let before = (is_wanted && is_before).then(|| self.begin(&event, names));
            if let Some(lost) = self.opens.insert(event.open, Open { is_wanted, before }) {
                self.forget(lost.before);
            }
        } else if is_before {
            self.resize(&event);
        }
        let known = self.opens.get(&event.open).map(|open| open.is_wanted);
        let is_wanted = known.unwrap_or_else(|| {
            let is_wanted = self.is_wanted(&event, names);
            self.opens.insert(event.open, Open { is_wanted, before: None });
            is_wanted
        });
        if is_within && is_wanted {
            let before = self.opens.get_mut(&event.open).and_then(|open| open.before.take());
            if let Some(before) = before {
                kept.push(self.opened_before(before, &event, names));
            }
            kept.push(event);
        } else if is_before {
            self.advance(&event);
        }
        if event.kind == Kind::Close
            && let Some(open) = self.opens.remove(&event.open)
        {
            self.forget(open.before);
        }
    }

    /// Returns what is kept of an open that begins before the window.
    fn begin(&mut self, event: &Event, names: &Names) -> Box<Before> {
        let is_empty = event.kind == Kind::Create || event.flags.has(Flags::TRUNCATED);
        let size = if is_empty { 0 } else { event.size };
        match self.sizes.entry(event.file) {
            Entry::Occupied(mut entry) => {
                let sized = entry.get_mut();
                *sized = Sized { size, opens: sized.opens + 1 };
            }
            Entry::Vacant(entry) => drop(entry.insert(Sized { size, opens: 1 })),
        }
        let [command, path] = [event.command, event.path].map(|word| names.word(word).into());
        Box::new(Before { event: *event, command, path })
    }

    /// Follows the size of a file that an event before the window has changed.
    fn resize(&mut self, event: &Event) {
        let Some(sized) = self.sizes.get_mut(&event.file) else { return };
        match event.kind {
            Kind::Truncate => sized.size = event.size,
            _ if event.written > 0 => sized.size = sized.size.max(event.end()),
            _ => {}
        }
    }

    /// Follows the position of an open before the window.
    fn advance(&mut self, event: &Event) {
        let open = self.opens.get_mut(&event.open);
        let Some(before) = open.and_then(|open| open.before.as_mut()) else { return };
        let has_own = event.flags.has(Flags::POSITIONAL) || event.flags.has(Flags::MAPPED);
        match event.kind {
            Kind::Seek => before.event.position = event.new_position,
            Kind::Run if !has_own => before.event.position = event.end(),
            _ => {}
        }
    }

    /// Returns the `open` that stands before the first event of an open in the window.
    fn opened_before(&mut self, before: Box<Before>, first: &Event, names: &mut Names) -> Event {
        const KEPT: [Flags; 5] = [Flags::READ, Flags::WRITE, Flags::APPEND, Flags::DIRECTORY, Flags::DIRECT];
        let Before { event, command, path } = &*before;
        let had = KEPT.into_iter().filter(|&flag| event.flags.has(flag));
        let opened = Event {
            time: first.time,
            kind: Kind::Open,
            flags: had.fold(Flags::BEFORE, |all, flag| all | flag),
            size: self.sizes.get(&event.file).map_or(event.size, |sized| sized.size),
            command: names.symbol(command),
            path: names.symbol(path),
            new_path: Symbol::default(),
            ..*event
        };
        self.forget(Some(before));
        opened
    }

    /// Forgets an open from before the window, and the size of its file if no other one needs it.
    fn forget(&mut self, before: Option<Box<Before>>) {
        let Some(before) = before else { return };
        if let Entry::Occupied(mut entry) = self.sizes.entry(before.event.file) {
            entry.get_mut().opens -= 1;
            if entry.get().opens == 0 {
                entry.remove();
            }
        }
    }
}

impl Source for Filtered {
    fn info(&self) -> Info {
        let mut info = self.source.info();
        info.notes.push(self.note.clone());
        // They are those of all files.
        info.latencies = Latencies::default();
        info
    }

    fn is_finished(&self) -> bool {
        self.source.is_finished()
    }

    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        let mut kept = Vec::new();
        while self.source.next(batch)? {
            self.paths.begin(&batch.names);
            self.commands.begin(&batch.names);
            for event in std::mem::take(&mut batch.events) {
                self.event(event, &mut batch.names, &mut kept);
            }
            if !kept.is_empty() {
                batch.events = kept;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn progress(&self) -> Option<f64> {
        self.source.progress()
    }
}

#[cfg(test)]
mod tests;
