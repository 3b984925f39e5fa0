//! Section 4.5 of the paper on the multi-structured file system: the time of an append to the log,
//! by how the log lies on its disks, and what compaction saves.

use crate::bench::log_set::{LogDisks, LogSet};
use crate::bench::process::Process;
use crate::bench::storage::PAPERS;
use crate::{Error, Outcome, Progress, Result, Setting};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_cache::Settings;
use spindle_clock::{Clock, Work};
use spindle_mfs::{LogUnits, Mfs};
use spindle_report::outcome::{Column, Comparison, Evidence, Published, Table};
use spindle_sim::Time;
use spindle_vfs::{FileKind, FileSystem, Ino, Privilege, SetAttr};
use std::time::Duration;

const SEED: u64 = 1991;
/// Bytes of a track of every disk here.
const TRACK: u32 = 32 << 10;
/// Bytes of a place of a record.
const PLACE: u32 = 8192;
/// Bytes of a disk of the log, as in the other experiments.
const LOG_BYTES: u64 = 42 * 20 * TRACK as u64;
/// Kinds of disk: heads, name.
const DISKS: [(u32, &str); 2] = [(20, "Super Eagle"), (2, "one platter of it")];
/// Headers that an append has, and its bytes: a sector for each, and the addresses.
const APPENDS: [(usize, &str); 3] = [(1, "1 KB"), (6, "3.5 KB"), (120, "64 KB")];
/// Kinds of append: of each size, at once and after a pause.
const KINDS: f64 = 2.0 * 3.0;
/// Mean pause between two appends that do not follow each other at once, in milliseconds.
const PAUSE: f64 = 50.0;
const USER: Privilege = Privilege::User;

/// How a log lies on its disks.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    disks: usize,
    units: LogUnits,
    moves_ahead: bool,
}

/// A track each in turns, as in the paper; a place each; and a track each with places, as sets are
/// made.
const TRACKS: LogUnits = LogUnits { unit_bytes: TRACK, record_bytes: 0 };
const PLACES: LogUnits = LogUnits { unit_bytes: PLACE, record_bytes: PLACE };
const BOTH: LogUnits = LogUnits { unit_bytes: TRACK, record_bytes: PLACE };

const fn way(name: &'static str, disks: usize, units: LogUnits, moves_ahead: bool) -> Way {
    Way { name, disks, units, moves_ahead }
}

const WAYS: [Way; 7] = [
    way("1 disk, records without gaps", 1, LogUnits::STRIPED, false),
    way("1 disk, places of 8 KB", 1, BOTH, true),
    way("2 disks, striped", 2, LogUnits::STRIPED, false),
    way("2 disks, a track each in turns (paper)", 2, TRACKS, true),
    way("2 disks, a place each in turns", 2, PLACES, true),
    way("2 disks, a track each, places of 8 KB", 2, BOTH, true),
    way("3 disks, the same", 3, BOTH, true),
];
/// The paper's way among [`WAYS`], and that of a set.
const PAPER: usize = 3;
const OURS: usize = 5;
/// Uses of control storage that take a log round several times: name, files that there are, files
/// that a step changes and files that it makes, both before it is made durable.
const USES: [(&str, usize, usize, usize); 3] = [
    ("any 6 of 600 files changed", 600, 6, 0),
    ("any 6 of 6000 files changed", 6000, 6, 0),
    ("20 files made", 20, 0, 20),
];
/// Bytes of each of the two disks of the log then.
const SMALL_LOG_BYTES: u64 = 8 * 20 * TRACK as u64;

/// How much is done.
struct Scale {
    /// Appends of each kind.
    appends: u32,
    /// Steps of a use; a quarter of them if files are made.
    steps: u32,
}

const FULL: Scale = Scale { appends: 150, steps: 2400 };

/// Runs the experiment.
pub(super) fn run(setting: &Setting, progress: &dyn Progress) -> Result<Outcome> {
    carry_out(&setting.in_place_of(&PAPERS)?.host, &FULL, progress)
}

fn carry_out(host: &str, scale: &Scale, progress: &dyn Progress) -> Result<Outcome> {
    let steps = (DISKS.len() * WAYS.len()) as u64;
    let mut tables = vec![condition()?];
    for (n, (heads, name)) in DISKS.into_iter().enumerate() {
        let mut table = Table::new(format!("Append to a log on disks like {name}, ms"), appends_columns());
        for (m, way) in WAYS.into_iter().enumerate() {
            progress.at((n * WAYS.len() + m) as u64, steps, name);
            let mut cells = vec![way.name.into()];
            let mut seek = 0.0;
            for pause in [None, Some(PAUSE)] {
                for (headers, _) in APPENDS {
                    let found = appends(host, way, heads, headers, pause, scale.appends)?;
                    cells.push(found.mean.into());
                    seek += found.seek / KINDS;
                }
            }
            cells.push(if m == PAPER || m == OURS {
                Comparison::new(Evidence::Predicted, Published::at_most(0.0), seek).into()
            } else {
                seek.into()
            });
            table.row(cells);
        }
        tables.push(table);
    }
    tables.push(compaction(host, scale)?);
    Ok(Outcome { tables, findings: FINDINGS.map(String::from).to_vec(), ..Outcome::default() })
}

