//! Traces of validation: requests as a real drive served them, run in a closed loop.
//!
//! A line is `R|W HIT SECTOR SECTORS SERVICE_US GAP_US`: what the drive's buffer did (not used
//! here), the service time, and the time from the completion to the next request. The model gets
//! each request that long after it has completed the one before.

use crate::disk::Disk;
use crate::error::Error;
use crate::queue::Transfer;
use crate::time::Time;
use spindle_device::Op;
use std::path::{Path, PathBuf};

/// A request as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The request.
    pub transfer: Transfer,
    /// How long the drive took.
    pub service: Time,
    /// From its completion to the next request.
    pub gap: Time,
}

/// A drive that was validated, and the trace for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The parameter file.
    pub drive: PathBuf,
    /// The trace.
    pub trace: PathBuf,
    /// The root mean square that `DiskSim` reaches, in milliseconds.
    pub disksim_rms_ms: Option<f64>,
}

/// A model beside what was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Requests.
    pub requests: usize,
    /// The mean service time that was measured, in milliseconds.
    pub measured_ms: f64,
    /// The mean of the model.
    pub modelled_ms: f64,
    /// Root mean square of the horizontal distance between the two distributions of service times
    /// (Ruemmler and Wilkes' demerit figure), in milliseconds.
    pub rms_ms: f64,
}

/// Reads a trace.
///
/// # Errors
/// When it cannot be read, or a line is not in this form.
pub fn read_trace(path: &Path) -> Result<Vec<Recorded>, Error> {
    let text =
        std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let mut requests = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let fields: Vec<_> = line.split_whitespace().collect();
        requests.push(request(&fields).ok_or_else(|| Error::Syntax {
            name: path.display().to_string(),
            line: n + 1,
            text: line.to_owned(),
            problem:
                "a request must stand here: R or W, the hit, sector, sectors, and two times in us".to_owned(),
        })?);
    }
    Ok(requests)
}

fn request(fields: &[&str]) -> Option<Recorded> {
    let [op, _, sector, sectors, service, gap] = fields else { return None };
    let op = match *op {
        "R" => Op::Read,
        "W" => Op::Write,
        _ => return None,
    };
    let us = |text: &str| text.parse().ok().filter(|us| (0.0..1e12).contains(us)).map(|us: f64| us / 1e3);
    let sectors = sectors.parse().ok().filter(|sectors| *sectors > 0)?;
    Some(Recorded {
        transfer: Transfer::new(op, sector.parse().ok()?, sectors),
        service: Time::from_ms_f64(us(service)?),
        gap: Time::from_ms_f64(us(gap)?),
    })
}

/// Returns the drives of a directory that have a trace, in the order of their names: `DRIVE.parv`
/// with `DRIVE.trace`. `DiskSim`'s own figures are those that its script `runvalid` prints before
/// it runs a drive.
///
/// # Errors
/// When the directory cannot be read.
pub fn trials(directory: &Path) -> Result<Vec<Trial>, Error> {
    let failed = |source| Error::Read { path: directory.to_owned(), source };
    let script = std::fs::read_to_string(directory.join("runvalid")).unwrap_or_default();
    let mut found = Vec::new();
    for entry in directory.read_dir().map_err(failed)? {
        let drive = entry.map_err(failed)?.path();
        let trace = drive.with_extension("trace");
        if drive.extension().is_some_and(|extension| extension == "parv") && is_of_validation(&trace) {
            let name = drive.file_name().unwrap_or_default().to_string_lossy();
            found.push(Trial { disksim_rms_ms: expected(&script, &name), drive, trace });
        }
    }
    found.sort_by(|a, b| a.drive.cmp(&b.drive));
    Ok(found)
}

/// Returns true if the first line of a file is a request of such a trace.
fn is_of_validation(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let fields: Vec<_> = text.lines().next().unwrap_or_default().split_whitespace().collect();
    request(&fields).is_some()
}

/// Returns the figure that stands before the command that runs this parameter file.
fn expected(script: &str, parameters: &str) -> Option<f64> {
    let mut figure = None;
    for line in script.lines() {
        if let Some((_, after)) = line.split_once("rms should be about ") {
            figure = after.split(')').next().and_then(|text| text.trim().parse().ok());
        }
        if line.contains("validate") && line.split_whitespace().any(|word| word == parameters) {
            return figure;
        }
    }
    None
}

/// Runs a trace on a disk.
///
/// # Errors
/// When the trace is empty, or a request lies beyond the end of the disk.
pub fn validate(disk: &mut Disk, requests: &[Recorded]) -> Result<Comparison, Error> {
    let invalid = |problem: String| Error::Invalid { field: "the trace".to_owned(), problem };
    if requests.is_empty() {
        return Err(invalid("has no requests".to_owned()));
    }
    let (mut now, mut gap) = (Time::ZERO, Time::ZERO);
    let (mut measured, mut modelled) = (Vec::new(), Vec::new());
    for (n, request) in requests.iter().enumerate() {
        if request.transfer.end() > disk.capacity_sectors() {
            return Err(invalid(format!("has a request beyond the end of the disk, in line {}", n + 1)));
        }
        now += gap;
        let done = disk.start(now, &request.transfer).done;
        measured.push((request.service).as_secs_f64() * 1e3);
        modelled.push((done - now).as_secs_f64() * 1e3);
        (now, gap) = (done, request.gap);
    }
    let mean = |times: &[f64]| times.iter().sum::<f64>() / as_f64(times.len());
    let (measured_ms, modelled_ms) = (mean(&measured), mean(&modelled));
    measured.sort_by(f64::total_cmp);
    modelled.sort_by(f64::total_cmp);
    let squares: f64 = measured.iter().zip(&modelled).map(|(a, b)| (a - b) * (a - b)).sum();
    let rms_ms = (squares / as_f64(requests.len())).sqrt();
    Ok(Comparison { requests: requests.len(), measured_ms, modelled_ms, rms_ms })
}

#[expect(clippy::cast_precision_loss, reason = "below 2^52")]
const fn as_f64(n: usize) -> f64 {
    n as f64
}
