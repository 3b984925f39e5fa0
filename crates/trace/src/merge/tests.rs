//! Tests of merging: what hosts keep apart, and that parts make the whole again.

use super::*;
use crate::filter::{Filtered, Moment, Selection};
use crate::invented::{Given, all, all_worded, anything, source, trace};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn merged(traces: Vec<Box<dyn Source>>, relation: Relation) -> Result<Batch> {
    let named = (0..).zip(traces).map(|(n, source)| (format!("t{n}"), source)).collect();
    all(&mut Merged::new(named, relation)?)
}

fn given(events: Vec<Event>) -> Box<dyn Source> {
    source(&Batch { events, ..Batch::default() }, 2)
}

fn refused(traces: Vec<Box<dyn Source>>, relation: Relation) -> String {
    merged(traces, relation).unwrap_err().to_string()
}

const DAY: i64 = 86_400_000_000_000;

fn run(time: i64, open: u64, device: u64, inode: u64) -> Event {
    let file = FileId { device, inode };
    Event { time: 1000 * DAY + time, kind: Kind::Run, open, file, process: 5, read: 1, ..Event::default() }
}

/// Promise: events of hosts come in the order of time; opens, files, disks and processes of two
/// hosts never have the same number, and what has none still has none.
#[test]
fn hosts_are_kept_apart() {
    let sync = Event { kind: Kind::Sync, process: 0, ..run(4, 0, 0, 0) };
    let one = || given(vec![run(1, 7, 3, 9), run(3, 0, 0, 0), sync, run(9, 7, 3, 9)]);
    let found = merged(vec![one(), one()], Relation::Hosts).unwrap();
    let found: Vec<_> =
        found.events.iter().map(|e| (e.time - 1000 * DAY, e.open, e.file, e.process)).collect();
    let file = |device, inode| FileId { device, inode };
    let (wide, narrow) = (1 << 48, 1 << 22);
    assert_eq!(
        found,
        [
            (1, 7, file(3, 9), 5),
            (1, 7 | wide, file(3 | wide, 9), 5 | narrow),
            (3, 0, file(0, 0), 5),
            (3, 0, file(wide, 0), 5 | narrow),
            (4, 0, file(0, 0), 0),
            (4, 0, file(0, 0), 0),
            (9, 7, file(3, 9), 5),
            (9, 7 | wide, file(3 | wide, 9), 5 | narrow),
        ]
    );
}

/// Promise: numbers that leave no room for the host, too many hosts, and clocks that have nothing
/// in common are refused with the trace and the reason.
#[test]
fn what_cannot_be_merged_is_refused() {
    let one = || given(vec![run(1, 7, 3, 9)]);
    for (event, what) in [
        (run(1, 1 << 48, 3, 9), "t1: the open 281474976710656 is too large"),
        (run(1, 7, u64::MAX, 9), "t1: the device 18446744073709551615 is too large"),
        (Event { process: 1 << 22, ..run(1, 7, 3, 9) }, "t1: the process 4194304 is too large"),
    ] {
        let text = refused(vec![one(), given(vec![event])], Relation::Hosts);
        assert!(text.starts_with(what), "{text}");
    }
    let many = (0..=MOST_HOSTS).map(|_| one()).collect();
    assert!(refused(many, Relation::Hosts).contains("at most 1024"));
    for relation in [Relation::Hosts, Relation::Parts] {
        let early = Event { time: 5, ..run(1, 7, 3, 9) };
        let text = refused(vec![one(), given(vec![early])], relation);
        assert!(text.starts_with("t1: its times count from its own beginning, and those of t0"), "{text}");
    }
}

