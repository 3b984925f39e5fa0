//! Beyond the papers: what our best settings make of the same disks.

use crate::bench::at_once::at_once;
use crate::bench::best::{Best, CLUSTER, Streamed};
use crate::bench::machine::Rate;
use crate::bench::media;
use crate::bench::storm::{Storm, UPDATE, weather};
use crate::bench::subject::Disk;
use crate::population::Sizes;
use crate::{Outcome, Progress, Result};
use spindle_cache::Naming;
use spindle_device::Op;
use spindle_ffs::Allocation;
use spindle_report::outcome::{Cell, Column, Figure, Plot, Table};
use std::sync::atomic::{AtomicU64, Ordering};

/// A host whose processor takes no time to speak of.
const TODAY: &str = "today";
/// Bytes of a transfer where the processor needs long for one, and the disk should not wait for it
/// at the ends of a file.
const SMALLER: u32 = 512 << 10;
/// The part of the space that is in use when users are made to clean up.
const LEVEL: f64 = 0.8;

/// A disk, and what the papers got out of it.
struct Subject {
    name: &'static str,
    disk: &'static str,
    host: &'static str,
    geometry: Disk,
    sizes: Sizes,
    /// Bytes of the paper's KB.
    kb: f64,
    /// KB/s: sectors of a track times revolutions.
    platters: f64,
    /// The best of the paper: reading and writing, KB/s.
    paper: [f64; 2],
}

const SUBJECTS: [Subject; 2] = [
    Subject {
        name: "AMPEX Capricorn on MASSBUS, VAX 11/750 (1984)",
        disk: "capricorn-massbus",
        host: "vax-11-750",
        geometry: Disk::CAPRICORN,
        sizes: Sizes::Of1984,
        kb: 1000.0,
        platters: 983.0,
        paper: [466.0, 466.0],
    },
    Subject {
        name: "IBM 0661, SPARCstation 1 (1991)",
        disk: "ibm-0661",
        host: "sparcstation-1",
        geometry: Disk::IBM_0661,
        sizes: Sizes::Of1993,
        kb: 1024.0,
        platters: 1726.0,
        paper: [1610.0, 1359.0],
    },
];

/// How much is done.
#[derive(Clone, Copy)]
struct Scale {
    /// Cylinders of the disks, if not all.
    cylinders: Option<u32>,
    days: u32,
    /// Bytes of the file.
    file: u64,
    /// Files of a storm.
    files: u32,
}

const FULL: Scale = Scale { cylinders: None, days: 182, file: 24 << 20, files: 1000 };

/// What one disk delivers: raw, and through file systems.
struct Delivered {
    raw: [f64; 2],
    /// What came through which file system on which host.
    rows: Vec<(String, Streamed)>,
}

impl Subject {
    fn kb_per_second(&self, rate: Rate) -> f64 {
        rate.bytes_per_second() / self.kb
    }

    fn deliver(&self, scale: Scale, progress: &dyn Fn(&str)) -> Result<Delivered> {
        let raw = |op| media::sequential(TODAY, self.disk, op, scale.file, CLUSTER as usize);
        let raw = [self.kb_per_second(raw(Op::Read)?), self.kb_per_second(raw(Op::Write)?)];
        let cylinders = scale.cylinders.unwrap_or(self.geometry.cylinders);
        let best = Best::on(Disk { cylinders, ..self.geometry });
        let nearest = Best { allocation: Allocation::Nearest, ..best };
        progress("new");
        let new = best.make()?;
        progress("months of use");
        let aged = best.aged(self.sizes, LEVEL, scale.days)?;
        progress("months of use without long runs");
        let aged_nearest = nearest.aged(self.sizes, LEVEL, scale.days)?;
        let mut rows = Vec::new();
        for (host, of_host, cluster) in
            [(TODAY, "fast host", CLUSTER), (self.host, "host of its time", SMALLER)]
        {
            for (state, best, store) in [
                ("new", best, &new),
                ("aged", best, &aged),
                ("aged, BSD's allocator", nearest, &aged_nearest),
            ] {
                progress(state);
                let streamed = Best { cluster, ..best }.stream(host, self.disk, store, scale.file)?;
                rows.push((format!("{state}, {of_host}"), streamed));
            }
        }
        Ok(Delivered { raw, rows })
    }

