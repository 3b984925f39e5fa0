//! A mount from its making to a complete image, and its end from outside.

use crate::ending::while_busy;
use crate::kernel::{self, Unmount};
use crate::record::{Record, Waiter};
use crate::{Error, MountOptions, Ready, Result, Signals, mountinfo, session};
use spindle_clock::SystemClock;
use spindle_vfs::{FileSystem, Observer};
use std::path::Path;
use std::sync::Arc;

/// Mounts `fs`, says when it is live, serves it until it is unmounted or a signal comes, and brings
/// the file system to its end. [`umount`] elsewhere returns when this process ends, so nothing
/// should come after but closing the image. `observer` is told what is done with the files.
/// `source` is what `mount` and `df` show unless the options name something else.
///
/// # Errors
/// When it could not be mounted (the file system is then unmounted, too), when the connection with
/// the kernel broke off, or when the image could not be completed.
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
        .inspect_err(|error| log::warn!("spindle umount will not wait for this mount: {error}"))
        .ok();
    let announced = signals.stop_on_arrival(session.unmounter()).and_then(|()| ready.live());
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

/// Unmounts what is mounted on `dir` and waits until its daemon has completed the image.
///
/// # Errors
/// When nothing of ours is mounted there, when it is in use and stays so for a moment, or when the
/// image is not known to be complete.
pub fn umount(dir: &Path) -> Result<()> {
    let dir = mountinfo::canonical(dir).map_err(|e| Error::mount("unmount", dir, e))?;
    let Some(entry) = mountinfo::mounted_on(&dir)? else {
        return Err(Error::State(format!("nothing is mounted on {}", dir.display())));
    };
    if !entry.is_fuse() {
        let (dir, found) = (dir.display(), entry.fs_type);
        return Err(Error::State(format!("{dir} is a mount of type {found}, not ours to unmount")));
    }
    let waiter = Waiter::find(&entry);
    let is_elsewhere = mountinfo::is_elsewhere(&entry)?;
    while_busy(&SystemClock, || kernel::unmount(&dir, entry.device, Unmount::Unused))?;
    if is_elsewhere {
        return Err(Error::State(format!("{} is unmounted, but mounted elsewhere as well", dir.display())));
    }
    match waiter {
        Some(waiter) => waiter.wait(),
        None => Err(Error::State(format!(
            "{} is unmounted, but its daemon left no record: it may still be writing",
            dir.display()
        ))),
    }
}
