//! Promises of a replay, compared with a reader that knows nothing of names, targets and calls.

use super::*;
use crate::{Length, Model, Synthesis};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::SystemClock;
use spindle_trace::format::{Reader, Writer};
use spindle_trace::{Batch, Columns, Event, FileId, Flags, Kind, Source};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

const FULL_SPEED: Settings = Settings { pace: Pace::FullSpeed, request: 4096, shift: Duration::ZERO };

/// Returns the sizes of the files that exist at the end, in the order in which the trace first
/// mentions them.
fn naive(events: &[Event]) -> Vec<u64> {
    let mut living: HashMap<FileId, usize> = HashMap::new();
    let mut sizes: Vec<Option<u64>> = Vec::new();
    for event in events {
        if event.kind == Kind::Mkdir || event.kind == Kind::Unlink && !event.flags.has(Flags::LAST) {
            continue;
        }
        let says_size = event.kind == Kind::Stat && event.file != FileId::default();
        if event.kind.is_control_call() && !says_size && !living.contains_key(&event.file) {
            continue;
        }
        if event.kind == Kind::Create || !living.contains_key(&event.file) {
            living.insert(event.file, sizes.len());
            sizes.push(Some(if event.kind == Kind::Create { 0 } else { event.size }));
        }
        let Some(size) = &mut sizes[living[&event.file]] else { continue };
        match event.kind {
            Kind::Open if event.flags.has(Flags::TRUNCATED) => *size = 0,
            Kind::Truncate => *size = event.size,
            Kind::Unlink => {
                sizes[living[&event.file]] = None;
                living.remove(&event.file);
            }
            _ if event.written > 0 => *size = (*size).max(event.position + event.written),
            _ => {}
        }
    }
    sizes.into_iter().flatten().collect()
}

/// Returns the sizes of all files below a directory, in the order of their numbers.
fn sizes(path: &Path) -> Vec<u64> {
    let mut found = BTreeMap::new();
    for directory in std::fs::read_dir(path).unwrap() {
        for file in std::fs::read_dir(directory.unwrap().path()).unwrap() {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            let number: u64 = name[1..].split('.').next().unwrap().parse().unwrap();
            assert!(found.insert(number, file.metadata().unwrap().len()).is_none(), "{name}");
        }
    }
    found.into_values().collect()
}

/// Replays events on the host; returns the sizes of the files and the timings.
fn replayed(events: &[Event]) -> (Vec<u64>, Timings) {
    let dir = tempfile::tempdir().unwrap();
    let mut target = Directory::new(dir.path()).unwrap();
    for (name, size) in population(&mut Batch { events: events.to_vec(), ..Batch::default() }).unwrap().files
    {
        target.make(name, size).unwrap();
    }
    let mut replay = Replay::new(target, &SystemClock, FULL_SPEED);
    let batch = Batch { events: events.to_vec(), ..Batch::default() };
    replay.take(&batch).unwrap();
    let (_, timings) = replay.finish().unwrap();
    (sizes(dir.path()), timings)
}

/// Promise: a run that is longer than its file is read only as far as the file goes, and what a
/// replay needs can be asked before, however absurd it is.
#[test]
fn absurd_runs() {
    let file = |inode| FileId { device: 1, inode };
    let open = Event { kind: Kind::Open, size: 5000, file: file(1), open: 1, ..Event::default() };
    let run = Event { kind: Kind::Run, read: 1 << 63, ..open };
    let (sizes, timings) = replayed(&[open, run]);
    assert_eq!((sizes, timings.short), (vec![5000], 2));
    let written = Event { kind: Kind::Close, size: 0, written: 1 << 44, ..open };
    let large = Event { kind: Kind::Stat, size: u64::MAX - 7, file: file(2), open: 0, ..open };
    for (events, space) in [
        (vec![open], 5000),
        (vec![open, run], 5000),
        (vec![open, written], 5000 + (1 << 44)),
        (vec![open, large], u64::MAX),
    ] {
        assert_eq!(population(&mut Batch { events, ..Batch::default() }).unwrap().space(), space);
    }
}

