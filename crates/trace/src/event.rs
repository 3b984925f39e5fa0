//! Events, and batches of them.
//!
//! An [`Event`] is the union of what all kinds of event tell (1985 paper, Table II, and what today
//! needs); what a kind does not tell is 0. A *run* is what was transferred without moving the
//! position in between: `close`, `seek` and `run` events each end one, and tell it as `position`
//! and either `read` or `written`, never both, so a run covers the bytes from `position` to
//! `position + read + written` in one direction. `docs/SPEC-trace.md` says all this for users of
//! the files.
//!
//! Words (commands, paths) are [`Symbol`]s that mean something only together with the [`Batch`]
//! they are in.

use std::collections::HashMap;
use std::ops::{BitOr, BitOrAssign};
use std::sync::Arc;

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// An existing file was opened. `size` is its size before that, `position` where access starts.
    #[default]
    Open,
    /// A file was made and opened.
    Create,
    /// The last descriptor of an open file went. `size` is the file's size then; ends a run.
    Close,
    /// The position was moved from the end of the run that this ends to `new_position`.
    Seek,
    /// A run ended without a seek or close: the direction changed, the access had its own position
    /// or went through memory, or it belongs to no open file at all (`open` is 0: a trace of a disk
    /// or a cache).
    Run,
    /// A name of a file went. `size` is the file's size.
    Unlink,
    /// The file was cut, or extended, to `size`.
    Truncate,
    /// A file, or directory, got another name.
    Rename,
    /// A program was loaded. `size` is the size of its file.
    Exec,
    /// A directory was made.
    Mkdir,
    /// A directory was removed.
    Rmdir,
    /// The file was made durable (`fsync`, `fdatasync`).
    Sync,
}

impl Kind {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::Open,
        Self::Create,
        Self::Close,
        Self::Seek,
        Self::Run,
        Self::Unlink,
        Self::Truncate,
        Self::Rename,
        Self::Exec,
        Self::Mkdir,
        Self::Rmdir,
        Self::Sync,
    ];

    /// Returns what it is called in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Create => "create",
            Self::Close => "close",
            Self::Seek => "seek",
            Self::Run => "run",
            Self::Unlink => "unlink",
            Self::Truncate => "truncate",
            Self::Rename => "rename",
            Self::Exec => "exec",
            Self::Mkdir => "mkdir",
            Self::Rmdir => "rmdir",
            Self::Sync => "sync",
        }
    }

    /// Returns the kind of this name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)
    }

    /// Returns true for the kinds that end a run.
    #[must_use]
    pub const fn ends_run(self) -> bool {
        matches!(self, Self::Close | Self::Seek | Self::Run)
    }
}

/// Circumstances of an event, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u32);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);
    /// The file is open for reading. On `open`, `create`, `close`, `seek` and `run`, as are the
    /// next two.
    pub const READ: Self = Self(1);
    /// The file is open for writing.
    pub const WRITE: Self = Self(1 << 1);
    /// Writes go to the end of the file.
    pub const APPEND: Self = Self(1 << 2);
    /// Opening cut the file to nothing.
    pub const TRUNCATED: Self = Self(1 << 3);
    /// It is a directory.
    pub const DIRECTORY: Self = Self(1 << 4);
    /// The file never had a name (`O_TMPFILE`).
    pub const NAMELESS: Self = Self(1 << 5);
    /// The bytes were reached through memory: they are what was mapped, and at most that was read
    /// or written.
    pub const MAPPED: Self = Self(1 << 6);
    /// The access had its own position, and left the file's where it was (`pread`, `pwrite`,
    /// `copy_file_range` with offsets).
    pub const POSITIONAL: Self = Self(1 << 7);
    /// Closed without being asked: by the end of the process, by `exec`, or by `dup2` over it.
    pub const IMPLICIT: Self = Self(1 << 8);
    /// `unlink` took the last name: the data goes with the last close. On `close`: the file had no
    /// name any more, so its data went.
    pub const LAST: Self = Self(1 << 9);
    /// The name went because another file was renamed to it.
    pub const REPLACED: Self = Self(1 << 10);
    /// The file was open when recording began: its size and position are those of then.
    pub const BEFORE: Self = Self(1 << 11);
    /// The bytes bypass the system's cache (`O_DIRECT`).
    pub const DIRECT: Self = Self(1 << 12);

    /// All, with what they are called where words stand for them.
    pub const ALL: [(Self, &'static str); 13] = [
        (Self::READ, "read"),
        (Self::WRITE, "write"),
        (Self::APPEND, "append"),
        (Self::TRUNCATED, "truncated"),
        (Self::DIRECTORY, "directory"),
        (Self::NAMELESS, "nameless"),
        (Self::MAPPED, "mapped"),
        (Self::POSITIONAL, "positional"),
        (Self::IMPLICIT, "implicit"),
        (Self::LAST, "last"),
        (Self::REPLACED, "replaced"),
        (Self::BEFORE, "before"),
        (Self::DIRECT, "direct"),
    ];

    /// Returns true if all of `others` are set.
    #[must_use]
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// A file: names one until its last name and its last open are gone, then perhaps another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// The file system's device number as the system packs it, or the disk's number in a trace of
    /// disks.
    pub device: u64,
    /// The inode number; 0 in a trace of disks.
    pub inode: u64,
}

