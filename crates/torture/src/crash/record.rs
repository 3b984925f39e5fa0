//! Runs a workload without any crash, on the file system over a recorder and on the model, whose
//! states are the versions.

use super::images::{self, Image};
use super::operation::{Driver, Op, Sync};
use super::oracle::{History, Promised};
use super::recorder::{Event, Mark, Recorder};
use super::workload::Workload;
use crate::overlay::Allowance;
use spindle_clock::ManualClock;
use spindle_conformance::model::ModelFs;
use spindle_device::Device;
use spindle_ffs::{Ffs, LogUse};
use spindle_vfs::{Error, FileSystem};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A recorded run of a workload.
pub struct Recording {
    /// The events on the device.
    pub events: Vec<Event>,
    /// The versions, and the promises made.
    pub history: History,
    /// Bytes that each step has written; zero if it is not a write, or was refused.
    pub written: Vec<usize>,
}

impl Recording {
    /// Runs a workload on `device`, which holds the image, and undoes its writes.
    ///
    /// # Errors
    /// What went wrong without any crash.
    pub fn of(image: &Image, workload: &Workload, device: &Arc<Recorder>) -> Result<Self, String> {
        let start = device.position();
        device.allow(Allowance { requests: u64::MAX, bytes: u64::MAX });
        let run = catch_unwind(AssertUnwindSafe(|| run(image, workload, device)));
        let events = device.since(start);
        device.rewind(start);
        let (history, written) = run.unwrap_or_else(|panic| Err(format!("panic: {}", message(&*panic))))?;
        Ok(Self { events, history, written })
    }

    /// Returns a readable list of the operations and the events on the device.
    #[must_use]
    pub fn story(&self, workload: &Workload) -> String {
        story(&self.events, |mark| match mark {
            Mark::Begins(version) => {
                format!("operation {version}: {}", workload.steps[version - 1].op)
            }
            Mark::Promised(count) => format!("promise: {:?}", self.history.promises()[count - 1]),
        })
    }
}

/// Returns a readable list of the events on a device; `mark` describes the marks.
pub(super) fn story(events: &[Event], mark: impl Fn(Mark) -> String) -> String {
    let line = |(at, event): (usize, &Event)| match event {
        Event::Write(write) => Some(format!("{at}: write {} bytes at {}", write.bytes.len(), write.offset)),
        Event::Landed(_) => None,
        Event::Flush => Some(format!("{at}: flush")),
        Event::Mark(noted) => Some(format!("{at}: {}", mark(*noted))),
    };
    events.iter().enumerate().filter_map(line).collect::<Vec<_>>().join("\n")
}

fn run(image: &Image, workload: &Workload, device: &Arc<Recorder>) -> Result<(History, Vec<usize>), String> {
    let clock = images::clock();
    let model = images::model(&image.limits, clock.clone());
    let mut model_driver = Driver::new(&model);
    let mut history = History::default();
    let mut written = Vec::new();
    history.add(model_driver.tree()?);
    device.mark(Mark::Promised(history.promise(Promised::All)));
    let fs = images::open_as(device.clone(), clock.clone(), image.log, image.mounting);
    let fs = writable(fs)?;
    let mut real = Driver::of_ffs(&fs);
    for (n, step) in workload.steps.iter().enumerate() {
        if image.mounting.ticks() {
            clock.advance(1);
        }
        device.mark(Mark::Begins(n + 1));
        let done = apply_to_both(&mut real, &mut model_driver, &step.op, n as u64)?;
        written.push(done.unwrap_or(0));
        history.add(model_driver.tree()?);
        if done.is_some() && matches!(step.op, Op::MakeSnapshot(_)) {
            // It is durable, and so is what it holds.
            device.mark(Mark::Promised(history.promise(Promised::All)));
        }
        if done.is_some() && step.sync != Sync::None {
            let promised = promised(&model, &model_driver, &step.op, step.sync)?;
            real.sync(&step.op, step.sync).map_err(|e| format!("{} then {:?}: {e}", step.op, step.sync))?;
            if let Some(promised) = promised {
                device.mark(Mark::Promised(history.promise(promised)));
            }
        }
    }
    fs.unmount().map_err(|e| format!("unmount: {e}"))?;
    device.mark(Mark::Promised(history.promise(Promised::All)));
    Ok((history, written))
}

/// Runs an operation on the file system and the model, and returns the bytes written if it was
/// done. If space ran out during a write, the model writes the same part.
pub(crate) fn apply_to_both(
    real: &mut Driver<'_>,
    model: &mut Driver<'_>,
    op: &Op,
    serial: u64,
) -> Result<Option<usize>, String> {
    let done = real.apply(op, serial, usize::MAX);
    let same = match &done {
        Ok(written) => model.apply(op, serial, *written).is_ok(),
        // Nothing of it was done.
        Err(Error::NoSpace) => return Ok(None),
        Err(_) => model.apply(op, serial, usize::MAX).is_err(),
    };
    if same { Ok(done.ok()) } else { Err(format!("{op}: {done:?}, which differs from the model")) }
}

/// Returns what `sync` after `op` promises. There is no promise for a file without a name, because
/// it cannot be found afterwards.
pub(crate) fn promised(
    model: &ModelFs,
    driver: &Driver<'_>,
    op: &Op,
    sync: Sync,
) -> Result<Option<Promised>, String> {
    if sync == Sync::All {
        return Ok(Some(Promised::All));
    }
    let attr = driver.subject(op).and_then(|ino| model.getattr(ino)).map_err(|e| format!("{op}: {e}"))?;
    let identity = (attr.ino, attr.generation);
    let of = if sync == Sync::Fsync { Promised::File(identity) } else { Promised::Data(identity) };
    Ok((attr.nlink > 0).then_some(of))
}

/// Opens a file system for writing, or returns why it cannot be.
pub(crate) fn open(device: Arc<dyn Device>, clock: Arc<ManualClock>, log: LogUse) -> Result<Ffs, String> {
    writable(images::open(device, clock, log))
}

/// Returns the file system if it was opened for writing, otherwise why it was not.
fn writable(opened: spindle_vfs::Result<Ffs>) -> Result<Ffs, String> {
    let fs = opened.map_err(|e| format!("open: {e}"))?;
    if fs.read_only() {
        let reasons: Vec<_> = fs.read_only_reasons().iter().map(|o| o.reason.as_str()).collect();
        return Err(format!("opened read-only: {}", reasons.join("; ")));
    }
    Ok(fs)
}

/// Returns the message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").into()
}
