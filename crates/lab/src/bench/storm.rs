//! Many small files at once: what synchronous changes of names cost.

use crate::Result;
use crate::bench::best::Best;
use crate::bench::machine::Machine;
use crate::bench::process::Process;
use crate::population::Sizes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::{Clock, Work};
use spindle_sim::Time;
use spindle_vfs::{FileKind, FileSystem, Ino, SetAttr};
use std::time::Duration;

const SEED: u64 = 1991;
/// Changes reach the disk after so much time at the latest: the `update` of the time.
const UPDATE: Duration = Duration::from_secs(30);
/// Bytes of a call.
const REQUEST: usize = 8192;
/// Bytes of each of the equal small files.
const SMALL: u64 = 1024;
/// Files in a directory of an archive.
const FILES_IN_DIRECTORY: u32 = 25;

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storm {
    /// Makes files of 1 KB in one directory.
    Create,
    /// Removes them.
    Remove,
    /// Unpacks an archive: directories, files of the sizes of 1993, and their times and modes.
    Unpack,
    /// Removes what was unpacked.
    RemoveTree,
}

/// The result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weathered {
    /// Calls that changed something.
    pub operations: u32,
    /// Time until everything was on the disk.
    pub elapsed: Time,
    /// Writes that the disk did.
    pub writes: u64,
}

/// A program, its clock, and the time of its last sync.
struct Program<'a> {
    machine: &'a Machine,
    fs: &'a dyn FileSystem,
    process: Process<'a>,
    updated: Duration,
    operations: u32,
}

impl Program<'_> {
    /// Counts an operation, and syncs if it is time.
    fn done(&mut self) -> Result<()> {
        self.operations += 1;
        if self.machine.clock.monotonic() >= self.updated + UPDATE {
            self.fs.sync()?;
            self.updated = self.machine.clock.monotonic();
        }
        Ok(())
    }

    fn create(&mut self, dir: Ino, name: &str, bytes: u64) -> Result<Ino> {
        let file = self.process.create(dir, name, FileKind::Regular)?;
        self.process.write_all(file, bytes)?;
        self.done()?;
        Ok(file)
    }

    fn carry_out(&mut self, storm: Storm, files: u32) -> Result<()> {
        let root = self.fs.root();
        let directories = files.div_ceil(FILES_IN_DIRECTORY);
        match storm {
            Storm::Create => {
                let dir = self.process.create(root, "storm", FileKind::Directory)?;
                (0..files).try_for_each(|n| self.create(dir, &name(n), SMALL).map(drop))
            }
            Storm::Remove => {
                let dir = self.fs.lookup(root, b"storm")?.ino;
                (0..files).try_for_each(|n| {
                    self.process.unlink(dir, &name(n))?;
                    self.done()
                })?;
                self.fs.forget(dir, 1);
                Ok(())
            }
            Storm::Unpack => {
                let mut random = StdRng::seed_from_u64(SEED);
                for d in 0..directories {
                    let dir = self.process.create(root, &name(d), FileKind::Directory)?;
                    self.done()?;
                    for n in 0..FILES_IN_DIRECTORY {
                        let file = self.create(dir, &name(n), Sizes::Of1993.draw(&mut random))?;
                        self.machine.clock.work(Work::Call);
                        let set = SetAttr { perm: Some(0o640), ..SetAttr::default() };
                        self.fs.setattr(file, &set, spindle_vfs::Privilege::User)?;
                        self.done()?;
                    }
                }
                Ok(())
            }
            Storm::RemoveTree => {
                for d in 0..directories {
                    let dir = self.fs.lookup(root, name(d).as_bytes())?.ino;
                    for n in 0..FILES_IN_DIRECTORY {
                        self.process.unlink(dir, &name(n))?;
                        self.done()?;
                    }
                    self.fs.forget(dir, 1);
                    self.machine.clock.work(Work::Call);
                    self.fs.rmdir(root, name(d).as_bytes())?;
                    self.done()?;
                }
                Ok(())
            }
        }
    }
}

/// Lets programs do this one after the other, with so many files each, on a new file system.
///
/// # Errors
/// As the file system.
pub fn weather(best: Best, host: &str, disk: &str, storms: &[Storm], files: u32) -> Result<Vec<Weathered>> {
    let storms = storms.to_vec();
    Machine::new(host, disk, best.make()?)?.run(move |machine| {
        let subject = best.open(machine.drive.clone(), machine.clock.clone())?;
        let fs = subject.fs();
        let mut found = Vec::new();
        for storm in storms {
            fs.sync()?;
            let before = machine.drive.tally().writes;
            let process = Process::new(fs, &*machine.clock, REQUEST);
            let updated = machine.clock.monotonic();
            let mut program = Program { machine, fs, process, updated, operations: 0 };
            let rate = machine.measure(0, || {
                program.carry_out(storm, files)?;
                Ok(fs.sync()?)
            })?;
            let writes = machine.drive.tally().writes - before;
            found.push(Weathered { operations: program.operations, elapsed: rate.elapsed, writes });
        }
        Ok(found)
    })
}

fn name(number: u32) -> String {
    format!("n{number}")
}
