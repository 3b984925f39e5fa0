//! Tests of the analyser: a small trace with tables calculated by hand, and random traces compared
//! with a naive analyser that keeps all events.

mod naive;
pub(crate) mod random;

use super::*;
use spindle_trace::{FileId, Names};

const SECOND: i64 = 1_000_000_000;
const R: Flags = Flags::READ;
const W: Flags = Flags::WRITE;

/// A source of events in memory.
pub(super) struct MemorySource(pub(super) Option<Batch>, pub(super) Info);

impl Source for MemorySource {
    fn info(&self) -> Info {
        self.1.clone()
    }

    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        batch.clear();
        let Some(events) = self.0.take() else { return Ok(false) };
        *batch = events;
        Ok(true)
    }
}

fn analysed(events: Vec<Event>) -> Findings {
    let batch = Batch { events, names: Names::default() };
    analyze(&mut MemorySource(Some(batch), Info::default()), |_| ()).unwrap()
}

/// Returns an event at a time in ms, with `file` as the number of the file and of the open.
fn event(ms: i64, kind: Kind, file: u64, flags: Flags) -> Event {
    let id = FileId { device: 1, inode: file };
    Event {
        time: 7 * SECOND + ms * 1_000_000,
        kind,
        flags,
        open: file,
        file: id,
        user: 1,
        ..Event::default()
    }
}

/// Returns a small trace: user 1 reads a file of 1000 bytes at once. User 2 creates a file of 5000
/// bytes in two adjoining runs, reads the end of a file of 20,000 bytes, deletes the created file,
/// and loads a program. User 1 reads and writes 100 bytes in place at the end.
pub(super) fn small() -> Vec<Event> {
    let two = |event| Event { user: 2, ..event };
    vec![
        Event { size: 1000, ..event(0, Kind::Open, 1, R) },
        Event { size: 1000, read: 1000, calls: 2, ..event(100, Kind::Close, 1, R) },
        two(event(1_000, Kind::Create, 2, W)),
        two(Event { written: 4000, calls: 1, ..event(1_400, Kind::Run, 2, W) }),
        two(Event { position: 4000, written: 1000, size: 5000, ..event(2_000, Kind::Close, 2, W) }),
        two(Event { size: 20_000, ..event(3_000, Kind::Open, 3, R) }),
        two(Event { new_position: 19_000, ..event(3_000, Kind::Seek, 3, R) }),
        two(Event { position: 19_000, read: 600, size: 20_000, ..event(15_000, Kind::Close, 3, R) }),
        two(Event { open: 0, size: 5000, ..event(21_000, Kind::Unlink, 2, Flags::LAST) }),
        two(Event { open: 0, size: 70_000, ..event(22_000, Kind::Exec, 9, Flags::NONE) }),
        Event { size: 3000, ..event(41_000, Kind::Open, 4, R | W) },
        Event { read: 100, ..event(41_000, Kind::Run, 4, R | W) },
        event(41_000, Kind::Sync, 4, R | W),
        Event { written: 100, size: 3000, calls: 4, ..event(41_000, Kind::Close, 4, R | W) },
    ]
}

/// Promise: Table III counts events, bytes and time.
#[test]
fn table_3() {
    let found = analysed(small());
    let totals = &found.totals;
    let counts = [Kind::Open, Kind::Create, Kind::Close, Kind::Seek, Kind::Run, Kind::Unlink, Kind::Exec];
    assert_eq!(counts.map(|kind| totals.count(kind)), [3, 1, 4, 1, 2, 1, 1]);
    assert_eq!((totals.records(), totals.read, totals.written, totals.loaded), (14, 1700, 5100, 70_000));
    assert!((totals.seconds() - 41.0).abs() < 1e-9);
    assert!((found.throughput() - 6800.0 / 41.0).abs() < 1e-9);
}

/// Promise: Table IV has four whole windows of ten seconds: both users with 6000 bytes, user 2 with
/// 600, user 2 with none, no user.
#[test]
fn table_4() {
    let activity = analysed(small()).activity;
    assert_eq!((activity.users, activity.minutes.count), (2, 0));
    let seconds = &activity.seconds;
    assert_eq!((seconds.count, seconds.idle, seconds.most), (4, 1, 2));
    // Active: 2, 1, 1, 0. Bytes per second and user: 300, 60, 0, 0.
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
    close(seconds.active.mean, 1.0);
    close(seconds.active.deviation, 0.5_f64.sqrt());
    close(seconds.throughput.mean, 90.0);
    close(seconds.throughput.deviation, ((210.0_f64.powi(2) + 30.0_f64.powi(2) + 2.0 * 8100.0) / 4.0).sqrt());
    close(seconds.peak, 600.0);
}

