//! Making file systems: in a new file, an existing one, on a block device or in a partition.

use crate::detect::{contents, held_by};
use crate::error::{Context, Error, Result};
use crate::image::{open_device_unlocked, reasons};
use crate::occupied::{Space, found_in, known_in};
use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::{Clock, ManualClock, TickClock};
use spindle_device::{Device, EXTENDED, FileDevice, Part, Spec, partitions};
use spindle_ffs::{Dialect, Ffs, LogPlace, LogUse, OpenOptions};
use spindle_vfs::FileSystem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::fit::{Fitted, Room, Wanted, misfits_in, plan_to_fit};
pub use spindle_ffs::newfs::{Format, Geometry, Optimization, Parameters, Plan};
pub use spindle_v7::newfs as old;

/// Returns the clock of a program that works at `timestamp` (seconds since 1970), where it stands
/// still, or now, as mounts have it.
#[must_use]
pub fn clock(timestamp: Option<i64>) -> Arc<dyn Clock> {
    match timestamp {
        Some(secs) => Arc::new(ManualClock::at(secs)),
        None => Arc::new(TickClock),
    }
}

/// Returns the seed of the random numbers for `timestamp`, which makes images reproducible.
#[must_use]
pub fn seed(timestamp: Option<i64>) -> Option<u64> {
    timestamp.map(i64::cast_unsigned)
}

/// Returns the random numbers of a program that works at `timestamp`, or now.
pub(crate) fn rng(timestamp: Option<i64>) -> StdRng {
    seed(timestamp).map_or_else(StdRng::from_os_rng, StdRng::seed_from_u64)
}

/// Makes a fast file system in a new file of [`Parameters::size_bytes`], or in an existing file or
/// device that has no file system and no partition table.
///
/// # Errors
/// If the parameters contradict each other, something is there already, or the device fails; a
/// file that was made is removed again.
pub fn newfs(spec: &Spec, parameters: &Parameters) -> Result<Plan> {
    let plan = Plan::new(parameters).context(spec)?;
    let (device, created) = open_new_ufs(spec, Some(plan.size_bytes()), false)?;
    write(&plan, &*device, None, &mut || ()).context(spec).inspect_err(|_| created.undo())?;
    Ok(plan)
}

/// Returns the size in bytes of the device of `spec`.
///
/// # Errors
/// If it cannot be opened.
pub fn size_of(spec: &Spec) -> Result<u64> {
    Ok(open_device_unlocked(spec)?.info().size_bytes)
}

/// The file or device in which a file system is made, for cleaning up after a failure.
#[derive(Debug)]
pub enum Created {
    /// A new file.
    File(PathBuf),
    /// A file that was empty.
    Empty(PathBuf),
    /// A file or device that existed before.
    Existing(Spec),
}

impl Created {
    /// Removes the file if it is new, and empties it if it was empty. An error is ignored, because
    /// the caller reports the failure that led here.
    pub fn undo(&self) {
        let _ = match self {
            Self::File(path) => std::fs::remove_file(path),
            Self::Empty(path) => {
                std::fs::File::options().write(true).open(path).and_then(|file| file.set_len(0))
            }
            Self::Existing(_) => Ok(()),
        };
    }

    /// Undoes a file system that was written: removes a new file, and marks the file system on
    /// an existing device as unfinished.
    pub fn undo_written(&self) {
        self.undo();
        if let Self::Existing(spec) = self {
            let device = spec.open(&spindle_device::OpenOptions::read_write());
            let _ = device.map(|device| spindle_ffs::newfs::mark_unfinished(&*device));
        }
    }
}

