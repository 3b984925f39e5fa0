//! Disk accesses for inodes when a large directory is listed (1984 paper, section 4).

use crate::bench::ageing::Ageing;
use crate::bench::process::Process;
use crate::bench::subject::{Disk, Kind};
use crate::bench::tap::Tap;
use crate::population::Sizes;
use crate::{Outcome, Progress, Result};
use spindle_cache::Settings;
use spindle_clock::ManualClock;
use spindle_device::{Device, MemoryDevice, Op};
use spindle_report::outcome::{Cell, Column, Comparison, Evidence, Note, Published, Table};
use spindle_vfs::{FileKind, Ino};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SEED: u64 = 1984;
/// The 150 megabytes of the paper's example of a file system (section 2), on the disk of its
/// measurements.
const DISK: Disk = Disk { cylinders: 572, ..Disk::CAPRICORN };
/// Entries of the directories that are listed; the old file system counts no more than 127 names of
/// a directory.
const ENTRIES: u32 = 120;
/// Days of use.
const DAYS: u32 = 30;
const LEVEL: f64 = 0.75;
/// The buffers of a VAX of the time in bytes.
const CACHE: usize = 400 << 10;
/// What the paper says disk accesses are cut by, for directories and files.
const PAPER: [Published; 2] = [Published::ratio(2.0, 1.0), Published::ratio(8.0, 1.0)];
const UNKNOWN: &str = "The paper says neither how many entries were listed, nor the block size, nor how much memory buffers had.";
const NOTES: [Note; 2] = [Note::new(UNKNOWN, 0.6, 1.0), Note::new(UNKNOWN, 0.8, 2.6)];

/// The days on which the entries are made.
#[derive(Clone, Copy, Debug)]
enum History {
    /// All on the last day.
    AtOnce,
    /// An equal part on each day.
    OverAMonth,
}

impl History {
    const ALL: [(Self, &str); 2] = [(Self::AtOnce, "made at once"), (Self::OverAMonth, "made over a month")];

    /// Returns the entries made on a day.
    const fn on(self, day: u32) -> u32 {
        match self {
            Self::AtOnce if day + 1 == DAYS => ENTRIES,
            Self::AtOnce => 0,
            Self::OverAMonth => ENTRIES / DAYS,
        }
    }
}

/// Counts the accesses to inodes for the list of a directory of directories and of one of files,
/// for each history.
fn accesses(kind: &Kind, progress: &mut dyn FnMut(u32)) -> Result<Vec<[u64; 2]>> {
    let device = Arc::new(MemoryDevice::new(DISK.bytes()));
    kind.make(&*device)?;
    let clock = Arc::new(ManualClock::at(0));
    let subject = kind.open(device.clone(), clock.clone(), Settings::default())?;
    let mut ageing = Ageing::new(SEED, Sizes::Of1984, LEVEL);
    ageing.fill(subject.fs())?;
    let process = Process::new(subject.fs(), &*clock, 1024).with_reserve();
    let mut large = Vec::new();
    for (n, (history, _)) in History::ALL.into_iter().enumerate() {
        for (kind, name) in [(FileKind::Directory, "dirs"), (FileKind::Regular, "files")] {
            let dir = process.create(subject.fs().root(), &format!("{name}{n}"), FileKind::Directory)?;
            large.push((dir, kind, history));
        }
    }
    for day in 0..DAYS {
        progress(day);
        for &(dir, kind, history) in &large {
            for n in 0..history.on(day) {
                process.create(dir, &format!("e{day}.{n}"), kind)?;
            }
        }
        ageing.day(subject.fs())?;
    }
    subject.fs().unmount()?;
    let counts =
        large.chunks(2).map(|pair| Ok([list(kind, &device, pair[0].0)?, list(kind, &device, pair[1].0)?]));
    counts.collect()
}

/// Lists a directory with all attributes on a file system opened for that, and returns the number
/// of accesses to inodes.
fn list(kind: &Kind, device: &MemoryDevice, dir: Ino) -> Result<u64> {
    let clock = Arc::new(ManualClock::at(0));
    let fork: Arc<dyn Device> = Arc::new(device.branch());
    let settings = Settings { capacity_bytes: CACHE, ..Settings::default() };
    let areas = kind.open(fork.clone(), clock.clone(), settings)?.inode_areas();
    let reads = Arc::new(AtomicU64::new(0));
    let counted = reads.clone();
    let tap = Tap::new(fork, move |op, offset, _| {
        if op == Op::Read && areas.iter().any(|area| area.contains(&offset)) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let subject = kind.open(Arc::new(tap), clock, settings)?;
    let fs = subject.fs();
    fs.getattr(dir)?;
    reads.store(0, Ordering::Relaxed);
    let mut entries = Vec::new();
    fs.readdir(dir, 0, &mut |entry| {
        entries.push(entry.ino);
        ControlFlow::Continue(())
    })?;
    for ino in entries {
        fs.getattr(ino)?;
    }
    Ok(reads.load(Ordering::Relaxed))
}

/// Runs the experiment.
#[allow(clippy::cast_precision_loss)] // Hundreds.
pub(super) fn run(progress: &dyn Progress) -> Result<Outcome> {
    let kinds = [
        ("old 1024", Kind::old(DISK, 3)),
        ("new 4096/1024", Kind::fast_1984(DISK, 4096, 1024, 4)),
        ("new 8192/1024", Kind::fast_1984(DISK, 8192, 1024, 4)),
    ];
    let total = u64::from(DAYS) * kinds.len() as u64;
    let mut found = Vec::new();
    for (n, (name, kind)) in kinds.iter().enumerate() {
        let done = n as u64 * u64::from(DAYS);
        found.push(accesses(kind, &mut |day| progress.at(done + u64::from(day), total, name))?);
    }
    let mut accesses = Table::new(
        format!("Disk accesses for inodes, listing a directory of {ENTRIES} entries"),
        ["entries", "file system", "directories", "files"].map(|name| Column::new(name, 0)),
    );
    let mut cut = Table::new(
        "Cut by, against the old file system, entries made over a month",
        ["file system", "directories", "files"].map(|name| Column::new(name, 1)),
    );
    for (h, (how, history)) in History::ALL.into_iter().enumerate() {
        let old = found[0][h];
        for (n, (name, _)) in kinds.iter().enumerate() {
            let counts = found[n][h];
            let cells = counts.map(|count| Cell::Number(count as f64));
            accesses.row([history.into(), (*name).into()].into_iter().chain(cells));
            if n > 0 && matches!(how, History::OverAMonth) {
                let factors = [0, 1].map(|i| old[i] as f64 / counts[i] as f64);
                let compared = |i: usize| Comparison::new(Evidence::Predicted, PAPER[i], factors[i]);
                let cells = [0, 1].map(|i| compared(i).because(NOTES[i].clone()).into());
                cut.row([(*name).into()].into_iter().chain(cells));
            }
        }
    }
    let findings = [
        "After a month the free inodes of the old file system lie everywhere, and nearly each entry is an access. New \
         inodes stand in their directory's group, 32 or 64 to a block; directories are spread over the groups on purpose, \
         so that listing them gains less.",
        "Entries made at once are neighbours in the old file system too, which fetches a hundred free inodes at a time: \
         what the paper measures is what use does.",
    ];
    let findings = findings.map(String::from).to_vec();
    Ok(Outcome { tables: vec![cut, accesses], findings, ..Outcome::default() })
}