/// Returns what the same uses cost when a log that is half full is emptied by a checkpoint, and
/// when it is compacted.
fn compaction(host: &str, scale: &Scale) -> Result<Table> {
    let names = ["use", "made durable, s", "longest, ms", "writes to control storage"];
    let mut table = Table::new(
        "A log that goes round: checkpoints, and compaction",
        names.map(|name| Column::new(name, usize::from(name.ends_with(" s")))),
    );
    for (name, files, changed, made) in USES {
        for (way, compaction) in [("checkpoints", false), ("compaction", true)] {
            let used = uses(host, (files, changed, made), scale.steps, compaction)?;
            let [spent, longest] = [used.spent.as_secs_f64(), used.longest.as_secs_f64() * 1000.0];
            let what = format!("{name}, {way}");
            table.row([what.into(), spent.into(), longest.into(), f64::from(used.writes).into()]);
        }
    }
    Ok(table)
}

/// What was made durable.
struct Used {
    /// Time in all, and the longest of one step.
    spent: Duration,
    longest: Duration,
    /// Writes of control storage.
    writes: u32,
}

/// Has so many files, changes or makes some in each step, and makes that durable.
fn uses(
    host: &str,
    (count, changed, made): (usize, usize, usize),
    steps: u32,
    compaction: bool,
) -> Result<Used> {
    let log = LogDisks { bytes: SMALL_LOG_BYTES, ..disks(WAYS[OURS], DISKS[0].0) };
    let set = LogSet::make(host, log)?;
    let control = set.machine.drives[0].clone();
    set.machine.clone().run(move |machine| {
        let clock = &*machine.clock;
        let fs = set.open(Settings { compaction, ..Settings::default() })?;
        let files = files(&fs, clock, count)?;
        let process = Process::new(&*fs, clock, 0);
        let mut random = StdRng::seed_from_u64(SEED);
        let mut used = Used { spent: Duration::ZERO, longest: Duration::ZERO, writes: 0 };
        let before = control.tally().writes;
        let steps = if made > 0 { steps / 4 } else { steps };
        for step in 0..steps {
            let some: Vec<_> = (0..changed).map(|_| files[random.random_range(0..count)]).collect();
            change(&*fs, clock, &some, random.random_range(0..2))?;
            for n in 0..made {
                process.create(fs.root(), &format!("new{step}.{n}"), FileKind::Regular)?;
            }
            let start = clock.monotonic();
            fs.sync()?;
            let time = clock.monotonic().saturating_sub(start);
            used.spent += time;
            used.longest = used.longest.max(time);
        }
        used.writes = u32::try_from(control.tally().writes - before).unwrap_or(u32::MAX);
        Ok(used)
    })
}

fn appends_columns() -> Vec<Column> {
    let mut columns = vec![Column::new("log", 0)];
    for pause in ["at once", "after a pause"] {
        columns.extend(APPENDS.map(|(_, bytes)| Column::new(format!("{bytes} {pause}"), 1)));
    }
    columns.push(Column::new("of it seeks", 2));
    columns
}

/// Returns the paper's condition: other disks are written at least as long as one seeks.
fn condition() -> Result<Table> {
    let columns = ["disks, unit", "others are written, ms", "seek to the next cylinder, ms", "covered"];
    let mut table = Table::new("The condition of section 4.5", columns.map(|name| Column::new(name, 1)));
    for (heads, name) in DISKS {
        for (way, unit) in [("a track", TRACK), ("a place of 8 KB", PLACE)] {
            for count in [2_u32, 3] {
                let disk = disks(WAYS[PAPER], heads).model()?;
                let still = || Error::Contradiction("a disk of the log that does not turn".into());
                let (turn, seek) = (disk.revolution().ok_or_else(still)?, disk.seek(1).ok_or_else(still)?);
                let written = ms(turn) * f64::from(count - 1) * f64::from(unit) / f64::from(TRACK);
                let is_covered = if written >= ms(seek) { "yes" } else { "no" };
                let what = format!("{count} × {name}, {way}");
                table.row([what.into(), written.into(), ms(seek).into(), is_covered.into()]);
            }
        }
    }
    Ok(table)
}