/// Returns true if a file system that is made here is in a new file, or in one that is empty:
/// nothing that was there is lost if it is not completed.
#[must_use]
pub fn is_new(spec: &Spec) -> bool {
    let is_empty = |found: std::fs::Metadata| found.is_file() && found.len() == 0;
    match spec.path.metadata() {
        Ok(found) => is_empty(found),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Opens the device for a new file system of `size` bytes (all of the device if `None`), or creates
/// a missing file.
///
/// # Errors
/// If the device is too small or cannot be opened, and unless `force`, if it has a file system or a
/// partition table, or is a file that holds anything but zeros.
pub fn open_new(spec: &Spec, size: Option<u64>, force: bool) -> Result<(Arc<dyn Device>, Created)> {
    open_empty(spec, size, force, false)
}

/// [`open_new`] for a UFS, which leaves boot blocks and labels as they are: in the usual layout the
/// first partition of a BSD or Sun label begins with the label.
///
/// # Errors
/// As [`open_new`]; a partition table at the beginning of a partition that was named by it is kept.
pub fn open_new_ufs(spec: &Spec, size: Option<u64>, force: bool) -> Result<(Arc<dyn Device>, Created)> {
    open_empty(spec, size, force, matches!(spec.part, Part::Named(_)))
}

fn open_empty(
    spec: &Spec,
    size: Option<u64>,
    force: bool,
    keeps_label: bool,
) -> Result<(Arc<dyn Device>, Created)> {
    let options = spindle_device::OpenOptions::read_write();
    // Where the file system begins in a file, as far as that does not depend on what is there.
    let start = match spec.part {
        Part::Whole => Some(0),
        Part::Offset { at, .. } => Some(at),
        Part::Named(_) => None,
    };
    let sized = |device: FileDevice| -> Result<Arc<dyn Device>> {
        if spec.part == Part::Whole {
            return Ok(Arc::new(device));
        }
        drop(device);
        Ok(spec.open(&options)?)
    };
    if !spec.path.exists() {
        let Some(size) = size else {
            return Err(Error::new(format!(
                "{}: does not exist; give its size with -s to create it",
                spec.path.display()
            )));
        };
        let Some(start) = start else {
            let path = spec.path.display();
            return Err(Error::new(format!("{path}: does not exist, so it has no partitions")));
        };
        let created = Created::File(spec.path.clone());
        let device = FileDevice::create(&spec.path, start.saturating_add(size), &options);
        let device = device.map_err(Error::from).and_then(sized).inspect_err(|_| created.undo())?;
        return Ok((device, created));
    }
    let found = std::fs::metadata(&spec.path).context(spec.path.display())?;
    let begins_behind = |start| found.is_file() && start > 0 && found.len() <= start;
    if let (Some(start), Some(size)) = (start, size)
        && begins_behind(start)
    {
        let device = FileDevice::open_resized(&spec.path, start.saturating_add(size), &options)?;
        return Ok((sized(device)?, Created::Existing(spec.clone())));
    }
    let mut device = spec.open(&options)?;
    if !force {
        refuse_overwriting(&*device, keeps_label).context(spec)?;
        if found.is_file() && spec.part == Part::Whole {
            refuse_data(&spec.path).context(spec)?;
        }
        refuse_overlapping(spec, size.unwrap_or(device.info().size_bytes)).context(spec)?;
    }
    if let Some(size) = size.filter(|&size| size > device.info().size_bytes) {
        let Some(start) = start.filter(|_| found.is_file()) else {
            let has = device.info().size_bytes;
            return Err(Error::new(format!("{spec}: too small: it has {has} of {size} bytes")));
        };
        drop(device);
        device = sized(FileDevice::open_resized(&spec.path, start.saturating_add(size), &options)?)?;
    }
    let is_empty = found.is_file() && found.len() == 0;
    let existing = || Created::Existing(spec.clone());
    Ok((device, if is_empty { Created::Empty(spec.path.clone()) } else { existing() }))
}

/// Refuses a file that is neither empty nor full of zeros, as a new image is.
fn refuse_data(path: &Path) -> Result<()> {
    match held_by(path)?.1 {
        Some(found) => Err(Error::new(format!("contains {found}; --force overwrites it"))),
        None => Ok(()),
    }
}

fn refuse_overwriting(device: &dyn Device, keeps_label: bool) -> Result<()> {
    let Some(found) = contents(device)? else { return Ok(()) };
    if keeps_label && found.starts_with("a partition table") {
        return Ok(());
    }
    let parts = if found.contains("partition") { ", and IMAGE@PARTITION names a partition" } else { "" };
    Err(Error::new(format!("contains {found} already; --force overwrites it{parts}")))
}

/// Refuses bytes of a disk that a file system has which begins before them, or within them, and a
/// partition that is there to have others in it. What begins within a partition that its table
/// names was there before the partition.
fn refuse_overlapping(spec: &Spec, len: u64) -> Result<()> {
    let disk = open_device_unlocked(&Spec { part: Part::Whole, ..spec.clone() })?;
    let at = match &spec.part {
        Part::Whole => 0,
        Part::Offset { at, .. } => *at,
        Part::Named(name) => {
            let table = partitions(&*disk)?;
            let part = table.find(name)?;
            if part.kind == EXTENDED {
                let what = "is an extended partition, which has the logical partitions in it";
                return Err(Error::new(format!("{what}; --force overwrites them")));
            }
            part.start_bytes
        }
    };
    let bytes = at..at.saturating_add(len);
    let found = match known_in(&disk, &bytes)? {
        None if !matches!(spec.part, Part::Named(_)) => found_in(&disk, &Space::New(bytes))?,
        found => found,
    };
    match found {
        Some(found) => Err(Error::new(format!("overlaps {found}; --force overwrites it"))),
        None => Ok(()),
    }
}

/// Writes a planned file system. Calls `group_done` after each cylinder group.
///
/// # Errors
/// Those of the device.
pub fn write(
    plan: &Plan,
    device: &dyn Device,
    timestamp: Option<i64>,
    group_done: &mut dyn FnMut(),
) -> Result<()> {
    let mut random = rng(timestamp);
    spindle_ffs::newfs::write(plan, device, &*clock(timestamp), &mut random, &mut |_, _| group_done())?;
    Ok(())
}

/// The plan of a new file system of any kind of one device.
#[derive(Clone, Debug)]
pub enum NewFs {
    /// A fast file system.
    Ffs(Box<Plan>),
    /// An old file system.
    Old(old::Plan),
}

impl NewFs {
    /// Returns the bytes that it takes on its device.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::Ffs(plan) => plan.size_bytes(),
            Self::Old(plan) => u64::from(plan.layout.s_fsize) * u64::from(plan.layout.format.bsize),
        }
    }

    /// Returns the step in bytes in which its size can change.
    #[must_use]
    pub const fn unit(&self) -> u64 {
        match self {
            Self::Ffs(plan) => plan.layout.fs_fsize as u64,
            Self::Old(plan) => plan.layout.format.bsize as u64,
        }
    }

    /// Writes it to a device. Calls `group_done` after each cylinder group.
    ///
    /// # Errors
    /// Those of the device.
    pub fn write(
        &self,
        device: &dyn Device,
        timestamp: Option<i64>,
        group_done: &mut dyn FnMut(),
    ) -> Result<()> {
        match self {
            Self::Ffs(plan) => write(plan, device, timestamp, group_done),
            Self::Old(plan) => Ok(old::write(plan, device, &*clock(timestamp))?),
        }
    }
}

/// Creates a log in a file system that is not mounted, and returns its place. The size is `bytes`,
/// or that of a mount's log.
///
/// # Errors
/// If there is an objection to writing: after a crash a log would vouch for a file system that
/// nobody has checked. Also if there is no room for one of that size.
pub fn make_log(
    device: &Arc<dyn Device>,
    dialect: Option<Dialect>,
    bytes: Option<u64>,
    timestamp: Option<i64>,
) -> Result<LogPlace> {
    let options = OpenOptions {
        dialect,
        log: LogUse::Required,
        log_bytes: bytes,
        seed: seed(timestamp),
        ..OpenOptions::default()
    };
    let ffs = Ffs::open(Arc::clone(device), clock(timestamp), &options)?;
    if ffs.read_only() {
        let reasons = reasons(ffs.read_only_reasons());
        return Err(Error::new(format!("cannot create a log, not even with --force: {reasons}")));
    }
    ffs.unmount()?;
    ffs.superblock().log_place().ok_or_else(|| Error::new("no log was created"))
}
