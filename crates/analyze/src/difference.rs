//! Compares the findings of two traces, and shows which differences are more than noise.
//!
//! The one idea: each figure comes with the interval in which it would lie in 99 of 100 traces of
//! the same load and length ([`Estimate`]), and two figures differ if their intervals have nothing
//! in common. A figure that only one trace has shows nothing; its count does.
//!
//! Programs do alike things in bursts, so a thousand events may say no more than ten independent
//! ones. How much they say shows in the trace itself: it is cut into equal parts of time, and each
//! figure varies between these by so much ([`Sample`], the method of batch means). The variance, as
//! a multiple of what independent events would have (the design effect of samples), says of how
//! many events one is independent. With that many the interval of a count is that of a Poisson
//! process, of a share that of Wilson, of a quantile that of the shares around it (Woodruff), so
//! nothing is assumed of how sizes and times are distributed.
//!
//! What this does not know: how much another day differs, or the load of another hour.

use super::groups::Unattributed;
use super::{By, Class, Findings, Histogram, Pass, YOUNG};
use serde::Serialize;
use spindle_report::number::real;
use spindle_report::outcome::{Cell, Column, Measured, Table};
use spindle_report::{Outcome, Section};
use spindle_trace::follow::Mode;
use spindle_trace::{Batch, Kind, Result, Source};

/// Minimum number of parts that show how much a figure varies; less than twice as many are made.
const PARTS: usize = 16;
/// Length of a part at first, in ns.
const PART: i64 = 1_000_000;
/// Standard deviations within which 99 % lie, if they come from so many parts (Student).
const Z: f64 = 2.947;
/// Relative error of a value in a histogram.
const ROUNDING: f64 = 0.01;

/// A figure, and the interval in which chance would leave it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval; infinite, in JSON null, if there are too few values for one.
    pub high: f64,
}

impl Estimate {
    /// Returns a count of events, of which one in `dispersion` is independent.
    fn count(count: f64, dispersion: f64) -> Self {
        let independent = count / dispersion;
        let middle = independent + Z * Z / 2.0;
        let reach = Z * (independent + Z * Z / 4.0).sqrt();
        Self {
            value: count,
            low: (middle - reach).max(0.0) * dispersion,
            high: (middle + reach) * dispersion,
        }
        .with_its_value()
    }

    /// Returns a share of a number of things, of which one in `dispersion` is independent.
    fn share(share: f64, number: f64, dispersion: f64) -> Self {
        let independent = number / dispersion;
        let scale = 1.0 + Z * Z / independent;
        let middle = (share + Z * Z / (2.0 * independent)) / scale;
        let reach =
            Z * (share * (1.0 - share) / independent + (Z / (2.0 * independent)).powi(2)).sqrt() / scale;
        Self { value: share, low: (middle - reach).max(0.0), high: (middle + reach).min(1.0) }
            .with_its_value()
    }

    /// Returns the figure with bounds that rounding has put on the wrong side of it moved to it.
    const fn with_its_value(self) -> Self {
        Self { low: self.low.min(self.value), high: self.high.max(self.value), ..self }
    }

    /// Returns the figure with an interval that excludes nothing.
    const fn vague(self) -> Self {
        Self { low: 0.0, high: f64::INFINITY, ..self }
    }

    /// Returns the figure divided by a number.
    fn per(self, number: f64) -> Self {
        Self { value: self.value / number, low: self.low / number, high: self.high / number }
    }
}

/// How a figure is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A number.
    Number,
    /// A number of bytes.
    Bytes,
    /// A time in seconds.
    Seconds,
    /// A part of a whole, from 0 to 1.
    Share,
}

/// A figure of both traces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// What is compared.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// That of the first trace; none if it has no such figure.
    pub before: Option<Estimate>,
    /// That of the second trace.
    pub after: Option<Estimate>,
    /// The second divided by the first, if both are there and the first is not 0.
    pub ratio: Option<f64>,
    /// Chance alone does not explain the difference.
    pub differs: bool,
}

/// Figures of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Its name: lowercase letters.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The figures.
    pub figures: Vec<Difference>,
}

/// The findings of a trace, and how they came about over its time.
#[derive(Clone, Debug)]
pub struct Sample {
    found: Findings,
    parts: Parts,
}

/// What was found until the end of each of some equally long parts of time.
#[derive(Clone, Debug)]
struct Parts {
    /// Time of the first event, in ns since 1970.
    start: Option<i64>,
    /// Length of a part in ns.
    length: i64,
    until: Vec<Findings>,
}

