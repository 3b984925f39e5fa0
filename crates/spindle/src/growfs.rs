//! Making a fast file system larger, in its file, partition or device; or smaller ([`Shrinking`]).

mod shrink;

use crate::detect::{Found, detect};
use crate::error::{Context, Error, Result};
use crate::image::open_device_unlocked;
use crate::newfs::{clock, rng};
use crate::occupied::{Space, found_in};
use spindle_device::{Claim, Device, FileDevice, OpenOptions, Part, Spec, partitions};
use spindle_ffs::check::Report;
use spindle_ffs::{FoundLog, Superblock, growfs};
use std::sync::Arc;

pub use shrink::{Planned, Shrinking};
pub use spindle_ffs::growfs::Resize;

/// A file system that has grown.
#[derive(Clone, Debug)]
pub struct Grown {
    /// The sizes before and after.
    pub growth: Resize,
    /// Number of blocks that were replayed from its log before.
    pub recovered: Option<usize>,
    /// What a check finds afterwards.
    pub report: Report,
}

/// A file system that is going to be larger.
#[derive(Clone, Debug)]
pub struct Growing {
    spec: Spec,
    /// Bytes that its file, partition or device has, and is to have.
    has: u64,
    wanted: u64,
    /// The sizes before and after.
    pub growth: Resize,
}

impl Growing {
    /// Returns what the file system of `spec` becomes if it grows to `size` bytes, or to the end of
    /// its file, partition or device. Nothing is written. With `force` it may grow over another
    /// file system.
    ///
    /// # Errors
    /// If it is no UFS, would become smaller, or has no room: only a file that is not divided into
    /// partitions becomes longer, and no partition or, without `force`, file system may begin where
    /// it would be.
    pub fn plan(spec: &Spec, size: Option<u64>, force: bool) -> Result<Self> {
        let spec = to_its_end(spec);
        let device = open_device_unlocked(&spec)?;
        let has = device.info().size_bytes;
        let wanted = size.unwrap_or(has);
        if wanted > has && !may_lengthen(&spec)? {
            return Err(Error::new(format!("{spec}: holds {has} bytes, not {wanted}")));
        }
        let growth = Resize::of(&superblock(&*device).context(&spec)?, wanted).context(&spec)?;
        check_room(&spec, &growth, force).context(&spec)?;
        Ok(Self { spec, has, wanted, growth })
    }

    /// Refuses what [`Self::grow`] would refuse about the file system itself; of one whose log has
    /// to be replayed first that is not known. Nothing is written.
    ///
    /// # Errors
    /// If the file system is damaged or cannot be written; errors of the device.
    pub fn examine(&self) -> Result<()> {
        let spec = &self.spec;
        let device = open_device_unlocked(spec)?;
        let superblock = superblock(&*device).context(spec)?;
        if !matches!(FoundLog::look(&*device, &superblock).context(spec)?, FoundLog::Recovery(_)) {
            growfs::examine(&*device, &self.growth).context(spec)?;
        }
        Ok(())
    }

    /// Makes the file system larger, which nobody uses; `claim` is that of its device. `progress`
    /// hears of each new cylinder group, and how many there are; it may still end the work.
    ///
    /// # Errors
    /// If the file system is in use, damaged or cannot be written, or is another one than was
    /// planned for; errors of the device.
    pub fn grow(&self, claim: Claim, progress: &mut dyn FnMut(u32, u32) -> Result<()>) -> Result<Grown> {
        let Self { spec, has, wanted, growth } = self;
        let options = OpenOptions { claim, ..OpenOptions::read_write() };
        if wanted <= has {
            return grow_on(&spec.open(&options)?, *wanted, growth, progress).context(spec);
        }
        let lengthen = |bytes| FileDevice::open_resized(&spec.path, bytes, &options);
        // Nobody uses it.
        drop(spec.open(&options)?);
        let device: Arc<dyn Device> = Arc::new(lengthen(*wanted)?);
        let grown = grow_on(&device, *wanted, growth, progress).context(spec);
        if grown.is_err() {
            let is_as_before = superblock(&*device)
                .is_ok_and(|found| found.layout.fs_size << found.layout.fs_fshift <= *has);
            drop(device);
            if is_as_before {
                lengthen(*has)?;
            }
        }
        grown
    }
}

