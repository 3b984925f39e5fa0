//! `spindle trace synth`

use crate::error::{Context, Failure, Result};
use crate::progress::Progress;
use spindle_trace::format::Writer;
use spindle_trace::synth::{Length, Model, Synthesis};
use spindle_trace::{Batch, Source};
use std::path::PathBuf;
use std::process::ExitCode;

/// Make a trace of users who were never there
///
/// A model says which programs and files there are, what each command does to them, and which file is used next after how
/// long; the trace is what comes out when it is carried out. The built-in models, a5, e3 and c4, are the three machines
/// of the 1985 study "A Trace-Driven Analysis of the UNIX 4.2 BSD File System". The same model and seed make the same trace.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the trace cannot be written    2  the command line or the model makes no sense

EXAMPLES
    spindle trace synth --like a5 -o a5.trace
    spindle trace synth --like c4 --hours 2 --seed 7 -o c4.trace
    spindle trace synth --like a5 --print-model > mine.toml
    spindle trace synth --model mine.toml --events 100m -o mine.trace")]
pub struct Args {
    /// The machine: a5, e3 or c4
    #[arg(long, value_name = "MACHINE", required_unless_present = "model")]
    like: Option<String>,
    /// A model of your own, a TOML file
    #[arg(long, value_name = "FILE", conflicts_with = "like")]
    model: Option<PathBuf>,
    /// Hours of use; as many as the machine was traced, if nothing is said
    #[arg(long, value_name = "HOURS", conflicts_with = "events")]
    hours: Option<f64>,
    /// Events instead: a number, with k, m or g for thousands, millions and milliards
    #[arg(long, value_name = "NUMBER", value_parser = events)]
    events: Option<u64>,
    /// Where chance begins
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print the model, and make nothing
    #[arg(long, conflicts_with = "output")]
    print_model: bool,
    /// The file to write
    #[arg(short, long, value_name = "FILE", required_unless_present = "print_model")]
    output: Option<PathBuf>,
}

fn events(text: &str) -> std::result::Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = match lower.strip_suffix(['k', 'm', 'g']) {
        Some(digits) => (digits, lower.as_bytes()[lower.len() - 1]),
        None => (lower.as_str(), b' '),
    };
    let factor = match unit {
        b'k' => 1_000,
        b'm' => 1_000_000,
        b'g' => 1_000_000_000,
        _ => 1,
    };
    let number: u64 = digits.parse().map_err(|e| format!("{e}"))?;
    number.checked_mul(factor).ok_or_else(|| "that is too many".into())
}

/// The text of the model that is meant, and its name.
fn text(args: &Args) -> Result<(String, String)> {
    if let Some(path) = &args.model {
        let text = std::fs::read_to_string(path).context(path.display())?;
        return Ok((text, path.display().to_string()));
    }
    let name = args.like.clone().unwrap_or_default();
    let text = Model::built_in(&name).ok_or_else(|| {
        Failure::usage(format!("{name}: there are models of {}", Model::BUILT_IN.map(|m| m.0).join(", ")))
    })?;
    Ok((text.to_owned(), name))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (text, name) = text(args)?;
    let model = Model::parse(&text, &name)?;
    let Some(path) = &args.output else {
        crate::output::told(std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let length = match (args.hours, args.events) {
        (Some(hours), _) if !(hours > 0.0 && hours.is_finite()) => {
            return Err(Failure::usage(format!("--hours {hours}: must be above 0")));
        }
        (Some(hours), _) => Length::Hours(hours),
        (_, Some(events)) => Length::Events(events),
        _ => Length::Hours(model.hours),
    };
    let mut source = Synthesis::new(model, length, args.seed);
    let mut writer = Writer::create(path)?;
    let bar = Progress::of_parts("making");
    let mut batch = Batch::default();
    while source.next(&mut batch)? {
        writer.write(&batch)?;
        bar.fraction(source.progress());
    }
    drop(bar);
    let events = writer.finish(&source.info())?;
    log::info!("{}: {events} events", path.display());
    Ok(ExitCode::SUCCESS)
}
