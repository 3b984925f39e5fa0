//! Files that are written anywhere, cut, synced and removed: what was synced is there, and no byte
//! is another's.
//!
//! Until it is synced, each byte may be what it was when it last was, what any write since has put
//! there, or, where the file has grown since, zero. Contents are random, so that a foreign byte is
//! none of these but by chance, and thousands never are.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use rustix::fs::OFlags;
use spindle_clock::Mutex;

use super::{Load, Over, Testimony};
use crate::{Failure, Result};

/// Files at a time.
const FILES: usize = 6;
/// Bytes in a file at most.
const SIZE_LIMIT: usize = 400_000;
/// Bytes in a write at most.
const WRITE_LIMIT: usize = 40_000;

/// The load.
#[derive(Debug)]
pub struct Data {
    seed: u64,
    record: Mutex<Files>,
}

/// By name.
type Files = BTreeMap<String, Model>;

/// What a crash may do to the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    /// Made and not yet synced.
    New,
    /// Must be there.
    Sure,
    /// Removed, and not yet synced.
    Leaving,
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(at, data) => {
                bytes.resize(bytes.len().max(at + data.len()), 0);
                bytes[*at..at + data.len()].copy_from_slice(data);
            }
            Self::Cut(length) => bytes.resize(*length, 0),
        }
    }
}

#[derive(Clone, Debug)]
struct Model {
    name: Name,
    /// What was last synced.
    synced: Vec<u8>,
    /// What was begun since.
    changes: Vec<Change>,
}

impl Model {
    fn sync(&mut self) {
        for change in self.changes.drain(..) {
            change.apply(&mut self.synced);
        }
        self.name = Name::Sure;
    }

    /// Returns what is wrong with `bytes`, if a crash has left them.
    fn cannot_be(&self, bytes: &[u8]) -> Option<String> {
        let cuts = self.changes.iter().filter_map(|change| match change {
            Change::Cut(length) => Some(*length),
            Change::Write(..) => None,
        });
        let shortest = cuts.fold(self.synced.len(), usize::min);
        let ends = self.changes.iter().map(|change| match change {
            Change::Cut(length) => *length,
            Change::Write(at, data) => at + data.len(),
        });
        let longest = ends.fold(self.synced.len(), usize::max);
        if !(shortest..=longest).contains(&bytes.len()) {
            return Some(format!("{} bytes long, not between {shortest} and {longest}", bytes.len()));
        }
        let can_be = |at: usize, byte: u8| {
            let written = |change: &Change| match change {
                Change::Write(start, data) => {
                    at.checked_sub(*start).and_then(|at| data.get(at)) == Some(&byte)
                }
                Change::Cut(_) => false,
            };
            self.synced.get(at) == Some(&byte)
                || (byte == 0 && at >= shortest)
                || self.changes.iter().any(written)
        };
        let wrong: Vec<usize> = (0..bytes.len()).filter(|&at| !can_be(at, bytes[at])).collect();
        let (first, last) = (wrong.first()?, wrong.last()?);
        Some(format!(
            "{} wrong bytes from {first} to {last}, the first {:#04x}; {} bytes were synced, {} changes were not",
            wrong.len(),
            bytes[*first],
            self.synced.len(),
            self.changes.len()
        ))
    }
}

