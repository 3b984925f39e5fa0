//! `spindle trace import`

use super::warn_if_unfinished;
use crate::error::Result;
use crate::outfile::{self, Kind, OutArgs};
use crate::output::Output;
use spindle_trace::{Columns, FORMATS, open_as};
use std::path::PathBuf;
use std::process::ExitCode;

/// Convert the trace of another tool
///
/// The format is detected from the content if possible; otherwise give it with --format. Files
/// compressed with gzip or zstd are decompressed. Notes in the new trace say what the format does
/// not contain and what was not understood; -v prints them.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the trace cannot be read or written    2  invalid command line

EXAMPLES
    strace -f -ttt -y -o make.strace make
    spindle trace import make.strace make.trace
    blktrace -d /dev/sdb -o - | blkparse -i - | spindle trace import - sdb.trace
    spindle trace import src1_0.csv.gz src1_0.trace
    spindle trace import --format csv:time-col=2,obj-id-col=5,obj-size-col=4 \\
        req.csv req.trace")]
pub struct Args {
    /// The format, if it cannot be detected: NAME, or NAME:SETTING=VALUE,...
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// List the formats and their settings
    #[arg(long, exclusive = true)]
    list_formats: bool,
    /// The trace to read; - for standard input
    #[arg(value_name = "TRACE", required_unless_present = "list_formats")]
    from: Option<PathBuf>,
    /// The file to write; - for standard output
    #[arg(value_name = "FILE", required_unless_present = "list_formats")]
    to: Option<PathBuf>,
    #[command(flatten)]
    out: OutArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (Some(from), Some(to)) = (&args.from, &args.to) else { return list() };
    outfile::refuse_input(to, from)?;
    outfile::check(to, Kind::Trace, args.out.force)?;
    let mut source = warn_if_unfinished(from, open_as(from, args.format.as_deref(), Columns::ALL)?);
    super::write(&mut *source, to, args.out, "importing")?;
    for note in source.info().notes {
        log::info!("{}: {note}", from.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn list() -> Result<ExitCode> {
    let mut out = Output::stdout();
    for format in FORMATS {
        out.line(format!("{:<16} {}", format.name, format.about))?;
        for (name, what) in format.settings {
            out.line(format!("    {name:<12} {what}"))?;
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
