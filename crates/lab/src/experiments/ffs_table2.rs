//! Tables 2a and 2b of the 1984 paper.

use crate::bench::ageing::{Ageing, CLEANED_EVERY, DiskInUse};
use crate::bench::at_once::at_once;
use crate::bench::era;
use crate::bench::machine::Rate;
use crate::bench::media;
use crate::bench::streaming::{Streamed, Streaming};
use crate::bench::subject::{Disk, Kind};
use crate::population::Sizes;
use crate::setting::{Hardware, Papers};
use crate::{Outcome, Progress, Result, Setting};
use spindle_cache::Settings;
use spindle_device::{MemoryDevice, Op};
use spindle_report::outcome::{Cell, Column, Comparison, Evidence, Note, Published, Table};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SEED: u64 = 1984;
/// The part of the disk that is in use when users clean up.
const LEVEL: f64 = 0.97;
/// Days of use before the first measurement, "at least a month", and days from one to the next.
const MONTH: u32 = 30;
const STEP: u32 = 2;
/// Measurements on these days: from one time that users clean up to the next, as rates depend on
/// the day.
const PHASES: u32 = CLEANED_EVERY / STEP;
/// Days on which the old file system, which gets slower with use, is measured again.
const LATER: [u32; 3] = [63, 91, 105];
/// Bytes of the file that is written and read, and bytes of a call.
const FILE: u64 = 8 << 20;
const REQUEST: usize = 8192;
/// Bytes of a request where the rate of a disk is measured.
const LARGE: usize = 1 << 20;

/// How the disk is attached.
struct Bus {
    name: &'static str,
    machine: Papers,
}

const UNIBUS: Bus = Bus { name: "UNIBUS", machine: super::CAPRICORN_UNIBUS };
const MASSBUS: Bus = Bus { name: "MASSBUS", machine: super::CAPRICORN_MASSBUS };

/// A cell of the paper's rates, in KB/s.
struct Speed {
    paper: f64,
    evidence: Evidence,
    note: Option<Note>,
}

const fn speed(paper: f64, evidence: Evidence) -> Speed {
    Speed { paper, evidence, note: None }
}

/// The old file system among [`ROWS`] and [`kinds`].
const OLD: usize = 0;

/// A row of both tables.
struct Row {
    name: &'static str,
    /// The file system: one of those in [`kinds`].
    kind: usize,
    bus: Bus,
    read: Speed,
    write: Speed,
    /// The paper's shares of the processor in percent, reading and writing. The costs of the host
    /// were derived from all of them.
    cpu: [f64; 2],
}

impl Row {
    /// Returns the name: that of the file system, on the paper's disk with that of the bus.
    fn name(&self, setting: &Setting) -> String {
        match setting.disk {
            None => format!("{}, {}", self.name, self.bus.name),
            Some(_) => self.name.into(),
        }
    }
}

/// Returns the rows: on a disk of one's own, which has no two buses, the last of each file system.
fn rows(setting: &Setting) -> Vec<&'static Row> {
    let is_shown =
        |n: usize| setting.disk.is_none() || ROWS[n + 1..].iter().all(|later| later.kind != ROWS[n].kind);
    ROWS.iter().enumerate().filter(|&(n, _)| is_shown(n)).map(|(_, row)| row).collect()
}

fn kinds(disk: Disk) -> [(Kind, Settings); 3] {
    let new = |bsize: u32| (Kind::fast_1984(disk, bsize, 1024, 4), era::bsd42(bsize as usize));
    [(Kind::old_at_its_best(disk), era::bsd41()), new(4096), new(8192)]
}

/// Returns the rate of a disk in bytes per second: of a track, or where these are made up, what
/// large requests get without a file system.
fn disk_rate(on: &Hardware) -> Result<f64> {
    match on.geometry.track_rate() {
        Some(rate) => Ok(rate),
        None => Ok(media::sequential("today", &on.disk, Op::Read, FILE, LARGE)?.bytes_per_second()),
    }
}

