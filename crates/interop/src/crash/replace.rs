//! "Write a new file, sync it, rename it over the old one": there is always a whole file, never one
//! older than the last that was acknowledged.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use spindle_clock::Mutex;

use super::{Load, Over, Testimony};
use crate::{Failure, Result};

/// Bytes in a version at most.
const SIZE_LIMIT: usize = 200_000;
const TARGET: &str = "target";
const NEW: &str = "new";

/// The load.
#[derive(Debug)]
pub struct Replace(Mutex<Versions>);

/// Versions count from 1, as what is in them does.
#[derive(Clone, Copy, Debug)]
struct Versions {
    seed: u64,
    /// Its rename, and the sync of the directory after it, were acknowledged.
    kept: u64,
    /// Its rename was begun.
    begun: u64,
}

impl Versions {
    /// Returns the version's bytes: its number, and what follows from it.
    fn content(&self, version: u64) -> Vec<u8> {
        let mut rng = SmallRng::seed_from_u64(self.seed ^ version);
        let mut bytes = vec![0; rng.random_range(8..SIZE_LIMIT)];
        rng.fill_bytes(&mut bytes);
        bytes[..8].copy_from_slice(&version.to_le_bytes());
        bytes
    }
}

impl Replace {
    /// Contents follow from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(Versions { seed, kept: 0, begun: 0 }))
    }

    fn replace(&self, directory: &Path, version: u64) -> std::io::Result<()> {
        let bytes = self.0.lock().content(version);
        let mut file = File::create(directory.join(NEW))?;
        let (first, rest) = bytes.split_at(bytes.len() / 3);
        file.write_all(first)?;
        file.write_all(rest)?;
        file.sync_all()?;
        self.0.lock().begun = version;
        fs::rename(directory.join(NEW), directory.join(TARGET))?;
        if !version.is_multiple_of(3) {
            File::open(directory)?.sync_all()?;
            self.0.lock().kept = version;
        }
        Ok(())
    }
}

impl Load for Replace {
    fn work(&self, directory: &Path, over: &Over) -> Result<()> {
        let mut version = 0;
        while !over.is_set() {
            version += 1;
            self.replace(directory, version).map_err(Failure::of("replacing a file"))?;
        }
        Ok(())
    }

    fn testify(&self) -> Box<dyn Testimony> {
        Box::new(*self.0.lock())
    }
}

impl Testimony for Versions {
    fn check(&self, directory: &Path) -> Result<u64> {
        let bytes = match fs::read(directory.join(TARGET)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.kept == 0 => return Ok(0),
            Err(error) => return Err(Failure::new(format!("{TARGET}: {error}"))),
        };
        for version in self.kept..=self.begun {
            if version > 0 && bytes == self.content(version) {
                return Ok(self.kept);
            }
        }
        // Of each version around, how much of it the file has, in pieces of 512 bytes.
        let near = self.kept.saturating_sub(1)..=self.begun + 2;
        let share = |version: u64| {
            let content = self.content(version);
            let same =
                content.chunks(512).zip(bytes.chunks(512)).filter(|(mine, found)| mine == found).count();
            format!("{same} pieces are of version {version}, which has {} bytes", content.len())
        };
        Err(Failure::new(format!(
            "{TARGET}: {} bytes that are no whole version; {} was acknowledged, {} begun; {}",
            bytes.len(),
            self.kept,
            self.begun,
            near.map(share).collect::<Vec<_>>().join("; ")
        )))
    }
}
