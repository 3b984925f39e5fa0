//! The systems of the paper on the multi-structured file system: the fast file system on a disk or
//! a stripe, and sets, each disk of the same kind.
//!
//! All have the same memory. Names and attributes reach the disk at once in the system of 1991;
//! with a log they do when an epoch is committed, every [`System::commits_every`].

use crate::bench::era::TAHOE_BUFFERS;
use crate::bench::machine::Machine;
use crate::bench::subject::{Disk, Kind};
use crate::setting::{Hardware, Papers};
use crate::{Error, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_cache::{DataSettings, Naming, Settings};
use spindle_clock::{Clock, ManualClock};
use spindle_device::{AlignedBuf, Device, MemoryDevice, Op, Request, Stripe};
use spindle_ffs::newfs::{Format, Parameters};
use spindle_ffs::{Ffs, LogUse, OpenOptions};
use spindle_mfs::newfs::{Member, NewArea, Wishes};
use spindle_mfs::{Mfs, Role, Set};
use spindle_sim::Discipline;
use spindle_vfs::FileSystem;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Start of all random numbers inside file systems.
const SEED: u64 = 1991;
/// The paper's host, and the kind of all its disks.
pub const PAPERS: Papers =
    Papers { host: "unisys-7000-51", disk: "super-eagle", geometry: Disk::SUPER_EAGLE };
/// Bytes of a block of files, as the paper's fast file system has it.
const BLOCK: u32 = 8192;
/// Bytes of a stripe unit: the paper's striped block has a block on each disk.
const UNIT: u32 = BLOCK;
/// The same under the fast file system.
const FFS_UNIT: u32 = 64 << 10;
/// Bytes that a cluster has on each disk: with less, disks that lose a revolution between two
/// transfers lose more than a tenth of their time.
pub const PART: u32 = 512 << 10;
/// Most blocks of a cluster that the format of UFS1 has.
const MAXCONTIG: u32 = 256;
/// Bytes of memory for data of files: half of the paper's buffers; the others are for names and
/// attributes.
pub const MEMORY: usize = TAHOE_BUFFERS / 2;
/// Cylinders of a Super Eagle that a small disk for control storage is as large as: a tenth of a
/// large one (paper, section 4.2).
const CONTROL_CYLINDERS: u32 = 84;
/// Cylinders of each of the two for log storage: 26 MB, where the paper asks for twice the memory
/// of the caches together at least (section 4.5), and suggests 100 MB (section 5.5).
const LOG_CYLINDERS: u32 = 42;

/// A file system with its disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The fast file system of 1991: blocks of 8 KB one by one, one read ahead, names written at
    /// once, no log.
    Fast {
        /// Disks, striped.
        disks: u32,
    },
    /// The same with what came later: clusters, names together, a log on the same disks.
    Logged {
        /// Disks, striped.
        disks: u32,
    },
    /// The multi-structured file system, with two small disks for its log.
    Multi {
        /// Small disks for control storage, each a copy.
        control: u32,
        /// Disks for data storage, striped.
        data: u32,
        /// Cylinders of a Super Eagle that each of these is as large as.
        cylinders: u32,
    },
}

/// Systems to compare: the paper's two, of equal space, and what else there could be for as many
/// disks.
pub const SYSTEMS: [(&str, System); 5] = [
    ("FFS, 1 disk", System::Fast { disks: 1 }),
    ("FFS, 4 disks", System::Fast { disks: 4 }),
    ("FFS+log, 1 disk", System::Logged { disks: 1 }),
    ("FFS+log, 4 disks", System::Logged { disks: 4 }),
    ("MFS", System::PAPER),
];

impl System {
    /// The paper's set-up: a small disk for control storage, a large one for data storage, two
    /// small ones for the log, together as large as one disk of the fast file system.
    pub const PAPER: Self = Self::scaled(1);

    /// Returns the same with so many disks for control storage and as many for data storage.
    pub const fn scaled(disks: u32) -> Self {
        let cylinders = Disk::SUPER_EAGLE.cylinders - CONTROL_CYLINDERS - 2 * LOG_CYLINDERS;
        Self::Multi { control: disks, data: disks, cylinders }
    }

    /// Returns the sizes of its disks in bytes, of which none is larger than `whole`.
    fn sizes(self, whole: Disk) -> Vec<u64> {
        let bytes = |cylinders| Disk { cylinders, ..Disk::SUPER_EAGLE }.bytes().min(whole.bytes());
        let some = |count: u32, cylinders| vec![bytes(cylinders); count as usize];
        match self {
            Self::Fast { disks } | Self::Logged { disks } => some(disks, Disk::SUPER_EAGLE.cylinders),
            Self::Multi { control, data, cylinders } => {
                let log = some(2, LOG_CYLINDERS);
                [some(control, CONTROL_CYLINDERS), some(data, cylinders), log].concat()
            }
        }
    }

