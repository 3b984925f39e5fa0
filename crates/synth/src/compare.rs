//! Compares two traces: how closely a synthetic trace resembles its target.
//!
//! The one idea: both are measured by the same analyser and the same cache simulator, and all
//! compared numbers are independent of the length: rates, shares, distributions, miss ratios.

use spindle_analyze::{By, Findings, Histogram, analyze};
use spindle_cachesim::replacement::PolicyName;
use spindle_cachesim::{CacheGrid, Extras, Simulated, Write, simulate};
use spindle_report::number::{real, share};
use spindle_report::outcome::{Cell, Column, Measured, Table};
use spindle_report::{Outcome, Section};
use spindle_trace::follow::Mode;
use spindle_trace::{Kind, Result, Source};

/// Block size of the simulated caches in bytes.
const BLOCK: u32 = 4096;
/// Size of the smallest cache in bytes; each of the others is four times as large as the previous
/// one.
const SMALLEST: u64 = 256 << 10;
const SIZES: u32 = 10;

/// The measurements of one of the traces.
#[derive(Clone, Debug)]
pub struct Side {
    findings: Findings,
    caches: Simulated,
}

impl Side {
    /// Measures the trace that `open` opens with all numeric columns; `open` is called more than
    /// once. `progress` receives the phase and the part of it that is done.
    ///
    /// # Errors
    /// Errors of the source and of the simulation.
    pub fn of(
        open: &dyn Fn() -> Result<Box<dyn Source>>,
        progress: &dyn Fn(&'static str, Option<f64>),
    ) -> Result<Self> {
        let findings = analyze(&mut *open()?, |done| progress("analysing", done))?;
        let grid = CacheGrid {
            block: BLOCK,
            extras: Extras::default(),
            sizes: sizes().collect(),
            policies: vec![PolicyName::Lru],
            writes: vec![Write::Delayed],
            ages: false,
        };
        let caches = simulate(&mut *open()?, &[grid], &|done| progress("simulating", done))?;
        Ok(Self { findings, caches })
    }

    /// Returns the share of accesses to blocks that are disk accesses, for an LRU cache of `size`
    /// bytes with delayed writes; `None` without accesses.
    #[must_use]
    pub fn miss_ratio(&self, size: u64) -> Option<f64> {
        let cell = self.caches.results.first()?.cell(size, Write::Delayed)?;
        (cell.counts.accesses() > 0).then(|| cell.counts.miss_ratio())
    }

    /// Returns the findings of the analyser.
    #[must_use]
    pub const fn findings(&self) -> &Findings {
        &self.findings
    }

    fn footprint(&self) -> u64 {
        self.caches.results.first().map_or(0, |result| result.footprint * u64::from(BLOCK))
    }

    /// Converts an amount into a rate per hour.
    fn rate(&self, amount: u64) -> Option<f64> {
        let hours = self.findings.totals.seconds() / 3600.0;
        (hours > 0.0).then(|| real(amount) / hours)
    }
}

/// Returns the sizes of the simulated caches in bytes.
pub fn sizes() -> impl Iterator<Item = u64> {
    (0..SIZES).map(|n| SMALLEST << (2 * n))
}

/// Format of two numbers and of their difference.
#[derive(Clone, Copy)]
enum As {
    /// With this number of decimals; the difference in percent of the target.
    Number(usize),
    /// As a percentage; the difference in percentage points.
    Share,
}

/// Rows of target, synthetic and difference.
struct Rows(Table);

impl Rows {
    fn new() -> Self {
        let columns = ["", "target", "synthetic", "difference"].map(|name| Column::new(name, 1));
        Self(Table::new("", columns))
    }

    /// Adds a row, unless both values are missing.
    fn row(&mut self, name: &str, shown: As, target: Option<f64>, synthetic: Option<f64>) {
        if target.is_none() && synthetic.is_none() {
            return;
        }
        let both = target.zip(synthetic);
        let cell = |value: Option<f64>| -> Cell {
            match (value, shown) {
                (None, _) => Cell::Empty,
                (Some(value), As::Number(decimals)) => Measured::new(value, decimals).into(),
                (Some(value), As::Share) => format!("{:.1} %", 100.0 * value).into(),
            }
        };
        let difference: Cell = match (both, shown) {
            (Some((target, synthetic)), As::Number(_)) if target > 0.0 => {
                format!("{:+.1} %", 100.0 * (synthetic / target - 1.0)).into()
            }
            (Some((target, synthetic)), As::Share) => {
                format!("{:+.1} points", 100.0 * (synthetic - target)).into()
            }
            _ => Cell::Empty,
        };
        self.0.row([name.into(), cell(target), cell(synthetic), difference]);
    }

