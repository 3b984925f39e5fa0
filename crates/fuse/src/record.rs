//! How `spindle umount` knows that an image is complete.
//!
//! `umount(2)` returns when the kernel has let go; the daemon writes on for a while after that. So the daemon keeps a
//! *record*: a small file, named after the device number of the mount, that it holds an exclusive
//! `flock` on from before the mount is announced until it has let go of the image and ends, and whose last line
//! then says how it went. Whoever waits opens the record while the mount is still there, unmounts, waits for
//! the lock, and reads the line. A daemon that is killed loses the lock and leaves no such line.
//!
//! Records lie in `/run/spindle` for root, else in `/run/user/UID/spindle`, else in `/tmp/spindle-UID`. One that does
//! not belong to the user who mounted is not believed.

use crate::mountinfo::{MountDevice, MountEntry};
use crate::{Error, Result};
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What the record ends with when all is well.
const COMPLETE: &str = "complete";

fn directories(uid: u32) -> Vec<PathBuf> {
    if uid == 0 {
        vec!["/run/spindle".into()]
    } else {
        vec![format!("/run/user/{uid}/spindle").into(), format!("/tmp/spindle-{uid}").into()]
    }
}

/// The daemon's side.
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
                Err(error) => problem = Some(Error::system(format!("no record in {}", dir.display()), error)),
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
            return Err(io::Error::other("it belongs to someone else"));
        }
        let path = dir.join(device.to_string());
        // What lies here is of a daemon that was killed: the number is ours now.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = File::options().write(true).create_new(true).mode(0o644).open(&path)?;
        let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| e)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self { file, path })
    }

    /// Says how it went. Those who wait go on when this process ends, because only then the image is free for the next.
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

    /// Takes the record away, unless the kernel has given the mount's number to another meanwhile, whose record is there now.
    fn remove(&self) -> std::io::Result<()> {
        let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        if id(fs::metadata(&self.path)?) == id(self.file.metadata()?) {
            fs::remove_file(&self.path)
        } else {
            Ok(())
        }
    }
}

/// The side of those who wait.
#[derive(Debug)]
pub(crate) struct Waiter {
    file: File,
}

impl Waiter {
    /// The record of a mount, if it has one.
    pub(crate) fn find(entry: &MountEntry) -> Option<Self> {
        let uid = entry.user_id?;
        directories(uid).into_iter().find_map(|dir| {
            let file = File::open(dir.join(entry.device.to_string())).ok()?;
            (file.metadata().ok()?.uid() == uid).then_some(Self { file })
        })
    }

    /// Waits until the daemon has finished.
    pub(crate) fn wait(self) -> Result<()> {
        let mut file = Flock::lock(self.file, FlockArg::LockShared)
            .map_err(|(_, e)| Error::system("cannot wait for the daemon", e))?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|e| Error::system("cannot read the daemon's record", e))?;
        match text.trim_end().split_once('\n') {
            Some((_, COMPLETE)) => Ok(()),
            Some((_, error)) => Err(Error::State(format!("the daemon ended with: {error}"))),
            None => Err(Error::State(format!(
                "the daemon (process {}) died before the image was complete",
                text.trim_end()
            ))),
        }
    }
}
