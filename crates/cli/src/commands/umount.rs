//! `spindle umount`

use crate::commands::mount::{MOUNT_FAILED, remount};
use crate::error::{Failure, Result};
use crate::logger;
use spindle_fuse::{Umount, umount};
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
    /// The mount points
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
}

impl Args {
    /// Returns the arguments with which umount(8) calls its helper.
    pub fn from_helper(dir: PathBuf, lazy: bool, force: bool, read_only: bool) -> Self {
        Self { lazy, force, read_only, dirs: vec![dir] }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let how = match args {
        Args { lazy: true, .. } => Umount::Lazy,
        Args { force: true, .. } => Umount::Force,
        _ => Umount::Unused,
    };
    for dir in &args.dirs {
        unmount(dir, how, args.read_only).map_err(|failure| failure.with_code(MOUNT_FAILED))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn unmount(dir: &Path, how: Umount, read_only: bool) -> Result<()> {
    match umount(dir, how) {
        Err(error) if read_only && error.is_busy() => {
            remount(dir, "remount,ro")?;
            logger::note(format_args!("{} is in use; it is read-only now", dir.display()));
            Ok(())
        }
        result => result.map_err(|error| Failure::new(error.to_string())),
    }
}
