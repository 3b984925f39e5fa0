//! Months of use of a file system, from a seed.
//!
//! The mix: files of published sizes in directories of users; several programs write at the same
//! time, so that files grow between each other. Of the new files of a day four in five are
//! temporary and live for a few steps (Ousterhout and others, "A Trace-Driven Analysis of the UNIX
//! 4.2 BSD File System", 1985, figure 4: 80 % die within three minutes); the others stay, new or
//! written over, and old files go to keep the level. The same seed asks the same of every file
//! system, as far as it has the space.

use crate::bench::process::Process;
use crate::bench::subject::{Kind, Subject};
use crate::population::{FILES_PER_DIRECTORY, Sizes};
use crate::{Error, Result};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_cache::Settings;
use spindle_clock::ManualClock;
use spindle_device::MemoryDevice;
use spindle_vfs::{FileKind, FileSystem, Ino};
use std::sync::Arc;

/// Programs that write at the same time: the load of a time-sharing VAX was 5 to 10 (the same
/// paper, section 4).
const WRITERS: usize = 8;
/// Files that are new or written over in a day and stay, in parts of all files. A time-sharing VAX
/// created some 11,500 files a day (trace A5 of the same paper), of which one in five stayed; on a
/// machine with the 117,000 files that Table 1 of the 1984 paper leads to, these are two in a
/// hundred.
const DAILY: f64 = 0.02;
/// Temporary files for each one that stays.
const TEMPORARY: u32 = 4;
/// Steps after which a temporary file is removed, at most.
const TEMPORARY_LIFE: u32 = 40;
/// Steps after which all is written to the disk, as the daemon `update` does twice a minute.
const SYNC_EVERY: u64 = 1024;
/// Of the files that stay, those that take the place of an old one under its name.
const OVERWRITTEN: f64 = 0.4;
/// Days after which the administrator has users clean up, as disks were full again within weeks,
/// and the part of the disk that is free afterwards in addition.
pub const CLEANED_EVERY: u32 = 14;
const CLEANED: f64 = 0.14;
/// Of removals, those of all files of a directory.
const WHOLE_DIRECTORY: f64 = 0.03;

/// Directories in a directory: the old file system counts no more than 127 names of one.
const MOST_BELOW: u32 = 60;

/// A file that stays.
#[derive(Clone, Copy, Debug)]
struct Live {
    directory: usize,
    ino: Ino,
    number: u64,
}

/// The fate of a file after it has been written.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Stays(Live),
    Temporary(u64),
    Replaced,
}

/// A program that writes a file.
#[derive(Clone, Copy, Debug)]
struct Writer {
    ino: Ino,
    at: u64,
    size: u64,
    fate: Fate,
}

/// The state of use of one file system. It holds inode numbers only, so the file system may be
/// unmounted between days.
pub struct Ageing {
    sizes: Sizes,
    random: StdRng,
    clock: ManualClock,
    /// Bytes that a program writes at once: what the file system says is best.
    block: usize,
    /// Part of the space for users that is in use when it is time to clean up.
    level: f64,
    days: u32,
    directories: Vec<Ino>,
    /// Directories in each of them, and in the root.
    below: Vec<u32>,
    in_root: u32,
    temporary: Option<Ino>,
    live: Vec<Live>,
    /// Temporary files, and the step at which each is removed.
    dying: Vec<(u64, u64)>,
    writers: Vec<Writer>,
    names: u64,
    steps: u64,
}

impl Ageing {
    /// Returns nothing used yet; later up to `level` of the space for users, from 0 to 1: there
    /// after every [`CLEANED_EVERY`] days.
    pub fn new(seed: u64, sizes: Sizes, level: f64) -> Self {
        Self {
            sizes,
            random: StdRng::seed_from_u64(seed),
            clock: ManualClock::at(0),
            block: 0,
            level,
            days: 0,
            directories: Vec::new(),
            below: Vec::new(),
            in_root: 0,
            temporary: None,
            live: Vec::new(),
            dying: Vec::new(),
            writers: Vec::new(),
            names: 0,
            steps: 0,
        }
    }

