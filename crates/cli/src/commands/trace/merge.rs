//! `spindle trace merge`

use crate::error::Result;
use crate::outfile::{self, Kind, OutArgs};
use spindle_trace::Columns;
use spindle_trace::merge::{Merged, Relation};
use std::path::PathBuf;
use std::process::ExitCode;

/// Merge traces of several hosts, or the parts of one recording, into one trace
///
/// Events come in the order of time. Without --parts each trace is that of a host: its devices,
/// processes and opens get numbers of their own, which notes in the new trace explain; users keep
/// theirs. With --parts the traces are parts of one recording, as "spindle trace filter" makes
/// them: numbers stay, and a file that is open over the end of a part goes on in the next one.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  a trace cannot be read, or the new one not written
    2  invalid command line, or traces that cannot be merged

EXAMPLES
    spindle trace merge mail.trace web.trace -o hosts.trace
    spindle trace merge --parts morning.trace evening.trace -o day.trace")]
pub struct Args {
    /// The traces are parts of one recording
    #[arg(long)]
    parts: bool,
    /// The trace to write; - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    out: OutArgs,
    /// The traces
    #[arg(value_name = "TRACE", required = true, num_args = 2..)]
    traces: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    args.traces.iter().try_for_each(|trace| outfile::refuse_input(&args.output, trace))?;
    outfile::check(&args.output, Kind::Trace, args.out.force)?;
    super::refuse_twice(&args.traces)?;
    let opened = args
        .traces
        .iter()
        .map(|trace| -> Result<_> { Ok((trace.display().to_string(), super::open(trace, Columns::ALL)?)) });
    let opened = opened.collect::<Result<_>>()?;
    let relation = if args.parts { Relation::Parts } else { Relation::Hosts };
    super::write(&mut Merged::new(opened, relation)?, &args.output, args.out, "merging")?;
    Ok(ExitCode::SUCCESS)
}
