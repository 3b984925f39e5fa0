//! Figure 11 of the paper on the multi-structured file system: service times by the number of
//! disks.

use crate::bench::load::Call;
use crate::bench::service::{Served, prepared, serve};
use crate::bench::storage::{MEMORY, PAPERS, System};
use crate::setting::Hardware;
use crate::{Outcome, Progress, Result, Setting};
use spindle_report::outcome::{
    Cell, Column, Comparison, Evidence, Figure, Note, Plot, Published, Series, Table,
};

/// Disks of control storage, and as many of data storage.
const SETS: [u32; 4] = [1, 2, 3, 4];
/// The calls whose times are drawn.
const DRAWN: [(Call, &str); 3] = [(Call::Create, "create"), (Call::Write, "write"), (Call::Read, "read")];

const MISSED: Note = Note::new(
    "One unit keeps the busiest of 1 + 1 disks busy for a few percent of the time, so a call takes what it takes on an \
    idle disk, and more disks cannot make that shorter. Seven units on four disks are 1.75 times the work for each. The \
    paper's unit was a trace of 60 users, of which many may have waited for one disk at once; how its calls came is not stated.",
    1.0,
    1.6,
);
const IN_MEMORY: Note = Note::new(
    "A call that reaches no disk, with the processor's queue of seven programs instead of one.",
    1.0,
    1.3,
);
const ALL_CHANGES: Note =
    Note::new("Seven units have changed seven times as much, on four times as many disks.", 1.0, 4.2);
const REMOVED: Note = Note::new(
    "A removal waits for data of its file that is on its way to the disk: part of a burst, which is longer with \
    seven units.",
    1.0,
    10.0,
);
const TAKEN: Note = Note::new(
    "When an epoch is taken for the log, changes wait until those under way have ended, of which some wait for a \
    disk. Blocks are read again, as seven units share the memory of one.",
    1.0,
    4.0,
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
    let steps = (SETS.len() * scale.loads.len() + 1) as u64;
    let mut all: Vec<Vec<Served>> = Vec::new();
    for disks in SETS {
        let made = prepared(on, System::scaled(disks), most, MEMORY)?;
        let mut found = Vec::new();
        for &load in scale.loads {
            let step = all.len() * scale.loads.len() + found.len();
            progress.at(step as u64, steps, &format!("{disks} + {disks} disks, load {load}"));
            found.push(serve(&made, load, scale.calls)?);
        }
        all.push(found);
    }
    progress.at(steps - 1, steps, "more memory");
    let memory = MEMORY * most as usize;
    let roomy = serve(&prepared(on, System::scaled(SETS[3]), most, memory)?, most, scale.calls)?;
    let tables = vec![bounds(scale, &all, &roomy), aggregate(scale, &all)];
    Ok(Outcome { tables, figures: figures(scale, &all), findings: FINDINGS.map(String::from).to_vec() })
}

/// A time that is compared, in milliseconds.
type Time = Box<dyn Fn(&Served) -> f64>;

/// Returns the times of calls and of making everything durable, with their names.
fn rows() -> Vec<(&'static str, Time)> {
    let of_call = |call| Box::new(move |served: &Served| served.times.mean(call)) as Time;
    let mut rows: Vec<_> = Call::ALL.iter().map(|&(call, name, _)| (name, of_call(call))).collect();
    rows.push(("all calls", Box::new(|served: &Served| served.times.mean_of_all())));
    rows.push(("cache flush", Box::new(|served: &Served| served.flush)));
    rows
}

/// Returns why a bound on a row may be missed, at `least` load or at as much.
fn reason(name: &str, least: bool) -> Note {
    match name {
        "close" => IN_MEMORY,
        "unlink" => REMOVED,
        "cache flush" => ALL_CHANGES,
        "chmod" | "create" => TAKEN,
        "write" if !least => TAKEN,
        _ => MISSED,
    }
}

