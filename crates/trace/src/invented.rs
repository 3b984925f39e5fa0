//! Invented traces for tests: programs that open, use and close a few files.

use crate::{Batch, Event, FileId, Flags, Info, Kind, Result, Source};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A source of batches in memory.
pub(crate) struct Given {
    pub(crate) batches: Vec<Batch>,
    pub(crate) info: Info,
}

impl Given {
    /// Returns a source of these events in batches of at most `most`.
    pub(crate) fn new(all: &Batch, most: usize) -> Self {
        let mut batches = Vec::new();
        for events in all.events.chunks(most) {
            let mut batch = Batch::default();
            batch.extend(events, &all.names);
            batches.push(batch);
        }
        batches.reverse();
        Self { batches, info: Info { source: "a test".into(), ..Info::default() } }
    }
}

/// Returns a source of these events in batches of at most `most`.
pub(crate) fn source(all: &Batch, most: usize) -> Box<dyn Source> {
    Box::new(Given::new(all, most))
}

impl Source for Given {
    fn info(&self) -> Info {
        self.info.clone()
    }

    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        *batch = self.batches.pop().unwrap_or_default();
        Ok(!batch.events.is_empty())
    }
}

/// Returns everything from a source.
pub(crate) fn all(source: &mut dyn Source) -> Result<Batch> {
    let (mut all, mut batch) = (Batch::default(), Batch::default());
    while source.next(&mut batch)? {
        assert!(!batch.events.is_empty());
        all.extend(&batch.events, &batch.names);
    }
    Ok(all)
}

/// Returns an event with its words, to compare events of different batches.
pub(crate) fn worded(batch: &Batch, event: &Event) -> (Event, [String; 3]) {
    let words = [event.command, event.path, event.new_path].map(|symbol| batch.names.word(symbol).to_owned());
    let [command, path, new_path] = Default::default();
    (Event { command, path, new_path, ..*event }, words)
}

/// Returns all events with their words.
pub(crate) fn all_worded(batch: &Batch) -> Vec<(Event, [String; 3])> {
    batch.events.iter().map(|event| worded(batch, event)).collect()
}

/// Returns events with random values in every field.
pub(crate) fn anything(count: usize, seed: u64) -> Batch {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut batch = Batch::default();
    for _ in 0..count {
        let kind = Kind::ALL[rng.random_range(0..Kind::ALL.len())];
        let words = ["", "/a", "/ü/b c", "cc"].map(|word| batch.names.symbol(word));
        let mut word = || words[rng.random_range(0..words.len())];
        let [command, path, new_path] = [word(), word(), word()];
        batch.events.push(Event {
            time: rng.random(),
            kind,
            flags: Flags(rng.random()),
            open: rng.random(),
            file: FileId { device: rng.random(), inode: rng.random() },
            user: rng.random(),
            process: rng.random(),
            size: rng.random(),
            position: rng.random(),
            read: rng.random(),
            written: rng.random(),
            new_position: rng.random(),
            calls: rng.random(),
            command,
            path,
            new_path,
        });
    }
    batch
}

/// An open file of an invented trace.
struct Open {
    event: Event,
    position: u64,
}

/// Returns a trace of `count` events whose times increase from `start` ns on: opens with their runs
/// and closes, deletions, renames, calls that look at files, and a `sync` of all.
pub(crate) fn trace(rng: &mut StdRng, start: i64, count: usize) -> Batch {
    let mut batch = Batch::default();
    let mut opened: Vec<Open> = Vec::new();
    let (mut time, mut opens) = (start, 0);
    let mut sizes = [0_u64; 12];
    while batch.events.len() < count {
        time += rng.random_range(1..2_000_000);
        let number: usize = rng.random_range(0..sizes.len());
        let process = rng.random_range(1..5);
        let base = Event {
            time,
            file: FileId { device: 1, inode: number as u64 + 1 },
            user: process % 2,
            process,
            command: batch.names.symbol(&format!("program{process}")),
            path: batch.names.symbol(&format!("/d{}/f{number}", number % 3)),
            ..Event::default()
        };
        let event = match rng.random_range(0..10) {
            0..2 => {
                opens += 1;
                let mode = [Flags::READ, Flags::WRITE, Flags::READ | Flags::WRITE][rng.random_range(0..3)];
                let (kind, flags) = match rng.random_range(0..4) {
                    0 => (Kind::Create, mode),
                    1 => (Kind::Open, mode | Flags::TRUNCATED),
                    _ => (Kind::Open, mode),
                };
                let event = Event { kind, flags, open: opens, size: sizes[number], ..base };
                if kind == Kind::Create || flags.has(Flags::TRUNCATED) {
                    sizes[number] = 0;
                }
                opened.push(Open { event, position: 0 });
                if kind == Kind::Create { Event { size: 0, ..event } } else { event }
            }
            2 => Event { kind: Kind::Unlink, flags: Flags::LAST, size: sizes[number], ..base },
            3 => {
                let new_path = batch.names.symbol("/d9/new");
                let [path, no] = [base.path, crate::Symbol::default()];
                match rng.random_range(0..4) {
                    0 => Event { kind: Kind::Rename, new_path, ..base },
                    1 => Event { kind: Kind::Stat, size: sizes[number], ..base },
                    2 => Event { kind: Kind::Mkdir, file: FileId::default(), path, ..base },
                    _ => Event { kind: Kind::Sync, file: FileId::default(), path: no, ..base },
                }
            }
            _ if opened.is_empty() => Event { kind: Kind::Readlink, ..base },
            action => {
                let at = rng.random_range(0..opened.len());
                let Open { event: of, position } = &mut opened[at];
                let file = usize::try_from(of.file.inode - 1).unwrap();
                let bytes = rng.random_range(0..3) * 1000;
                let writes = of.flags.has(Flags::WRITE) && (!of.flags.has(Flags::READ) || rng.random());
                let (read, written) = if writes { (0, bytes) } else { (bytes, 0) };
                let run = Event { time, read, written, position: *position, calls: 1, ..*of };
                if writes && bytes > 0 {
                    sizes[file] = sizes[file].max(run.end());
                }
                *position = run.end();
                let flags = Flags(run.flags.0 & !Flags::TRUNCATED.0);
                let size = sizes[file];
                match action {
                    4 | 5 => {
                        opened.swap_remove(at);
                        Event { kind: Kind::Close, flags, size, ..run }
                    }
                    6 => {
                        *position = rng.random_range(0..4) * 1000;
                        Event { kind: Kind::Seek, flags, size: 0, new_position: *position, ..run }
                    }
                    _ => Event { kind: Kind::Run, flags, size: 0, process, ..run },
                }
            }
        };
        batch.events.push(event);
    }
    batch
}
