//! `spindle trace export`

use crate::error::Result;
use crate::outfile::{self, OutArgs};
use crate::progress::Progress;
use spindle_trace::export::{To, export};
use spindle_trace::format::Columns;
use std::path::PathBuf;
use std::process::ExitCode;

/// Export a trace as requests for other cache simulators
///
/// Each read or write of a block becomes a request, in the order of the trace. Blocks are numbered
/// in the order of their first access; the blocks of a deleted file are not requested again.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the trace cannot be read or written    2  invalid command line

EXAMPLES
    spindle trace export --format oracle-general build.trace build.bin
    cachesim build.oracleGeneral.bin oracleGeneral lru 64mb")]
pub struct Args {
    /// Output format: libCacheSim's records, or a table with the columns time, object, size and op
    #[arg(long, value_enum, value_name = "NAME", default_value = "oracle-general")]
    format: Format,
    /// Block size in bytes (k and m for powers of 1024)
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = crate::text::parse_bytes)]
    block: u64,
    /// The trace
    #[arg(value_name = "TRACE")]
    from: PathBuf,
    /// The file to write
    #[arg(value_name = "FILE")]
    to: PathBuf,
    #[command(flatten)]
    out: OutArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    OracleGeneral,
    Csv,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    outfile::refuse_input(&args.to, &args.from)?;
    outfile::check(&args.to, args.out.force)?;
    let mut source = super::open(&args.from, Columns::NUMBERS)?;
    let to = match args.format {
        Format::OracleGeneral => To::OracleGeneral,
        Format::Csv => To::Csv,
    };
    let bar = Progress::of_fraction("exporting");
    let done = export(&mut *source, to, args.block, &args.to, |part| bar.set_fraction(part))?;
    drop(bar);
    log::info!("{}: {} requests for {} blocks", args.to.display(), done.requests, done.blocks);
    Ok(ExitCode::SUCCESS)
}
