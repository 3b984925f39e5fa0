//! The snapshots of a fast file system.

mod held;

use crate::control::{Name, Request, request};
use crate::error::{Context, Error, Result};
use crate::image::{Image, OpenOptions, Opened};
use crate::path;
use crate::walk::{Walk, When};
use serde::{Deserialize, Serialize};
use spindle_device::Spec;
use spindle_ffs::LogUse;
use spindle_vfs::{Attr, Cred, Ino};

pub use held::Held;

/// A snapshot that the superblock lists (`fs_snapinum`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its inode.
    pub ino: u32,
    /// Its path; none if no directory that can be read has a name of it.
    pub path: Option<Vec<u8>>,
    /// What its inode says; none if it is not that of a snapshot, or cannot be read.
    pub contents: Option<Contents>,
}

/// What the inode of a snapshot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// When the snapshot was made, in seconds since 1970.
    pub made: i64,
    /// Bytes of the file system then.
    pub size_bytes: u64,
    /// Bytes that the snapshot takes now.
    pub used_bytes: u64,
}

impl Contents {
    fn of(attr: &Attr) -> Self {
        // Nobody writes it after it was made.
        let made = attr.birthtime.unwrap_or(attr.mtime).secs;
        Self { made, size_bytes: attr.size, used_bytes: attr.blocks512 * 512 }
    }
}

/// Returns the snapshots of a file system, in the order of its superblock. `visit` is called with
/// each file on the way to their names.
///
/// # Errors
/// If there is no such thing in it; that of `visit`.
pub fn list(image: &Image, visit: &mut dyn FnMut() -> Result<()>) -> Result<Vec<Snapshot>> {
    let Opened::Ffs(ffs) = &image.kind else { return Err(Error::new(NONE)) };
    let vfs = image.vfs();
    let mut found: Vec<Snapshot> = Vec::new();
    for ino in ffs.superblock().snapshots() {
        let number = Ino(ino.into());
        let attr = image.fs().getattr(number).ok().filter(|_| image.fs().is_snapshot(number));
        found.push(Snapshot { ino, path: None, contents: attr.as_ref().map(Contents::of) });
    }
    let mut unnamed = found.len();
    let walk = vfs.root_node().map(|root| Walk::new(b"/", root));
    for seen in walk.into_iter().flatten().flatten().filter(|seen| seen.when != When::After) {
        if unnamed == 0 {
            break;
        }
        visit()?;
        let is_it = |snapshot: &&mut Snapshot| Ino(snapshot.ino.into()) == seen.attr.ino;
        if let Some(snapshot) = found.iter_mut().find(is_it).filter(|snapshot| snapshot.path.is_none()) {
            snapshot.path = Some(seen.path);
            unnamed -= 1;
        }
    }
    Ok(found)
}

/// Returns the snapshots of what is mounted, from the process that serves the mount of `spec`; none
/// if there is no such mount. `visit` is called while that looks for their names.
///
/// # Errors
/// As [`list`]; if the process does not answer this user.
pub fn list_mounted(spec: &Spec, visit: &mut dyn FnMut() -> Result<()>) -> Result<Option<Vec<Snapshot>>> {
    request(&Name::of_image(spec)?, &Request::Snapshots, &mut |_| visit()).context(spec)
}

/// Makes a snapshot of the file system in `spec` as it is now, under a new name, `path`; it is
/// durable then. If the file system is mounted, the process that serves the mount does it;
/// otherwise it is opened as `options` say, with a log, and unmounted.
///
/// # Errors
/// If the image cannot be opened or written; as [`Image::make_snapshot`].
pub fn make(spec: &Spec, path: &[u8], options: &OpenOptions) -> Result<()> {
    let asked = Request::Snapshot(path.to_vec());
    if let Some(()) = request(&Name::of_image(spec)?, &asked, &mut |_| Ok(())).context(spec)? {
        return Ok(());
    }
    let options = OpenOptions { log: LogUse::Wanted, ..options.clone() };
    change(spec, &options, |image| image.make_snapshot(path).map(drop))
}

/// Removes a snapshot of the file system in `spec` by its name. If the file system is mounted, the
/// process that serves the mount does it.
///
/// # Errors
/// If the file system cannot be opened or written; if there is no such snapshot; if the process
/// does not answer this user.
pub fn remove(spec: &Spec, path: &[u8], options: &OpenOptions) -> Result<()> {
    let asked = Request::RemoveSnapshot(path.to_vec());
    if let Some(()) = request(&Name::of_image(spec)?, &asked, &mut |_| Ok(())).context(spec)? {
        return Ok(());
    }
    change(spec, options, |image| image.remove_snapshot(path).map(drop))
}

/// Opens a file system for a change, and unmounts it in any case.
fn change(spec: &Spec, options: &OpenOptions, work: impl FnOnce(&Image) -> Result<()>) -> Result<()> {
    let image = Image::open(spec, options)?;
    image.check_writable().context(spec)?;
    let done = work(&image).context(spec);
    let unmounted = image.unmount().context(spec);
    done.and(unmounted)
}

impl Image {
    /// Makes a snapshot of the file system as it is now, under a new name; it is durable then, and
    /// belongs to the user of this process. Returns its directory.
    ///
    /// # Errors
    /// If there can be none ([`spindle_ffs::Ffs::make_snapshot`]), if there is no such directory,
    /// or if it has this name.
    pub fn make_snapshot(&self, path: &[u8]) -> Result<Ino> {
        let Opened::Ffs(ffs) = &self.kind else { return Err(Error::new(NONE)) };
        let vfs = self.vfs();
        let (dir, name) = path::resolve_parent(&vfs, path)?;
        path::permit_name(&vfs, dir.ino(), name).context(String::from_utf8_lossy(path))?;
        ffs.make_snapshot(dir.ino(), name, &own())
            .map(|_| dir.ino())
            .map_err(Error::from)
            .context(String::from_utf8_lossy(path))
    }

    /// Removes a snapshot by its name. Returns its directory.
    ///
    /// # Errors
    /// If there is no snapshot of this name, or if it cannot be removed.
    pub fn remove_snapshot(&self, path: &[u8]) -> Result<Ino> {
        let Opened::Ffs(_) = &self.kind else { return Err(Error::new(NONE)) };
        let vfs = self.vfs();
        let (dir, name) = path::resolve_parent(&vfs, path)?;
        let place = String::from_utf8_lossy(path);
        {
            let child = path::child(&vfs, dir.ino(), name).map_err(Error::from).context(&place)?;
            if !vfs.fs().is_snapshot(child.ino()) {
                return Err(Error::new(format!("{place}: is no snapshot")));
            }
        }
        vfs.unlink(&Cred::root(), dir.ino(), name).map_err(Error::from).context(&place)?;
        Ok(dir.ino())
    }
}

/// Returns the user of this process.
fn own() -> Cred<'static> {
    Cred::user(rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Why other file systems refuse.
const NONE: &str = "only UFS has snapshots";
