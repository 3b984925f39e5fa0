//! Tests of filters: a small trace by hand, and random ones.

use super::*;
use crate::invented::{all, all_worded, anything, source, trace};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

const R: Flags = Flags::READ;
const W: Flags = Flags::WRITE;

/// Returns a trace: process 1 writes `/a/x` from 0 to 40 s, with an inherited run of process 2;
/// process 2 reads `/b/y` and renames it to `/a/y`, and looks at `/a`.
fn small() -> Batch {
    let mut batch = Batch::default();
    let [make, cat] = ["make", "cat"].map(|word| batch.names.symbol(word));
    let [x, y, z, dir] = ["/a/x", "/b/y", "/a/y", "/a"].map(|word| batch.names.symbol(word));
    let one = Event {
        open: 1,
        file: FileId { device: 1, inode: 10 },
        user: 100,
        process: 1,
        command: make,
        path: x,
        ..Event::default()
    };
    let two = Event {
        open: 2,
        file: FileId { device: 1, inode: 20 },
        user: 200,
        process: 2,
        command: cat,
        path: y,
        ..Event::default()
    };
    let at = |seconds: i64, kind, event: Event| Event { time: seconds * 1_000_000_000, kind, ..event };
    let looked = Event { open: 0, file: FileId { device: 1, inode: 2 }, path: dir, ..two };
    batch.events = vec![
        at(0, Kind::Create, Event { flags: W | Flags::UNNAMED, ..one }),
        at(10, Kind::Run, Event { flags: W, written: 1000, calls: 1, ..one }),
        at(15, Kind::Open, Event { flags: R, size: 500, ..two }),
        at(20, Kind::Run, Event { flags: W, position: 1000, written: 500, process: 2, command: cat, ..one }),
        at(21, Kind::Stat, Event { flags: Flags::DIRECTORY, ..looked }),
        at(22, Kind::Seek, Event { flags: W, position: 1500, new_position: 7, ..one }),
        at(25, Kind::Close, Event { flags: R, read: 500, size: 500, ..two }),
        at(26, Kind::Rename, Event { open: 0, new_path: z, ..two }),
        at(30, Kind::Sync, Event { open: 0, file: FileId::default(), path: Symbol::default(), ..two }),
        at(40, Kind::Close, Event { flags: W, position: 7, written: 3, size: 1500, ..one }),
    ];
    batch
}

fn filtered(batch: &Batch, wanted: Selection) -> Batch {
    let mut part = Filtered::new(source(batch, 3), wanted, "--some");
    all(&mut part).unwrap()
}

/// Returns the seconds and kinds of the events.
fn summary(batch: &Batch) -> String {
    let each = batch.events.iter().map(|e| format!("{}{}", e.time / 1_000_000_000, e.kind.name()));
    each.collect::<Vec<_>>().join(" ")
}

fn word(wanted: &'static str) -> WordTest {
    Box::new(move |word| word == wanted)
}

/// Promise: an open is kept as a whole by its file and who opened it; other events by their own
/// properties, a rename by either name, a sync of all by who did it.
#[test]
fn properties() {
    let of = |wanted: Selection| summary(&filtered(&small(), wanted));
    let none = Selection::default;
    assert_eq!(of(none()), summary(&small()));
    let one = "0create 10run 20run 22seek 40close";
    assert_eq!(of(Selection { processes: vec![1], ..none() }), one);
    assert_eq!(of(Selection { users: vec![100, 7], ..none() }), one);
    assert_eq!(of(Selection { commands: Some(word("make")), ..none() }), one);
    assert_eq!(
        of(Selection { paths: Some(word("/a/x")), ..none() }),
        format!("{} 30sync 40close", &one[..26])
    );
    assert_eq!(
        of(Selection { paths: Some(word("/a/y")), processes: vec![2], ..none() }),
        "26rename 30sync",
        "an open of another name is no open of this one"
    );
    assert_eq!(of(Selection { types: vec![FileType::Directory], ..none() }), "21stat 30sync");
    assert_eq!(of(Selection { paths: Some(word("")), types: vec![FileType::Symlink], ..none() }), "30sync");
    assert_eq!(of(Selection { processes: vec![9], ..none() }), "");
}

/// Promise: an open from before the window appears at its first use as one that was open before,
/// with the size, position and words of that moment; what is outside does not appear; both moments
/// may count from the first event.
#[test]
fn windows() {
    let second = 1_000_000_000;
    let window = |from, until| Selection { from: Some(from), until: Some(until), ..Selection::default() };
    let found = filtered(&small(), window(Moment::At(20 * second), Moment::After(26 * second)));
    assert_eq!(summary(&found), "20open 20run 21stat 22seek 25open 25close");
    let opened = all_worded(&found);
    let (first, words) = &opened[0];
    assert_eq!((first.flags, first.size, first.position), (W | Flags::BEFORE, 1000, 1000));
    assert_eq!((first.process, words), (1, &["make".to_owned(), "/a/x".into(), String::new()]));
    assert_eq!((opened[4].0.flags, opened[4].0.size, opened[4].0.process), (R | Flags::BEFORE, 500, 2));

    let found = filtered(&small(), window(Moment::After(23 * second), Moment::At(i64::MAX)));
    assert_eq!(summary(&found), "25open 25close 26rename 30sync 40open 40close");
    let last = found.events[4];
    assert_eq!((last.size, last.position, last.kind), (1500, 7, Kind::Open));
    assert_eq!(summary(&filtered(&small(), window(Moment::At(41 * second), Moment::After(0)))), "");
}

