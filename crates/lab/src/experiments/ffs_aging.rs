//! What use does to the rates of the old and the new file system (1984 paper, sections 2 and 4).

use crate::bench::ageing::{Ageing, DiskInUse};
use crate::bench::at_once::at_once;
use crate::bench::era;
use crate::bench::streaming::{Streamed, Streaming};
use crate::bench::subject::Kind;
use crate::population::Sizes;
use crate::setting::Hardware;
use crate::{Outcome, Progress, Result, Setting};
use spindle_cache::Settings;
use spindle_device::MemoryDevice;
use spindle_report::outcome::{
    Cell, Column, Comparison, Evidence, Figure, Note, Plot, Published, Series, Table,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SEED: u64 = 1984;
/// Part of the space for users that is in use every two weeks, when users clean up.
const LEVEL: f64 = 0.97;
/// Bytes of the measured file, and of a call.
const FILE: u64 = 6 << 20;
const REQUEST: usize = 8192;
/// Days of use after which is measured, always half-way between two cleanings; half a year.
const LOOKS: [u32; 10] = [0, 7, 21, 35, 49, 63, 91, 119, 147, 175];
/// "A few weeks of moderate use": the look that is compared with the paper.
const WEEKS: u32 = 35;
/// Days of use of a file system without a reserve, up to just before a cleaning, and the bytes that
/// still fit.
const FULL_DAYS: u32 = 49;
const FULL_LEVEL: f64 = 0.985;
const FULL_FILE: u64 = 1 << 20;
/// "Do not appear to change over time."
const UNCHANGED: Published = Published::ratio(1.0, 0.1);
const FULLER: Note = Note::new(
    "The paper says that rates \"do not appear to change over time\", without figures. At 97 % of what users may have the place \
     behind a rotational delay is taken more often.",
    0.8,
    1.0,
);
const OTHER_DISKS: Note = Note::new("The paper quotes others, who measured other disks.", 0.75, 1.0);
const HALF: Note =
    Note::new("The paper says \"about half\", of rates of an unnamed synthetic work load.", 1.4, 1.9);

/// A file system, and its rates over time.
struct Life {
    name: &'static str,
    empty: Streamed,
    looks: Vec<(u32, Streamed)>,
    full: Option<Streamed>,
}

/// Simulates the use of a file system, and measures it on some days.
fn live(
    name: &'static str,
    on: &Hardware,
    (kind, cache): (&Kind, Settings),
    days: &[u32],
    fills_up: bool,
    progress: &dyn Fn(),
) -> Result<Life> {
    let store = Arc::new(MemoryDevice::new(on.geometry.bytes()));
    kind.make(&*store)?;
    let streaming = Streaming { on: on.clone(), kind: kind.clone(), cache, file: FILE, request: REQUEST };
    let empty = streaming.measure(&store)?;
    let mut disk = DiskInUse::filled(kind, store, Ageing::new(SEED, Sizes::Of1984, LEVEL))?;
    let mut looks = Vec::new();
    for &day in days {
        progress();
        looks.push((day, streaming.measure(disk.on_day(day)?)?));
    }
    let full = if fills_up {
        let disk = disk.without_reserve(FULL_LEVEL, FULL_DAYS)?;
        Some(Streaming { file: FULL_FILE, ..streaming }.measure(disk)?)
    } else {
        None
    };
    Ok(Life { name, empty, looks, full })
}

fn read_kb(found: &Streamed) -> f64 {
    found.read.bytes_per_second() / 1e3
}

fn write_kb(found: &Streamed) -> f64 {
    found.write.bytes_per_second() / 1e3
}

impl Life {
    fn at(&self, day: u32) -> &Streamed {
        self.looks.iter().find(|look| look.0 == day).map_or(&self.empty, |look| &look.1)
    }

    fn series(&self, of: fn(&Streamed) -> f64) -> Series {
        let points = self.looks.iter().map(|(day, found)| (f64::from(*day), of(found)));
        Series { name: self.name.into(), points: points.collect() }
    }
}

/// Runs the experiment.
pub(super) fn run(setting: &Setting, progress: &dyn Progress) -> Result<Outcome> {
    let on = setting.in_place_of(&super::CAPRICORN_MASSBUS)?;
    let disk = on.geometry;
    let fast = |bsize| Kind::fast_1984(disk, bsize, 1024, 4);
    let clustered = Kind::fast_clustered(disk, 8192, 1024, 7);
    let weeks = LOOKS.iter().position(|&day| day == WEEKS).map_or(0, |n| n + 1);
    let all = LOOKS.as_slice();
    let kinds = [
        ("old 1024", Kind::old_at_its_best(disk), era::bsd41(), all, false),
        ("new 8192/1024", fast(8192), era::bsd42(8192), all, true),
        ("new 8192/1024, clusters of 56 KB", clustered, era::clustered(56 << 10), all, false),
        ("original 512", Kind::original(disk), era::v32(), &all[..weeks], false),
    ];
    let total = kinds.iter().map(|(_, _, _, days, _)| days.len() as u64).sum();
    let done = AtomicU64::new(0);
    let lives = at_once(&kinds, |_, (name, kind, cache, days, fills_up)| {
        live(name, &on, (kind, *cache), days, *fills_up, &|| {
            progress.at(done.fetch_add(1, Ordering::Relaxed), total, name);
        })
    })?;
    let figure = |title: &str, y: &str, of: fn(&Streamed) -> f64| Figure {
        title: title.into(),
        plot: Plot::Lines {
            x: "days of use".into(),
            y: y.into(),
            series: lives.iter().map(|life| life.series(of)).collect(),
        },
    };
    let figures = vec![
        figure("Reading a large file that was written after so many days of use", "KB/s", read_kb),
        figure("Writing it", "KB/s", write_kb),
        figure("Contiguity of that file", "mean extent, KB", |found| found.extent / 1024.0),
    ];
    Ok(Outcome { tables: vec![compared(setting, &lives), over_time(&lives)], figures, findings: findings() })
}

/// Returns a table of the figures in the paper's text.
fn compared(setting: &Setting, lives: &[Life]) -> Table {
    let (old, new, original) = (&lives[0], &lives[1], &lives[3]);
    let mut table = Table::new("What the paper says", ["", "figure"].map(|name| Column::new(name, 2)));
    let mut row = |what: &str, comparison: Comparison| {
        table.row([what.into(), comparison.into()]);
    };
    let predicted = |paper, ours| Comparison::new(Evidence::Predicted, paper, ours);
    row(
        match setting.disk {
            None => "original 512, after weeks of use: reading, KB/s (2 % of the disk's rate)",
            Some(_) => "original 512, after weeks of use: reading, KB/s",
        },
        predicted(Published::amount(20.0, 1.0), read_kb(original.at(WEEKS))).because(OTHER_DISKS),
    );
    row("old, just made: reading, KB/s", predicted(Published::amount(175.0, 1.0), read_kb(&old.empty)));
    row(
        "old, after weeks of use: reading, KB/s",
        predicted(Published::amount(30.0, 1.0), read_kb(old.at(WEEKS))),
    );
    let aged = new.at(LOOKS[LOOKS.len() - 1]);
    row(
        "new, after half a year over just made: reading",
        predicted(UNCHANGED, read_kb(aged) / read_kb(&new.empty)),
    );
    row(
        "new, after half a year over just made: writing",
        predicted(UNCHANGED, write_kb(aged) / write_kb(&new.empty)).because(FULLER),
    );
    if let Some(full) = &new.full {
        row(
            "new, full over with its reserve: reading",
            predicted(Published::ratio(0.5, 0.1), read_kb(full) / read_kb(aged)).because(HALF),
        );
    }
    table
}

fn over_time(lives: &[Life]) -> Table {
    let columns = ["file system", "days", "reading, KB/s", "writing, KB/s", "mean extent, KB"];
    let mut table = Table::new("Over time", columns.map(|name| Column::new(name, 0)));
    for life in lives {
        let mut row = |days: Cell, found: &Streamed| {
            let cells = [read_kb(found), write_kb(found), found.extent / 1024.0].map(Cell::Number);
            table.row([life.name.into(), days].into_iter().chain(cells));
        };
        row("just made".into(), &life.empty);
        for (day, found) in &life.looks {
            row(day.to_string().into(), found);
        }
        if let Some(full) = &life.full {
            row("full".into(), full);
        }
    }
    table
}

fn findings() -> Vec<String> {
    let findings = [
        "The free list of the old file system starts in the order of the disk and ends in the order in which files went: every \
         block of a new file is a seek. Dump and restore would be the only cure.",
        "The new file system keeps its rate, because it looks for space near the block before; a rotational delay needs no \
         more than one free block at a time.",
        "Clusters need more: several free blocks in a row. At the level of these disks (up to 97 % of what users may have, a \
         reserve of 10 %, twelve sessions of cleaning up) these get rarer with use. The rates stay above those of single \
         blocks, but the gain halves.",
    ];
    findings.map(String::from).to_vec()
}