    /// Returns the disks that file data is striped over.
    pub const fn width(self) -> u32 {
        match self {
            Self::Fast { disks } | Self::Logged { disks } => disks,
            Self::Multi { data, .. } => data,
        }
    }

    /// Returns how often a daemon makes everything durable: the `update` of the time, or the timer
    /// of a mount with a log.
    pub const fn commits_every(self) -> Duration {
        match self {
            Self::Fast { .. } => Duration::from_secs(30),
            Self::Logged { .. } | Self::Multi { .. } => Duration::from_secs(5),
        }
    }

    fn settings(self, memory: usize) -> Settings {
        let cluster = (PART * self.width()) as usize;
        let own = Settings {
            capacity_bytes: memory,
            dirty_limit_bytes: memory / 2,
            naming: Naming::Delayed,
            compaction: true,
            data: DataSettings {
                pieces_ahead: true,
                random_clusters: true,
                write_limit_bytes: Some(memory / 2),
                ..DataSettings::clustered(cluster, memory)
            },
        };
        match self {
            Self::Fast { .. } => Settings {
                naming: Naming::Synchronous,
                data: DataSettings::old(BLOCK as usize, memory),
                ..own
            },
            Self::Logged { .. } | Self::Multi { .. } => own,
        }
    }

    /// Returns the fast file system on as many of these disks as it is striped over.
    fn kind(self, disk: Disk) -> Kind {
        let disk = Disk { cylinders: disk.cylinders * self.width(), ..disk };
        let Self::Logged { .. } = self else { return Kind::fast_1984(disk, BLOCK, BLOCK / 8, 4) };
        Kind::Fast(Box::new(Parameters {
            format: Format::Ufs1,
            bsize: Some(BLOCK),
            fsize: Some(BLOCK / 8),
            minfree: Some(10),
            maxcontig: Some((PART / BLOCK * self.width()).min(MAXCONTIG)),
            ..Parameters::new(disk.bytes())
        }))
    }

    /// Makes it on new disks of a kind, to be used with so many bytes of memory for data of files,
    /// and as many for names and attributes.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn make(self, on: &Hardware, memory: usize) -> Result<Made> {
        let stores = self.sizes(on.geometry).into_iter().map(|size| Arc::new(MemoryDevice::new(size)));
        let made = Made { system: self, on: on.clone(), memory, stores: stores.collect() };
        let devices = made.stores.iter().map(|store| store.clone() as Arc<dyn Device>);
        if let Self::Multi { control, data, .. } = self {
            let mut wishes = Wishes::new();
            wishes.parameters.data_block_bytes = BLOCK;
            wishes.parameters.stripe_bytes = UNIT;
            wishes.parameters.track_blocks = PART / BLOCK * data;
            let roles = (0..).map(|n| match n {
                n if n < control => Role::Control,
                n if n < control + data => Role::Data,
                _ => Role::Log,
            });
            let member = |(device, role)| Member { device, areas: vec![NewArea::of(role)] };
            let members: Vec<_> = devices.zip(roles).map(member).collect();
            let mut random = StdRng::seed_from_u64(SEED);
            spindle_mfs::newfs::make(&members, &wishes, &ManualClock::at(0), &mut random)?;
        } else {
            self.kind(on.geometry).make(&*striped(devices.collect(), FFS_UNIT)?)?;
        }
        Ok(made)
    }
}

/// Returns one device over all.
fn striped(mut devices: Vec<Arc<dyn Device>>, unit: u32) -> Result<Arc<dyn Device>> {
    Ok(match devices.len() {
        1 => devices.remove(0),
        _ => Arc::new(Stripe::new(devices, unit.into(), "stripe".into())?),
    })
}

/// A file system on disks that no machine has yet.
pub struct Made {
    system: System,
    on: Hardware,
    /// Bytes of memory for data of files, and for names and attributes.
    memory: usize,
    stores: Vec<Arc<MemoryDevice>>,
}

impl Made {
    /// Returns what it is.
    pub const fn system(&self) -> System {
        self.system
    }

    /// Lets `work` change it while no time passes.
    ///
    /// # Errors
    /// As the file system and `work`.
    pub fn prepare<T>(&self, work: impl FnOnce(&dyn FileSystem, &dyn Clock) -> Result<T>) -> Result<T> {
        let clock = Arc::new(ManualClock::at(0));
        let devices = self.stores.iter().map(|store| store.clone() as Arc<dyn Device>).collect();
        let fs = self.open_on(devices, clock.clone())?;
        let value = work(&*fs, &*clock)?;
        fs.unmount()?;
        Ok(value)
    }

