//! Beyond the papers: what our best settings make of the same disks.

use crate::bench::at_once::at_once;
use crate::bench::best::{Best, CLUSTER, Streamed};
use crate::bench::machine::Rate;
use crate::bench::media;
use crate::bench::storm::{Storm, UPDATE, weather};
use crate::bench::subject::Disk;
use crate::population::Sizes;
use crate::setting::{Hardware, Papers};
use crate::{Outcome, Progress, Result, Setting};
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

/// The machines of the experiment.
pub(super) const MACHINES: [Papers; 4] =
    [fast(&super::CAPRICORN_MASSBUS), super::CAPRICORN_MASSBUS, fast(&super::IBM), super::IBM];

/// Returns a machine with a processor that takes no time to speak of.
const fn fast(papers: &Papers) -> Papers {
    Papers { host: TODAY, ..*papers }
}

/// A disk, and what the papers got out of it.
struct Subject {
    name: &'static str,
    papers: Papers,
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
        papers: super::CAPRICORN_MASSBUS,
        sizes: Sizes::Of1984,
        kb: 1000.0,
        platters: 983.0,
        paper: [466.0, 466.0],
    },
    Subject {
        name: "IBM 0661, SPARCstation 1 (1991)",
        papers: super::IBM,
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

/// A subject on its machines, or on what stands in their place.
struct Trial<'a> {
    subject: &'a Subject,
    name: String,
    fast: Hardware,
    then: Hardware,
    hosts: [&'static str; 2],
    /// KB/s: sectors of a track times revolutions, if tracks are known.
    platters: Option<f64>,
    /// The best of the paper, if it was on this disk.
    paper: Option<[f64; 2]>,
}

/// What one disk delivers: raw, and through file systems.
struct Delivered {
    raw: [f64; 2],
    /// What came through which file system on which host.
    rows: Vec<(String, Streamed)>,
}

impl Subject {
    fn on(&self, setting: &Setting) -> Result<Trial<'_>> {
        let then = setting.in_place_of(&self.papers)?;
        Ok(Trial {
            subject: self,
            name: if setting.is_papers() {
                self.name.into()
            } else {
                format!("{}, {}, in place of: {}", then.disk, then.host, self.name)
            },
            fast: setting.in_place_of(&fast(&self.papers))?,
            hosts: match setting.host {
                None => ["fast host", "host of its time"],
                Some(_) => ["large clusters", "smaller clusters"],
            },
            platters: match setting.disk {
                None => Some(self.platters),
                Some(_) => then.geometry.track_rate().map(|rate| rate / self.kb),
            },
            paper: setting.disk.is_none().then_some(self.paper),
            then,
        })
    }
}

