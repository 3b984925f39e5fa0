//! Tables 1 and 2 of the paper on the multi-structured file system: calls and what they ask of the
//! disks of the fast file system.

use crate::bench::load::{Call, Times, Unit, present};
use crate::bench::service::{keep, prepared};
use crate::bench::storage::{MEMORY, PAPERS, System};
use crate::bench::tap::Tap;
use crate::setting::Hardware;
use crate::{Outcome, Progress, Result, Setting};
use spindle_clock::{Clock, Mutex};
use spindle_device::{Device, Op};
use spindle_report::outcome::{Column, Comparison, Evidence, Figure, Note, Plot, Published, Series, Table};
use spindle_sim::Time;
use std::sync::Arc;

/// Programs that make the calls of one unit of load together.
const PROGRAMS: u32 = 7;
/// Calls in the paper's period of 75 minutes.
const PERIOD: u64 = 189_103;
/// Disks of the traced system.
const DISKS: u32 = 3;
/// Table 1: calls, disk reads and disk writes of a period, for read, write and control calls.
const TABLE_1: [[f64; 3]; 3] =
    [[55_475.0, 5368.0, 1056.0], [17_413.0, 499.0, 8563.0], [116_215.0, 3379.0, 23_998.0]];
/// Mean time of a disk request in milliseconds (section 3).
const DISK_REQUEST: f64 = 23.0;
/// Table 2 and section 3: mean times of the calls in milliseconds.
const TABLE_2: [f64; 3] = [16.0, 14.0, 27.0];
const GROUPS: [&str; 3] = ["read", "write", "control"];

const READS: &str = "How large the files were, and which calls the control calls were, is not stated.";
const WRITES: &str =
    "The paper counts what is written later with the call that changed it, ours in a row of its own.";
/// On disk reads and writes, by group.
const DISK_NOTES: [[Note; 2]; GROUPS.len()] = [
    [Note::new(READS, 1.0, 1.5), Note::new(WRITES, 0.0, 0.1)],
    [Note::new(READS, 0.0, 0.2), Note::new(WRITES, 1.5, 2.4)],
    [Note::new(READS, 0.0, 0.3), Note::new(WRITES, 0.6, 1.0)],
];
const ALL_NOTE: Note = Note::new(
    "The control calls that change something are shares by guess (18 files made, 18 removed and 22 changed of a \
    thousand calls), and each writes several blocks at once.",
    0.7,
    1.8,
);
const TIME_NOTE: Note = Note::new(
    "The paper's processor was fully used by 9 to 15 jobs, which a call that waited had to queue for; ours does \
    nothing but file system calls.",
    0.15,
    0.35,
);

/// Returns the group of a call.
fn group(call: Call) -> usize {
    match call {
        Call::Read => 0,
        Call::Write => 1,
        _ => 2,
    }
}

/// Seconds that figure 2 shows, as the paper's does, and the length of its steps.
const SHOWN: u64 = 500;
const STEP: u64 = 5;

/// Disk reads and writes by group, and those of the daemon.
type Counts = [[u64; 2]; GROUPS.len() + 1];

/// What is asked of the disks.
#[derive(Default)]
struct Asked {
    all: Counts,
    /// In each step of the time that figure 2 shows.
    steps: Vec<Counts>,
}

impl Asked {
    fn count(&mut self, seconds: u64, row: usize, op: Op) {
        let column = usize::from(op == Op::Write);
        self.all[row][column] += 1;
        let step = usize::try_from(seconds.min(SHOWN) / STEP).unwrap_or(0);
        if seconds < SHOWN {
            self.steps.resize(self.steps.len().max(step + 1), Counts::default());
            self.steps[step][row][column] += 1;
        }
    }

    /// Returns the requests of some rows in each second, with the time.
    fn over_time(&self, name: &str, rows: std::ops::Range<usize>, column: usize) -> Series {
        #[allow(clippy::cast_precision_loss)] // Thousands.
        let point = |(n, step): (usize, &Counts)| {
            let count: u64 = step[rows.clone()].iter().map(|row| row[column]).sum();
            ((n as u64 * STEP) as f64, count as f64 / STEP as f64)
        };
        Series { name: name.into(), points: self.steps.iter().enumerate().map(point).collect() }
    }
}

