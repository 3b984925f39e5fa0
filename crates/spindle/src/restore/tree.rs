//! The tree that a chain of streams ends with, from their directories and maps.
//!
//! Of each inode the last stream counts that has it, unless a later one says that it was not in use
//! any more. A directory that names an inode which only a later stream has is out of date: that
//! stream would have it again if it still named that file.

use super::stream::{Report, Stream};
use crate::error::{Error, Result};
use crate::text::quoted;
use crate::transfer::join;
use spindle_dump::directory::Entry;
use spindle_dump::{InodeMap, Stamp};
use spindle_vfs::FileKind;
use std::collections::{HashMap, HashSet};

/// Inode of the root directory.
const ROOT: u32 = 2;

/// The flag of what is not to be dumped (`UF_NODUMP`).
const UF_NODUMP: u32 = 1;

/// Most bytes of a path. What is deeper gets a number as a name.
const MAX_PATH: usize = 1 << 16;

/// A name in the tree.
#[derive(Debug)]
pub(super) struct Named {
    /// The directory that it is in, as a place in the list of names.
    pub(super) dir: usize,
    name: Vec<u8>,
    pub(super) ino: u32,
    /// The stream that has the file; none if no stream has it.
    pub(super) source: Option<usize>,
    /// What the directory says that it is.
    pub(super) kind: Option<FileKind>,
    pub(super) is_directory: bool,
    /// Bytes of its path.
    path_len: usize,
}

/// A name in a list of what a dump has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Path from the root of the dump, without a slash at its start; empty for the root.
    pub path: Vec<u8>,
    /// Inode.
    pub ino: u32,
    /// It is a directory.
    pub is_directory: bool,
}

/// A chain of streams, and the tree that it ends with.
pub struct Restore<'a> {
    pub(super) streams: Vec<Stream<'a>>,
    /// All names, each directory before what is in it; the root first.
    pub(super) names: Vec<Named>,
    /// Where the names of each inode are in that list.
    pub(super) by_ino: HashMap<u32, Vec<usize>>,
    /// Names in the root directory that look like those of what no directory names.
    numbers: HashSet<Vec<u8>>,
}

