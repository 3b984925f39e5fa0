//! `spindle trace`: each thing it can do is a file of its own here.

mod analyze;
mod cachesim;
mod export;
mod import;
mod record;
mod replay;
mod report;
mod show;
mod synth;

use crate::error::Result;
use spindle_trace::{Columns, Source};
use std::path::Path;
use std::process::ExitCode;

/// Record what programs do with files, and learn what storage that needs
///
/// A trace is a file of events: opens, closes, seeks, deletions, with the bytes that were read and
/// written between them. It is kept as Parquet, so DuckDB, Polars and Spark read it as it is
/// (docs/SPEC-trace.md). Where a command wants a TRACE, any format that "spindle trace import"
/// knows will do as well.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    Analyze(analyze::Args),
    Cachesim(cachesim::Args),
    Export(export::Args),
    Import(import::Args),
    Replay(replay::Args),
    Report(report::Args),
    Record(record::Args),
    Show(show::Args),
    Synth(synth::Args),
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Analyze(args) => analyze::run(args),
        What::Cachesim(args) => cachesim::run(args),
        What::Export(args) => export::run(args),
        What::Import(args) => import::run(args),
        What::Replay(args) => replay::run(args),
        What::Report(args) => report::run(args),
        What::Record(args) => record::run(args),
        What::Show(args) => show::run(args),
        What::Synth(args) => synth::run(args),
    }
}

/// Opens a trace, and says so if its end is missing.
fn open(path: &Path, columns: Columns) -> Result<Box<dyn Source>> {
    Ok(told(path, spindle_trace::open(path, columns)?))
}

/// Says so if the end of `source` is missing.
fn told(path: &Path, source: Box<dyn Source>) -> Box<dyn Source> {
    if !source.is_finished() {
        log::warn!(
            "{}: the trace was not finished: who wrote it was killed, or is still at work; its end is missing",
            path.display()
        );
    }
    source
}
