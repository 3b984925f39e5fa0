//! What use does to the rates of the old and the new file system (1984 paper, sections 2 and 4).

use crate::bench::ageing::Ageing;
use crate::bench::era;
use crate::bench::streaming::{Streamed, Streaming};
use crate::bench::subject::{Disk, Kind};
use crate::population::Sizes;
use crate::{Outcome, Progress, Result};
use spindle_cache::Settings;
use spindle_clock::ManualClock;
use spindle_device::MemoryDevice;
use spindle_report::outcome::{Cell, Column, Comparison, Figure, Plot, Series, Table};
use std::sync::Arc;

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
    kind: &Kind,
    cache: Settings,
    fills_up: bool,
    progress: &mut dyn FnMut(u32),
) -> Result<Life> {
    let store = Arc::new(MemoryDevice::new(Disk::CAPRICORN.bytes()));
    kind.make(&*store)?;
    let streaming = Streaming {
        host: "vax-11-750",
        disk: "capricorn-massbus",
        kind: kind.clone(),
        cache,
        file: FILE,
        request: REQUEST,
    };
    let empty = streaming.measure(&store)?;
    let mut ageing = Ageing::new(SEED, Sizes::Of1984, LEVEL);
    let open = || kind.open(store.clone(), Arc::new(ManualClock::at(0)), Settings::default());
    let subject = open()?;
    ageing.fill(subject.fs())?;
    subject.fs().unmount()?;
    let mut looks = Vec::new();
    let mut day = 0;
    for look in LOOKS {
        let subject = open()?;
        while day < look {
            ageing.day(subject.fs())?;
            day += 1;
            progress(day);
        }
        subject.fs().unmount()?;
        looks.push((look, streaming.measure(&store)?));
    }
    let full = if fills_up {
        let subject = open()?;
        subject.set_reserve(0)?;
        ageing.set_level(FULL_LEVEL);
        for _ in 0..FULL_DAYS {
            ageing.day(subject.fs())?;
        }
        subject.fs().unmount()?;
        Some(Streaming { file: FULL_FILE, ..streaming }.measure(&store)?)
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
pub(super) fn run(progress: &dyn Progress) -> Result<Outcome> {
    let disk = Disk::CAPRICORN;
    let kinds = [
        ("old 1024", Kind::old(disk, Kind::BEST_INTERLEAVE), era::bsd(1024), false),
        ("new 8192/1024", Kind::fast_1984(disk, 8192, 1024, 4), era::bsd(8192), true),
        (
            "new 8192/1024, clusters of 56 KB",
            Kind::fast_clustered(disk, 8192, 1024, 7),
            era::clustered(56 << 10),
            false,
        ),
    ];
    let last = u64::from(LOOKS[LOOKS.len() - 1]);
    let total = last * kinds.len() as u64;
    let mut lives = Vec::new();
    for (n, (name, kind, cache, fills_up)) in kinds.into_iter().enumerate() {
        let before = n as u64 * last;
        lives.push(live(name, &kind, cache, fills_up, &mut |day| {
            progress.at(before + u64::from(day), total, name);
        })?);
    }
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
    Ok(Outcome { tables: vec![compared(&lives), over_time(&lives)], figures, findings: findings() })
}

/// Returns a table of the figures in the paper's text.
fn compared(lives: &[Life]) -> Table {
    let (old, new) = (&lives[0], &lives[1]);
    let mut table = Table::new("What the paper says", ["", "figure"].map(|name| Column::new(name, 2)));
    let mut row = |what: &str, comparison: Comparison| {
        table.row([what.into(), comparison.into()]);
    };
    row("old, just made: reading, KB/s", Comparison::new(175.0, read_kb(&old.empty), 0.15));
    row("old, after weeks of use: reading, KB/s", Comparison::new(30.0, read_kb(old.at(WEEKS)), 0.15));
    let aged = new.at(LOOKS[LOOKS.len() - 1]);
    row(
        "new, after half a year over just made: reading",
        Comparison::new(1.0, read_kb(aged) / read_kb(&new.empty), 0.10),
    );
    row(
        "new, after half a year over just made: writing",
        Comparison::new(1.0, write_kb(aged) / write_kb(&new.empty), 0.10)
            .because("The paper says that rates \"do not appear to change over time\", without figures. At 97 % of what users may have \
                 the place behind a rotational delay is taken more often."),
    );
    if let Some(full) = &new.full {
        row(
            "new, full over with its reserve: reading",
            Comparison::new(0.5, read_kb(full) / read_kb(aged), 0.15)
                .because("The paper says \"about half\", of rates of an unnamed synthetic work load."),
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