/// Returns a place that was named by its first byte without an end: the file system is to grow.
fn to_its_end(spec: &Spec) -> Spec {
    match spec.part {
        Part::Offset { at, .. } => Spec { part: Part::Offset { at, len: None }, ..spec.clone() },
        _ => spec.clone(),
    }
}

/// Refuses to grow over the beginning of a partition, and, unless `force`, over a file system where
/// no partition says whose the space is: systems before 4.4BSD have the places of partitions in
/// their kernels.
fn check_room(spec: &Spec, growth: &Resize, force: bool) -> Result<()> {
    let place = spec.place()?;
    let start = place.bytes.map_or(0, |bytes| bytes.start);
    let disk = open_device_unlocked(&Spec { path: place.path, part: Part::Whole })?;
    let new = start.saturating_add(growth.old_bytes)..start.saturating_add(growth.new_bytes);
    let mut partitions = partitions(&*disk)?.partitions.into_iter();
    if let Some(part) = partitions.find(|part| part.size_bytes > 0 && new.contains(&part.start_bytes)) {
        return Err(Error::new(format!(
            "partition {} begins at byte {}, where the file system would be; name a smaller size (-s)",
            part.name, part.start_bytes
        )));
    }
    if force || matches!(spec.part, Part::Named(_)) {
        return Ok(());
    }
    let own = start..new.start;
    match found_in(&disk, &Space::Added { own, new })? {
        Some(found) => Err(Error::new(format!(
            "would overlap {found}; name a smaller size (-s), or --force grows over it"
        ))),
        None => Ok(()),
    }
}

/// Returns true if the file may become longer.
fn may_lengthen(spec: &Spec) -> Result<bool> {
    let is_file = std::fs::metadata(&spec.path).context(spec)?.is_file();
    Ok(is_file && spec.part == Part::Whole)
}

fn superblock(device: &dyn Device) -> Result<Superblock> {
    match detect(device)? {
        Found::Ffs(superblock) => Ok(*superblock),
        Found::Old(_) | Found::Mfs(_) => Err(Error::new("only UFS can be made larger or smaller")),
    }
}

/// Replays the log of the file system, if it has to be, and returns the number of blocks.
fn recovered(device: &Arc<dyn Device>) -> Result<Option<usize>> {
    let FoundLog::Recovery(replay) = FoundLog::look(&**device, &superblock(&**device)?)? else {
        return Ok(None);
    };
    spindle_ffs::recover(device, &clock(None), false)?;
    Ok(Some(replay.blocks()))
}

fn grow_on(
    device: &Arc<dyn Device>,
    bytes: u64,
    planned: &Resize,
    progress: &mut dyn FnMut(u32, u32) -> Result<()>,
) -> Result<Grown> {
    let recovered = recovered(device)?;
    let growth = Resize::of(&superblock(&**device)?, bytes)?;
    // Only what was planned was looked at.
    if (growth.old_bytes, growth.new_bytes) != (planned.old_bytes, planned.new_bytes) {
        return Err(Error::new("its size has changed meanwhile; try again"));
    }
    let mut ended = None;
    let mut each_group = |done, total| {
        progress(done, total).map_err(|error| {
            ended = Some(error);
            spindle_vfs::Error::Interrupted
        })
    };
    match growfs::grow(device, &clock(None), &mut rng(None), &growth, &mut each_group) {
        Ok(report) => Ok(Grown { growth, recovered, report }),
        Err(error) => Err(ended.unwrap_or_else(|| error.into())),
    }
}
