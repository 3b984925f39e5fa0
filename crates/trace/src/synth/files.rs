//! The files of a synthetic machine: which there are, in the order of their last use.
//!
//! Locality of reference is that order: a [`List`] keeps the files of a class (of a user's, of a
//! command's) with the last used in front, and the next is drawn by its place in it (the LRU stack
//! model; see [`super::spread::rank`]). Lists have the length that their class says, and files that
//! are gone are forgotten with their last close, so memory does not grow with time.

use super::model::{Class, Recency};
use super::spread::rank;
use rand::Rng;

/// A file's place among [`Files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File(u32);

/// What is known of a file.
#[derive(Clone, Debug)]
pub struct State {
    /// Its number in the trace.
    pub inode: u64,
    /// Its name.
    pub path: Box<str>,
    /// Bytes.
    pub size: u64,
    /// How often it is open.
    pub opens: u32,
    /// It has no name any more.
    pub gone: bool,
    /// Records in the order of their last use, as far as they were used by position.
    records: Vec<u32>,
}

/// All files.
#[derive(Debug, Default)]
pub struct Files {
    states: Vec<State>,
    free: Vec<File>,
    next_inode: u64,
    /// The directories that were made last.
    directories: Vec<u64>,
}

/// Directories that are remembered.
const DIRECTORIES: usize = 1 << 10;

impl Files {
    /// Returns none yet; the numbers up to `taken` are others'.
    pub fn new(taken: u64) -> Self {
        Self { next_inode: taken, ..Self::default() }
    }

    /// Makes one.
    pub fn add(&mut self, path: impl FnOnce(u64) -> Box<str>, size: u64) -> File {
        self.next_inode += 1;
        let inode = self.next_inode;
        let path = path(inode);
        let state = State { inode, path, size, opens: 0, gone: false, records: Vec::new() };
        if let Some(file) = self.free.pop() {
            self.states[file.0 as usize] = state;
            return file;
        }
        let file = File(u32::try_from(self.states.len()).expect("fewer files than that are alive at a time"));
        self.states.push(state);
        file
    }

    /// Gives it another name.
    pub fn rename(&mut self, file: File, path: impl FnOnce(u64) -> Box<str>) {
        self.next_inode += 1;
        self.at(file).path = path(self.next_inode);
    }

    /// Returns the name of a directory that is made, or of the last one, which is removed.
    pub fn directory(&mut self, made: bool) -> String {
        let known = if made { None } else { self.directories.pop() };
        let number = known.unwrap_or_else(|| {
            self.next_inode += 1;
            self.next_inode
        });
        if made {
            self.directories.truncate(DIRECTORIES - 1);
            self.directories.push(number);
        }
        format!("/made/{number}")
    }

    /// Returns what is known of it.
    pub fn at(&mut self, file: File) -> &mut State {
        &mut self.states[file.0 as usize]
    }

    /// Takes the name from it; it is forgotten when it is not open, or else with its last close.
    pub fn remove(&mut self, file: File) {
        self.at(file).gone = true;
        self.forget(file);
    }

    /// Closes it once; true if its data went with that.
    pub fn close(&mut self, file: File) -> bool {
        self.at(file).opens -= 1;
        self.forget(file)
    }

    fn forget(&mut self, file: File) -> bool {
        let state = self.at(file);
        let gone = state.gone && state.opens == 0;
        if gone {
            state.records = Vec::new();
            self.free.push(file);
        }
        gone
    }

    /// Returns the number of files that are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.states.len() - self.free.len()
    }
}

impl State {
    /// Returns where the next access by position begins: at a record below the file's size.
    pub fn record(&mut self, class: &Class, random: &mut impl Rng) -> u64 {
        if class.record == 0 {
            return if self.size == 0 { 0 } else { random.random_range(0..self.size) };
        }
        let count = self.size.div_ceil(class.record).clamp(1, 1 << 16);
        if class.records.ranks.is_some() {
            return self.measured_record(class, count, random);
        }
        // Records are put into a random order once, which then is the order of their last use.
        let known = self.records.len();
        #[allow(clippy::cast_possible_truncation)] // Below 2^16.
        for n in known..count as usize {
            self.records.push(n as u32);
            let other = random.random_range(0..=n);
            self.records.swap(n, other);
        }
        let Recency { offset, exponent, .. } = class.records;
        #[allow(clippy::cast_possible_truncation)] // Below 2^16.
        let place = rank(count as usize, offset, exponent, random);
        let place = place.min(self.records.len() - 1);
        self.records[..=place].rotate_right(1);
        (u64::from(self.records[0]) * class.record).min(self.size)
    }

