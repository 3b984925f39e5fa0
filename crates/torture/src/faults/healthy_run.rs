//! A run of a workload on a healthy device beside the model: the versions and the promises that a
//! run on a faulty device is compared with.

use crate::crash::images::{self, Image};
use crate::crash::operation::Driver;
use crate::crash::oracle::History;
use crate::crash::record::{Recording, open};
use crate::crash::recorder::{Event, Mark};
use crate::crash::workload::Workload;
use spindle_ffs::LogUse;
use spindle_tree::Remount;
use std::sync::Arc;

/// A workload, and what a healthy run of it did.
pub(super) struct HealthyRun {
    /// The workload, up to the first step that is refused because space is missing.
    pub(super) workload: Workload,
    /// The versions and the promises.
    pub(super) history: History,
    /// Bytes that each step writes.
    pub(super) written: Vec<usize>,
    /// Number of promises given before the first step and after each step.
    pub(super) promises: Vec<usize>,
}

/// How far a run got.
pub(super) struct Reached {
    /// Number of promises that were given.
    pub(super) promises: usize,
    /// The last version that may be found.
    pub(super) version: usize,
    /// Whether metadata could not be read until it was unmounted.
    pub(super) unread: Unread,
}

/// Whether metadata could not be read until a file system was unmounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// All that was needed was read.
    Nothing,
    /// Some could not be read. It has no mark of that if it was not changed.
    MayBeMarked,
    /// Some could not be read, and the file system was changed: it must not be marked clean.
    Marked,
}

impl Unread {
    /// Returns what the unmount of a file system must say, which was `changed` before.
    pub(super) fn of(fs: &impl Remount, changed: bool) -> Self {
        match (fs.is_damaged(), changed) {
            (false, _) => Self::Nothing,
            (true, false) => Self::MayBeMarked,
            (true, true) => Self::Marked,
        }
    }
}

impl HealthyRun {
    /// Runs the workload up to the first step that is refused because space is missing.
    ///
    /// # Errors
    /// Reports what goes wrong.
    pub(super) fn of(image: &Image, mut workload: Workload) -> Result<Self, String> {
        workload.steps.truncate(possible(image, &workload)?);
        let recorder = Arc::new(image.recorder());
        let recording = Recording::of(image, &workload, &recorder)?;
        let promises = promises(&recording);
        Ok(Self { workload, history: recording.history, written: recording.written, promises })
    }

    /// Returns how far it got: to the end, without the promise of the unmount.
    pub(super) fn reached(&self, unread: Unread) -> Reached {
        Reached { promises: *self.promises.last().unwrap_or(&0), version: self.history.last(), unread }
    }
}

/// Returns the number of steps that can be done before one is refused.
fn possible(image: &Image, workload: &Workload) -> Result<usize, String> {
    let fs = open(Arc::new(image.device()), images::clock(), LogUse::IfThere)?;
    let mut driver = Driver::of_ffs(&fs);
    let refused = workload.steps.iter().enumerate().position(|(n, step)| {
        driver.apply(&step.op, n as u64, usize::MAX).is_err() || driver.sync(&step.op, step.sync).is_err()
    });
    Ok(refused.unwrap_or(workload.steps.len()))
}

/// Returns the number of promises given before the first step and after each step, without that of
/// the unmount.
fn promises(recording: &Recording) -> Vec<usize> {
    let mut counts = vec![0];
    for event in &recording.events {
        let last = counts[counts.len() - 1];
        match event {
            Event::Mark(Mark::Begins(_)) => counts.push(last),
            Event::Mark(Mark::Promised(count)) if *count < recording.history.promises().len() => {
                *counts.last_mut().expect("it is never empty") = *count;
            }
            _ => {}
        }
    }
    counts
}
