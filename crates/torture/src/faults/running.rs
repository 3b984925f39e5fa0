//! A workload on a device that reports its faults, checked while it runs.

use super::device::FaultyDevice;
use super::plan::{Among, Plan};
use super::trial::{FaultTest, Reached};
use crate::crash::images;
use crate::crash::operation::{Driver, Op, Sync};
use crate::crash::oracle::Tree;
use spindle_ffs::LogUse;
use spindle_vfs::{Error, FileSystem};
use std::fmt;
use std::sync::Arc;

/// How often something that fails is tried at most.
const MOST_TRIES: u64 = 8;
/// Steps that are tried after the first that is refused for good.
const STEPS_AFTER: usize = 5;

/// Why something was not done.
pub(super) enum Refusal {
    /// The device failed, or has failed before: what a fault is expected to bring.
    Device(Error),
    /// Something else, which no failure of a device explains.
    Other(Error),
}

/// What is known of the device while a workload runs.
pub(super) struct Running<'a> {
    device: &'a Arc<FaultyDevice>,
    plan: &'a Plan,
    tries: u64,
    /// True if what is done is printed.
    verbose: bool,
}

impl<'a> Running<'a> {
    pub(super) fn new(device: &'a Arc<FaultyDevice>, plan: &'a Plan, verbose: bool) -> Self {
        let length = plan.requests.end - plan.requests.start;
        Self { device, plan, tries: length.saturating_add(1).min(MOST_TRIES), verbose }
    }

    /// Returns true once nothing may be changed any more: a write or a flush has failed and the
    /// device has reported it.
    fn latched(&self) -> bool {
        self.device.counts().errors_reported > 0
    }