    /// Fills an empty file system up to the level, as a restore from tapes does: file after file.
    ///
    /// # Errors
    /// As the file system.
    pub fn fill(&mut self, fs: &dyn FileSystem) -> Result<()> {
        self.block = fs.statfs()?.bsize as usize;
        while used(fs)? < self.level {
            self.start_staying(fs)?;
            while !self.writers.is_empty() {
                self.step(fs)?;
            }
        }
        Ok(())
    }

    /// Simulates a day of use.
    ///
    /// # Errors
    /// As the file system, except for want of space, which ends the file being written.
    pub fn day(&mut self, fs: &dyn FileSystem) -> Result<()> {
        if self.days.is_multiple_of(CLEANED_EVERY) {
            self.make_room(fs, self.level - CLEANED)?;
        }
        self.days += 1;
        let left = (CLEANED_EVERY - 1) - (self.days - 1) % CLEANED_EVERY;
        let level = self.level - CLEANED * f64::from(left) / f64::from(CLEANED_EVERY);
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // Thousands.
        let mut staying = (self.live.len() as f64 * DAILY).ceil() as u32;
        let mut temporary = staying * TEMPORARY;
        while staying + temporary > 0 || !self.writers.is_empty() {
            while self.writers.len() < WRITERS && staying + temporary > 0 {
                if self.random.random_range(0..staying + temporary) < staying {
                    staying -= 1;
                    self.start_daily(fs)?;
                } else {
                    temporary -= 1;
                    self.start_temporary(fs)?;
                }
            }
            self.step(fs)?;
            if self.steps.is_multiple_of(64) {
                self.make_room(fs, level)?;
            }
        }
        while let Some((number, _)) = self.dying.pop() {
            self.remove_temporary(fs, number)?;
        }
        self.make_room(fs, level)
    }

    fn process<'a>(&'a self, fs: &'a dyn FileSystem) -> Process<'a> {
        Process::new(fs, &self.clock, self.block).with_reserve()
    }

    fn size(&mut self) -> u64 {
        self.sizes.draw(&mut self.random)
    }

    /// Starts to write a file that stays, new or in place of another.
    fn start_daily(&mut self, fs: &dyn FileSystem) -> Result<()> {
        if self.live.is_empty() || !self.random.random_bool(OVERWRITTEN) {
            return self.start_staying(fs);
        }
        let size = self.size();
        let which = self.random.random_range(0..self.live.len());
        let ino = self.live[which].ino;
        if self.writers.iter().all(|writer| writer.ino != ino) {
            self.process(fs).truncate(ino)?;
            self.writers.push(Writer { ino, at: 0, size, fate: Fate::Replaced });
        }
        Ok(())
    }

    /// Starts to write a new file that stays, in a directory that is made if there are not enough.
    fn start_staying(&mut self, fs: &dyn FileSystem) -> Result<()> {
        let size = self.size();
        self.names += 1;
        let number = self.names;
        #[allow(clippy::cast_precision_loss)] // Thousands.
        let wanted = self.live.len() as f64 / FILES_PER_DIRECTORY;
        #[allow(clippy::cast_precision_loss)] // Thousands.
        if self.directories.len() as f64 <= wanted {
            let parent = self.parent();
            let at = parent.map_or(fs.root(), |n| self.directories[n]);
            let made = self.process(fs).create(at, &format!("d{number}"), FileKind::Directory)?;
            self.below.push(0);
            self.directories.push(made);
        }
        // Users work in some directories more than in others: half of the files go to the newest
        // tenth.
        let all = self.directories.len();
        let recent = if self.random.random_bool(0.5) { all.div_ceil(10) } else { all };
        let directory = all - 1 - self.random.random_range(0..recent);
        let ino = self.process(fs).create(self.directories[directory], &name(number), FileKind::Regular)?;
        self.writers.push(Writer { ino, at: 0, size, fate: Fate::Stays(Live { directory, ino, number }) });
        Ok(())
    }

