//! `spindle trace report`

use crate::error::Result;
use crate::output::Output;
use crate::progress::Progress;
use spindle_lab::advice::{Advice, Measured, advise, section};
use spindle_report::render;
use spindle_trace::format::Columns;
use spindle_trace::open;
use std::path::PathBuf;
use std::process::ExitCode;

/// Say what storage a trace asks for
///
/// Analyses the trace, simulates caches over it, and says what that advises: size of blocks and fragments, size of the cache and when
/// it should write, clusters, whether control data and the log want devices of their own. Each advice comes with the
/// figures that it rests on.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the trace cannot be read, or the report not written    2  the command line makes no sense

EXAMPLES
    spindle trace report build.trace
    spindle trace report --json build.trace | jq -r '.[] | \"\\(.topic): \\(.advice)\"'")]
pub struct Args {
    /// Tell the advice as JSON
    #[arg(long)]
    json: bool,
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let bar = Progress::of_parts("reading");
    let measured = Measured::of(&|| open(&args.trace, Columns::NUMBERS), &|what, done| {
        bar.say(what);
        bar.fraction(done);
    })?;
    drop(bar);
    let advice: Vec<Advice> = advise(&measured);
    let mut out = Output::stdout();
    if args.json {
        out.json(&advice)?;
    } else {
        out.bytes(render::sections(&[section(&advice)]).trim_start().as_bytes())?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