fn ms(time: Time) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn disks(way: Way, heads: u32) -> LogDisks {
    let Way { disks: count, units, moves_ahead, .. } = way;
    LogDisks { heads, count, bytes: LOG_BYTES, units, moves_ahead }
}

/// What appends have cost.
#[derive(Clone, Copy)]
struct Appended {
    /// Mean time of one, in milliseconds.
    mean: f64,
    /// The part of it in which heads were moved.
    seek: f64,
}

/// Changes so many headers and makes that durable, again and again, and returns what the last of
/// these steps cost, which is an append.
fn appends(
    host: &str,
    way: Way,
    heads: u32,
    headers: usize,
    pause: Option<f64>,
    count: u32,
) -> Result<Appended> {
    let set = LogSet::make(host, disks(way, heads))?;
    let log = set.machine.drives[2..].to_vec();
    set.machine.clone().run(move |machine| {
        let fs = set.open(Settings::default())?;
        let files = files(&fs, &*machine.clock, headers)?;
        let mut random = StdRng::seed_from_u64(SEED);
        let seeks = || log.iter().map(|drive| ms(drive.tally().seek)).sum::<f64>();
        let (mut spent, before) = (Duration::ZERO, seeks());
        for n in 0..count {
            if let Some(mean) = pause {
                machine.clock.sleep(Duration::from_secs_f64(random.random_range(0.0..2.0 * mean) / 1000.0));
            }
            change(&*fs, &*machine.clock, &files, n)?;
            let start = machine.clock.monotonic();
            fs.sync()?;
            spent += machine.clock.monotonic().saturating_sub(start);
        }
        let each = |sum: f64| sum / f64::from(count);
        Ok(Appended { mean: each(spent.as_secs_f64() * 1000.0), seek: each(seeks() - before) })
    })
}

/// Makes files, and writes their headers to their places.
fn files(fs: &Mfs, clock: &dyn Clock, count: usize) -> Result<Vec<Ino>> {
    let process = Process::new(fs, clock, 0);
    let make = |n: usize| process.create(fs.root(), &format!("file{n}"), FileKind::Regular);
    let files = (0..count).map(make).collect::<Result<Vec<_>>>()?;
    fs.sync()?;
    Ok(files)
}

/// Changes the permissions of all files, which changes a sector for each.
fn change(fs: &dyn FileSystem, clock: &dyn Clock, files: &[Ino], n: u32) -> Result<()> {
    let set = SetAttr { perm: Some(if n.is_multiple_of(2) { 0o600 } else { 0o644 }), ..SetAttr::default() };
    for &ino in files {
        clock.work(Work::Call);
        fs.setattr(ino, &set, USER)?;
    }
    Ok(())
}

const FINDINGS: [&str; 4] = [
    "The paper's claim holds: with heads moved ahead no append waits for a seek. But seeks are rare, because addresses go through \
     all tracks of a cylinder first: on two striped disks they take 0.2 ms of an append on average, and 1.7 ms on disks with one \
     platter, most of it of large ones.",
    "What an append waits for is the platter. The first sector of a record that follows at once has just passed the head, so it \
     waits for a whole revolution; a gap after each record gives the host the time until the next place comes round. After a pause \
     it is half a revolution in any case; the paper counts on track buffers in the controllers for that.",
    "The paper's order of tracks, outwards on one side of the platters and back on the other, would save one long seek each \
     time the log has gone round: 9 ms in 53 MB here, so addresses simply go on from the last cylinder to the first.",
    "Compaction leaves control storage alone while little of what the log has is still needed, and the longest wait is shorter; \
     when more than a quarter of the log is needed, everything is written to its place.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use spindle_report::outcome::{Cell, Verdict};

    fn number(cell: &Cell) -> f64 {
        match cell {
            Cell::Number(number) => *number,
            other => panic!("{other:?}"),
        }
    }

    /// Promise: with few appends, too, heads that were moved ahead spend no time of an append,
    /// places shorten appends that follow at once, and the same figures come out again.
    #[test]
    fn a_few_appends() {
        let scale = Scale { appends: 12, steps: 40 };
        let [outcome, again] = [(), ()].map(|()| carry_out(PAPERS.host, &scale, &Silent).unwrap());
        assert_eq!(outcome, again);
        for table in &outcome.tables[1..=DISKS.len()] {
            for way in [PAPER, OURS] {
                let row = &table.rows[way];
                assert_eq!(row.cells.last().and_then(Cell::verdict), Some(Verdict::Held));
            }
            let at_once = |way: usize| number(&table.rows[way].cells[1]);
            assert!(at_once(OURS) < 0.7 * at_once(PAPER), "{table:?}");
        }
    }
}
