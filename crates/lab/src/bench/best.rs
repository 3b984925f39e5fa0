//! Our best: UFS2 with blocks of 16 KB, clusters as large as the format allows, and files that go
//! on in long free runs.

use crate::Result;
use crate::bench::ageing::Ageing;
use crate::bench::machine::Rate;
use crate::bench::process::Process;
use crate::bench::subject::{Disk, Kind, Subject};
use crate::population::Sizes;
use crate::setting::Hardware;
use spindle_cache::{DataSettings, Naming, Settings};
use spindle_clock::{Clock, ManualClock};
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::newfs::{Format, Parameters};
use spindle_ffs::{Allocation, Ffs, LogUse, OpenOptions};
use spindle_vfs::FileKind;
use std::sync::Arc;

/// Start of all random numbers.
const SEED: u64 = 1991;
const BLOCK: u32 = 16_384;
/// Bytes of a cluster at most: as large as they are laid out.
pub const CLUSTER: u32 = 2 << 20;
/// Clusters that fit into memory.
const CLUSTERS: usize = 4;
/// Bytes of a call.
const REQUEST: usize = 65_536;

/// A file system with our settings on a disk.
#[derive(Clone, Copy, Debug)]
pub struct Best {
    /// The disk.
    pub disk: Disk,
    /// Where files go on when the block behind their last one is taken.
    pub allocation: Allocation,
    /// When changes of names reach the disk.
    pub naming: Naming,
    /// Whether they go through a log.
    pub log: LogUse,
    /// Bytes of a transfer at most.
    pub cluster: u32,
}

/// What a large file attains.
#[derive(Clone, Copy, Debug)]
pub struct Streamed {
    /// A new file is written, until all of it is on the disk.
    pub write: Rate,
    /// It is read by a machine that has just come up.
    pub read: Rate,
    /// Mean length of its extents in bytes.
    pub extent: f64,
}

impl Best {
    /// Returns the best for a disk.
    pub const fn on(disk: Disk) -> Self {
        Self {
            disk,
            allocation: Allocation::Runs,
            naming: Naming::Delayed,
            log: LogUse::Never,
            cluster: CLUSTER,
        }
    }

    /// Returns a new file system.
    ///
    /// # Errors
    /// When it does not fit.
    pub fn make(&self) -> Result<Arc<MemoryDevice>> {
        let parameters = Parameters {
            format: Format::Ufs2,
            bsize: Some(BLOCK),
            fsize: Some(BLOCK / 8),
            maxcontig: Some(CLUSTER / BLOCK),
            ..Parameters::new(self.disk.bytes())
        };
        let store = Arc::new(MemoryDevice::new(self.disk.bytes()));
        Kind::Fast(Box::new(parameters)).make(&*store)?;
        Ok(store)
    }

    /// Opens it.
    ///
    /// # Errors
    /// As the file system.
    pub fn open(&self, device: Arc<dyn Device>, clock: Arc<dyn Clock>) -> Result<Subject> {
        let cluster = self.cluster as usize;
        let pages = CLUSTERS * cluster;
        let data = DataSettings {
            pieces_ahead: true,
            write_limit_bytes: Some(pages),
            ..DataSettings::clustered(cluster, pages)
        };
        let cache = Settings { naming: self.naming, data, ..Settings::default() };
        let options = OpenOptions {
            seed: Some(SEED),
            cache,
            allocation: self.allocation,
            log: self.log,
            ..OpenOptions::default()
        };
        Ok(Subject::Fast(Arc::new(Ffs::open(device, clock, &options)?)))
    }

    /// Returns one that was filled up to `level` of its space and used for some days.
    ///
    /// # Errors
    /// As the file system.
    pub fn aged(&self, sizes: Sizes, level: f64, days: u32) -> Result<Arc<MemoryDevice>> {
        let store = self.make()?;
        let subject = self.open(store.clone(), Arc::new(ManualClock::at(0)))?;
        let mut ageing = Ageing::new(SEED, sizes, level);
        ageing.fill(subject.fs())?;
        for _ in 0..days {
            ageing.day(subject.fs())?;
        }
        subject.fs().unmount()?;
        Ok(store)
    }

    /// Writes and reads a file of so many bytes on a branch of `store`.
    ///
    /// # Errors
    /// As the file system.
    pub fn stream(&self, on: &Hardware, store: &MemoryDevice, bytes: u64) -> Result<Streamed> {
        let own = *self;
        on.with(Arc::new(store.branch()))?.run(move |machine| {
            let open = || own.open(machine.drive.clone(), machine.clock.clone());
            let subject = open()?;
            let process = Process::new(subject.fs(), &*machine.clock, REQUEST);
            let file = process.create(subject.fs().root(), "measured", FileKind::Regular)?;
            subject.fs().sync()?;
            let write = machine.measure(bytes, || {
                process.write_all(file, bytes)?;
                process.fsync(file)
            })?;
            let extent = subject.mean_extent([file])?;
            subject.fs().unmount()?;
            let subject = open()?;
            let mut process = Process::new(subject.fs(), &*machine.clock, REQUEST);
            let read = machine.measure(bytes, || process.read_all(file).map(drop))?;
            Ok(Streamed { write, read, extent })
        })
    }
}
