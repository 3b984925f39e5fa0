//! Runs a workload on a device that reports its faults, and checks it meanwhile.

use super::device::FaultyDevice;
use super::healthy_run::{HealthyRun, Reached, Unread};
use super::plan::{Plan, RequestKind};
use crate::crash::images;
use crate::crash::operation::{Driver, Op, Sync};
use crate::crash::oracle::Tree;
use spindle_ffs::LogUse;
use spindle_vfs::{Error, FileSystem};
use std::fmt;
use std::sync::Arc;

/// Number of steps that are tried after the first that is refused for good.
const STEPS_AFTER: usize = 5;

/// The reason why a call failed.
pub(super) enum Refusal {
    /// The device failed, or has failed before: the expected result of a fault.
    Device(Error),
    /// An error that no failure of a device explains.
    Other(Error),
}

/// The run of a workload on a faulty device.
pub(super) struct FaultyRun<'a> {
    device: &'a Arc<FaultyDevice>,
    plan: &'a Plan,
    tries: u64,
    /// True if each call is printed.
    verbose: bool,
}

impl<'a> FaultyRun<'a> {
    pub(super) fn new(device: &'a Arc<FaultyDevice>, plan: &'a Plan, verbose: bool) -> Self {
        Self { device, plan, tries: plan.tries(), verbose }
    }

    /// Returns true after a write or a flush has failed and the device has reported it: nothing may
    /// be changed any more.
    fn latched(&self) -> bool {
        self.device.counts().errors_reported > 0
    }

    /// Repeats a call until it succeeds, as long as only reads have failed.
    pub(super) fn retry<T>(
        &self,
        what: &dyn fmt::Display,
        mut call: impl FnMut() -> spindle_vfs::Result<T>,
    ) -> Result<T, Refusal> {
        let mut tries = self.tries;
        loop {
            tries -= 1;
            let result = call();
            if self.verbose {
                let outcome = result.as_ref().err().map_or("done".into(), ToString::to_string);
                println!("{what}: {outcome}, after {:?}", self.device.counts());
            }
            let error = match result {
                Ok(value) => return Ok(value),
                Err(error @ (Error::Device(_) | Error::ReadOnly)) => error,
                Err(other) => return Err(Refusal::Other(other)),
            };
            let stopped = matches!(error, Error::Device(spindle_device::Error::Latched { .. }));
            if stopped && !self.latched() {
                return Err(Refusal::Other(error));
            }
            if tries == 0 || self.latched() {
                return Err(Refusal::Device(error));
            }
        }
    }

