//! Mount points as names of what is mounted there, as the tools of BSD take them.

use crate::error::{Failure, Result};
use crate::text;
use spindle::control::{Name, Request, request};
use spindle::detect::{Found, detect};
use spindle::image::open_device_unlocked;
use spindle::mounted::Description;
use spindle::set::{MountedAt, Named, NamedMount};
use spindle::{Spec, partition};
use spindle_fuse::FuseMount;
use std::path::Path;

/// Returns the mount on the directory `name`; none if that is no directory.
///
/// # Errors
/// If nothing is mounted there, or something else than a FUSE file system.
pub fn on(name: &Path) -> Result<Option<FuseMount>> {
    match std::fs::metadata(name) {
        Ok(found) if !found.is_dir() => Ok(None),
        Ok(_) => FuseMount::on(name).map(Some).map_err(|error| {
            Failure::new(format!("{error}; name an image, or the directory where one is mounted"))
        }),
        // That of another user's mount, or of one whose daemon has died, cannot be looked at.
        Err(_) => Ok(FuseMount::on(name).ok()),
    }
}

/// Returns where the file system in an image is mounted; none also if its mount does not say
/// that to this user.
pub fn of_image(spec: &Spec) -> Option<MountedAt> {
    let name = Name::of_image(spec).ok()?;
    let Description { dir, read_only, detached, .. } = describe(&name)?;
    Some(MountedAt { dir, read_only, detached })
}

/// Returns where something is mounted, in words.
pub fn place(at: &MountedAt) -> String {
    let dir = text::quoted(at.dir.as_bytes());
    if at.detached { format!("and in use, but detached from {dir} (umount -l)") } else { format!("on {dir}") }
}

/// Refuses a fast file system that is mounted and may change; `instead` says what else can be done
/// with a snapshot of it.
pub fn refuse_changing(spec: &Spec, instead: &str) -> Result<()> {
    let Some(at) = of_image(spec).filter(|at| !at.read_only) else { return Ok(()) };
    if !matches!(detect(&*open_device_unlocked(spec)?), Ok(Found::Ffs(_))) {
        return Ok(());
    }
    let place = place(&at);
    Err(Failure::new(format!("{spec}: is mounted {place}, and changes; {instead}, or unmount it")))
}

/// Returns the image that is mounted on the directory `name`; none if that is no directory.
///
/// # Errors
/// As [`on`]; if the image cannot be found.
pub fn image_on(name: &str) -> Result<Option<Spec>> {
    let Some(mount) = on(Path::new(name))? else { return Ok(None) };
    let says = describe(&Name::of_mount(&mount.device, mount.user));
    image_of(&mount, says.as_ref()).map(Some)
}

/// Returns what names the set of this name: a member, or the directory where it is mounted.
///
/// # Errors
/// As [`image_on`].
pub fn set(name: &str) -> Result<Named> {
    let Some(mount) = on(Path::new(name))? else { return Ok(Named::Member(partition::find(name)?)) };
    let asked = Name::of_mount(&mount.device, mount.user);
    let says = describe(&asked);
    match says.as_ref().and_then(|says| says.set.clone()).zip(says.clone()) {
        Some((set, says)) => Ok(Named::Mount(Box::new(NamedMount { name: asked, says, set }))),
        None => Ok(Named::Member(image_of(&mount, says.as_ref())?)),
    }
}

/// Returns what a mount says of itself; none if it says nothing to this user.
fn describe(asked: &Name) -> Option<Description> {
    request(asked, &Request::Describe, &mut |_| Ok(())).ok().flatten()
}

/// Returns the image that is mounted.
fn image_of(mount: &FuseMount, says: Option<&Description>) -> Result<Spec> {
    match says {
        Some(says) => Ok(Spec::parse(&says.image)?),
        // The table of mounts has what was named, unless an option has given it another name.
        None => Ok(partition::find(&mount.source.to_string_lossy())?),
    }
}
