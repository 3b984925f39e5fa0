//! Figures on a terminal: curves as marks on a grid of characters, bars as rows of blocks.

use super::axis::Axis;
use super::table::pad;
use super::wrapped;
use crate::outcome::{Figure, Mark, Plot, Series, Unit};
use std::fmt::Write;

/// Size of the plotting area in characters.
const COLUMNS: usize = 72;
const LINES: usize = 18;
/// The marks of the curves, in order.
const MARKS: [char; 8] = ['●', '○', '▲', '△', '◆', '◇', '■', '□'];

/// Returns a figure as text.
#[must_use]
pub fn plot(figure: &Figure) -> String {
    let body = match &figure.plot {
        Plot::Lines { x, y, series } => lines(x, y, series),
        Plot::Cumulative { x, unit, y, series, marks } => cumulative(x, *unit, y, series, marks),
        Plot::Bars { y, groups, series } => bars(y, groups, series),
    };
    format!("{}\n\n{body}", wrapped(&figure.title, "  "))
}

/// Formats a number for an axis.
pub(super) fn label(number: f64) -> String {
    let text = match number.abs() {
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Returns the smallest round number that is not below `n`: a step of the list times a power of
/// ten.
pub(super) fn round_up(n: f64) -> f64 {
    if n <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(n.log10().floor());
    [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .map(|step| step * power)
        .into_iter()
        .find(|&step| step >= n)
        .unwrap_or(n)
}

/// Returns the range of the horizontal axis and the end of the vertical one, which begins at 0.
pub(super) fn extent(series: &[Series]) -> (f64, f64, f64) {
    let points = || series.iter().flat_map(|series| &series.points);
    let low = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let high = points().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
    let top = round_up(points().map(|p| p.1).fold(0.0, f64::max));
    if low < high { (low, high, top) } else { (0.0, 1.0, top) }
}

/// Returns the height of a curve at `x`, interpolated between its points.
fn height(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let next = points.partition_point(|p| p.0 < x);
    let &(x1, y1) = points.get(next)?;
    let Some(&(x0, y0)) = next.checked_sub(1).and_then(|n| points.get(n)) else {
        return (x1 - x).abs().le(&(x1.abs() * 1e-9)).then_some(y1);
    };
    Some(if x1 > x0 { y0 + (y1 - y0) * (x - x0) / (x1 - x0) } else { y1 })
}

/// The plotting area.
struct Grid([[char; COLUMNS]; LINES]);

impl Grid {
    const fn new() -> Self {
        Self([[' '; COLUMNS]; LINES])
    }

    /// Puts a mark in a column at a relative height from 0 to 1.
    fn put(&mut self, column: usize, height: f64, mark: char) {
        let step = as_usize(height * as_f64(LINES - 1)).min(LINES - 1);
        if let Some(place) = self.0[LINES - 1 - step].get_mut(column) {
            *place = mark;
        }
    }

    fn curve(&mut self, points: &[(f64, f64)], (low, high): (f64, f64), top: f64, mark: char) {
        for column in 0..COLUMNS {
            let at = low + (high - low) * as_f64(column) / as_f64(COLUMNS - 1);
            if let Some(value) = height(points, at) {
                self.put(column, value / top, mark);
            }
        }
    }

    /// Returns the area with its vertical axis and a line below.
    fn text(&self, y: &str, top: &str) -> String {
        let mut out = format!("  {y}\n");
        for (n, line) in self.0.iter().enumerate() {
            // Ticks at the top and the bottom.
            let tick = match n {
                0 => top,
                n if n == LINES - 1 => "0",
                _ => "",
            };
            let text: String = line.iter().collect();
            let _ = writeln!(out, "{tick:>8} │{}", text.trim_end());
        }
        let _ = writeln!(out, "{:>8} └{}", "", "─".repeat(COLUMNS));
        out
    }
}

fn names(out: &mut String, series: &[Series]) {
    for (n, curve) in series.iter().enumerate() {
        let _ = writeln!(out, "{:>9} {} {}", "", MARKS[n % MARKS.len()], curve.name);
    }
}

fn lines(x: &str, y: &str, series: &[Series]) -> String {
    let (low, high, top) = extent(series);
    let mut grid = Grid::new();
    for (n, curve) in series.iter().enumerate() {
        grid.curve(&curve.points, (low, high), top, MARKS[n % MARKS.len()]);
    }
    let mut out = grid.text(y, &label(top));
    let (left, right) = (label(low), label(high));
    let fill = COLUMNS.saturating_sub(left.len() + right.len() + x.chars().count()) / 2;
    let _ = writeln!(out, "{:>9} {left}{}{x}{}{right}", "", " ".repeat(fill), " ".repeat(fill));
    names(&mut out, series);
    out
}

/// Draws distributions; findings of others are crosses, or bars for ranges of shares.
fn cumulative(x: &str, unit: Unit, y: &str, series: &[Series], marks: &[Mark]) -> String {
    let axis = Axis::of(unit, series, marks);
    let mut grid = Grid::new();
    for (n, curve) in series.iter().enumerate() {
        let points: Vec<_> = curve.points.iter().map(|p| (axis.place(p.0), p.1)).collect();
        grid.curve(&points, (axis.low, axis.high), 1.0, MARKS[n % MARKS.len()]);
    }
    for mark in marks {
        let column = as_usize(axis.part(mark.x) * as_f64(COLUMNS - 1));
        let (from, to) = mark.y;
        for step in 0..=4 {
            grid.put(column, from + (to - from) * as_f64(step) / 4.0, '╳');
        }
    }
    let mut out = grid.text(y, "100 %");
    let mut below = vec![' '; COLUMNS + 12];
    for tick in axis.ticks(7) {
        let text = axis.label(tick);
        let middle = as_usize((tick - axis.low) / (axis.high - axis.low) * as_f64(COLUMNS - 1)) + 1;
        let from = middle.saturating_sub(text.chars().count() / 2);
        for (place, letter) in below[from..].iter_mut().zip(text.chars()) {
            *place = letter;
        }
    }
    let below: String = below.iter().collect();
    let _ = writeln!(out, "{:>9}{}", "", below.trim_end());
    let _ = writeln!(out, "{:>9} {}{x}", "", " ".repeat(COLUMNS.saturating_sub(x.chars().count()) / 2));
    names(&mut out, series);
    for mark in marks {
        let _ = writeln!(out, "{:>9} ╳ {}", "", mark.text);
    }
    out
}

fn bars(y: &str, groups: &[String], series: &[(String, Vec<f64>)]) -> String {
    const MAX_LENGTH: usize = 50;
    let top = series.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max);
    let width =
        |names: &mut dyn Iterator<Item = &String>| names.map(|name| name.chars().count()).max().unwrap_or(0);
    let (outer, inner) = (width(&mut groups.iter()), width(&mut series.iter().map(|(name, _)| name)));
    let inner = if series.len() > 1 { inner } else { 0 };
    let mut out = format!("  {y}\n");
    for (g, group) in groups.iter().enumerate() {
        for (s, (name, values)) in series.iter().enumerate() {
            let value = values.get(g).copied().unwrap_or(0.0);
            let group = if s == 0 { group.as_str() } else { "" };
            let name = if series.len() > 1 { name.as_str() } else { "" };
            let _ = writeln!(
                out,
                "  {}  {} │{} {}",
                pad(group, outer, true),
                pad(name, inner, true),
                bar(if top > 0.0 { value / top * as_f64(MAX_LENGTH) } else { 0.0 }),
                label(value)
            );
        }
        if series.len() > 1 && g + 1 < groups.len() {
            out.push('\n');
        }
    }
    out
}

/// Returns a bar of this length in characters, to an eighth.
fn bar(length: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = as_usize(length * 8.0);
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[allow(clippy::cast_precision_loss)] // Positions on a page.
const fn as_f64(n: usize) -> f64 {
    n as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Clamped to positions on a page.
fn as_usize(n: f64) -> usize {
    if n.is_finite() { n.round().clamp(0.0, 1e6) as usize } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a rising curve starts at the bottom left and ends at the top right of the axes.
    #[test]
    fn curves() {
        let plot = plot(&Figure {
            title: "t".into(),
            plot: Plot::Lines {
                x: "days".into(),
                y: "KB/s".into(),
                series: vec![Series { name: "new".into(), points: vec![(0.0, 0.0), (10.0, 100.0)] }],
            },
        });
        let lines: Vec<_> = plot.lines().collect();
        assert!(lines[3].starts_with("     100 │") && lines[3].ends_with('●'), "{plot}");
        assert!(lines[3 + LINES - 1].starts_with("       0 │●"), "{plot}");
        assert_eq!(plot.matches('●').count(), COLUMNS + 1);
    }

    /// Promise: the names of groups and of bars may have any length.
    #[test]
    fn long_names() {
        let (group, name) = ("g".repeat(70_000), "n".repeat(70_000));
        let series = [(name.clone(), vec![1.0]), ("short".into(), vec![1.0])];
        let text = bars("y", std::slice::from_ref(&group), &series);
        assert!(text.contains(&format!("  {group}  {name} │")), "{}", text.len());
    }

    /// Promise: the lengths of bars are proportional to their numbers, and empty figures are drawn
    /// without a panic.
    #[test]
    fn bars_and_empty_figures() {
        let text = bars("KB/s", &["a".into(), "b".into()], &[("x".into(), vec![50.0, 25.0])]);
        let blocks: Vec<_> = text.lines().map(|line| line.matches('█').count()).collect();
        assert_eq!(blocks, [0, 50, 25]);
        lines("x", "y", &[]);
        bars("y", &["a".into()], &[("s".into(), vec![])]);
        assert_eq!(
            (label(0.0), label(1234.5), label(12.50), label(0.25)),
            ("0".into(), "1234".into(), "12.5".into(), "0.25".into())
        );
        assert!((round_up(983.0) - 1000.0).abs() < 1e-9 && (round_up(0.0) - 1.0).abs() < 1e-9);
    }
}