    fn table(&self, delivered: &Delivered) -> Table {
        let unit = if self.kb < 1024.0 { "KB of 1000" } else { "KB of 1024" };
        let columns = [
            "",
            "read KB/s",
            "% media",
            "% track",
            "write KB/s",
            "% media",
            "% track",
            "extent KB",
            "read CPU %",
            "write CPU %",
        ];
        let mut table =
            Table::new(format!("{}, {unit}", self.name), columns.map(|name| Column::new(name, 0)));
        let percent = |rates: [f64; 2]| {
            let [read, write] = rates;
            let [raw_read, raw_write] = delivered.raw;
            [
                read,
                100.0 * read / raw_read,
                100.0 * read / self.platters,
                write,
                100.0 * write / raw_write,
                100.0 * write / self.platters,
            ]
        };
        let mut add = |name: &str, rates: [f64; 2], rest: [Cell; 3]| {
            let numbers = percent(rates).map(Cell::from);
            table.row([name.into()].into_iter().chain(numbers).chain(rest));
        };
        add("media: without a file system", delivered.raw, [Cell::Empty, Cell::Empty, Cell::Empty]);
        add("the paper's best", self.paper, [Cell::Empty, Cell::Empty, Cell::Empty]);
        for (name, found) in &delivered.rows {
            let rates = [self.kb_per_second(found.read), self.kb_per_second(found.write)];
            let busy = [found.read.percent_busy(), found.write.percent_busy()];
            add(name, rates, [(found.extent / self.kb).into(), busy[0].into(), busy[1].into()]);
        }
        table
    }

    /// Returns the rows of the storms.
    fn storms(&self, scale: Scale) -> Result<Vec<[Cell; 7]>> {
        let cylinders = scale.cylinders.unwrap_or(self.geometry.cylinders);
        let best = Best::on(Disk { cylinders, ..self.geometry });
        let kinds = [
            (Storm::Create, "create"),
            (Storm::Remove, "remove"),
            (Storm::Unpack, "unpack"),
            (Storm::RemoveTree, "remove the tree"),
        ];
        let storms = kinds.map(|(storm, _)| storm);
        let run =
            |naming| weather(Best { naming, ..best }, (self.host, self.disk), UPDATE, &storms, scale.files);
        let [synchronous, delayed] = [run(Naming::Synchronous)?, run(Naming::Delayed)?];
        let rows = kinds.iter().zip(synchronous.iter().zip(&delayed)).map(|((_, name), (old, new))| {
            let per_second = |n: u32, seconds: f64| f64::from(n) / seconds.max(1e-9);
            let [slow, fast] =
                [old, new].map(|found| per_second(found.operations, found.elapsed.as_secs_f64()));
            #[allow(clippy::cast_precision_loss)] // Thousands.
            let writes = [old.writes as f64, new.writes as f64];
            [
                format!("{name}, {}", self.disk).into(),
                f64::from(old.operations).into(),
                slow.into(),
                fast.into(),
                (fast / slow).into(),
                writes[0].into(),
                writes[1].into(),
            ]
        });
        Ok(rows.collect())
    }
}

/// Runs the experiment.
pub(super) fn run(progress: &dyn Progress) -> Result<Outcome> {
    carry_out(FULL, progress)
}

