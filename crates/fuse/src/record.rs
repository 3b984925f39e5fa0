//! Records: small files from which `spindle umount` learns that an image is complete.
//!
//! `umount(2)` returns when the kernel has unmounted; the daemon continues to write for a while. So
//! the daemon keeps a *record*: a small file with the device number of the mount as its name. The
//! daemon holds an exclusive `flock` on it from before the mount is announced until it has closed
//! the image and ends. Its lines are the process ID of the daemon, the source of the mount, and at
//! the end the result. A process that waits opens the record while the mount still exists,
//! unmounts, waits for the lock, and reads the last line. A killed daemon loses the lock and leaves
//! no such line.
//!
//! Once a mount is gone, the kernel gives its device number to the next one. So the number alone
//! does not show that the mount of a daemon still exists; the source that the table of mounts shows
//! must be the same, too.
//!
//! Records are in `/run/spindle` for root, and in `/run/user/UID/spindle` or `/tmp/spindle-UID` for
//! other users. A record that does not belong to the user who mounted is ignored.

use crate::mountinfo::{self, MountDevice, MountEntry};
use crate::{Error, Result};
use nix::errno::Errno;
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
    is_record(&file, uid).then_some(file)
}

fn is_record(file: &File, uid: u32) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.uid() == uid)
}

/// The record, as the daemon holds it.
#[derive(Debug)]
pub(crate) struct Record {
    file: Flock<File>,
    path: PathBuf,
}

impl Record {
    /// Creates the record of the mount with this number.
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
        let source = mountinfo::with_number(device).ok().and_then(|mounts| mounts.first().map(source_of));
        writeln!(file, "{}\n{}", std::process::id(), source.unwrap_or_default())?;
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

/// The record of a daemon that is unmounted: it completes its image and ends.
#[derive(Debug)]
pub(crate) struct Ending {
    record: File,
}

impl Ending {
    /// Returns the record of the process `pid` if that is such a daemon. It keeps its record open,
    /// possibly without a name, until it has closed the image. Returns none for another user's
    /// daemon, whose descriptors cannot be read.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let owner = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
        let directories = directories(owner);
        open.flatten().find_map(|entry| {
            let link = fs::read_link(entry.path()).ok()?;
            directories.iter().find(|dir| link.parent() == Some(dir))?;
            let name = link.file_name()?.to_string_lossy();
            let nonblocking = OFlag::O_NONBLOCK.bits();
            let record = File::options().read(true).custom_flags(nonblocking).open(entry.path()).ok()?;
            if !is_record(&record, owner) {
                return None;
            }
            let ends = match name.strip_suffix(" (deleted)") {
                Some(_) => true,
                None => !is_mounted(name.parse().ok()?, &record)?,
            };
            ends.then_some(Self { record })
        })
    }

    /// Returns true when the daemon has closed the image.
    pub(crate) fn is_over(&self) -> io::Result<bool> {
        match Flock::lock(self.record.try_clone()?, FlockArg::LockSharedNonblock) {
            Ok(_) => Ok(true),
            Err((_, Errno::EWOULDBLOCK)) => Ok(false),
            Err((_, error)) => Err(error.into()),
        }
    }
}

/// Returns true if the mount with this number is that of the record, as far as the record says.
/// Returns none if the table of mounts or the record cannot be read.
fn is_mounted(device: MountDevice, record: &File) -> Option<bool> {
    let text = read(record).ok()?;
    let source = text.lines().nth(1).unwrap_or_default();
    let is_its = |entry: &MountEntry| source.is_empty() || source_of(entry) == source;
    Some(mountinfo::with_number(device).ok()?.iter().any(is_its))
}

/// Returns the source of a mount in one line.
fn source_of(mount: &MountEntry) -> String {
    mount.source.to_string_lossy().replace('\n', " ")
}

fn read(record: &File) -> io::Result<String> {
    let mut text = String::new();
    record.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
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
        let file = Flock::lock(self.file, FlockArg::LockShared)
            .map_err(|(_, e)| Error::system("cannot wait for the daemon", e))?;
        let text = read(&file).map_err(|e| Error::system("cannot read the daemon's record", e))?;
        let mut lines = text.lines();
        match (lines.next().unwrap_or_default(), lines.nth(1)) {
            (_, Some(COMPLETE)) => Ok(()),
            (_, Some(error)) => Err(Error::State(format!("the daemon failed: {error}"))),
            (pid, None) => {
                Err(Error::State(format!("the daemon (process {pid}) died before the image was complete")))
            }
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
