//! The results of an experiment, as data.
//!
//! A [`Comparison`] is judged by its own tolerance ([`Comparison::verdict`]): held, outside but
//! explained, or outside. The tolerance comes from what the paper prints ([`Published`]). A
//! [`Note`] says what the paper leaves unknown, and how far off it lets a figure be. What a match
//! shows depends on what our figure was derived from ([`Evidence`]), so that is counted apart.

use serde::Serialize;
use std::borrow::Cow;
use std::iter::Sum;
use std::ops::{Add, RangeInclusive};

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

    /// Returns it without verdicts: what is compared with a paper's figure stands beside it only.
    #[must_use]
    pub fn for_reference(mut self) -> Self {
        let rows = self.tables.iter_mut().flat_map(|table| &mut table.rows);
        for cell in rows.flat_map(|row| &mut row.cells) {
            if let Cell::Compared(Comparison { paper, ours, sense, .. }) = *cell {
                *cell = Cell::Beside(Beside { paper, ours, sense });
            }
        }
        self
    }

    /// Returns the numbers of comparisons.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.comparisons().map(Tally::of).sum()
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
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let row = Row { cells: cells.into_iter().collect() };
        assert_eq!(row.cells.len(), self.columns.len(), "{}: cells in a row", self.title);
        self.rows.push(row);
    }

    /// Adds a note about the whole table.
    pub fn explain(&mut self, note: impl Into<String>) {
        self.note = Some(note.into());
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
    /// The same without a verdict.
    Beside(Beside),
}

/// Our figure beside a paper's that is no expectation, such as that of another machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Beside {
    /// The paper's figure.
    pub paper: f64,
    /// Our figure.
    pub ours: f64,
    /// Whether the paper's is a bound.
    #[serde(skip_serializing_if = "Sense::is_near")]
    pub sense: Sense,
}

impl Beside {
    /// Returns our figure divided by the paper's; nothing where that is a bound or 0.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.sense.is_near() && self.paper != 0.0).then(|| self.ours / self.paper)
    }
}

impl Cell {
    /// Returns the verdict on a comparison; none on other cells.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        if let Self::Compared(comparison) = self { Some(comparison.verdict()) } else { None }
    }
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

/// What our figure was derived from, and so what a match with the paper's shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// A constant or a choice of ours was derived from the paper's figure itself: a match shows no
    /// more than that such a constant exists.
    Fitted,
    /// Constants were derived from other figures of the same source, but not from this one.
    HeldOut,
    /// Nothing was derived from the table or text that has the paper's figure.
    Predicted,
}

impl Evidence {
    /// All of them, the weakest first.
    pub const ALL: [Self; 3] = [Self::Fitted, Self::HeldOut, Self::Predicted];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::HeldOut => "held out",
            Self::Predicted => "predicted",
        }
    }

    /// Returns the letter that follows a ratio; nothing for a prediction.
    #[must_use]
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Fitted => "f",
            Self::HeldOut => "h",
            Self::Predicted => "",
        }
    }
}

/// A figure as a paper prints it, and how near ours must come to it.
///
/// Ours may be off by the default for its quantity, or by half a unit of the last digit that is
/// printed if that is more. How much the paper's figure varied between users or days is no measure
/// of that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    value: f64,
    tolerance: f64,
    sense: Sense,
}

impl Published {
    /// Relative tolerance of rates, times and counts.
    pub const AMOUNT: f64 = 0.15;
    /// Relative tolerance of ratios.
    pub const RATIO: f64 = 0.10;
    /// Tolerance of shares, in points of a hundred.
    pub const POINTS: f64 = 2.0;

    const fn near(value: f64, unit: f64, relative: f64) -> Self {
        // Nothing is near to 0.
        let rounding = if value == 0.0 { 0.0 } else { 0.5 * unit / value };
        let tolerance = if rounding > relative { rounding } else { relative };
        Self { value, tolerance, sense: Sense::Near }
    }

    /// Returns a rate, a time or a count; `unit` is one of its last printed digit.
    #[must_use]
    pub const fn amount(value: f64, unit: f64) -> Self {
        Self::near(value, unit, Self::AMOUNT)
    }

    /// Returns a ratio; `unit` is one of its last printed digit.
    #[must_use]
    pub const fn ratio(value: f64, unit: f64) -> Self {
        Self::near(value, unit, Self::RATIO)
    }

    /// Returns a share in percent; `unit` is one of its last printed digit, in points.
    #[must_use]
    pub const fn percent(value: f64, unit: f64) -> Self {
        Self::near(value, unit, if value == 0.0 { 0.0 } else { Self::POINTS / value })
    }

    /// Returns a bound that our figure must reach.
    #[must_use]
    pub const fn at_least(bound: f64) -> Self {
        Self { value: bound, tolerance: 0.0, sense: Sense::AtLeast }
    }

