//! `spindle advise`

use super::trace::{open, refuse_stdin};
use crate::error::{Context, Failure, Result};
use crate::output::Output;
use crate::progress::Progress;
use crate::text::parse_bytes;
use spindle_lab::advice::{self, Advice, Bounds, Wanted, advise};
use spindle_report::render;
use spindle_trace::format::Columns;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Advise how to make and mount a file system for the load in a trace
///
/// File systems of other blocks, fragments, clusters, inode densities and logs are made, filled
/// with the files of the trace, and used as the trace says, in virtual time, on a model of the
/// disk. The answer ranks them by what they do, and has the commands of the best. Nothing is
/// advised that loses more in a crash than a mount without options does, or needs more memory; that
/// is only shown.
///
/// Of a long trace the stretch that is most like the whole is simulated. Ranks are equal where the
/// difference is within 5 %, which the model of a disk may be off, or within what the two halves of
/// the stretch disagree about.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done, also if the trace is too small for advice    1  the trace cannot be read, or is not one
    of files, or the disk cannot be used    2  invalid command line

EXAMPLES
    spindle trace record -o build.trace make -j8 && spindle advise build.trace
    spindle advise --disk nearline-20tb --size 2t --memory 8g mail.trace
    spindle advise --disk nearline-20tb --second nvme mail.trace
    spindle advise --json mail.trace | jq -r '.ranked.commands.newfs'")]
pub struct Args {
    /// The modelled disk: a preset (\"spindle lab presets\" lists them), or a file
    #[arg(long, value_name = "PRESET|FILE", default_value = "nvme")]
    disk: String,
    /// Also try what a second disk like this one is worth, for the log or for all inodes and names
    #[arg(long, value_name = "PRESET|FILE")]
    second: Option<String>,
    /// Advise UFS only, which other systems can read, and not the multi-structured file system
    #[arg(long, conflicts_with = "second")]
    only_ufs: bool,
    /// The modelled host
    #[arg(long, value_name = "PRESET|FILE", default_value = "today")]
    host: String,
    /// Size of the file system, of which at most 32g are simulated (default: twice what the trace
    /// needs, at least 1g)
    #[arg(short, long, value_name = "SIZE", value_parser = parse_bytes)]
    size: Option<u64>,
    /// Memory of the host for file data
    #[arg(long, value_name = "SIZE", default_value = "1g", value_parser = parse_bytes)]
    memory: u64,
    /// Simulate this many events of the trace at most
    #[arg(long, value_name = "NUMBER", default_value_t = Bounds::default().events, value_parser = parse_events)]
    events: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
}

fn parse_events(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(events) if events as u64 >= advice::LEAST_EVENTS => Ok(events),
        _ => Err(format!("give a number of at least {}", advice::LEAST_EVENTS)),
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    refuse_stdin(&args.trace)?;
    // Warns once about a missing end, instead of in each pass.
    drop(open(&args.trace, Columns::NUMBERS)?);
    let wanted = Wanted {
        disk: args.disk.clone(),
        second: args.second.clone(),
        host: args.host.clone(),
        size: args.size,
        memory: args.memory,
        only_ufs: args.only_ufs,
        bounds: Bounds { events: args.events, ..Bounds::default() },
    };
    let advice = simulated(&args.trace, &wanted)?;
    let mut out = Output::stdout();
    if args.json {
        out.json(&advice)?;
    } else {
        out.text(render::sections(&[advice::section(&advice)]).trim_start())?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the advice for a trace, with a bar on a terminal.
pub fn simulated(trace: &Path, wanted: &Wanted) -> Result<Advice> {
    let bar = Progress::of_fraction("simulating");
    let open = || spindle_trace::open(trace, Columns::NUMBERS);
    let advice = advise(wanted, &open, &|what, done| {
        bar.set_message(what);
        bar.set_fraction(Some(done));
    });
    advice.map_err(Failure::from).context(trace.display())
}
