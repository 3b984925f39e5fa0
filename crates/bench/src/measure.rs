//! The clock.

use std::time::Duration;

use spindle_clock::{Clock, SystemClock};
use spindle_interop::{Failure, Result};

/// Measures how long `work` takes.
pub fn time<E: std::fmt::Display>(
    row: &str,
    work: impl FnOnce() -> std::result::Result<(), E>,
) -> Result<Duration> {
    let clock = SystemClock;
    let start = clock.monotonic();
    work().map_err(Failure::of(row))?;
    Ok(clock.monotonic().saturating_sub(start))
}
