//! The files of a trace in classes: those that lie together, are of one kind and about as large.
//!
//! The one idea: every file belongs to the finest [`Group`] that says what it is, a group that is
//! not worth a class of its own belongs to the group of the directory above, and so on. A large
//! file that is used very much is a class for itself. Which group a file belongs to is known when
//! it is first seen, so that a second pass finds the same classes without a table of files.

use crate::{Batch, Event, FileId, Flags, Kind};
use foldhash::fast::RandomState;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// Most classes that come from groups.
const GROUPS: usize = 200;
/// Groups that are held while they are counted.
const ROOM: usize = 16 * GROUPS;
/// Most files that are classes for themselves, and the part of all work that one of them has.
const HEAVY: usize = 64;
const SHARE: f64 = 0.005;
/// Bytes that weigh as much as an open.
const BYTES: f64 = 65_536.0;

/// What files have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// The directory, `#` for digits.
    pub directory: String,
    /// The end of the name.
    pub extension: String,
    /// Below 16 KiB, 256 KiB, 4 MiB and so on. Not finer: what is used by turns in a class keeps
    /// its turns, not so what is in several.
    size: u32,
    /// Made during the trace.
    pub made: bool,
    /// Directories.
    pub folder: bool,
}

/// What is seen of a file when it is first seen.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// Its name, or nothing.
    pub path: &'a str,
    /// Bytes.
    pub size: u64,
    /// It was not there before.
    pub made: bool,
    /// It is a directory.
    pub folder: bool,
}

impl<'a> Sight<'a> {
    /// Returns true for the kinds of event with which a file may be first seen.
    pub const fn names(kind: Kind) -> bool {
        matches!(kind, Kind::Open | Kind::Create | Kind::Unlink | Kind::Truncate | Kind::Rename)
    }

    /// Returns what an event tells of its file.
    pub fn new(event: &Event, batch: &'a Batch) -> Self {
        Self {
            path: batch.names.word(event.path),
            size: event.size,
            made: event.kind == Kind::Create,
            folder: event.flags.has(Flags::DIRECTORY),
        }
    }
}

/// Returns a name with `#` in the place of digits.
fn general(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
}

impl Group {
    fn of(sight: Sight<'_>) -> Self {
        let (directory, name) = sight.path.rsplit_once('/').unwrap_or(("", sight.path));
        let extension = name.rsplit_once('.').filter(|(stem, end)| !stem.is_empty() && end.len() <= 8);
        let sized = !sight.made && !sight.folder && sight.size > 0;
        Self {
            directory: general(directory),
            extension: extension.map_or_else(String::new, |(_, end)| general(end)),
            size: if sized { sight.size.ilog2().saturating_sub(10) / 4 } else { 0 },
            made: sight.made,
            folder: sight.folder,
        }
    }

    /// Returns the one that it belongs to if it is not worth a class.
    fn above(&self) -> Option<Self> {
        let mut above = self.clone();
        if let Some((parent, _)) = self.directory.rsplit_once('/') {
            above.directory.truncate(parent.len());
        } else if !self.extension.is_empty() {
            above.extension.clear();
        } else {
            return None;
        }
        Some(above)
    }
}

/// What is counted for each group.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    weight: f64,
    /// Runs that do not begin at 0, by the power of two of which their position is a multiple.
    aligned: [u32; 17],
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.weight += other.weight;
        for (sum, more) in self.aligned.iter_mut().zip(other.aligned) {
            *sum = sum.saturating_add(more);
        }
    }

    /// Returns the bytes of a record: nine of ten runs begin at a multiple of it.
    fn record(&self) -> u64 {
        let all: u64 = self.aligned.iter().map(|&n| u64::from(n)).sum();
        let mut left = 0;
        for power in (9..self.aligned.len()).rev() {
            left += u64::from(self.aligned[power]);
            if left * 10 >= all * 9 {
                return 1 << power;
            }
        }
        512
    }
}

/// Counts groups in the first pass.
#[derive(Default)]
pub struct Census {
    files: HashMap<FileId, (u32, f64), RandomState>,
    groups: Vec<(Group, Tally)>,
    numbers: HashMap<Group, u32, RandomState>,
    /// Opens.
    pub opens: u64,
}

