//! Sorts the files of a trace into classes: files in the same directory, of the same kind and of
//! similar size.
//!
//! The one idea: every file belongs to the finest [`FileGroup`] that describes it; a group with too
//! little use for a class of its own is merged into that of the parent directory, and so on. A
//! large, heavily used file is a class of its own. The group of a file is known when it is first
//! seen, so the second pass finds the same classes without a table of files.

use foldhash::fast::RandomState;
use spindle_trace::{Batch, Event, FileId, Flags, Kind};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// Maximum number of classes made from groups.
const MAX_GROUPS: usize = 200;
/// Maximum number of groups kept while counting.
const MAX_GROUPS_HELD: usize = 16 * MAX_GROUPS;
/// Maximum number of files that are classes of their own, and the minimum share of all use of such
/// a file.
const MAX_HEAVY: usize = 64;
const HEAVY_SHARE: f64 = 0.005;
/// Number of bytes that count as much as one open.
const BYTES_PER_OPEN: f64 = 65_536.0;

/// Common properties of files.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileGroup {
    /// The directory, with `#` in place of digits.
    pub directory: String,
    /// The extension of the name.
    pub extension: String,
    /// Class of sizes: below 16 KiB, 256 KiB, 4 MiB and so on. It is no finer, because the order of
    /// use is kept only among the files of one class.
    size: u32,
    /// The files were created during the trace.
    pub made: bool,
    /// The files are directories.
    pub is_directory: bool,
}

/// Properties of a file when it is first seen.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// Path, or empty.
    pub path: &'a str,
    /// Size in bytes.
    pub size: u64,
    /// The event creates the file.
    pub made: bool,
    /// The file is a directory.
    pub is_directory: bool,
}

impl<'a> Observation<'a> {
    /// Returns true for the kinds of event in which a file may be seen first.
    pub const fn names(kind: Kind) -> bool {
        matches!(kind, Kind::Open | Kind::Create | Kind::Unlink | Kind::Truncate | Kind::Rename)
    }

    /// Returns the properties of an event's file.
    pub fn new(event: &Event, batch: &'a Batch) -> Self {
        Self {
            path: batch.names.word(event.path),
            size: event.size,
            made: event.kind == Kind::Create,
            is_directory: event.flags.has(Flags::DIRECTORY),
        }
    }
}

