//! `lab beside`: what the simulation says of a trace, beside a real mount on a disk that is as slow
//! as the model.

use crate::commands::mount;
use crate::commands::trace::{open, parse_speed, refuse_stdin};
use crate::error::{Context, Failure, Result};
use crate::interrupt;
use crate::output::Output;
use crate::text::parse_bytes;
use serde::Serialize;
use spindle_clock::{Clock, SystemClock, TickClock};
use spindle_fuse::MountOptions;
use spindle_lab::beside::{Setup, Trial, Work};
use spindle_report::outcome::{Cell, Column, Table};
use spindle_report::{Outcome, render};
use spindle_synth::replay::Pace;
use spindle_trace::format::Columns;
use spindle_vfs::FileSystem;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  a trace cannot be read, or nothing could be mounted    2  invalid command line

EXAMPLES
    spindle trace record -o build.trace -- make
    spindle lab beside build.trace
    spindle lab beside --disk sata-ssd --speed 1 --json mail.trace data.trace")]
pub struct Args {
    /// The modelled disk: a preset ("spindle lab presets" lists them), or a file
    #[arg(long, value_name = "PRESET|FILE", default_value = "nearline-20tb")]
    disk: String,
    /// The simulated host, which stands for this machine
    #[arg(long, value_name = "PRESET|FILE", default_value = "today-mounted")]
    host: String,
    /// Memory of the simulated host for file data
    #[arg(long, value_name = "SIZE", default_value = "1g", value_parser = parse_bytes)]
    memory: u64,
    /// Speed relative to the recording, or "max": each event directly after the previous one
    #[arg(long, value_name = "FACTOR|max", default_value = "max", value_parser = parse_speed)]
    speed: Pace,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The traces
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
}

/// A trace, what it did and what was said of it, as JSON.
#[derive(Serialize)]
struct Report {
    trace: PathBuf,
    real: Work,
    predicted: Work,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    interrupt::watch()?;
    let reports = args.traces.iter().map(|trace| report(args, trace)).collect::<Result<Vec<_>>>()?;
    let mut out = Output::stdout();
    if args.json {
        out.json(&reports)?;
    } else {
        let tables = reports.iter().map(table).collect();
        out.text(render::text(&Outcome { tables, ..Outcome::default() }).trim_start())?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn report(args: &Args, trace: &Path) -> Result<Report> {
    refuse_stdin(trace)?;
    drop(open(trace, Columns::NUMBERS)?);
    let setup =
        Setup { disk: args.disk.clone(), host: args.host.clone(), memory: args.memory, pace: args.speed };
    let source = || spindle_trace::open(trace, Columns::NUMBERS);
    let trial = Trial::new(setup, &source).map_err(Failure::from).context(trace.display())?;
    let predicted = trial.predicted().map_err(Failure::from).context(trace.display())?;
    interrupt::check()?;
    Ok(Report { trace: trace.to_owned(), real: real(&trial)?, predicted })
}

/// Mounts the file system of the trial as `spindle mount` does, and has the calls done there.
fn real(trial: &Trial) -> Result<Work> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let options = MountOptions::default();
    let disk = trial.disk(Arc::clone(&clock)).map_err(Failure::from)?;
    let fs = Trial::open(Arc::clone(&disk), Arc::new(TickClock), mount::settings(&options));
    let fs = fs.map_err(Failure::from)?;
    let dir = MountPoint::new()?;
    let served = Arc::clone(&fs) as Arc<dyn FileSystem>;
    let session = spindle_fuse::mount(served, &dir.0, "spindle lab beside", &options, None);
    let mut session = session.map_err(|e| Failure::new(e.to_string()))?;
    let step = || interrupt::check().map_err(|_| spindle_vfs::Error::Interrupted.into());
    let work = trial.real((&*fs, &disk), &dir.0, &*clock, &step).map_err(Failure::from);
    let unmounted = session.unmount().and_then(|()| session.join());
    interrupt::check()?;
    let work = work?;
    unmounted.map_err(|e| Failure::new(e.to_string()))?;
    fs.unmount().map_err(|e| Failure::new(e.to_string()))?;
    Ok(work)
}

/// An empty directory to mount on, which is removed again.
struct MountPoint(PathBuf);

impl MountPoint {
    fn new() -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("spindle-beside-{}", std::process::id()));
        std::fs::create_dir(&dir).context(dir.display())?;
        Ok(Self(dir))
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir(&self.0) {
            log::warn!("{}: {error}", self.0.display());
        }
    }
}

/// Returns the figures of a trace side by side.
fn table(report: &Report) -> Table {
    let columns = [("", 0), ("real", 3), ("predicted", 3), ("ratio", 2)];
    let columns = columns.map(|(name, decimals)| Column::new(name, decimals));
    let mut table = Table::new(report.trace.display().to_string(), columns);
    for ((name, real), (_, predicted)) in report.real.figures().into_iter().zip(report.predicted.figures()) {
        let ratio = if real == 0.0 { Cell::Empty } else { Cell::Number(predicted / real) };
        table.row([name.into(), real.into(), predicted.into(), ratio]);
    }
    table
}
