//! Quotas of a fast file system in an image, mounted or not.

use crate::control::{Name, Request, request};
use crate::detect::{Found, detect};
use crate::error::{Context, Error, Result};
use crate::image::{Image, OpenOptions, Opened};
use crate::newfs::clock;
use crate::set::{Progress, Report};
use spindle_device::{self as device, Spec};
use spindle_ffs::FoundLog;
pub use spindle_ffs::QuotaFiles;
pub use spindle_ffs::quota::{Account, Edit, Grace, Kind, Limits, Quota, Row, Sheet, Task, Usage};
use spindle_ffs::repair::switch_quotas;
use std::ops::ControlFlow;

/// Does what is asked about quotas. If the file system is mounted, the process that serves the
/// mount does it; otherwise it is opened as `options` say, and unmounted. An error of `report`
/// ends the work, and nothing is changed but for a new quota file.
///
/// # Errors
/// If the image cannot be opened, or written if it has to be; as [`Image::quota`].
pub fn run(spec: &Spec, task: &Task, options: &OpenOptions, report: &mut Report<'_>) -> Result<Vec<Sheet>> {
    let asked = Request::Quota(task.clone());
    if let Some(sheets) = request(&Name::of_image(spec)?, &asked, report).context(spec)? {
        return Ok(sheets);
    }
    let read_only = matches!(task, Task::Report(_));
    let image = Image::open(spec, &OpenOptions { read_only, ..options.clone() })?;
    if !read_only {
        image.check_writable().context(spec)?;
    }
    let done = image.quota(task, report).context(spec);
    let unmounted = image.unmount().context(spec);
    done.and_then(|sheets| unmounted.map(|()| sheets))
}

/// Turns NetBSD's quotas inside the file system of `spec` on, with what is in use now and without
/// limits, or off, with all their records. A log that holds changes is carried out first.
///
/// # Errors
/// If the file system is none of NetBSD's, in use, damaged, or cannot be written; errors of the
/// device.
pub fn switch(spec: &Spec, kinds: &[Kind], on: bool) -> Result<()> {
    let device = spec.open(&device::OpenOptions::read_write())?;
    let Found::Ffs(superblock) = detect(&*device).context(spec)? else {
        return Err(Error::new(NONE)).context(spec);
    };
    if matches!(FoundLog::look(&*device, &superblock).context(spec)?, FoundLog::Recovery(_)) {
        spindle_ffs::recover(&device, &clock(None), false).context(spec)?;
    }
    switch_quotas(&device, &clock(None), kinds, on).context(spec).map(drop)
}

impl Image {
    /// Does what is asked about the quotas of the file system; what it changes is durable then.
    ///
    /// # Errors
    /// If it is no fast file system, or cannot be changed; if a quota file is none; if a limit does
    /// not fit into it.
    pub fn quota(&self, task: &Task, report: &mut Report<'_>) -> Result<Vec<Sheet>> {
        match &self.kind {
            Opened::Ffs(ffs) => Ok(ffs.quota(task, &mut |done, total| match report(Progress {
                done: done.into(),
                total: total.into(),
            }) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })?),
            Opened::Old(_) | Opened::Mfs(..) => Err(Error::new(NONE)),
        }
    }
}

/// Why other file systems refuse.
pub(crate) const NONE: &str = "only UFS has quotas";
