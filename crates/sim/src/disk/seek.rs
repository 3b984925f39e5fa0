//! How long the arm takes over a distance: a square root while it accelerates, a line where it
//! travels.
//!
//! The form t(d) = min + a·√(d-1) + b·(d-1), fitted to the published shortest, mean and longest
//! seek, is that of `RAIDframe` (`rf_geometry.c`); with uniformly distributed pairs of cylinders
//! the mean of √d is 8/15·√N, that of d N/3.

use super::invalid;
use crate::error::Error;
use crate::time::Time;

/// Seek time by distance.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Shortest, in milliseconds.
    min: f64,
    /// Milliseconds per square root of a cylinder.
    root: f64,
    /// Milliseconds per cylinder.
    line: f64,
}

impl Curve {
    /// Returns the curve of a disk of `cylinders` with these seek times in milliseconds.
    ///
    /// # Errors
    /// When the times are out of order, or no curve that never falls passes through them.
    pub fn fit(cylinders: u32, min_ms: f64, average_ms: f64, max_ms: f64) -> Result<Self, Error> {
        let ordered = min_ms >= 0.0 && min_ms <= average_ms && average_ms <= max_ms && max_ms.is_finite();
        if !ordered {
            return Err(invalid("seek", "min_ms, average_ms and max_ms must rise, from 0 on"));
        }
        let n = f64::from(cylinders);
        let root = (15.0 * average_ms - 10.0 * min_ms - 5.0 * max_ms) / (3.0 * n.sqrt());
        let line = (7.0 * min_ms + 8.0 * max_ms - 15.0 * average_ms) / (3.0 * n);
        let steepest_at_end = root / (2.0 * n.sqrt()) + line;
        if root < -1e-9 || steepest_at_end < -1e-9 {
            return Err(invalid(
                "seek",
                "no curve has this mean: average_ms must lie between (2·min + max)/3 and (4·min + 11·max)/15",
            ));
        }
        Ok(Self { min: min_ms, root, line })
    }

    /// Returns the time to move over `distance` cylinders.
    #[must_use]
    pub fn time(&self, distance: u32) -> Time {
        if distance == 0 {
            return Time::ZERO;
        }
        let d = f64::from(distance - 1);
        Time::from_ms_f64(self.min + self.root * d.sqrt() + self.line * d)
    }
}