const UNIBUS_4096: Note = Note::new(
    "Writing at 142 KB/s leaves the paper's processor idle for 57 % of the time and its disk, which reads the same blocks at 221, \
     for a third: what else writes of 4096 bytes on this controller wait for is not stated, and Berkeley's hints say no more than \
     that most UNIBUS controllers lose revolutions with transfers of 4 to 8 KB. Writing is no slower than reading here, because \
     nothing known makes it so.",
    1.4,
    1.8,
);
const UNIBUS_8192: Note = Note::new("The same unknown wait, which weighs less for larger blocks.", 1.0, 1.3);
const AGE: Note = Note::new(
    "The rates of the old file system fall for months, and depend on the day between two times of cleaning up (table below). That \
     of the paper had been used for \"at least a month\". Seek times are those of another disk.",
    1.0,
    1.8,
);
const IDLE: Note = Note::new(
    "The share follows from the rate: a processor that waits less for the disk works more.",
    1.0,
    1.9,
);

/// The interleave of the UNIBUS controller was derived from the rates at which the new file system
/// reads there. On MASSBUS the processor limits writing, so the rates are those that its costs were
/// derived from.
static ROWS: [Row; 5] = [
    Row {
        name: "old 1024",
        kind: OLD,
        bus: UNIBUS,
        read: Speed { paper: 29.0, evidence: Evidence::HeldOut, note: Some(AGE) },
        write: Speed { paper: 48.0, evidence: Evidence::HeldOut, note: Some(AGE) },
        cpu: [11.0, 29.0],
    },
    Row {
        name: "new 4096/1024",
        kind: 1,
        bus: UNIBUS,
        read: speed(221.0, Evidence::Fitted),
        write: Speed { paper: 142.0, evidence: Evidence::HeldOut, note: Some(UNIBUS_4096) },
        cpu: [43.0, 43.0],
    },
    Row {
        name: "new 8192/1024",
        kind: 2,
        bus: UNIBUS,
        read: speed(233.0, Evidence::Fitted),
        write: Speed { paper: 215.0, evidence: Evidence::HeldOut, note: Some(UNIBUS_8192) },
        cpu: [29.0, 46.0],
    },
    Row {
        name: "new 4096/1024",
        kind: 1,
        bus: MASSBUS,
        read: speed(466.0, Evidence::HeldOut),
        write: speed(323.0, Evidence::Fitted),
        cpu: [73.0, 94.0],
    },
    Row {
        name: "new 8192/1024",
        kind: 2,
        bus: MASSBUS,
        read: speed(466.0, Evidence::HeldOut),
        write: speed(466.0, Evidence::Fitted),
        cpu: [54.0, 95.0],
    },
];

/// The results of a row with their days; those of the phases come first.
type Looks = Vec<(u32, Streamed)>;

/// Returns the results of each row.
fn measured(rows: &[&Row], setting: &Setting, progress: &dyn Progress) -> Result<Vec<Looks>> {
    let disk = setting.in_place_of(&MASSBUS.machine)?.geometry;
    let kinds = kinds(disk);
    let steps = u64::from(PHASES) * kinds.len() as u64 + LATER.len() as u64;
    let done = AtomicU64::new(0);
    let by_kind = at_once(&kinds, |n, (kind, cache)| {
        let store = Arc::new(MemoryDevice::new(disk.bytes()));
        kind.make(&*store)?;
        let mut used = DiskInUse::filled(kind, store, Ageing::new(SEED, Sizes::Of1984, LEVEL))?;
        let later: &[u32] = if n == OLD { &LATER } else { &[] };
        let phases = (0..PHASES).map(|phase| MONTH + phase * STEP);
        let of_kind = (0..rows.len()).filter(|&row| rows[row].kind == n);
        let mut found: Vec<(usize, Looks)> = of_kind.map(|row| (row, Looks::new())).collect();
        for day in phases.chain(later.iter().copied()) {
            progress.at(done.fetch_add(1, Ordering::Relaxed), steps, "a month of use and more");
            let store = used.on_day(day)?;
            for (row, looks) in &mut found {
                let on = setting.in_place_of(&rows[*row].bus.machine)?;
                let (kind, cache) = (kind.clone(), *cache);
                let streaming = Streaming { on, kind, cache, file: FILE, request: REQUEST };
                looks.push((day, streaming.measure(store)?));
            }
        }
        Ok(found)
    })?;
    let mut found: Vec<_> = by_kind.into_iter().flatten().collect();
    found.sort_by_key(|(row, _)| *row);
    Ok(found.into_iter().map(|(_, looks)| looks).collect())
}