/// Promise: Table V counts accesses by mode and order, with their bytes.
#[test]
fn table_5() {
    let patterns = analysed(small()).patterns;
    let [read, write, both] = patterns.modes;
    let orders = |o: Orders| [o.accesses, o.whole, o.sequential, o.bytes, o.whole_bytes, o.sequential_bytes];
    assert_eq!(orders(read), [2, 1, 2, 1600, 1000, 1600]);
    assert_eq!(orders(write), [1, 1, 1, 5000, 5000, 5000]);
    assert_eq!(orders(both), [1, 0, 0, 200, 0, 0]);
    assert_eq!(orders(patterns.all()), [4, 2, 3, 6800, 6000, 6600]);
}

/// Promise: figures 1 to 3 and the intervals count each run, size and time once, with its bytes.
#[test]
fn figures_1_to_3() {
    let patterns = analysed(small()).patterns;
    let made = |values: &[(u64, u64)]| {
        let mut histogram = Histogram::default();
        for &(value, weight) in values {
            histogram.add(value, weight);
        }
        histogram
    };
    assert_eq!(
        patterns.runs,
        made(&[(1000, 1000), (4000, 4000), (1000, 1000), (600, 600), (100, 100), (100, 100)])
    );
    assert_eq!(patterns.sizes, made(&[(1000, 1000), (5000, 5000), (20_000, 600), (3000, 200)]));
    let ms = 1_000_000;
    assert_eq!(
        patterns.open_times,
        made(&[(100 * ms, 1000), (1000 * ms, 5000), (12_000 * ms, 600), (0, 200)])
    );
    let intervals =
        [(100, 1000), (400, 4000), (600, 1000), (0, 0), (12_000, 600), (0, 100), (0, 0), (0, 100)];
    assert_eq!(patterns.intervals, made(&intervals.map(|(time, bytes)| (time * ms, bytes))));
}

/// Promise: in figure 4, lives begin when a file is created or truncated and end by deletion,
/// truncation or overwriting, that of a scratch file at its close; data alive at the end survives,
/// and old files are not followed.
#[test]
fn figure_4() {
    let lifetimes = analysed(small()).lifetimes;
    assert_eq!((lifetimes.ended.count(), lifetimes.ended.most()), (1, 20 * 1_000_000_000));
    assert_eq!(lifetimes.deleted, Lives { files: 1, bytes: 5000 });
    assert_eq!((lifetimes.surviving, lifetimes.written), (Lives::default(), 5000));

    let write = |ms, file, position, written| Event { position, written, ..event(ms, Kind::Run, file, W) };
    let again = |event| Event { open: 100, ..event };
    let found = analysed(vec![
        // File 1 is created with 10 bytes, truncated by another open after 5 s, and gets 20 that
        // survive.
        event(0, Kind::Create, 1, W),
        write(0, 1, 0, 10),
        event(0, Kind::Close, 1, W),
        again(event(5_000, Kind::Open, 1, W | Flags::TRUNCATED)),
        again(write(5_000, 1, 0, 20)),
        again(event(5_000, Kind::Close, 1, W)),
        // File 2 exists and is truncated to 0 twice; its 30 bytes are overwritten after 3 s by one
        // run of 40.
        event(6_000, Kind::Open, 2, W),
        event(6_000, Kind::Truncate, 2, Flags::NONE),
        event(6_500, Kind::Truncate, 2, Flags::NONE),
        write(7_000, 2, 0, 30),
        write(9_000, 2, 0, 40),
        event(9_000, Kind::Close, 2, W),
        // File 3 is created and unlinked at once, written, and deleted by its close after 2 s.
        event(10_000, Kind::Create, 3, W),
        Event { open: 0, ..event(10_000, Kind::Unlink, 3, Flags::LAST) },
        write(11_000, 3, 0, 50),
        event(12_000, Kind::Close, 3, W | Flags::LAST),
        // File 4 keeps a name; 5 existed before; 6 is sparse and truncated.
        event(13_000, Kind::Create, 4, W),
        Event { open: 0, ..event(13_000, Kind::Unlink, 4, Flags::NONE) },
        Event { open: 0, ..event(13_000, Kind::Unlink, 5, Flags::LAST) },
        event(14_000, Kind::Create, 6, W),
        write(14_000, 6, 1000, 24),
        Event { size: 1010, ..event(14_000, Kind::Truncate, 6, Flags::NONE) },
        write(14_000, 6, 0, 6),
    ])
    .lifetimes;
    assert_eq!(found.truncated, Lives { files: 1, bytes: 10 });
    assert_eq!(found.overwritten, Lives { files: 1, bytes: 30 });
    assert_eq!(found.deleted, Lives { files: 1, bytes: 50 });
    assert_eq!((found.surviving, found.lost), (Lives { files: 3, bytes: 20 + 30 }, 0));
    let second = 1_000_000_000;
    let lives: Vec<_> =
        found.ended.buckets().map(|b| ((b.middle() + second / 20) / (second / 10), b.weight)).collect();
    assert_eq!(lives, [(20, 50), (30, 30), (50, 10)]);
    assert_eq!(found.all(), Lives { files: 6, bytes: 140 });
}

