//! `lab disksim`: modelled drives beside the real ones, on the traces with which `DiskSim` was
//! validated.

use crate::error::{FAILED, Failure, Result};
use crate::output::Output;
use serde::Serialize;
use spindle_lab::sim::disk::Disk;
use spindle_lab::sim::disksim::{Comparison, Trial, preset, read_trace, trials, validate};
use spindle_lab::sim::preset::Model;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How far the model may be off, in `DiskSim`'s own root mean squares.
const BOUND: f64 = 1.5;

#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  every drive is within 1.5 times DiskSim's own figure
    1  a drive is not, or there was an error
    2  invalid command line

EXAMPLES
    spindle lab disksim disksim-4.0/valid")]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Directory with DRIVE.parv and DRIVE.trace, and with DiskSim's script runvalid
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// A drive beside its model, as JSON.
#[derive(Serialize)]
struct Report {
    drive: String,
    requests: usize,
    measured_mean_ms: f64,
    modelled_mean_ms: f64,
    rms_ms: f64,
    disksim_rms_ms: Option<f64>,
    ratio: Option<f64>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let found = trials(&args.directory).map_err(spindle_lab::Error::from)?;
    if found.is_empty() {
        let directory = args.directory.display();
        return Err(Failure::new(format!("{directory}: no DRIVE.parv with a DRIVE.trace of a validation")));
    }
    let reports = found.iter().map(report).collect::<Result<Vec<_>>>()?;
    let mut out = Output::stdout();
    if args.json {
        out.json(&reports)?;
    } else {
        print(&mut out, &reports)?;
    }
    out.finish()?;
    let outside = reports.iter().any(|report| report.ratio.is_some_and(|ratio| ratio > BOUND));
    Ok(if outside { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

fn report(trial: &Trial) -> Result<Report> {
    let Comparison { requests, measured_ms, modelled_ms, rms_ms } =
        compare(&trial.drive, &trial.trace).map_err(spindle_lab::Error::from)?;
    Ok(Report {
        drive: trial.drive.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        requests,
        measured_mean_ms: measured_ms,
        modelled_mean_ms: modelled_ms,
        rms_ms,
        disksim_rms_ms: trial.disksim_rms_ms,
        ratio: trial.disksim_rms_ms.map(|disksim| rms_ms / disksim),
    })
}

fn compare(drive: &Path, trace: &Path) -> std::result::Result<Comparison, spindle_lab::sim::preset::Error> {
    let preset = preset(drive)?;
    let Model::Disk(spec) = &preset.model else { unreachable!("a parameter file describes a disk") };
    validate(&mut Disk::new(spec)?, &read_trace(trace)?)
}

fn print(out: &mut Output, reports: &[Report]) -> Result<()> {
    let width = reports.iter().map(|report| report.drive.len()).max().unwrap_or(0).max(5);
    out.line(format!("{:<width$}  requests    mean, ms:         rms, ms:", ""))?;
    out.line(format!("{:<width$}            drive   model   model  DiskSim  ratio", "drive"))?;
    for report in reports {
        let Report { drive, requests, measured_mean_ms, modelled_mean_ms, rms_ms, disksim_rms_ms, ratio } =
            report;
        let or_dash = |figure: &Option<f64>, decimals| {
            figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.decimals$}"))
        };
        let mark = if ratio.is_some_and(|ratio| ratio > BOUND) { " !" } else { "" };
        out.line(format!(
            "{drive:<width$}  {requests:>8}  {measured_mean_ms:>6.2}  {modelled_mean_ms:>6.2}  \
             {rms_ms:>6.3}  {:>7}  {:>5}{mark}",
            or_dash(disksim_rms_ms, 3),
            or_dash(ratio, 2)
        ))?;
    }
    out.line("")?;
    out.line("rms: root mean square of the distance between the distributions of service")?;
    out.line(format!("times of the drive and of its model; \"!\": above {BOUND} times DiskSim's."))
}
