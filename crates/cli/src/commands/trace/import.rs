//! `spindle trace import`

use crate::error::Result;
use crate::progress::Progress;
use spindle_trace::format::{Columns, Writer};
use spindle_trace::{Batch, open};
use std::path::PathBuf;
use std::process::ExitCode;

/// Turn another tool's trace into one of ours
///
/// The format is known by its content.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the trace cannot be read or written    2  the command line makes no sense")]
pub struct Args {
    /// The trace to read
    #[arg(value_name = "TRACE")]
    from: PathBuf,
    /// The file to write
    #[arg(value_name = "FILE")]
    to: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut source = open(&args.from, Columns::ALL)?;
    let mut writer = Writer::create(&args.to)?;
    let bar = Progress::of_parts("importing");
    let mut batch = Batch::default();
    while source.next(&mut batch)? {
        writer.write(&batch)?;
        bar.fraction(source.progress());
    }
    drop(bar);
    let events = writer.finish(&source.info())?;
    log::info!("{}: {events} events", args.to.display());
    Ok(ExitCode::SUCCESS)
}