impl Parts {
    /// Ends the parts that are over at a time, with what `so_far` has found. If there are too many,
    /// each two become one.
    fn advance(&mut self, time: i64, so_far: impl Fn() -> Findings) {
        let since = time.saturating_sub(*self.start.get_or_insert(time));
        let over = |length: i64| usize::try_from(since / length).unwrap_or(0);
        while over(self.length) >= 2 * PARTS {
            let mut is_second = false;
            self.until.retain(|_| {
                is_second = !is_second;
                !is_second
            });
            self.length = self.length.saturating_mul(2);
        }
        while self.until.len() < over(self.length) {
            self.until.push(so_far());
        }
    }
}

impl Sample {
    /// Analyses a trace to its end, like [`super::analyze`].
    ///
    /// # Errors
    /// Errors of the source.
    pub fn of(source: &mut dyn Source, mut progress: impl FnMut(Option<f64>)) -> Result<Self> {
        let mut pass = Pass::new(Unattributed);
        let mut parts = Parts { start: None, length: PART, until: Vec::new() };
        let mut batch = Batch::default();
        while source.next(&mut batch)? {
            for event in &batch.events {
                parts.advance(event.time, || pass.so_far());
                pass.event(event, &batch);
            }
            progress(source.progress());
        }
        Ok(Self { found: pass.finish(source.info()).findings(&[], 0), parts })
    }

    /// Returns what was found in the whole trace.
    #[must_use]
    pub const fn findings(&self) -> &Findings {
        &self.found
    }

    /// Returns what a sum grew by in each part of the trace; nothing if there are too few parts.
    fn growth(&self, of: impl Fn(&Findings) -> f64) -> Vec<f64> {
        if self.parts.until.len() < PARTS {
            return Vec::new();
        }
        let mut before = 0.0;
        let grown = self.parts.until.iter().map(|found| {
            let now = of(found);
            now - std::mem::replace(&mut before, now)
        });
        grown.collect()
    }

    /// Returns a count of events.
    fn count(&self, of: impl Fn(&Findings) -> u64) -> Estimate {
        let growth = self.growth(|found| real(of(found)));
        let estimate = Estimate::count(real(of(&self.found)), dispersion(&growth));
        if growth.is_empty() { estimate.vague() } else { estimate }
    }

    /// Returns a sum of bytes.
    fn sum(&self, of: impl Fn(&Findings) -> u64, number: impl Fn(&Findings) -> u64) -> Estimate {
        let growth = self.growth(|found| real(of(found)));
        let (sum, number) = (real(of(&self.found)), real(number(&self.found)));
        // As of this many equal amounts of bytes, at most of each run.
        let independent = (sum / dispersion(&growth)).min(number);
        let counted = Estimate::count(independent, 1.0);
        let each = if independent > 0.0 { sum / independent } else { 0.0 };
        let estimate = Estimate { value: sum, low: counted.low * each, high: counted.high * each };
        if growth.is_empty() { estimate.vague() } else { estimate }
    }

    /// Returns of how many things one is independent, of which `part` are some and `whole` are all.
    fn design_effect(&self, part: impl Fn(&Findings) -> f64, whole: impl Fn(&Findings) -> f64) -> f64 {
        let (parts, wholes) = (self.growth(part), self.growth(whole));
        let all: f64 = wholes.iter().sum();
        let share = parts.iter().sum::<f64>() / all;
        let off = parts.iter().zip(&wholes).map(|(part, whole)| (part - share * whole).powi(2)).sum::<f64>();
        let number = real(parts.len() as u64);
        let effect = off * number / (number - 1.0) / (share * (1.0 - share) * all);
        // Of none or all nothing is known; they are taken for independent.
        if effect.is_finite() { effect.max(1.0) } else { 1.0 }
    }

    /// Returns the share of some things in all of them; none of nothing.
    fn share(&self, part: impl Fn(&Findings) -> f64, whole: impl Fn(&Findings) -> f64) -> Option<Estimate> {
        let number = whole(&self.found);
        let share = part(&self.found) / number;
        let effect = self.design_effect(part, whole);
        let estimate = (number > 0.0).then(|| Estimate::share(share, number, effect));
        if self.parts.until.len() < PARTS { estimate.map(Estimate::vague) } else { estimate }
    }

