//! Figure 9 of the paper on the multi-structured file system: a file of 50 MB in requests of 1 MB.

use crate::bench::process::Process;
use crate::bench::storage::{Made, PAPERS, PART, System, raw};
use crate::bench::subject::Disk;
use crate::setting::{Hardware, Papers};
use crate::{Outcome, Progress, Result, Setting};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use spindle_device::Op;
use spindle_report::outcome::{Column, Comparison, Evidence, Figure, Note, Plot, Published, Series, Table};
use spindle_vfs::{FileKind, Ino};
use std::sync::Arc;

const SEED: u64 = 1991;
/// Bytes of a call.
const REQUEST: u32 = 1 << 20;
const REQUEST_BYTES: u64 = REQUEST as u64;
/// Bytes of memory for data of files: of the 64 MB that the host had, half of what was free.
const MEMORY: usize = 16 << 20;
/// The part of n times the rate of one disk that n disks are to reach.
const EFFICIENCY: f64 = 0.9;
/// A host whose processor takes no time to speak of.
pub(super) const TODAY: Papers = Papers { host: "today", ..PAPERS };
/// What is done.
const KINDS: [&str; 4] = ["sequential write", "sequential read", "random read", "random write"];

const RANDOM: &str = "A request of 1 MB is four tracks long on each of 8 disks, and 32 on one. Each disk first seeks and waits for its \
    first sector, about a revolution, however short the transfer is. The same requests without a file system reach";

/// Returns why a rate at random is less than the disks deliver in order. `alone` is what they
/// deliver without a file system, over as many times the rate of one: with one it is not much less.
fn note(kind: usize, alone: f64) -> Note {
    Note {
        text: format!("{RANDOM} {alone:.2} on 8 disks, {}.", KINDS[kind]).into(),
        ratios: 0.9 * alone / EFFICIENCY..=1.0,
    }
}

/// How much is done.
struct Scale {
    /// Requests in the file.
    requests: u64,
    /// Data disks of the multi-structured file system, and on the host of the time.
    disks: &'static [u32],
    disks_then: &'static [u32],
}

const FULL: Scale = Scale { requests: 50, disks: &[1, 2, 3, 4, 5, 6, 7, 8], disks_then: &[1, 2, 4, 8] };

fn multi(data: u32) -> System {
    System::Multi { control: 1, data, cylinders: Disk::SUPER_EAGLE.cylinders }
}

fn order(requests: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..requests).map(|n| n * REQUEST_BYTES).collect();
    order.shuffle(&mut StdRng::seed_from_u64(SEED));
    order
}

/// Returns the rates in KB/s of each kind on a machine that has just come up. The file has
/// `requests` requests; what is written is on the disks at the end.
fn rates(on: &Hardware, system: System, requests: u64) -> Result<[f64; 4]> {
    let bytes = requests * REQUEST_BYTES;
    let made = system.make(on, MEMORY)?;
    let file = made.prepare(|fs, clock| {
        let process = Process::new(fs, clock, REQUEST as usize);
        let file = process.create(fs.root(), "file", FileKind::Regular)?;
        process.write_all(file, bytes)?;
        Ok(file)
    })?;
    let made = Arc::new(made);
    let mut rates = [0.0; 4];
    for (kind, rate) in rates.iter_mut().enumerate() {
        *rate = measured(&made, kind, file, order(requests))? / 1024.0;
    }
    Ok(rates)
}

fn measured(made: &Arc<Made>, kind: usize, file: Ino, order: Vec<u64>) -> Result<f64> {
    let own = made.clone();
    let bytes = order.len() as u64 * REQUEST_BYTES;
    made.machine()?.run(move |machine| {
        let fs = own.open(machine)?;
        let mut process = Process::new(&*fs, &*machine.clock, REQUEST as usize);
        let rate = machine.measure(bytes, || match kind {
            0 => {
                let new = process.create(fs.root(), "new", FileKind::Regular)?;
                process.write_all(new, bytes).and_then(|()| process.fsync(new))
            }
            1 => process.read_all(file).map(drop),
            2 => order.iter().try_for_each(|&at| process.read(file, at).map(drop)),
            _ => {
                order.iter().try_for_each(|&at| process.write(file, at, REQUEST_BYTES))?;
                process.fsync(file)
            }
        })?;
        Ok(rate.bytes_per_second())
    })
}

/// Returns what so many disks deliver without a file system, in KB/s: in order as much at a time as
/// a cluster, with the next one under way; at random the same requests, written as many at a time
/// as fit into the memory for writes.
fn alone(on: &Hardware, disks: u32, requests: u64) -> Result<[f64; 4]> {
    let (request, cluster) = (REQUEST as usize, (PART * disks) as usize);
    let clusters = (requests * REQUEST_BYTES) / cluster as u64;
    let in_order: Vec<u64> = (0..clusters).map(|n| n * cluster as u64).collect();
    let rate = |op, offsets, len, depth| raw(on, disks, op, offsets, len, depth);
    let rates = [
        rate(Op::Write, in_order.clone(), cluster, 2)?,
        rate(Op::Read, in_order, cluster, 2)?,
        rate(Op::Read, order(requests), request, 1)?,
        rate(Op::Write, order(requests), request, MEMORY / 2 / request)?,
    ];
    Ok(rates.map(|rate| rate / 1024.0))
}

/// Runs the experiment.
pub(super) fn run(setting: &Setting, progress: &dyn Progress) -> Result<Outcome> {
    carry_out(setting, &FULL, progress)
}

