//! `spindle trace replay`

use crate::error::{Context, Failure, Result};
use crate::output::Output;
use crate::text::parse_bytes;
use spindle_clock::SystemClock;
use spindle_lab::drives::{OnDrives, on_drives};
use spindle_lab::replay::{On, System, from_file, on_disk};
use spindle_lab::sim::Discipline;
use spindle_report::number::bytes;
use spindle_report::{Outcome, render};
use spindle_synth::replay::{Directory, Pace, Replay, Settings, Target, Timings, population};
use spindle_trace::Batch;
use spindle_trace::format::Columns;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Replay a trace in a directory or on a modelled disk, and measure service times
///
/// The files of the trace are created first, with their original sizes. Then the events are
/// performed in order, at the recorded times or faster. The files are named by numbers; the names
/// in the trace are never used. In a directory, everything happens below it; the directory must be
/// empty. On a modelled disk, time is virtual. The requests of a trace of disks (blktrace, fio,
/// MSR) go straight onto a modelled disk with --fs none.
///
/// Each copy of the trace has its own files and performs one event after the other. Several copies
/// are the load of a machine with that many times the users.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the trace cannot be read, or a call failed    2  invalid command line

EXAMPLES
    spindle trace replay build.trace --on /mnt/new --speed max
    spindle trace replay a5.trace --on /mnt/new --speed 100 --copies 4
    spindle trace replay a5.trace --disk ra81 --host vax-11-780 --fs v7
    spindle trace replay a5.trace --disk ra81 --fs ffs --copies 8 --json
    spindle trace replay msr.csv --disk nearline-20tb --fs none --queue sstf")]
pub struct Args {
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Replay in this directory, which is created, or must be empty
    #[arg(long, value_name = "DIR", required_unless_present = "disk", conflicts_with = "disk")]
    on: Option<PathBuf>,
    /// Replay on this modelled disk: a preset ("spindle lab presets" lists them), or a file. A disk
    /// with zones and one of flash have a geometry that is made up, and 2 GiB of them are used
    #[arg(long, value_name = "PRESET")]
    disk: Option<String>,
    /// The modelled host of the disk
    #[arg(long, value_name = "PRESET|FILE", default_value = "vax-11-780", requires = "disk")]
    host: String,
    /// The file system on the disk
    #[arg(long, value_name = "SYSTEM", default_value = "ffs", requires = "disk")]
    fs: Fs,
    /// With --fs none: the order in which the driver hands requests to the drive
    #[arg(long, value_name = "ORDER", default_value = "disksort", requires = "disk")]
    queue: Order,
    /// Memory of the modelled host for file data
    #[arg(long, value_name = "SIZE", default_value = "400k", value_parser = parse_bytes, requires = "disk")]
    memory: u64,
    /// Speed relative to the recording, or "max": each event directly after the previous one
    #[arg(long, value_name = "FACTOR|max", default_value = "1", value_parser = parse_speed)]
    speed: Pace,
    /// Number of copies to replay at the same time
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    copies: u16,
    /// Seconds between the starts of two copies
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    shift: f64,
    /// Bytes of each call, if the trace does not contain the number of calls
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = parse_bytes)]
    request: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Fs {
    /// The fast file system of 1984, with clusters
    Ffs,
    /// The old file system
    V7,
    /// None: the requests of a trace of disks, at their places. Each disk of the trace has one to
    /// itself; host, memory and copies do not matter
    None,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Order {
    /// As they come
    Fifo,
    /// The one-way elevator of 4.3BSD
    Disksort,
    /// The nearest first
    Sstf,
    /// A two-way elevator
    Scan,
}

impl From<Order> for Discipline {
    fn from(order: Order) -> Self {
        match order {
            Order::Fifo => Self::Fifo,
            Order::Disksort => Self::Disksort,
            Order::Sstf => Self::Sstf,
            Order::Scan => Self::Scan,
        }
    }
}

pub fn parse_speed(text: &str) -> Result<Pace, String> {
    if text == "max" {
        return Ok(Pace::FullSpeed);
    }
    match text.parse::<f64>() {
        Ok(factor) if factor.is_finite() && factor > 0.0 => Ok(Pace::Times(factor)),
        _ => Err("give a number above 0, or \"max\"".into()),
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let shift = Duration::try_from_secs_f64(args.shift)
        .map_err(|_| Failure::usage(format!("--shift {}: must be 0 or more", args.shift)))?;
    let settings = Settings {
        pace: args.speed,
        request: usize::try_from(args.request).unwrap_or(usize::MAX).clamp(1, 1 << 20),
        shift,
    };
    let outcome = match (&args.on, &args.disk) {
        (Some(dir), _) => in_directory(args, dir, settings)?,
        (None, disk) => {
            let disk = disk.clone().unwrap_or_default();
            let system = match args.fs {
                Fs::Ffs => System::Fast,
                Fs::V7 => System::Old,
                Fs::None => {
                    let on = OnDrives { disk, pace: args.speed, discipline: args.queue.into() };
                    let mut source = super::open(&args.trace, Columns::NUMBERS)?;
                    return print(args, &on_drives(&on, &mut *source).context(args.trace.display())?);
                }
            };
            let on = On {
                disk,
                host: args.host.clone(),
                system,
                memory: usize::try_from(args.memory).unwrap_or(usize::MAX),
                copies: args.copies.into(),
                settings,
            };
            on_disk(&on, from_file(args.trace.clone()))?
        }
    };
    print(args, &outcome)
}

fn print(args: &Args, outcome: &Outcome) -> Result<ExitCode> {
    let mut out = Output::stdout();
    if args.json {
        out.json(outcome)?;
    } else {
        out.text(render::text(outcome).trim_start())?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Replays all copies below a directory of this machine.
fn in_directory(args: &Args, dir: &Path, settings: Settings) -> Result<Outcome> {
    super::refuse_stdin(&args.trace)?;
    drop(Directory::new(dir)?);
    let population = population(&mut *super::open(&args.trace, Columns::NUMBERS)?)?;
    let needed = population.space().saturating_mul(args.copies.into());
    let space = rustix::fs::statvfs(dir).context(dir.display())?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if needed > free {
        return Err(Failure::new(format!(
            "{}: the replay needs at least {}, and {} are free",
            dir.display(),
            bytes(needed),
            bytes(free)
        )));
    }
    let files = population.files;
    let mut targets = Vec::new();
    for copy in 0..args.copies {
        let mut target = Directory::new(&dir.join(format!("copy{copy}")))?;
        files.iter().try_for_each(|&(name, size)| target.make(name, size))?;
        targets.push(target);
    }
    let copies = std::thread::scope(|scope| {
        let start = |(copy, target)| {
            let shift = settings.shift * copy;
            scope.spawn(move || one(&args.trace, target, Settings { shift, ..settings }))
        };
        let running: Vec<_> = (0..).zip(targets).map(start).collect();
        let ended = running.into_iter().map(|copy| {
            copy.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).context(dir.display())
        });
        ended.collect::<Result<Vec<_>>>()
    })?;
    Ok(Timings::outcome(&copies, None))
}

/// Replays one copy.
fn one(trace: &Path, target: Directory, settings: Settings) -> spindle_trace::Result<Timings> {
    let mut source = spindle_trace::open(trace, Columns::NUMBERS)?;
    let mut replay = Replay::new(target, &SystemClock, settings);
    let mut batch = Batch::default();
    while source.next(&mut batch)? {
        replay.take(&batch)?;
    }
    Ok(replay.finish()?.1)
}
