//! `spindle umount`

use crate::commands::mount::MOUNT_FAILED;
use crate::error::{Failure, Result};
use std::path::PathBuf;
use std::process::ExitCode;

/// Unmount a file system and wait until its image is complete
///
/// umount(8) unmounts too, but returns while the daemon may still be writing: an image is safe to
/// copy only when this command has returned.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0   the image is complete and can be moved or mounted elsewhere
    32  it could not be unmounted, or the image is not known to be complete")]
pub struct Args {
    /// The directories that something is mounted on
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
}

impl Args {
    /// As umount(8) calls its helper.
    pub fn from_helper(dir: PathBuf) -> Self {
        Self { dirs: vec![dir] }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    for dir in &args.dirs {
        spindle_fuse::umount(dir).map_err(|e| Failure::new(e.to_string()).with_code(MOUNT_FAILED))?;
    }
    Ok(ExitCode::SUCCESS)
}
