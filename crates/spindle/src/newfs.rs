//! Making file systems: in a new file, an existing one, on a block device or in a partition.

use crate::detect::contents;
use crate::error::{Context, Error, Result};
use crate::image::{self, Image, open_device_unlocked, reasons};
use crate::transfer::{CensusSink, Sink};
use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_cache::Settings;
use spindle_clock::{Clock, ManualClock, TickClock};
use spindle_device::{Device, FileDevice, Part, Spec};
use spindle_ffs::newfs::{Census, fit};
use spindle_ffs::{Dialect, Ffs, LogPlace, LogUse, OpenOptions};
use spindle_vfs::{FileSystem, Privilege, SetAttr};
use std::path::PathBuf;
use std::sync::Arc;

pub use spindle_ffs::newfs::{Format, Geometry, Optimization, Parameters, Plan};

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
    let (device, created) = open_new(spec, Some(plan.size_bytes()), false)?;
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
    /// A file or device that existed before.
    Existing(Spec),
}

impl Created {
    /// Removes the file if it is new. An error is ignored, because the caller reports the
    /// failure that led here.
    pub fn undo(&self) {
        if let Self::File(path) = self {
            let _ = std::fs::remove_file(path);
        }
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

/// Opens the device for a new file system of `size` bytes (all of the device if `None`), or creates
/// a missing file.
///
/// # Errors
/// If the device is too small or cannot be opened, and unless `force`, if it has a file system or a
/// partition table.
pub fn open_new(spec: &Spec, size: Option<u64>, force: bool) -> Result<(Arc<dyn Device>, Created)> {
    let options = spindle_device::OpenOptions::read_write();
    if !spec.path.exists() {
        let Some(size) = size else {
            return Err(Error::new(format!(
                "{}: does not exist; give its size with -s to create it",
                spec.path.display()
            )));
        };
        if spec.part != Part::Whole {
            let path = spec.path.display();
            return Err(Error::new(format!("{path}: does not exist, so it has no partitions")));
        }
        let created = Created::File(spec.path.clone());
        let device = FileDevice::create(&spec.path, size, &options).inspect_err(|_| created.undo())?;
        return Ok((Arc::new(device), created));
    }
    let mut device = spec.open(&options)?;
    if !force {
        refuse_overwriting(&*device).context(spec)?;
    }
    if let Some(size) = size.filter(|&size| size > device.info().size_bytes) {
        let is_file = std::fs::metadata(&spec.path).is_ok_and(|metadata| metadata.is_file());
        if spec.part != Part::Whole || !is_file {
            let has = device.info().size_bytes;
            return Err(Error::new(format!("{spec}: too small: it has {has} of {size} bytes")));
        }
        drop(device);
        device = Arc::new(FileDevice::open_resized(&spec.path, size, &options)?);
    }
    Ok((device, Created::Existing(spec.clone())))
}

fn refuse_overwriting(device: &dyn Device) -> Result<()> {
    let Some(found) = contents(device)? else { return Ok(()) };
    let parts = if found.contains("partition") { ", and IMAGE@PARTITION names a partition" } else { "" };
    Err(Error::new(format!("contains {found} already; --force overwrites it{parts}")))
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

/// Gives the root directory of a new fast or old file system to a user and a group.
///
/// # Errors
/// If the format cannot keep them; those of the device.
pub fn give_root(
    spec: &Spec,
    device: &Arc<dyn Device>,
    (uid, gid): (u32, u32),
    timestamp: Option<i64>,
) -> Result<()> {
    let options = image::OpenOptions {
        clock: clock(timestamp),
        seed: seed(timestamp),
        ..image::OpenOptions::read_write()
    };
    let image = Image::open_device(spec, device.clone(), Settings::default(), &options)?;
    image.check_writable()?;
    let owner = SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
    let given = image.fs().setattr(image.fs().root(), &owner, Privilege::Root);
    image.unmount()?;
    given?;
    Ok(())
}

/// Creates a log in a file system that is not mounted, and returns its place. The size is `bytes`,
/// or that of a mount's log.
///
/// # Errors
/// If there is an objection to writing: after a crash a log would vouch for a file system that
/// nobody has checked. Also if there is no room for it.
pub fn make_log(
    device: &Arc<dyn Device>,
    dialect: Option<Dialect>,
    bytes: Option<u64>,
    timestamp: Option<i64>,
) -> Result<LogPlace> {
    let options = OpenOptions {
        dialect,
        log: LogUse::Wanted,
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

/// Free space to add to a file system that fits its contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spare {
    /// In bytes.
    pub bytes: u64,
    /// In percent of the space needed.
    pub percent: u16,
}

/// Measures a tree, and plans the smallest fast file system for it and for `spare`. `parameters`
/// returns those for a size in bytes; `walk` passes the tree to a sink. Returns the plan and the
/// bytes of data.
///
/// # Errors
/// Those of `walk`, and parameters that contradict each other.
pub fn plan_to_fit(
    parameters: impl Fn(u64) -> Parameters,
    spare: Spare,
    walk: impl Fn(&mut dyn Sink) -> Result<()>,
) -> Result<(Plan, u64)> {
    // Some dialects use larger blocks for larger file systems: repeat with the resulting size
    // until the block size stays the same.
    let mut guess = 1 << 30;
    for _ in 0..4 {
        let parameters_for_guess = parameters(guess);
        let mut counting = CensusSink::new(Census::new(&parameters_for_guess)?);
        walk(&mut counting)?;
        let (census, bytes) = counting.counted();
        let plan = fit(&parameters_for_guess, &census)?;
        let needed = plan.size_bytes();
        let more = u64::try_from(u128::from(needed) * u128::from(spare.percent) / 100).unwrap_or(u64::MAX);
        let extra = more.saturating_add(spare.bytes);
        let plan = if extra == 0 {
            plan
        } else {
            let (bsize, fsize) = (Some(plan.layout.fs_bsize), Some(plan.layout.fs_fsize));
            let size = needed.saturating_add(extra);
            Plan::new(&Parameters { bsize, fsize, ..parameters(size) })?
        };
        let by_itself = Plan::new(&parameters(plan.size_bytes()));
        if by_itself.is_ok_and(|other| other.layout.fs_bsize == plan.layout.fs_bsize) {
            return Ok((plan, bytes));
        }
        guess = plan.size_bytes();
    }
    Err(Error::new("found no block size that fits; choose one with -b and -f"))
}
