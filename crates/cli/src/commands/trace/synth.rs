//! `spindle trace synth`

use crate::error::{Context, Failure, Result};
use crate::outfile::{self, Kind, Out, OutArgs};
use crate::output::Output;
use crate::progress::Progress;
use spindle_report::{Section, render};
use spindle_synth::compare::{Side, sections};
use spindle_synth::{Length, Model, Synthesis, fit};
use spindle_trace::format::{Columns, Writer};
use spindle_trace::{Batch, Source, open};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Synthesise a trace from a model
///
/// A model describes the programs and files of a machine, the use of files by each command, and the
/// order and times of these uses. synth runs the model and writes the trace. The built-in models
/// a5, e3 and c4 are the three machines of the 1985 study "A Trace-Driven Analysis of the UNIX 4.2
/// BSD File System". A model of another machine is fitted to a trace that was recorded on it;
/// --check compares the new trace with that trace. The same model and seed give the same trace.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the trace cannot be written or read    2  invalid command line or model

EXAMPLES
    spindle trace synth --like a5 -o a5.trace
    spindle trace synth --like c4 --hours 2 --seed 7 -o c4.trace
    spindle trace synth --like build.trace --check -o more.trace
    spindle trace synth --like build.trace --print-model > mine.toml
    spindle trace synth --model mine.toml --check=build.trace -o mine")]
pub struct Args {
    /// The machine to model: a5, e3 or c4, or a trace of another machine
    #[arg(long, value_name = "MACHINE|TRACE", required_unless_present = "model")]
    like: Option<PathBuf>,
    /// A model in a TOML file
    #[arg(long, value_name = "FILE", conflicts_with = "like")]
    model: Option<PathBuf>,
    /// Length in hours (default: the length of the original trace)
    #[arg(long, value_name = "HOURS", conflicts_with = "events")]
    hours: Option<f64>,
    /// Length in events, with k, m or g for thousands, millions and billions
    #[arg(long, value_name = "NUMBER", value_parser = events)]
    events: Option<u64>,
    /// Seed of the random numbers
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print the model, and write no trace
    #[arg(long, conflicts_with = "output")]
    print_model: bool,
    /// Compare the new trace with TRACE (default: that of --like): rates, access orders,
    /// distributions, miss ratios
    #[arg(long, value_name = "TRACE", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = target, conflicts_with = "print_model")]
    check: Option<Target>,
    /// Print the comparison as JSON
    #[arg(long, requires = "check")]
    json: bool,
    /// The file to write
    #[arg(short, long, value_name = "FILE", required_unless_present = "print_model")]
    output: Option<PathBuf>,
    #[command(flatten)]
    out: OutArgs,
}

/// The trace to compare with.
#[derive(Clone, Debug)]
enum Target {
    /// The trace of `--like`.
    Like,
    Trace(PathBuf),
}

#[allow(clippy::unnecessary_wraps)] // `clap` needs a `Result`.
fn target(text: &str) -> std::result::Result<Target, String> {
    Ok(if text.is_empty() { Target::Like } else { Target::Trace(text.into()) })
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
    number.checked_mul(factor).ok_or_else(|| "is too large".into())
}

/// Returns the model that the arguments name, and its text.
fn model(args: &Args) -> Result<(Model, String)> {
    let (text, name) = match (&args.model, &args.like) {
        (Some(path), _) => {
            (std::fs::read_to_string(path).context(path.display())?, path.display().to_string())
        }
        (_, Some(like)) => match like.to_str().and_then(Model::built_in) {
            Some(text) => (text.to_owned(), like.display().to_string()),
            None => return fitted(like),
        },
        _ => return Err(Failure::usage("give --like or --model")),
    };
    Ok((Model::parse(&text, &name)?, text))
}

/// Fits a model to a trace. Returns the model and its text.
fn fitted(trace: &Path) -> Result<(Model, String)> {
    super::refuse_stdin(trace)?;
    if !trace.exists() {
        let names = Model::BUILT_IN.map(|model| model.0).join(", ");
        return Err(Failure::usage(format!(
            "{}: there is no such trace or built-in model; the built-in models are {names}",
            trace.display()
        )));
    }
    let bar = Progress::of_fraction("looking");
    let name = trace.file_name().unwrap_or(trace.as_os_str()).to_string_lossy();
    let model = fit(&name, &|| open(trace, Columns::ALL), &|what, done| {
        bar.set_message(what);
        bar.set_fraction(done);
    })?;
    let text = model.text()?;
    Ok((model, text))
}

/// Compares two traces.
fn compare(target: &Path, made: &Path) -> Result<Vec<Section>> {
    let bar = Progress::of_fraction("analysing");
    let [target, made] = [target, made].map(|path| {
        Side::of(&|| open(path, Columns::NUMBERS), &|what, done| {
            bar.set_message(what);
            bar.set_fraction(done);
        })
    });
    Ok(sections(&target?, &made?))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let target = match (&args.check, &args.like) {
        (None, _) => None,
        (Some(Target::Trace(trace)), _) => Some(trace),
        (Some(Target::Like), Some(like)) if like.to_str().and_then(Model::built_in).is_none() => Some(like),
        _ => {
            return Err(Failure::usage(
                "--check: there is no trace to compare with; name one with --check=TRACE",
            ));
        }
    };
    let (model, text) = model(args)?;
    let Some(path) = &args.output else {
        crate::output::stdout_result(std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let length = match (args.hours, args.events) {
        (Some(hours), _) if !(hours > 0.0 && hours.is_finite()) => {
            return Err(Failure::usage(format!("--hours {hours}: must be more than 0")));
        }
        (Some(hours), _) => Length::Hours(hours),
        (_, Some(events)) => Length::Events(events),
        _ => Length::Hours(model.hours),
    };
    let inputs = [args.like.as_ref(), args.model.as_ref(), target];
    inputs.into_iter().flatten().try_for_each(|input| outfile::refuse_input(path, input))?;
    if target.is_some() && outfile::is_stdout(path) {
        return Err(Failure::usage("--check reads the new trace again; write it to a file"));
    }
    let out = Out::create(path, Kind::Trace, args.out.force)?;
    let mut source = Synthesis::new(model, length, args.seed);
    let mut writer = Writer::new(out.handle()?, Path::new(&out.name))?;
    let bar = Progress::of_fraction("making");
    let mut batch = Batch::default();
    while source.next(&mut batch)? {
        writer.write(&batch)?;
        bar.set_fraction(source.progress());
    }
    drop(bar);
    let events = writer.finish(&source.info())?;
    log::info!("{}: {events} events", out.name);
    out.finish()?;
    if let Some(target) = target {
        let sections = compare(target, path)?;
        let mut out = Output::stdout();
        if args.json {
            out.json(&sections)?;
        } else {
            out.text(render::sections(&sections).trim_start())?;
        }
        out.finish()?;
    }
    Ok(ExitCode::SUCCESS)
}