    /// Returns the same where the ranks of records were measured: `records` are then those that
    /// were used.
    fn measured_record(&mut self, class: &Class, count: u64, random: &mut impl Rng) -> u64 {
        let (used, all) = (self.records.len(), usize::try_from(count).unwrap_or(usize::MAX));
        let place = class.records.measured(used, all.max(used + 1), random).unwrap_or(used);
        if place < used {
            self.records[..=place].rotate_right(1);
        } else {
            #[allow(clippy::cast_possible_truncation)] // Below 2^16.
            let record = random.random_range(0..count) as u32;
            self.records.retain(|&known| known != record);
            self.records.insert(0, record);
        }
        (u64::from(self.records[0]) * class.record).min(self.size)
    }
}

/// Files in the order of their last use.
#[derive(Clone, Debug, Default)]
pub struct List {
    files: Vec<File>,
    /// How many at the end have not been used yet.
    unused: usize,
}

impl List {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Adds one, which was used last.
    pub fn add(&mut self, file: File) {
        self.files.insert(0, file);
    }

    /// Adds one that nobody has used yet.
    pub fn add_behind(&mut self, file: File) {
        self.files.push(file);
        self.unused += 1;
    }

    /// Returns the next to be used; it is then in front. With a law for its rank, none of the
    /// `taken` that were used last if there are others.
    pub fn next(&mut self, taken: usize, recency: &Recency, random: &mut impl Rng) -> Option<File> {
        if self.files.is_empty() {
            return None;
        }
        let used = self.len() - self.unused;
        let place = recency.measured(used, self.len(), random).unwrap_or_else(|| {
            let taken = if taken < self.len() { taken } else { 0 };
            taken + rank(self.len() - taken, recency.offset, recency.exponent, random)
        });
        if place >= used {
            self.unused -= 1;
        }
        self.files[..=place].rotate_right(1);
        Some(self.files[0])
    }

    /// Puts one in front that is used; false if it is not among them.
    pub fn touch(&mut self, file: File) -> bool {
        let place = self.files.iter().position(|&known| known == file);
        if let Some(place) = place {
            self.unused = self.unused.min(self.len() - 1 - place);
            self.files[..=place].rotate_right(1);
        }
        place.is_some()
    }

    /// Returns the one at a place, counted from the one used last; the order stays.
    pub fn nth(&self, place: usize) -> Option<File> {
        self.files.get(place).copied()
    }

    /// Takes out the one that was used last.
    pub fn take_first(&mut self) -> Option<File> {
        (self.len() > 0).then(|| {
            let file = self.files.remove(0);
            self.unused = self.unused.min(self.len());
            file
        })
    }

    /// Takes out the one that was not used longest.
    pub fn take_last(&mut self) -> Option<File> {
        let file = self.files.pop();
        self.unused = self.unused.saturating_sub(1);
        file
    }

    /// Takes out one in the order of [`List::next`].
    pub fn take(&mut self, recency: &Recency, random: &mut impl Rng) -> Option<File> {
        self.next(0, recency, random).and_then(|_| self.take_first())
    }
}

impl Recency {
    /// Returns the place of the next of `all` things, of which the first `used` have been used, if
    /// it was measured.
    fn measured(&self, used: usize, all: usize, random: &mut impl Rng) -> Option<usize> {
        let ranks = self.ranks.as_ref()?;
        if used == 0 || random.random::<f64>() < self.fresh {
            return Some(if used < all { used } else { all - 1 });
        }
        Some(usize::try_from(ranks.count(random)).unwrap_or(usize::MAX).min(used - 1))
    }
}