    fn section(self, id: &str, title: &str) -> Section {
        let outcome = Outcome { tables: vec![self.0], ..Outcome::default() };
        Section { id: id.into(), title: title.into(), text: String::new(), outcome }
    }
}

/// Returns all comparisons.
#[must_use]
pub fn sections(target: &Side, synthetic: &Side) -> Vec<Section> {
    vec![
        events(target, synthetic),
        users(target, synthetic),
        orders(target, synthetic),
        distributions(target, synthetic),
        caches(target, synthetic),
    ]
}

fn events(target: &Side, synthetic: &Side) -> Section {
    let mut rows = Rows::new();
    let hours = |side: &Side| Some(side.findings.totals.seconds() / 3600.0);
    rows.row("duration (hours)", As::Number(3), hours(target), hours(synthetic));
    for kind in Kind::ALL {
        let rate = |side: &Side| side.rate(side.findings.totals.count(kind));
        if rate(target).into_iter().chain(rate(synthetic)).sum::<f64>() > 0.0 {
            rows.row(
                &format!("{} events in an hour", kind.name()),
                As::Number(1),
                rate(target),
                rate(synthetic),
            );
        }
    }
    let read = |side: &Side| side.rate(side.findings.totals.read).map(|rate| rate / 1e6);
    let written = |side: &Side| side.rate(side.findings.totals.written).map(|rate| rate / 1e6);
    rows.row("MB read in an hour", As::Number(2), read(target), read(synthetic));
    rows.row("MB written in an hour", As::Number(2), written(target), written(synthetic));
    rows.section("table-3", "Rates of events (Table III)")
}

fn users(target: &Side, synthetic: &Side) -> Section {
    let mut rows = Rows::new();
    let mut row = |name: &str, decimals, of: fn(&Findings) -> Option<f64>| {
        rows.row(name, As::Number(decimals), of(&target.findings), of(&synthetic.findings));
    };
    row("users", 0, |found| Some(real(found.activity.users)));
    row("active users, over ten minutes", 2, |found| {
        (found.activity.minutes.count > 0).then_some(found.activity.minutes.active.mean)
    });
    row("bytes per second per active user, over ten minutes", 0, |found| {
        (found.activity.minutes.count > 0).then_some(found.activity.minutes.throughput.mean)
    });
    row("active users, over ten seconds", 2, |found| {
        (found.activity.seconds.count > 0).then_some(found.activity.seconds.active.mean)
    });
    row("bytes per second per active user, over ten seconds", 0, |found| {
        (found.activity.seconds.count > 0).then_some(found.activity.seconds.throughput.mean)
    });
    rows.section("table-4", "Activity of users (Table IV)")
}

fn orders(target: &Side, synthetic: &Side) -> Section {
    let mut rows = Rows::new();
    for (mode, name) in Mode::ALL.into_iter().zip(["read-only", "write-only", "read-write"]) {
        let of = |side: &Side| side.findings.patterns.modes[mode as usize];
        let all = |side: &Side| share(of(side).accesses, side.findings.patterns.all().accesses);
        rows.row(&format!("{name} accesses (of all)"), As::Share, all(target), all(synthetic));
        let whole = |side: &Side| share(of(side).whole, of(side).accesses);
        rows.row(
            &format!("whole-file {name} accesses (of these)"),
            As::Share,
            whole(target),
            whole(synthetic),
        );
        let ordered = |side: &Side| share(of(side).sequential, of(side).accesses);
        rows.row(
            &format!("sequential {name} accesses (of these)"),
            As::Share,
            ordered(target),
            ordered(synthetic),
        );
        let bytes = |side: &Side| share(of(side).bytes, side.findings.patterns.all().bytes);
        rows.row(
            &format!("bytes transferred in {name} accesses (of all)"),
            As::Share,
            bytes(target),
            bytes(synthetic),
        );
    }
    let whole = |side: &Side| share(side.findings.patterns.all().whole_bytes, side.findings.totals.bytes());
    rows.row("bytes in whole-file transfers (of all)", As::Share, whole(target), whole(synthetic));
    let ordered =
        |side: &Side| share(side.findings.patterns.all().sequential_bytes, side.findings.totals.bytes());
    rows.row("bytes transferred sequentially (of all)", As::Share, ordered(target), ordered(synthetic));
    rows.section("table-5", "Order of access within files (Table V)")
}

fn distributions(target: &Side, synthetic: &Side) -> Section {
    let mut rows = Rows::new();
    let mut row = |name: &str, unit: f64, decimals, of: fn(&Findings) -> &Histogram, weighed: bool| {
        let [here, there] = [target, synthetic].map(|side| of(&side.findings));
        let mean = |histogram: &Histogram| (histogram.count() > 0).then(|| histogram.mean() / unit);
        rows.row(&format!("{name}, mean"), As::Number(decimals), mean(here), mean(there));
        let mut quantiles = |by, what: &str| {
            for (share, part) in [("10 %", 0.1), ("half", 0.5), ("90 %", 0.9)] {
                let at = |histogram: &Histogram| histogram.quantile(part, by).map(|value| real(value) / unit);
                let name = format!("{name}: {share} of {what} up to");
                rows.row(&name, As::Number(decimals), at(here), at(there));
            }
        };
        quantiles(By::Count, "them");
        if weighed {
            quantiles(By::Weight, "bytes");
        }
    };
    row("length of a run (bytes)", 1.0, 0, |found| &found.patterns.runs, true);
    row("size at the close (bytes)", 1.0, 0, |found| &found.patterns.sizes, true);
    row("time open (s)", 1e9, 5, |found| &found.patterns.open_times, false);
    row("lifetime of new data (s)", 1e9, 3, |found| &found.lifetimes.ended, true);
    rows.section("figures", "Runs, sizes, times and lifetimes (figures 1 to 4)")
}

fn caches(target: &Side, synthetic: &Side) -> Section {
    let mut rows = Rows::new();
    let most = target.footprint().max(synthetic.footprint()).max(SMALLEST);
    let foot = |side: &Side| Some(real(side.footprint()) / 1e6);
    rows.row("maximum data at once (MB)", As::Number(2), foot(target), foot(synthetic));
    for size in sizes().take_while(|&size| size < 4 * most) {
        let name = if size < 1 << 20 { format!("{} KiB", size >> 10) } else { format!("{} MiB", size >> 20) };
        rows.row(&name, As::Share, target.miss_ratio(size), synthetic.miss_ratio(size));
    }
    let mut section = rows.section("caches", "Miss ratios of LRU caches");
    section.outcome.tables[0].explain(format!(
        "Disk reads and writes as a share of accesses to blocks of {BLOCK} bytes, with delayed writes."
    ));
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Length, Model, Synthesis};

    fn side(hours: f64) -> Side {
        let model = Model::parse(Model::built_in("c4").unwrap(), "c4").unwrap();
        let open = || Synthesis::new(model.clone(), Length::Hours(hours), 1);
        Side::of(&|| Ok(Box::new(open())), &|_, _| ()).unwrap()
    }

    /// Promise: a trace does not differ from itself, and a trace without events gives no rows for
    /// missing values.
    #[test]
    fn the_same() {
        let (some, none) = (side(1.0), side(0.0));
        let differences = |a: &Side, b: &Side| -> Vec<String> {
            let tables = sections(a, b).into_iter().flat_map(|section| section.outcome.tables);
            let cells = tables.flat_map(|table| table.rows).map(|row| row.cells[3].clone());
            cells.filter_map(|cell| if let Cell::Text(text) = cell { Some(text) } else { None }).collect()
        };
        let same = differences(&some, &some);
        assert!(
            same.len() > 40 && same.iter().all(|text| text == "+0.0 %" || text == "+0.0 points"),
            "{same:?}"
        );
        assert!(differences(&none, &none).is_empty());
        assert!(some.miss_ratio(1 << 20).is_some() && none.miss_ratio(1 << 20).is_none());
    }
}