/// Returns a random trace of a few files with all kinds of events.
fn random(rng: &mut StdRng) -> Vec<Event> {
    let (mut events, mut open, mut named): (Vec<Event>, Vec<Event>, Vec<FileId>) = Default::default();
    let mut next = 0;
    for time in 0..rng.random_range(1..200) {
        let base = Event { time, ..Event::default() };
        let old = (!named.is_empty()).then(|| rng.random_range(0..named.len()));
        let file = old.map(|at| named[at]);
        let event = match (rng.random_range(0..15), file) {
            (0 | 1, _) => {
                next += 1;
                let (kind, size) =
                    if rng.random() { (Kind::Create, 0) } else { (Kind::Open, rng.random_range(0..9000)) };
                let file = FileId { device: 1, inode: next };
                named.push(file);
                Event { kind, size, file, open: next, ..base }
            }
            (2 | 3, Some(file)) => {
                next += 1;
                let flags = if rng.random() { Flags::TRUNCATED } else { Flags::NONE };
                // A size that the replay tracks itself is ignored.
                Event { kind: Kind::Open, flags, file, open: next, size: 77, ..base }
            }
            (4, Some(file)) => {
                named.swap_remove(old.unwrap_or(0));
                Event { kind: Kind::Unlink, flags: Flags::LAST, file, ..base }
            }
            (5, Some(file)) => Event { kind: Kind::Unlink, file, ..base },
            (6, Some(file)) => Event { kind: Kind::Truncate, file, size: rng.random_range(0..9000), ..base },
            (7, Some(file)) => Event { kind: Kind::Rename, file, ..base },
            (8, _) => Event { kind: Kind::Mkdir, file: FileId { device: 1, inode: 1 << 40 }, ..base },
            (12, Some(file)) => Event { kind: Kind::ALL[rng.random_range(12..22)], file, ..base },
            (13, _) => {
                next += 1;
                let file = FileId { device: 1, inode: next };
                let kind = [Kind::Stat, Kind::Access, Kind::Chmod][rng.random_range(0..3)];
                if kind == Kind::Stat {
                    named.push(file);
                }
                Event { kind, file, size: rng.random_range(0..9000), ..base }
            }
            (12 | 14, _) => Event { kind: Kind::Stat, flags: Flags::FAILED, ..base },
            _ if open.is_empty() => continue,
            (n, _) => {
                let at = rng.random_range(0..open.len());
                let Event { open: id, file, .. } = open[at];
                if !named.contains(&file) {
                    // The file is deleted: what is written to it now has no effect.
                    open.swap_remove(at);
                    continue;
                }
                let kind = [Kind::Close, Kind::Run, Kind::Seek][n - 9];
                let bytes = rng.random_range(0..9000);
                let (read, written) = if rng.random() { (bytes, 0) } else { (0, bytes) };
                let position = rng.random_range(0..9000);
                if kind == Kind::Close {
                    open.swap_remove(at);
                }
                Event { kind, open: id, file, position, read, written, calls: rng.random_range(0..3), ..base }
            }
        };
        if matches!(event.kind, Kind::Open | Kind::Create) {
            open.push(event);
        }
        events.push(event);
    }
    events
}

/// Promise: after a replay of any trace, the files and their sizes are those that a naive reader
/// computes.
#[test]
fn torture_replay_equals_naive() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("it is a number"));
    let seed = number("SPINDLE_SEED").unwrap_or_else(|| StdRng::from_os_rng().random());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-synth torture_replay_equals_naive");
    let mut rng = StdRng::seed_from_u64(seed);
    for case in 0..number("SPINDLE_CASES").unwrap_or(60) {
        let events = random(&mut rng);
        assert_eq!(replayed(&events).0, naive(&events), "case {case}: {events:#?}");
    }
}

/// Promise: a synthetic trace, written to a file and read back, is replayed with all its calls, and
/// all bytes that it reads exist.
#[test]
fn synthetic_traces_are_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let model = Model::parse(Model::built_in("a5").unwrap(), "a5").unwrap();
    let mut source = Synthesis::new(model, Length::Events(3000), 3);
    let mut writer = Writer::create(&path).unwrap();
    let mut batch = Batch::default();
    while source.next(&mut batch).unwrap() {
        writer.write(&batch).unwrap();
    }
    writer.finish(&source.info()).unwrap();
    let mut events = Vec::new();
    let mut reader = Reader::open(&path, Columns::ALL).unwrap();
    while reader.next(&mut batch).unwrap() {
        events.extend(&batch.events);
    }
    let (found, timings) = replayed(&events);
    assert_eq!(found, naive(&events));
    assert_eq!((timings.short, timings.skipped), (0, 0));
    let count = |kind| events.iter().filter(|event| event.kind == kind).count() as u64;
    for (what, kind) in
        [(Call::Create, Kind::Create), (Call::Remove, Kind::Unlink), (Call::Truncate, Kind::Truncate)]
    {
        assert_eq!(timings.times[what as usize].count(), count(kind), "{what:?}");
    }
    let written: u64 = events.iter().map(|event| event.written).sum();
    assert_eq!(timings.times[Call::Write as usize].weight(), written);
}

/// Promise: what was mapped into memory is not read, however long the mapping was, and makes no
/// file longer; its bytes are counted apart.
#[test]
fn mapped_files_are_not_read() {
    let base = Event { file: FileId { device: 1, inode: 1 }, open: 1, ..Event::default() };
    let flags = Flags::READ | Flags::MAPPED;
    let mapped = Event { kind: Kind::Run, flags, read: 300 << 30, ..base };
    let events = [
        Event { kind: Kind::Open, size: 100, ..base },
        mapped,
        Event { kind: Kind::Close, read: 60, ..base },
        Event { file: FileId { device: 1, inode: 2 }, ..mapped },
    ];
    let (sizes, timings) = replayed(&events);
    assert_eq!((sizes, timings.mapped, timings.short), (vec![100, 0], 600 << 30, 0));
    assert_eq!(timings.times[Call::Read as usize].weight(), 60);
}

/// Promise: a directory that is not empty is refused and stays unchanged.
#[test]
fn full_directories_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("precious"), "x").unwrap();
    let refused = Directory::new(dir.path()).unwrap_err();
    assert!(refused.to_string().contains("is not empty"), "{refused}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
