//! `spindle trace report`

use super::analyze::html;
use crate::error::Result;
use crate::outfile::{self, OutArgs};
use crate::output::Output;
use crate::progress::Progress;
use spindle_lab::advice::{Measured, advise};
use spindle_report::render;
use spindle_trace::format::Columns;
use std::path::PathBuf;
use std::process::ExitCode;

/// Say what storage a trace asks for
///
/// Analyses the trace, simulates caches over it, and says what that advises: size of blocks and
/// fragments, size of the cache and when it should write, clusters, whether control data and the
/// log want devices of their own. Each advice comes with the figures that it rests on. Before it
/// stands what "spindle trace analyze" and "spindle trace cachesim" tell.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the trace cannot be read, or the report not written    2  the command line makes no sense

EXAMPLES
    spindle trace report --brief build.trace
    spindle trace report --html build.html build.trace
    spindle trace report --json build.trace | jq -r '.[] | \"\\(.topic): \\(.advice)\"'")]
pub struct Args {
    /// Tell the advice alone
    #[arg(short, long)]
    brief: bool,
    /// Tell the advice as JSON
    #[arg(long, conflicts_with = "brief")]
    json: bool,
    /// Write a page with everything, for a browser, into this file as well
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    out: OutArgs,
    /// Do not show what was found in 1985 beside it
    #[arg(long)]
    no_paper: bool,
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(file) = &args.html {
        outfile::spare(file, &args.trace)?;
        outfile::check(file, args.out.force)?;
    }
    // Says once what each of the passes would say.
    drop(super::open(&args.trace, Columns::NUMBERS)?);
    let bar = Progress::of_parts("reading");
    let mut measured = Measured::of(&|| spindle_trace::open(&args.trace, Columns::ALL), &|what, done| {
        bar.say(what);
        bar.fraction(done);
    })?;
    drop(bar);
    measured.findings.totals.file_bytes = std::fs::metadata(&args.trace).ok().map(|found| found.len());
    let advice = advise(&measured);
    let sections = measured.sections(&advice, !args.no_paper);
    if let Some(file) = &args.html {
        let text = html(&args.trace, "report", &measured.findings, &sections)?;
        outfile::write(file, text, args.out.force)?;
    }
    let mut out = Output::stdout();
    if args.json {
        out.json(&advice)?;
    } else {
        let told = if args.brief { &sections[sections.len() - 1..] } else { &sections };
        out.text(render::sections(told).trim_start())?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