    /// Returns a bound that our figure must not exceed.
    #[must_use]
    pub const fn at_most(bound: f64) -> Self {
        Self { value: bound, tolerance: 0.0, sense: Sense::AtMost }
    }
}

/// Why a figure may be outside its tolerance, and how far.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Note {
    /// What the paper leaves open, or what is known to differ, and what still holds.
    pub text: Cow<'static, str>,
    /// The ratios of our figure to the paper's that it explains.
    pub ratios: RangeInclusive<f64>,
}

impl Note {
    /// Returns a note that explains ratios from `least` to `most`.
    #[must_use]
    pub const fn new(text: &'static str, least: f64, most: f64) -> Self {
        Self { text: Cow::Borrowed(text), ratios: least..=most }
    }
}

/// A paper's figure and ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What ours was derived from.
    pub evidence: Evidence,
    /// The paper's figure.
    pub paper: f64,
    /// Our figure.
    pub ours: f64,
    /// Maximum distance of `ours / paper` from 1; of a bound, on the wrong side.
    pub tolerance: f64,
    /// On which side of the paper's figure ours is to be.
    #[serde(skip_serializing_if = "Sense::is_near")]
    pub sense: Sense,
    /// Why ours may be outside the tolerance, and how far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
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
    /// Outside the tolerance, but not farther than its note explains.
    Explained,
    /// Outside the tolerance.
    Outside,
}

impl Comparison {
    /// Returns a comparison of the paper's figure and ours.
    #[must_use]
    pub const fn new(evidence: Evidence, paper: Published, ours: f64) -> Self {
        let Published { value, tolerance, sense } = paper;
        Self { evidence, paper: value, ours, tolerance, sense, note: None }
    }

    /// Adds an explanation. It counts if ours is outside the tolerance.
    #[must_use]
    pub fn because(mut self, note: Note) -> Self {
        self.note = Some(note);
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
        let ratio = self.ratio();
        let off = ratio - 1.0;
        let held = match self.sense {
            Sense::Near => off.abs() <= self.tolerance,
            Sense::AtLeast => off >= -self.tolerance,
            Sense::AtMost => off <= self.tolerance,
        };
        if held {
            Verdict::Held
        } else if self.note.as_ref().is_some_and(|note| note.ratios.contains(&ratio)) {
            Verdict::Explained
        } else {
            Verdict::Outside
        }
    }

    /// Returns the note if ours is outside the tolerance.
    #[must_use]
    pub fn shown_note(&self) -> Option<&Note> {
        self.note.as_ref().filter(|_| self.verdict() != Verdict::Held)
    }
}

/// Numbers of comparisons by their verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdicts {
    /// Within the tolerance.
    pub held: usize,
    /// Outside and explained.
    pub explained: usize,
    /// Outside.
    pub outside: usize,
}

impl Verdicts {
    /// Returns the number of comparisons.
    #[must_use]
    pub const fn all(&self) -> usize {
        self.held + self.explained + self.outside
    }
}

impl Add for Verdicts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            held: self.held + other.held,
            explained: self.explained + other.explained,
            outside: self.outside + other.outside,
        }
    }
}

/// Numbers of comparisons by what our figures were derived from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Those of [`Evidence::Fitted`].
    pub fitted: Verdicts,
    /// Those of [`Evidence::HeldOut`].
    pub held_out: Verdicts,
    /// Those of [`Evidence::Predicted`].
    pub predicted: Verdicts,
}

impl Tally {
    fn of(comparison: &Comparison) -> Self {
        let mut one = Verdicts::default();
        *match comparison.verdict() {
            Verdict::Held => &mut one.held,
            Verdict::Explained => &mut one.explained,
            Verdict::Outside => &mut one.outside,
        } += 1;
        let mut tally = Self::default();
        *match comparison.evidence {
            Evidence::Fitted => &mut tally.fitted,
            Evidence::HeldOut => &mut tally.held_out,
            Evidence::Predicted => &mut tally.predicted,
        } = one;
        tally
    }

    /// Returns the numbers of one kind of evidence.
    #[must_use]
    pub const fn by(&self, evidence: Evidence) -> Verdicts {
        match evidence {
            Evidence::Fitted => self.fitted,
            Evidence::HeldOut => self.held_out,
            Evidence::Predicted => self.predicted,
        }
    }