/// Returns the results of the phases.
fn phases(looks: &Looks) -> &[(u32, Streamed)] {
    &looks[..PHASES as usize]
}

/// Returns the mean over the phases.
fn mean(looks: &Looks, of: impl Fn(&Streamed) -> f64) -> f64 {
    phases(looks).iter().map(|(_, streamed)| of(streamed)).sum::<f64>() / f64::from(PHASES)
}

/// Runs the experiment.
pub(super) fn run(setting: &Setting, progress: &dyn Progress) -> Result<Outcome> {
    let shown = rows(setting);
    let found = measured(&shown, setting, progress)?;
    let platter = disk_rate(&setting.in_place_of(&MASSBUS.machine)?)?;
    let named: Vec<_> = shown.iter().map(|row| (*row, row.name(setting))).collect();
    let last = found.len() - 1;
    let mut tables = vec![
        rates("Table 2a: reading", &named, &found, platter, 0),
        rates("Table 2b: writing", &named, &found, platter, 1),
        by_day(&found[OLD]),
        shares(&named[last].1, &found[last]),
    ];
    if setting.disk.is_some() {
        for table in &mut tables[..2] {
            table.columns[0].name = "file system".into();
            let means = table.note.take().unwrap_or_default();
            table.explain(format!(
                "{means} The disk's rate is {:.0} KB/s. The paper's old file system was on UNIBUS; of the new ones its \
                 figures on MASSBUS are shown.",
                platter / 1000.0
            ));
        }
    }
    let findings = [
        "The old file system gets 3 to 6 % of the disk's rate when it reads: nearly every block is a seek. The new one gets what \
         its rotational delay leaves, half of it, unless the controller or the processor is slower.",
        "On MASSBUS the processor limits writing: it finds space for twice as many blocks of 4096 bytes as of 8192.",
    ];
    Ok(Outcome { tables, findings: findings.map(String::from).to_vec(), ..Outcome::default() })
}

/// Returns the old file system's rates on each day.
fn by_day(old: &Looks) -> Table {
    let columns = ["day", "reading, KB/s", "writing, KB/s", "reading, % CPU", "writing, % CPU"];
    let mut table = Table::new("The old file system by day of use", columns.map(|name| Column::new(name, 0)));
    for (day, Streamed { read, write, .. }) in old {
        let kb = [read, write].map(|rate| Cell::Number(rate.bytes_per_second() / 1000.0));
        let cpu = [read, write].map(|rate| Cell::Number(rate.percent_busy()));
        table.row([day.to_string().into()].into_iter().chain(kb).chain(cpu));
    }
    table
}

/// Returns one of the tables: reading is 0, writing 1.
fn rates(title: &str, rows: &[(&Row, String)], found: &[Looks], platter: f64, side: usize) -> Table {
    let names = ["file system, bus", "KB/s", "least", "most", "% of the disk's rate", "% CPU"];
    let mut table = Table::new(title, names.map(|name| Column::new(name, 0)));
    for ((row, name), looks) in rows.iter().zip(found) {
        let rate = move |streamed: &Streamed| [streamed.read, streamed.write][side];
        let bytes = move |streamed: &Streamed| rate(streamed).bytes_per_second();
        let kb = phases(looks).iter().map(|(_, streamed)| bytes(streamed) / 1000.0);
        let ours = mean(looks, bytes);
        let Speed { paper, evidence, note } = [&row.read, &row.write][side];
        let compared = Comparison::new(*evidence, Published::amount(*paper, 1.0), ours / 1000.0);
        let busy = mean(looks, |streamed| rate(streamed).percent_busy());
        let cpu = Comparison::new(Evidence::Fitted, Published::amount(row.cpu[side], 1.0), busy);
        let (compared, cpu) = match note {
            Some(note) => (compared.because(note.clone()), cpu.because(IDLE)),
            None => (compared, cpu),
        };
        table.row([
            name.as_str().into(),
            compared.into(),
            kb.clone().fold(f64::INFINITY, f64::min).into(),
            kb.fold(0.0, f64::max).into(),
            (100.0 * ours / platter).into(),
            cpu.into(),
        ]);
    }
    table.explain(format!(
        "Means of the rates on {PHASES} days from day {MONTH} on, {STEP} days apart, from one time that users clean up to the \
         next; the least and the most of them."
    ));
    table
}

