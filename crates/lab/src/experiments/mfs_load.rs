//! Figure 8 of the paper on the multi-structured file system: service times of calls against load.

use crate::bench::load::Call;
use crate::bench::service::{Served, prepared, serve};
use crate::bench::storage::{MEMORY, PAPERS, SYSTEMS};
use crate::setting::Hardware;
use crate::{Outcome, Progress, Result, Setting};
use spindle_report::outcome::{Column, Comparison, Evidence, Figure, Note, Plot, Published, Series, Table};

/// The place of the multi-structured file system in [`SYSTEMS`].
const MFS: usize = SYSTEMS.len() - 1;
/// The calls whose times are drawn.
const DRAWN: [Call; 4] = [Call::Open, Call::Create, Call::Read, Call::Write];

const ONE_ARM: Note = Note::new(
    "On as many disks the fast file system has four arms for data, and the multi-structured one, as the paper set it \
    up, has one, whose queue grows. The factor is large also because its times begin so low.",
    1.0,
    1.6,
);

/// How much is done.
struct Scale {
    /// Units of load.
    loads: &'static [u32],
    /// Calls of each unit that count.
    calls: u64,
}

const FULL: Scale = Scale { loads: &[1, 2, 3, 4, 5, 6, 7], calls: 4000 };

/// Runs the experiment.
pub(super) fn run(setting: &Setting, progress: &dyn Progress) -> Result<Outcome> {
    carry_out(&setting.in_place_of(&PAPERS)?, &FULL, progress)
}

fn carry_out(on: &Hardware, scale: &Scale, progress: &dyn Progress) -> Result<Outcome> {
    let most = scale.loads.iter().copied().max().unwrap_or(1);
    let steps = (SYSTEMS.len() * scale.loads.len()) as u64;
    let mut all: Vec<Vec<Served>> = Vec::new();
    for (name, system) in SYSTEMS {
        let made = prepared(on, system, most, MEMORY)?;
        let mut found = Vec::new();
        for &load in scale.loads {
            progress.at((all.len() * scale.loads.len() + found.len()) as u64, steps, name);
            found.push(serve(&made, load, scale.calls)?);
        }
        all.push(found);
    }
    let tables = vec![
        aggregate(scale, &all),
        bounds(scale, &all),
        by_call("Service times at the least load, ms", all.iter().filter_map(|found| found.first())),
        by_call("Service times at the greatest load, ms", all.iter().filter_map(|found| found.last())),
    ];
    Ok(Outcome { tables, figures: figures(scale, &all), findings: FINDINGS.map(String::from).to_vec() })
}

fn columns(first: &str) -> impl Iterator<Item = Column> {
    std::iter::once(first).chain(SYSTEMS.map(|(name, _)| name)).map(|name| Column::new(name, 1))
}

fn aggregate(scale: &Scale, all: &[Vec<Served>]) -> Table {
    let mut table = Table::new("Figure 8: aggregate service time against load, ms", columns("load"));
    for (n, load) in scale.loads.iter().enumerate() {
        let cells = all.iter().map(|found| found[n].times.mean_of_all().into());
        table.row(std::iter::once(load.to_string().into()).chain(cells));
    }
    let busy = |found: &Vec<Served>| found.last().map_or(0.0, |served| 100.0 * served.busiest).into();
    table.row(std::iter::once("busiest disk then, %".into()).chain(all.iter().map(busy)));
    table
}

