//! Who does it: opens, bytes, new and deleted files, and data that dies young, by user, by program
//! and by directory.
//!
//! An open file and the data of a new one remember who opened and who made them; what is read,
//! written or dies is charged to them. Users and programs are few; directories may be millions, so
//! amounts are kept for the largest ([`Heavy`]), and what may be missing is told.

use super::heavy::Heavy;
use crate::{Batch, Event, Symbol};
use foldhash::fast::RandomState;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Names whose amounts are kept, for each measure.
const ROOM: usize = 1 << 16;

/// By what events are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// The account's number.
    User,
    /// The program's name.
    Program,
    /// The directory that the file is in.
    Directory,
}

impl Dimension {
    /// All.
    pub const ALL: [Self; 3] = [Self::User, Self::Program, Self::Directory];

    /// Returns what it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Program => "program",
            Self::Directory => "directory",
        }
    }
}

/// What is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Files opened.
    Opens,
    /// Bytes read.
    Read,
    /// Bytes written.
    Written,
    /// Files made.
    Created,
    /// Names removed.
    Deleted,
    /// Bytes of new data that died within [`super::YOUNG`].
    DiedYoung,
}

impl Measure {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Opens, Self::Read, Self::Written, Self::Created, Self::Deleted, Self::DiedYoung];
}

/// Amounts by one [`Dimension`]; arrays are in the order of [`Measure::ALL`].
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// By what.
    pub by: Dimension,
    /// What all have.
    pub totals: [u64; 6],
    /// By how much an amount may be too small.
    pub missed: [u64; 6],
    /// Those who have the most of any measure, by bytes moved, then by opens.
    pub rows: Vec<Amounts>,
}

/// What one has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Amounts {
    /// Who; empty if the trace does not say.
    pub name: String,
    /// How much, in the order of [`Measure::ALL`].
    pub amounts: [u64; 6],
}

impl Amounts {
    /// Returns the bytes read and written.
    #[must_use]
    pub const fn moved(&self) -> u64 {
        self.amounts[Measure::Read as usize].saturating_add(self.amounts[Measure::Written as usize])
    }
}

/// What is charged to whoever caused it.
pub(super) trait Charge {
    /// Who: kept with each open file and each life of data.
    type Tag: Clone;
    /// Begins a batch, whose words mean something else than those of the one before.
    fn begin(&mut self, batch: &Batch);
    /// Returns who caused an event.
    fn who(&mut self, event: &Event, batch: &Batch) -> Self::Tag;
    /// Charges an amount.
    fn charge(&mut self, who: &Self::Tag, measure: Measure, amount: u64);
    /// Whoever has the most.
    fn finish(self) -> Vec<Group>;
}

/// Nothing is charged to anyone.
pub(super) struct Nobody;

impl Charge for Nobody {
    type Tag = ();
    fn begin(&mut self, _: &Batch) {}
    fn who(&mut self, _: &Event, _: &Batch) {}
    fn charge(&mut self, (): &(), _: Measure, _: u64) {}
    fn finish(self) -> Vec<Group> {
        Vec::new()
    }
}

/// Names of one event, one for each dimension that is wanted.
pub(super) type Who = Arc<[Arc<str>]>;

/// Charges to names.
pub(super) struct Names {
    top: usize,
    wanted: Vec<(Dimension, [Heavy; 6])>,
    words: Words,
    users: HashMap<u32, Arc<str>, RandomState>,
    /// What the words of the batch are as programs, and as paths their directories.
    programs: Vec<Option<Arc<str>>>,
    directories: Vec<Option<Arc<str>>>,
}

impl Names {
    pub(super) fn new(wanted: &[Dimension], top: usize) -> Self {
        Self {
            top,
            wanted: wanted.iter().map(|&by| (by, Measure::ALL.map(|_| Heavy::new(ROOM)))).collect(),
            words: Words::default(),
            users: HashMap::default(),
            programs: Vec::new(),
            directories: Vec::new(),
        }
    }
}

/// Returns the directory of a path; empty if it is not known.
fn directory(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) => "/",
        Some(end) => &path[..end],
        None => "",
    }
}

impl Charge for Names {
    type Tag = Who;

    fn begin(&mut self, batch: &Batch) {
        for memo in [&mut self.programs, &mut self.directories] {
            memo.clear();
            memo.resize(batch.names.len(), None);
        }
    }

    fn who(&mut self, event: &Event, batch: &Batch) -> Who {
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

    fn charge(&mut self, who: &Who, measure: Measure, amount: u64) {
        for ((_, heavy), name) in self.wanted.iter_mut().zip(who.iter()) {
            heavy[measure as usize].add(name, amount);
        }
    }

    fn finish(self) -> Vec<Group> {
        self.wanted.iter().map(|(by, heavy)| group(*by, heavy, self.top)).collect()
    }
}

fn group(by: Dimension, heavy: &[Heavy; 6], top: usize) -> Group {
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
    let of = |what: fn(&Heavy) -> u64| Measure::ALL.map(|measure| what(&heavy[measure as usize]));
    Group { by, totals: of(Heavy::total), missed: of(Heavy::missed), rows }
}

/// Words, each kept once as long as anybody uses it.
#[derive(Default)]
struct Words {
    known: HashSet<Arc<str>, RandomState>,
    /// When to look for those that nobody uses any more.
    enough: usize,
}

impl Words {
    fn word(&mut self, word: &str) -> Arc<str> {
        if let Some(known) = self.known.get(word) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.enough {
            self.known.retain(|word| Arc::strong_count(word) > 1);
            self.enough = (2 * self.known.len()).max(ROOM);
        }
        let word: Arc<str> = word.into();
        self.known.insert(Arc::clone(&word));
        word
    }
}
