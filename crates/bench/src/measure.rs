//! What a run is asked to do, and the clock.

use std::path::PathBuf;
use std::time::Duration;

use spindle_clock::{Clock, SystemClock};
use spindle_interop::{Failure, Result};

/// What the command line asked for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How often everything is measured.
    pub rounds: u64,
    /// How much of the full work is done.
    pub scale_percent: u64,
    /// The groups of rows to measure; all when empty.
    pub only: Vec<String>,
    /// Where images and mounts are made.
    pub directory: PathBuf,
}

impl Settings {
    /// `full` scaled down, at least 1.
    pub fn scaled(&self, full: u64) -> u64 {
        (full * self.scale_percent / 100).max(1)
    }

    /// Whether this group of rows is wanted.
    pub fn wants(&self, group: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| word == group)
    }
}

/// How long `work` takes.
pub fn time<E: std::fmt::Display>(
    row: &str,
    work: impl FnOnce() -> std::result::Result<(), E>,
) -> Result<Duration> {
    let clock = SystemClock;
    let start = clock.monotonic();
    work().map_err(Failure::of(row))?;
    Ok(clock.monotonic().saturating_sub(start))
}