fn carry_out(scale: Scale, progress: &dyn Progress) -> Result<Outcome> {
    const STEPS: u64 = 20;
    let step = AtomicU64::new(0);
    let report = |what: &str| progress.at(step.fetch_add(1, Ordering::Relaxed), STEPS, what);
    let found = at_once(&SUBJECTS, |_, subject| {
        let delivered = subject.deliver(scale, &report)?;
        report("storms of small files");
        Ok((subject.table(&delivered), subject.figure(&delivered), subject.storms(scale)?))
    })?;
    let mut tables = Vec::new();
    let mut figures = Vec::new();
    let columns = [
        "storm",
        "operations",
        "at once, 1/s",
        "together, 1/s",
        "ratio",
        "writes at once",
        "writes together",
    ];
    let mut storms = Table::new(
        "Names written at once, and together every 30 seconds",
        columns.map(|name| Column::new(name, 0)),
    );
    storms.columns[4].decimals = 1;
    for (table, figure, rows) in found {
        tables.push(table);
        figures.push(figure);
        for row in rows {
            storms.row(row);
        }
    }
    tables.push(storms);
    Ok(Outcome { tables, figures, findings: FINDINGS.map(String::from).to_vec() })
}

impl Subject {
    fn figure(&self, delivered: &Delivered) -> Figure {
        let fast = &delivered.rows[..3];
        let groups =
            ["media", "paper"].map(String::from).into_iter().chain(fast.iter().map(|(name, _)| name.clone()));
        let bars = |n: usize, rate: fn(&Streamed) -> Rate| {
            let ours = fast.iter().map(|(_, found)| self.kb_per_second(rate(found)));
            [delivered.raw[n], self.paper[n]].into_iter().chain(ours).collect()
        };
        Figure {
            title: self.name.into(),
            plot: Plot::Bars {
                y: "KB/s".into(),
                groups: groups.collect(),
                series: vec![
                    ("read".into(), bars(0, |found| found.read)),
                    ("write".into(), bars(1, |found| found.write)),
                ],
            },
        }
    }
}

const FINDINGS: [&str; 4] = [
    "\"Media\" is what the disk delivers without a file system in requests as large as our clusters, changes of heads and cylinders \
     included; a track alone would be faster. (The Capricorn's geometry has no skew: a revolution passes at each new cylinder.) The \
     fast host has a processor that takes next to no time, which leaves the disk as the only limit.",
    "A new file system delivers almost all of it, where the paper of 1984 got 47 % of the track. Half a year of use costs little \
     where a file whose next block is taken goes on in a long run of free blocks, and several times as much where it takes \
     the nearest free block, as BSD does. Fuller disks lose more in either case: at 85 % we \
     saw up to 8 % with long runs.",
    "On the hosts of their time transfers are smaller, as a processor that copies the first and the last of a file keeps the disk \
     waiting; the VAX cannot write any faster. A whole cluster is kept ahead of a reader, in as many pieces as it lies.",
    "Names that are written at once cost three writes for a file made and four for one removed, one after the other. Together, \
     hundreds of files share a write, which 1991 hoped for. A crash then takes up to 30 seconds, and amid such a write it leaves \
     work for the check.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    fn number(cell: &Cell) -> f64 {
        if let Cell::Number(number) = cell { *number } else { panic!("{cell:?} is no number") }
    }

    /// Promise: on a small disk, too, a new file system on a fast host delivers 95 % of the media,
    /// and names that are written together cost fewer writes and less time; the same figures come
    /// out again.
    #[test]
    fn a_small_disk() {
        let scale = Scale { cylinders: Some(250), days: 2, file: 12 << 20, files: 50 };
        let [outcome, again] = [(), ()].map(|()| carry_out(scale, &Silent).unwrap());
        assert_eq!(outcome, again);
        for table in &outcome.tables[..2] {
            let new = &table.rows[2];
            assert!(number(&new.cells[2]) > 95.0 && number(&new.cells[5]) > 95.0, "{table:?}");
        }
        for storm in &outcome.tables[2].rows {
            assert!(
                number(&storm.cells[4]) > 1.0 && number(&storm.cells[5]) > number(&storm.cells[6]),
                "{storm:?}"
            );
        }
    }
}