fn bounds(scale: &Scale, all: &[Vec<Served>], roomy: &Served) -> Table {
    let most = scale.loads.last().copied().unwrap_or(1);
    let names = [
        "call".to_owned(),
        "1 + 1, load 1".into(),
        format!("1 + 1, load {most}"),
        format!("4 + 4, load {most}, against load 1"),
        "against as much load".into(),
        format!("4 + 4, load {most}, {most} x memory"),
    ];
    let mut table = Table::new("Figure 11: service times, ms", names.map(|name| Column::new(name, 2)));
    let (Some(small), Some(large)) = (all.first(), all.last()) else { return table };
    let (Some(least), Some(loaded), Some(wide)) = (small.first(), small.last(), large.last()) else {
        return table;
    };
    for (name, of) in rows() {
        let bound = |than: &Served, least: bool| {
            let bound = Comparison::new(Evidence::Predicted, Published::at_most(of(than)), of(wide));
            Cell::from(bound.because(reason(name, least)))
        };
        table.row([
            name.into(),
            of(least).into(),
            of(loaded).into(),
            bound(least, true),
            bound(loaded, false),
            of(roomy).into(),
        ]);
    }
    table
}

fn aggregate(scale: &Scale, all: &[Vec<Served>]) -> Table {
    let columns = std::iter::once("load".into()).chain(SETS.map(|disks| format!("{disks} + {disks}")));
    let mut table = Table::new(
        "Times of all calls, ms, by disks of control and data storage",
        columns.map(|name| Column::new(name, 1)),
    );
    for (n, load) in scale.loads.iter().enumerate() {
        let cells = all.iter().map(|found| found[n].times.mean_of_all().into());
        table.row(std::iter::once(load.to_string().into()).chain(cells));
    }
    let busy = |found: &Vec<Served>| found.last().map_or(0.0, |served| 100.0 * served.busiest).into();
    table.row(std::iter::once("busiest disk then, %".into()).chain(all.iter().map(busy)));
    table
}

fn figures(scale: &Scale, all: &[Vec<Served>]) -> Vec<Figure> {
    let figure = |title: &str, of: &dyn Fn(&Served) -> f64| {
        let series = SETS.iter().zip(all).map(|(disks, found)| {
            let points = scale.loads.iter().zip(found).map(|(&load, served)| (f64::from(load), of(served)));
            Series { name: format!("{disks} + {disks} disks"), points: points.collect() }
        });
        let plot = Plot::Lines { x: "load".into(), y: "ms".into(), series: series.collect() };
        Figure { title: format!("Figure 11: {title}"), plot }
    };
    let mut figures: Vec<_> =
        DRAWN.iter().map(|&(call, name)| figure(name, &move |served| served.times.mean(call))).collect();
    figures.push(figure("cache flush", &|served| served.flush));
    figures
}

const FINDINGS: [&str; 3] = [
    "More disks help as soon as there is a queue: four and four carry seven units about as one and one carry three, and halve \
     the time in which everything is made durable. That seven units are served better than one by one and one, as in \
     the paper, is missed for every kind of call, as a unit of ours leaves these disks idle.",
    "With seven times the memory, as seven machines would have, it is missed by a little less: seven units share the memory of \
     one.",
    "The rest is the commit: while everything is made durable, its writes are in a burst before what is read, a removal waits \
     for the data of its file in it, and changes wait for a moment. The paper flushes old entries one by one whenever a call \
     is answered from memory.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use spindle_report::outcome::Verdict;

    /// Promise: with fewer calls, too, more disks serve the same load faster, and the same figures
    /// come out again.
    #[test]
    fn a_few_calls() {
        let scale = Scale { loads: &[1, 4], calls: 500 };
        let on = Setting::default().in_place_of(&PAPERS).unwrap();
        let [outcome, again] = [(), ()].map(|()| carry_out(&on, &scale, &Silent).unwrap());
        assert_eq!(outcome, again);
        let all = outcome.tables[0].rows.iter().find(|row| row.cells[0] == Cell::from("all calls")).unwrap();
        assert_eq!(all.cells[4].verdict(), Some(Verdict::Held), "{all:?}");
    }
}
