//! Storms of operations on names: after a crash there is what some moment would have shown, none
//! before the last sync.
//!
//! Each thread has a directory, and numbers what it does. What it is after a crash must be the
//! outcome of its first so many operations. Between threads, what had ended before something else
//! was begun must be there if that is. A file is filled with one write and closed, which hands it
//! over to the file system, so contents are subject to the same order.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rand::rngs::SmallRng;
use rand::seq::IteratorRandom;
use rand::{Rng, RngCore, SeedableRng};
use spindle_clock::Mutex;

use super::{Load, Over, Testimony};
use crate::{Failure, Result};

/// Names that a thread has at most.
const NAMES: usize = 80;
/// Files in use without a name at most, for each thread.
const UNLINKED: usize = 5;
/// Bytes in a file at most; less than a block, so that one write is one change.
const FILL_LIMIT: usize = 4000;

/// The load.
#[derive(Debug)]
pub struct Names {
    seed: u64,
    record: Vec<Mutex<History>>,
    /// Counts beginnings and ends of all threads' operations.
    moments: AtomicU64,
}

/// What a thread did.
#[derive(Clone, Debug, Default)]
struct History {
    /// The last one may not have ended.
    operations: Vec<Timed>,
    /// So many must be there.
    synced: usize,
}

#[derive(Clone, Debug)]
struct Timed {
    operation: Operation,
    begun: u64,
    ended: Option<u64>,
}

/// Paths are relative to the thread's directory.
#[derive(Clone, Debug)]
enum Operation {
    Create(String),
    Fill(String, Vec<u8>),
    Directory(String),
    Symlink(String, String),
    Link(String, String),
    Rename(String, String),
    Remove(String),
}

impl Operation {
    fn carry_out(&self, directory: &Path) -> io::Result<()> {
        let at = |path: &String| directory.join(path);
        match self {
            Self::Create(path) => File::create_new(at(path)).map(drop),
            Self::Fill(path, bytes) => fs::write(at(path), bytes),
            Self::Directory(path) => fs::create_dir(at(path)),
            Self::Symlink(target, path) => symlink(target, at(path)),
            Self::Link(from, to) => fs::hard_link(at(from), at(to)),
            Self::Rename(from, to) => fs::rename(at(from), at(to)),
            Self::Remove(path) if at(path).symlink_metadata()?.is_dir() => fs::remove_dir(at(path)),
            Self::Remove(path) => fs::remove_file(at(path)),
        }
    }
}

/// What a path stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    /// A place in [`Tree::bodies`].
    File(usize),
    Directory,
    Symlink(String),
}

/// What a directory must look like.
#[derive(Clone, Debug, Default)]
struct Tree {
    nodes: BTreeMap<String, Node>,
    bodies: Vec<Vec<u8>>,
}

/// What a path looks like: of a file the bytes and the number of its names.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    File(Vec<u8>, u64),
    Directory,
    Symlink(String),
}

impl Tree {
    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Create(path) => {
                self.bodies.push(Vec::new());
                self.nodes.insert(path.clone(), Node::File(self.bodies.len() - 1));
            }
            Operation::Fill(path, bytes) => {
                if let Some(Node::File(body)) = self.nodes.get(path) {
                    self.bodies[*body].clone_from(bytes);
                }
            }
            Operation::Directory(path) => drop(self.nodes.insert(path.clone(), Node::Directory)),
            Operation::Symlink(target, path) => {
                self.nodes.insert(path.clone(), Node::Symlink(target.clone()));
            }
            Operation::Link(from, to) => {
                let node = self.nodes[from].clone();
                self.nodes.insert(to.clone(), node);
            }
            Operation::Rename(from, to) => {
                let inside = format!("{from}/");
                let moved: Vec<_> = self
                    .nodes
                    .keys()
                    .filter(|path| *path == from || path.starts_with(&inside))
                    .cloned()
                    .collect();
                for path in moved {
                    let node = self.nodes.remove(&path).expect("it was just seen");
                    self.nodes.insert(format!("{to}{}", &path[from.len()..]), node);
                }
            }
            Operation::Remove(path) => drop(self.nodes.remove(path)),
        }
    }

    fn look(&self) -> BTreeMap<String, Look> {
        let mut links = BTreeMap::new();
        for node in self.nodes.values() {
            if let Node::File(body) = node {
                *links.entry(*body).or_insert(0) += 1;
            }
        }
        let look = |node: &Node| match node {
            Node::File(body) => Look::File(self.bodies[*body].clone(), links[body]),
            Node::Directory => Look::Directory,
            Node::Symlink(target) => Look::Symlink(target.clone()),
        };
        self.nodes.iter().map(|(path, node)| (path.clone(), look(node))).collect()
    }

    /// Returns the directories, the top one as an empty path.
    fn directories(&self) -> impl Iterator<Item = &str> {
        let below = self.nodes.iter().filter(|(_, node)| **node == Node::Directory);
        std::iter::once("").chain(below.map(|(path, _)| path.as_str()))
    }

    fn is_empty(&self, directory: &str) -> bool {
        let inside = format!("{directory}/");
        !self.nodes.keys().any(|path| path.starts_with(&inside))
    }
}

