//! Which files a trace speaks of, and what they are called when it is replayed.

use crate::{Batch, Event, FileId, Flags, Kind, Result, Source};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Files in a directory.
const IN_DIRECTORY: u64 = 500;

/// The name of a file in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// Number of the file, in the order in which the trace speaks of them.
    pub file: u64,
    /// How often it was renamed.
    pub generation: u32,
}

impl Name {
    /// Returns the directory in which it is.
    #[must_use]
    pub fn directory(self) -> String {
        format!("d{}", self.file / IN_DIRECTORY)
    }

    /// Returns its name there.
    #[must_use]
    pub fn leaf(self) -> String {
        format!("f{}.{}", self.file, self.generation)
    }
}

/// The files that are alive, by their numbers in the trace.
#[derive(Debug, Default)]
pub(super) struct Names {
    living: HashMap<FileId, Name, RandomState>,
    next: u64,
}

/// What an event means for the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The event is about no regular file, or the name of it that went was not the last.
    Nothing,
    /// A file that was there before the trace spoke of it for the first time, with this event.
    Old(Name),
    /// The file is known, or is made by this event.
    Known(Name),
}

impl Names {
    /// Returns the file of an event. A file that is made over one that is alive is another one (the
    /// trace has lost the end of that).
    pub fn find(&mut self, event: &Event) -> Found {
        let names = matches!(event.kind, Kind::Mkdir | Kind::Rmdir) || event.flags.has(Flags::DIRECTORY);
        if names || event.kind == Kind::Unlink && !event.flags.has(Flags::LAST) {
            return Found::Nothing;
        }
        if event.kind != Kind::Create
            && let Some(&name) = self.living.get(&event.file)
        {
            return Found::Known(name);
        }
        let name = Name { file: self.next, generation: 0 };
        self.next += 1;
        self.living.insert(event.file, name);
        if event.kind == Kind::Create { Found::Known(name) } else { Found::Old(name) }
    }

    /// The file has no name any more.
    pub fn forget(&mut self, file: FileId) {
        self.living.remove(&file);
    }

    /// Returns the file's next name.
    pub fn rename(&mut self, file: FileId) -> Option<Name> {
        let name = self.living.get_mut(&file)?;
        name.generation += 1;
        Some(*name)
    }
}

/// Returns the size that a file had before the first event that speaks of it.
pub(super) const fn size_before(event: &Event) -> u64 {
    match event.kind {
        // What an open, a deletion and a load tell is the size before; what is read was there.
        Kind::Open | Kind::Unlink | Kind::Exec | Kind::Truncate => event.size,
        _ if event.read > 0 => event.end(),
        _ => 0,
    }
}

/// Returns the files that must be there before the rest of a trace can be replayed, with their
/// sizes in bytes: those that the trace speaks of without making them. What is in memory is an
/// entry for each.
///
/// # Errors
/// As the source.
pub fn population(source: &mut dyn Source) -> Result<Vec<(Name, u64)>> {
    let (mut names, mut found, mut batch) = (Names::default(), Vec::new(), Batch::default());
    while source.next(&mut batch)? {
        for event in &batch.events {
            if let Found::Old(name) = names.find(event) {
                found.push((name, size_before(event)));
            }
            if event.kind == Kind::Unlink && event.flags.has(Flags::LAST) {
                names.forget(event.file);
            }
        }
    }
    Ok(found)
}
