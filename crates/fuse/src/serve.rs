//! Serving a mount from start to end, and unmounting from another process.

use crate::kernel::{self, Unmount};
use crate::record::{Record, Waiter};
use crate::utab::Line;
use crate::waiting::retry_while_busy;
use crate::{Attachment, Error, Ready, Remounter, Result, Signals, mountinfo};
use spindle_clock::SystemClock;
use spindle_vfs::{FileSystem, Observer};
use std::path::Path;
use std::sync::Arc;

/// Serves `fs` on a mount, reports when it is ready, goes on until it is unmounted or a signal
/// comes, and unmounts the file system. [`umount`] in another process returns when this process
/// ends, so after this call only close the image. `observer` is notified of the use of files. What
/// `mounted` returns is kept until the file system is unmounted.
///
/// # Errors
/// If it cannot be served (the file system is then unmounted, too), if the connection with the
/// kernel fails, or if the image cannot be completed.
pub fn serve<T>(
    attachment: Attachment,
    fs: &Arc<dyn FileSystem>,
    observer: Option<Arc<dyn Observer>>,
    (signals, ready): (Signals, Ready),
    mounted: impl FnOnce(Remounter) -> T,
) -> Result<()> {
    let mut session = match attachment.serve(Arc::clone(fs), observer) {
        Ok(session) => session,
        Err(error) => {
            fs.unmount()?;
            return Err(error);
        }
    };
    let record = Record::create(session.device())
        .inspect_err(|error| log::warn!("spindle umount cannot wait for this mount: {error}"))
        .ok();
    let line = nix::unistd::geteuid().is_root().then(|| Line::add(session.mount_point()));
    let kept = mounted(session.remounter());
    let announced = signals.stop_on_arrival(session.unmounter()).and_then(|()| ready.report());
    if let Err(error) = &announced {
        log::error!("{error}");
        session.release();
        session.unmounter().stop();
    }
    let served = session.join();
    drop(line);
    let finished = fs.unmount().map_err(Error::from);
    let outcome = announced.and(served).and(finished);
    let said = || outcome.as_ref().map(|&()| ()).map_err(ToString::to_string);
    session.report(said());
    drop(kept);
    // Now umount(2) of a block device returns.
    drop(session);
    if let Some(record) = record {
        record.finish(said());
    }
    outcome
}

/// Ways to unmount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Umount {
    /// Unmount if nothing is in use, and wait for the daemon.
    #[default]
    Unused,
    /// Detach the mount; it ends with its last use, for which nobody waits.
    Lazy,
    /// As [`Self::Unused`]; but a mount without a daemon is unmounted even if it is in use.
    Force,
}

/// Unmounts the file system on `dir` and waits until its daemon has completed the image.
///
/// # Errors
/// If no FUSE file system is mounted there, if it stays in use, or if the image may be incomplete.
pub fn umount(dir: &Path, how: Umount) -> Result<()> {
    let dir = mountinfo::canonical(dir).map_err(|e| Error::mount("unmount", dir, e))?;
    let entry = mountinfo::fuse_mount_on(&dir)?;
    let waiter = Waiter::find(&entry);
    let is_elsewhere = mountinfo::is_elsewhere(&entry)?;
    let unmount = |how| kernel::unmount(&dir, entry.device, how);
    match how {
        Umount::Lazy => return unmount(Unmount::Detach),
        Umount::Force if is_dead(&dir) => unmount(Unmount::Abort)?,
        _ => retry_while_busy(&SystemClock, || unmount(Unmount::Unused))?,
    }
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

/// Returns true if the daemon of the mount on `dir` has died.
fn is_dead(dir: &Path) -> bool {
    std::fs::metadata(dir).is_err_and(|error| mountinfo::is_dead(&error))
}