/// Promise: the size of a file before the window is what others have made of it until then.
#[test]
fn sizes_before_the_window() {
    let mut batch = small();
    let truncated = Event { kind: Kind::Truncate, open: 0, size: 77, process: 5, ..batch.events[1] };
    batch.events.insert(2, truncated);
    let from = Some(Moment::After(15_000_000_000));
    let found = filtered(&batch, Selection { from, processes: vec![1], ..Selection::default() });
    assert_eq!((found.events[0].size, found.events[0].position), (77, 1000));
}

/// Promise: the trace says that it was filtered, and how.
#[test]
fn a_note_says_how() {
    let part = Filtered::new(source(&small(), 9), Selection::default(), "--pid 7");
    assert_eq!(part.info().notes, ["a part of a trace, filtered by --pid 7"]);
    assert!(part.is_finished());
}

/// Promise: whatever is wanted, events are those of the trace in its order, besides the `open`s at
/// the window; all or none of an open's events in the window are kept; each open that the trace
/// begins, begins in the part; and nothing stays in memory of opens that are closed.
#[test]
fn torture_parts_are_traces() {
    let seed = std::env::var("SPINDLE_SEED");
    let seed: u64 = seed.map_or_else(|_| StdRng::from_os_rng().random(), |seed| seed.parse().unwrap());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-trace torture_parts_are_traces");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut kept = 0;
    for case in 0..200 {
        let count = rng.random_range(1..300);
        let given = trace(&mut rng, 1 << 40, count);
        let end = given.events.last().unwrap().time;
        let mut time = || rng.random_range((1 << 40) - 5..end + 5);
        let (from, until) = (time(), time());
        let wanted = Selection {
            from: Some(Moment::At(from)),
            until: Some(Moment::At(until)),
            processes: if rng.random() { vec![1, 3] } else { Vec::new() },
            paths: rng.random_bool(0.5).then(|| -> WordTest { Box::new(|path| path.starts_with("/d1")) }),
            ..Selection::default()
        };
        let mut cut = Filtered::new(source(&given, rng.random_range(1..50)), wanted, "");
        let part = all(&mut cut).unwrap();
        kept += part.events.len();
        let is_made = |event: &Event| event.flags.has(Flags::BEFORE);
        let mut rest = all_worded(&given).into_iter();
        for event in all_worded(&part).into_iter().filter(|(event, _)| !is_made(event)) {
            assert!(rest.any(|other| other == event), "case {case}: {event:?}");
        }
        let mut begun = BTreeMap::new();
        for event in part.events.iter().filter(|event| event.open != 0) {
            assert!((from..until).contains(&event.time), "case {case}");
            let begins = matches!(event.kind, Kind::Open | Kind::Create);
            assert_eq!(begun.contains_key(&event.open), !begins, "case {case}: {event:?}");
            *begun.entry(event.open).or_insert(0) += usize::from(!is_made(event));
        }
        for (open, count) in begun {
            let of = |event: &&Event| event.open == open && (from..until).contains(&event.time);
            assert_eq!(given.events.iter().filter(of).count(), count, "case {case}: open {open}");
        }
        let closed: Vec<_> = given.events.iter().filter(|event| event.kind == Kind::Close).collect();
        assert!(closed.iter().all(|event| !cut.opens.contains_key(&event.open)), "case {case}");
        assert!(cut.sizes.len() <= cut.opens.len(), "case {case}");
    }
    assert!(kept > 1000, "only {kept} events were kept");
}

/// Promise: whatever the events are, even impossible ones, each is kept or left out without a
/// panic, and those in the window stay in their order.
#[test]
fn anything_is_filtered() {
    for seed in 0..20 {
        let given = anything(2000, seed);
        let from = Some(Moment::After(-5));
        let wanted = Selection { from, until: Some(Moment::At(i64::MAX)), ..Selection::default() };
        let mut part = Filtered::new(source(&given, 100), wanted, "");
        let found = all_worded(&all(&mut part).unwrap());
        let start = given.events[0].time.saturating_sub(5);
        let wanted = all_worded(&given).into_iter().filter(|(event, _)| event.time >= start);
        let wanted: Vec<_> = wanted.collect();
        let mut rest = found.iter();
        assert!(wanted.iter().all(|event| rest.any(|other| other == event)), "seed {seed}");
    }
}
