//! `spindle man`, for packagers: writes the manual pages, which are generated from the commands.

use crate::commands::Cli;
use crate::error::{Context, Result};
use clap::CommandFactory;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write the manual pages into a directory
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    std::fs::create_dir_all(&args.dir).context(args.dir.display())?;
    clap_mangen::generate_to(Cli::command(), &args.dir).context(args.dir.display())?;
    Ok(ExitCode::SUCCESS)
}
