//! Tests of advice, on small traces for which the right advice is obvious.

use super::*;
use spindle_trace::{Batch, Event, FileId, Flags, Kind};

/// Events in memory.
#[derive(Clone, Default)]
struct World {
    events: Vec<Event>,
    now: i64,
    opens: u64,
}

const SECOND: i64 = 1_000_000_000;

impl World {
    fn event(&mut self, kind: Kind, inode: u64, event: Event) {
        self.now += SECOND / 100;
        self.events.push(Event { time: self.now, kind, file: FileId { device: 1, inode }, user: 1, ..event });
    }

    /// Opens a file of `size` bytes, does all of `runs` (position, read, written) and closes it
    /// with `after` bytes.
    fn access(&mut self, inode: u64, kind: Kind, size: u64, runs: &[(u64, u64, u64)], after: u64) {
        self.opens += 1;
        let open = self.opens;
        let flags = Flags::READ | Flags::WRITE;
        self.event(kind, inode, Event { open, size, flags, ..Event::default() });
        for &(position, read, written) in runs {
            self.event(Kind::Run, inode, Event { open, flags, position, read, written, ..Event::default() });
        }
        self.event(Kind::Close, inode, Event { open, size: after, flags, ..Event::default() });
    }

    fn read(&mut self, inode: u64, size: u64) {
        self.access(inode, Kind::Open, size, &[(0, size, 0)], size);
    }

    fn make(&mut self, inode: u64, size: u64) {
        self.access(inode, Kind::Create, 0, &[(0, 0, size)], size);
    }

    fn unlink(&mut self, inode: u64) {
        self.event(Kind::Unlink, inode, Event { flags: Flags::LAST, ..Event::default() });
    }

    fn measured(&self) -> Measured {
        Measured::of(&|| Ok(Box::new(Batch { events: self.events.clone(), ..Batch::default() })), &|_, _| {})
            .unwrap()
    }

    fn advice(&self, topic: &str) -> String {
        let all = advise(&self.measured());
        let found = all.iter().find(|advice| advice.topic == topic);
        found.unwrap_or_else(|| panic!("nothing on {topic}: {all:?}")).advice.clone()
    }
}

/// Promise: no advice rests on what was only mapped into memory, however much it was; it is said
/// beside the advice that it could change.
#[test]
fn mapped_bytes_advise_nothing() {
    let mut world = World::default();
    for _ in 0..20 {
        (1..=12).for_each(|inode| world.read(inode, 1 << 20));
    }
    let before = advise(&world.measured());
    let flags = Flags::READ | Flags::MAPPED;
    for _ in 0..3 {
        world.event(Kind::Run, 99, Event { flags, read: 300 << 30, ..Event::default() });
    }
    let after = advise(&world.measured());
    let advised = |all: &[Advice]| all.iter().map(|one| (one.topic, one.advice.clone())).collect::<Vec<_>>();
    assert_eq!(advised(&before), advised(&after));
    let of = |topic| after.iter().find(|one| one.topic == topic).unwrap().because.clone();
    assert!(of("cache").contains("900 GiB more, at most"), "{}", of("cache"));
    assert!(of("clustering").contains("mapped memory"), "{}", of("clustering"));
}

/// Promise: files that are read again and again need memory for all of them, and not more.
#[test]
fn memory_for_what_is_used_again() {
    let mut world = World::default();
    for _ in 0..20 {
        (1..=12).for_each(|inode| world.read(inode, 1 << 20));
    }
    assert_eq!(world.advice("cache"), "12 MiB of memory");
    let measured = world.measured();
    assert_eq!(measured.caches[0].footprint, 12 << 20);
    assert_eq!(measured.caches[0].at(16 << 20).unwrap()[0].disk_reads, 12 * 256);
    assert_eq!(measured.caches[0].at(8 << 20).unwrap()[0].disk_reads, 20 * 12 * 256);
}

/// Promise: scratch files that live for seconds are worth a delay of writes, and what is never
/// deleted is written through.
#[test]
fn writes_wait_if_that_saves_them() {
    let (mut scratch, mut kept) = (World::default(), World::default());
    for n in 1..=200 {
        scratch.make(n, 20_000);
        scratch.unlink(n);
        kept.make(n, 20 * 4096);
    }
    assert_eq!(scratch.advice("write policy"), "flush:30s");
    assert_eq!(kept.advice("write policy"), "through");
    let measured = scratch.measured();
    assert_eq!(measured.names.changes, 400);
    assert!(scratch.advice("control data").starts_with("a device of its own"));
    assert!(kept.advice("control data").starts_with("no device"));
}

/// Promise: many small files want fragments and many inodes, a few large ones do not; without sizes
/// nothing is said of it.
#[test]
fn fragments_for_small_files() {
    let (mut small, mut large, mut disk) = (World::default(), World::default(), World::default());
    for n in 1..=300 {
        small.make(n, 700);
        large.make(n, 4 << 20);
        disk.event(Kind::Run, 0, Event { position: n * 8192, written: 8192, ..Event::default() });
    }
    assert_eq!(small.advice("fragments and inodes"), "fragments of 512 bytes, an inode for every 1 KiB");
    let advice = large.advice("fragments and inodes");
    assert!(advice.ends_with("an inode for every 4 MiB"), "{advice}");
    let block = large.advice("block size").replace("blocks of ", "");
    assert!(advice.starts_with(&format!("fragments of {block},")), "{advice}");
    assert!(advise(&disk.measured()).iter().all(|advice| advice.topic != "fragments and inodes"));
}

/// Promise: clusters are as large as the runs that move most bytes, within reason, and are not
/// advised for scattered pages.
#[test]
fn clusters_for_long_runs() {
    let (mut long, mut short) = (World::default(), World::default());
    for n in 0..50 {
        long.read(n + 1, 300_000);
        short.access(1, Kind::Open, 1 << 30, &[(n * 1_000_000, 4096, 0), (n * 500_000, 4096, 0)], 1 << 30);
    }
    assert_eq!(long.advice("clustering"), "clusters of 512 KiB");
    assert_eq!(short.advice("clustering"), "clustering brings little here");
}

/// Promise: programs that wait for durability want the log on a device of its own.
#[test]
fn a_log_for_those_who_wait() {
    let mut world = World::default();
    for n in 1..=10 {
        world.make(n, 100);
        let open = world.opens;
        let close = world.events.pop().unwrap();
        world.event(Kind::Sync, n, Event { open, ..Event::default() });
        world.events.push(Event { time: world.now, ..close });
    }
    assert_eq!(world.advice("log"), "1 MiB, on a fast device of its own: programs wait for it");
}

/// Promise: an empty trace is no error, and gives no advice.
#[test]
fn nothing_from_nothing() {
    let advice = advise(&World::default().measured());
    assert_eq!(advice, []);
    assert_eq!(section(&advice).outcome.findings, ["The trace is too small to say anything."]);
}
