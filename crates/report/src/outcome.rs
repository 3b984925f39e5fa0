//! What an experiment finds, as data.
//!
//! A [`Comparison`] is judged by its own tolerance ([`Comparison::verdict`]): held, outside but
//! explained, or outside. An explanation says what the paper leaves unknown and why the shape of
//! the result holds all the same.

use serde::Serialize;

/// What an experiment found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Tables, the most telling first.
    pub tables: Vec<Table>,
    /// Pictures.
    pub figures: Vec<Figure>,
    /// What is to be learned, a paragraph each.
    pub findings: Vec<String>,
}

impl Outcome {
    /// Returns all comparisons with a paper's figures.
    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        let cells = self.tables.iter().flat_map(|table| table.rows.iter().flat_map(|row| &row.cells));
        cells.filter_map(|cell| if let Cell::Compared(comparison) = cell { Some(comparison) } else { None })
    }

    /// Returns how many comparisons were judged so.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.tables.iter().map(|table| table.count(verdict)).sum()
    }
}

/// A part of something larger that was found, with a name of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Section {
    /// Its name in files and links: small letters, digits and `-`.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What is to be known before it is looked at.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What was found.
    pub outcome: Outcome,
}

/// A table: the first cell of each row names it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// What its columns hold.
    pub columns: Vec<Column>,
    /// Rows of as many cells as there are columns.
    pub rows: Vec<Row>,
    /// What has to be known of it.
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
    /// If it has not as many cells as there are columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Row {
        let row = Row { cells: cells.into_iter().collect(), note: None };
        assert_eq!(row.cells.len(), self.columns.len(), "{}: cells in a row", self.title);
        self.rows.push(row);
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    /// Says what has to be known of it.
    pub fn explain(&mut self, note: impl Into<String>) {
        self.note = Some(note.into());
    }

    /// Returns how many comparisons were judged so, with the notes of their rows.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        let verdicts = self.rows.iter().flat_map(|row| row.cells.iter().filter_map(|cell| row.verdict(cell)));
        verdicts.filter(|&found| found == verdict).count()
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its head.
    pub name: String,
    /// Digits behind the point of its numbers.
    pub decimals: usize,
}

impl Column {
    /// Returns a column whose numbers have so many digits behind the point.
    pub fn new(name: impl Into<String>, decimals: usize) -> Self {
        Self { name: name.into(), decimals }
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// One for each column.
    pub cells: Vec<Cell>,
    /// What has to be known of all comparisons in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Row {
    /// Explains the comparisons of the row.
    pub fn explain(&mut self, note: impl Into<String>) {
        self.note = Some(note.into());
    }

    /// Returns how a cell of this row is judged, if it is a comparison.
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
    /// Nothing to say.
    Empty,
    /// Words.
    Text(String),
    /// A number of ours alone.
    Number(f64),
    /// A number with what belongs to it.
    Measured(Measured),
    /// A number of the paper's and ours.
    Compared(Comparison),
}

/// A number that has digits of its own, a share of something, or a deviation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The number.
    pub value: f64,
    /// Digits behind the point, instead of those of the column.
    #[serde(skip)]
    pub decimals: usize,
    /// What part it is of something, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Its standard deviation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
}

impl Measured {
    /// Returns a number shown with so many digits behind the point.
    #[must_use]
    pub const fn new(value: f64, decimals: usize) -> Self {
        Self { value, decimals, share: None, deviation: None }
    }

    /// With the part that it is of something; nothing if that is not known.
    #[must_use]
    pub const fn of(mut self, share: Option<f64>) -> Self {
        self.share = share;
        self
    }

    /// With its standard deviation.
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

/// A paper's figure, and ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What the paper says.
    pub paper: f64,
    /// What came out here.
    pub ours: f64,
    /// How far `ours / paper` may be from 1.
    pub tolerance: f64,
    /// What the paper leaves unknown, and why the shape holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// How a comparison came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// Within its tolerance.
    Held,
    /// Outside it, and the outcome says why that can be.
    Explained,
    /// Outside it.
    Outside,
}

impl Comparison {
    /// Returns the paper's figure and ours, which is to be no farther from it than the part
    /// `tolerance`.
    #[must_use]
    pub const fn new(paper: f64, ours: f64, tolerance: f64) -> Self {
        Self { paper, ours, tolerance, note: None }
    }

    /// Returns the same with an explanation.
    #[must_use]
    pub fn because(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Ours in parts of the paper's; 1 if both are 0.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        // Exactly 0 is what a paper prints where nothing was.
        if self.paper == 0.0 && self.ours == 0.0 { 1.0 } else { self.ours / self.paper }
    }

    /// Returns how it came out.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if (self.ratio() - 1.0).abs() <= self.tolerance {
            Verdict::Held
        } else if self.note.is_some() {
            Verdict::Explained
        } else {
            Verdict::Outside
        }
    }
}

/// A picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// What it is made of.
    #[serde(flatten)]
    pub plot: Plot,
}

/// What a picture is made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Plot {
    /// Curves over a common axis.
    Lines {
        /// Name and unit of the axis across.
        x: String,
        /// Name and unit of the axis upwards.
        y: String,
        /// The curves.
        series: Vec<Series>,
    },
    /// Cumulative distributions over an axis whose units are powers.
    Cumulative {
        /// What the values are.
        x: String,
        /// What they are counted in.
        unit: Unit,
        /// What is counted: the share of it, from 0 to 1, that is not above a value. A curve may
        /// end below 1.
        y: String,
        /// The curves: value and share, from left to right.
        series: Vec<Series>,
        /// What others found.
        marks: Vec<Mark>,
    },
    /// Groups of bars.
    Bars {
        /// Name and unit of their lengths.
        y: String,
        /// Names of the groups.
        groups: Vec<String>,
        /// For each kind of bar its name, and its length in each group.
        series: Vec<(String, Vec<f64>)>,
    },
}

/// What the values of a distribution are counted in, and so which powers its axis shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes: KiB, MiB …
    Bytes,
    /// Seconds: milliseconds, minutes, hours …
    Seconds,
}

/// What somebody else found: at a value a share, or a range of shares.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// The value.
    pub x: f64,
    /// The share that is not above it: from, and to.
    pub y: (f64, f64),
    /// Who says so, and what.
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

    /// Promise: a comparison holds within its tolerance on both sides, and a note excuses it but
    /// does not make it hold.
    #[test]
    fn verdicts() {
        assert_eq!(Comparison::new(100.0, 114.0, 0.15).verdict(), Verdict::Held);
        assert_eq!(Comparison::new(100.0, 86.0, 0.15).verdict(), Verdict::Held);
        assert_eq!(Comparison::new(100.0, 84.0, 0.15).verdict(), Verdict::Outside);
        assert_eq!(Comparison::new(100.0, 84.0, 0.15).because("x").verdict(), Verdict::Explained);
        assert_eq!(Comparison::new(0.0, 0.0, 0.15).verdict(), Verdict::Held);
        assert_eq!(Comparison::new(0.0, 1.0, 0.15).verdict(), Verdict::Outside);
    }

    /// Promise: a note on a row explains its comparisons, and counting sees it.
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
