//! Compares the findings of two traces, and shows which differences are more than noise.
//!
//! The one idea: each figure comes with the interval in which it would lie in 99 of 100 traces of
//! the same load and length ([`Estimate`]), and two figures differ if their intervals have nothing
//! in common. A figure that only one trace has shows nothing; its count does. Of a count the interval is that of a Poisson process, of a share that of a binomial
//! distribution, of a quantile that of the ranks around it, so nothing is assumed of how sizes and
//! times are distributed.
//!
//! Programs do things in bursts, which make all counts less certain than independent events are. How
//! much less shows in the trace itself: it is cut into equal parts of time, and the variance of
//! their counts divided by the mean (their dispersion) says for how many events there is one
//! independent one (the method of batch means).
//!
//! What this does not know: how much another day differs, or the load of another hour.

use super::{By, Class, Findings, Histogram, YOUNG};
use serde::Serialize;
use spindle_report::number::real;
use spindle_report::outcome::{Cell, Column, Measured, Table};
use spindle_report::{Outcome, Section};
use spindle_trace::Kind;
use spindle_trace::follow::Mode;

/// Number of parts into which a trace is cut to see its bursts.
const PARTS: usize = 16;
/// Standard deviations of a normal distribution within which 99 % of it lie.
const Z: f64 = 2.576;
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
    }

    /// Returns the sum of some of the values of a distribution, whose number is `count`.
    fn sum(sum: f64, count: f64, values: &Histogram, dispersion: f64) -> Self {
        // The variance of a sum of a random number of random values.
        let squares: f64 =
            values.buckets().map(|bucket| real(bucket.count) * real(bucket.middle()).powi(2)).sum();
        let mean = values.mean();
        let spread = if mean > 0.0 { squares / real(values.count()) / mean.powi(2) } else { 1.0 };
        let counted = Self::count(count, dispersion * spread.max(1.0));
        let each = if count > 0.0 { sum / count } else { mean };
        Self { value: sum, low: counted.low * each, high: counted.high * each }
    }

    /// Returns the share of `part` in `whole`; none of nothing.
    fn share(part: f64, whole: f64, dispersion: f64) -> Option<Self> {
        let independent = whole / dispersion;
        (whole > 0.0).then(|| {
            let share = part / whole;
            let scale = 1.0 + Z * Z / independent;
            let middle = (share + Z * Z / (2.0 * independent)) / scale;
            let reach =
                Z * (share * (1.0 - share) / independent + (Z / (2.0 * independent)).powi(2)).sqrt() / scale;
            Self { value: share, low: (middle - reach).max(0.0), high: (middle + reach).min(1.0) }
        })
    }

    /// Returns the value, in `unit`, below which the share `part` of the values lies; none without
    /// values.
    fn quantile(values: &Histogram, part: f64, unit: f64, dispersion: f64) -> Option<Self> {
        let independent = real(values.count()) / dispersion;
        let reach = Z * (part * (1.0 - part) / independent).sqrt();
        let at = |part: f64| Some(real(values.quantile(part, By::Count)?) / unit);
        let low = if part > reach { at(part - reach)? * (1.0 - ROUNDING) } else { 0.0 };
        let high = if part + reach < 1.0 { at(part + reach)? * (1.0 + ROUNDING) } else { f64::INFINITY };
        Some(Self { value: at(part)?, low, high })
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

/// The findings of a trace, and how much its counts say.
struct Sample<'a> {
    found: &'a Findings,
    /// Of how many events one is independent of the others; at least 1.
    dispersion: f64,
}

impl<'a> Sample<'a> {
    fn new(found: &'a Findings) -> Self {
        let slots = &found.requests.over_time.calls;
        let each = slots.len() / PARTS;
        let counts: Vec<f64> = if each == 0 {
            Vec::new()
        } else {
            let sum = |part: &[[u64; 3]]| real(part.iter().flatten().sum());
            slots.chunks_exact(each).map(sum).collect()
        };
        Self { found, dispersion: dispersion(&counts) }
    }
}

/// Returns the variance of counts divided by their mean, at least 1: what a Poisson process has.
fn dispersion(counts: &[f64]) -> f64 {
    let number = real(counts.len() as u64);
    let mean = counts.iter().sum::<f64>() / number;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (number - 1.0);
    if number >= 2.0 && mean > 0.0 { (variance / mean).max(1.0) } else { 1.0 }
}

/// Compares the findings of two traces.
#[must_use]
pub fn compare(before: &Findings, after: &Findings) -> Vec<Comparison> {
    let both = [before, after].map(Sample::new);
    vec![counts(&both), rates(&both), shares(&both), distributions(&both)]
}

