//! Traces replayed on the shipped file systems, on modelled disks.
//!
//! [`Files`] is a [`Target`] over any [`FileSystem`], with a clock that learns of each call, so
//! that a replay on a modelled machine takes the time that the machine would have taken.
//! [`on_disk`] puts a file system on a preset's disk, makes what was there before the trace, and
//! lets the copies run as clients of one simulation.

use crate::bench::era;
use crate::bench::machine::Machine;
use crate::bench::subject::{Disk, Kind};
use crate::drives::{cleaning_rows, wear_rows};
use crate::kernel::{Kernel, Trips};
use crate::{Outcome, Result};
use spindle_cache::{DataSettings, Naming, Settings};
use spindle_clock::{Clock, ManualClock, Mutex, Work};
use spindle_device::MemoryDevice;
use spindle_report::outcome::{Column, Table};
use spindle_synth::replay::{self, Name, OpenMode, Replay, Target, Timings, population};
use spindle_trace::{Batch, Source};
use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege, SetAttr, SetTime};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Changes reach the disk after so much time at the latest, as `update` of the time saw to.
const UPDATE: Duration = Duration::from_secs(30);
/// Blocks of the fast file system, and what a cluster of it has at most.
const BLOCK: u32 = 8192;
const CLUSTER_BLOCKS: u32 = 7;

/// Opens the trace anew, from any thread.
pub type Open<'a> = dyn Fn() -> spindle_trace::Result<Box<dyn Source>> + Send + Sync + 'a;

/// Copies in the order in which they ended, and how.
type Ended = Vec<(usize, Result<Timings>)>;

/// A directory of a file system as the place of a replay.
pub struct Files<'a> {
    fs: &'a dyn FileSystem,
    clock: &'a dyn Clock,
    root: Ino,
    directories: HashMap<String, Ino>,
    /// The kernel above the file system, if it is a mount.
    kernel: Option<Kernel>,
    /// Zeros, for which the memory behind a modelled disk takes no space.
    buffer: Vec<u8>,
}

impl std::fmt::Debug for Files<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("root", &self.root).finish_non_exhaustive()
    }
}

fn named(name: Name, error: &spindle_vfs::Error) -> spindle_trace::Error {
    let path = Path::new(&name.directory()).join(name.leaf());
    spindle_trace::Error::io(path, std::io::Error::from_raw_os_error(error.errno()))
}

fn node(kind: FileKind) -> NewNode<'static> {
    NewNode::new(kind, 0o755)
}

impl<'a> Files<'a> {
    /// Returns the directory `copy` of the root, which is made if it is not there.
    ///
    /// # Errors
    /// As the file system.
    pub fn new(fs: &'a dyn FileSystem, clock: &'a dyn Clock, copy: usize) -> Result<Self> {
        let name = format!("copy{copy}");
        let root = match fs.lookup(fs.root(), name.as_bytes()) {
            Err(spindle_vfs::Error::NotFound) => {
                fs.create(fs.root(), name.as_bytes(), &node(FileKind::Directory), Privilege::Root)?.ino
            }
            found => found?.ino,
        };
        fs.forget(root, 1);
        Ok(Self { fs, clock, root, directories: HashMap::new(), kernel: None, buffer: Vec::new() })
    }

    /// Puts a kernel in front, as on a mount.
    #[must_use]
    pub fn behind(self, kernel: Kernel) -> Self {
        Self { kernel: Some(kernel), ..self }
    }

    fn directory(&mut self, name: Name) -> spindle_vfs::Result<Ino> {
        let directory = name.directory();
        if let Some(&ino) = self.directories.get(&directory) {
            return Ok(ino);
        }
        let ino = match self.fs.lookup(self.root, directory.as_bytes()) {
            Err(spindle_vfs::Error::NotFound) => {
                let made = self.fs.create(
                    self.root,
                    directory.as_bytes(),
                    &node(FileKind::Directory),
                    Privilege::Root,
                );
                made?.ino
            }
            found => found?.ino,
        };
        self.fs.forget(ino, 1);
        self.directories.insert(directory, ino);
        Ok(ino)
    }

