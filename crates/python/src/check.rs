//! Checking a file system without changing it.

use crate::failure::Failure;
use crate::image::find;
use crate::work::{Interruptible, work};
use pyo3::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};
use spindle::Context;
use spindle::check::{Checked, Options, check_device, remedy};
use spindle::detect::{Found as Detected, detect};
use spindle::image::{open_device, open_device_unlocked};
use spindle_tree::check::{Finding, Found};
use std::sync::Arc;

/// Checks the file system in `image`, and returns the findings as JSON.
#[pyfunction]
#[pyo3(signature = (image, *, superblock, format, limit))]
pub fn check(
    py: Python<'_>,
    image: &str,
    superblock: Option<u64>,
    format: Option<&str>,
    limit: usize,
) -> PyResult<String> {
    work(py, |signals| {
        let spec = find(image, signals)?;
        let format = format.map(str::parse).transpose().map_err(Failure::Value)?;
        let options = Options { superblock, format, limit, ..Options::default() };
        // Who uses it is said by the error of the device only.
        drop(spec.open(&spindle_device::OpenOptions::read_only())?);
        let is_set = matches!(detect(&*open_device_unlocked(&spec)?), Ok(Detected::Mfs(_)));
        let checked = if is_set && format.is_none() {
            spindle::check::check(&spec, &options, &mut |_| ())?
        } else {
            let device = Arc::new(Interruptible::new(open_device(&spec)?, signals));
            check_device(&(device as _), &options, &mut |_| ()).context(&spec)?
        };
        Ok(report(&checked).to_string())
    })
}

/// Returns a report with a message in each of its findings.
fn body<F: Finding>(report: &impl Serialize, findings: &[Found<F>]) -> Value {
    // Reports are plain structures, which can always be written.
    let mut value = serde_json::to_value(report).unwrap_or_default();
    for (n, found) in findings.iter().enumerate() {
        value["findings"][n]["message"] = found.finding.to_string().into();
    }
    value
}

fn report(checked: &Checked) -> Value {
    let (mut value, log) = match checked {
        Checked::Ffs { report, log, .. } => {
            let mut value = body(report, &report.findings);
            for (n, found) in report.findings.iter().enumerate() {
                value["findings"][n]["remedy"] = json!(remedy(&found.finding));
            }
            (value, log.as_ref().map(ToString::to_string))
        }
        Checked::Old(repaired) => (body(&repaired.before, &repaired.before.findings), None),
        Checked::Mfs(repaired) => (body(&repaired.before, &repaired.before.findings), None),
    };
    value["clean"] = checked.is_clean().into();
    value["log"] = log.into();
    value
}
