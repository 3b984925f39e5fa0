//! Events, and batches of them.
//!
//! An [`Event`] has the fields of all kinds of event (1985 paper, Table II, with additions for
//! today's systems); fields that a kind does not use are 0. A *run* is a transfer of bytes without
//! a change of the position in between. `close`, `seek` and `run` events each end a run and hold it
//! in `position` and either `read` or `written`, never both, so a run covers the bytes from
//! `position` to `position + read + written` in one direction. `docs/SPEC-trace.md` says all this
//! for users of the files.
//!
//! Words (commands, paths) are [`Symbol`]s, which have a meaning only together with their
//! [`Batch`].

use std::collections::HashMap;
use std::ops::{BitOr, BitOrAssign};
use std::sync::Arc;

/// The kind of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// An existing file was opened. `size` is its size before the open, `position` where access
    /// starts.
    #[default]
    Open,
    /// A file was created and opened.
    Create,
    /// The last descriptor of an open file was closed. `size` is the file's size then; ends a run.
    Close,
    /// The position was moved to `new_position`, from the end of the run that this event ends.
    Seek,
    /// A run ended without a seek or close: the direction changed, the access had its own position
    /// or went through memory, or it belongs to no open file (`open` is 0: a trace of a disk or a
    /// cache).
    Run,
    /// A name of a file was removed. `size` is the file's size.
    Unlink,
    /// The file was truncated or extended to `size`.
    Truncate,
    /// A file or directory was renamed.
    Rename,
    /// A program was loaded. `size` is the size of its file.
    Exec,
    /// A directory was created.
    Mkdir,
    /// A directory was removed.
    Rmdir,
    /// The file was made durable (`fsync`, `fdatasync`); without an open and an inode number, all
    /// files were (`sync`), or those of the device, if there is one (`syncfs`).
    Sync,
    /// The attributes of a file were asked for (`stat`, `lstat`, `fstat`, `statx`).
    Stat,
    /// The permission to use a file was asked for (`access`, `faccessat`).
    Access,
    /// The target of a symbolic link was read.
    Readlink,
    /// Entries of a directory were read (`getdents`).
    List,
    /// A directory became the working directory of a process.
    Chdir,
    /// The permissions of a file were changed.
    Chmod,
    /// The owner or group of a file was changed.
    Chown,
    /// The times of a file were set (`utime`, `utimensat`).
    Utime,
    /// A file got another name, `new_path`.
    Link,
    /// A symbolic link was made.
    Symlink,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 22] = [
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
        Self::Stat,
        Self::Access,
        Self::Readlink,
        Self::List,
        Self::Chdir,
        Self::Chmod,
        Self::Chown,
        Self::Utime,
        Self::Link,
        Self::Symlink,
    ];

    /// Returns the name of the kind in files.
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
            Self::Stat => "stat",
            Self::Access => "access",
            Self::Readlink => "readlink",
            Self::List => "list",
            Self::Chdir => "chdir",
            Self::Chmod => "chmod",
            Self::Chown => "chown",
            Self::Utime => "utime",
            Self::Link => "link",
            Self::Symlink => "symlink",
        }
    }

    /// Returns the kind with this name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)
    }

    /// Returns true for the kinds of calls that traces of version 1 do not have: they only look at
    /// a file, or change its attributes or names.
    #[must_use]
    pub const fn is_control_call(self) -> bool {
        self as u8 >= Self::Stat as u8
    }

    /// Returns true for the kinds that end a run.
    #[must_use]
    pub const fn ends_run(self) -> bool {
        matches!(self, Self::Close | Self::Seek | Self::Run)
    }
}

/// Properties of an event, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u32);

impl Flags {
    /// No flags.
    pub const NONE: Self = Self(0);
    /// The file is open for reading. This and the next two are set on `open`, `create`, `close`,
    /// `seek` and `run`.
    pub const READ: Self = Self(1);
    /// The file is open for writing.
    pub const WRITE: Self = Self(1 << 1);
    /// Writes go to the end of the file.
    pub const APPEND: Self = Self(1 << 2);
    /// The open truncated the file to 0.
    pub const TRUNCATED: Self = Self(1 << 3);
    /// The file is a directory.
    pub const DIRECTORY: Self = Self(1 << 4);
    /// The file never had a name (`O_TMPFILE`); called `nameless` in files.
    pub const UNNAMED: Self = Self(1 << 5);
    /// The bytes were accessed through memory: those mapped, of which at most all were read or
    /// written.
    pub const MAPPED: Self = Self(1 << 6);
    /// The access had its own position and did not change the file's (`pread`, `pwrite`,
    /// `copy_file_range` with offsets).
    pub const POSITIONAL: Self = Self(1 << 7);
    /// The close was implicit: by the end of the process, by `exec`, or by a `dup2` over the
    /// descriptor.
    pub const IMPLICIT: Self = Self(1 << 8);
    /// `unlink` removed the last name: the data is deleted at the last close. On `close`: the file
    /// had no name any more, so its data was deleted.
    pub const LAST: Self = Self(1 << 9);
    /// The name was removed because another file was renamed to it.
    pub const REPLACED: Self = Self(1 << 10);
    /// The file was open when the recording began: size and position are those of that time.
    pub const BEFORE: Self = Self(1 << 11);
    /// The bytes bypass the system's cache (`O_DIRECT`).
    pub const DIRECT: Self = Self(1 << 12);
    /// The call failed, in most cases because there is no such file. Only for `stat`, `access` and
    /// `readlink`; other calls that failed are not recorded.
    pub const FAILED: Self = Self(1 << 13);

