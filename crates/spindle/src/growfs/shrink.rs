//! Making a fast file system smaller, in its file, partition or device.

use super::{may_lengthen, recovered, superblock, to_its_end};
use crate::check::keep;
use crate::error::{Context, Error, Result};
use crate::image::open_device_unlocked;
use crate::newfs::{clock, rng};
use spindle_device::{CowDevice, Device, OpenOptions, Spec};
use spindle_ffs::growfs::{Resize, Shrink, shrink, shrink_to_fit};
use spindle_ffs::repair::resume;
use std::path::Path;
use std::sync::Arc;

/// A file system that is going to be smaller, locked until this is dropped.
pub struct Shrinking {
    spec: Spec,
    device: Arc<dyn Device>,
    /// What will be done; none if a change that was interrupted before has been finished instead.
    pub plan: Option<Shrink>,
    /// Number of blocks that were replayed from its log before.
    pub recovered: Option<usize>,
}

impl Shrinking {
    /// Returns the plan to make the file system of `spec` at most `size` bytes large, or as small
    /// as can be done. A change of its size that was interrupted before is finished, and nothing
    /// else planned then. With `dry_run` that, and the replay of its log, happens in memory.
    ///
    /// # Errors
    /// If it is no UFS, would become larger, is in use, damaged or cannot be written; if what it
    /// holds does not fit; errors of the device.
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

    /// Refuses to cut off what is behind the new end, if that could be more than the file system.
    ///
    /// # Errors
    /// If it is not in a file of its own.
    pub fn check_truncation(&self) -> Result<()> {
        let Some(plan) = &self.plan else { return Ok(()) };
        let behind = self.device.info().size_bytes.saturating_sub(plan.sizes.old_bytes);
        let group = plan.sizes.old_bytes.div_ceil(plan.sizes.old_groups.max(1).into());
        if !may_lengthen(&self.spec)? || behind > group {
            let what = format!("{}: only a file that holds nothing but a file system is cut off", self.spec);
            return Err(Error::new(what));
        }
        Ok(())
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
        let Some(plan) = &self.plan else { return Ok(()) };
        if truncate {
            self.check_truncation()?;
        }
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
        if truncate {
            let file = std::fs::File::options().write(true).open(&self.spec.path).context(&self.spec)?;
            file.set_len(plan.sizes.new_bytes).and_then(|()| file.sync_all()).context(&self.spec)?;
        }
        Ok(())
    }
}

fn planned(device: &Arc<dyn Device>, size: Option<u64>) -> Result<(Option<Shrink>, Option<usize>)> {
    if resume(&**device)?.is_some() {
        return Ok((None, None));
    }
    let recovered = recovered(device)?;
    let superblock = superblock(&**device)?;
    let no_room = |error| match error {
        spindle_vfs::Error::NoSpace => spindle_vfs::Error::unsupported(
            "what it holds does not fit, with the space that changing the size takes",
            "name a larger size (-s)",
        ),
        other => other,
    };
    let (clock, mut random) = (clock(None), rng(None));
    let plan = match size {
        Some(bytes) => {
            let sizes = Resize::smaller(&superblock, bytes)?;
            shrink(device, &clock, &mut random, &sizes)
        }
        None => shrink_to_fit(device, &clock, &mut random),
    };
    Ok((Some(plan.map_err(no_room)?), recovered))
}
