//! A trace of disks straight onto modelled disks: without a file system, a cache or a host.
//!
//! Each disk of the trace has a modelled one to itself, with a driver's queue in front of it.
//! Requests arrive at their recorded times, or each when the one before it is complete.

use crate::{Error, Outcome, Result};
use spindle_analyze::{By, Histogram};
use spindle_device::Op;
use spindle_report::outcome::{Cell, Column, Table};
use spindle_sim::disk::{Cleaning, Disk, Service, Spec, Wear};
use spindle_sim::{Commands, Discipline, Time, Transfer, preset};
use spindle_synth::replay::Pace;
use spindle_trace::{Batch, Event, FileId, Source};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::btree_map::{BTreeMap, Entry};

/// Disks on which a trace is replayed.
#[derive(Clone, Debug)]
pub struct OnDrives {
    /// The preset of each, or a file with one.
    pub disk: String,
    /// When requests arrive.
    pub pace: Pace,
    /// The order in which the driver hands them over.
    pub discipline: Discipline,
}

/// The parts of a response, in the order in which [`Tally::add`] takes them.
const PARTS: [&str; 7] = ["queue", "overhead", "wait", "seek", "rotation", "transfer", "bus"];

/// Requests of one direction.
#[derive(Default)]
struct Tally {
    /// From arrival to completion in ns, weighted by the bytes.
    responses: Histogram,
    /// Sums in ns, by [`PARTS`].
    parts: [u128; PARTS.len()],
    hits: u64,
}

impl Tally {
    fn add(&mut self, arrived: Time, started: Time, service: &Service, bytes: u64) {
        self.responses.add((service.done - arrived).0, bytes);
        let Service { overhead, wait, seek, rotation, transfer, bus, hit, .. } = *service;
        let parts = [started - arrived, overhead, wait, seek, rotation, transfer, bus];
        for (sum, part) in self.parts.iter_mut().zip(parts) {
            *sum += u128::from(part.0);
        }
        self.hits += u64::from(hit);
    }
}

/// What waits for a drive.
struct Waiting {
    arrived: Time,
    bytes: u64,
}

struct Drive {
    disk: Disk,
    queue: Commands<Waiting>,
    /// When what is in service will be complete.
    in_service: BinaryHeap<Reverse<Time>>,
    busy: Time,
    busy_until: Time,
}

impl Drive {
    fn new(spec: &Spec, discipline: Discipline) -> Result<Self> {
        let disk = Disk::new(spec)?;
        Ok(Self {
            queue: Commands::new(discipline, &disk),
            disk,
            in_service: BinaryHeap::new(),
            busy: Time::ZERO,
            busy_until: Time::ZERO,
        })
    }

    /// Lets the drive come to where it is at `now`.
    fn run_until(&mut self, now: Time, tallies: &mut Tallies) {
        while let Some(&Reverse(done)) = self.in_service.peek()
            && done <= now
        {
            self.in_service.pop();
            self.start_next(done, tallies);
        }
    }

    /// Gives the drive a request that arrives at `now`.
    fn arrive(&mut self, now: Time, transfer: Transfer, bytes: u64, tallies: &mut Tallies) {
        self.run_until(now, tallies);
        self.queue.push(transfer, Waiting { arrived: now, bytes });
        if self.in_service.len() < self.disk.parallelism() as usize {
            self.start_next(now, tallies);
        }
    }

    fn start_next(&mut self, now: Time, tallies: &mut Tallies) {
        let Some((transfer, Waiting { arrived, bytes })) = self.queue.pop(now, &self.disk) else { return };
        let service = self.disk.start(now, &transfer);
        self.in_service.push(Reverse(service.done));
        self.busy += service.done - now.max(self.busy_until);
        self.busy_until = self.busy_until.max(service.done);
        tallies.of(transfer.op).add(arrived, now, &service, bytes);
    }

    /// Returns when everything that was given to the drive is complete.
    fn finish(&mut self, tallies: &mut Tallies) -> Time {
        self.run_until(Time(u64::MAX), tallies);
        self.busy_until
    }
}

#[derive(Default)]
struct Tallies {
    read: Tally,
    write: Tally,
}

impl Tallies {
    const fn of(&mut self, op: Op) -> &mut Tally {
        match op {
            Op::Read => &mut self.read,
            Op::Write => &mut self.write,
        }
    }
}

