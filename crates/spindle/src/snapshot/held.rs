//! A mounted file system as it is at one moment, for a program that reads it: a snapshot that lives
//! as long as the program has it open.
//!
//! It has a name in the directory `.snap` of the mount only until it is open, as those of dump(8)
//! and fsck(8) of FreeBSD. From then on it is an open file without a name: it is freed when it is
//! closed, however the program ends, and by the recovery after a crash.

use crate::control::{Name, Request, request};
use crate::error::{Context, Error, Result};
use crate::image::{Image, OpenOptions};
use crate::mounted::Description;
use rustix::fs::{Access, FlockOperation};
use rustix::io::Errno;
use spindle_cache::Settings;
use spindle_clock::{Clock, SystemClock};
use spindle_device::{Device, Part, Spec};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The directory for snapshots, which FreeBSD's newfs makes.
const DIR: &str = ".snap";
/// How often it is tried again to be the only program that begins here.
const TRY: Duration = Duration::from_millis(50);

/// A mounted file system as it was when this was made, until this is dropped.
pub struct Held {
    /// The name that it had.
    spec: Spec,
    device: Arc<dyn Device>,
}

impl Held {
    /// Holds the file system in `spec` as it is now, with all that was written before, if it is
    /// mounted so that it can change; none if it is not, and can be read itself. For a moment the
    /// snapshot is called `name`, in the directory `.snap` of the mount. `step` is called while it
    /// waits.
    ///
    /// # Errors
    /// Where no snapshot can be made, see [`Image::make_snapshot`]; if another user has mounted it;
    /// if there is no such directory, or this user may not write it; if the name exists; those of
    /// `step`, and then there is no snapshot either.
    pub fn make(spec: &Spec, name: &str, step: &mut dyn FnMut() -> Result<()>) -> Result<Option<Self>> {
        let asked = Name::of_image(spec)?;
        let says: Option<Description> = request(&asked, &Request::Describe, &mut |_| step()).context(spec)?;
        let Some(says) = says.filter(|says| !says.read_only) else { return Ok(None) };
        let dir = directory(&says).context(spec)?;
        let _only = only_one(&dir, step)?;
        let path = dir.join(name);
        let asked_for = Request::Snapshot(format!("/{DIR}/{name}").into_bytes());
        let left = |error: Error| match path.symlink_metadata() {
            Err(_) => error,
            Ok(_) => Error::new(format!(
                "{error}; unless it is yours, a program that was killed has left it: remove it (rm {})",
                path.display()
            )),
        };
        let made = request(&asked, &asked_for, &mut |_| step()).map_err(left).context(spec)?;
        let Some(()) = made else { return Err(Error::new(format!("{spec}: is not mounted any more"))) };
        let spec = Spec { path: path.clone(), part: Part::Whole };
        let device = spec.open(&spindle_device::OpenOptions::read_only());
        std::fs::remove_file(&path).map_err(Error::from).context(path.display())?;
        step()?;
        Ok(Some(Self { spec, device: device? }))
    }

    /// Returns the device that the snapshot is.
    #[must_use]
    pub const fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Opens the file system in it for reading.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn open(&self, options: &OpenOptions) -> Result<Image> {
        let options = OpenOptions { read_only: true, ..options.clone() };
        let cache = options.cache.unwrap_or_default();
        let cache = Settings { data: cache.data.on_image_file(), ..cache };
        Image::open_device(&self.spec, Arc::clone(&self.device), cache, &options).context(&self.spec)
    }
}

/// Returns the directory for snapshots of a mount, which this user can write.
fn directory(says: &Description) -> Result<PathBuf> {
    let mount = Path::new(&says.dir);
    if says.detached {
        let what = "is in use, but detached from its directory (umount -l), where a snapshot would be read";
        return Err(Error::new(format!("{what}; end the programs that use it")));
    }
    // Something else may have been mounted over it.
    let found = std::fs::metadata(mount).map_err(Error::from).context(mount.display())?;
    let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    if format!("{major}:{minor}") != says.device {
        let place = mount.display();
        return Err(Error::new(format!(
            "{place} shows something else, which is mounted over it; unmount that"
        )));
    }
    let dir = mount.join(DIR);
    let place = dir.display();
    match rustix::fs::access(&dir, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(dir),
        Err(Errno::NOENT | Errno::NOTDIR) => Err(Error::new(format!(
            "there is no directory {place} for its snapshot; make one (mkdir {place})"
        ))),
        Err(Errno::ACCESS) => Err(Error::new(format!(
            "its snapshot would be in {place}, where this user may not write; make that directory anew, \
             as this user (rmdir {place}; mkdir {place})"
        ))),
        Err(error) => Err(Error::from(error)).context(format_args!("its snapshot would be in {place}")),
    }
}

/// Waits until no other program begins with a snapshot in a directory. The result keeps others off
/// until it is dropped.
fn only_one(dir: &Path, step: &mut dyn FnMut() -> Result<()>) -> Result<File> {
    let opened = File::open(dir).map_err(Error::from).context(dir.display())?;
    loop {
        match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(opened),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(error) => return Err(Error::from(error)).context(dir.display()),
        }
        step()?;
        SystemClock.sleep(TRY);
    }
}