impl Trial<'_> {
    fn kb_per_second(&self, rate: Rate) -> f64 {
        rate.bytes_per_second() / self.subject.kb
    }

    /// Returns our settings for the disk.
    fn best(&self, scale: Scale) -> Best {
        let whole = self.then.geometry;
        Best::on(Disk { cylinders: scale.cylinders.unwrap_or(whole.cylinders), ..whole })
    }

    fn deliver(&self, scale: Scale, progress: &dyn Fn(&str)) -> Result<Delivered> {
        let Hardware { host, disk, .. } = &self.fast;
        let raw = |op| media::sequential(host, disk, op, scale.file, CLUSTER as usize);
        let raw = [self.kb_per_second(raw(Op::Read)?), self.kb_per_second(raw(Op::Write)?)];
        let best = self.best(scale);
        let nearest = Best { allocation: Allocation::Nearest, ..best };
        progress("new");
        let new = best.make()?;
        progress("months of use");
        let aged = best.aged(self.subject.sizes, LEVEL, scale.days)?;
        progress("months of use without long runs");
        let aged_nearest = nearest.aged(self.subject.sizes, LEVEL, scale.days)?;
        let mut rows = Vec::new();
        let [fast, then] = self.hosts;
        for (on, of_host, cluster) in [(&self.fast, fast, CLUSTER), (&self.then, then, SMALLER)] {
            for (state, best, store) in [
                ("new", best, &new),
                ("aged", best, &aged),
                ("aged, BSD's allocator", nearest, &aged_nearest),
            ] {
                progress(state);
                let streamed = Best { cluster, ..best }.stream(on, store, scale.file)?;
                rows.push((format!("{state}, {of_host}"), streamed));
            }
        }
        Ok(Delivered { raw, rows })
    }

    fn table(&self, delivered: &Delivered) -> Table {
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
        let unit = if self.subject.kb < 1024.0 { "KB of 1000" } else { "KB of 1024" };
        let title = format!("{}, {unit}", self.name);
        let mut table = Table::new(title, columns.map(|name| Column::new(name, 0)));
        let percent = |rates: [f64; 2]| {
            let [read, write] = rates;
            let [raw_read, raw_write] = delivered.raw;
            let of_track =
                |rate: f64| self.platters.map_or(Cell::Empty, |track| (100.0 * rate / track).into());
            [
                read.into(),
                (100.0 * read / raw_read).into(),
                of_track(read),
                write.into(),
                (100.0 * write / raw_write).into(),
                of_track(write),
            ]
        };
        let mut add = |name: &str, rates: [f64; 2], rest: [Cell; 3]| {
            table.row([name.into()].into_iter().chain(percent(rates)).chain(rest));
        };
        add("media: without a file system", delivered.raw, [Cell::Empty, Cell::Empty, Cell::Empty]);
        if let Some(paper) = self.paper {
            add("the paper's best", paper, [Cell::Empty, Cell::Empty, Cell::Empty]);
        }
        for (name, found) in &delivered.rows {
            let rates = [self.kb_per_second(found.read), self.kb_per_second(found.write)];
            let busy = [found.read.percent_busy(), found.write.percent_busy()];
            add(name, rates, [(found.extent / self.subject.kb).into(), busy[0].into(), busy[1].into()]);
        }
        table
    }

    /// Returns the rows of the storms.
    fn storms(&self, scale: Scale) -> Result<Vec<[Cell; 7]>> {
        let best = self.best(scale);
        let kinds = [
            (Storm::Create, "create"),
            (Storm::Remove, "remove"),
            (Storm::Unpack, "unpack"),
            (Storm::RemoveTree, "remove the tree"),
        ];
        let storms = kinds.map(|(storm, _)| storm);
        let run = |naming| weather(Best { naming, ..best }, &self.then, UPDATE, &storms, scale.files);
        let [synchronous, delayed] = [run(Naming::Synchronous)?, run(Naming::Delayed)?];
        let rows = kinds.iter().zip(synchronous.iter().zip(&delayed)).map(|((_, name), (old, new))| {
            let per_second = |n: u32, seconds: f64| f64::from(n) / seconds.max(1e-9);
            let [slow, fast] =
                [old, new].map(|found| per_second(found.operations, found.elapsed.as_secs_f64()));
            #[allow(clippy::cast_precision_loss)] // Thousands.
            let writes = [old.writes as f64, new.writes as f64];
            [
                format!("{name}, {}", self.then.disk).into(),
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
pub(super) fn run(setting: &Setting, progress: &dyn Progress) -> Result<Outcome> {
    carry_out(setting, FULL, progress)
}

fn carry_out(setting: &Setting, scale: Scale, progress: &dyn Progress) -> Result<Outcome> {
    const STEPS: u64 = 20;
    let step = AtomicU64::new(0);
    let report = |what: &str| progress.at(step.fetch_add(1, Ordering::Relaxed), STEPS, what);
    let found = at_once(&SUBJECTS, |_, subject| {
        let trial = subject.on(setting)?;
        let delivered = trial.deliver(scale, &report)?;
        report("storms of small files");
        Ok((trial.table(&delivered), trial.figure(&delivered), trial.storms(scale)?))
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

impl Trial<'_> {
    fn figure(&self, delivered: &Delivered) -> Figure {
        let fast = &delivered.rows[..3];
        let others = ["media"].into_iter().chain(self.paper.map(|_| "paper"));
        let groups = others.map(String::from).chain(fast.iter().map(|(name, _)| name.clone()));
        let bars = |n: usize, rate: fn(&Streamed) -> Rate| {
            let ours = fast.iter().map(|(_, found)| self.kb_per_second(rate(found)));
            [delivered.raw[n]].into_iter().chain(self.paper.map(|paper| paper[n])).chain(ours).collect()
        };
        Figure {
            title: self.name.clone(),
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

    /// Promise: on a disk of one's own the paper's best and a rate of tracks that nobody knows are
    /// left out, and the rates are those of that disk.
    #[test]
    fn a_disk_of_ones_own() {
        let scale = Scale { cylinders: Some(400), days: 1, file: 4 << 20, files: 10 };
        let setting = Setting { disk: Some("nvme".into()), host: None };
        let outcome = carry_out(&setting, scale, &Silent).unwrap();
        for table in &outcome.tables[..2] {
            assert!(table.title.starts_with("nvme, "), "{table:?}");
            assert_eq!(table.rows[1].cells[0], Cell::from("new, fast host"));
            assert!(number(&table.rows[1].cells[1]) > 100_000.0, "{table:?}");
            assert!(table.rows.iter().all(|row| row.cells[3] == Cell::Empty), "{table:?}");
        }
        let Plot::Bars { groups, .. } = &outcome.figures[0].plot else { panic!("{:?}", outcome.figures) };
        assert_eq!(groups[..2], ["media", "new, fast host"]);
    }

    /// Promise: on a small disk, too, a new file system on a fast host delivers 95 % of the media,
    /// and names that are written together cost fewer writes and less time; the same figures come
    /// out again.
    #[test]
    fn a_small_disk() {
        let scale = Scale { cylinders: Some(250), days: 2, file: 12 << 20, files: 50 };
        let [outcome, again] = [(), ()].map(|()| carry_out(&Setting::default(), scale, &Silent).unwrap());
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
