//! `spindle umount`

use crate::commands::mount::{MOUNT_FAILED, remount};
use crate::error::{Context, Failure, Result};
use crate::logger;
use spindle::control::{Name, Request, request};
use spindle::partition;
use spindle_device::Spec;
use spindle_fuse::{FuseMount, Umount, fuse_mounts, umount};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Unmount a file system and wait until its image is complete
///
/// umount(8) returns while the daemon may still be writing the image. After this command the image
/// is complete and safe to copy.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0   the image is complete and can be moved or mounted elsewhere; with -l, it is detached; with
        -r, it is read-only
    32  the unmount failed, or the image may be incomplete")]
pub struct Args {
    /// Detach it from its directory now, and let it end with its last use; does not wait for that
    #[arg(short = 'l', long)]
    lazy: bool,
    /// Unmount even if it is in use, provided that its daemon has died
    #[arg(short = 'f', long)]
    force: bool,
    /// If it is in use, remount it read-only
    #[arg(short = 'r', long)]
    read_only: bool,
    /// The mount points, or the images
    #[arg(value_name = "DIR|IMAGE", required = true)]
    mounts: Vec<PathBuf>,
}

impl Args {
    /// Returns the arguments with which umount(8) calls its helper.
    pub fn from_helper(dir: PathBuf, lazy: bool, force: bool, read_only: bool) -> Self {
        Self { lazy, force, read_only, mounts: vec![dir] }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let how = match args {
        Args { lazy: true, .. } => Umount::Lazy,
        Args { force: true, .. } => Umount::Force,
        _ => Umount::Unused,
    };
    for named in &args.mounts {
        let unmounted = mount_point(named).and_then(|dir| unmount(&dir, how, args.read_only));
        unmounted.map_err(|failure| failure.with_code(MOUNT_FAILED))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the directory on which something is mounted that is named by its directory or its image.
fn mount_point(named: &Path) -> Result<PathBuf> {
    // A directory whose daemon has died cannot be looked at.
    let Some(mut spec) = named.to_str().and_then(|named| Spec::parse(named).ok()) else {
        return Ok(named.to_owned());
    };
    if !std::fs::metadata(&spec.path).is_ok_and(|found| !found.is_dir()) {
        return Ok(named.to_owned());
    }
    spec.path = spec.path.canonicalize().context(spec.path.display())?;
    // The table of mounts has what was named, or the device of the partition.
    let mut sources = vec![named.to_owned(), spec.to_string().into()];
    sources.extend(partition::choose(spec).and_then(|spec| Ok(spec.place()?.path)));
    let mounts = fuse_mounts().map_err(|error| Failure::new(error.to_string()))?;
    let of_image = mounts.into_iter().filter(|mount| sources.contains(&mount.source));
    let mut dirs: Vec<PathBuf> = of_image.map(|mount| mount.dir).collect();
    match (dirs.pop(), &dirs[..]) {
        (Some(dir), []) => Ok(dir),
        (None, _) => Err(Failure::new("is not mounted")).context(named.display()),
        (Some(last), others) => {
            let all = others.iter().chain([&last]).map(|dir| dir.display().to_string());
            let all = all.collect::<Vec<_>>().join(", ");
            Err(Failure::new(format!("is mounted on {all}; name one of them"))).context(named.display())
        }
    }
}

fn unmount(dir: &Path, how: Umount, read_only: bool) -> Result<()> {
    if how != Umount::Lazy
        && let Ok(mount) = FuseMount::on(dir)
        && let user = rustix::process::geteuid()
        && !user.is_root()
        && user.as_raw() != mount.user
    {
        let served = Name::of_mount(&mount.device, mount.user);
        if request::<()>(&served, &Request::Unmount, &mut |_| Ok(())).context(dir.display())?.is_some() {
            return Ok(());
        }
    }
    match umount(dir, how) {
        Err(error) if read_only && error.is_busy() => {
            remount(dir, "remount,ro")?;
            logger::note(format_args!("{} is in use; it is read-only now", dir.display()));
            Ok(())
        }
        result => result.map_err(|error| Failure::new(error.to_string())),
    }
}
