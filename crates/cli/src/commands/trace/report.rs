//! `spindle trace report`

use super::analyze::html;
use crate::commands::advise;
use crate::error::Result;
use crate::outfile::{self, Kind, OutArgs};
use crate::output::Output;
use crate::progress::Progress;
use spindle_lab::advice::{self, Bounds, Wanted};
use spindle_lab::measured::Measured;
use spindle_report::render;
use spindle_trace::format::Columns;
use std::path::PathBuf;
use std::process::ExitCode;

/// What is simulated of the trace, less than by "spindle advise": a report is mostly about the
/// rest.
const BOUNDS: Bounds =
    Bounds { events: 20_000, calls: 500_000, moved: 2 << 30, files: 2 << 30, left: 20_000 };

/// Advise on storage for the load in a trace, and show what is in it
///
/// The advice of "spindle advise" comes first, from a shorter stretch of the trace, on the disk
/// that is its default. The tables of "spindle trace analyze" and "spindle trace cachesim" follow.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the trace cannot be read, or the report not written    2  invalid command line

EXAMPLES
    spindle trace report build.trace
    spindle trace report --html build.html build.trace
    spindle trace report --json build.trace | jq -r '.ranked.commands.newfs'")]
pub struct Args {
    /// Print only the advice
    #[arg(short, long)]
    brief: bool,
    /// Print the advice as JSON
    #[arg(long, conflicts_with = "brief")]
    json: bool,
    /// Write an HTML page with everything into this file, and print only what --brief or --json ask
    /// for
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    out: OutArgs,
    /// Do not show the figures of 1985
    #[arg(long)]
    no_paper: bool,
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    super::refuse_stdin(&args.trace)?;
    if let Some(file) = &args.html {
        outfile::refuse_input(file, &args.trace)?;
        outfile::check(file, Kind::Page, args.out.force)?;
    }
    // Warns once about a missing end, instead of in each pass.
    drop(super::open(&args.trace, Columns::NUMBERS)?);
    let advice = advise::simulated(&args.trace, &Wanted { bounds: BOUNDS, ..Wanted::default() })?;
    let is_asked_for = args.json || args.brief;
    let mut sections = vec![advice::section(&advice)];
    if args.html.is_some() || !is_asked_for {
        let bar = Progress::of_fraction("reading");
        let mut measured =
            Measured::of(&|| spindle_trace::open(&args.trace, Columns::ALL), &|what, done| {
                bar.set_message(what);
                bar.set_fraction(done);
            })?;
        drop(bar);
        measured.findings.totals.file_bytes = std::fs::metadata(&args.trace).ok().map(|found| found.len());
        sections.extend(measured.sections(!args.no_paper));
        if let Some(file) = &args.html {
            let text = html(&[super::name(&args.trace)], "report", &measured.findings, &sections)?;
            outfile::write(file, Kind::Page, text, args.out.force)?;
        }
    }
    if args.html.as_deref().is_some_and(|file| outfile::is_stdout(file) || !is_asked_for) {
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = Output::stdout();
    if args.json {
        out.json(&advice)?;
    } else {
        let shown = if args.brief { &sections[..1] } else { &sections };
        out.text(render::sections(shown).trim_start())?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