    /// Returns the numbers of all together.
    #[must_use]
    pub fn together(&self) -> Verdicts {
        self.fitted + self.held_out + self.predicted
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            fitted: sum.fitted + one.fitted,
            held_out: sum.held_out + one.held_out,
            predicted: sum.predicted + one.predicted,
        })
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

    fn verdict(paper: Published, ours: f64) -> Verdict {
        Comparison::new(Evidence::Predicted, paper, ours).verdict()
    }

    /// Promise: a comparison holds within its tolerance on both sides, a bound on one.
    #[test]
    fn verdicts() {
        let rate = Published::amount(100.0, 1.0);
        assert_eq!(verdict(rate, 114.0), Verdict::Held);
        assert_eq!(verdict(rate, 86.0), Verdict::Held);
        assert_eq!(verdict(rate, 84.0), Verdict::Outside);
        assert_eq!(verdict(rate, f64::NAN), Verdict::Outside);
        assert_eq!(verdict(Published::percent(20.0, 1.0), 21.9), Verdict::Held);
        assert_eq!(verdict(Published::percent(20.0, 1.0), 22.1), Verdict::Outside);
        let nothing = Published::at_most(0.0);
        assert_eq!(verdict(nothing, 0.0), Verdict::Held);
        assert_eq!(verdict(nothing, 1.0), Verdict::Outside);
        assert_eq!(verdict(Published::at_least(0.9), 5.0), Verdict::Held);
        assert_eq!(verdict(Published::at_least(0.9), 0.89), Verdict::Outside);
        assert_eq!(verdict(Published::at_most(0.9), 0.1), Verdict::Held);
        assert_eq!(verdict(Published::at_most(0.9), 0.91), Verdict::Outside);
    }

    /// Promise: a figure that is printed with few digits may be off by half a unit of the last.
    #[test]
    fn printed_digits() {
        let twice = Published::ratio(2.0, 1.0);
        assert_eq!(verdict(twice, 1.5), Verdict::Held);
        assert_eq!(verdict(twice, 1.49), Verdict::Outside);
        assert_eq!(verdict(Published::ratio(2.0, 0.1), 1.79), Verdict::Outside);
    }

    /// Promise: a note explains a deviation up to its own bound and no farther, and does not make
    /// it hold.
    #[test]
    fn notes_are_bounded() {
        let noted = |ours| {
            let compared = Comparison::new(Evidence::Fitted, Published::amount(100.0, 1.0), ours);
            compared.because(Note::new("why", 0.5, 0.9))
        };
        for (ours, verdict, shown) in [
            (49.0, Verdict::Outside, true),
            (50.0, Verdict::Explained, true),
            (84.0, Verdict::Explained, true),
            (86.0, Verdict::Held, false),
            (116.0, Verdict::Outside, true),
            (f64::NAN, Verdict::Outside, true),
        ] {
            assert_eq!(
                (noted(ours).verdict(), noted(ours).shown_note().is_some()),
                (verdict, shown),
                "{ours}"
            );
        }
    }

    /// Promise: for reference, a figure and the paper's stay, and nothing is judged or explained.
    #[test]
    fn references() {
        let mut table = Table::new("t", ["what", "rate", "bound"].map(|name| Column::new(name, 0)));
        let far = Comparison::new(Evidence::Predicted, Published::amount(100.0, 1.0), 250.0);
        let bound = Comparison::new(Evidence::Fitted, Published::at_most(1.0), 2.0);
        table.row(["a".into(), far.because(Note::new("why", 2.0, 3.0)).into(), bound.into()]);
        let outcome = Outcome { tables: vec![table], ..Outcome::default() }.for_reference();
        assert_eq!(outcome.tally(), Tally::default());
        let [Cell::Text(_), Cell::Beside(far), Cell::Beside(bound)] = &*outcome.tables[0].rows[0].cells
        else {
            panic!("{outcome:?}")
        };
        assert_eq!((far.paper, far.ours, far.ratio()), (100.0, 250.0, Some(2.5)));
        assert_eq!((bound.sense, bound.ours, bound.ratio()), (Sense::AtMost, 2.0, None));
    }

    /// Promise: comparisons are counted by evidence and verdict, and nothing is counted twice.
    #[test]
    fn tallies() {
        let mut table = Table::new("t", [Column::new("what", 0), Column::new("rate", 0)]);
        let one = |evidence, ours| Comparison::new(evidence, Published::amount(1.0, 0.01), ours);
        table.row(["a".into(), one(Evidence::Fitted, 1.0).into()]);
        table.row(["b".into(), one(Evidence::HeldOut, 3.0).because(Note::new("why", 2.0, 4.0)).into()]);
        table.row(["c".into(), one(Evidence::Predicted, 3.0).into()]);
        table.row(["d".into(), one(Evidence::Predicted, 1.0).into()]);
        table.row(["e".into(), 1.0.into()]);
        let tally = Outcome { tables: vec![table], ..Outcome::default() }.tally();
        let verdicts = |held, explained, outside| Verdicts { held, explained, outside };
        assert_eq!(tally.by(Evidence::Fitted), verdicts(1, 0, 0));
        assert_eq!(tally.by(Evidence::HeldOut), verdicts(0, 1, 0));
        assert_eq!(tally.by(Evidence::Predicted), verdicts(1, 0, 1));
        assert_eq!((tally.together(), tally.together().all()), (verdicts(2, 1, 1), 4));
    }
}
