//! Many small files at once: what synchronous changes of names cost.

use crate::Result;
use crate::bench::best::Best;
use crate::bench::machine::Machine;
use crate::bench::process::Process;
use crate::population::Sizes;
use crate::setting::Hardware;
use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::{Clock, Work};
use spindle_sim::Time;
use spindle_vfs::{FileKind, FileSystem, Ino, Privilege, RenameMode, SetAttr};
use std::ops::ControlFlow;
use std::time::Duration;

const SEED: u64 = 1991;
/// The time after which changes reach the disk at the latest: the `update` of the time.
pub const UPDATE: Duration = Duration::from_secs(30);
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
    /// Gives each another name in the same directory.
    Rename,
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
    /// Everything is made durable so often.
    every: Duration,
    updated: Duration,
    operations: u32,
}

impl Program<'_> {
    /// Counts an operation, and syncs if it is time.
    fn done(&mut self) -> Result<()> {
        self.operations += 1;
        if self.machine.clock.monotonic() >= self.updated + self.every {
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
            Storm::Rename => {
                let dir = self.fs.lookup(root, b"storm")?.ino;
                (0..files).try_for_each(|n| {
                    self.machine.clock.work(Work::Call);
                    let (from, to) = (name(n), format!("renamed{n}"));
                    let (mode, by) = (RenameMode::Replace, Privilege::User);
                    self.fs.rename(dir, from.as_bytes(), dir, to.as_bytes(), mode, by)?;
                    self.done()
                })?;
                self.fs.forget(dir, 1);
                Ok(())
            }
            Storm::Remove => {
                let dir = self.fs.lookup(root, b"storm")?.ino;
                let mut names = Vec::new();
                self.fs.readdir(dir, 0, &mut |entry| {
                    if entry.kind == Some(FileKind::Regular) {
                        names.push(String::from_utf8_lossy(entry.name).into_owned());
                    }
                    ControlFlow::Continue(())
                })?;
                names.iter().try_for_each(|name| {
                    self.process.unlink(dir, name)?;
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
                        self.fs.setattr(file, &set, Privilege::User)?;
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

/// Lets programs do this one after the other, with so many files each, on a new file system that
/// makes everything durable so often: after each operation if `every` is zero.
///
/// # Errors
/// As the file system.
pub fn weather(
    best: Best,
    on: &Hardware,
    every: Duration,
    storms: &[Storm],
    files: u32,
) -> Result<Vec<Weathered>> {
    let storms = storms.to_vec();
    on.with(best.make()?)?.run(move |machine| {
        let subject = best.open(machine.drive.clone(), machine.clock.clone())?;
        let fs = subject.fs();
        let mut found = Vec::new();
        for storm in storms {
            fs.sync()?;
            let before = machine.drive.tally().writes;
            let process = Process::new(fs, &*machine.clock, REQUEST);
            let updated = machine.clock.monotonic();
            let mut program = Program { machine, fs, process, every, updated, operations: 0 };
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