impl Data {
    /// Returns what it does follows from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, record: Mutex::default() }
    }

    /// Records a change of one file.
    fn note(&self, name: &str, note: impl FnOnce(&mut Model)) {
        note(self.record.lock().get_mut(name).expect("it was recorded when it was made"));
    }

    fn step(&self, directory: &Path, rng: &mut SmallRng, open: &mut Vec<Open>) -> io::Result<()> {
        if open.len() < FILES {
            open.push(self.create(directory, rng)?);
        }
        let place = rng.random_range(0..open.len());
        let (name, file) = (open[place].name.clone(), &open[place].file);
        match rng.random_range(0..100) {
            0..60 => {
                let mut data = vec![0; rng.random_range(1..=WRITE_LIMIT)];
                if rng.random() {
                    data.truncate(500);
                }
                rng.fill_bytes(&mut data);
                let length = open[place].length;
                let most = (length + WRITE_LIMIT).min(SIZE_LIMIT - data.len());
                let at = if rng.random() { length.min(most) } else { rng.random_range(0..=most) };
                self.note(&name, |model| model.changes.push(Change::Write(at, data.clone())));
                file.write_all_at(&data, at as u64)?;
                if open[place].synchronous {
                    self.note(&name, Model::sync);
                }
                open[place].length = length.max(at + data.len());
            }
            60..67 => {
                let length = rng.random_range(0..=open[place].length);
                self.note(&name, |model| model.changes.push(Change::Cut(length)));
                file.set_len(length as u64)?;
                open[place].length = length;
            }
            67..80 => {
                file.sync_data()?;
                self.note(&name, Model::sync);
            }
            80..94 => {
                file.sync_all()?;
                self.note(&name, Model::sync);
                // What was done to names before is in order before it.
                let mut record = self.record.lock();
                record.retain(|_, model| model.name != Name::Leaving);
                record.values_mut().for_each(|model| model.name = Name::Sure);
            }
            _ => {
                self.note(&name, |model| model.name = Name::Leaving);
                fs::remove_file(directory.join(&name))?;
                open.swap_remove(place);
            }
        }
        Ok(())
    }

    fn create(&self, directory: &Path, rng: &mut SmallRng) -> io::Result<Open> {
        let name = format!("{:016x}", rng.random::<u64>());
        let synchronous = rng.random_ratio(1, 6);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if synchronous {
            options.custom_flags(OFlags::DSYNC.bits().cast_signed());
        }
        let model = Model { name: Name::New, synced: Vec::new(), changes: Vec::new() };
        self.record.lock().insert(name.clone(), model);
        Ok(Open { file: options.open(directory.join(&name))?, name, synchronous, length: 0 })
    }
}

struct Open {
    name: String,
    file: File,
    /// Opened with `O_DSYNC`: each write is synced when it returns.
    synchronous: bool,
    length: usize,
}

impl Load for Data {
    fn work(&self, directory: &Path, over: &Over) -> Result<()> {
        let mut rng = SmallRng::seed_from_u64(self.seed);
        let mut open = Vec::new();
        while !over.is_set() {
            self.step(directory, &mut rng, &mut open).map_err(Failure::of("a file's data"))?;
        }
        Ok(())
    }

    fn testify(&self) -> Box<dyn Testimony> {
        Box::new(self.record.lock().clone())
    }
}

impl Testimony for Files {
    fn check(&self, directory: &Path) -> Result<u64> {
        let fail = |error| Failure::new(format!("{}: {error}", directory.display()));
        for entry in fs::read_dir(directory).map_err(fail)? {
            let name = entry.map_err(fail)?.file_name().to_string_lossy().into_owned();
            if !self.contains_key(&name) {
                return Err(Failure::new(format!("{name}: removed before the last sync, or never made")));
            }
        }
        let mut kept = 0;
        for (name, model) in self {
            let bytes = match fs::read(directory.join(name)) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound && model.name != Name::Sure => continue,
                Err(error) => return Err(Failure::new(format!("{name}: {error}"))),
            };
            if let Some(wrong) = model.cannot_be(&bytes) {
                return Err(Failure::new(format!("{name}: {wrong}")));
            }
            kept += u64::from(model.name == Name::Sure);
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: what was synced must be there, what was not may be there, in part, and nothing
    /// else.
    #[test]
    fn knows_what_can_be() {
        let mut model =
            Model { name: Name::New, synced: Vec::new(), changes: vec![Change::Write(0, b"abcdef".into())] };
        for bytes in [&b""[..], b"abc", b"abcdef", b"a\0c"] {
            assert_eq!(model.cannot_be(bytes), None, "{bytes:?}");
        }
        for bytes in [&b"abx"[..], b"abcdefg", b"bcd"] {
            assert!(model.cannot_be(bytes).is_some(), "{bytes:?}");
        }
        model.sync();
        assert_eq!(model.cannot_be(b"abcdef"), None);
        assert!(model.cannot_be(b"abcde").is_some() && model.cannot_be(b"abcde\0").is_some());
        model.changes = vec![Change::Write(2, b"XY".into()), Change::Cut(4)];
        for bytes in [&b"abcdef"[..], b"abXdef", b"abXY", b"abcd", b"abXY\0f"] {
            assert_eq!(model.cannot_be(bytes), None, "{bytes:?}");
        }
        assert!(model.cannot_be(b"abX").is_some() && model.cannot_be(b"aXcd").is_some());
    }
}