/// Notes what is in `directory` and below it.
fn look(directory: &Path, path: &str, found: &mut BTreeMap<String, Look>) -> io::Result<()> {
    for entry in fs::read_dir(directory.join(path))? {
        let entry = entry?;
        let (name, meta) = (entry.file_name().to_string_lossy().into_owned(), entry.metadata()?);
        let path = if path.is_empty() { name } else { format!("{path}/{name}") };
        let seen = if meta.is_dir() {
            look(directory, &path, found)?;
            Look::Directory
        } else if meta.is_symlink() {
            Look::Symlink(fs::read_link(entry.path())?.to_string_lossy().into_owned())
        } else {
            Look::File(fs::read(entry.path())?, meta.nlink())
        };
        found.insert(path, seen);
    }
    Ok(())
}

/// One thread at work.
struct Worker<'a> {
    names: &'a Names,
    history: &'a Mutex<History>,
    directory: &'a Path,
    rng: SmallRng,
    tree: Tree,
    unlinked: Vec<File>,
    made: u64,
}

impl Worker<'_> {
    fn step(&mut self) -> io::Result<()> {
        if self.rng.random_ratio(1, 25) {
            return self.sync();
        }
        let Some(operation) = self.choose() else { return Ok(()) };
        if let Operation::Remove(path) | Operation::Rename(_, path) = &operation
            && matches!(self.tree.nodes.get(path), Some(Node::File(_)))
            && self.rng.random_ratio(1, 4)
        {
            self.unlinked.truncate(UNLINKED - 1);
            self.unlinked.insert(0, File::open(self.directory.join(path))?);
        }
        let moment = || self.names.moments.fetch_add(1, Ordering::SeqCst);
        let timed = Timed { operation: operation.clone(), begun: moment(), ended: None };
        self.history.lock().operations.push(timed);
        operation.carry_out(self.directory)?;
        self.history.lock().operations.last_mut().expect("it was just pushed").ended = Some(moment());
        self.tree.apply(&operation);
        Ok(())
    }

    /// Syncs a directory or a file, which makes everything before it durable.
    fn sync(&mut self) -> io::Result<()> {
        let file = self.any(|node| matches!(node, Node::File(_))).filter(|_| self.rng.random());
        if let Some(path) = file {
            File::open(self.directory.join(path))?.sync_all()?;
        } else {
            let path = self.tree.directories().choose(&mut self.rng).unwrap_or_default();
            let directory = File::open(self.directory.join(path))?;
            // The data of a directory is its names.
            if self.rng.random() { directory.sync_data()? } else { directory.sync_all()? }
        }
        let mut history = self.history.lock();
        history.synced = history.operations.len();
        Ok(())
    }

    /// Returns a name that was never used, in any directory.
    fn new_path(&mut self) -> String {
        self.made += 1;
        let width = self.rng.random_range(1..60);
        let name = format!("{:x}-{:0width$}", self.made, 0);
        match self.tree.directories().choose(&mut self.rng) {
            None | Some("") => name,
            Some(directory) => format!("{directory}/{name}"),
        }
    }

    fn any(&mut self, wanted: impl Fn(&Node) -> bool) -> Option<String> {
        let fitting = self.tree.nodes.iter().filter(|(_, node)| wanted(node));
        fitting.map(|(path, _)| path.clone()).choose(&mut self.rng)
    }

    fn choose(&mut self) -> Option<Operation> {
        let file = |node: &Node| matches!(node, Node::File(_));
        let room = self.tree.nodes.len() < NAMES;
        match self.rng.random_range(0..100) {
            0..25 if room => Some(Operation::Create(self.new_path())),
            25..45 => {
                let mut bytes = vec![0; self.rng.random_range(1..FILL_LIMIT)];
                self.rng.fill_bytes(&mut bytes);
                let path = self.any(|node| file(node))?;
                let empty = |body: &usize| self.tree.bodies[*body].is_empty();
                let fresh = matches!(&self.tree.nodes[&path], Node::File(body) if empty(body));
                fresh.then_some(Operation::Fill(path, bytes))
            }
            45..50 if room => Some(Operation::Directory(self.new_path())),
            50..55 if room => {
                let target = "x".repeat(self.rng.random_range(1..200));
                Some(Operation::Symlink(target, self.new_path()))
            }
            55..62 if room => {
                let from = self.any(|node| file(node))?;
                Some(Operation::Link(from, self.new_path()))
            }
            62..72 => {
                // Between two names of one file a rename does nothing.
                let (from, to) = (self.any(|node| file(node))?, self.any(|node| file(node))?);
                (self.tree.nodes[&from] != self.tree.nodes[&to]).then_some(Operation::Rename(from, to))
            }
            72..82 => {
                let (from, to) = (self.any(|_| true)?, self.new_path());
                let into_itself = to.starts_with(&format!("{from}/"));
                (!into_itself).then_some(Operation::Rename(from, to))
            }
            _ => {
                let path = self.any(|_| true)?;
                self.tree.is_empty(&path).then_some(Operation::Remove(path))
            }
        }
    }
}

