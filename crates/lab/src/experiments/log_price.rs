//! What it costs that creates, renames and removes survive a crash: by when they reach the disk.

use crate::bench::best::Best;
use crate::bench::storm::{Storm, UPDATE, Weathered, weather};
use crate::setting::Papers;
use crate::{Outcome, Progress, Result, Setting};
use spindle_cache::Naming;
use spindle_ffs::LogUse;
use spindle_report::outcome::{Cell, Column, Table};
use std::time::Duration;

/// Files that are made, renamed and removed.
const FILES: u32 = 1000;
const STORMS: [(Storm, &str); 3] =
    [(Storm::Create, "create"), (Storm::Rename, "rename"), (Storm::Remove, "remove")];

/// Hosts and disks: one of 1991, and one of today, which has a write cache.
pub(super) const MACHINES: [Papers; 2] =
    [super::IBM, Papers { host: "today", disk: "nearline-20tb", ..super::IBM }];

/// When changes of names reach the disk.
struct Way {
    name: &'static str,
    naming: Naming,
    log: LogUse,
    /// How often everything is made durable; after each operation if zero.
    every: Duration,
    /// What a crash takes.
    lost: &'static str,
}

const fn way(name: &'static str, naming: Naming, log: LogUse, every: Duration, lost: &'static str) -> Way {
    Way { name, naming, log, every, lost }
}

const WAYS: [Way; 5] = [
    way("synchronous", Naming::Synchronous, LogUse::Never, UPDATE, "nothing, without a write cache"),
    way("synchronous, with barriers", Naming::Durable, LogUse::Never, UPDATE, "nothing"),
    way("logged, each made durable", Naming::Delayed, LogUse::Required, Duration::ZERO, "nothing"),
    way("logged", Naming::Delayed, LogUse::Required, Duration::from_secs(5), "5 s, in order"),
    way("without order", Naming::Delayed, LogUse::Never, UPDATE, "30 s, and needs a check"),
];

/// Runs the experiment.
pub(super) fn run(setting: &Setting, progress: &dyn Progress) -> Result<Outcome> {
    carry_out(setting, FILES, progress)
}

fn carry_out(setting: &Setting, files: u32, progress: &dyn Progress) -> Result<Outcome> {
    let mut machines =
        MACHINES.iter().map(|papers| setting.in_place_of(papers)).collect::<Result<Vec<_>>>()?;
    // Where the same stands in the place of both, one is enough.
    machines.dedup();
    let steps = (machines.len() * WAYS.len()) as u64;
    let storms = STORMS.map(|(storm, _)| storm);
    let mut tables = Vec::new();
    for (m, on) in machines.iter().enumerate() {
        let rates = STORMS.map(|(_, name)| Column::new(format!("{name}, 1/s"), 0));
        let writes = STORMS.map(|(_, name)| Column::new(format!("writes of a {name}"), 2));
        let columns = [Column::new("names", 0)].into_iter().chain(rates).chain(writes);
        let columns = columns.chain([Column::new("a crash takes", 0)]);
        let mut table = Table::new(format!("{}, {}", on.disk, on.host), columns);
        for (n, Way { name, naming, log, every, lost }) in WAYS.into_iter().enumerate() {
            progress.at((m * WAYS.len() + n) as u64, steps, name);
            let best = Best { naming, log, ..Best::on(on.geometry) };
            let found = weather(best, on, every, &storms, files)?;
            let rates = found.iter().map(|found| Cell::Number(per_second(found)));
            let writes = found.iter().map(|found| Cell::Number(writes_each(found)));
            table.row([name.into()].into_iter().chain(rates).chain(writes).chain([lost.into()]));
        }
        tables.push(table);
    }
    Ok(Outcome { tables, findings: FINDINGS.map(String::from).to_vec(), ..Outcome::default() })
}

fn per_second(found: &Weathered) -> f64 {
    f64::from(found.operations) / found.elapsed.as_secs_f64().max(1e-9)
}

#[allow(clippy::cast_precision_loss)] // Thousands.
fn writes_each(found: &Weathered) -> f64 {
    found.writes as f64 / f64::from(found.operations.max(1))
}

const FINDINGS: [&str; 3] = [
    "A synchronous name costs three or four writes, one after the other. Through a log it costs two if each is made durable by \
     itself, which is two to three times as fast for renames and removes. A create is not, as the data of its file is then made \
     durable, too; with synchronous names it is not.",
    "If a crash may take the last seconds, as long as it keeps the order, hundreds of names share a write of the log. That costs \
     no more than writing them without any order, after which a crash needs a check.",
    "A disk of today takes synchronous writes into its cache, where a power failure loses them. With barriers, which make the \
     promise of 1984 true again, they are 36 to 49 times as slow.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    fn number(cell: &Cell) -> f64 {
        if let Cell::Number(number) = cell { *number } else { panic!("{cell:?} is no number") }
    }

    /// Promise: with few files, too, a log takes fewer writes than synchronous names and barriers
    /// take time on a disk with a write cache; the same figures come out again.
    #[test]
    fn a_few_files() {
        let [outcome, again] = [(), ()].map(|()| carry_out(&Setting::default(), 40, &Silent).unwrap());
        assert_eq!(outcome, again);
        for table in &outcome.tables {
            let [synchronous, logged] = [0, 3].map(|way| &table.rows[way].cells);
            for writes in 4..7 {
                assert!(number(&logged[writes]) < number(&synchronous[writes]), "{table:?}");
            }
        }
        let [synchronous, durable] = [0, 1].map(|way| number(&outcome.tables[1].rows[way].cells[1]));
        assert!(durable < synchronous, "{:?}", outcome.tables[1]);
    }
}
