//! Attributes opens, bytes, created and deleted files, and data that dies young to users, programs
//! and directories.
//!
//! The opener of a file and the creator of data are kept with them, and are charged with the bytes
//! read, written or lost. Users and programs are few, but there may be millions of directories, so
//! amounts are kept only for the largest ones ([`HeavyHitters`]) and the possible error is
//! reported.

use super::heavy::HeavyHitters;
use foldhash::fast::RandomState;
use serde::Serialize;
use spindle_trace::{Batch, Event, Symbol};
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
}

impl Dimension {
    /// All dimensions.
    pub const ALL: [Self; 3] = [Self::User, Self::Program, Self::Directory];

    /// Returns the name of the dimension.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Program => "program",
            Self::Directory => "directory",
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

/// Amounts by one [`Dimension`]; arrays are in the order of [`Measure::ALL`].
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// The dimension.
    pub by: Dimension,
    /// Amounts of all names together.
    pub totals: [u64; 6],
    /// Maximum error by which each amount may be too small.
    pub missed: [u64; 6],
    /// The names with the largest amount of any measure, sorted by bytes read and written, then by
    /// opens.
    pub rows: Vec<Amounts>,
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
    /// Returns the largest amounts.
    fn finish(self) -> Vec<Group>;
}

/// Attributes nothing.
pub(super) struct Unattributed;

impl Charge for Unattributed {
    type Tag = ();
    fn begin(&mut self, _: &Batch) {}
    fn who(&mut self, _: &Event, _: &Batch) {}
    fn charge(&mut self, (): &(), _: Measure, _: u64) {}
    fn finish(self) -> Vec<Group> {
        Vec::new()
    }
}

/// The names of an event, one for each requested dimension.
pub(super) type Causes = Arc<[Arc<str>]>;

/// Attributes amounts to names.
pub(super) struct Names {
    top: usize,
    wanted: Vec<(Dimension, [HeavyHitters; 6])>,
    words: Words,
    users: HashMap<u32, Arc<str>, RandomState>,
    /// Program and directory names by the symbols of the current batch.
    programs: Vec<Option<Arc<str>>>,
    directories: Vec<Option<Arc<str>>>,
}

impl Names {
    pub(super) fn new(wanted: &[Dimension], top: usize) -> Self {
        Self {
            top,
            wanted: wanted
                .iter()
                .map(|&by| (by, Measure::ALL.map(|_| HeavyHitters::new(CAPACITY))))
                .collect(),
            words: Words::default(),
            users: HashMap::default(),
            programs: Vec::new(),
            directories: Vec::new(),
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

impl Charge for Names {
    type Tag = Causes;

    fn begin(&mut self, batch: &Batch) {
        for memo in [&mut self.programs, &mut self.directories] {
            memo.clear();
            memo.resize(batch.names.len(), None);
        }
    }

    fn who(&mut self, event: &Event, batch: &Batch) -> Causes {
        let Self { wanted, words, users, programs, directories, .. } = self;
        let mut known = |memo: &mut Vec<Option<Arc<str>>>, symbol: Symbol, part: fn(&str) -> &str| {
            let memo = &mut memo[symbol.number()];
            Arc::clone(memo.get_or_insert_with(|| words.word(part(batch.names.word(symbol)))))
        };
        let name = |&(by, _): &(Dimension, _)| match by {
            Dimension::User => {
                Arc::clone(users.entry(event.user).or_insert_with(|| event.user.to_string().into()))
            }
            Dimension::Program => known(programs, event.command, |word| word),
            Dimension::Directory => known(directories, event.path, directory),
        };
        wanted.iter().map(name).collect()
    }

    fn charge(&mut self, who: &Causes, measure: Measure, amount: u64) {
        for ((_, heavy), name) in self.wanted.iter_mut().zip(who.iter()) {
            heavy[measure as usize].add(name, amount);
        }
    }

    fn finish(self) -> Vec<Group> {
        self.wanted.iter().map(|(by, heavy)| group(*by, heavy, self.top)).collect()
    }
}

fn group(by: Dimension, heavy: &[HeavyHitters; 6], top: usize) -> Group {
    let names: HashSet<Arc<str>> = heavy.iter().flat_map(|heavy| heavy.top(top)).collect();
    let amounts = |name: &str| Measure::ALL.map(|measure| heavy[measure as usize].of(name));
    let mut rows: Vec<_> = names
        .into_iter()
        .map(|name| Amounts { amounts: amounts(&name), name: String::from(&*name) })
        .collect();
    let opens = |row: &Amounts| row.amounts[Measure::Opens as usize];
    rows.sort_unstable_by(|a, b| {
        b.moved().cmp(&a.moved()).then(opens(b).cmp(&opens(a))).then_with(|| a.name.cmp(&b.name))
    });
    let of = |what: fn(&HeavyHitters) -> u64| Measure::ALL.map(|measure| what(&heavy[measure as usize]));
    Group { by, totals: of(HeavyHitters::total), missed: of(HeavyHitters::missed), rows }
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
