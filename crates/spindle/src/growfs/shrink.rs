//! Making a fast file system smaller, in its file, partition or device.

use super::{may_lengthen, recovered, superblock, to_its_end};
use crate::check::keep;
use crate::error::{Context, Error, Result};
use crate::image::open_device_unlocked;
use crate::newfs::{clock, rng};
use spindle_device::{CowDevice, Device, OpenOptions, Spec};
use spindle_ffs::growfs::{Resize, Shrink, examine, shrink, shrink_to_fit};
use spindle_ffs::repair::resume;
use std::path::Path;
use std::sync::Arc;

/// What is going to be done to make a file system smaller.
pub enum Planned {
    /// Nothing more: a change that was interrupted before has been finished instead.
    Finished,
    /// Nothing: it is no larger than was asked for, or cannot become smaller. Old and new sizes are
    /// the same.
    Nothing(Resize),
    /// It becomes smaller.
    Smaller(Box<Shrink>),
}

/// A file system that is going to be smaller, locked until this is dropped.
pub struct Shrinking {
    spec: Spec,
    device: Arc<dyn Device>,
    /// What will be done.
    pub plan: Planned,
    /// Number of blocks that were replayed from its log before.
    pub recovered: Option<usize>,
}

impl Shrinking {
    /// Returns the plan to make the file system of `spec` at most `size` bytes large, or as small
    /// as can be done. A change of its size that was interrupted before is finished, and nothing
    /// else planned then. With `dry_run` that, and the replay of its log, happens in memory.
    ///
    /// # Errors
    /// If it is no UFS, is in use, damaged or cannot be written; if what it holds does not fit into
    /// the size that is asked for; errors of the device.
    pub fn plan(spec: &Spec, size: Option<u64>, dry_run: bool) -> Result<Self> {
        let spec = to_its_end(spec);
        let device: Arc<dyn Device> = if dry_run {
            Arc::new(CowDevice::new(open_device_unlocked(&spec)?))
        } else {
            spec.open(&OpenOptions::read_write())?
        };
        let planned = planned(&device, size).context(&spec)?;
        let (plan, recovered) = planned;
        Ok(Self { spec, device, plan, recovered })
    }

    /// Returns the sizes before and after; none if a change that was interrupted has been finished.
    #[must_use]
    pub fn sizes(&self) -> Option<Resize> {
        match &self.plan {
            Planned::Finished => None,
            Planned::Nothing(sizes) => Some(*sizes),
            Planned::Smaller(plan) => Some(plan.sizes),
        }
    }

    /// Refuses to cut off what is behind the new end, if that could be more than the file system:
    /// nothing says whose more than a cylinder group is that it did not have before.
    ///
    /// # Errors
    /// If it is not in a file of its own, or is followed by more than a cylinder group.
    pub fn check_truncation(&self) -> Result<()> {
        let Some(sizes) = self.sizes() else { return Ok(()) };
        if !may_lengthen(&self.spec)? {
            let what = format!("{}: only a file that holds nothing but a file system is cut off", self.spec);
            return Err(Error::new(what));
        }
        let behind = self.device.info().size_bytes.saturating_sub(sizes.old_bytes);
        if behind > sizes.old_bytes.div_ceil(sizes.old_groups.max(1).into()) {
            return Err(Error::new(format!(
                "{}: {behind} bytes lie behind the file system, and may be somebody's: only a file that \
                 holds nothing but a file system is cut off; if they are what an earlier growfs --shrink \
                 has left there, use truncate -s {} first",
                self.spec, sizes.old_bytes
            )));
        }
        Ok(())
    }

    /// Returns the bytes of a file of its own that lie behind the new end, and where that is.
    ///
    /// # Errors
    /// If the file cannot be looked at.
    pub fn left_behind(&self) -> Result<Option<(u64, u64)>> {
        let Some(sizes) = self.sizes().filter(|_| matches!(may_lengthen(&self.spec), Ok(true))) else {
            return Ok(None);
        };
        let len = std::fs::metadata(&self.spec.path).context(&self.spec)?.len();
        Ok(len.checked_sub(sizes.new_bytes).filter(|&left| left > 0).map(|left| (left, sizes.new_bytes)))
    }

    /// Makes the file system smaller. First a file `undo` is made, if there is one, with which that
    /// can be taken back. With `truncate` the file is cut off at the new end. `progress` hears of
    /// the data that was moved, and how much there is; it may still end the work, and then nothing
    /// has changed.
    ///
    /// # Errors
    /// As [`Self::check_truncation`]; those of `progress`; if the undo file cannot be written;
    /// errors of the device, after which either nothing has changed, or a check finishes the rest.
    pub fn apply(
        &self,
        undo: Option<&Path>,
        truncate: bool,
        progress: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<()> {
        if truncate {
            self.check_truncation()?;
        }
        if let Planned::Smaller(plan) = &self.plan {
            self.apply_plan(plan, undo, progress)?;
        }
        if let Some(sizes) = self.sizes().filter(|_| truncate) {
            let file = std::fs::File::options().write(true).open(&self.spec.path).context(&self.spec)?;
            file.set_len(sizes.new_bytes).and_then(|()| file.sync_all()).context(&self.spec)?;
        }
        Ok(())
    }

    fn apply_plan(
        &self,
        plan: &Shrink,
        undo: Option<&Path>,
        progress: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<()> {
        if let Some(file) = undo {
            keep(file, plan.undo_bytes()).context(&self.spec)?;
        }
        let mut ended = None;
        let mut each = |done, total| {
            progress(done, total).map_err(|error| {
                ended = Some(error);
                spindle_vfs::Error::Interrupted
            })
        };
        if let Err(error) = plan.apply(&*self.device, &mut each) {
            if let Some(file) = undo.filter(|_| ended.is_some()) {
                // Nothing has changed that it could take back.
                let _ = std::fs::remove_file(file);
            }
            return Err(ended.unwrap_or_else(|| error.into())).context(&self.spec);
        }
        Ok(())
    }
}

fn planned(device: &Arc<dyn Device>, size: Option<u64>) -> Result<(Planned, Option<usize>)> {
    if resume(&**device)?.is_some() {
        return Ok((Planned::Finished, None));
    }
    let recovered = recovered(device)?;
    let superblock = superblock(&**device)?;
    let as_it_is = Resize::smaller(&superblock, superblock.layout.fs_size << superblock.layout.fs_fshift)?;
    let wanted = size.filter(|&bytes| bytes < as_it_is.old_bytes);
    let sizes = wanted.map(|bytes| Resize::smaller(&superblock, bytes)).transpose()?;
    if sizes.or(size.map(|_| as_it_is)).is_some_and(|sizes| sizes.is_nothing()) {
        examine(&**device, &as_it_is)?;
        return Ok((Planned::Nothing(as_it_is), recovered));
    }
    let (clock, mut random) = (clock(None), rng(None));
    let plan = match sizes {
        Some(sizes) => shrink(device, &clock, &mut random, &sizes),
        None => shrink_to_fit(device, &clock, &mut random),
    };
    let plan = match plan {
        Ok(plan) => Planned::Smaller(Box::new(plan)),
        Err(spindle_vfs::Error::NoSpace) if sizes.is_none() => Planned::Nothing(as_it_is),
        Err(spindle_vfs::Error::NoSpace) => {
            return Err(spindle_vfs::Error::unsupported(
                "what it holds does not fit, with the space that changing the size takes",
                "name a larger size (-s)",
            )
            .into());
        }
        Err(error) => return Err(error.into()),
    };
    Ok((plan, recovered))
}