    /// Returns the value, in `unit`, below which the share `part` of the values lies; none without
    /// values.
    fn quantile(&self, of: Values, part: f64, unit: f64) -> Option<Estimate> {
        let values = of(&self.found);
        let exact = values.quantile(part, By::Count)?;
        let at = |part: f64| Some(real(values.quantile(part, By::Count)?) / unit);
        let effect =
            self.design_effect(|found| of(found).below(exact, By::Count), |found| real(of(found).count()));
        let share = Estimate::share(part, real(values.count()), effect);
        // What no value lies beyond has no bound.
        let least = effect / real(values.count());
        let low = if share.low > least { at(share.low)? * (1.0 - ROUNDING) } else { 0.0 };
        let high = if share.high < 1.0 - least { at(share.high)? * (1.0 + ROUNDING) } else { f64::INFINITY };
        let estimate = Estimate { value: at(part)?, low, high };
        Some(if self.parts.until.len() < PARTS { estimate.vague() } else { estimate })
    }

    /// Returns the bytes that were read or written.
    fn moved(&self, class: Class) -> Estimate {
        let bytes = move |found: &Findings| match class {
            Class::Read => found.totals.read,
            Class::Write | Class::Control => found.totals.written,
        };
        self.sum(bytes, |found| found.requests.calls[class as usize])
    }
}

/// Chooses a distribution.
type Values = fn(&Findings) -> &Histogram;

/// Returns the variance of counts divided by their mean, at least 1: what a Poisson process has.
fn dispersion(counts: &[f64]) -> f64 {
    let number = real(counts.len() as u64);
    let mean = counts.iter().sum::<f64>() / number;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (number - 1.0);
    if number >= 2.0 && mean > 0.0 { (variance / mean).max(1.0) } else { 1.0 }
}

/// Compares two traces.
#[must_use]
pub fn compare(before: &Sample, after: &Sample) -> Vec<Comparison> {
    let both = [before, after];
    vec![counts(both), rates(both), shares(both), distributions(both)]
}

/// The figures of a [`Comparison`] that are being collected.
struct Figures<'a>([&'a Sample; 2], Vec<Difference>);

impl Figures<'_> {
    fn add(&mut self, name: impl Into<String>, unit: Unit, of: impl Fn(&Sample) -> Option<Estimate>) {
        let [before, after] = self.0.map(of);
        let is_nothing = |figure: Option<Estimate>| figure.is_none_or(|figure| figure.value == 0.0);
        if is_nothing(before) && is_nothing(after) {
            return;
        }
        let both = before.zip(after);
        let ratio = both.filter(|(before, _)| before.value > 0.0).map(|(one, two)| two.value / one.value);
        let differs = both.is_some_and(|(one, two)| one.high < two.low || two.high < one.low);
        self.1.push(Difference { name: name.into(), unit, before, after, ratio, differs });
    }
}

/// Bytes that are read and written.
const MOVED: [(Class, &str); 2] = [(Class::Read, "bytes read"), (Class::Write, "bytes written")];

fn counts(both: [&Sample; 2]) -> Comparison {
    let mut figures = Figures(both, Vec::new());
    for kind in Kind::ALL {
        figures.add(format!("{} events", kind.name()), Unit::Number, |sample| {
            Some(sample.count(|found| found.totals.count(kind)))
        });
    }
    for (class, name) in MOVED {
        figures.add(name, Unit::Bytes, |sample| Some(sample.moved(class)));
    }
    Comparison { id: "counts", title: "Counts over the whole trace", figures: figures.1 }
}

fn rates(both: [&Sample; 2]) -> Comparison {
    let mut figures = Figures(both, Vec::new());
    let rate = |sample: &Sample, count: Estimate| {
        let seconds = sample.found.totals.seconds();
        (seconds > 0.0).then(|| count.per(seconds))
    };
    for kind in Kind::ALL {
        figures.add(format!("{} events per second", kind.name()), Unit::Number, |sample| {
            rate(sample, sample.count(|found| found.totals.count(kind)))
        });
    }
    for (class, name) in MOVED {
        figures.add(format!("{name} per second"), Unit::Bytes, |sample| rate(sample, sample.moved(class)));
    }
    Comparison { id: "rates", title: "Rates", figures: figures.1 }
}

