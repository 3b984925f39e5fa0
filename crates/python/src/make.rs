//! Making file systems.

use crate::failure::{Failure, Result};
use crate::parameters::{Given, Kind};
use crate::work::{Interruptible, Signals, work};
use pyo3::prelude::*;
use spindle::newfs::{Created, NewFs, Parameters, Plan, make_log, old, open_new, open_new_ufs};
use spindle::{Context, Spec};
use spindle_device::Device;
use std::sync::Arc;

/// Makes a file system of `size` bytes in `image`, or one as large as what is there; with a log if
/// `log`, of so many bytes if they are given.
#[pyfunction]
#[pyo3(signature = (image, size, parameters, *, timestamp, force, log, log_size))]
#[allow(clippy::too_many_arguments, reason = "they are those of Python, by name")]
#[allow(clippy::needless_pass_by_value, reason = "it comes from Python")]
pub fn newfs(
    py: Python<'_>,
    image: &str,
    size: Option<u64>,
    parameters: Given,
    timestamp: Option<i64>,
    force: bool,
    log: bool,
    log_size: Option<u64>,
) -> PyResult<()> {
    work(py, |signals| {
        let spec = Spec::parse(image)?;
        let kind = parameters.kind()?;
        if log && matches!(kind, Kind::Old(_)) {
            return Err(Failure::Value("an old file system cannot have a log".into()));
        }
        let (device, created) = match kind {
            Kind::Ffs => open_new_ufs(&spec, size, force)?,
            Kind::Old(_) => open_new(&spec, size, force)?,
        };
        let made = (|| {
            let has = device.info().size_bytes;
            let size = size.map_or(has, |size| size.min(has));
            let plan = plan(&kind, &parameters, size)?;
            write(&plan, &device, timestamp, signals)?;
            if let (true, NewFs::Ffs(plan)) = (log, &plan) {
                make_log(&device, Some(plan.dialect), log_size, timestamp).context(&spec)?;
            }
            Ok(())
        })();
        made.inspect_err(|_| created.undo())
    })
}

/// Returns the plan of a file system of `size` bytes.
fn plan(kind: &Kind, parameters: &Given, size: u64) -> Result<NewFs> {
    Ok(match kind {
        Kind::Ffs => NewFs::Ffs(Box::new(planned(&parameters.ffs(size, true)?)?)),
        Kind::Old(format) => NewFs::Old(old::Plan::new(&parameters.old(*format, size))?),
    })
}

/// Returns the plan of a fast file system.
pub fn planned(parameters: &Parameters) -> Result<Plan> {
    Ok(Plan::new(parameters).map_err(spindle::Error::from)?)
}

/// Writes a planned file system to a device.
pub fn write(
    plan: &NewFs,
    device: &Arc<dyn Device>,
    timestamp: Option<i64>,
    signals: &Arc<Signals>,
) -> Result<()> {
    if let NewFs::Ffs(plan) = plan {
        for note in &plan.notes {
            log::info!("{}: {note}", device.info().name);
        }
    }
    Ok(plan.write(&Interruptible::new(Arc::clone(device), signals), timestamp, &mut || ())?)
}

/// Makes a planned file system in a new file, or in an existing one.
pub fn make(
    spec: &Spec,
    plan: &NewFs,
    timestamp: Option<i64>,
    force: bool,
    signals: &Arc<Signals>,
) -> Result<Created> {
    let (device, created) = open_new(spec, Some(plan.size_bytes()), force)?;
    write(plan, &device, timestamp, signals).inspect_err(|_| created.undo())?;
    Ok(created)
}