/// What the paper says about the processor: copying is about 40 % of an operation, and finding
/// space less than 10 % of a write.
const COPYING: Published = Published::percent(40.0, 10.0);
const ALLOCATING: Published = Published::at_most(10.0);
const CLEARING: Note = Note::new(
    "The costs of the host come from Table 2, whose rows leave 4.5 ms a block for this. It has the clearing of the new block in \
     memory, which is no part of the search for space, and grows with the block.",
    1.0,
    3.2,
);
const WRITES: Note = Note::new(
    "The paper does not say of which operation. Writing has more to do besides copying than reading has.",
    0.6,
    1.0,
);

/// Returns what the processor does for the new file system with blocks of 8 KB.
fn shares(name: &str, looks: &Looks) -> Table {
    let what = format!("{}, % of the processor time", name.trim_start_matches("new "));
    let names = [&what, "reading", "writing"];
    let mut table = Table::new("What the processor does", names.map(|name| Column::new(name, 0)));
    let percent = |of: fn(&Rate) -> f64, side: usize| {
        mean(looks, |streamed| {
            let rate = [streamed.read, streamed.write][side];
            100.0 * of(&rate) / rate.busy.as_secs_f64()
        })
    };
    let held_out = |paper, ours| Comparison::new(Evidence::HeldOut, paper, ours);
    let copying = |side| held_out(COPYING, percent(|rate| rate.copying.as_secs_f64(), side));
    table.row([
        "copying between program and system".into(),
        copying(0).into(),
        copying(1).because(WRITES).into(),
    ]);
    let allocating = held_out(ALLOCATING, percent(|rate| rate.allocating.as_secs_f64(), 1));
    table.row(["finding space".into(), Cell::Empty, allocating.because(CLEARING).into()]);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: on a disk of one's own each file system has one row, without the paper's buses, and
    /// on another host all rows stay.
    #[test]
    fn rows_by_setting() {
        let names = |disk: Option<&str>, host: Option<&str>| -> Vec<String> {
            let setting = Setting { disk: disk.map(str::to_owned), host: host.map(str::to_owned) };
            rows(&setting).iter().map(|row| row.name(&setting)).collect()
        };
        assert_eq!(names(Some("nvme"), None), ["old 1024", "new 4096/1024", "new 8192/1024"]);
        assert_eq!(names(None, Some("today")), names(None, None));
        assert_eq!(names(None, None)[4], "new 8192/1024, MASSBUS");
    }

    /// Promise: the rate of a disk is that of its tracks, or what it delivers where these are not
    /// known.
    #[test]
    fn rates_of_disks() {
        let rate = |disk: &str| {
            let setting = Setting { disk: Some(disk.into()), host: None };
            disk_rate(&setting.in_place_of(&MASSBUS.machine).unwrap()).unwrap() / 1e6
        };
        for (disk, expected) in [("capricorn-unibus", 0.983_04), ("super-eagle", 1.966_08)] {
            assert!((rate(disk) - expected).abs() < 1e-9, "{disk}: {}", rate(disk));
        }
        let [nearline, nvme] = [rate("nearline-20tb"), rate("nvme")];
        assert!((200.0..=300.0).contains(&nearline) && nvme > 1500.0, "{nearline} {nvme}");
    }
}