impl<'a> Restore<'a> {
    /// Returns the first of these streams that is not based on the one before it; the first of all
    /// must have everything if `whole`.
    #[must_use]
    pub fn gap(streams: &[Stream<'_>], whole: bool) -> Option<usize> {
        let follows = |at: usize| streams[at].stamp().ddate == streams[at - 1].stamp().date;
        let begins = !whole || streams.first().is_some_and(|first| first.stamp().ddate == 0);
        if begins { (1..streams.len()).find(|&at| !follows(at)) } else { Some(0) }
    }

    /// Puts streams together, each of which is based on the one before. `report` is called with
    /// what contradicts itself in them.
    ///
    /// # Errors
    /// If they are no chain, or if what one has of it is unknown because its map is lost.
    pub fn new(streams: Vec<Stream<'a>>, report: Report<'_>) -> Result<Self> {
        if Self::gap(&streams, false).is_some() {
            return Err(Error::new("these dumps are not based on each other in this order"));
        }
        let without = streams.iter().find(|stream| stream.in_dump.is_none());
        if let Some(without) = without.filter(|_| streams.len() > 1) {
            let what = "which files it has is lost, so that it cannot be put together with others";
            return Err(Error::new(what).within(&without.name));
        }
        let mut restore =
            Self { streams, names: Vec::new(), by_ino: HashMap::new(), numbers: HashSet::new() };
        restore.build(report);
        Ok(restore)
    }

    /// Returns what the streams say of themselves.
    pub fn stamps(&self) -> impl Iterator<Item = &Stamp> {
        self.streams.iter().map(Stream::stamp)
    }

    /// Returns the names of the files that the streams have, each directory before what is in it.
    pub fn list(&self) -> impl Iterator<Item = Listed> {
        let had = self.names.iter().enumerate().filter(|(_, named)| named.source.is_some());
        had.map(|(at, named)| Listed {
            path: self.path(at),
            ino: named.ino,
            is_directory: named.is_directory,
        })
    }

    /// Returns how many inodes the streams say that they have, and no directory names.
    #[must_use]
    pub fn unnamed(&self) -> usize {
        (0..self.streams.len()).map(|at| self.unnamed_in(at).count()).sum()
    }

    /// Returns the inodes that are restored from one stream, as far as its map says, and that have
    /// no name.
    pub(super) fn unnamed_in(&self, at: usize) -> impl Iterator<Item = u32> {
        let inodes = self.streams[at].in_dump.iter().flat_map(InodeMap::iter);
        inodes.filter(move |ino| !self.by_ino.contains_key(ino) && self.source(*ino) == Some(at))
    }

    /// Returns the path of a name.
    pub(super) fn path(&self, at: usize) -> Vec<u8> {
        let mut names = Vec::new();
        let mut next = at;
        while next != 0 {
            names.push(&self.names[next].name[..]);
            next = self.names[next].dir;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// Returns the stream from which an inode is restored.
    pub(super) fn source(&self, ino: u32) -> Option<usize> {
        for (at, stream) in self.streams.iter().enumerate().rev() {
            if stream.has(ino) || stream.in_dump.is_none() {
                return Some(at);
            }
            if !stream.was_in_use(ino) {
                return None;
            }
        }
        None
    }

    /// Returns the stream that has the data of a directory which is restored.
    fn directory_source(&self, ino: u32) -> Option<usize> {
        self.source(ino).filter(|&at| self.streams[at].directories.contains_key(&ino))
    }

    /// Returns true if a file that a stream has is named by a directory, although a later stream
    /// says that it was not in use: if it had been removed, that stream would have the directory
    /// without it. A directory that is not to be dumped may be out of date, and so may be all below
    /// it.
    fn is_dropped(&self, dir: usize, ino: u32) -> bool {
        if !self.streams.iter().any(|stream| stream.has(ino)) {
            return false;
        }
        let mut above = dir;
        loop {
            let Named { dir: next, ino, source, .. } = &self.names[above];
            let directory = source.and_then(|at| self.streams[at].directories.get(ino));
            if directory.is_some_and(|directory| directory.inode.flags & UF_NODUMP != 0) {
                return false;
            }
            if above == 0 {
                return true;
            }
            above = *next;
        }
    }

    fn build(&mut self, report: Report<'_>) {
        let source = self.directory_source(ROOT);
        let is_directory = source.is_some();
        let root =
            Named { dir: 0, name: Vec::new(), ino: ROOT, source, kind: None, is_directory, path_len: 0 };
        self.names.push(root);
        self.by_ino.insert(ROOT, vec![0]);
        if is_directory {
            self.enter(0, report);
        } else {
            report(Error::new("the root directory is in none of the dumps; its files get numbers as names"));
        }
        self.name_directories(report);
    }

    /// Adds what is in a directory and below it.
    fn enter(&mut self, dir: usize, report: Report<'_>) {
        let mut open = vec![(dir, self.take_entries(dir).into_iter())];
        while let Some((dir, entries)) = open.last_mut() {
            let dir = *dir;
            let Some(entry) = entries.next() else {
                open.pop();
                continue;
            };
            if let Some(entered) = self.add(dir, entry, report) {
                open.push((entered, self.take_entries(entered).into_iter()));
            }
        }
    }

    /// Returns the entries of a directory, which are needed once.
    fn take_entries(&mut self, dir: usize) -> Vec<Entry> {
        let named = &self.names[dir];
        let source = named.source.and_then(|at| self.streams.get_mut(at));
        let directory = source.and_then(|stream| stream.directories.get_mut(&named.ino));
        directory.map(|directory| std::mem::take(&mut directory.entries)).unwrap_or_default()
    }

    /// Adds a name. Returns its place if it is a directory to be entered.
    fn add(&mut self, dir: usize, entry: Entry, report: Report<'_>) -> Option<usize> {
        let Entry { name, ino, kind } = entry;
        let source = self.source(ino);
        if source.is_none() && self.is_dropped(dir, ino) {
            let path = quoted(&join(&self.path(dir), &name));
            report(Error::new(format!(
                "{path}: inode {ino} is named, and was not in use later; it is left out"
            )));
        }
        if source.is_some_and(|source| self.names[dir].source.is_some_and(|of_dir| source > of_dir)) {
            return None;
        }
        let path_len = self.names[dir].path_len + 1 + name.len();
        if path_len > MAX_PATH {
            report(Error::new(format!("the path of inode {ino} has more than {MAX_PATH} bytes")));
            return None;
        }
        let is_directory = source.is_some_and(|at| self.streams[at].directories.contains_key(&ino));
        let known = self.by_ino.entry(ino).or_default();
        if is_directory && !known.is_empty() {
            let path = join(&self.path(dir), &name);
            report(Error::new(format!("{}: directory {ino} has another name already", quoted(&path))));
            return None;
        }
        let at = self.names.len();
        known.push(at);
        if dir == 0 && name.starts_with(b"#") {
            self.numbers.insert(name.clone());
        }
        self.names.push(Named { dir, name, ino, source, kind, is_directory, path_len });
        if is_directory && kind.is_some_and(|kind| kind != FileKind::Directory) {
            let path = quoted(&self.path(at));
            report(Error::new(format!("{path}: is a directory, and another kind of file by its name")));
        }
        is_directory.then_some(at)
    }

    /// Gives directories that no other names a number as a name in the root directory.
    fn name_directories(&mut self, report: Report<'_>) {
        let directories = self
            .streams
            .iter()
            .enumerate()
            .flat_map(|(at, stream)| stream.directories.keys().map(move |&ino| (at, ino)));
        let unnamed =
            directories.filter(|&(at, ino)| !self.by_ino.contains_key(&ino) && self.source(ino) == Some(at));
        let unnamed: Vec<_> = unnamed.collect();
        // Directories that others of them name come with those; a circle begins anywhere.
        let below: HashSet<u32> = unnamed
            .iter()
            .flat_map(|(at, ino)| self.streams[*at].directories[ino].entries.iter().map(|entry| entry.ino))
            .collect();
        let (later, first): (Vec<_>, Vec<_>) = unnamed.into_iter().partition(|(_, ino)| below.contains(ino));
        for (_, ino) in first.into_iter().chain(later) {
            if !self.by_ino.contains_key(&ino)
                && let Some(entered) = self.name_number(ino, report)
            {
                self.enter(entered, report);
            }
        }
    }

    /// Gives an inode that no directory names its number as a name in the root directory. Returns
    /// its place if it is a directory.
    pub(super) fn name_number(&mut self, ino: u32, report: Report<'_>) -> Option<usize> {
        let mut name = format!("#{ino}").into_bytes();
        while self.numbers.contains(&name) {
            name.push(b'#');
        }
        report(Error::new(format!("no directory names inode {ino}; it becomes {}", quoted(&name))));
        self.add(0, Entry { name, ino, kind: None }, report)
    }
}