/// Replays a trace of disks in virtual time; returns tables of response times, of what they consist
/// of, and of the whole.
///
/// # Errors
/// When there is no such preset, the trace cannot be read or is one of files, or a request lies
/// beyond the end of the disk.
pub fn on_drives(on: &OnDrives, source: &mut dyn Source) -> Result<Outcome> {
    let spec = preset::disk(&on.disk)?;
    let mut drives: BTreeMap<FileId, Drive> = BTreeMap::new();
    let (mut tallies, mut batch) = (Tallies::default(), Batch::default());
    let (mut first, mut now, mut others) = (None, Time::ZERO, 0_u64);
    while source.next(&mut batch)? {
        for event in &batch.events {
            if event.open != 0 {
                let why = "it is one of files; only a trace of disks goes without a file system";
                return Err(Error::Contradiction(why.to_owned()));
            }
            if event.bytes() == 0 {
                others += 1;
                continue;
            }
            let drive = match drives.entry(event.file) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(Drive::new(&spec, on.discipline)?),
            };
            let transfer = transfer_of(event, &drive.disk, &on.disk)?;
            let due = on.pace.due(*first.get_or_insert(event.time), event.time);
            now = due.map_or(now, |due| now.max(due.into()));
            drive.arrive(now, transfer, event.bytes(), &mut tallies);
            if due.is_none() {
                now = drive.finish(&mut tallies);
            }
        }
    }
    let end = drives.values_mut().map(|drive| drive.finish(&mut tallies)).max().unwrap_or(Time::ZERO);
    Ok(outcome(&tallies, &drives, end.max(now), others))
}

/// Returns the sectors of a request.
fn transfer_of(event: &Event, disk: &Disk, name: &str) -> Result<Transfer> {
    let sector_bytes = u64::from(disk.sector_bytes());
    let (start, end) = (event.position / sector_bytes, event.end().div_ceil(sector_bytes));
    if end > disk.capacity_sectors() {
        return Err(Error::Contradiction(format!(
            "disk {name}: a request of the trace ends at byte {}, and the disk at {}",
            event.end(),
            disk.capacity_sectors() * sector_bytes
        )));
    }
    let sectors = u32::try_from(end - start).map_err(|_| {
        Error::Contradiction(format!(
            "a request of the trace has {} bytes, more than a drive takes",
            event.bytes()
        ))
    })?;
    Ok(Transfer::new(if event.written > 0 { Op::Write } else { Op::Read }, start, sectors))
}

#[expect(clippy::cast_precision_loss, reason = "only a few digits are shown")]
fn outcome(tallies: &Tallies, drives: &BTreeMap<FileId, Drive>, end: Time, others: u64) -> Outcome {
    let names = ["requests", "number", "mean ms", "median ms", "95 % ms", "99 % ms", "most ms", "MB"];
    let decimals = [0, 0, 3, 3, 3, 3, 3, 1];
    let columns = names.into_iter().zip(decimals).map(|(name, decimals)| Column::new(name, decimals));
    let mut responses = Table::new("Response times", columns);
    let columns = ["requests"].into_iter().chain(PARTS).map(|name| Column::new(name, 3));
    let mut parts = Table::new("Milliseconds of a request", columns.chain([Column::new("% in memory", 1)]));
    let ms = |ns: f64| Cell::Number(ns / 1e6);
    let rows = [("read", &tallies.read), ("write", &tallies.write)];
    for (name, tally) in rows.into_iter().filter(|(_, tally)| tally.responses.count() > 0) {
        let all = &tally.responses;
        let count = all.count() as f64;
        let at = |part| all.quantile(part, By::Count).map_or(Cell::Empty, |ns| ms(ns as f64));
        let megabytes = all.weight() as f64 / 1e6;
        responses.row([
            name.into(),
            count.into(),
            ms(all.mean()),
            at(0.5),
            at(0.95),
            at(0.99),
            ms(all.most() as f64),
            megabytes.into(),
        ]);
        let each = tally.parts.iter().map(|sum| ms(*sum as f64 / count));
        let hits = Cell::Number(100.0 * tally.hits as f64 / count);
        parts.row([name.into()].into_iter().chain(each).chain([hits]));
    }
    parts.note = Some(
        "queue: until the driver hands it over; wait: until the drive has ended what it does by itself; in \
         memory: the drive's buffer has some of it, or takes it"
            .into(),
    );
    let (seconds, disks) = (end.as_secs_f64(), drives.len() as f64);
    let both = [&tallies.read.responses, &tallies.write.responses];
    let count: u64 = both.iter().map(|all| all.count()).sum();
    let bytes: u64 = both.iter().map(|all| all.weight()).sum();
    let busy: f64 = drives.values().map(|drive| drive.busy.as_secs_f64()).sum();
    let mut whole = Table::new("The replay", [Column::new("", 0), Column::new("value", 2)]);
    let mut row = |name: &str, value: f64| {
        whole.row([name.into(), value.into()]);
    };
    row("disks", disks);
    row("seconds", seconds);
    row("requests per second", count as f64 / seconds.max(1e-9));
    row("KB per second", bytes as f64 / 1e3 / seconds.max(1e-9));
    row("% of the time with a busy disk", 100.0 * busy / (seconds * disks).max(1e-9));
    row("events not replayed", others as f64);
    let wear = drives.values().filter_map(|drive| drive.disk.wear()).reduce(Wear::and);
    for (name, value) in wear.into_iter().flat_map(wear_rows) {
        row(name, value);
    }
    let cleaning = drives.values().filter_map(|drive| drive.disk.cleaning()).reduce(Cleaning::and);
    for (name, value) in cleaning.into_iter().flat_map(cleaning_rows) {
        row(name, value);
    }
    Outcome { tables: vec![responses, parts, whole], ..Outcome::default() }
}

