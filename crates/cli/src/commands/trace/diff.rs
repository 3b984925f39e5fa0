//! `spindle trace diff`

use crate::error::Result;
use crate::output::Output;
use crate::progress::Progress;
use serde::Serialize;
use spindle_analyze::difference::{Comparison, Sample, compare, sections};
use spindle_report::render;
use spindle_trace::Columns;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show what differs between two traces beyond noise
///
/// Analyses both traces and compares the counts and rates of events and bytes, the order of access,
/// and the sizes, times and lifetimes of files. A figure differs if chance alone would hardly make
/// the difference: if the intervals in which the two figures would lie in 99 of 100 traces of the
/// same load have nothing in common. The more a figure varies over the time of its trace, the wider
/// its interval is. The ratio is the second figure divided by the first.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done, whatever differs    1  a trace cannot be read    2  invalid command line

EXAMPLES
    spindle trace diff before.trace after.trace
    spindle trace diff --all monday.trace tuesday.trace
    spindle trace diff --json before.trace after.trace |
        jq -r '.comparisons[].figures[] | select(.differs) | .name'")]
pub struct Args {
    /// Also show the figures that are within noise
    #[arg(short, long)]
    all: bool,
    /// Print all figures as JSON, with their intervals
    #[arg(long, conflicts_with = "all")]
    json: bool,
    /// The first trace
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The second trace
    #[arg(value_name = "AFTER")]
    after: PathBuf,
}

/// The comparison, as JSON.
#[derive(Serialize)]
struct Report<'a> {
    before: Side<'a>,
    after: Side<'a>,
    comparisons: &'a [Comparison],
}

/// One of the traces.
#[derive(Serialize)]
struct Side<'a> {
    trace: &'a Path,
    seconds: f64,
    events: u64,
    lost: u64,
}

impl<'a> Side<'a> {
    fn new(trace: &'a Path, sample: &Sample) -> Self {
        let totals = &sample.findings().totals;
        Self { trace, seconds: totals.seconds(), events: totals.records(), lost: totals.lost }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let find = |trace: &Path| -> Result<Sample> {
        let mut source = super::open(trace, Columns::USAGE)?;
        let bar = Progress::of_fraction("analysing");
        Ok(Sample::of(&mut *source, |done| bar.set_fraction(done))?)
    };
    let (before, after) = (find(&args.before)?, find(&args.after)?);
    let comparisons = compare(&before, &after);
    let sides =
        [(&args.before, &before), (&args.after, &after)].map(|(trace, sample)| Side::new(trace, sample));
    let mut out = Output::stdout();
    if args.json {
        let [before, after] = sides;
        out.json(&Report { before, after, comparisons: &comparisons })?;
    } else {
        for side in &sides {
            let lost = if side.lost > 0 { format!(", {} lost", side.lost) } else { String::new() };
            out.line(format!(
                "{}: {} events{lost} in {:.1} seconds",
                side.trace.display(),
                side.events,
                side.seconds
            ))?;
        }
        let names =
            sides.map(|side| side.trace.file_name().unwrap_or(side.trace.as_os_str()).to_string_lossy());
        out.text(&render::sections(&sections(&comparisons, names.each_ref().map(AsRef::as_ref), args.all)))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
