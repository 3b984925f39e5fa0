//! Crash after crash on one image.
//!
//! In each round loads work in a new directory while older ones are removed; then the daemon is
//! killed. After that: the log is carried out, sometimes after it was interrupted a few times, and
//! a full check finds nothing; what the loads testify to is there; what earlier rounds have left is
//! there unchanged.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustix::fs::{SeekFrom, seek};
use spindle_clock::{Clock, SystemClock};

use super::daemon::Daemon;
use super::{Load, Over, Testimony};
use crate::record::{Listing, differences};
use crate::spindle::{Mounted, fsck};
use crate::{Failure, Result, host};

/// The longest that loads work before a kill.
const WORK_LIMIT: Duration = Duration::from_millis(1500);
/// The longest that a recovery works before a kill.
const RECOVERY_LIMIT: Duration = Duration::from_millis(60);
/// How often a device that is in use is tried again.
const PATIENCE: u32 = 1500;
/// Rounds whose directories are kept.
const KEPT: usize = 3;

/// Loads with the names of their directories.
pub type Loads = Vec<(String, Box<dyn Load>)>;

/// What was done and seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Times the daemon was killed under load.
    pub kills: u64,
    /// Times it was killed in a recovery.
    pub interrupted: u64,
    /// Copies of the image in use that were checked.
    pub copies: u64,
    /// Things that were acknowledged and found.
    pub kept: u64,
}

/// An image and what is known of it.
pub struct Rounds {
    image: PathBuf,
    options: &'static str,
    rng: SmallRng,
    number: u64,
    /// The listings of earlier rounds' directories, oldest first.
    earlier: Vec<(String, Listing)>,
    /// What was done so far.
    pub tally: Tally,
}

impl Rounds {
    /// Returns rounds on a clean, empty file system in `image`, a file or a block device. The seed
    /// determines when to kill, as far as that is possible.
    #[must_use]
    pub fn new(image: &Path, options: &'static str, seed: u64) -> Self {
        let rng = SmallRng::seed_from_u64(seed);
        Self { image: image.into(), options, rng, number: 0, earlier: Vec::new(), tally: Tally::default() }
    }

    /// Runs one round.
    ///
    /// # Errors
    /// What is not as was promised.
    pub fn round(&mut self, loads: &Loads) -> Result<()> {
        self.disturbed_round(loads, || Ok(()))
    }

    /// Runs one round, and in the middle of the work `disturb`, which the loads must not notice.
    ///
    /// # Errors
    /// What is not as was promised, and those of `disturb`.
    pub fn disturbed_round(&mut self, loads: &Loads, disturb: impl FnOnce() -> Result<()>) -> Result<()> {
        let daemon = Daemon::start(&self.image, self.options)?;
        let directory = self.set_up(&daemon, loads)?;
        let older = self.take_older(&daemon.path())?;
        let work = self.rng.random_range(Duration::ZERO..WORK_LIMIT);
        at_work(&directory, loads, &older, |over| {
            SystemClock.sleep(work / 2);
            disturb()?;
            SystemClock.sleep(work / 2);
            over.set();
            daemon.kill()
        })?;
        self.tally.kills += 1;
        while self.rng.random_ratio(1, 3) {
            let recovery = Daemon::begin(&self.image, self.options)?;
            SystemClock.sleep(self.rng.random_range(Duration::ZERO..RECOVERY_LIMIT));
            recovery.kill()?;
            self.tally.interrupted += 1;
        }
        let testimonies = testify(loads);
        let listing = self.examine(&self.image.clone(), &testimonies)?;
        self.earlier.push((self.name(), listing));
        Ok(())
    }

    /// Lets loads work, and meanwhile copies the image again and again, each time while the daemon
    /// is halted: what the copy has is what a crash at that moment would have left. Each copy goes
    /// through what an image in a round goes through.
    ///
    /// # Errors
    /// What is not as was promised.
    pub fn copies(&mut self, loads: &Loads, mut copies: impl Iterator<Item = u64>) -> Result<()> {
        let daemon = Daemon::start(&self.image, self.options)?;
        let directory = self.set_up(&daemon, loads)?;
        let older = self.take_older(&daemon.path())?;
        let copy = self.image.with_extension("copy");
        at_work(&directory, loads, &older, |over| {
            let copied = copies.try_for_each(|_| {
                SystemClock.sleep(self.rng.random_range(Duration::ZERO..WORK_LIMIT));
                // What was acknowledged by then is in the image; nothing more gets there before the
                // copy is made. No program is started meanwhile: it would have to close this
                // process's files in the mount, and wait for the daemon.
                let testimonies = daemon.halted(|| {
                    copy_sparsely(&self.image, &copy).map_err(Failure::of("copy of the image"))?;
                    Ok(testify(loads))
                })?;
                self.examine(&copy, &testimonies)?;
                self.tally.copies += 1;
                Ok(())
            });
            over.set();
            copied
        })?;
        let listing = host::list(&directory).map_err(Failure::of(directory.display()))?;
        self.earlier.push((self.name(), listing));
        daemon.unmount()?;
        fsck(&self.image)
    }

