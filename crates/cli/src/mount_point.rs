//! Mount points as names of what is mounted there, as the tools of BSD take them.

use crate::error::{Failure, Result};
use crate::text;
use spindle::control::{Name, Request, request};
use spindle::mounted::Description;
use spindle::set::MountedAt;
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
    let Description { dir, read_only, detached, .. } =
        request(&name, &Request::Describe, &mut |_| Ok(())).ok().flatten()?;
    Some(MountedAt { dir, read_only, detached })
}

/// Returns where something is mounted, in words.
pub fn place(at: &MountedAt) -> String {
    let dir = text::quoted(at.dir.as_bytes());
    if at.detached { format!("and in use, but detached from {dir} (umount -l)") } else { format!("on {dir}") }
}

/// Returns the image that is mounted on the directory `name`; none if that is no directory.
///
/// # Errors
/// As [`on`]; if the image cannot be found.
pub fn image_on(name: &str) -> Result<Option<Spec>> {
    let Some(mount) = on(Path::new(name))? else { return Ok(None) };
    let served = Name::of_mount(&mount.device, mount.user);
    match request::<Description>(&served, &Request::Describe, &mut |_| Ok(())) {
        Ok(Some(description)) => Ok(Some(Spec::parse(&description.image)?)),
        // The table of mounts has what was named, unless an option has given it another name.
        _ => Ok(Some(partition::find(&mount.source.to_string_lossy())?)),
    }
}
