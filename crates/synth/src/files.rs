//! The files of a synthetic machine, in the order of their last use.
//!
//! This order is what makes the locality of reference: an [`LruList`] keeps the files of a class
//! (of a user, of a command), most recently used first, and the next file is drawn by its rank in
//! it (the LRU stack model; see [`super::distribution::rank`]). The length of a list is limited by
//! its class, and a removed file is dropped with its last close, so memory does not grow with time.

use super::distribution::rank;
use super::model::{Class, Recency};
use rand::Rng;

/// The index of a file in [`Files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File(u32);

/// State of a file.
#[derive(Clone, Debug)]
pub struct FileState {
    /// Its inode number in the trace.
    pub inode: u64,
    /// Its path.
    pub path: Box<str>,
    /// Size in bytes.
    pub size: u64,
    /// Number of times it is open.
    pub opens: u32,
    /// It has no name any more.
    pub removed: bool,
    /// Numbers of records, most recently used first, as far as they were accessed by position.
    records: Vec<u32>,
}

/// All files.
#[derive(Debug, Default)]
pub struct Files {
    states: Vec<FileState>,
    free: Vec<File>,
    next_inode: u64,
    /// The directories created last.
    directories: Vec<u64>,
}

/// Maximum number of directories that are remembered.
const DIRECTORIES: usize = 1 << 10;

impl Files {
    /// Returns an empty set; inode numbers up to `taken` are reserved.
    pub fn new(taken: u64) -> Self {
        Self { next_inode: taken, ..Self::default() }
    }

    /// Creates a file.
    pub fn add(&mut self, path: impl FnOnce(u64) -> Box<str>, size: u64) -> File {
        self.next_inode += 1;
        let inode = self.next_inode;
        let path = path(inode);
        let state = FileState { inode, path, size, opens: 0, removed: false, records: Vec::new() };
        if let Some(file) = self.free.pop() {
            self.states[file.0 as usize] = state;
            return file;
        }
        let file = File(u32::try_from(self.states.len()).expect("fewer files than that are alive at a time"));
        self.states.push(state);
        file
    }

    /// Changes the path of a file.
    pub fn rename(&mut self, file: File, path: impl FnOnce(u64) -> Box<str>) {
        self.next_inode += 1;
        self.at(file).path = path(self.next_inode);
    }

    /// Returns the path of a new directory, or of the newest one, which is removed.
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

    /// Returns the state of a file.
    pub fn at(&mut self, file: File) -> &mut FileState {
        &mut self.states[file.0 as usize]
    }

    /// Removes the name of a file; its state is dropped when it is no longer open.
    pub fn remove(&mut self, file: File) {
        self.at(file).removed = true;
        self.forget(file);
    }

    /// Closes a file once; returns true if its data is deleted with that.
    pub fn close(&mut self, file: File) -> bool {
        self.at(file).opens -= 1;
        self.forget(file)
    }

    fn forget(&mut self, file: File) -> bool {
        let state = self.at(file);
        let gone = state.removed && state.opens == 0;
        if gone {
            state.records = Vec::new();
            self.free.push(file);
        }
        gone
    }

    /// Returns the number of files in memory.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.states.len() - self.free.len()
    }
}

impl FileState {
    /// Returns the position of the next access by position: the beginning of a record below the
    /// file's size.
    pub fn record(&mut self, class: &Class, random: &mut impl Rng) -> u64 {
        if class.record == 0 {
            return if self.size == 0 { 0 } else { random.random_range(0..self.size) };
        }
        let count = self.size.div_ceil(class.record).clamp(1, 1 << 16);
        if class.records.ranks.is_some() {
            return self.measured_record(class, count, random);
        }
        // Put new records in a random order, which then is the order of their last use.
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

    /// Returns the same if reuse distances of records were measured; `records` are then those that
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
pub struct LruList {
    files: Vec<File>,
    /// Number of files at the end that have not been used yet.
    unused: usize,
}

impl LruList {
    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Adds a file as the most recently used.
    pub fn add(&mut self, file: File) {
        self.files.insert(0, file);
    }

    /// Adds a file that has not been used yet.
    pub fn add_unused(&mut self, file: File) {
        self.files.push(file);
        self.unused += 1;
    }

    /// Returns the next file to use and moves it to the front. If its rank follows a law, it avoids
    /// the `taken` most recently used files as long as there are others.
    pub fn next(&mut self, taken: usize, recency: &Recency, random: &mut impl Rng) -> Option<File> {
        let place = self.place(taken, recency, random)?;
        if place >= self.len() - self.unused {
            self.unused -= 1;
        }
        self.files[..=place].rotate_right(1);
        Some(self.files[0])
    }

    /// Returns a file that is chosen as in [`LruList::next`]; the order stays.
    pub fn peek(&self, taken: usize, recency: &Recency, random: &mut impl Rng) -> Option<File> {
        self.place(taken, recency, random).and_then(|place| self.nth(place))
    }

    fn place(&self, taken: usize, recency: &Recency, random: &mut impl Rng) -> Option<usize> {
        if self.files.is_empty() {
            return None;
        }
        let used = self.len() - self.unused;
        Some(recency.measured(used, self.len(), random).unwrap_or_else(|| {
            let taken = if taken < self.len() { taken } else { 0 };
            taken + rank(self.len() - taken, recency.offset, recency.exponent, random)
        }))
    }

    /// Returns true if a file is in the list.
    pub fn contains(&self, file: File) -> bool {
        self.files.contains(&file)
    }

    /// Moves a used file to the front.
    pub fn touch(&mut self, file: File) {
        if let Some(place) = self.files.iter().position(|&known| known == file) {
            self.unused = self.unused.min(self.len() - 1 - place);
            self.files[..=place].rotate_right(1);
        }
    }

    /// Returns the file of a rank, counted from the most recently used; the order stays.
    pub fn nth(&self, place: usize) -> Option<File> {
        self.files.get(place).copied()
    }

    /// Takes out the most recently used file.
    pub fn take_first(&mut self) -> Option<File> {
        (self.len() > 0).then(|| {
            let file = self.files.remove(0);
            self.unused = self.unused.min(self.len());
            file
        })
    }

    /// Takes out the least recently used file.
    pub fn take_last(&mut self) -> Option<File> {
        let file = self.files.pop();
        self.unused = self.unused.saturating_sub(1);
        file
    }

    /// Takes out a file that is chosen as in [`LruList::next`].
    pub fn take(&mut self, recency: &Recency, random: &mut impl Rng) -> Option<File> {
        self.next(0, recency, random).and_then(|_| self.take_first())
    }
}

impl Recency {
    /// Returns the rank of the next of `all` items, of which the first `used` have been used, or
    /// `None` if ranks were not measured.
    fn measured(&self, used: usize, all: usize, random: &mut impl Rng) -> Option<usize> {
        let ranks = self.ranks.as_ref()?;
        if used == 0 || random.random::<f64>() < self.fresh {
            return Some(if used < all { used } else { all - 1 });
        }
        Some(usize::try_from(ranks.draw_whole(random)).unwrap_or(usize::MAX).min(used - 1))
    }
}