    /// Notes what a kernel in front does, and lets the time of its requests pass.
    fn note(&mut self, done: impl FnOnce(&mut Kernel) -> Trips) {
        let trips = self.kernel.as_mut().map_or(0, done);
        (0..trips).for_each(|_| self.clock.work(Work::Trip));
    }

    /// Reads from the file system what a read of a program asks of it; returns the bytes that the
    /// program gets.
    fn fetch(&mut self, ino: Ino, position: u64, bytes: usize) -> spindle_vfs::Result<usize> {
        let Self { fs, clock, kernel, buffer, .. } = self;
        let mut read = |position, bytes: usize| {
            buffer.resize(buffer.len().max(bytes), 0);
            fs.read(ino, position, &mut buffer[..bytes])
        };
        let Some(kernel) = kernel else { return read(position, bytes) };
        let size = fs.getattr(ino)?.size;
        for missing in kernel.read(ino, size, position, bytes as u64) {
            clock.work(Work::Trip);
            read(missing.start, usize::try_from(missing.end - missing.start).unwrap_or(usize::MAX))?;
        }
        Ok(usize::try_from(size.saturating_sub(position)).unwrap_or(usize::MAX).min(bytes))
    }

    /// Makes a call of a program about a file with a name.
    fn call<R>(
        &mut self,
        name: Name,
        work: impl FnOnce(&dyn FileSystem, Ino) -> spindle_vfs::Result<R>,
    ) -> spindle_trace::Result<R> {
        self.clock.work(Work::Call);
        let directory = self.directory(name).map_err(|e| named(name, &e))?;
        work(self.fs, directory).map_err(|e| named(name, &e))
    }

    /// Makes a call of a program about a file that is there; returns the file.
    fn on_file(
        &mut self,
        name: Name,
        work: impl FnOnce(&dyn FileSystem, Ino) -> spindle_vfs::Result<()>,
    ) -> spindle_trace::Result<Ino> {
        let leaf = name.leaf();
        self.call(name, |fs, directory| {
            let ino = fs.lookup(directory, leaf.as_bytes())?.ino;
            let done = work(fs, ino);
            fs.forget(ino, 1);
            done.map(|()| ino)
        })
    }
}

fn cut(fs: &dyn FileSystem, ino: Ino, size: u64) -> spindle_vfs::Result<()> {
    fs.setattr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }, Privilege::User).map(drop)
}

