//! The results of an experiment, as data.
//!
//! A [`Comparison`] is judged by its own tolerance ([`Comparison::verdict`]): held, outside but
//! explained, or outside. An explanation says what the paper leaves unknown, and why the shape of
//! the result still holds.

use serde::Serialize;

/// The results of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Tables, the most important first.
    pub tables: Vec<Table>,
    /// Figures.
    pub figures: Vec<Figure>,
    /// Conclusions, one paragraph each.
    pub findings: Vec<String>,
}

impl Outcome {
    /// Returns all comparisons with a paper's figures.
    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        let cells = self.tables.iter().flat_map(|table| table.rows.iter().flat_map(|row| &row.cells));
        cells.filter_map(|cell| if let Cell::Compared(comparison) = cell { Some(comparison) } else { None })
    }

    /// Returns the number of comparisons with this verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.tables.iter().map(|table| table.count(verdict)).sum()
    }
}

/// A section of a report, with an id and a title.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Section {
    /// Its name in files and links: lowercase letters, digits and `-`.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// Introduction.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Its results.
    pub outcome: Outcome,
}

/// A table: the first cell of each row names it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Title.
    pub title: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows, each with one cell per column.
    pub rows: Vec<Row>,
    /// Note about the whole table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Table {
    /// Returns an empty table with these columns.
    pub fn new(title: impl Into<String>, columns: impl IntoIterator<Item = Column>) -> Self {
        Self { title: title.into(), columns: columns.into_iter().collect(), rows: Vec::new(), note: None }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// Panics unless there is one cell per column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Row {
        let row = Row { cells: cells.into_iter().collect(), note: None };
        assert_eq!(row.cells.len(), self.columns.len(), "{}: cells in a row", self.title);
        self.rows.push(row);
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    /// Adds a note about the whole table.
    pub fn explain(&mut self, note: impl Into<String>) {
        self.note = Some(note.into());
    }

    /// Returns the number of comparisons with this verdict, considering the notes of their rows.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        let verdicts = self.rows.iter().flat_map(|row| row.cells.iter().filter_map(|cell| row.verdict(cell)));
        verdicts.filter(|&found| found == verdict).count()
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// Number of decimals of its numbers.
    pub decimals: usize,
}

impl Column {
    /// Returns a column with this number of decimals.
    pub fn new(name: impl Into<String>, decimals: usize) -> Self {
        Self { name: name.into(), decimals }
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// One cell for each column.
    pub cells: Vec<Cell>,
    /// Note about all comparisons in the row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Row {
    /// Adds a note about the comparisons of the row.
    pub fn explain(&mut self, note: impl Into<String>) {
        self.note = Some(note.into());
    }

    /// Returns the verdict on a cell of this row, if it is a comparison.
    #[must_use]
    pub fn verdict(&self, cell: &Cell) -> Option<Verdict> {
        let Cell::Compared(comparison) = cell else { return None };
        Some(match comparison.verdict() {
            Verdict::Outside if self.note.is_some() => Verdict::Explained,
            verdict => verdict,
        })
    }
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// An empty cell.
    Empty,
    /// Text.
    Text(String),
    /// A number of ours.
    Number(f64),
    /// A number with a share or a deviation.
    Measured(Measured),
    /// A paper's number and ours.
    Compared(Comparison),
}

/// A number with its own decimals, and perhaps a share of a whole or a deviation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The number.
    pub value: f64,
    /// Number of decimals, instead of those of the column.
    #[serde(skip)]
    pub decimals: usize,
    /// Its share of a whole, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Its standard deviation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
}

impl Measured {
    /// Returns a number with this number of decimals.
    #[must_use]
    pub const fn new(value: f64, decimals: usize) -> Self {
        Self { value, decimals, share: None, deviation: None }
    }

    /// Sets the share of a whole, if known.
    #[must_use]
    pub const fn of(mut self, share: Option<f64>) -> Self {
        self.share = share;
        self
    }

    /// Sets the standard deviation.
    #[must_use]
    pub const fn within(mut self, deviation: f64) -> Self {
        self.deviation = Some(deviation);
        self
    }
}

impl From<Measured> for Cell {
    fn from(measured: Measured) -> Self {
        Self::Measured(measured)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<Comparison> for Cell {
    fn from(comparison: Comparison) -> Self {
        Self::Compared(comparison)
    }
}

/// A paper's figure and ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The paper's figure.
    pub paper: f64,
    /// Our figure.
    pub ours: f64,
    /// Maximum distance of `ours / paper` from 1; of a bound, on the wrong side.
    pub tolerance: f64,
    /// On which side of the paper's figure ours is to be.
    #[serde(skip_serializing_if = "Sense::is_near")]
    pub sense: Sense,
    /// Facts that the paper leaves open, and the reason why the shape still holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// On which side of the paper's figure ours is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sense {
    /// Near it.
    #[default]
    Near,
    /// Not below it: it is a bound.
    AtLeast,
    /// Not above it: it is a bound.
    AtMost,
}

impl Sense {
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references.
    const fn is_near(&self) -> bool {
        matches!(self, Self::Near)
    }

    /// Returns the sign that a bound is printed with; nothing for a figure that is no bound.
    #[must_use]
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Near => "",
            Self::AtLeast => "≥",
            Self::AtMost => "≤",
        }
    }
}