/// Promise: traces that overlap, or that other programs have made, are no parts of one recording.
#[test]
fn what_is_no_part_is_refused() {
    let open = |time, open| Event { kind: Kind::Open, ..run(time, open, 3, 9) };
    let text = refused(vec![given(vec![open(1, 7)]), given(vec![open(2, 7)])], Relation::Parts);
    assert!(text.starts_with("t1: open 7 begins at") && text.contains("that of t0 lasts"), "{text}");
    let mut other = Given::new(&Batch { events: vec![open(1, 8)], ..Batch::default() }, 1);
    other.info.source = "another".into();
    let text = refused(vec![given(vec![open(1, 7)]), Box::new(other)], Relation::Parts);
    assert!(text.starts_with("t1: it was made by \"another\", and t0 by \"a test\""), "{text}");
    assert_eq!(merged(vec![given(vec![open(1, 7), open(2, 7)])], Relation::Parts).unwrap().events.len(), 2);
}

/// Promise: lost events are added up; of hosts each note has its trace, of parts each is there
/// once.
#[test]
fn information_is_merged() {
    let noted = |lost, notes: &[&str]| -> (String, Box<dyn Source>) {
        let mut given = Given::new(&Batch { events: vec![run(1, 7, 3, 9)], ..Batch::default() }, 1);
        given.info.lost = lost;
        given.info.notes = notes.iter().map(|&note| note.into()).collect();
        (format!("t{lost}"), Box::new(given))
    };
    let inputs = || vec![noted(2, &["a", "b"]), noted(3, &["b"])];
    let hosts = Merged::new(inputs(), Relation::Hosts).unwrap().info();
    assert_eq!((hosts.lost, hosts.notes.len()), (5, 5));
    assert!(hosts.notes[0].starts_with("host 0 is t2, made by a test"), "{:?}", hosts.notes);
    assert_eq!(hosts.notes[4], "t3: b");
    let parts = Merged::new(inputs(), Relation::Parts).unwrap().info();
    assert_eq!((parts.lost, parts.notes, parts.source), (5, vec!["a".into(), "b".into()], "a test".into()));
}

/// Promise: whatever the events are, they are merged, or refused with the trace.
#[test]
fn anything_is_merged_or_refused() {
    for seed in 0..20 {
        for relation in [Relation::Hosts, Relation::Parts] {
            let made = [seed, seed + 100].map(|seed| source(&anything(500, seed), 64));
            match merged(made.into(), relation) {
                Ok(found) => assert!(found.events.len() <= 1000),
                Err(error) => assert!(error.to_string().starts_with('t'), "{error}"),
            }
        }
    }
}

/// Promise: a trace that is cut into windows, in any number and order, is the same trace again when
/// its parts are merged.
#[test]
fn torture_parts_make_the_whole() {
    let seed = std::env::var("SPINDLE_SEED");
    let seed: u64 = seed.map_or_else(|_| StdRng::from_os_rng().random(), |seed| seed.parse().unwrap());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-trace torture_parts_make_the_whole");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut made = 0;
    for case in 0..100 {
        let count = rng.random_range(1..400);
        let whole = trace(&mut rng, 1000 * DAY, count);
        let end = whole.events.last().unwrap().time;
        let mut cuts: Vec<_> =
            (0..rng.random_range(0..5)).map(|_| rng.random_range(1000 * DAY..=end)).collect();
        cuts.sort_unstable();
        let at = |n: usize| cuts.get(n).copied().map(Moment::At);
        let mut parts = Vec::new();
        for n in 0..=cuts.len() {
            let window = Selection { from: at(n.wrapping_sub(1)), until: at(n), ..Selection::default() };
            let mut part = Filtered::new(source(&whole, rng.random_range(1..60)), window, "");
            let part = all(&mut part).unwrap();
            made += part.events.iter().filter(|event| event.flags.has(Flags::BEFORE)).count();
            let part = source(&part, rng.random_range(1..60));
            parts.insert(rng.random_range(0..=parts.len()), part);
        }
        let found = merged(parts, Relation::Parts).unwrap();
        assert!(all_worded(&found) == all_worded(&whole), "case {case}");
    }
    assert!(made > 100, "only {made} opens were cut");
}
