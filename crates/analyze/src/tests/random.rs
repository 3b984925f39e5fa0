//! Random traces: the streaming and the naive analyser agree.

use super::super::*;
use super::naive::{self, Naive, Window};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_trace::FileId;

/// Returns a trace of a few files, users and opens in which all kinds of events are mixed.
pub(crate) fn random(rng: &mut StdRng) -> Vec<Event> {
    let mut events = Vec::new();
    let mut open: Vec<Event> = Vec::new();
    let mut opens = 0;
    let mut now = rng.random_range(-10_i64..1 << 50);
    let calm = rng.random_range(0..36);
    // Positions and sizes that often coincide.
    let few = |rng: &mut StdRng| [0, 10, 10, 20, 30, 4096][rng.random_range(0..6)];
    for _ in 0..rng.random_range(1..300) {
        let most = 2_i64 << rng.random_range(0..=calm);
        now += rng.random_range(0..most);
        let file = FileId { device: 1, inode: rng.random_range(0..5) };
        let user = rng.random_range(0..4);
        let base = Event { time: now, file, user, size: few(rng), ..Event::default() };
        let at = rng.random_range(0..6);
        let event = match (rng.random_range(0..10), open.get(at).copied()) {
            (0 | 1, _) => {
                opens += 1;
                let mode = [Flags::READ, Flags::WRITE, Flags::READ | Flags::WRITE][rng.random_range(0..3)];
                let (kind, flags) = match rng.random_range(0..4) {
                    0 => (Kind::Create, mode),
                    1 => (Kind::Open, mode | Flags::TRUNCATED),
                    _ => (Kind::Open, mode),
                };
                let event = Event { kind, flags, open: opens, ..base };
                open.push(event);
                event
            }
            (2, _) => Event {
                kind: Kind::Unlink,
                flags: if rng.random_bool(0.7) { Flags::LAST } else { Flags::NONE },
                ..base
            },
            (3, _) => Event { kind: Kind::Truncate, ..base },
            (4, _) => Event { kind: [Kind::Exec, Kind::Rename, Kind::Mkdir][rng.random_range(0..3)], ..base },
            (n, Some(of)) => {
                let kind = [Kind::Close, Kind::Seek, Kind::Run, Kind::Sync, Kind::Close][n - 5];
                if kind == Kind::Close {
                    open.swap_remove(at);
                }
                let mut event = Event { kind, open: of.open, file: of.file, user: of.user, ..base };
                if kind == Kind::Close && rng.random_bool(0.1) {
                    event.flags = Flags::LAST;
                }
                if kind == Kind::Run && rng.random_bool(0.2) {
                    event.flags = Flags::MAPPED;
                }
                if kind != Kind::Sync {
                    event.position = few(rng);
                    let bytes = few(rng);
                    let write = of.flags.has(Flags::WRITE) && (!of.flags.has(Flags::READ) || rng.random());
                    (event.read, event.written) = if write { (0, bytes) } else { (bytes, 0) };
                }
                event
            }
            (n, None) => {
                // Of an unknown open, or of none.
                let open = if n < 7 { 0 } else { 1_000_000 + rng.random_range(0..3) };
                let kind = [Kind::Run, Kind::Close, Kind::Seek][rng.random_range(0..3)];
                Event { kind, open, read: few(rng), ..base }
            }
        };
        events.push(event);
    }
    // Delay some events by less than a window; events of one open file stay in order.
    for n in 1..events.len() {
        let alone = events[n].open == 0 && events[n].time - events[0].time > 20_000_000_000;
        if alone && rng.random_bool(0.2) {
            events[n].time -= rng.random_range(0..9_000_000_000);
        }
    }
    events
}

/// Formats the events, one per line.
fn listing(events: &[Event]) -> String {
    let line = |e: &Event| {
        let (file, kind) = (e.file.inode, e.kind.name());
        let run = (e.position, e.read, e.written);
        format!(
            "{} {kind} {:#x} open {} file {file} size {} run {run:?}\n",
            e.time, e.flags.0, e.open, e.size
        )
    };
    events.iter().map(line).collect()
}

fn streamed(found: &Findings) -> Naive {
    let patterns = found.patterns.clone();
    Naive {
        modes: patterns.modes,
        runs: patterns.runs,
        sizes: patterns.sizes,
        open_times: patterns.open_times,
        intervals: patterns.intervals,
        ended: found.lifetimes.ended.clone(),
        surviving: found.lifetimes.surviving,
        windows: <[Window; 2]>::default(),
        open_most: found.today.open_most,
    }
}

/// Promise: on random traces the streaming analyser agrees with a naive one that keeps all events.
#[test]
fn torture_against_naive() {
    let seed =
        std::env::var("SPINDLE_SEED").map_or_else(|_| StdRng::from_os_rng().random(), |s| s.parse().unwrap());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-analyze torture_against_naive");
    let mut rng = StdRng::seed_from_u64(seed);
    let cases = std::env::var("SPINDLE_CASES").map_or(300, |s| s.parse().unwrap());
    for case in 0..cases {
        let events = random(&mut rng);
        let found = super::analysed(events.clone());
        let mut expected = naive::analysed(&events);
        let windows = std::mem::take(&mut expected.windows);
        assert_eq!(streamed(&found), expected, "case {case}:\n{}", listing(&events));
        for (window, found) in windows.iter().zip([&found.activity.minutes, &found.activity.seconds]) {
            assert_eq!(found.count, window.users.len() as u64, "case {case}");
            for (values, found) in [(&window.users, found.active), (&window.rates, found.throughput)] {
                let (mean, deviation) = moments(values);
                let close = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()));
                assert!(
                    close(found.mean, mean) && close(found.deviation, deviation),
                    "case {case}: {found:?}, {mean} {deviation}"
                );
            }
        }
    }
}

#[allow(clippy::cast_precision_loss)] // Small numbers.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
}