/// Promise: requests, fsync, overwriting in place and files open at once are counted.
#[test]
fn today() {
    let today = analysed(small()).today;
    let calls: Vec<_> = today.requests.buckets().map(|b| (b.from, b.count, b.weight)).collect();
    assert_eq!(calls, [(25, 1, 4), (500, 1, 2), (4000, 1, 1)]);
    assert_eq!((today.synced, today.synced_bytes, today.open_most), (1, 100, 1));
    assert_eq!((today.overwritten, today.appended, today.runs), (100, 5000, 6));
    let flagged = |flags, open| Event { flags, open, read: 10, ..event(0, Kind::Run, 1, R) };
    let found = analysed(vec![
        event(0, Kind::Open, 1, R),
        flagged(Flags::POSITIONAL, 1),
        flagged(Flags::MAPPED, 1),
        flagged(Flags::DIRECT, 1),
        flagged(Flags::NONE, 0),
        flagged(Flags::NONE, 77),
    ]);
    let one = Lives { files: 1, bytes: 10 };
    let today = &found.today;
    assert_eq!([today.positional, today.mapped, today.direct], [one; 3]);
    // What was mapped is counted nowhere else.
    assert_eq!((found.totals.read, found.patterns.sizes.count(), today.runs), (40, 0, 4));
    assert_eq!(today.apart, Lives { files: 2, bytes: 20 });
    assert_eq!((found.patterns.unfinished, found.patterns.runs.count()), (1, 4));
}

/// Promise: how much was mapped is said, beside what was read and written.
#[test]
fn what_was_mapped_is_said() {
    let mapped = Event { flags: R | Flags::MAPPED, read: 300_000_000_000, ..event(1, Kind::Run, 1, R) };
    let found =
        analysed(vec![event(0, Kind::Open, 1, R), mapped, Event { read: 10, ..event(2, Kind::Close, 1, R) }]);
    assert_eq!((found.totals.bytes(), found.patterns.all().bytes), (10, 10));
    let text = spindle_report::render::sections(&found.sections(&Show::default()));
    assert!(
        text.contains("Besides the 0.0 MB that were read and written, 300000.0 MB were mapped"),
        "{text}"
    );
}

/// Promise: directories, and files open before the recording, are not counted in the tables of
/// accesses.
#[test]
fn directories_and_earlier_opens_are_not_counted() {
    let found = analysed(vec![
        event(0, Kind::Open, 1, R | Flags::DIRECTORY),
        event(1, Kind::Close, 1, R | Flags::DIRECTORY),
        event(2, Kind::Open, 2, R | Flags::BEFORE),
        Event { read: 10, size: 10, ..event(3, Kind::Close, 2, R) },
        Event { read: 10, size: 10, ..event(4, Kind::Close, 3, R) },
    ]);
    let patterns = &found.patterns;
    assert_eq!((patterns.directories, patterns.before, patterns.all().accesses), (1, 1, 0));
    assert_eq!((patterns.sizes.count(), patterns.open_times.count(), patterns.runs.count()), (1, 0, 2));
    assert_eq!((found.totals.open_before, found.totals.count(Kind::Open), found.totals.records()), (1, 1, 5));
    assert_eq!(found.today.apart, Lives { files: 1, bytes: 10 });
}

/// Promise: an empty trace, and one with extreme values, are shown without a panic.
#[test]
fn empty_and_extreme_traces() {
    let text = |found: &Findings| spindle_report::render::sections(&found.sections(&Show::default()));
    let nothing = text(&analysed(Vec::new()));
    assert!(nothing.contains("Table V") && !nothing.contains("NaN"), "{nothing}");
    let most = Event {
        time: i64::MAX,
        size: u64::MAX,
        position: u64::MAX,
        read: u64::MAX,
        written: u64::MAX,
        calls: u32::MAX,
        ..Event::default()
    };
    let mut events = Vec::new();
    for kind in Kind::ALL {
        for time in [i64::MIN, i64::MAX, -1] {
            for flags in [Flags::NONE, Flags(u32::MAX), Flags::LAST | Flags::TRUNCATED] {
                events.push(Event { time, kind, flags, open: 1, ..most });
                events.push(Event { time, kind, flags, ..most });
            }
        }
    }
    assert!(text(&analysed(events)).contains("Table V"));
}

