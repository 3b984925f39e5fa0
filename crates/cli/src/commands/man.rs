//! `spindle man`, for packagers: writes the manual pages, which are generated from the commands.

use crate::error::{Context, Failure, Result};
use crate::manual;
use crate::outfile::{self, Kind};
use spindle_clock::{Clock, SystemClock, Timestamp};
use std::path::PathBuf;
use std::process::ExitCode;

/// Write the manual pages into a directory
///
/// The pages show the current day, or that of SOURCE_DATE_EPOCH (seconds since 1970), if this
/// variable is set.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// The variable with the time that reproducible files show.
const TIME_VARIABLE: &str = "SOURCE_DATE_EPOCH";

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let date = match std::env::var(TIME_VARIABLE) {
        Ok(seconds) => Timestamp::new(seconds.parse().map_err(|_| wrong_time(&seconds))?, 0),
        Err(_) => SystemClock.now(),
    };
    std::fs::create_dir_all(&args.dir).context(args.dir.display())?;
    for page in manual::pages(date) {
        let file = args.dir.join(format!("{}.{}", page.name, page.section));
        outfile::write(&file, Kind::Result, page.source, false)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn wrong_time(seconds: &str) -> Failure {
    Failure::usage(format!("{TIME_VARIABLE}: {seconds}: not a number of seconds since 1970"))
}