/// Returns what is said of the wear of flash: nothing where nothing was written.
#[expect(clippy::cast_precision_loss, reason = "only a few digits are shown")]
pub fn wear_rows(wear: Wear) -> impl Iterator<Item = (&'static str, f64)> {
    wear.amplification().into_iter().flat_map(move |amplification| {
        [
            ("bytes written to flash for one of the host", amplification),
            ("blocks of flash erased", wear.erased_blocks as f64),
        ]
    })
}

/// Returns what is said of the cleaning of shingled disks.
#[expect(clippy::cast_precision_loss, reason = "only a few digits are shown")]
#[must_use]
pub const fn cleaning_rows(cleaning: Cleaning) -> [(&'static str, f64); 3] {
    [
        ("shingled bands cleaned", cleaning.bands as f64),
        ("of them while the host waited", cleaning.waited_for as f64),
        ("runs left in the persistent cache", cleaning.cached_runs as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_trace::Kind;

    /// Returns a request of a disk at a time in milliseconds, of 8 KiB at a sector.
    fn request(ms: i64, disk: u64, op: Op, sector: u64) -> Event {
        let (read, written) = if op == Op::Read { (8192, 0) } else { (0, 8192) };
        Event {
            time: ms * 1_000_000,
            kind: Kind::Run,
            file: FileId { device: 0, inode: disk },
            position: sector * 512,
            read,
            written,
            ..Event::default()
        }
    }

    fn run(disk: &str, pace: Pace, discipline: Discipline, events: &[Event]) -> Result<Outcome> {
        let mut source = Batch { events: events.to_vec(), ..Batch::default() };
        on_drives(&OnDrives { disk: disk.into(), pace, discipline }, &mut source)
    }

    /// Returns the figures of a row of a table, by the number of the table and the name of the row.
    fn row(outcome: &Outcome, table: usize, name: &str) -> Vec<f64> {
        let rows = &outcome.tables[table].rows;
        let row =
            rows.iter().find(|row| row.cells[0] == Cell::from(name)).unwrap_or_else(|| panic!("{name}"));
        let number = |cell: &Cell| match cell {
            Cell::Number(number) => *number,
            other => panic!("{other:?}"),
        };
        row.cells[1..].iter().map(number).collect()
    }

    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-3 * expected.abs().max(1.0), "{value} is not {expected}");
    }

    fn ms(time: Time) -> f64 {
        time.as_secs_f64() * 1e3
    }

    /// Promise: in a closed loop each request begins when the one before it is complete, and takes
    /// what the disk takes.
    #[test]
    fn one_after_the_other() {
        let places = [(Op::Read, 0), (Op::Write, 70_000), (Op::Read, 16), (Op::Write, 300_000)];
        let events: Vec<_> = places.iter().map(|(op, sector)| request(0, 1, *op, *sector)).collect();
        let outcome = run("eagle", Pace::FullSpeed, Discipline::Disksort, &events).unwrap();
        let mut disk = Disk::new(&preset::disk("eagle").unwrap()).unwrap();
        let (mut now, mut writes) = (Time::ZERO, 0.0);
        for (op, sector) in places {
            let done = disk.start(now, &Transfer::new(op, sector, 16)).done;
            writes += if op == Op::Write { ms(done - now) } else { 0.0 };
            now = done;
        }
        near(row(&outcome, 2, "seconds")[0] * 1e3, ms(now));
        near(row(&outcome, 0, "write")[1], writes / 2.0);
        near(row(&outcome, 2, "% of the time with a busy disk")[0], 100.0);
        near(row(&outcome, 1, "read")[0], 0.0);
    }

    /// Promise: at their times, requests wait in the queue of their own disk while it is busy, go
    /// in the order that was asked for, and come sooner at a higher speed.
    #[test]
    fn at_their_times() {
        // While the first is served, a far and a near one come.
        let events =
            [request(0, 1, Op::Read, 400_000), request(1, 1, Op::Read, 0), request(1, 1, Op::Read, 400_400)];
        let mean = |pace, discipline| row(&run("eagle", pace, discipline, &events).unwrap(), 0, "read")[1];
        let real = Pace::Times(1.0);
        assert!(mean(real, Discipline::Sstf) < mean(real, Discipline::Fifo));
        assert!(row(&run("eagle", real, Discipline::Fifo, &events).unwrap(), 1, "read")[0] > 1.0);
        // Far apart none waits; ten thousand times as fast they do.
        let apart: Vec<_> =
            (0..5).map(|n| request(n * 1000, 1, Op::Read, n.cast_unsigned() * 50_000)).collect();
        for (pace, waits) in [(real, false), (Pace::Times(1e4), true)] {
            let outcome = run("eagle", pace, Discipline::Fifo, &apart).unwrap();
            assert_eq!(row(&outcome, 1, "read")[0] > 0.0, waits);
        }
    }

    /// Promise: each disk of the trace has a disk to itself, and flash serves several at once.
    #[test]
    fn several_at_once() {
        let same: Vec<_> = (0..4).map(|n| request(0, 1, Op::Read, n * 1_000_000)).collect();
        let own: Vec<_> = (0..4).map(|n| request(0, n, Op::Read, 0)).collect();
        let waits = |disk: &str, events: &[Event]| {
            row(&run(disk, Pace::Times(1.0), Discipline::Fifo, events).unwrap(), 1, "read")[0]
        };
        near(waits("eagle", &own), 0.0);
        near(waits("nvme", &same), 0.0);
        assert!(waits("nearline-20tb", &same) > 1.0);
        let outcome = run("eagle", Pace::Times(1.0), Discipline::Fifo, &own).unwrap();
        near(row(&outcome, 2, "disks")[0], 4.0);
    }

    /// Promise: of flash, the outcome has what was written to it, and erased; without writes, or of
    /// another disk, it has nothing of that.
    #[test]
    fn wear_of_flash() {
        let events = |op| (0..4000).map(|n| request(0, 1, op, n * 7919 % 50_000 * 16)).collect::<Vec<_>>();
        let tables = |disk: &str, op| {
            run(disk, Pace::FullSpeed, Discipline::Fifo, &events(op)).unwrap().tables[2].rows.len()
        };
        let written = run("nvme", Pace::FullSpeed, Discipline::Fifo, &events(Op::Write)).unwrap();
        let amplification = row(&written, 2, "bytes written to flash for one of the host")[0];
        assert!(amplification > 3.0, "{amplification}");
        assert!(row(&written, 2, "blocks of flash erased")[0] >= 1.0);
        assert_eq!(tables("nvme", Op::Read), 6);
        assert_eq!(tables("eagle", Op::Write), 6);
    }

    /// Promise: a trace of files is refused, and so is a request that the disk cannot have.
    #[test]
    fn refusals() {
        let refused =
            |event: Event| run("eagle", Pace::FullSpeed, Discipline::Fifo, &[event]).unwrap_err().to_string();
        let of_a_file = Event { open: 7, ..request(0, 1, Op::Read, 0) };
        assert!(refused(of_a_file).contains("one of files"));
        let beyond = refused(request(0, 1, Op::Write, 10_000_000));
        assert!(beyond.contains("eagle") && beyond.contains("5120008192"), "{beyond}");
        let huge = Event { read: u64::MAX, ..request(0, 1, Op::Read, 0) };
        assert!(refused(huge).contains("eagle"));
    }
}