    /// Tries until it succeeds, as long as only reads have failed.
    pub(super) fn tried<T>(
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

    /// Returns true if nothing fails any more.
    fn is_over(&self) -> bool {
        let Plan { fault, requests, .. } = self.plan;
        self.device.counts().among(fault.among()) >= requests.end
    }

    /// Runs the workload of `trial` as far as it gets, and unmounts or does not.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub(super) fn run(&self, trial: &FaultTest, unmount: bool) -> Result<Reached, String> {
        let clock = images::clock();
        let mut reached = Reached { promises: trial.promises[0], version: 0 };
        let fs =
            match self.tried(&"open", || images::open(self.device.clone(), clock.clone(), LogUse::IfThere)) {
                Ok(fs) => fs,
                Err(Refusal::Device(_)) => return Ok(reached),
                Err(Refusal::Other(error)) => return Err(format!("open: {error}")),
            };
        let mut driver = Driver::new(&fs);
        let mut after = 0;
        let mut whole = true;
        let mut changed = false;
        for (n, step) in trial.workload.steps.iter().enumerate() {
            clock.advance(1);
            let latched = self.latched();
            let changes = Self::changes(&driver, &step.op);
            let done = self.step(&mut driver, trial, n, changes)?;
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
                reached.promises = trial.promises[n + 1];
            }
            after += usize::from(self.latched());
            whole &= kept;
            if after > STEPS_AFTER || !(whole || self.latched()) {
                break;
            }
        }
        if matches!(self.plan.fault.among(), Among::Writes | Among::Flushes) {
            // A read of what has just failed to be written may fail, as long as the device fails.
            let read = || Tree::of(&fs, driver.held());
            let retry = |result: Result<_, _>, _| result.or_else(|_: String| read());
            (0..self.tries).fold(read(), retry).map_err(|e| format!("reading on: {e}"))?;
        }
        if unmount {
            let latched = self.latched();
            match self.tried(&"unmount", || fs.unmount()) {
                Ok(()) if latched => return Err("an unmount succeeded after a write had failed".into()),
                Ok(()) if whole => reached.promises = trial.history.promises().len(),
                Ok(()) | Err(Refusal::Device(_)) => {}
                Err(Refusal::Other(error)) => return Err(format!("unmount: {error}")),
            }
        }
        Ok(reached)
    }

    /// Returns true if an operation that succeeds changes something.
    fn changes(driver: &Driver<'_>, op: &Op) -> bool {
        match op {
            Op::Open(..) | Op::Close(_) => false,
            // Two names of one file stay as they are.
            Op::Rename(from, to, _) => match (driver.resolve(from), driver.resolve(to)) {
                (Err(Error::Device(_)), _) | (_, Err(Error::Device(_))) => false,
                (from, to) => from.ok() != to.ok(),
            },
            _ => true,
        }
    }

    /// Returns how the tree in memory differs from what it was before operation `n`, which has
    /// failed; bytes that it was going to write are not looked at.
    fn unlike(&self, driver: &Driver<'_>, trial: &FaultTest, n: usize) -> Option<String> {
        let op = &trial.workload.steps[n].op;
        let written = matches!(op, Op::Write(..)).then(|| driver.subject(op).ok()).flatten();
        match driver.tree() {
            Ok(tree) => trial.history.differs(&tree, n, written),
            // The read reports here that a write under way has failed.
            Err(_) if self.latched() => None,
            Err(error) => Some(error),
        }
    }

    /// Carries out the `n`th operation, which `changes` something or not, and writes so many bytes;
    /// false if the device did not let it.
    fn step(
        &self,
        driver: &mut Driver<'_>,
        trial: &FaultTest,
        n: usize,
        changes: bool,
    ) -> Result<bool, String> {
        let (op, written) = (&trial.workload.steps[n].op, trial.written[n]);
        let latched = self.latched();
        let mut unlike = None;
        let mut whole = || {
            let done = driver.apply(op, n as u64, usize::MAX);
            if done.is_err() && !self.latched() && self.is_over() && unlike.is_none() {
                unlike = self.unlike(driver, trial, n);
            }
            driver.write_on(op, n as u64, done?.min(written)..written)
        };
        let tried = self.tried(op, &mut whole);
        if let Some(difference) = unlike {
            return Err(format!("{op} failed, and left something behind: {difference}"));
        }
        match tried {
            Ok(()) if latched && changes => Err(format!("{op}: done after a write had failed")),
            Ok(()) => Ok(true),
            Err(Refusal::Device(error)) if !self.latched() && self.is_over() => {
                Err(format!("{op}: {error}, although the device works again"))
            }
            Err(Refusal::Device(_)) => Ok(false),
            // What lost its name keeps its space for as long as nobody can read which that is.
            Err(Refusal::Other(Error::NoSpace)) if self.device.counts().struck > 0 && !self.is_over() => {
                Ok(false)
            }
            Err(Refusal::Other(error)) => Self::explained(op, &error, latched),
        }
    }

    /// Makes durable what has `changed`, if anything; false if the device did not let it.
    fn sync(&self, driver: &Driver<'_>, op: &Op, sync: Sync, changed: bool) -> Result<bool, String> {
        let latched = self.latched();
        match self.tried(&format_args!("{sync:?} after {op}"), || driver.sync(op, sync)) {
            Ok(()) if latched && changed => {
                Err(format!("{sync:?} after {op}: acknowledged after a write had failed"))
            }
            Ok(()) => Ok(true),
            Err(Refusal::Device(error)) if !self.latched() && self.is_over() => {
                Err(format!("{op}: {error}, although the device works again"))
            }
            Err(Refusal::Device(_)) => Ok(false),
            Err(Refusal::Other(error)) => Self::explained(op, &error, latched),
        }
    }

    /// Returns what was refused before explains that something is missing now, and nothing else.
    fn explained(op: &Op, error: &Error, latched: bool) -> Result<bool, String> {
        if latched && !matches!(error, Error::Corrupt { .. }) {
            Ok(false)
        } else {
            Err(format!("{op}: {error}"))
        }
    }
}
