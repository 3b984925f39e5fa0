//! How long the arm takes over a distance: by three published figures, or by a table of measured
//! times.
//!
//! Of three figures, the form is t(d) = min + a·√(d-1) + b·(d-1): a square root while the arm
//! accelerates, a line where it travels. Fitted to the shortest, mean and longest seek it is that
//! of `RAIDframe` (`rf_geometry.c`); with uniformly distributed pairs of cylinders the mean of √d
//! is 8/15·√N, that of d N/3. Measured drives are slower than that at short distances: between 30
//! and 300 cylinders by .3 to 1.2 ms. A table has no such error.

use super::invalid;
use super::spec::Seek;
use crate::error::Error;
use crate::time::Time;
use std::collections::BTreeMap;

/// The longest seek: 100 seconds.
const MOST_MS: f64 = 1e5;

/// Seek time by distance.
#[derive(Clone, Debug, PartialEq)]
pub enum Curve {
    /// Through three figures.
    Fitted {
        /// Shortest, in milliseconds.
        min: f64,
        /// Milliseconds per square root of a cylinder.
        root: f64,
        /// Milliseconds per cylinder.
        line: f64,
    },
    /// Measured: distances, which rise from 1 on, and milliseconds. At least two.
    Table(Vec<(f64, f64)>),
}

impl Curve {
    /// Returns the curves of reading and of writing that `seek` describes, of a disk of
    /// `cylinders`.
    ///
    /// # Errors
    /// When there is neither a table nor three figures, when there are both, or as [`Self::fit`]
    /// and [`Self::table`].
    pub fn pair(cylinders: u32, seek: &Seek) -> Result<(Self, Self), Error> {
        let read = [seek.min_ms, seek.average_ms, seek.max_ms];
        let write = [seek.write_min_ms, seek.write_average_ms, seek.write_max_ms];
        if seek.table_ms.is_empty() {
            if !seek.write_table_ms.is_empty() {
                return Err(invalid("seek.write_table_ms", "needs a table_ms"));
            }
            let [Some(min), Some(average), Some(max)] = read else {
                return Err(invalid("seek", "needs min_ms, average_ms and max_ms, or table_ms"));
            };
            let [write_min, write_average, write_max] = write;
            let write = Self::fit(
                cylinders,
                write_min.unwrap_or(min),
                write_average.unwrap_or(average),
                write_max.unwrap_or(max),
            )?;
            Ok((Self::fit(cylinders, min, average, max)?, write))
        } else {
            if read.iter().chain(&write).any(Option::is_some) {
                return Err(invalid("seek", "has table_ms, beside which no other figures of seeks are read"));
            }
            let read = Self::table("seek.table_ms", &seek.table_ms)?;
            let write = match &seek.write_table_ms {
                table if table.is_empty() => read.clone(),
                table => Self::table("seek.write_table_ms", table)?,
            };
            Ok((read, write))
        }
    }

    /// Returns the curve through measured times by distance.
    ///
    /// # Errors
    /// When there are fewer than two, or none is that to the next cylinder.
    fn table(field: &str, times: &BTreeMap<u32, f64>) -> Result<Self, Error> {
        if times.len() < 2 || times.first_key_value().is_none_or(|(distance, _)| *distance != 1) {
            return Err(invalid(
                field,
                "needs the time to the next cylinder, which is 1, and at least one more",
            ));
        }
        if times.values().any(|ms| !(0.0..=MOST_MS).contains(ms)) {
            return Err(invalid(field, "must have times from 0 to 100000"));
        }
        let points = times.iter().map(|(distance, ms)| (f64::from(*distance), *ms)).collect();
        Ok(Self::Table(points))
    }

    /// Returns the curve of a disk of `cylinders` with these seek times in milliseconds.
    ///
    /// # Errors
    /// When the times are out of order, or no curve that never falls passes through them.
    fn fit(cylinders: u32, min_ms: f64, average_ms: f64, max_ms: f64) -> Result<Self, Error> {
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
        Ok(Self::Fitted { min: min_ms, root, line })
    }

    /// Returns the time to move over `distance` cylinders.
    #[must_use]
    pub fn time(&self, distance: u32) -> Time {
        if distance == 0 {
            return Time::ZERO;
        }
        Time::from_ms_f64(match self {
            Self::Fitted { min, root, line } => {
                let d = f64::from(distance - 1);
                min + root * d.sqrt() + line * d
            }
            Self::Table(points) => {
                let d = f64::from(distance);
                let above = points.partition_point(|(distance, _)| *distance < d).clamp(1, points.len() - 1);
                let ((from, a), (to, b)) = (points[above - 1], points[above]);
                // Beyond the last point the line may fall, but no seek takes less than none.
                (a + (b - a) * (d - from) / (to - from)).max(0.0)
            }
        })
    }
}