/// Returns what the paper says without numbers as bounds: the multi-structured file system is
/// faster under each load, and its times grow less.
fn bounds(scale: &Scale, all: &[Vec<Served>]) -> Table {
    let names =
        ["MFS over", "time, least load", "time, greatest load", "added per load", "factor between them"];
    let mut table = Table::new(
        "Times of the multi-structured file system over those of others",
        names.map(|name| Column::new(name, 2)),
    );
    let ends = |found: &[Served]| {
        let at = |served: Option<&Served>| served.map_or(0.0, |served| served.times.mean_of_all());
        [at(found.first()), at(found.last())]
    };
    let [first, last] = ends(&all[MFS]);
    for (found, (name, system)) in all.iter().zip(SYSTEMS).take(MFS) {
        let [least, greatest] = ends(found);
        let added = (last - first) / (greatest - least);
        let factor = (last / first) / (greatest / least);
        let cells = [first / least, last / greatest, added, factor].map(|ratio| {
            let bound = Comparison::new(Evidence::Predicted, Published::at_most(1.0), ratio);
            if system.width() > 1 { bound.because(ONE_ARM).into() } else { bound.into() }
        });
        table.row(std::iter::once(name.into()).chain(cells));
    }
    table.explain(format!("Loads {:?}; times of all calls together.", scale.loads));
    table
}

fn by_call<'a>(title: &str, found: impl Iterator<Item = &'a Served>) -> Table {
    let found: Vec<_> = found.collect();
    let mut table = Table::new(title, columns("call"));
    for (call, name, _) in Call::ALL {
        let cells = found.iter().map(|served| served.times.mean(call).into());
        table.row(std::iter::once(name.into()).chain(cells));
    }
    let flushes = found.iter().map(|served| served.flush.into());
    table.row(std::iter::once("making all durable".into()).chain(flushes));
    table
}

fn figures(scale: &Scale, all: &[Vec<Served>]) -> Vec<Figure> {
    let line = |name: String, of: &dyn Fn(&Served) -> f64, found: &[Served]| {
        let points = scale.loads.iter().zip(found).map(|(&load, served)| (f64::from(load), of(served)));
        Series { name, points: points.collect() }
    };
    let lines = |title: &str, series: Vec<Series>| Figure {
        title: title.into(),
        plot: Plot::Lines { x: "load".into(), y: "ms".into(), series },
    };
    let of_all = |served: &Served| served.times.mean_of_all();
    let systems = SYSTEMS.iter().zip(all).map(|((name, _), found)| line((*name).into(), &of_all, found));
    let mut figures = vec![lines("Figure 8: aggregate service time against load", systems.collect())];
    let mut series = Vec::new();
    for (call, name, _) in Call::ALL.into_iter().filter(|(call, _, _)| DRAWN.contains(call)) {
        for system in [0, MFS] {
            let of_call = move |served: &Served| served.times.mean(call);
            series.push(line(format!("{name}, {}", SYSTEMS[system].0), &of_call, &all[system]));
        }
    }
    figures.push(lines("Figure 8: service times against load", series));
    figures
}

const FINDINGS: [&str; 3] = [
    "The values of figure 8 are in a picture without numbers. Its axis ends at 60 ms; the fast file system on one disk comes to \
     33, because names and inodes that are written at once wait behind each other, and everything that is read waits \
     behind them. Its disk is busy all the time from the fourth unit on.",
    "A log takes the waiting out of names, but not the work out of the disk: one disk is full again some units later, with \
     data that lies all over it.",
    "The control disk of the multi-structured file system is read and hardly ever written here: changes are in its log, and go to \
     their places when the log is half full, which these minutes do not see.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use spindle_report::outcome::Verdict;

    /// Promise: with fewer calls, too, the multi-structured file system is faster under load than
    /// the fast one on one disk, and the same figures come out again.
    #[test]
    fn a_few_calls() {
        let scale = Scale { loads: &[1, 4], calls: 2400 };
        let on = Setting::default().in_place_of(&PAPERS).unwrap();
        let [outcome, again] = [(), ()].map(|()| carry_out(&on, &scale, &Silent).unwrap());
        assert_eq!(outcome, again);
        let row = &outcome.tables[1].rows[0];
        assert!(row.cells[1..].iter().all(|cell| cell.verdict() == Some(Verdict::Held)), "{row:?}");
    }
}
