//! Tables 2a and 2b of the 1984 paper.

use crate::bench::ageing::aged;
use crate::bench::era;
use crate::bench::streaming::Streaming;
use crate::bench::subject::{Disk, Kind};
use crate::population::Sizes;
use crate::{Outcome, Progress, Result};
use spindle_report::outcome::{Column, Comparison, Table};

const SEED: u64 = 1984;
/// Days of use, and the part of the disk that is in use.
const DAYS: u32 = 91;
const LEVEL: f64 = 0.97;
/// Bytes of the file that is written and read, and bytes of a call.
const FILE: u64 = 8 << 20;
const REQUEST: usize = 8192;
/// The disk's rate in bytes per second: 32 sectors of 512 bytes, 60 times a second.
const PLATTER: f64 = 983_040.0;

/// How the disk is attached: presets of host and disk.
type Bus = (&'static str, &'static str);
const UNIBUS: Bus = ("vax-11-750", "capricorn-unibus");
const MASSBUS: Bus = ("vax-11-750", "capricorn-massbus");

/// A row of both tables.
struct Row {
    name: &'static str,
    /// The file system: one of those in [`kinds`].
    kind: usize,
    bus: Bus,
    /// The paper's rate in KB/s and share of the processor in percent.
    read: (f64, f64),
    write: (f64, f64),
    /// What the paper leaves unknown of writing.
    note: Option<&'static str>,
}

fn kinds() -> [(Kind, usize); 3] {
    let new = |bsize: u32| (Kind::fast_1984(Disk::CAPRICORN, bsize, 1024, 4), bsize as usize);
    [(Kind::old(Disk::CAPRICORN, Kind::BEST_INTERLEAVE), 1024), new(4096), new(8192)]
}

const OLD_NOTE: &str = "The paper gives neither the seek times of this disk nor the age and the level of the old file system. Those of \
    another disk stand in, after three months of use; how far the sorted queue shortens the seeks of writing follows from them. It \
    still writes faster than it reads, for the reason that the paper gives.";
const UNIBUS_4096: &str = "Writing at 142 KB/s leaves the paper's processor idle for 57 % of the time and its disk, which reads the same \
    blocks at 221, for a third: what else writes of 4096 bytes on this controller wait for is not stated, and Berkeley's hints \
    say no more than that most UNIBUS controllers lose revolutions with transfers of 4 to 8 KB. Writing is no slower than \
    reading here, because nothing known makes it so.";
const FACTORS_NOTE: &str =
    "What is unknown of the old file system's writes and of UNIBUS (tables above) is in these ratios.";
const UNIBUS_8192: &str = "The same unknown wait, which weighs less for larger blocks.";

const ROWS: [Row; 5] = [
    Row {
        name: "old 1024, UNIBUS",
        kind: 0,
        bus: UNIBUS,
        read: (29.0, 11.0),
        write: (48.0, 29.0),
        note: Some(OLD_NOTE),
    },
    Row {
        name: "new 4096/1024, UNIBUS",
        kind: 1,
        bus: UNIBUS,
        read: (221.0, 43.0),
        write: (142.0, 43.0),
        note: Some(UNIBUS_4096),
    },
    Row {
        name: "new 8192/1024, UNIBUS",
        kind: 2,
        bus: UNIBUS,
        read: (233.0, 29.0),
        write: (215.0, 46.0),
        note: Some(UNIBUS_8192),
    },
    Row {
        name: "new 4096/1024, MASSBUS",
        kind: 1,
        bus: MASSBUS,
        read: (466.0, 73.0),
        write: (323.0, 94.0),
        note: None,
    },
    Row {
        name: "new 8192/1024, MASSBUS",
        kind: 2,
        bus: MASSBUS,
        read: (466.0, 54.0),
        write: (466.0, 95.0),
        note: None,
    },
];

/// Runs the experiment.
pub(super) fn run(progress: &dyn Progress) -> Result<Outcome> {
    let columns =
        || ["file system, bus", "KB/s", "% of the disk's rate", "% CPU"].map(|name| Column::new(name, 0));
    let mut tables = [("Table 2a: reading", true), ("Table 2b: writing", false)]
        .map(|(title, reading)| (Table::new(title, columns()), reading));
    let kinds = kinds();
    let steps = (kinds.len() + ROWS.len()) as u64;
    let (mut stores, mut ratios) = (Vec::new(), Vec::new());
    for (n, (kind, _)) in kinds.iter().enumerate() {
        progress.at(n as u64, steps, "months of use");
        stores.push(aged(kind, Disk::CAPRICORN, SEED, Sizes::Of1984, LEVEL, DAYS)?);
    }
    for (n, row) in ROWS.iter().enumerate() {
        progress.at((kinds.len() + n) as u64, steps, row.name);
        let (kind, bsize) = &kinds[row.kind];
        let (host, disk) = row.bus;
        let cache = era::bsd(*bsize);
        let streaming = Streaming { host, disk, kind: kind.clone(), cache, file: FILE, request: REQUEST };
        let rates = streaming.measure(&stores[row.kind])?;
        ratios.push((rates.read.bytes_per_second(), rates.write.bytes_per_second()));
        for (table, reading) in &mut tables {
            let (rate, (speed, cpu)) =
                if *reading { (rates.read, row.read) } else { (rates.write, row.write) };
            let ours = rate.bytes_per_second();
            let row_of_table = table.row([
                row.name.into(),
                Comparison::new(speed, ours / 1000.0, 0.15).into(),
                (100.0 * ours / PLATTER).into(),
                Comparison::new(cpu, rate.percent_busy(), 0.15).into(),
            ]);
            if let Some(note) = row.note.filter(|_| !*reading) {
                row_of_table.explain(note);
            }
        }
    }
    Ok(with_factors(tables.map(|(table, _)| table), &ratios))
}

/// Returns the tables, and how much faster the new file system is.
fn with_factors(tables: [Table; 2], rates: &[(f64, f64)]) -> Outcome {
    let columns = ["over old 1024", "reading", "writing"].map(|name| Column::new(name, 1));
    let mut factors = Table::new("How many times as fast as the old file system", columns);
    let old = rates[0];
    for (row, new) in ROWS.iter().zip(rates).skip(1) {
        let paper = (row.read.0 / ROWS[0].read.0, row.write.0 / ROWS[0].write.0);
        let cells = [(paper.0, new.0 / old.0), (paper.1, new.1 / old.1)]
            .map(|(paper, ours)| Comparison::new(paper, ours, 0.10).into());
        factors.row(std::iter::once(row.name.into()).chain(cells)).explain(FACTORS_NOTE);
    }
    let [reading, writing] = tables;
    let findings = [
        "The old file system gets 3 % of the disk's rate when it reads: nearly every block is a seek. The new one gets what its \
         rotational delay leaves, half of it, unless the controller or the processor is slower.",
        "On MASSBUS the processor limits writing: it finds space for twice as many blocks of 4096 bytes as of 8192.",
    ];
    let findings = findings.map(String::from).to_vec();
    Outcome { tables: vec![reading, writing, factors], findings, ..Outcome::default() }
}
