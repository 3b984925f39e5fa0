//! The files of a trace and their names in a replay.

use foldhash::fast::RandomState;
use spindle_trace::{Batch, Event, FileId, Flags, Kind, Result, Source};
use std::collections::HashMap;

/// Number of files per directory.
const IN_DIRECTORY: u64 = 500;

/// The name of a file in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// Number of the file, in the order in which the trace mentions them.
    pub file: u64,
    /// Number of renames so far.
    pub generation: u32,
}

impl Name {
    /// Returns the name of its directory.
    #[must_use]
    pub fn directory(self) -> String {
        format!("d{}", self.file / IN_DIRECTORY)
    }

    /// Returns its name in the directory.
    #[must_use]
    pub fn leaf(self) -> String {
        format!("f{}.{}", self.file, self.generation)
    }
}

/// The existing files, by their ids in the trace.
#[derive(Debug, Default)]
pub(super) struct Names {
    living: HashMap<FileId, Name, RandomState>,
    next: u64,
}

/// The file of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The event is not about a regular file that the trace identifies, or removes a name that is
    /// not the last.
    Nothing,
    /// A file that existed before the trace, mentioned for the first time.
    Old(Name),
    /// A known file, or one that the event creates.
    Known(Name),
}

impl Names {
    /// Returns the file of an event. A create over an existing file makes a new file (the trace has
    /// missed the end of the old one).
    pub fn find(&mut self, event: &Event) -> Found {
        let names = matches!(event.kind, Kind::Mkdir | Kind::Rmdir) || event.flags.has(Flags::DIRECTORY);
        if names || event.is_sync_of_all() || event.kind == Kind::Unlink && !event.flags.has(Flags::LAST) {
            return Found::Nothing;
        }
        if event.kind != Kind::Create
            && let Some(&name) = self.living.get(&event.file)
        {
            return Found::Known(name);
        }
        // Only a `stat` says how large a file is that was not seen before.
        let by_name = event.kind == Kind::Stat && event.open == 0 && event.file != FileId::default();
        if event.kind.is_control_call() && !by_name {
            return Found::Nothing;
        }
        let name = Name { file: self.next, generation: 0 };
        self.next += 1;
        self.living.insert(event.file, name);
        if event.kind == Kind::Create { Found::Known(name) } else { Found::Old(name) }
    }

    /// Drops a file that has no name any more.
    pub fn forget(&mut self, file: FileId) {
        self.living.remove(&file);
    }

    /// Changes the name of a file and returns the new one.
    pub fn rename(&mut self, file: FileId) -> Option<Name> {
        let name = self.living.get_mut(&file)?;
        name.generation += 1;
        Some(*name)
    }
}

/// Returns the size of a file before the first event that mentions it.
pub(super) const fn size_before(event: &Event) -> u64 {
    match event.kind {
        // An open, a deletion and a load report the size before; bytes that are read existed, but
        // a mapping may be longer than its file.
        Kind::Open | Kind::Unlink | Kind::Exec | Kind::Truncate | Kind::Stat => event.size,
        _ if event.flags.has(Flags::MAPPED) => 0,
        _ if event.read > 0 => event.end(),
        _ => 0,
    }
}

/// What a replay needs where it takes place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Population {
    /// The files that must exist before, with their sizes in bytes: those that the trace mentions
    /// but does not create.
    pub files: Vec<(Name, u64)>,
    /// Number of bytes of the longest run that is written.
    pub longest_write: u64,
}

impl Population {
    /// Returns the number of bytes that must be free, as far as it is known before the replay: for
    /// the files that must exist, and for the longest run.
    #[must_use]
    pub fn space(&self) -> u64 {
        let sizes = self.files.iter().map(|&(_, size)| size);
        sizes.fold(self.longest_write, u64::saturating_add)
    }
}

/// Returns what must exist before the rest of a trace can be replayed. Memory holds an entry for
/// each file.
///
/// # Errors
/// Errors of the source.
pub fn population(source: &mut dyn Source) -> Result<Population> {
    let (mut names, mut found, mut batch) = (Names::default(), Population::default(), Batch::default());
    while source.next(&mut batch)? {
        for event in &batch.events {
            if let Found::Old(name) = names.find(event) {
                found.files.push((name, size_before(event)));
            }
            if !event.flags.has(Flags::MAPPED) {
                found.longest_write = found.longest_write.max(event.written);
            }
            if event.kind == Kind::Unlink && event.flags.has(Flags::LAST) {
                names.forget(event.file);
            }
        }
    }
    Ok(found)
}
