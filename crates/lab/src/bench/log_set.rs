//! Sets of the multi-structured file system whose log storage is what is measured: control, data
//! and log storage on disks of their own, the log on one disk or several.

use crate::bench::machine::Machine;
use crate::bench::storage::PAPERS;
use crate::bench::subject::Disk as Cylinders;
use crate::{Error, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_cache::Settings;
use spindle_clock::ManualClock;
use spindle_device::{AlignedBuf, Device, Info, MemoryDevice, Request, Ticket};
use spindle_mfs::newfs::{Member, Wishes, make};
use spindle_mfs::{LogUnits, Mfs, OpenOptions, Role, Set};
use spindle_sim::Discipline;
use spindle_sim::disk::Disk;
use spindle_sim::preset;
use std::sync::Arc;

/// Start of all random numbers inside file systems.
const SEED: u64 = 1991;
/// Disks before those of the log: one for control storage, one for data storage.
const BEFORE: usize = 2;
/// Cylinders of each of these.
const CYLINDERS: u32 = 84;

/// The disks of a log, and how it is laid over them.
#[derive(Clone, Copy, Debug)]
pub struct LogDisks {
    /// Heads of each: those of the preset, or fewer, for a disk of fewer platters.
    pub heads: u32,
    /// How many.
    pub count: usize,
    /// Bytes of each.
    pub bytes: u64,
    /// How the log is laid over them.
    pub units: LogUnits,
    /// True if heads are moved ahead.
    pub moves_ahead: bool,
}

impl LogDisks {
    /// Returns the model of one of them.
    ///
    /// # Errors
    /// When there is no such preset.
    pub fn model(self) -> Result<Disk> {
        let mut spec = preset::disk(PAPERS.disk)?;
        if let Some(geometry) = &mut spec.geometry {
            geometry.heads = self.heads;
        }
        Ok(Disk::new(&spec)?)
    }
}

/// A set on a machine, with files.
pub struct LogSet {
    /// The machine.
    pub machine: Machine,
    moves_ahead: bool,
}

impl LogSet {
    /// Makes a set with this log on a host.
    ///
    /// # Errors
    /// When there is no such preset; as the file system.
    pub fn make(host: &str, log: LogDisks) -> Result<Self> {
        let other = Disk::new(&preset::disk(PAPERS.disk)?)?;
        let bytes = Cylinders { cylinders: CYLINDERS, ..Cylinders::SUPER_EAGLE }.bytes();
        let mut disks = vec![(other, bytes); BEFORE];
        disks.extend(vec![(log.model()?, log.bytes); log.count]);
        let disks: Vec<_> =
            disks.into_iter().map(|(disk, bytes)| (disk, Arc::new(MemoryDevice::new(bytes)))).collect();
        let roles = [Role::Control, Role::Data].into_iter().chain(std::iter::repeat(Role::Log));
        let member = |((_, store), role): (&(Disk, Arc<MemoryDevice>), _)| Member::of(store.clone(), role);
        let members: Vec<_> = disks.iter().zip(roles).map(member).collect();
        let wishes = Wishes { log: log.units, ..Wishes::new() };
        make(&members, &wishes, &ManualClock::at(0), &mut StdRng::seed_from_u64(SEED))?;
        let machine = Machine::with_unlike_disks(host, Discipline::Disksort, disks)?;
        Ok(Self { machine, moves_ahead: log.moves_ahead })
    }

    /// Opens it.
    ///
    /// # Errors
    /// As the file system.
    pub fn open(&self, cache: Settings) -> Result<Arc<Mfs>> {
        let wrap = |drive: Arc<dyn Device>| -> Arc<dyn Device> {
            if self.moves_ahead { drive } else { Arc::new(Unprepared(drive)) }
        };
        let devices: Vec<_> =
            self.machine.drives.iter().map(|drive| wrap(drive.clone() as Arc<dyn Device>)).collect();
        let options = OpenOptions { cache, ..OpenOptions::default() };
        let fs = Mfs::open(&Set::open(&devices)?, self.machine.clock.clone(), &options)?;
        if fs.read_only_reasons().is_empty() {
            return Ok(Arc::new(fs));
        }
        Err(Error::Contradiction("a new set can only be read".into()))
    }
}

/// A disk whose heads nobody moves ahead.
struct Unprepared(Arc<dyn Device>);

impl Device for Unprepared {
    fn info(&self) -> &Info {
        self.0.info()
    }

    fn submit(&self, request: Request) -> spindle_device::Result<Ticket> {
        self.0.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> spindle_device::Result<AlignedBuf> {
        self.0.wait(ticket)
    }

    fn flush(&self) -> spindle_device::Result<()> {
        self.0.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> spindle_device::Result<()> {
        self.0.discard(offset, len)
    }
}