impl Target for Files<'_> {
    type Open = (Ino, Name);

    fn open(&mut self, name: Name, mode: OpenMode) -> spindle_trace::Result<(Ino, Name)> {
        let leaf = name.leaf();
        let ino = self.call(name, |fs, directory| {
            if mode == OpenMode::New {
                let made = fs.create(directory, leaf.as_bytes(), &node(FileKind::Regular), Privilege::User);
                return made.map(|made| made.ino);
            }
            let ino = fs.lookup(directory, leaf.as_bytes())?.ino;
            if mode == OpenMode::Truncated {
                cut(fs, ino, 0)?;
            }
            Ok(ino)
        })?;
        self.note(|kernel| match mode {
            OpenMode::Existing => kernel.opened(ino),
            OpenMode::Truncated => kernel.opened(ino) + kernel.truncated(ino, 0),
            OpenMode::New => kernel.created(ino),
        });
        Ok((ino, name))
    }

    fn read(&mut self, open: &mut (Ino, Name), position: u64, bytes: usize) -> spindle_trace::Result<usize> {
        self.clock.work(Work::Call);
        let read = self.fetch(open.0, position, bytes).map_err(|e| named(open.1, &e))?;
        self.clock.work(Work::Copy { bytes: read as u64 });
        Ok(read)
    }

    fn write(&mut self, open: &mut (Ino, Name), position: u64, bytes: usize) -> spindle_trace::Result<()> {
        self.clock.work(Work::Call);
        self.clock.work(Work::Copy { bytes: bytes as u64 });
        self.buffer.resize(self.buffer.len().max(bytes), 0);
        match self.fs.write(open.0, position, &self.buffer[..bytes], Privilege::User) {
            Ok(written) if written < bytes => Err(named(open.1, &spindle_vfs::Error::NoSpace)),
            done => {
                done.map_err(|e| named(open.1, &e))?;
                self.note(|kernel| kernel.wrote(open.0, position, bytes as u64));
                Ok(())
            }
        }
    }

    fn sync(&mut self, open: &mut (Ino, Name)) -> spindle_trace::Result<()> {
        self.clock.work(Work::Call);
        self.note(|_| 1);
        self.fs.fsync(open.0, false).map_err(|e| named(open.1, &e))
    }

    fn close(&mut self, open: (Ino, Name)) -> spindle_trace::Result<()> {
        self.clock.work(Work::Call);
        self.fs.forget(open.0, 1);
        Ok(())
    }

    fn truncate(&mut self, name: Name, size: u64) -> spindle_trace::Result<()> {
        let ino = self.on_file(name, |fs, ino| cut(fs, ino, size))?;
        self.note(|kernel| kernel.truncated(ino, size));
        Ok(())
    }

    fn stat(&mut self, name: Name) -> spindle_trace::Result<()> {
        let ino = self.on_file(name, |fs, ino| fs.getattr(ino).map(drop))?;
        self.note(|kernel| kernel.asked(ino));
        Ok(())
    }

    fn change(&mut self, name: Name) -> spindle_trace::Result<()> {
        let times = SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() };
        let ino = self.on_file(name, |fs, ino| fs.setattr(ino, &times, Privilege::User).map(drop))?;
        self.note(|kernel| kernel.looked_up(ino) + 1);
        Ok(())
    }

    fn remove(&mut self, name: Name) -> spindle_trace::Result<()> {
        let leaf = name.leaf();
        if self.kernel.is_some() {
            // A kernel knows the file of a name before it removes it.
            let ino = self.on_file(name, |_, _| Ok(()))?;
            self.note(|kernel| kernel.removed(ino));
        }
        self.call(name, |fs, directory| fs.unlink(directory, leaf.as_bytes()))
    }

    fn rename(&mut self, from: Name, to: Name) -> spindle_trace::Result<()> {
        let (old, new) = (from.leaf(), to.leaf());
        self.call(from, |fs, directory| {
            fs.rename(
                directory,
                old.as_bytes(),
                directory,
                new.as_bytes(),
                spindle_vfs::RenameMode::Replace,
                Privilege::User,
            )
        })?;
        self.note(|_| 2);
        Ok(())
    }
}

/// Which file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The fast file system: blocks of 8 KB in fragments of 1 KB, clusters of 56 KB.
    Fast,
    /// The old one of 4.1BSD: blocks of 1 KB.
    Old,
}

/// A machine on which a trace is replayed.
#[derive(Clone, Debug)]
pub struct On {
    /// The preset of the disk.
    pub disk: String,
    /// The preset of the host.
    pub host: String,
    /// The file system.
    pub system: System,
    /// Bytes of memory for data of files.
    pub memory: usize,
    /// Copies of the trace that are replayed at once.
    pub copies: usize,
    /// How each is replayed; the shift is that of the second copy, twice that of the third, and so
    /// on.
    pub settings: replay::Settings,
}

impl On {
    fn settings(&self) -> Settings {
        let data = match self.system {
            System::Fast => DataSettings::clustered((BLOCK * CLUSTER_BLOCKS) as usize, self.memory),
            System::Old => DataSettings::old(1024, self.memory),
        };
        Settings {
            capacity_bytes: era::VAX_BUFFERS.max(self.memory / 4),
            dirty_limit_bytes: self.memory,
            naming: Naming::Synchronous,
            compaction: false,
            data,
        }
    }
}