    /// All flags with their names.
    pub const ALL: [(Self, &'static str); 14] = [
        (Self::READ, "read"),
        (Self::WRITE, "write"),
        (Self::APPEND, "append"),
        (Self::TRUNCATED, "truncated"),
        (Self::DIRECTORY, "directory"),
        (Self::UNNAMED, "nameless"),
        (Self::MAPPED, "mapped"),
        (Self::POSITIONAL, "positional"),
        (Self::IMPLICIT, "implicit"),
        (Self::LAST, "last"),
        (Self::REPLACED, "replaced"),
        (Self::BEFORE, "before"),
        (Self::DIRECT, "direct"),
        (Self::FAILED, "failed"),
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

/// Identifies a file until its last name and its last open are gone; the number may then be reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Device number of the file system as the system encodes it, or the number of the disk in a
    /// trace of disks.
    pub device: u64,
    /// Inode number; 0 in a trace of disks.
    pub inode: u64,
}

/// A word of a [`Batch`]; the default is the empty word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Symbol(u32);

impl Symbol {
    /// Returns the index of the word in its [`Names`], from 0.
    #[must_use]
    pub const fn number(self) -> usize {
        self.0 as usize
    }
}

/// An action of a program on a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Time in nanoseconds since 1970.
    pub time: i64,
    /// Kind of the event.
    pub kind: Kind,
    /// Flags.
    pub flags: Flags,
    /// Number of the open; 0 if none.
    pub open: u64,
    /// The file.
    pub file: FileId,
    /// Account number.
    pub user: u32,
    /// Process number.
    pub process: u32,
    /// Size of the file in bytes; see [`Kind`] for when.
    pub size: u64,
    /// Position in bytes where the run began that this ends; where access starts in `open` and
    /// `create`.
    pub position: u64,
    /// Number of bytes read in the run.
    pub read: u64,
    /// Number of bytes written in the run.
    pub written: u64,
    /// Position after a seek, in bytes.
    pub new_position: u64,
    /// Number of calls in the run; 0 if unknown.
    pub calls: u32,
    /// Name of the program.
    pub command: Symbol,
    /// Path of the file as far as it is known: absolute, or empty.
    pub path: Symbol,
    /// Path after a rename, or the other name that a `link` gives.
    pub new_path: Symbol,
}

impl Event {
    /// Returns the bytes of the run that this event ends.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.read.saturating_add(self.written)
    }

    /// Returns true for a sync of all files, or of those of the device, if it is not 0.
    #[must_use]
    pub const fn is_sync_of_all(&self) -> bool {
        matches!(self.kind, Kind::Sync) && self.open == 0 && self.file.inode == 0
    }

    /// Returns the end of the run: after `close` the paper's final position, after `seek` its
    /// previous one.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.position.saturating_add(self.read).saturating_add(self.written)
    }
}

/// Interned words.
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
    /// Returns the symbol of a word; adds it if necessary.
    ///
    /// # Panics
    /// Panics at word number 2^32.
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
    /// May panic if the symbol belongs to other names.
    #[must_use]
    pub fn word(&self, symbol: Symbol) -> &str {
        &self.words[symbol.number()]
    }

    /// Returns the number of words, including the empty one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns true if there is no word except the empty one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.len() == 1
    }

    /// Removes all words except the empty one.
    pub fn clear(&mut self) {
        self.words.truncate(1);
        self.numbers.clear();
        self.numbers.insert(Arc::clone(&self.words[0]), 0);
    }
}

/// A sequence of events with their words.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The events.
    pub events: Vec<Event>,
    /// The words of their symbols.
    pub names: Names,
}

impl Batch {
    /// Removes all events and words.
    pub fn clear(&mut self) {
        self.events.clear();
        self.names.clear();
    }

    /// Adds events whose symbols belong to `names`; looks up each word once.
    pub fn extend(&mut self, events: &[Event], names: &Names) {
        let mut words = Translation::default();
        self.events.extend(events.iter().map(|event| words.event(event, names, &mut self.names)));
    }
}

/// The symbols that the words of one batch have in another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Translation(Vec<Option<Symbol>>);

impl Translation {
    /// Forgets all symbols, because one of the batches has other words from now on.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns an event whose words are in `from` with its words in `to`.
    pub(crate) fn event(&mut self, event: &Event, from: &Names, to: &mut Names) -> Event {
        if self.0.len() < from.len() {
            self.0.resize(from.len(), None);
        }
        let mut own =
            |symbol: Symbol| *self.0[symbol.number()].get_or_insert_with(|| to.symbol(from.word(symbol)));
        let [command, path, new_path] = [event.command, event.path, event.new_path].map(&mut own);
        Event { command, path, new_path, ..*event }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the names of kinds and flags differ, and the lookup finds them.
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

    /// Promise: a word is stored once, the empty one is the default, and clearing removes the
    /// others.
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
