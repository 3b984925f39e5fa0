//! The horizontal axis of a distribution: powers at equal distances.

use crate::outcome::{Mark, Series, Unit};

/// The range of an axis, as exponents: of 2 for bytes, of 10 for seconds.
pub(super) struct Axis {
    unit: Unit,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Axis {
    /// Returns an axis for all points and marks. Values that are not above 0 are put at its left
    /// end.
    pub(super) fn of(unit: Unit, series: &[Series], marks: &[Mark]) -> Self {
        let points = series.iter().flat_map(|series| series.points.iter().map(|p| p.0));
        let values = || points.clone().chain(marks.iter().map(|mark| mark.x)).filter(|&x| x > 0.0);
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(f64::NEG_INFINITY, f64::max);
        let exponent = |x: f64| match unit {
            Unit::Bytes => x.log2(),
            Unit::Seconds => x.log10(),
        };
        let (low, high) =
            if low <= high { (exponent(low).floor(), exponent(high).ceil()) } else { (0.0, 1.0) };
        Self { unit, low, high: high.max(low + 1.0) }
    }

    /// Returns the position of a value, between `low` and `high`.
    pub(super) fn place(&self, value: f64) -> f64 {
        let exponent = match self.unit {
            Unit::Bytes => value.log2(),
            Unit::Seconds => value.log10(),
        };
        exponent.clamp(self.low, self.high)
    }

    /// Returns the position of a value as a share of the axis, from 0 to 1.
    pub(super) fn part(&self, value: f64) -> f64 {
        (self.place(value) - self.low) / (self.high - self.low)
    }

    /// Returns the positions of at most `most` ticks.
    pub(super) fn ticks(&self, most: u32) -> Vec<f64> {
        let steps: &[f64] = match self.unit {
            Unit::Bytes => &[1.0, 2.0, 5.0, 10.0],
            Unit::Seconds => &[1.0, 2.0, 3.0, 5.0],
        };
        let fits = |step: &&f64| (self.high - self.low) / **step < f64::from(most);
        let step = steps.iter().find(fits).or(steps.last()).copied().unwrap_or(1.0);
        let first = (self.low / step).ceil() * step;
        let ticks = std::iter::successors(Some(first), |tick| Some(tick + step));
        ticks.take_while(|&tick| tick <= self.high).collect()
    }

    /// Returns the label of a tick.
    pub(super) fn label(&self, tick: f64) -> String {
        match self.unit {
            Unit::Bytes => bytes(tick.exp2()),
            Unit::Seconds => seconds(10_f64.powf(tick)),
        }
    }
}

/// Formats a number of bytes briefly.
fn bytes(value: f64) -> String {
    scaled(value, &[(1.0, "B"), (1024.0, "KiB"), (1024.0, "MiB"), (1024.0, "GiB"), (1024.0, "TiB")])
}

/// Formats a time briefly.
fn seconds(value: f64) -> String {
    scaled(value * 1e9, &[(1.0, "ns"), (1e3, "µs"), (1e3, "ms"), (1e3, "s")])
}

/// Formats a value in the largest unit of which there is at least one; each unit has its factor to
/// the previous one.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let mut left = value;
    let mut unit = "";
    for &(factor, name) in units {
        // Powers have rounding errors.
        if !unit.is_empty() && left < factor * 0.999_999 {
            break;
        }
        left /= factor;
        unit = name;
    }
    format!("{left:.0} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an axis includes all its values; its ticks are powers inside it, at most as many as
    /// requested, with short labels.
    #[test]
    fn powers() {
        let series = [Series { name: "a".into(), points: vec![(0.0, 0.0), (3.0, 0.5), (5e6, 1.0)] }];
        let axis = Axis::of(Unit::Bytes, &series, &[]);
        assert_eq!((axis.low, axis.high), (1.0, 23.0));
        assert_eq!((axis.place(0.0), axis.place(1e9), axis.part(4096.0)), (1.0, 23.0, 0.5));
        let labels: Vec<_> = axis.ticks(7).into_iter().map(|tick| axis.label(tick)).collect();
        assert_eq!(labels, ["32 B", "1 KiB", "32 KiB", "1 MiB"]);
        let mark = Mark { x: 1e-6, y: (0.0, 1.0), text: String::new() };
        let axis =
            Axis::of(Unit::Seconds, &[Series { name: "a".into(), points: vec![(1000.0, 1.0)] }], &[mark]);
        let labels: Vec<_> = axis.ticks(12).into_iter().map(|tick| axis.label(tick)).collect();
        assert_eq!(labels[0..4], ["1 µs", "10 µs", "100 µs", "1 ms"]);
        assert_eq!(labels[9], "1000 s");
        let empty = Axis::of(Unit::Bytes, &[], &[]);
        assert!(empty.low < empty.high && !empty.ticks(5).is_empty());
    }
}
