//! `spindle umount`

use crate::commands::mount::MOUNT_FAILED;
use crate::error::{Failure, Result};
use std::path::PathBuf;
use std::process::ExitCode;

/// Unmount a file system and wait until its image is complete
///
/// umount(8) returns while the daemon may still be writing the image. After this command the image
/// is complete and safe to copy.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0   the image is complete and can be moved or mounted elsewhere
    32  the unmount failed, or the image may be incomplete")]
pub struct Args {
    /// The mount points
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
}

impl Args {
    /// Returns the arguments with which umount(8) calls its helper.
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