/// The figures of a [`Comparison`] that are being collected.
struct Figures<'a>(&'a [Sample<'a>; 2], Vec<Difference>);

impl Figures<'_> {
    fn add(&mut self, name: impl Into<String>, unit: Unit, of: impl Fn(&Sample<'_>) -> Option<Estimate>) {
        let [before, after] = self.0.each_ref().map(of);
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

/// Returns the number of events of a kind as messages call it, and how it is counted.
fn kinds() -> impl Iterator<Item = (String, impl Fn(&Sample<'_>) -> Estimate)> {
    Kind::ALL.into_iter().map(|kind| {
        let count = move |sample: &Sample<'_>| {
            Estimate::count(real(sample.found.totals.count(kind)), sample.dispersion)
        };
        (format!("{} events", kind.name()), count)
    })
}

/// Returns the bytes that were read or written.
fn moved(sample: &Sample<'_>, class: Class) -> Estimate {
    let Findings { totals, requests, patterns, .. } = sample.found;
    let bytes = if class == Class::Read { totals.read } else { totals.written };
    Estimate::sum(real(bytes), real(requests.calls[class as usize]), &patterns.runs, sample.dispersion)
}

fn counts(both: &[Sample<'_>; 2]) -> Comparison {
    let mut figures = Figures(both, Vec::new());
    for (name, count) in kinds() {
        figures.add(name, Unit::Number, |sample| Some(count(sample)));
    }
    figures.add("bytes read", Unit::Bytes, |sample| Some(moved(sample, Class::Read)));
    figures.add("bytes written", Unit::Bytes, |sample| Some(moved(sample, Class::Write)));
    Comparison { id: "counts", title: "Counts over the whole trace", figures: figures.1 }
}

fn rates(both: &[Sample<'_>; 2]) -> Comparison {
    let mut figures = Figures(both, Vec::new());
    let rate = |sample: &Sample<'_>, count: Estimate| {
        let seconds = sample.found.totals.seconds();
        (seconds > 0.0).then(|| count.per(seconds))
    };
    for (name, count) in kinds() {
        figures.add(format!("{name} per second"), Unit::Number, |sample| rate(sample, count(sample)));
    }
    for (class, name) in [(Class::Read, "bytes read per second"), (Class::Write, "bytes written per second")]
    {
        figures.add(name, Unit::Bytes, |sample| rate(sample, moved(sample, class)));
    }
    Comparison { id: "rates", title: "Rates", figures: figures.1 }
}

fn shares(both: &[Sample<'_>; 2]) -> Comparison {
    let mut figures = Figures(both, Vec::new());
    let share = |part: u64, whole: u64, sample: &Sample<'_>| {
        Estimate::share(real(part), real(whole), sample.dispersion)
    };
    for (mode, name) in Mode::ALL.into_iter().zip(["read-only", "write-only", "read-write"]) {
        let orders = move |sample: &Sample<'_>| sample.found.patterns.modes[mode as usize];
        figures.add(format!("{name} accesses (of all)"), Unit::Share, |sample| {
            share(orders(sample).accesses, sample.found.patterns.all().accesses, sample)
        });
        figures.add(format!("whole-file {name} accesses (of these)"), Unit::Share, |sample| {
            share(orders(sample).whole, orders(sample).accesses, sample)
        });
        figures.add(format!("sequential {name} accesses (of these)"), Unit::Share, |sample| {
            share(orders(sample).sequential, orders(sample).accesses, sample)
        });
    }
    for (name, age) in [("30 seconds", YOUNG), ("five minutes", 10 * YOUNG)] {
        figures.add(format!("new files whose data is dead within {name}"), Unit::Share, |sample| {
            let lives = &sample.found.lifetimes;
            Estimate::share(lives.ended.below(age, By::Count), real(lives.all().files), sample.dispersion)
        });
    }
    figures.add("accesses with fsync or fdatasync (of all)", Unit::Share, |sample| {
        let all = sample.found.patterns.all().accesses;
        share(sample.found.today.synced.min(all), all, sample)
    });
    Comparison { id: "shares", title: "Order of access, lives and syncs", figures: figures.1 }
}

fn distributions(both: &[Sample<'_>; 2]) -> Comparison {
    let mut figures = Figures(both, Vec::new());
    let distributions: [(&str, Unit, fn(&Findings) -> &Histogram); 6] = [
        ("length of a run", Unit::Bytes, |found| &found.patterns.runs),
        ("bytes of a call", Unit::Bytes, |found| &found.today.requests),
        ("size of a file at its close", Unit::Bytes, |found| &found.patterns.sizes),
        ("time for which a file is open", Unit::Seconds, |found| &found.patterns.open_times),
        ("time between two events of an open file", Unit::Seconds, |found| &found.patterns.intervals),
        ("lifetime of new data", Unit::Seconds, |found| &found.lifetimes.ended),
    ];
    for (name, unit, of) in distributions {
        for (share, part) in [("10 %", 0.1), ("half", 0.5), ("90 %", 0.9), ("99 %", 0.99)] {
            figures.add(format!("{name}: {share} up to"), unit, |sample| {
                let scale = if unit == Unit::Seconds { 1e9 } else { 1.0 };
                Estimate::quantile(of(sample.found), part, scale, sample.dispersion)
            });
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