/// Replays a trace in virtual time; returns tables of service times, rates, and
/// the work of the disk.
///
/// # Errors
/// When there are no such presets, the disk is too small, the trace cannot be read, or the file
/// system fails.
pub fn on_disk(on: &On, open: Arc<Open<'static>>) -> Result<Outcome> {
    let disk = Disk::of_preset(&on.disk)?;
    let kind = match on.system {
        System::Fast => Kind::fast_clustered(disk, BLOCK, BLOCK / 8, CLUSTER_BLOCKS),
        System::Old => Kind::old(disk, 1),
    };
    let store = Arc::new(MemoryDevice::new(disk.bytes()));
    kind.make(&*store)?;
    let clock = Arc::new(ManualClock::at(0));
    let subject = kind.open(store.clone(), clock.clone(), on.settings())?;
    let files = population(&mut *open()?)?.files;
    for copy in 0..on.copies {
        let mut target = Files::new(subject.fs(), &*clock, copy)?;
        files.iter().try_for_each(|&(name, size)| target.make(name, size))?;
    }
    subject.fs().unmount()?;
    drop(subject);

    let machine = Machine::new(&on.host, &on.disk, Arc::new(store.branch()))?;
    let results: Arc<Mutex<Ended>> = Arc::default();
    let (slot, own) = (results.clone(), on.clone());
    let drive = machine.drive.clone();
    machine.run(move |machine| {
        let subject = kind.open(machine.drive.clone(), machine.clock.clone(), own.settings())?;
        let (synced, clock) = (subject.clone(), machine.clock.clone());
        machine.background("update", move || {
            loop {
                clock.sleep(UPDATE);
                if synced.fs().sync().is_err() {
                    return;
                }
            }
        });
        for copy in 0..own.copies {
            let (subject, clock, slot) = (subject.clone(), machine.clock.clone(), slot.clone());
            let (open, settings) = (open.clone(), own.settings);
            machine.client(&format!("copy {copy}"), move || {
                let shift = settings.shift * u32::try_from(copy).unwrap_or(u32::MAX);
                let settings = replay::Settings { shift, ..settings };
                let done = replayed(&*open, subject.fs(), &*clock, copy, settings);
                slot.lock().push((copy, done));
            });
        }
        Ok(())
    })?;
    let mut done = std::mem::take(&mut *results.lock());
    done.sort_by_key(|(copy, _)| *copy);
    let timings = done.into_iter().map(|(_, timings)| timings).collect::<Result<Vec<_>>>()?;
    let longest = timings.iter().map(|timings| timings.elapsed).max().unwrap_or_default();
    let busy = drive.tally().busy.as_secs_f64() / longest.as_secs_f64().max(1e-9);
    let mut outcome = Timings::outcome(&timings, Some(busy));
    let mut flash = Table::new("Flash", [Column::new("", 0), Column::new("value", 2)]);
    for (name, value) in drive.wear().into_iter().flat_map(wear_rows) {
        flash.row([name.into(), value.into()]);
    }
    if !flash.rows.is_empty() {
        outcome.tables.push(flash);
    }
    if let Some(cleaning) = drive.cleaning() {
        let mut shingles = Table::new("Shingled tracks", [Column::new("", 0), Column::new("value", 0)]);
        for (name, value) in cleaning_rows(cleaning) {
            shingles.row([name.into(), value.into()]);
        }
        outcome.tables.push(shingles);
    }
    Ok(outcome)
}

/// Replays one copy.
fn replayed(
    open: &Open<'_>,
    fs: &dyn FileSystem,
    clock: &dyn Clock,
    copy: usize,
    settings: replay::Settings,
) -> Result<Timings> {
    let mut source = open()?;
    let mut replay = Replay::new(Files::new(fs, clock, copy)?, clock, settings);
    let mut batch = Batch::default();
    while source.next(&mut batch)? {
        replay.take(&batch)?;
    }
    Ok(replay.finish()?.1)
}