    /// Returns where the next directory goes: a third of them into the root as long as there is
    /// room, the others into those before them.
    fn parent(&mut self) -> Option<usize> {
        let n = self.directories.len();
        if self.in_root < MOST_BELOW && self.random.random_range(0..3) == 0 || n == 0 {
            self.in_root += 1;
            return None;
        }
        // There is always room: each directory has room for many.
        let from = self.random.random_range(0..n);
        let which = (0..n).map(|step| (from + step) % n).find(|&which| self.below[which] < MOST_BELOW)?;
        self.below[which] += 1;
        Some(which)
    }

    fn start_temporary(&mut self, fs: &dyn FileSystem) -> Result<()> {
        let size = self.size();
        self.names += 1;
        let number = self.names;
        let dir = match self.temporary {
            Some(dir) => dir,
            None => self.process(fs).create(fs.root(), "tmp", FileKind::Directory)?,
        };
        self.temporary = Some(dir);
        let ino = self.process(fs).create(dir, &name(number), FileKind::Regular)?;
        self.writers.push(Writer { ino, at: 0, size, fate: Fate::Temporary(number) });
        Ok(())
    }

    /// Has one writer write a block, and removes it when its file is complete.
    fn step(&mut self, fs: &dyn FileSystem) -> Result<()> {
        self.steps += 1;
        if self.steps.is_multiple_of(SYNC_EVERY) {
            fs.sync()?;
        }
        if self.writers.is_empty() {
            return Ok(());
        }
        let n = self.random.random_range(0..self.writers.len());
        let writer = self.writers[n];
        let process = self.process(fs);
        let full = match process.write(writer.ino, writer.at, writer.size - writer.at) {
            Err(Error::FileSystem(spindle_vfs::Error::NoSpace)) => true,
            other => {
                other?;
                false
            }
        };
        self.writers[n].at += self.block as u64;
        if full || self.writers[n].at >= writer.size {
            self.writers.swap_remove(n);
            match writer.fate {
                Fate::Stays(live) => self.live.push(live),
                Fate::Temporary(number) => {
                    let life = self.random.random_range(1..=TEMPORARY_LIFE);
                    self.dying.push((number, self.steps + u64::from(life)));
                }
                Fate::Replaced => {}
            }
        }
        let now = self.steps;
        while let Some(n) = self.dying.iter().position(|&(_, at)| at <= now) {
            let (number, _) = self.dying.swap_remove(n);
            self.remove_temporary(fs, number)?;
        }
        Ok(())
    }

    fn remove_temporary(&self, fs: &dyn FileSystem, number: u64) -> Result<()> {
        let Some(dir) = self.temporary else { return Ok(()) };
        self.process(fs).unlink(dir, &name(number))
    }

    /// Removes old files until no more than `level` is in use.
    fn make_room(&mut self, fs: &dyn FileSystem, level: f64) -> Result<()> {
        while used(fs)? > level && !self.live.is_empty() {
            let which = self.random.random_range(0..self.live.len());
            if self.random.random_bool(WHOLE_DIRECTORY) {
                let directory = self.live[which].directory;
                let of_it = self.live.iter().filter(|file| file.directory == directory);
                for file in of_it.copied().collect::<Vec<_>>() {
                    self.remove(fs, file)?;
                }
            } else {
                self.remove(fs, self.live[which])?;
            }
        }
        Ok(())
    }

    /// Removes a file, unless it is being written.
    fn remove(&mut self, fs: &dyn FileSystem, file: Live) -> Result<()> {
        if self.writers.iter().any(|writer| writer.ino == file.ino) {
            return Ok(());
        }
        self.process(fs).unlink(self.directories[file.directory], &name(file.number))?;
        if let Some(n) = self.live.iter().position(|other| other.number == file.number) {
            self.live.swap_remove(n);
        }
        Ok(())
    }
}

