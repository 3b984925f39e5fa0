//! Serving a mount from start to end, and unmounting from another process.

use crate::kernel::{self, Unmount};
use crate::record::{Record, Waiter};
use crate::waiting::retry_while_busy;
use crate::{Error, MountOptions, Ready, Result, Signals, mountinfo, session};
use spindle_clock::SystemClock;
use spindle_vfs::{FileSystem, Observer};
use std::path::Path;
use std::sync::Arc;

/// Mounts `fs`, reports when the mount is ready, serves it until it is unmounted or a signal comes,
/// and unmounts the file system. [`umount`] in another process returns when this process ends, so
/// after this call only close the image. `observer` is notified of the use of files. `mount` and
/// `df` show `source` unless an option gives another name.
///
/// # Errors
/// If the mount fails (the file system is then unmounted, too), if the connection with the kernel
/// fails, or if the image cannot be completed.
pub fn serve(
    fs: &Arc<dyn FileSystem>,
    mount_point: &Path,
    source: &str,
    options: &MountOptions,
    observer: Option<Arc<dyn Observer>>,
    signals: Signals,
    ready: Ready,
) -> Result<()> {
    let session = match session::mount(Arc::clone(fs), mount_point, source, options, observer) {
        Ok(session) => session,
        Err(error) => {
            fs.unmount()?;
            return Err(error);
        }
    };
    let record = Record::create(session.device())
        .inspect_err(|error| log::warn!("spindle umount cannot wait for this mount: {error}"))
        .ok();
    let announced = signals.stop_on_arrival(session.unmounter()).and_then(|()| ready.report());
    if let Err(error) = &announced {
        log::error!("{error}");
        session.unmounter().stop();
    }
    let served = session.join();
    let finished = fs.unmount().map_err(Error::from);
    let outcome = announced.and(served).and(finished);
    if let Some(record) = record {
        record.finish(outcome.as_ref().map(|&()| ()).map_err(ToString::to_string));
    }
    outcome
}

/// Unmounts the file system on `dir` and waits until its daemon has completed the image.
///
/// # Errors
/// If no FUSE file system is mounted there, if it stays in use, or if the image may be incomplete.
pub fn umount(dir: &Path) -> Result<()> {
    let dir = mountinfo::canonical(dir).map_err(|e| Error::mount("unmount", dir, e))?;
    let Some(entry) = mountinfo::mounted_on(&dir)? else {
        return Err(Error::State(format!("nothing is mounted on {}", dir.display())));
    };
    if !entry.is_fuse() {
        let (dir, found) = (dir.display(), entry.fs_type);
        return Err(Error::State(format!("{dir} is a mount of type {found}, not of Spindle")));
    }
    let waiter = Waiter::find(&entry);
    let is_elsewhere = mountinfo::is_elsewhere(&entry)?;
    retry_while_busy(&SystemClock, || kernel::unmount(&dir, entry.device, Unmount::Unused))?;
    if is_elsewhere {
        return Err(Error::State(format!(
            "{} is unmounted, but its file system is also mounted elsewhere",
            dir.display()
        )));
    }
    match waiter {
        Some(waiter) => waiter.wait(),
        None => Err(Error::State(format!(
            "{} is unmounted, but its daemon has no record and may still be writing the image",
            dir.display()
        ))),
    }
}
