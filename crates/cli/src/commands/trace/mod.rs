//! `spindle trace`: each of its commands has its own file here.

mod analyze;
mod analyzed;
mod cachesim;
mod container;
mod diff;
mod export;
mod filter;
mod import;
mod merge;
mod parts;
mod record;
mod replay;
mod report;
mod selection;
mod show;
mod synth;
mod top;

pub use replay::parse_speed;

use crate::error::{Failure, Result};
use crate::logger;
use crate::outfile::{Kind, Out, OutArgs};
use crate::progress::Progress;
use spindle_trace::format::Writer;
use spindle_trace::{Batch, Columns, Source};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Record and analyse how programs use files
///
/// A trace is a file of events: opens, closes, seeks and deletions, with the bytes that were read
/// and written between them. Its format is Parquet, so DuckDB, Polars and Spark can read it
/// (docs/SPEC-trace.md). The commands accept as TRACE also any format that "spindle trace import"
/// knows.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    Analyze(analyze::Args),
    Cachesim(cachesim::Args),
    Diff(diff::Args),
    Export(export::Args),
    Filter(filter::Args),
    Import(import::Args),
    Merge(merge::Args),
    Replay(replay::Args),
    Report(report::Args),
    Record(record::Args),
    Top(top::Args),
    Show(show::Args),
    Synth(synth::Args),
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.action {
        Action::Analyze(args) => analyze::run(args),
        Action::Cachesim(args) => cachesim::run(args),
        Action::Diff(args) => diff::run(args),
        Action::Export(args) => export::run(args),
        Action::Filter(args) => filter::run(args),
        Action::Import(args) => import::run(args),
        Action::Merge(args) => merge::run(args),
        Action::Replay(args) => replay::run(args),
        Action::Report(args) => report::run(args),
        Action::Record(args) => record::run(args),
        Action::Top(args) => top::run(args),
        Action::Show(args) => show::run(args),
        Action::Synth(args) => synth::run(args),
    }
}

/// Refuses standard input as a trace that is read more than once.
pub fn refuse_stdin(path: &Path) -> Result<()> {
    if path == Path::new("-") {
        return Err(Failure::usage("standard input: the trace is read several times; name a file"));
    }
    Ok(())
}

/// Refuses a trace that is named twice: its events would count twice, and a pipe can be read only
/// once.
fn refuse_twice(traces: &[PathBuf]) -> Result<()> {
    let id = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    for (n, trace) in traces.iter().enumerate() {
        let same =
            |other: &&PathBuf| *other == trace || id(other).is_some_and(|found| id(trace) == Some(found));
        if let Some(other) = traces[..n].iter().find(same) {
            let (one, two) = (other.display(), trace.display());
            return Err(Failure::usage(format!("{two}: this trace is named twice, first as {one}")));
        }
    }
    Ok(())
}

/// Returns the name of a trace, without its directory.
fn name(trace: &Path) -> String {
    trace.file_name().unwrap_or(trace.as_os_str()).to_string_lossy().into_owned()
}

/// Opens a trace, and warns if its end is missing, or accesses are.
pub fn open(path: &Path, columns: Columns) -> Result<Box<dyn Source>> {
    let source = warn_if_unfinished(path, spindle_trace::open(path, columns)?);
    for note in source.info().gaps() {
        logger::note(format_args!("{}: {note}", path.display()));
    }
    Ok(source)
}

/// Warns if the end of `source` is missing.
fn warn_if_unfinished(path: &Path, source: Box<dyn Source>) -> Box<dyn Source> {
    if !source.is_finished() {
        log::warn!(
            "{}: the trace is not finished: its writer was killed or is still running, or the file \
             was cut off; the end is missing",
            path.display()
        );
    }
    source
}

/// Writes the events of `source` as a trace, which counts as unfinished if they do; `work` says on
/// the terminal what is done. Returns the number of events.
fn write(source: &mut dyn Source, to: &Path, args: OutArgs, work: &'static str) -> Result<u64> {
    let out = Out::create(to, Kind::Trace, args.force)?;
    let mut writer = Writer::new(out.handle()?, Path::new(&out.name))?;
    let bar = Progress::of_fraction(work);
    let mut batch = Batch::default();
    while source.next(&mut batch)? {
        writer.write(&batch)?;
        bar.set_fraction(source.progress());
    }
    drop(bar);
    let info = source.info();
    let events =
        if source.is_finished() { writer.finish(&info)? } else { writer.finish_unfinished(&info)? };
    let name = out.name.clone();
    out.finish()?;
    log::info!("{name}: {events} events");
    Ok(events)
}