/// A disk in use, whose file system is not mounted while it is looked at.
pub struct DiskInUse {
    kind: Kind,
    store: Arc<MemoryDevice>,
    ageing: Ageing,
}

impl DiskInUse {
    /// Fills the new file system on `store` up to the level of `ageing`.
    ///
    /// # Errors
    /// As the file system.
    pub fn filled(kind: &Kind, store: Arc<MemoryDevice>, ageing: Ageing) -> Result<Self> {
        let mut disk = Self { kind: kind.clone(), store, ageing };
        disk.mounted(|ageing, subject| ageing.fill(subject.fs()))?;
        Ok(disk)
    }

    /// Simulates use until so many days have passed in all, and returns the disk.
    ///
    /// # Errors
    /// As the file system.
    pub fn on_day(&mut self, day: u32) -> Result<&MemoryDevice> {
        self.mounted(|ageing, subject| {
            while ageing.days < day {
                ageing.day(subject.fs())?;
            }
            Ok(())
        })?;
        Ok(&self.store)
    }

    /// Simulates so many more days without a reserve, with disks that fill up to `level`, and
    /// returns the disk.
    ///
    /// # Errors
    /// As the file system.
    pub fn without_reserve(&mut self, level: f64, days: u32) -> Result<&MemoryDevice> {
        self.ageing.level = level;
        self.mounted(|ageing, subject| {
            subject.set_reserve(0)?;
            (0..days).try_for_each(|_| ageing.day(subject.fs()))
        })?;
        Ok(&self.store)
    }

    fn mounted(&mut self, work: impl FnOnce(&mut Ageing, &Subject) -> Result<()>) -> Result<()> {
        let clock = Arc::new(ManualClock::at(0));
        let subject = self.kind.open(self.store.clone(), clock, Settings::default())?;
        work(&mut self.ageing, &subject)?;
        Ok(subject.fs().unmount()?)
    }
}

fn name(number: u64) -> String {
    format!("f{number}")
}

/// Returns the part that is in use of the space that users may use, as `df` prints it.
///
/// # Errors
/// As the file system.
#[allow(clippy::cast_precision_loss)] // A part.
pub fn used(fs: &dyn FileSystem) -> Result<f64> {
    let stat = fs.statfs()?;
    let used = stat.blocks.saturating_sub(stat.bfree);
    Ok(used as f64 / (used + stat.bavail).max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::subject::Disk;
    use spindle_ffs::check::{Options, check};

    /// Promise: use keeps the level, goes on after an unmount, is the same for the same seed, and
    /// leaves a file system in which a check finds nothing.
    #[test]
    fn days_repeat() {
        let disk = Disk { cylinders: 64, ..Disk::CAPRICORN };
        let kind = Kind::fast_1984(disk, 4096, 1024, 4);
        let [first, second] = [(), ()].map(|()| {
            let device = Arc::new(MemoryDevice::new(disk.bytes()));
            kind.make(&*device).unwrap();
            let mut ageing = Ageing::new(7, Sizes::Of1984, 0.7);
            for day in 0..3 {
                let clock = Arc::new(ManualClock::at(day));
                let subject = kind.open(device.clone(), clock, Settings::default()).unwrap();
                if day == 0 {
                    ageing.fill(subject.fs()).unwrap();
                }
                ageing.day(subject.fs()).unwrap();
                let level = used(subject.fs()).unwrap();
                assert!((0.5..=0.7).contains(&level), "{level}");
                subject.fs().unmount().unwrap();
            }
            assert!(ageing.live.len() > 500 && ageing.directories.len() > 40);
            let report = check(&*device, &Options::default(), &mut |_| ()).unwrap();
            assert!(report.findings.is_empty(), "{:?}", report.findings);
            device.to_bytes()
        });
        assert!(first == second);
    }
}