    fn name(&self) -> String {
        format!("round-{}", self.number)
    }

    /// Makes the directories of a new round, and gives the upper one.
    fn set_up(&mut self, daemon: &Daemon, loads: &Loads) -> Result<PathBuf> {
        self.number += 1;
        let directory = daemon.path().join(self.name());
        let make = || {
            fs::create_dir(&directory)?;
            loads.iter().try_for_each(|(name, _)| fs::create_dir(directory.join(name)))?;
            File::open(&directory)?.sync_all()
        };
        make().map_err(Failure::of(directory.display()))?;
        Ok(directory)
    }

    /// Directories of rounds that are kept no longer, and what is left of some that were being
    /// removed in a crash.
    fn take_older(&mut self, mount: &Path) -> Result<Vec<PathBuf>> {
        let count = self.earlier.len().saturating_sub(KEPT);
        self.earlier.drain(..count);
        let current = self.name();
        let kept = |name: &str| name == current || self.earlier.iter().any(|(kept, _)| kept == name);
        let mut older = Vec::new();
        for entry in fs::read_dir(mount).map_err(Failure::of(mount.display()))? {
            let entry = entry.map_err(Failure::of(mount.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("round-") && !kept(&name) {
                older.push(entry.path());
            }
        }
        Ok(older)
    }

    /// Mounts what a crash has left. The system lets go of a block device only some time after who
    /// was killed.
    fn recover(&self, image: &Path) -> Result<Mounted> {
        for _ in 0..PATIENCE {
            match Mounted::new(image, self.options) {
                Err(Failure(said)) if said.contains("in use") => SystemClock.sleep(Duration::from_millis(20)),
                result => return result,
            }
        }
        Mounted::new(image, self.options)
    }

    /// Recovers and checks `image`, which a crash has left, and gives the listing of the present
    /// round's directory.
    fn examine(&mut self, image: &Path, testimonies: &[(String, Box<dyn Testimony>)]) -> Result<Listing> {
        let said = |what: &str| format!("round {}, {what}", self.number);
        self.recover(image)?.unmount()?;
        fsck(image).map_err(Failure::of(said("after recovery")))?;
        let mounted = Mounted::new(image, self.options)?;
        let directory = mounted.path().join(self.name());
        for (name, testimony) in testimonies {
            self.tally.kept += testimony.check(&directory.join(name)).map_err(Failure::of(said(name)))?;
        }
        for (name, expected) in &self.earlier {
            let found = differences(expected, &host::list(&mounted.path().join(name))?, |_| true);
            if !found.is_empty() {
                return Err(Failure::new(said(&format!("{name} has changed:\n{}", found.join("\n")))));
            }
        }
        mounted.unmount()?;
        fsck(image).map_err(Failure::of(said("after the checks")))?;
        // What the checks themselves did is to stay.
        let mounted = Mounted::new(image, &format!("{},ro", self.options))?;
        let listing = host::list(&mounted.path().join(self.name()))?;
        mounted.unmount()?;
        Ok(listing)
    }
}

/// Copies a file without its holes.
fn copy_sparsely(from: &Path, to: &Path) -> io::Result<()> {
    let (mut from, mut to) = (File::open(from)?, File::create(to)?);
    let length = from.metadata()?.len();
    to.set_len(length)?;
    let mut at = 0;
    while let Ok(data) = seek(&from, SeekFrom::Data(at)) {
        at = seek(&from, SeekFrom::Hole(data))?;
        from.seek(io::SeekFrom::Start(data))?;
        to.seek(io::SeekFrom::Start(data))?;
        io::copy(&mut (&from).take(at - data), &mut to)?;
    }
    Ok(())
}

fn testify(loads: &Loads) -> Vec<(String, Box<dyn Testimony>)> {
    loads.iter().map(|(name, load)| (name.clone(), load.testify())).collect()
}

/// Runs `meanwhile` while all `loads` work and what is `older` is removed.
fn at_work(
    directory: &Path,
    loads: &Loads,
    older: &[PathBuf],
    meanwhile: impl FnOnce(&Over) -> Result<()>,
) -> Result<()> {
    let over = &Over::default();
    let ended = |result: Result<()>| if over.is_set() { Ok(()) } else { result };
    thread::scope(|scope| {
        let remove = move || {
            ended(older.iter().try_for_each(fs::remove_dir_all).map_err(Failure::of("removing older rounds")))
        };
        let mut threads = vec![scope.spawn(remove)];
        for (name, load) in loads {
            let directory = directory.join(name);
            threads.push(scope.spawn(move || ended(load.work(&directory, over))));
        }
        let done = meanwhile(over);
        over.set();
        let worked = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("a load panicked"))))
            .fold(Ok(()), Result::and);
        worked.and(done)
    })
}
