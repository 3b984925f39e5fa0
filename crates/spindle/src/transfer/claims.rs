//! Which bytes of the device the files of a transfer hold, to find those that two files claim: one
//! of the two then has the contents of the other, and nothing in either says so.
//!
//! What was seen is a bit for each unit of space and for each inode, in pages that exist where
//! there is something; whose a unit is, another walk finds out, which only a damaged tree needs.

use crate::error::Error;
use crate::text::quoted;
use crate::walk::{Walk, When};
use spindle_vfs::{FileSystem, Ino, Vfs};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

/// Bits of a page.
const PAGE: u64 = 32_768;
/// Most units claimed twice of which the other file is searched for.
const REMEMBERED: usize = 1 << 20;

/// A set of numbers.
#[derive(Default)]
struct Bits(HashMap<u64, Box<[u64; (PAGE / 64) as usize]>>);

impl Bits {
    /// Adds a number. Returns false if it was there.
    fn insert(&mut self, n: u64) -> bool {
        let page = self.0.entry(n / PAGE).or_insert_with(|| Box::new([0; (PAGE / 64) as usize]));
        let word = &mut page[usize::try_from(n % PAGE / 64).unwrap_or(0)];
        let bit = 1 << (n % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

/// Files that hold a unit of space: their inodes and paths.
type Owners = HashMap<u64, Vec<(Ino, Rc<[u8]>)>>;

/// Space that a file claims and another one has claimed before.
struct Twice {
    ino: Ino,
    /// What messages call the file.
    place: String,
    units: u64,
    /// The units, unless there are too many of them.
    runs: Vec<Range<u64>>,
}

/// What the files of a transfer hold.
pub(crate) struct Claims {
    /// Bytes of a unit of space.
    unit: u64,
    units: Bits,
    inodes: Bits,
    twice: Vec<Twice>,
    /// Units in the runs of all of them.
    remembered: usize,
}

impl Claims {
    /// Returns the claims of no files yet of a file system. The log has its space.
    pub(crate) fn new(fs: &dyn FileSystem) -> Self {
        let unit = fs.statfs().map_or(512, |stat| u64::from(stat.frsize.max(1)));
        let (units, inodes) = (Bits::default(), Bits::default());
        let mut claims = Self { unit, units, inodes, twice: Vec::new(), remembered: 0 };
        if let Some(log) = fs.limits().log {
            claims.add(fs, log, String::new);
        }
        claims
    }

    /// Adds what an inode holds, once; messages call it `place`.
    pub(crate) fn add(&mut self, fs: &dyn FileSystem, ino: Ino, place: impl FnOnce() -> String) {
        if !self.inodes.insert(ino.0) {
            return;
        }
        let mut twice = Vec::new();
        // What cannot be read is said when the file is read.
        let _ = fs.held(ino, &mut |bytes| {
            let units = self.units_of(&bytes);
            twice.extend(units.filter(|&unit| !self.units.insert(unit)));
        });
        if twice.is_empty() {
            return;
        }
        twice.sort_unstable();
        let mut found = Twice { ino, place: place(), units: twice.len() as u64, runs: Vec::new() };
        if self.remembered.saturating_add(twice.len()) <= REMEMBERED {
            self.remembered += twice.len();
            let runs = twice.chunk_by(|a, b| *b <= a + 1);
            found.runs = runs.map(|run| run[0]..run[run.len() - 1] + 1).collect();
        }
        self.twice.push(found);
    }

    fn units_of(&self, bytes: &Range<u64>) -> Range<u64> {
        bytes.start / self.unit..bytes.end.div_ceil(self.unit)
    }

    /// Returns the first two files of the file system that hold each of the units claimed twice.
    fn owners(&self, vfs: &Vfs) -> Owners {
        let runs = self.twice.iter().flat_map(|twice| twice.runs.iter().cloned());
        let wanted: HashSet<u64> = runs.flatten().collect();
        let mut owners = Owners::new();
        let Ok(root) = vfs.root_node() else { return owners };
        for visit in Walk::new(b"/", root).flatten().filter(|visit| visit.when != When::After) {
            let (ino, path): (_, Rc<[u8]>) = (visit.attr.ino, visit.path.into());
            let _ = vfs.fs().held(ino, &mut |bytes| {
                for unit in self.units_of(&bytes).filter(|unit| wanted.contains(unit)) {
                    let known = owners.entry(unit).or_default();
                    if known.len() < 2 && known.iter().all(|(other, _)| *other != ino) {
                        known.push((ino, Rc::clone(&path)));
                    }
                }
            });
        }
        owners
    }

    /// Returns what to say of each file that claims what another one among those that were added
    /// claims.
    pub(crate) fn losses(&self, vfs: &Vfs) -> Vec<Error> {
        let mut losses = Vec::new();
        if self.twice.is_empty() {
            return losses;
        }
        let owners = self.owners(vfs);
        for twice in &self.twice {
            let mut shared: BTreeMap<Option<&[u8]>, u64> = BTreeMap::new();
            for unit in twice.runs.iter().cloned().flatten() {
                let owner =
                    owners.get(&unit).and_then(|known| known.iter().find(|(ino, _)| *ino != twice.ino));
                *shared.entry(owner.map(|(_, path)| &path[..])).or_default() += 1;
            }
            if twice.runs.is_empty() {
                shared.insert(None, twice.units);
            }
            for (other, units) in shared {
                let bytes = units * self.unit;
                let whose = other.map_or_else(
                    || "itself twice, or together with the log or a file that is not copied".to_owned(),
                    |other| format!("together with {}", quoted(other)),
                );
                let what = format!(
                    "has {bytes} bytes on the device {whose}: only one of the two can have its own contents there"
                );
                losses.push(Error::new(what).within(&twice.place));
            }
        }
        losses
    }
}