impl Census {
    /// Takes an event.
    pub fn event(&mut self, event: &Event, batch: &Batch) {
        let begins = matches!(event.kind, Kind::Open | Kind::Create);
        self.opens += u64::from(begins && event.open != 0);
        if Sight::names(event.kind) {
            let sight = Sight::new(event, batch);
            if sight.made || !self.files.contains_key(&event.file) {
                let group = self.group(sight);
                self.files.insert(event.file, (group, 0.0));
            }
        }
        let Some((group, uses)) = self.files.get_mut(&event.file) else { return };
        #[allow(clippy::cast_precision_loss)] // A weight.
        let weight = f64::from(u8::from(begins)) + event.bytes() as f64 / BYTES;
        *uses += weight;
        let tally = &mut self.groups[*group as usize].1;
        tally.weight += weight;
        let jumps = event.read > 0 || event.flags.has(Flags::READ | Flags::WRITE);
        if event.bytes() > 0 && event.position > 0 && jumps {
            tally.aligned[event.position.trailing_zeros().min(16) as usize] += 1;
        }
        if event.kind == Kind::Unlink && event.flags.has(Flags::LAST) {
            self.files.remove(&event.file);
        }
    }

    fn group(&mut self, sight: Sight<'_>) -> u32 {
        let group = Group::of(sight);
        if let Some(&number) = self.numbers.get(&group) {
            return number;
        }
        if self.groups.len() >= ROOM {
            self.reduce(ROOM / 2);
        }
        self.number(group)
    }

    fn number(&mut self, group: Group) -> u32 {
        let groups = &mut self.groups;
        *self.numbers.entry(group).or_insert_with_key(|group| {
            groups.push((group.clone(), Tally::default()));
            u32::try_from(groups.len() - 1).expect("groups are few")
        })
    }

    /// Puts the lightest groups into those above until there are no more than `most`, as far as
    /// they have one.
    fn reduce(&mut self, most: usize) {
        let old: Vec<Group> = self.groups.iter().map(|group| group.0.clone()).collect();
        let mut kept: BTreeMap<Group, Tally> = std::mem::take(&mut self.groups).into_iter().collect();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // An order.
        let order = |tally: &Tally| (tally.weight * 16.0) as u64;
        let mut heap: BinaryHeap<Reverse<(u64, Group)>> =
            kept.iter().map(|(group, tally)| Reverse((order(tally), group.clone()))).collect();
        while kept.len() > most {
            let Some(Reverse((weight, group))) = heap.pop() else { break };
            // What has grown in the meantime is in the heap once more.
            let Some(above) = group.above().filter(|_| kept.get(&group).is_some_and(|t| order(t) == weight))
            else {
                continue;
            };
            let Some(tally) = kept.remove(&group) else { continue };
            let sum = kept.entry(above.clone()).or_default();
            sum.add(&tally);
            heap.push(Reverse((order(sum), above)));
        }
        self.numbers.clear();
        for (group, tally) in kept {
            let number = self.number(group);
            self.groups[number as usize].1 = tally;
        }
        let moved: Vec<u32> = old.into_iter().map(|group| nearest(&self.numbers, group)).collect();
        for (group, _) in self.files.values_mut() {
            *group = moved[*group as usize];
        }
    }

    /// Returns the classes, when all events have been seen.
    pub fn finish(mut self) -> Classes {
        self.reduce(GROUPS);
        let all: f64 = self.groups.iter().map(|group| group.1.weight).sum();
        let mut heavy: Vec<(FileId, u32, f64)> =
            self.files.iter().map(|(&file, &(group, weight))| (file, group, weight)).collect();
        heavy.retain(|&(_, group, weight)| {
            let group = &self.groups[group as usize].0;
            weight >= all * SHARE && group.size > 0
        });
        heavy.sort_unstable_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
        heavy.truncate(HEAVY);
        let mut shapes: Vec<Shape> = self
            .groups
            .iter()
            .map(|(group, tally)| Shape { group: group.clone(), record: tally.record() })
            .collect();
        let mut files = HashMap::default();
        for (file, group, _) in heavy {
            files.insert(file, u32::try_from(shapes.len()).expect("classes are few"));
            shapes.push(shapes[group as usize].clone());
        }
        Classes { shapes, groups: self.numbers, files }
    }
}

/// Returns the number of the group, or of the nearest above that there is.
fn nearest(numbers: &HashMap<Group, u32, RandomState>, group: Group) -> u32 {
    std::iter::successors(Some(group), Group::above)
        .find_map(|group| numbers.get(&group))
        .copied()
        .unwrap_or(0)
}

/// What is known of a class before the second pass.
#[derive(Clone, Debug)]
pub struct Shape {
    /// What its files have in common.
    pub group: Group,
    /// Bytes of a record.
    pub record: u64,
}

/// Classes, and which files are in which.
pub struct Classes {
    /// All.
    pub shapes: Vec<Shape>,
    groups: HashMap<Group, u32, RandomState>,
    files: HashMap<FileId, u32, RandomState>,
}

impl Classes {
    /// Returns the class of a file that is seen for the first time.
    pub fn of(&self, file: FileId, sight: Sight<'_>) -> u32 {
        let heavy = self.files.get(&file).filter(|_| !sight.made && !sight.folder);
        heavy.copied().unwrap_or_else(|| nearest(&self.groups, Group::of(sight)))
    }
}