    /// Runs the workload as far as it gets, and then unmounts if `unmount` is true.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub(super) fn run(&self, expected: &HealthyRun, unmount: bool) -> Result<Reached, String> {
        let clock = images::clock();
        let mut reached = Reached { promises: expected.promises[0], version: 0, unread: Unread::Nothing };
        let fs =
            match self.retry(&"open", || images::open(self.device.clone(), clock.clone(), LogUse::IfThere)) {
                Ok(fs) => fs,
                Err(Refusal::Device(_)) => return Ok(reached),
                Err(Refusal::Other(error)) => return Err(format!("open: {error}")),
            };
        let mut driver = Driver::of_ffs(&fs);
        let mut after = 0;
        let mut whole = true;
        let mut changed = false;
        for (n, step) in expected.workload.steps.iter().enumerate() {
            clock.advance(1);
            let latched = self.latched();
            let changes = Self::changes(&driver, &step.op);
            let done = self.step(&mut driver, expected, n, changes)?;
            changed |= done && changes;
            whole &= done;
            if !latched {
                reached.version = n + 1;
            }
            if !(whole || self.latched()) {
                break;
            }
            let kept = step.sync == Sync::None || self.sync(&driver, &step.op, step.sync, changed)?;
            if !latched && done && kept {
                reached.promises = expected.promises[n + 1];
            }
            after += usize::from(self.latched());
            whole &= kept;
            if after > STEPS_AFTER || !(whole || self.latched()) {
                break;
            }
        }
        if matches!(self.plan.fault.affects(), RequestKind::Writes | RequestKind::Flushes) {
            // A read of what could not be written may fail, as long as the device fails.
            let read = || Tree::after_failure(&fs, driver.held());
            let retry = |result: Result<_, _>, _| result.or_else(|_: String| read());
            let read = (0..self.tries).fold(read(), retry);
            read.map_err(|error| format!("reading after a failure: {error}"))?;
        }
        if unmount {
            let latched = self.latched();
            let unmounted = self.retry(&"unmount", || fs.unmount());
            if unmounted.is_ok() {
                reached.unread = Unread::of(&fs, changed);
            }
            if reached.unread != Unread::Nothing && self.device.counts().injected == 0 {
                return Err("damage was met without a fault".into());
            }
            match unmounted {
                Ok(()) if latched => return Err("an unmount succeeded after a write had failed".into()),
                Ok(()) if whole => reached.promises = expected.history.promises().len(),
                Ok(()) | Err(Refusal::Device(_)) => {}
                Err(Refusal::Other(error)) => return Err(format!("unmount: {error}")),
            }
        }
        Ok(reached)
    }

    /// Returns true if an operation that succeeds changes something.
    pub(super) fn changes(driver: &Driver<'_>, op: &Op) -> bool {
        match op {
            Op::Open(..) | Op::Close(_) | Op::Trim => false,
            // A rename between two names of one file does nothing.
            Op::Rename(from, to, _) => match (driver.resolve(from), driver.resolve(to)) {
                (Err(Error::Device(_)), _) | (_, Err(Error::Device(_))) => false,
                (from, to) => from.ok() != to.ok(),
            },
            _ => true,
        }
    }

    /// Returns how the tree in memory differs from the tree before operation `n`, which has failed.
    /// The bytes that it was going to write are not compared.
    fn changed_by_failure(&self, driver: &Driver<'_>, expected: &HealthyRun, n: usize) -> Option<String> {
        let op = &expected.workload.steps[n].op;
        let written = matches!(op, Op::Write(..)).then(|| driver.subject(op).ok()).flatten();
        match driver.tree() {
            Ok(tree) => expected.history.differs(&tree, n, written),
            // The read reports that a write in flight has failed.
            Err(_) if self.latched() => None,
            Err(error) => Some(error),
        }
    }

    /// Runs operation `n`, which changes something if `changes`. Returns false if the device did
    /// not let it.
    fn step(
        &self,
        driver: &mut Driver<'_>,
        expected: &HealthyRun,
        n: usize,
        changes: bool,
    ) -> Result<bool, String> {
        let (op, written) = (&expected.workload.steps[n].op, expected.written[n]);
        let latched = self.latched();
        let mut difference = None;
        let mut whole = || {
            let done = driver.apply(op, n as u64, usize::MAX);
            if done.is_err() && !self.latched() && self.device.fault_has_passed() && difference.is_none() {
                difference = self.changed_by_failure(driver, expected, n);
            }
            driver.write_on(op, n as u64, done?.min(written)..written)
        };
        let result = self.retry(op, &mut whole);
        if let Some(difference) = difference {
            return Err(format!("{op} failed, and yet changed something: {difference}"));
        }
        match result {
            Ok(()) if latched && changes => Err(format!("{op}: done after a write had failed")),
            Ok(()) => Ok(true),
            Err(Refusal::Device(error)) if !self.latched() && self.device.fault_has_passed() => {
                Err(format!("{op}: {error}, although the device works again"))
            }
            Err(Refusal::Device(_)) => Ok(false),
            // Orphans keep their space as long as a read fails that is needed to free them.
            Err(Refusal::Other(Error::NoSpace))
                if self.device.counts().injected > 0 && !self.device.fault_has_passed() =>
            {
                Ok(false)
            }
            Err(Refusal::Other(error)) => Self::accept_if_latched(op, &error, latched),
        }
    }

    /// Makes durable what was `changed` before, if anything. Returns false if the device did not
    /// let it.
    fn sync(&self, driver: &Driver<'_>, op: &Op, sync: Sync, changed: bool) -> Result<bool, String> {
        let latched = self.latched();
        match self.retry(&format_args!("{sync:?} after {op}"), || driver.sync(op, sync)) {
            Ok(()) if latched && changed => {
                Err(format!("{sync:?} after {op}: acknowledged after a write had failed"))
            }
            Ok(()) => Ok(true),
            Err(Refusal::Device(error)) if !self.latched() && self.device.fault_has_passed() => {
                Err(format!("{op}: {error}, although the device works again"))
            }
            Err(Refusal::Device(_)) => Ok(false),
            Err(Refusal::Other(error)) => Self::accept_if_latched(op, &error, latched),
        }
    }

    /// Accepts an error after the latch, because steps that were refused explain what is missing;
    /// damage is never accepted.
    fn accept_if_latched(op: &Op, error: &Error, latched: bool) -> Result<bool, String> {
        if latched && !matches!(error, Error::Corrupt { .. }) {
            Ok(false)
        } else {
            Err(format!("{op}: {error}"))
        }
    }
}