fn carry_out(setting: &Setting, scale: &Scale, progress: &dyn Progress) -> Result<Outcome> {
    let (fast, then) = (setting.in_place_of(&TODAY)?, setting.in_place_of(&PAPERS)?);
    let one = [
        ("FFS of 1991", System::Fast { disks: 1 }),
        ("FFS with clusters and a log", System::Logged { disks: 1 }),
        ("the same, 8 disks", System::Logged { disks: 8 }),
    ];
    let named = |disks: &'static [u32]| {
        let multi = disks.iter().map(|&data| (format!("MFS, data disks: {data}"), multi(data)));
        one.map(|(name, system)| (name.to_owned(), system)).into_iter().chain(multi)
    };
    // A host of one's own is both.
    let of_then = if setting.host.is_none() { one.len() + scale.disks_then.len() } else { 0 };
    let steps = (one.len() + scale.disks.len() + of_then) as u64;
    let mut step = 0;
    let mut fill = |title: &str, on: &Hardware, disks| -> Result<(Table, Vec<[f64; 4]>)> {
        let columns = std::iter::once("").chain(KINDS).map(|name| Column::new(name, 0));
        let (mut table, mut all) = (Table::new(title, columns), Vec::new());
        for (name, system) in named(disks) {
            progress.at(step, steps, &name);
            step += 1;
            let found = rates(on, system, scale.requests)?;
            table.row(std::iter::once(name.into()).chain(found.map(Into::into)));
            all.push(found);
        }
        Ok((table, all))
    };
    let title = match setting.host {
        None => "Figure 9: KB/s, on a host whose processor takes no time to speak of",
        Some(_) => "Figure 9: KB/s",
    };
    let (mut figure9, found) = fill(title, &fast, scale.disks)?;
    let host_table = match setting.host {
        None => Some(fill("KB/s on the host of the time", &then, scale.disks_then)?.0),
        Some(_) => None,
    };
    let found = &found[one.len()..];

    let mut single = [0.0; 4];
    let mut reached = [0.0; 4];
    for &disks in [scale.disks.first(), scale.disks.last()].into_iter().flatten() {
        let rates = alone(&fast, disks, scale.requests)?;
        single = if disks == 1 { rates } else { single };
        reached = std::array::from_fn(|kind| rates[kind] / (f64::from(disks) * single[kind]));
        let name = format!("disks alone: {disks}");
        figure9.row(std::iter::once(name.into()).chain(rates.map(Into::into)));
    }
    let columns = std::iter::once("data disks").chain(KINDS).map(|name| Column::new(name, 2));
    let mut efficiency = Table::new("Rate over that of as many single disks", columns);
    for (&disks, rates) in scale.disks.iter().zip(found).skip(1) {
        let cells = (0..KINDS.len()).map(|kind| {
            let ours = rates[kind] / (f64::from(disks) * found[0][kind]);
            let compared = Comparison::new(Evidence::Predicted, Published::at_least(EFFICIENCY), ours);
            let is_random = kind >= 2;
            if is_random { compared.because(note(kind, reached[kind])).into() } else { compared.into() }
        });
        efficiency.row(std::iter::once(disks.to_string().into()).chain(cells));
    }
    let series = KINDS.iter().enumerate().map(|(kind, name)| {
        let point = |(&disks, rates): (&u32, &[f64; 4])| (f64::from(disks), rates[kind]);
        Series { name: (*name).into(), points: scale.disks.iter().zip(found).map(point).collect() }
    });
    let plot = Plot::Lines { x: "data disks".into(), y: "KB/s".into(), series: series.collect() };
    Ok(Outcome {
        tables: [figure9, efficiency].into_iter().chain(host_table).collect(),
        figures: vec![Figure { title: "Figure 9: a file of 50 MB in requests of 1 MB".into(), plot }],
        findings: FINDINGS.map(String::from).to_vec(),
    })
}

const FINDINGS: [&str; 3] = [
    "The values of figure 9 are in a picture without numbers, so ours stand alone. What the paper says of it, that the \
     difference comes from extents and striped tracks, is seen here: the fast file system of 1991 loses every other block \
     to its rotational delay.",
    "A cluster has 512 KB on each disk, a striped track of the set. The disks have no buffers, and lose a revolution \
     between two transfers: with the same cluster for any number of disks, each part would be shorter and lose more. \
     Clusters of the fast file system end at 2 MB.",
    "The processor of the time copies 6 MB/s: with more than two or three data disks it is what limits the rate.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use spindle_report::outcome::Cell;

    /// Promise: all disks of the sets are a disk of one's own: one that does not turn reads at
    /// random about as fast as in order; with a host of one's own, nothing is run on two.
    #[test]
    fn a_disk_that_does_not_turn() {
        let scale = Scale { requests: 8, disks: &[1, 2], disks_then: &[1] };
        let setting = Setting { disk: Some("nvme".into()), host: Some("today".into()) };
        let outcome = carry_out(&setting, &scale, &Silent).unwrap();
        assert_eq!(
            outcome.tables.iter().map(|table| &*table.title).collect::<Vec<_>>(),
            ["Figure 9: KB/s", "Rate over that of as many single disks"]
        );
        for row in &outcome.tables[0].rows {
            let number = |n: usize| match row.cells[n] {
                Cell::Number(number) => number,
                ref other => panic!("{other:?}"),
            };
            assert!(number(3) > 0.5 * number(2) && number(2) > 100_000.0, "{row:?}");
        }
    }

    /// Promise: with a small file, too, sequential rates grow with the disks, nothing is outside
    /// its bounds without a reason, and the same figures come out again.
    #[test]
    fn a_small_file() {
        let scale = Scale { requests: 16, disks: &[1, 2], disks_then: &[1] };
        let [outcome, again] = [(), ()].map(|()| carry_out(&Setting::default(), &scale, &Silent).unwrap());
        assert_eq!(outcome, again);
        let verdicts = outcome.tally().together();
        assert!(verdicts.outside == 0 && verdicts.held >= 2, "{outcome:?}");
    }
}