    /// Returns a machine with copies of its disks, whose queues are sorted.
    ///
    /// # Errors
    /// When there is no such preset.
    pub fn machine(&self) -> Result<Machine> {
        self.machine_with(Discipline::Disksort)
    }

    /// Returns the same with this order in the queues.
    ///
    /// # Errors
    /// As [`Self::machine`].
    pub fn machine_with(&self, discipline: Discipline) -> Result<Machine> {
        let stores = self.stores.iter().map(|store| Arc::new(store.branch())).collect();
        Machine::with_disks(&self.on.host, &self.on.disk, discipline, stores)
    }

    /// Opens it on a machine that [`Self::machine`] has returned.
    ///
    /// # Errors
    /// As the file system.
    pub fn open(&self, machine: &Machine) -> Result<Arc<dyn FileSystem>> {
        self.open_through(machine, |drive| drive)
    }

    /// Opens it with each disk as `wrap` returns it.
    ///
    /// # Errors
    /// As the file system.
    pub fn open_through(
        &self,
        machine: &Machine,
        wrap: impl Fn(Arc<dyn Device>) -> Arc<dyn Device>,
    ) -> Result<Arc<dyn FileSystem>> {
        let devices = machine.drives.iter().map(|drive| wrap(drive.clone())).collect();
        self.open_on(devices, machine.clock.clone())
    }

    fn open_on(&self, devices: Vec<Arc<dyn Device>>, clock: Arc<dyn Clock>) -> Result<Arc<dyn FileSystem>> {
        let cache = self.system.settings(self.memory);
        let log = match self.system {
            System::Multi { .. } => {
                let options = spindle_mfs::OpenOptions { cache, ..Default::default() };
                return Ok(Arc::new(Mfs::open(&Set::open(&devices)?, clock, &options)?));
            }
            System::Logged { .. } => LogUse::Wanted,
            System::Fast { .. } => LogUse::Never,
        };
        let options = OpenOptions { seed: Some(SEED), cache, log, ..OpenOptions::default() };
        let fs = Ffs::open(striped(devices, FFS_UNIT)?, clock, &options)?;
        if fs.read_only_reasons().is_empty() {
            return Ok(Arc::new(fs));
        }
        Err(Error::Contradiction(format!("{:?} can only be read", self.system)))
    }
}

/// Returns the bytes per second at which striped disks move requests of `len` bytes at `offsets`,
/// `depth` of them at a time, without a file system.
///
/// # Errors
/// When there is no such preset.
pub fn raw(on: &Hardware, disks: u32, op: Op, offsets: Vec<u64>, len: usize, depth: usize) -> Result<f64> {
    let store = || Arc::new(MemoryDevice::new(on.geometry.bytes()));
    let stores = (0..disks).map(|_| store()).collect();
    Machine::with_disks(&on.host, &on.disk, Discipline::Disksort, stores)?.run(move |machine| {
        let devices = machine.drives.iter().map(|drive| drive.clone() as Arc<dyn Device>);
        let stripe = striped(devices.collect(), UNIT)?;
        let rate = machine.measure(len as u64 * offsets.len() as u64, || {
            let mut under_way = VecDeque::new();
            for offset in offsets {
                under_way.push_back(stripe.submit(Request { op, offset, buf: AlignedBuf::zeroed(len) })?);
                if under_way.len() == depth {
                    under_way.pop_front().map_or(Ok(()), |ticket| stripe.wait(ticket).map(drop))?;
                }
            }
            Ok(under_way.into_iter().try_for_each(|ticket| stripe.wait(ticket).map(drop))?)
        })?;
        Ok(rate.bytes_per_second())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setting;
    use crate::bench::process::Process;
    use spindle_vfs::FileKind;

    /// Promise: a file that grows by pieces that end anywhere is not read.
    #[test]
    fn what_is_appended_is_not_read() {
        const PIECE: u64 = 4688;
        for system in [System::Fast { disks: 1 }, System::Logged { disks: 2 }, System::PAPER] {
            let today = Papers { host: "today", ..PAPERS };
            let on = Setting::default().in_place_of(&today).unwrap();
            let made = system.make(&on, MEMORY).unwrap();
            let machine = made.machine().unwrap();
            let read = machine
                .run(move |machine| {
                    let fs = made.open(machine)?;
                    let process = Process::new(&*fs, &*machine.clock, 4688);
                    let file = process.create(fs.root(), "file", FileKind::Regular)?;
                    // Maps of free space are read at the first one.
                    process.write(file, 0, PIECE)?;
                    let reads = || machine.drives.iter().map(|drive| drive.tally().reads).sum::<u64>();
                    let before = reads();
                    (1..20).try_for_each(|n| process.write(file, n * PIECE, PIECE))?;
                    Ok(reads() - before)
                })
                .unwrap();
            assert_eq!(read, 0, "{system:?}");
        }
    }
}
