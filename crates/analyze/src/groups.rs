//! Attributes opens, bytes, created and deleted files, and data that dies young to users, programs,
//! processes, directories, files, and extensions of their names.
//!
//! The opener of a file and the creator of data are kept with them, and are charged with the bytes
//! read, written or lost. Users and programs are few, but there may be millions of files, so
//! amounts are kept only for the largest ones ([`HeavyHitters`]) and the possible error is
//! reported.

use super::group_sums::GroupSums;
use super::heavy::HeavyHitters;
use foldhash::fast::RandomState;
use serde::Serialize;
use spindle_trace::{Batch, Columns, Event, FileId, Symbol};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Maximum number of names whose amounts are kept, for each measure.
const CAPACITY: usize = 1 << 16;

/// The property by which events are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Account number.
    User,
    /// Program name.
    Program,
    /// Directory of the file.
    Directory,
    /// Process number, with the name of its program.
    Process,
    /// Path of the file, or its numbers if the trace has no path of it.
    File,
    /// What follows the last dot of the file's name; a dot at its beginning does not count.
    Extension,
}

impl Dimension {
    /// All dimensions.
    pub const ALL: [Self; 6] =
        [Self::User, Self::Program, Self::Directory, Self::Process, Self::File, Self::Extension];

    /// Returns the name of the dimension.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Program => "program",
            Self::Directory => "directory",
            Self::Process => "process",
            Self::File => "file",
            Self::Extension => "extension",
        }
    }

    /// Returns the columns that it needs besides [`Columns::USAGE`].
    #[must_use]
    pub fn columns(self) -> Columns {
        match self {
            Self::User => Columns::USAGE,
            Self::Program => Columns::COMMAND,
            Self::Process => Columns::NUMBERS | Columns::COMMAND,
            Self::Directory | Self::File | Self::Extension => Columns::PATHS,
        }
    }
}

/// An amount that is measured for each name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Number of opens.
    Opens,
    /// Bytes read.
    Read,
    /// Bytes written.
    Written,
    /// Files created.
    Created,
    /// Names removed.
    Deleted,
    /// Bytes of new data that died within [`super::YOUNG`].
    DiedYoung,
}

impl Measure {
    /// All measures, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Opens, Self::Read, Self::Written, Self::Created, Self::Deleted, Self::DiedYoung];
}

/// The order of the names of a [`Group`], from the largest amount on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Bytes read and written.
    #[default]
    Bytes,
    /// Bytes read.
    Read,
    /// Bytes written.
    Written,
    /// Number of opens.
    Opens,
}

impl Order {
    /// Returns the name of what the order is by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes read and written",
            Self::Read => "bytes read",
            Self::Written => "bytes written",
            Self::Opens => "opens",
        }
    }

    /// Returns the amount that counts.
    const fn key(self, row: &Amounts) -> u64 {
        match self {
            Self::Bytes => row.moved(),
            Self::Read => row.amounts[Measure::Read as usize],
            Self::Written => row.amounts[Measure::Written as usize],
            Self::Opens => row.amounts[Measure::Opens as usize],
        }
    }
}

/// Amounts by one [`Dimension`]; arrays are in the order of [`Measure::ALL`].
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// The dimension.
    pub by: Dimension,
    /// Amounts of all names together.
    pub totals: [u64; 6],
    /// Maximum error by which each amount may be too small.
    pub missed: [u64; 6],
    /// The order of the rows.
    pub order: Order,
    /// The names with the largest amount of any measure; of equal ones that with more opens first.
    pub rows: Vec<Amounts>,
}

impl Group {
    /// Puts the rows into another order.
    pub fn sort(&mut self, order: Order) {
        let opens = |row: &Amounts| row.amounts[Measure::Opens as usize];
        self.order = order;
        self.rows.sort_unstable_by(|a, b| {
            let larger = order.key(b).cmp(&order.key(a));
            larger.then(opens(b).cmp(&opens(a))).then_with(|| a.name.cmp(&b.name))
        });
    }
}

/// Amounts of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Amounts {
    /// The name; empty if the trace does not have it.
    pub name: String,
    /// Amounts, in the order of [`Measure::ALL`].
    pub amounts: [u64; 6],
}

impl Amounts {
    /// Returns the bytes read and written.
    #[must_use]
    pub const fn moved(&self) -> u64 {
        self.amounts[Measure::Read as usize].saturating_add(self.amounts[Measure::Written as usize])
    }
}

/// Attributes amounts to the names that caused them.
pub(super) trait Charge {
    /// The names of an event; kept with each open file and each life of data.
    type Tag: Clone;
    /// Begins a batch, in which symbols have new meanings.
    fn begin(&mut self, batch: &Batch);
    /// Returns the names that caused an event.
    fn who(&mut self, event: &Event, batch: &Batch) -> Self::Tag;
    /// Charges an amount.
    fn charge(&mut self, who: &Self::Tag, measure: Measure, amount: u64);
    /// Returns the amounts.
    fn finish(self) -> Vec<GroupSums>;
}

/// Attributes nothing.
pub(super) struct Unattributed;