/// Runs the experiment.
pub(super) fn run(setting: &Setting, progress: &dyn Progress) -> Result<Outcome> {
    carry_out(&setting.in_place_of(&PAPERS)?, PERIOD, progress)
}

/// Runs it with so many calls.
fn carry_out(on: &Hardware, calls: u64, progress: &dyn Progress) -> Result<Outcome> {
    progress.at(0, 1, "a period of 75 minutes");
    let made = prepared(on, System::Fast { disks: DISKS }, PROGRAMS, MEMORY)?;
    let machine = made.machine()?;
    let asked: Arc<Mutex<Asked>> = Arc::default();
    let all: Arc<Mutex<Vec<Result<Times>>>> = Arc::default();
    let (own, slot, counted) = (made.clone(), all.clone(), asked.clone());
    machine.run(move |machine| {
        let fs = own.open_through(machine, |drive| {
            let (counted, clock) = (counted.clone(), machine.clock.clone());
            let listener = move |op, _, _| {
                let row = present().map_or(GROUPS.len(), group);
                counted.lock().count(clock.monotonic().as_secs(), row, op);
            };
            Arc::new(Tap::new(drive, listener)) as Arc<dyn Device>
        })?;
        keep(machine, &own, &fs);
        for program in 0..PROGRAMS {
            let (fs, clock, slot) = (fs.clone(), machine.clock.clone(), slot.clone());
            machine.client(&format!("program {program}"), move || {
                let each = calls / u64::from(PROGRAMS);
                let done = Unit::new(&*fs, &*clock, program).part(PROGRAMS).run(0, |n| n < each);
                slot.lock().push(done);
            });
        }
        Ok(())
    })?;
    let mut times = Times::default();
    for found in std::mem::take(&mut *all.lock()) {
        times.add(&found?);
    }
    let (mut busy, mut requests) = (Time::ZERO, 0);
    for tally in machine.drives.iter().map(|drive| drive.tally()) {
        busy += tally.busy;
        requests += tally.reads + tally.writes;
    }
    let asked = asked.lock();
    #[allow(clippy::cast_precision_loss)] // Thousands.
    let disk_ms = busy.as_secs_f64() * 1000.0 / (requests as f64).max(1.0);
    let tables = vec![table1(&times, &asked.all), table2(&times, disk_ms)];
    let bars = Plot::Bars {
        y: "disk requests for a thousand calls".into(),
        groups: ["reads", "writes"].map(String::from).to_vec(),
        series: GROUPS
            .iter()
            .chain(&["later"])
            .zip(&asked.all)
            .map(|(name, counts)| ((*name).into(), counts.map(|count| per_thousand(count, &times)).to_vec()))
            .collect(),
    };
    let control = GROUPS.len() - 1;
    let later = GROUPS.len()..GROUPS.len() + 1;
    let lines = Plot::Lines {
        x: "seconds".into(),
        y: "disk requests per second".into(),
        series: vec![
            asked.over_time("data reads", 0..control, 0),
            asked.over_time("data writes", 0..control, 1),
            asked.over_time("control reads", control..GROUPS.len(), 0),
            asked.over_time("control writes", control..GROUPS.len(), 1),
            asked.over_time("later writes", later, 1),
        ],
    };
    let figures = vec![
        Figure { title: "Figure 2: disk requests over time".into(), plot: lines },
        Figure { title: "Disk requests by what asked for them".into(), plot: bars },
    ];
    Ok(Outcome { tables, figures, findings: vec![FINDING.into()] })
}

#[allow(clippy::cast_precision_loss)] // Thousands.
fn per_thousand(count: u64, times: &Times) -> f64 {
    1000.0 * count as f64 / (times.count_of_all() as f64).max(1.0)
}

