//! `spindle trace show`

use crate::error::Result;
use crate::output::Output;
use serde::Serialize;
use spindle_trace::format::Columns;
use spindle_trace::{Batch, Event, Flags, Names};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show the events of a trace, one on each line
///
/// Fields that are 0 or unknown are omitted.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the trace cannot be read    2  invalid command line

EXAMPLES
    spindle trace show build.trace | grep unlink
    spindle trace show --json build.trace |
        jq -r 'select(.kind == \"exec\") | .path'")]
pub struct Args {
    /// Print each event as a line of JSON
    #[arg(long)]
    json: bool,
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
}

/// An event, as JSON.
#[derive(Serialize)]
struct EventJson<'a> {
    time: i64,
    kind: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flags: Vec<&'static str>,
    #[serde(flatten)]
    numbers: std::collections::BTreeMap<&'static str, u64>,
    #[serde(flatten)]
    words: std::collections::BTreeMap<&'static str, &'a str>,
}

/// Returns the numeric fields that are not 0, in the order of the output.
fn numbers(event: &Event) -> impl Iterator<Item = (&'static str, u64)> {
    [
        ("open", event.open),
        ("device", event.file.device),
        ("inode", event.file.inode),
        ("user", event.user.into()),
        ("process", event.process.into()),
        ("size", event.size),
        ("position", event.position),
        ("read", event.read),
        ("written", event.written),
        ("new_position", event.new_position),
        ("calls", event.calls.into()),
    ]
    .into_iter()
    .filter(|&(_, value)| value != 0)
}

fn words<'a>(event: &Event, names: &'a Names) -> impl Iterator<Item = (&'static str, &'a str)> {
    [("command", event.command), ("path", event.path), ("new_path", event.new_path)]
        .map(|(name, symbol)| (name, names.word(symbol)))
        .into_iter()
        .filter(|(_, word)| !word.is_empty())
}

fn flags(event: &Event) -> impl Iterator<Item = &'static str> {
    Flags::ALL.into_iter().filter(|&(flag, _)| event.flags.has(flag)).map(|(_, name)| name)
}

fn line(event: &Event, names: &Names) -> String {
    let (seconds, nanos) = (event.time.div_euclid(1_000_000_000), event.time.rem_euclid(1_000_000_000));
    let mut line = format!("{seconds}.{nanos:09} {}", event.kind.name());
    for flag in flags(event) {
        line.push('+');
        line.push_str(flag);
    }
    for (name, value) in numbers(event) {
        let _ = write!(line, " {name}={value}");
    }
    for (name, word) in words(event, names) {
        let _ = write!(line, " {name}={word:?}");
    }
    line
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut source = super::open(&args.trace, Columns::ALL)?;
    let mut out = Output::stdout();
    let mut batch = Batch::default();
    while source.next(&mut batch)? {
        for event in &batch.events {
            if args.json {
                out.json_line(&EventJson {
                    time: event.time,
                    kind: event.kind.name(),
                    flags: flags(event).collect(),
                    numbers: numbers(event).collect(),
                    words: words(event, &batch.names).collect(),
                })?;
            } else {
                out.line(line(event, &batch.names))?;
            }
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
