//! `spindle trace export`

use crate::error::{Context, Result};
use crate::outfile::{self, Kind, Out, OutArgs};
use crate::progress::Progress;
use spindle_trace::export::{To, export};
use spindle_trace::format::Columns;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Export a trace as requests for other cache simulators
///
/// Each read or write of a block becomes a request, in the order of the trace. Blocks are numbered
/// in the order of their first access; the blocks of a deleted file are not requested again. Files
/// that were only mapped into memory make no requests.
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
    /// The file to write; - for standard output
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
    let (to, kind) = match args.format {
        Format::OracleGeneral => (To::OracleGeneral, Kind::Requests),
        Format::Csv => (To::Csv, Kind::RequestTable),
    };
    outfile::check(&args.to, kind, args.out.force)?;
    let mut source = super::open(&args.from, Columns::NUMBERS)?;
    let out = Out::create(&args.to, kind, args.out.force)?;
    // Records are filled in backwards, which a pipe cannot do.
    let scratch = (to == To::OracleGeneral && out.is_stream()).then(outfile::scratch).transpose()?;
    let file = match &scratch {
        Some(scratch) => scratch.try_clone().context("a temporary file")?,
        None => out.handle()?,
    };
    let bar = Progress::of_fraction("exporting");
    let file = (file, Path::new(&out.name));
    let done = export(&mut *source, to, args.block, file, |part| bar.set_fraction(part))?;
    drop(bar);
    if let Some(mut scratch) = scratch {
        scratch.rewind().context("a temporary file")?;
        io::copy(&mut scratch, &mut out.file()).context(&out.name)?;
    }
    log::info!("{}: {} requests for {} blocks", out.name, done.requests, done.blocks);
    if done.mapped > 0 {
        log::warn!(
            "{}: {} bytes of files were mapped into memory; the trace does not say what of them was touched, \
             so none is exported",
            args.from.display(),
            done.mapped
        );
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