fn of_group(group_of: usize) -> impl Iterator<Item = Call> {
    Call::ALL.into_iter().map(|(call, _, _)| call).filter(move |&call| group(call) == group_of)
}

fn table1(times: &Times, asked: &Counts) -> Table {
    let names = ["for a thousand calls", "calls", "disk reads", "disk writes"];
    let mut table = Table::new("Table 1: calls and disk requests", names.map(|name| Column::new(name, 0)));
    let mut sums = [0.0; 2];
    for (n, name) in GROUPS.into_iter().enumerate() {
        let count = of_group(n).map(|call| times.count(call)).sum();
        let [reads, writes] = asked[n].map(|count| per_thousand(count, times));
        for (sum, ours) in sums.iter_mut().zip([reads, writes]) {
            *sum += ours;
        }
        // The calls have the shares of Table 1 by construction.
        let calls = Comparison::new(Evidence::Fitted, paper(TABLE_1[n][0]), per_thousand(count, times));
        let disk = |of: usize, ours| {
            let note = DISK_NOTES[n][of - 1].clone();
            Comparison::new(Evidence::HeldOut, paper(TABLE_1[n][of]), ours).because(note).into()
        };
        table.row([name.into(), calls.into(), disk(1, reads), disk(2, writes)]);
    }
    let [reads, writes] = asked[GROUPS.len()].map(|count| per_thousand(count, times));
    table.row(["later".into(), 0.0.into(), reads.into(), writes.into()]);
    let all = |of: usize, ours| {
        let total = paper(TABLE_1.iter().map(|row| row[of]).sum());
        Comparison::new(Evidence::HeldOut, total, ours).because(ALL_NOTE).into()
    };
    table.row(["all".into(), 1000.0.into(), all(1, sums[0] + reads), all(2, sums[1] + writes)]);
    table
}

/// Returns a number of Table 1 for a thousand calls.
fn paper(number: f64) -> Published {
    let calls: f64 = TABLE_1.iter().map(|row| row[0]).sum();
    Published::amount(1000.0 * number / calls, 1000.0 / calls)
}

fn table2(times: &Times, disk_ms: f64) -> Table {
    let names = ["", "mean time, ms"].map(|name| Column::new(name, 1));
    let mut table = Table::new("Table 2: times of calls", names);
    for (n, name) in GROUPS.into_iter().enumerate() {
        #[allow(clippy::cast_precision_loss)] // Thousands.
        let weight = |call| times.count(call) as f64;
        let whole: f64 = of_group(n).map(weight).sum();
        let mean = of_group(n).map(|call| times.mean(call) * weight(call)).sum::<f64>() / whole.max(1.0);
        let compared = Comparison::new(Evidence::HeldOut, Published::amount(TABLE_2[n], 1.0), mean);
        table.row([name.into(), compared.because(TIME_NOTE).into()]);
    }
    let disk = Comparison::new(Evidence::HeldOut, Published::amount(DISK_REQUEST, 1.0), disk_ms);
    table.row(["disk request".into(), disk.into()]);
    table
}

const FINDING: &str = "Most calls concern names and attributes, and so do most writes that somebody waits for; reads are rare on \
    the disk, because most of what is read was read before. This is what the paper builds on: where names and data share \
    a disk, the many small writes are between the reader and its file. The disk's mean time is near the paper's, which says that \
    the modelled disk and the way of its arm are like those of the time.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use spindle_report::outcome::Verdict;

    /// Promise: the calls have the shares of Table 1, and the same figures come out again.
    #[test]
    fn a_few_minutes() {
        let on = Setting::default().in_place_of(&PAPERS).unwrap();
        let [outcome, again] = [(), ()].map(|()| carry_out(&on, 7000, &Silent).unwrap());
        assert_eq!(outcome, again);
        let rows = &outcome.tables[0].rows[..GROUPS.len()];
        assert!(rows.iter().all(|row| row.cells[1].verdict() == Some(Verdict::Held)), "{rows:?}");
    }
}