impl Charge for Unattributed {
    type Tag = ();
    fn begin(&mut self, _: &Batch) {}
    fn who(&mut self, _: &Event, _: &Batch) {}
    fn charge(&mut self, (): &(), _: Measure, _: u64) {}
    fn finish(self) -> Vec<GroupSums> {
        Vec::new()
    }
}

/// The names of an event, one for each requested dimension.
pub(super) type Causes = Arc<[Arc<str>]>;

/// Attributes amounts to names.
pub(super) struct Names {
    wanted: Vec<(Dimension, [HeavyHitters; 6])>,
    words: Words,
    users: HashMap<u32, Arc<str>, RandomState>,
    known: Known,
}

/// The names of the events of the current batch: parts of words by their symbols, and others.
#[derive(Default)]
struct Known {
    programs: Vec<Option<Arc<str>>>,
    directories: Vec<Option<Arc<str>>>,
    files: Vec<Option<Arc<str>>>,
    extensions: Vec<Option<Arc<str>>>,
    processes: HashMap<(u32, Symbol), Arc<str>, RandomState>,
    /// Files without a path.
    numbered: HashMap<FileId, Arc<str>, RandomState>,
}

impl Names {
    pub(super) fn new(wanted: &[Dimension]) -> Self {
        Self {
            wanted: wanted
                .iter()
                .map(|&by| (by, Measure::ALL.map(|_| HeavyHitters::new(CAPACITY))))
                .collect(),
            words: Words::default(),
            users: HashMap::default(),
            known: Known::default(),
        }
    }
}

/// Returns the directory of a path, or an empty string if it has none.
fn directory(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) => "/",
        Some(end) => &path[..end],
        None => "",
    }
}

/// Returns the extension of the name at the end of a path, or an empty string if it has none.
fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default().trim_start_matches('.');
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// Returns the name of a process.
fn process(number: u32, program: &str) -> String {
    if program.is_empty() { number.to_string() } else { format!("{number} {program}") }
}

/// Returns the name of a file without a path.
fn numbered(file: FileId) -> String {
    format!("inode {} of device {}", file.inode, file.device)
}

impl Charge for Names {
    type Tag = Causes;

    fn begin(&mut self, batch: &Batch) {
        let Known { programs, directories, files, extensions, processes, numbered } = &mut self.known;
        for memo in [programs, directories, files, extensions] {
            memo.clear();
            memo.resize(batch.names.len(), None);
        }
        processes.clear();
        numbered.clear();
    }

    fn who(&mut self, event: &Event, batch: &Batch) -> Causes {
        let Self { wanted, words, users, known, .. } = self;
        let part = |words: &mut Words, memo: &mut Vec<_>, symbol: Symbol, part: fn(&str) -> &str| {
            let memo: &mut Option<_> = &mut memo[symbol.number()];
            Arc::clone(memo.get_or_insert_with(|| words.word(part(batch.names.word(symbol)))))
        };
        let name = |&(by, _): &(Dimension, _)| match by {
            Dimension::User => {
                Arc::clone(users.entry(event.user).or_insert_with(|| event.user.to_string().into()))
            }
            Dimension::Program => part(words, &mut known.programs, event.command, |word| word),
            Dimension::Directory => part(words, &mut known.directories, event.path, directory),
            Dimension::Process => {
                let memo = known.processes.entry((event.process, event.command));
                let program = batch.names.word(event.command);
                Arc::clone(memo.or_insert_with(|| words.word(&process(event.process, program))))
            }
            Dimension::File if event.path == Symbol::default() => {
                let memo = known.numbered.entry(event.file);
                Arc::clone(memo.or_insert_with(|| words.word(&numbered(event.file))))
            }
            Dimension::File => part(words, &mut known.files, event.path, |path| path),
            Dimension::Extension => part(words, &mut known.extensions, event.path, extension),
        };
        wanted.iter().map(name).collect()
    }

    fn charge(&mut self, who: &Causes, measure: Measure, amount: u64) {
        for ((_, heavy), name) in self.wanted.iter_mut().zip(who.iter()) {
            heavy[measure as usize].add(name, amount);
        }
    }

    fn finish(self) -> Vec<GroupSums> {
        self.wanted.iter().map(|(by, heavy)| GroupSums::new(*by, heavy)).collect()
    }
}

/// Interned words; each is kept once while it is in use.
#[derive(Default)]
struct Words {
    known: HashSet<Arc<str>, RandomState>,
    /// Number of words at which unused ones are removed.
    limit: usize,
}

impl Words {
    fn word(&mut self, word: &str) -> Arc<str> {
        if let Some(known) = self.known.get(word) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.limit {
            self.known.retain(|word| Arc::strong_count(word) > 1);
            self.limit = (2 * self.known.len()).max(CAPACITY);
        }
        let word: Arc<str> = word.into();
        self.known.insert(Arc::clone(&word));
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an extension is what follows the last dot of a name that is not its first byte.
    #[test]
    fn extensions() {
        for (path, wanted) in [
            ("/a/b.c", "c"),
            ("/a.d/b", ""),
            ("/a/.profile", ""),
            ("/a/.config.toml", "toml"),
            ("/a/x.tar.gz", "gz"),
            ("/a/x.", ""),
            ("", ""),
        ] {
            assert_eq!(extension(path), wanted, "{path}");
        }
    }
}