/// Replaces each sequence of digits in a name with `#`.
fn mask_digits(name: &str) -> String {
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

impl FileGroup {
    fn of(observation: Observation<'_>) -> Self {
        let (directory, name) = observation.path.rsplit_once('/').unwrap_or(("", observation.path));
        let extension = name.rsplit_once('.').filter(|(stem, end)| !stem.is_empty() && end.len() <= 8);
        let sized = !observation.made && !observation.is_directory && observation.size > 0;
        Self {
            directory: mask_digits(directory),
            extension: extension.map_or_else(String::new, |(_, end)| mask_digits(end)),
            size: if sized { observation.size.ilog2().saturating_sub(10) / 4 } else { 0 },
            made: observation.made,
            is_directory: observation.is_directory,
        }
    }

    /// Returns the group that this one is merged into if it is not worth a class.
    fn parent(&self) -> Option<Self> {
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

/// Counters of a group.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    weight: f64,
    /// Number of runs that do not begin at 0, by the largest power of two that divides their
    /// position.
    aligned: [u32; 17],
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.weight += other.weight;
        for (sum, more) in self.aligned.iter_mut().zip(other.aligned) {
            *sum = sum.saturating_add(more);
        }
    }

    /// Returns the size of a record in bytes: nine of ten runs begin at a multiple of it.
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

/// The first pass: counts the use of groups.
#[derive(Default)]
pub struct Census {
    files: HashMap<FileId, (u32, f64), RandomState>,
    groups: Vec<(FileGroup, Tally)>,
    numbers: HashMap<FileGroup, u32, RandomState>,
    /// Number of opens.
    pub opens: u64,
}

impl Census {
    /// Processes an event.
    pub fn event(&mut self, event: &Event, batch: &Batch) {
        let begins = matches!(event.kind, Kind::Open | Kind::Create);
        self.opens += u64::from(begins && event.open != 0);
        if Observation::names(event.kind) {
            let observation = Observation::new(event, batch);
            if observation.made || !self.files.contains_key(&event.file) {
                let group = self.group(observation);
                self.files.insert(event.file, (group, 0.0));
            }
        }
        let Some((group, uses)) = self.files.get_mut(&event.file) else { return };
        #[allow(clippy::cast_precision_loss)] // A weight.
        let weight = f64::from(u8::from(begins)) + event.bytes() as f64 / BYTES_PER_OPEN;
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

    fn group(&mut self, observation: Observation<'_>) -> u32 {
        let group = FileGroup::of(observation);
        if let Some(&number) = self.numbers.get(&group) {
            return number;
        }
        if self.groups.len() >= MAX_GROUPS_HELD {
            self.reduce(MAX_GROUPS_HELD / 2);
        }
        self.number(group)
    }

    fn number(&mut self, group: FileGroup) -> u32 {
        let groups = &mut self.groups;
        *self.numbers.entry(group).or_insert_with_key(|group| {
            groups.push((group.clone(), Tally::default()));
            u32::try_from(groups.len() - 1).expect("groups are few")
        })
    }

    /// Merges the least used groups into their parents until at most `most` are left, or none of
    /// the rest has a parent.
    fn reduce(&mut self, most: usize) {
        let old: Vec<FileGroup> = self.groups.iter().map(|group| group.0.clone()).collect();
        let mut kept: BTreeMap<FileGroup, Tally> = std::mem::take(&mut self.groups).into_iter().collect();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // An order.
        let order = |tally: &Tally| (tally.weight * 16.0) as u64;
        let mut heap: BinaryHeap<Reverse<(u64, FileGroup)>> =
            kept.iter().map(|(group, tally)| Reverse((order(tally), group.clone()))).collect();
        while kept.len() > most {
            let Some(Reverse((weight, group))) = heap.pop() else { break };
            // A group that has grown since has another entry in the heap.
            let Some(above) = group.parent().filter(|_| kept.get(&group).is_some_and(|t| order(t) == weight))
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

    /// Returns the classes, after the last event.
    pub fn finish(mut self) -> Classes {
        self.reduce(MAX_GROUPS);
        let all: f64 = self.groups.iter().map(|group| group.1.weight).sum();
        let mut heavy: Vec<(FileId, u32, f64)> =
            self.files.iter().map(|(&file, &(group, weight))| (file, group, weight)).collect();
        heavy.retain(|&(_, group, weight)| {
            let group = &self.groups[group as usize].0;
            weight >= all * HEAVY_SHARE && group.size > 0
        });
        heavy.sort_unstable_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
        heavy.truncate(MAX_HEAVY);
        // The most used class of each directory.
        let mut order: Vec<u32> = (0..).take(self.groups.len()).collect();
        order.sort_by(|&a, &b| {
            let weight = |n: u32| self.groups[n as usize].1.weight;
            weight(a).total_cmp(&weight(b))
        });
        let place = |n: u32| {
            let group = &self.groups[n as usize].0;
            ((group.directory.clone(), group.is_directory), n)
        };
        let directories = order.into_iter().map(place).collect();
        let mut infos: Vec<ClassInfo> = self
            .groups
            .iter()
            .map(|(group, tally)| ClassInfo { group: group.clone(), record: tally.record() })
            .collect();
        let mut files = HashMap::default();
        for (file, group, _) in heavy {
            files.insert(file, u32::try_from(infos.len()).expect("classes are few"));
            infos.push(infos[group as usize].clone());
        }
        Classes { infos, groups: self.numbers, files, directories }
    }
}

/// Returns the number of a group, or of its nearest ancestor that exists.
fn nearest(numbers: &HashMap<FileGroup, u32, RandomState>, group: FileGroup) -> u32 {
    std::iter::successors(Some(group), FileGroup::parent)
        .find_map(|group| numbers.get(&group))
        .copied()
        .unwrap_or(0)
}

/// A class as the first pass found it.
#[derive(Clone, Debug)]
pub struct ClassInfo {
    /// Common properties of its files.
    pub group: FileGroup,
    /// Size of a record in bytes.
    pub record: u64,
}

/// The classes, and the rules that assign files to them.
pub struct Classes {
    /// All classes, by number.
    pub infos: Vec<ClassInfo>,
    groups: HashMap<FileGroup, u32, RandomState>,
    files: HashMap<FileId, u32, RandomState>,
    /// The most used class of a directory, of files and of directories.
    directories: HashMap<(String, bool), u32, RandomState>,
}

impl Classes {
    /// Returns the most used class in the directory of a path, or above it: of a name that is
    /// looked at only, of which nothing else need be known.
    pub fn near(&self, observation: Observation<'_>) -> u32 {
        let FileGroup { mut directory, is_directory, .. } = FileGroup::of(observation);
        let mut other = None;
        loop {
            for kind in [is_directory, !is_directory] {
                let key = (directory, kind);
                match self.directories.get(&key) {
                    Some(&class) if kind == is_directory => return class,
                    Some(&class) => drop(other.get_or_insert(class)),
                    None => {}
                }
                directory = key.0;
            }
            match directory.rsplit_once('/') {
                Some((parent, _)) => directory.truncate(parent.len()),
                None if directory.is_empty() => return other.unwrap_or(0),
                None => directory.clear(),
            }
        }
    }

    /// Returns the class of a file that is seen for the first time.
    pub fn of(&self, file: FileId, observation: Observation<'_>) -> u32 {
        let heavy = self.files.get(&file).filter(|_| !observation.made && !observation.is_directory);
        heavy.copied().unwrap_or_else(|| nearest(&self.groups, FileGroup::of(observation)))
    }
}
