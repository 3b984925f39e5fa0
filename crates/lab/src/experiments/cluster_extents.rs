//! How contiguous the allocator lays out files without preallocating (1991 paper, "Allocator
//! details").

use crate::bench::ageing::Ageing;
use crate::bench::process::Process;
use crate::bench::subject::{Disk, Kind, Subject};
use crate::population::Sizes;
use crate::{Error, Outcome, Progress, Result};
use spindle_cache::Settings;
use spindle_clock::ManualClock;
use spindle_device::{Device, MemoryDevice};
use spindle_report::outcome::{Column, Comparison, Evidence, Figure, Note, Plot, Published, Series, Table};
use spindle_vfs::{FileKind, Ino};
use std::sync::Arc;

const SEED: u64 = 1991;
/// A partition that one file of 13 MB fills, and a /home whose last 15 % are 16 MB.
const EMPTY_CYLINDERS: u32 = 43;
const HOME_CYLINDERS: u32 = 340;
const BEST_BYTES: u64 = 13 << 20;
const WORST_BYTES: u64 = 16 << 20;
/// 85 % of all space, of which 10 % are reserved.
const LEVEL: f64 = 0.85 / 0.9;
const BEST_NOTE: Note = Note::new(
    "An extent ends where a cylinder group does or has its inodes; how large these were is not stated. The table below has other \
     sizes.",
    1.0,
    2.5,
);
const WORST_NOTE: Note = Note::new(
    "How long and by whom /home had been used is not stated; the longer, the smaller. Here it is a year; the rows above are of \
     less.",
    0.4,
    1.0,
);
/// Days of use until a /home is "heavily fragmented", and the days between two looks at it.
const DAYS: u32 = 364;
const LOOK: u32 = 28;

fn disk(cylinders: u32) -> Disk {
    Disk { cylinders, ..Disk::IBM_0661 }
}

fn open(kind: &Kind, device: &Arc<dyn Device>) -> Result<Subject> {
    kind.open(device.clone(), Arc::new(ManualClock::at(0)), Settings::default())
}

/// Writes a file of so many bytes, or as many as there is space for, as root, who may use the
/// reserve.
fn write(subject: &Subject, bytes: u64) -> Result<Ino> {
    let clock = ManualClock::at(0);
    let process = Process::new(subject.fs(), &clock, 8192).with_reserve();
    let ino = process.create(subject.fs().root(), "big", FileKind::Regular)?;
    match process.write_all(ino, bytes) {
        Err(Error::FileSystem(spindle_vfs::Error::NoSpace)) => {}
        other => other?,
    }
    subject.fs().sync()?;
    Ok(ino)
}

/// Returns the mean extent of the largest file on a partition of its own, with so many cylinders to
/// a cylinder group; 0 for newfs's own choice.
fn best(cylinders_per_group: u32) -> Result<f64> {
    let Kind::Fast(mut parameters) = Kind::sunos(disk(EMPTY_CYLINDERS), 15, 0) else { return Ok(0.0) };
    parameters.geometry.cpg = Some(cylinders_per_group).filter(|&cpg| cpg > 0);
    let kind = Kind::Fast(parameters);
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(disk(EMPTY_CYLINDERS).bytes()));
    kind.make(&*device)?;
    let subject = open(&kind, &device)?;
    Ok(subject.mean_extent([write(&subject, BEST_BYTES)?])? / 1024.0)
}

/// Returns the mean extents of a file in the last 15 % of a /home over time: days of use and KB.
fn worst(progress: &dyn Progress) -> Result<Vec<(f64, f64)>> {
    let kind = Kind::sunos(disk(HOME_CYLINDERS), 15, 0);
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(disk(HOME_CYLINDERS).bytes()));
    kind.make(&*device)?;
    let subject = open(&kind, &device)?;
    let mut ageing = Ageing::new(SEED, Sizes::Of1993, LEVEL);
    ageing.fill(subject.fs())?;
    let mut over_time = Vec::new();
    for day in 0..=DAYS {
        if day % LOOK == 0 {
            progress.at(day.into(), DAYS.into(), "using /home");
            let file = write(&subject, WORST_BYTES)?;
            over_time.push((f64::from(day), subject.mean_extent([file])? / 1024.0));
            let clock = ManualClock::at(0);
            Process::new(subject.fs(), &clock, 8192).unlink(subject.fs().root(), "big")?;
        }
        ageing.day(subject.fs())?;
    }
    Ok(over_time)
}

/// Runs the experiment.
pub(super) fn run(progress: &dyn Progress) -> Result<Outcome> {
    let over_time = worst(progress)?;
    let after = |days: u32| over_time.iter().find(|p| p.0 >= f64::from(days)).map_or(0.0, |p| p.1);
    let mut table = Table::new("Mean size of extents", ["file", "KB"].map(|name| Column::new(name, 0)));
    let predicted = |paper, ours| Comparison::new(Evidence::Predicted, paper, ours);
    let empty = predicted(Published::amount(1536.0, 102.4), best(0)?);
    table.row(["13 MB on an empty partition".into(), empty.because(BEST_NOTE).into()]);
    for days in [28, 56, 182, DAYS] {
        let found = after(days);
        let name = format!("16 MB in the last 15 % of a /home used for {days} days");
        let compared = || predicted(Published::amount(62.0, 1.0), found).because(WORST_NOTE);
        table.row([name.into(), if days == DAYS { compared().into() } else { found.into() }]);
    }
    let mut groups = Table::new(
        "The file of 13 MB on partitions with other groups",
        ["cylinders in a group", "mean extent, KB"].map(|name| Column::new(name, 0)),
    );
    for cylinders in [4, 8, 16, 32] {
        groups.row([cylinders.to_string().into(), best(cylinders)?.into()]);
    }
    let figure = Figure {
        title: "A file of 16 MB in the last 15 % of a /home".into(),
        plot: Plot::Lines {
            x: "days of use".into(),
            y: "mean extent, KB".into(),
            series: vec![Series { name: "UFS, clusters of 120 KB".into(), points: over_time }],
        },
    };
    let findings = vec![
        "Without preallocation the allocator lays out a file in a few pieces, each as long as a cylinder group lets it be. \
         On a disk that is nearly full it finds runs of several blocks for a year and more, shorter with every month."
            .into(),
    ];
    Ok(Outcome { tables: vec![table, groups], figures: vec![figure], findings })
}