/// Promise: the sentences and tables show the findings, and the paper's figures only on request.
#[test]
fn sections_show_the_findings() {
    let found = analysed(small());
    let text = |paper| {
        let caches = Some(Caches { saved: Some((0.25, 0.5)), best: None });
        let show = Show { paper, caches, ..Show::default() };
        spindle_report::render::sections(&found.sections(&show))
    };
    let with = text(true);
    for wanted in [
        "168,127  (69.0 %)",
        "1985: A5",
        "between 25.0 % and 50.0 % of all disk",
        "80 % in 1985",
        "11.7 (± 5.8)",
    ] {
        assert!(with.contains(wanted), "{wanted}: {with}");
    }
    assert!(
        with.contains("50.0 % of all file accesses are whole-file transfers (1985: about 70 %)"),
        "{with}"
    );
    assert!(!text(false).contains("1985"), "{}", text(false));
}

/// Promise: actions are charged to their user, program and directory, and data that dies young to
/// its creator; rows are in the order of bytes transferred.
#[test]
fn amounts_are_charged_to_their_cause() {
    let mut names = Names::default();
    let [cc, ld] = ["cc", "ld"].map(|word| names.symbol(word));
    let [tmp, top, bare] = ["/tmp/a/x.o", "/vmunix", "x"].map(|word| names.symbol(word));
    let by = |event, command, path| Event { command, path, ..event };
    let events = vec![
        by(event(0, Kind::Create, 1, W), cc, tmp),
        // The close has no path.
        by(
            Event { written: 500, size: 500, ..event(1, Kind::Close, 1, W) },
            cc,
            spindle_trace::Symbol::default(),
        ),
        by(event(2, Kind::Open, 2, R), ld, top),
        by(
            Event { read: 900, size: 900, ..event(3, Kind::Close, 2, R) },
            ld,
            spindle_trace::Symbol::default(),
        ),
        by(Event { open: 0, user: 9, ..event(4, Kind::Unlink, 1, Flags::LAST) }, ld, tmp),
        by(Event { open: 0, read: 7, ..event(5, Kind::Run, 3, R) }, ld, bare),
        // Never closed.
        by(event(6, Kind::Open, 4, R), cc, top),
        by(Event { read: 30, ..event(7, Kind::Run, 4, R) }, cc, top),
    ];
    let mut source = MemorySource(Some(Batch { events, names }), Info::default());
    let found = analyze_by(&mut source, &Dimension::ALL, 5, |_| ()).unwrap();
    let rows = |n: usize| {
        let rows = found.groups[n].rows.iter();
        rows.map(|row| (row.name.as_str(), row.amounts)).collect::<Vec<_>>()
    };
    // Opens, read, written, created, deleted, died young.
    assert_eq!(rows(0), [("1", [3, 937, 500, 1, 0, 500]), ("9", [0, 0, 0, 0, 1, 0])]);
    assert_eq!(rows(1), [("ld", [1, 907, 0, 0, 1, 0]), ("cc", [2, 30, 500, 1, 0, 500])]);
    assert_eq!(
        rows(2),
        [("/", [2, 930, 0, 0, 0, 0]), ("/tmp/a", [1, 0, 500, 1, 1, 500]), ("", [0, 7, 0, 0, 0, 0])]
    );
    assert_eq!(rows(3), [("0 ld", [1, 907, 0, 0, 1, 0]), ("0 cc", [2, 30, 500, 1, 0, 500])]);
    assert_eq!(
        rows(4),
        [
            ("/vmunix", [2, 930, 0, 0, 0, 0]),
            ("/tmp/a/x.o", [1, 0, 500, 1, 1, 500]),
            ("x", [0, 7, 0, 0, 0, 0])
        ]
    );
    assert_eq!(rows(5), [("", [2, 937, 0, 0, 0, 0]), ("o", [1, 0, 500, 1, 1, 500])]);
    assert_eq!((found.groups[0].totals, found.groups[0].missed), ([3, 937, 500, 1, 1, 500], [0; 6]));
    let text = spindle_report::render::sections(&found.sections(&Show::default()));
    assert!(text.contains("By directory") && text.contains("(unknown)"), "{text}");
    assert!(text.contains("By extension") && text.contains("(none)"), "{text}");
}

/// Promise: the largest names of each amount are there in each order; a file without a path has its
/// numbers.
#[test]
fn groups_have_orders() {
    let mut source = MemorySource(Some(Batch { events: small(), names: Names::default() }), Info::default());
    let mut found = analyze_by(&mut source, &[Dimension::File], 1, |_| ()).unwrap();
    let group = &mut found.groups[0];
    let mut first = |order| {
        group.sort(order);
        group.rows[0].name.clone()
    };
    let name = |inode: u64| format!("inode {inode} of device 1");
    assert_eq!([Order::Bytes, Order::Read, Order::Written].map(&mut first), [name(2), name(1), name(2)]);
    assert_eq!(first(Order::Opens), name(1));
}
