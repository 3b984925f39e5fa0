//! Records: small files from which `spindle umount` learns that an image is complete.
//!
//! `umount(2)` returns when the kernel has unmounted; the daemon continues to write for a while. So
//! the daemon keeps a *record*: a small file with the device number of the mount as its name. The
//! daemon holds an exclusive `flock` on it from before the mount is announced until it has closed
//! the image and ends. The last line of the record then contains the result. A process that waits
//! opens the record while the mount still exists, unmounts, waits for the lock, and reads the line.
//! A killed daemon loses the lock and leaves no such line.
//!
//! Records are in `/run/spindle` for root, and in `/run/user/UID/spindle` or `/tmp/spindle-UID` for
//! other users. A record that does not belong to the user who mounted is ignored.

use crate::mountinfo::{self, MountDevice, MountEntry};
use crate::{Error, Result};
use nix::fcntl::{Flock, FlockArg, OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::geteuid;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The last line of the record after success.
const COMPLETE: &str = "complete";

fn directories(uid: u32) -> Vec<PathBuf> {
    if uid == 0 {
        vec!["/run/spindle".into()]
    } else {
        vec![format!("/run/user/{uid}/spindle").into(), format!("/tmp/spindle-{uid}").into()]
    }
}

/// Maximum number of bytes to read from a record.
const MAX_BYTES: u64 = 1 << 16;

/// Opens the record `name` in a directory of the user `uid`, who may have put anything there: it
/// must be a regular file of that user, and the check must not block.
fn open(dir: &Path, name: &str, uid: u32) -> Option<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let dir = nix::fcntl::open(dir, flags | OFlag::O_DIRECTORY, Mode::empty()).ok()?;
    let file = File::from(openat(dir, name, flags | OFlag::O_NONBLOCK, Mode::empty()).ok()?);
    let found = file.metadata().ok()?;
    (found.is_file() && found.uid() == uid).then_some(file)
}

/// The record, as the daemon holds it.
#[derive(Debug)]
pub(crate) struct Record {
    file: Flock<File>,
    path: PathBuf,
}

impl Record {
    pub(crate) fn create(device: MountDevice) -> Result<Self> {
        let uid = geteuid().as_raw();
        let mut problem = None;
        for dir in directories(uid) {
            match Self::create_in(&dir, uid, device) {
                Ok(record) => return Ok(record),
                Err(error) => {
                    let what = format!("cannot create a record in {}", dir.display());
                    problem = Some(Error::system(what, error));
                }
            }
        }
        Err(problem.unwrap_or_else(|| Error::State("no directory for a record".into())))
    }

    fn create_in(dir: &Path, uid: u32, device: MountDevice) -> io::Result<Self> {
        let mode = if uid == 0 { 0o755 } else { 0o700 };
        match DirBuilder::new().mode(mode).create(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let found = fs::symlink_metadata(dir)?;
        if !found.is_dir() || found.uid() != uid {
            return Err(io::Error::other("it belongs to another user"));
        }
        let path = dir.join(device.to_string());
        // An existing record is that of a killed daemon, because the number is ours now.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = File::options().write(true).create_new(true).mode(0o644).open(&path)?;
        let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| e)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self { file, path })
    }

    /// Writes the result. Waiting processes continue when this process ends, because only then
    /// the image is free.
    pub(crate) fn finish(mut self, outcome: std::result::Result<(), String>) {
        let line = match outcome {
            Ok(()) => COMPLETE.to_owned(),
            Err(error) => error.replace('\n', " "),
        };
        let written = writeln!(self.file, "{line}").and_then(|()| self.remove());
        if let Err(error) = written {
            log::warn!("{}: {error}", self.path.display());
        }
        std::mem::forget(self.file);
    }

    /// Removes the record, unless the kernel has given the device number to another mount
    /// meanwhile, whose record has replaced this one.
    fn remove(&self) -> std::io::Result<()> {
        let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        if id(fs::metadata(&self.path)?) == id(self.file.metadata()?) {
            fs::remove_file(&self.path)
        } else {
            Ok(())
        }
    }
}

/// Returns true if `pid` is a daemon that is unmounted: it completes its image and ends. It keeps
/// its record open, possibly without a name, until it has closed the image, so this is true at
/// every moment until then.
pub(crate) fn is_ending(pid: u32) -> bool {
    // The descriptors of another user's daemon cannot be read.
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let Ok(owner) = fs::metadata(format!("/proc/{pid}")).map(|metadata| metadata.uid()) else { return false };
    let links = open.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let mut records = links.filter(|link| directories(owner).iter().any(|dir| link.parent() == Some(dir)));
    records.any(|record| {
        let name = record.file_name().unwrap_or_default().to_string_lossy();
        let device = name.trim_end_matches(" (deleted)").parse::<MountDevice>();
        device.is_ok_and(|device| mountinfo::is_mounted(device).is_ok_and(|mounted| !mounted))
            || name.ends_with(" (deleted)")
    })
}

/// A process that waits for the daemon.
#[derive(Debug)]
pub(crate) struct Waiter {
    file: File,
}

impl Waiter {
    /// Opens the record of a mount, if it has one.
    pub(crate) fn find(entry: &MountEntry) -> Option<Self> {
        let uid = entry.user_id?;
        let name = entry.device.to_string();
        directories(uid).into_iter().find_map(|dir| Some(Self { file: open(&dir, &name, uid)? }))
    }

    /// Waits until the daemon has ended. Fails if the image is not complete.
    pub(crate) fn wait(self) -> Result<()> {
        let mut file = Flock::lock(self.file, FlockArg::LockShared)
            .map_err(|(_, e)| Error::system("cannot wait for the daemon", e))?;
        let mut text = String::new();
        (&mut *file)
            .take(MAX_BYTES)
            .read_to_string(&mut text)
            .map_err(|e| Error::system("cannot read the daemon's record", e))?;
        match text.trim_end().split_once('\n') {
            Some((_, COMPLETE)) => Ok(()),
            Some((_, error)) => Err(Error::State(format!("the daemon failed: {error}"))),
            None => Err(Error::State(format!(
                "the daemon (process {}) died before the image was complete",
                text.trim_end()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::mkfifo;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Promise: a file that is not a regular file of the user who mounted is not a record, and
    /// a FIFO does not block.
    #[test]
    fn only_regular_files_are_records() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let uid = geteuid().as_raw();
        fs::write(path("record"), "1\ncomplete\n").unwrap();
        mkfifo(&path("fifo"), Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(path("record"), path("link")).unwrap();
        std::os::unix::fs::symlink(dir.path(), path("elsewhere")).unwrap();
        fs::create_dir(path("dir")).unwrap();
        let (done, all) = channel();
        let looked = dir.path().to_owned();
        std::thread::spawn(move || {
            let is_record = |dir: &Path, name: &str, uid| open(dir, name, uid).is_some();
            let found = ["record", "fifo", "link", "dir", "none"].map(|name| is_record(&looked, name, uid));
            done.send((
                found,
                is_record(&looked, "record", uid + 1),
                is_record(&looked.join("elsewhere"), "record", uid),
            ))
        });
        // The timeout is no measure of speed: an open that blocks would never end.
        let (found, strange, through_link) =
            all.recv_timeout(Duration::from_secs(60)).expect("nothing waits");
        assert_eq!(found, [true, false, false, false, false]);
        assert!(!strange && !through_link);
    }
}