/// The verdict on a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// Within the tolerance.
    Held,
    /// Outside the tolerance, with an explanation.
    Explained,
    /// Outside the tolerance.
    Outside,
}

impl Comparison {
    /// Returns a comparison of the paper's figure and ours with a relative tolerance.
    #[must_use]
    pub const fn new(paper: f64, ours: f64, tolerance: f64) -> Self {
        Self { paper, ours, tolerance, sense: Sense::Near, note: None }
    }

    /// Returns a bound that our figure must reach.
    #[must_use]
    pub const fn at_least(bound: f64, ours: f64) -> Self {
        Self { paper: bound, ours, tolerance: 0.0, sense: Sense::AtLeast, note: None }
    }

    /// Returns a bound that our figure must not exceed.
    #[must_use]
    pub const fn at_most(bound: f64, ours: f64) -> Self {
        Self { paper: bound, ours, tolerance: 0.0, sense: Sense::AtMost, note: None }
    }

    /// Adds an explanation.
    #[must_use]
    pub fn because(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Returns our figure divided by the paper's; 1 if both are 0.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        // A paper prints exactly 0 if there was nothing.
        if self.paper == 0.0 && self.ours == 0.0 { 1.0 } else { self.ours / self.paper }
    }

    /// Returns the verdict.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let off = self.ratio() - 1.0;
        let held = match self.sense {
            Sense::Near => off.abs() <= self.tolerance,
            Sense::AtLeast => off >= -self.tolerance,
            Sense::AtMost => off <= self.tolerance,
        };
        if held {
            Verdict::Held
        } else if self.note.is_some() {
            Verdict::Explained
        } else {
            Verdict::Outside
        }
    }
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Title.
    pub title: String,
    /// Content.
    #[serde(flatten)]
    pub plot: Plot,
}

/// The content of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Plot {
    /// Curves over a common axis.
    Lines {
        /// Name and unit of the horizontal axis.
        x: String,
        /// Name and unit of the vertical axis.
        y: String,
        /// The curves.
        series: Vec<Series>,
    },
    /// Cumulative distributions over a logarithmic axis.
    Cumulative {
        /// Name of the values.
        x: String,
        /// Unit of the values.
        unit: Unit,
        /// The quantity whose share, from 0 to 1, up to a value is drawn. A curve may end below 1.
        y: String,
        /// The curves: value and share, from left to right.
        series: Vec<Series>,
        /// Findings of others.
        marks: Vec<Mark>,
    },
    /// Groups of bars.
    Bars {
        /// Name and unit of the lengths of the bars.
        y: String,
        /// Names of the groups.
        groups: Vec<String>,
        /// Name of each kind of bar, with its length in each group.
        series: Vec<(String, Vec<f64>)>,
    },
}

/// The unit of the values of a distribution, which determines the powers on the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes: KiB, MiB …
    Bytes,
    /// Seconds: milliseconds, minutes, hours …
    Seconds,
}

/// A finding of others: a share, or a range of shares, at a value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// The value.
    pub x: f64,
    /// The share up to the value: from, and to.
    pub y: (f64, f64),
    /// Source and statement.
    pub text: String,
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a comparison holds within its tolerance on both sides, a bound on one; a note
    /// explains a deviation but does not make it hold.
    #[test]
    fn verdicts() {
        assert_eq!(Comparison::new(100.0, 114.0, 0.15).verdict(), Verdict::Held);
        assert_eq!(Comparison::new(100.0, 86.0, 0.15).verdict(), Verdict::Held);
        assert_eq!(Comparison::new(100.0, 84.0, 0.15).verdict(), Verdict::Outside);
        assert_eq!(Comparison::new(100.0, 84.0, 0.15).because("x").verdict(), Verdict::Explained);
        assert_eq!(Comparison::new(0.0, 0.0, 0.15).verdict(), Verdict::Held);
        assert_eq!(Comparison::new(0.0, 1.0, 0.15).verdict(), Verdict::Outside);
        assert_eq!(Comparison::at_least(0.9, 5.0).verdict(), Verdict::Held);
        assert_eq!(Comparison::at_least(0.9, 0.89).verdict(), Verdict::Outside);
        assert_eq!(Comparison::at_most(0.9, 0.1).verdict(), Verdict::Held);
        assert_eq!(Comparison::at_most(0.9, 0.91).verdict(), Verdict::Outside);
    }

    /// Promise: a note on a row explains its comparisons, and the counts consider it.
    #[test]
    fn rows_explain() {
        let mut table = Table::new("t", [Column::new("what", 0), Column::new("rate", 0)]);
        table.row(["a".into(), Comparison::new(1.0, 3.0, 0.1).into()]);
        table.row(["b".into(), Comparison::new(1.0, 3.0, 0.1).into()]).explain("why");
        table.row(["c".into(), Comparison::new(1.0, 1.0, 0.1).into()]);
        let outcome = Outcome { tables: vec![table], ..Outcome::default() };
        let counts = [Verdict::Held, Verdict::Explained, Verdict::Outside].map(|v| outcome.count(v));
        assert_eq!(counts, [1, 1, 1]);
        assert_eq!(outcome.comparisons().count(), 3);
    }
}