fn shares(both: [&Sample; 2]) -> Comparison {
    let mut figures = Figures(both, Vec::new());
    let mut add = |name: String, part: &dyn Fn(&Findings) -> f64, whole: &dyn Fn(&Findings) -> f64| {
        figures.add(name, Unit::Share, |sample| sample.share(part, whole));
    };
    let accesses = |found: &Findings| real(found.patterns.all().accesses);
    for (mode, name) in Mode::ALL.into_iter().zip(["read-only", "write-only", "read-write"]) {
        let orders = move |found: &Findings| found.patterns.modes[mode as usize];
        let these = |found: &Findings| real(orders(found).accesses);
        add(format!("{name} accesses (of all)"), &these, &accesses);
        add(format!("whole-file {name} accesses (of these)"), &|found| real(orders(found).whole), &these);
        add(
            format!("sequential {name} accesses (of these)"),
            &|found| real(orders(found).sequential),
            &these,
        );
    }
    for (name, age) in [("30 seconds", YOUNG), ("five minutes", 10 * YOUNG)] {
        add(
            format!("new files whose data is dead within {name}"),
            &|found| found.lifetimes.ended.below(age, By::Count),
            &|found| real(found.lifetimes.all().files),
        );
    }
    let synced = |found: &Findings| real(found.today.synced.min(found.patterns.all().accesses));
    add("accesses with fsync or fdatasync (of all)".into(), &synced, &accesses);
    Comparison { id: "shares", title: "Order of access, lives and syncs", figures: figures.1 }
}

fn distributions(both: [&Sample; 2]) -> Comparison {
    let mut figures = Figures(both, Vec::new());
    let distributions: [(&str, Unit, Values); 6] = [
        ("length of a run", Unit::Bytes, |found| &found.patterns.runs),
        ("bytes of a call", Unit::Bytes, |found| &found.today.requests),
        ("size of a file at its close", Unit::Bytes, |found| &found.patterns.sizes),
        ("time for which a file is open", Unit::Seconds, |found| &found.patterns.open_times),
        ("time between two events of an open file", Unit::Seconds, |found| &found.patterns.intervals),
        ("lifetime of new data", Unit::Seconds, |found| &found.lifetimes.ended),
    ];
    for (name, unit, of) in distributions {
        for (share, part) in [("10 %", 0.1), ("half", 0.5), ("90 %", 0.9), ("99 %", 0.99)] {
            let scale = if unit == Unit::Seconds { 1e9 } else { 1.0 };
            figures.add(format!("{name}: {share} up to"), unit, |sample| sample.quantile(of, part, scale));
        }
    }
    Comparison { id: "distributions", title: "Sizes, times and lifetimes", figures: figures.1 }
}

/// Returns a section for each comparison, with the figures that differ, or with all of them.
#[must_use]
pub fn sections(comparisons: &[Comparison], [before, after]: [&str; 2], all: bool) -> Vec<Section> {
    let section = |comparison: &Comparison| {
        let title = comparison.title;
        let mut heads = vec!["", before, after, "ratio"];
        heads.extend(all.then_some("beyond noise"));
        let mut table = Table::new(title, heads.into_iter().map(|name| Column::new(name, 2)));
        for figure in comparison.figures.iter().filter(|figure| all || figure.differs) {
            let mut cells = vec![figure.name.clone().into(), cell(figure.before, figure.unit)];
            cells.push(cell(figure.after, figure.unit));
            cells.push(figure.ratio.map_or(Cell::Empty, |ratio| Measured::new(ratio, 2).into()));
            cells.extend(all.then(|| if figure.differs { "yes" } else { "no" }.into()));
            table.row(cells);
        }
        let within = comparison.figures.iter().filter(|figure| !figure.differs).count();
        let mut outcome = Outcome::default();
        if table.rows.is_empty() {
            outcome.findings.push(format!("None of {within} figures differs beyond noise."));
        } else {
            table.explain(format!("{within} of {} figures are within noise.", comparison.figures.len()));
            outcome.tables.push(table);
        }
        Section { id: comparison.id.into(), title: title.into(), text: String::new(), outcome }
    };
    comparisons.iter().map(section).collect()
}

/// Returns a figure with as many decimals as three digits need.
fn cell(figure: Option<Estimate>, unit: Unit) -> Cell {
    let Some(Estimate { value, .. }) = figure else { return Cell::Empty };
    if unit == Unit::Share {
        return format!("{:.1} %", 100.0 * value).into();
    }
    let decimals = match value {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        0.001.. => 5,
        _ => 9,
    };
    let decimals = if value.fract() == 0.0 { 0 } else { decimals };
    Measured::new(value, decimals).into()
}

#[cfg(test)]
mod tests;
