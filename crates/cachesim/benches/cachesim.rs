//! Measures the speed and memory of cache simulation: the paper's caches, and today's policies, on
//! a synthetic trace.
//!
//! `cargo bench -p spindle-cachesim --bench cachesim -- [EVENTS] [WHAT] [FILE]`: runs only
//! measurements with WHAT in their names. With a FILE the trace is written there first and read
//! from it, as for a user; otherwise events are generated during the measurement.

// Small numbers whose last digits do not matter.
#![expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use rand::{Rng, SeedableRng, rngs::StdRng};
use spindle_cachesim::replacement::PolicyName;
use spindle_cachesim::{CacheGrid, Extras, Write, paper, simulate};
use spindle_trace::format::{Columns, Writer};
use spindle_trace::{Batch, Event, FileId, Flags, Info, Kind, Result, Source, open};
use std::path::Path;
use std::time::Instant;

/// Minimum number of files at a time.
const FILES: u64 = 200_000;

/// Opens files, recently used ones more often; a third of the opens write, and most new data
/// replaces old data.
struct Made {
    rng: StdRng,
    left: u64,
    time: i64,
    opens: u64,
    files: Vec<(u64, u64)>,
    inodes: u64,
}

impl Made {
    fn new(events: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(1985);
        let count = FILES.max(events / 50);
        let files = (0..count).map(|inode| (inode, size(&mut rng))).collect();
        Self { rng, left: events, time: 0, opens: 0, files, inodes: count }
    }

    /// Adds some events of one file.
    fn visit(&mut self, events: &mut Vec<Event>) {
        let last = self.files.len() - 1;
        let rank = self.rng.random::<f64>().powi(4) * self.files.len() as f64;
        let at = last - (rank as usize).min(last);
        self.time += self.rng.random_range(0..2_000_000);
        self.opens += 1;
        let (mut inode, mut bytes) = self.files[at];
        let event = |inode| Event {
            time: self.time,
            open: self.opens,
            file: FileId { device: 1, inode },
            ..Event::default()
        };
        match self.rng.random_range(0..12) {
            0..=1 => {
                events.push(Event { kind: Kind::Unlink, flags: Flags::LAST, size: bytes, ..event(inode) });
                self.inodes += 1;
                (inode, bytes) = (self.inodes, size(&mut self.rng));
                events.push(Event { kind: Kind::Create, flags: Flags::WRITE, ..event(inode) });
                events.push(Event { kind: Kind::Close, written: bytes, size: bytes, ..event(inode) });
            }
            2 => {
                events.push(Event { kind: Kind::Open, size: bytes, position: bytes, ..event(inode) });
                let written = self.rng.random_range(1..2000);
                bytes = if bytes > 1 << 20 { 1000 } else { bytes + written };
                events.push(Event {
                    kind: Kind::Close,
                    position: bytes - written.min(bytes),
                    written,
                    size: bytes,
                    ..event(inode)
                });
            }
            3..=4 => {
                let position = self.rng.random_range(0..bytes);
                let read = self.rng.random_range(0..4096.min(bytes - position));
                events.push(Event { kind: Kind::Open, size: bytes, ..event(inode) });
                events.push(Event { kind: Kind::Seek, new_position: position, ..event(inode) });
                events.push(Event { kind: Kind::Close, position, read, size: bytes, ..event(inode) });
            }
            5 => events.push(Event { kind: Kind::Exec, size: bytes, ..event(inode) }),
            _ => {
                events.push(Event { kind: Kind::Open, size: bytes, ..event(inode) });
                events.push(Event { kind: Kind::Close, read: bytes, size: bytes, ..event(inode) });
            }
        }
        // Moves the file to the front, except for some that stay in place.
        let to = if self.rng.random_ratio(1, 3) { last } else { at };
        self.files.swap(at, to);
        self.files[to] = (inode, bytes);
    }
}

fn size(rng: &mut StdRng) -> u64 {
    // Most files are small; a few have most of the bytes.
    (300.0 * 1000.0_f64.powf(rng.random::<f64>().powi(2))) as u64 + 1
}

impl Source for Made {
    fn info(&self) -> Info {
        Info { source: "generated for a measurement".into(), ..Info::default() }
    }

    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        batch.clear();
        while batch.events.len() < 1 << 16 && (batch.events.len() as u64) < self.left {
            self.visit(&mut batch.events);
        }
        self.left = self.left.saturating_sub(batch.events.len() as u64);
        Ok(!batch.events.is_empty())
    }
}

/// Returns the maximum memory of this process in MiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib / 1024)
}

/// Returns the processor time of this process in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, user and system time are the 12th and 13th field, in hundredths of a second.
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn measure(what: &str, events: u64, file: Option<&Path>, grids: &[CacheGrid]) {
    let mut source: Box<dyn Source> = match file {
        Some(path) => open(path, Columns::NUMBERS).expect("the trace was written just now"),
        None => Box::new(Made::new(events)),
    };
    let (start, cpu_before) = (Instant::now(), cpu());
    let simulated = simulate(&mut *source, grids, &|_| ()).expect("a good trace");
    let (seconds, used) = (start.elapsed().as_secs_f64(), cpu() - cpu_before);
    let mut blocks: Vec<_> = grids.iter().zip(&simulated.results).collect();
    blocks.dedup_by_key(|(grid, _)| (grid.block, grid.extras));
    let accesses: u64 =
        blocks.iter().map(|(_, result)| result.cells.first().map_or(0, |cell| cell.counts.accesses())).sum();
    let caches: usize = simulated.results.iter().map(|result| result.cells.len()).sum();
    println!(
        "{what}: {} events, {accesses} accesses to blocks, {caches} caches: {seconds:.1} s, {used:.1} s of processor time: per \
         second of it {:.2} M events, {:.2} M accesses; {} blocks at most; {} MiB",
        simulated.events,
        simulated.events as f64 / used / 1e6,
        accesses as f64 / used / 1e6,
        simulated.results.iter().map(|result| result.footprint).max().unwrap_or(0),
        memory(),
    );
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).filter(|text| !text.starts_with("--")).collect();
    let events = given.first().map_or(1_000_000, |text| text.parse().expect("a number of events"));
    let only = given.get(1).map_or("", String::as_str);
    let file = given.get(2).map(Path::new);
    if let Some(path) = file {
        let (mut source, mut batch) = (Made::new(events), Batch::default());
        let mut writer = Writer::create(path).expect("the file can be made");
        while source.next(&mut batch).expect("no error is made") {
            writer.write(&batch).expect("the file can be written");
        }
        writer.finish(&source.info()).expect("the file can be written");
    }
    let grid = |policy, ages| CacheGrid {
        block: 4096,
        extras: Extras::default(),
        sizes: [4, 16, 64, 256].map(|megabytes| megabytes << 20).to_vec(),
        policies: vec![policy],
        writes: vec![Write::Delayed],
        ages,
    };
    let todo = [
        ("nothing", vec![]),
        ("nothing but blocks", vec![CacheGrid { policies: vec![], ..grid(PolicyName::Lru, false) }]),
        ("LRU, four sizes in one pass", vec![grid(PolicyName::Lru, false)]),
        ("LRU, four sizes with ages", vec![grid(PolicyName::Lru, true)]),
        ("S3-FIFO, four sizes", vec![grid(PolicyName::S3Fifo, true)]),
        ("the paper's", paper::grids()),
    ];
    for (what, grids) in todo.iter().filter(|(what, _)| what.contains(only)) {
        measure(what, events, file, grids);
    }
}