impl Names {
    /// Returns what its `threads` do follows from the seed.
    #[must_use]
    pub fn new(threads: usize, seed: u64) -> Self {
        let record = (0..threads).map(|_| Mutex::default()).collect();
        Self { seed, record, moments: AtomicU64::new(0) }
    }
}

impl Load for Names {
    fn work(&self, directory: &Path, over: &Over) -> Result<()> {
        let work = |(number, history): (usize, &Mutex<History>)| {
            let directory = directory.join(number.to_string());
            let fail = |error| Failure::new(format!("names, thread {number}: {error}"));
            let rng = SmallRng::seed_from_u64(self.seed.wrapping_add(number as u64));
            let tree = Tree::default();
            fs::create_dir(&directory).map_err(fail)?;
            let mut worker = Worker {
                names: self,
                history,
                directory: &directory,
                rng,
                tree,
                unlinked: Vec::new(),
                made: 0,
            };
            while !over.is_set() {
                worker.step().map_err(fail)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let threads: Vec<_> =
                self.record.iter().enumerate().map(|each| scope.spawn(move || work(each))).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("panic"))))
        })
    }

    fn testify(&self) -> Box<dyn Testimony> {
        Box::new(Histories(self.record.iter().map(|history| history.lock().clone()).collect()))
    }
}

struct Histories(Vec<History>);

impl History {
    /// Returns the least and the greatest number of operations that give what is in `directory`.
    fn moments(&self, directory: &Path) -> Result<(usize, usize)> {
        let mut found = BTreeMap::new();
        match look(directory, "", &mut found) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.synced == 0 => return Ok((0, 0)),
            seen => seen.map_err(Failure::of(directory.display()))?,
        }
        let mut tree = Tree::default();
        let mut fitting = Vec::new();
        let mut tried = String::new();
        for number in 0..=self.operations.len() {
            if number >= self.synced {
                let differences = differences(&tree.look(), &found);
                if differences.is_empty() {
                    fitting.push(number);
                }
                let _ = writeln!(tried, "after {number} operations: {}", differences.join("; "));
            }
            if let Some(timed) = self.operations.get(number) {
                tree.apply(&timed.operation);
            }
        }
        let no_moment = || {
            let directory = directory.display();
            let operations: Vec<_> =
                self.operations[self.synced..].iter().map(|timed| timed.operation.short()).collect();
            Failure::new(format!(
                "{directory}: nothing that was there at any moment since the last sync, at operation {}; since then: {}\n{tried}",
                self.synced,
                operations.join(", ")
            ))
        };
        fitting.first().copied().zip(fitting.last().copied()).ok_or_else(no_moment)
    }
}

impl Operation {
    fn short(&self) -> String {
        match self {
            Self::Fill(path, bytes) => format!("Fill({path:?}, {} bytes)", bytes.len()),
            other => format!("{other:?}"),
        }
    }
}

impl Look {
    fn short(&self) -> String {
        match self {
            Self::File(bytes, links) => {
                format!("{} bytes ({:02x?}…), {links} names", bytes.len(), &bytes[..bytes.len().min(4)])
            }
            other => format!("{other:?}"),
        }
    }
}

/// Returns how what was found differs from what would be expected.
fn differences(expected: &BTreeMap<String, Look>, found: &BTreeMap<String, Look>) -> Vec<String> {
    let missing =
        expected.iter().filter(|(path, look)| found.get(*path) != Some(look)).map(|(path, look)| {
            format!(
                "{path}: {}, found {}",
                look.short(),
                found.get(path).map_or("nothing".into(), Look::short)
            )
        });
    let more = found.iter().filter(|(path, _)| !expected.contains_key(*path));
    missing.chain(more.map(|(path, look)| format!("{path}: nothing, found {}", look.short()))).collect()
}

impl Testimony for Histories {
    fn check(&self, directory: &Path) -> Result<u64> {
        let place = |number: usize| directory.join(number.to_string());
        let fitting: Result<Vec<_>> =
            self.0.iter().enumerate().map(|(number, history)| history.moments(&place(number))).collect();
        let fitting = fitting?;
        // The last beginning of anything that is surely there: what had ended before must be, too.
        let certain = self.0.iter().zip(&fitting).filter_map(|(history, (least, _))| {
            least.checked_sub(1).map(|last| history.operations[last].begun)
        });
        let latest = certain.max().unwrap_or(0);
        for (number, (history, (_, most))) in self.0.iter().zip(&fitting).enumerate() {
            let before = |timed: &&Timed| timed.ended.is_some_and(|ended| ended < latest);
            let due = history.operations.iter().filter(before).count();
            if *most < due {
                return Err(Failure::new(format!(
                    "thread {number}: operation {due} is missing, which had ended before something was begun that is there"
                )));
            }
        }
        Ok(self.0.iter().map(|history| history.synced as u64).sum())
    }
}