/// Returns a trace in a file, opened as often as it is needed.
#[must_use]
pub fn from_file(path: PathBuf) -> Arc<Open<'static>> {
    Arc::new(move || spindle_trace::open(&path, spindle_trace::Columns::NUMBERS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_conformance::model::{ModelFs, ModelOptions};
    use spindle_synth::replay::{Call, Pace};
    use spindle_synth::{Length, Model, Synthesis};
    use spindle_trace::{FileId, Flags, Kind};

    fn source() -> spindle_trace::Result<Box<dyn Source>> {
        let model = Model::parse(Model::built_in("a5").unwrap_or_default(), "a5")?;
        Ok(Box::new(Synthesis::new(model, Length::Events(2000), 5)))
    }

    const FLAT: replay::Settings =
        replay::Settings { pace: Pace::FullSpeed, request: 4096, shift: Duration::from_secs(1) };

    /// Promise: after a replay on the model file system, its files and their sizes are those of
    /// the trace.
    #[test]
    fn files_are_those_of_the_trace() {
        let (mut sizes, mut order): (HashMap<FileId, Option<u64>>, Vec<FileId>) = Default::default();
        let (mut source, mut batch) = (source().unwrap(), Batch::default());
        while source.next(&mut batch).unwrap() {
            for event in &batch.events {
                let size = sizes.entry(event.file).or_insert_with(|| {
                    order.push(event.file);
                    Some(event.size)
                });
                match event.kind {
                    Kind::Create => *size = Some(0),
                    Kind::Open if event.flags.has(Flags::TRUNCATED) => *size = Some(0),
                    Kind::Unlink => *size = None,
                    Kind::Truncate => *size = Some(event.size),
                    _ if event.written > 0 => *size = size.map(|size| size.max(event.end())),
                    _ => {}
                }
            }
        }
        let clock = ManualClock::at(0);
        let fs = ModelFs::new(ModelOptions::default(), Arc::new(ManualClock::at(0)));
        let mut target = Files::new(&fs, &clock, 0).unwrap();
        for (name, size) in population(&mut *super::tests::source().unwrap()).unwrap().files {
            target.make(name, size).unwrap();
        }
        let timings = replayed(&|| super::tests::source(), &fs, &clock, 0, FLAT).unwrap();
        assert_eq!(timings.short, 0);
        for (n, file) in order.iter().enumerate() {
            let name = Name { file: n as u64, generation: 0 };
            let directory = target.directory(name).unwrap();
            let found = fs.lookup(directory, name.leaf().as_bytes()).ok().map(|attr| attr.size);
            assert_eq!(found, sizes[file], "{file:?}");
        }
    }

    /// Promise: copies on a modelled disk all end, take time there, and take the same time again.
    #[test]
    fn machines_repeat() {
        let on = On {
            disk: "ra81".into(),
            host: "vax-11-780".into(),
            system: System::Fast,
            memory: 1 << 20,
            copies: 2,
            settings: FLAT,
        };
        let [one, again] = [(); 2].map(|()| on_disk(&on, Arc::new(source)).unwrap());
        assert_eq!(one, again);
        let text = spindle_report::render::text(&one);
        assert!(Call::ALL.iter().take(6).all(|(_, name)| text.contains(name)), "{text}");
        let none = on_disk(&On { disk: "none".into(), ..on }, Arc::new(source)).unwrap_err();
        assert!(none.to_string().contains("none"), "{none}");
    }

    /// Promise: a trace runs on disks of today as well, with zones or of flash, with either file
    /// system, and takes other times there than on one of 1984; of flash its wear is shown, of
    /// shingled tracks their cleaning.
    #[test]
    fn disks_of_today() {
        let tables = |disk: &str, system| {
            let on = On {
                disk: disk.into(),
                host: "today".into(),
                system,
                memory: 1 << 20,
                copies: 1,
                settings: FLAT,
            };
            let outcome = on_disk(&on, Arc::new(source)).unwrap_or_else(|error| panic!("{disk}: {error}"));
            outcome.tables
        };
        for system in [System::Fast, System::Old] {
            let old = tables("ra81", system);
            for disk in ["nvme", "sata-ssd", "nearline-20tb", "smr-8tb"] {
                let found = tables(disk, system);
                assert_ne!(found, old, "{disk}");
                let has = |title: &str| found.iter().any(|table| table.title == title);
                assert_eq!(has("Flash"), ["nvme", "sata-ssd"].contains(&disk), "{disk}");
                assert_eq!(has("Shingled tracks"), disk == "smr-8tb", "{disk}");
            }
        }
    }
}