/// A word of a [`Batch`]; the default is the empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Symbol(u32);

impl Symbol {
    /// Returns its number among its [`Names`], from 0.
    #[must_use]
    pub const fn number(self) -> usize {
        self.0 as usize
    }
}

/// Something that a program did with a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since 1970.
    pub time: i64,
    /// What happened.
    pub kind: Kind,
    /// How.
    pub flags: Flags,
    /// Which open of the file; 0 if none.
    pub open: u64,
    /// Which file.
    pub file: FileId,
    /// Whose account.
    pub user: u32,
    /// Which process.
    pub process: u32,
    /// Bytes of the file; see [`Kind`] for when.
    pub size: u64,
    /// Where the run began that this ends, in bytes; where access starts in `open` and `create`.
    pub position: u64,
    /// Bytes read in the run.
    pub read: u64,
    /// Bytes written in the run.
    pub written: u64,
    /// Where a seek went.
    pub new_position: u64,
    /// How many calls the run was made of; 0 if nobody counted.
    pub calls: u32,
    /// The program's name.
    pub command: Symbol,
    /// The file's name as far as it is known: absolute, or empty.
    pub path: Symbol,
    /// The name a rename gave.
    pub new_path: Symbol,
}

impl Event {
    /// Returns the bytes of the run that this event ends.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.read.saturating_add(self.written)
    }

    /// Returns where the run ended: after `close` the paper's final position, after `seek` its
    /// previous one.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.position.saturating_add(self.read).saturating_add(self.written)
    }
}

/// Words, each kept once.
#[derive(Clone, Debug)]
pub struct Names {
    numbers: HashMap<Arc<str>, u32>,
    words: Vec<Arc<str>>,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self { numbers: HashMap::new(), words: Vec::new() };
        names.symbol("");
        names
    }
}

impl Names {
    /// Returns the symbol of a word.
    ///
    /// # Panics
    /// At the word number 2^32.
    pub fn symbol(&mut self, word: &str) -> Symbol {
        if let Some(&number) = self.numbers.get(word) {
            return Symbol(number);
        }
        let number = u32::try_from(self.words.len()).expect("a batch has fewer words than that");
        let word: Arc<str> = word.into();
        self.words.push(Arc::clone(&word));
        self.numbers.insert(word, number);
        Symbol(number)
    }

    /// Returns the word of a symbol.
    ///
    /// # Panics
    /// If the symbol is of other names.
    #[must_use]
    pub fn word(&self, symbol: Symbol) -> &str {
        &self.words[symbol.number()]
    }

    /// Returns the number of words, the empty one with them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns true if there is no word but the empty one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.len() == 1
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.words.truncate(1);
        self.numbers.clear();
        self.numbers.insert(Arc::clone(&self.words[0]), 0);
    }
}

/// Events in order, with their words.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The events.
    pub events: Vec<Event>,
    /// What their symbols mean.
    pub names: Names,
}

impl Batch {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.events.clear();
        self.names.clear();
    }

    /// Adds events of another batch, of the given names; each word is looked up once.
    pub fn extend(&mut self, events: &[Event], names: &Names) {
        let mut known: Vec<Option<Symbol>> = vec![None; names.len()];
        self.events.extend(events.iter().map(|&event| {
            let mut own = |symbol: Symbol| {
                *known[symbol.number()].get_or_insert_with(|| self.names.symbol(names.word(symbol)))
            };
            let [command, path, new_path] = [event.command, event.path, event.new_path].map(&mut own);
            Event { command, path, new_path, ..event }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: names of kinds and flags are told apart, and found again.
    #[test]
    fn kinds_have_names() {
        for (n, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(Kind::from_name(kind.name().as_bytes()), Some(kind));
            assert_eq!(kind as usize, n);
        }
        assert_eq!(Kind::from_name(b"openat"), None);
        for (n, (flag, _)) in Flags::ALL.into_iter().enumerate() {
            assert_eq!(flag.0, 1 << n);
        }
    }

    /// Promise: a word is kept once, the empty one is the default, and a cleared batch starts anew.
    #[test]
    fn words_are_kept_once() {
        let mut names = Names::default();
        let [a, b, again] = ["/a", "/b", "/a"].map(|word| names.symbol(word));
        assert_eq!(a, again);
        assert_ne!(a, b);
        assert_eq!(names.symbol(""), Symbol::default());
        assert_eq!((names.word(a), names.word(Symbol::default()), names.len()), ("/a", "", 3));
        names.clear();
        assert!(names.is_empty());
        assert_eq!(names.symbol(""), Symbol::default());
    }
}
