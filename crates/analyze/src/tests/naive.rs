//! The same findings from all events at once: each figure is calculated by going through all events
//! again.

use super::super::*;
use spindle_trace::FileId;
use spindle_trace::follow::Mode;
use std::collections::{BTreeMap, BTreeSet};

/// Results of the naive analyser.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Naive {
    pub(super) modes: [Orders; 3],
    pub(super) runs: Histogram,
    pub(super) sizes: Histogram,
    pub(super) open_times: Histogram,
    pub(super) intervals: Histogram,
    pub(super) ended: Histogram,
    pub(super) surviving: Lives,
    pub(super) windows: [Window; 2],
    pub(super) open_most: u64,
}

/// Whole windows of a length: the active users of each, and bytes per second per user.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Window {
    pub(super) users: Vec<f64>,
    pub(super) rates: Vec<f64>,
}

pub(super) fn analysed(events: &[Event]) -> Naive {
    // What was mapped is not counted.
    let counts = |event: &&Event| !(event.kind == Kind::Run && event.flags.has(Flags::MAPPED));
    let events: &[Event] = &events.iter().filter(counts).copied().collect::<Vec<_>>();
    let mut found = Naive { windows: LENGTHS.map(|length| window(events, length)), ..Naive::default() };
    for event in events.iter().filter(|event| event.kind.ends_run() && event.bytes() > 0) {
        found.runs.add(event.bytes(), event.bytes());
    }
    let opens: BTreeSet<u64> = events.iter().map(|event| event.open).filter(|&open| open > 0).collect();
    for open in opens {
        let of: Vec<&Event> =
            events.iter().filter(|event| event.open == open && follows(event.kind)).collect();
        access(&of, &mut found);
    }
    found.open_most = (0..events.len()).map(|n| open_after(&events[..=n])).max().unwrap_or(0);
    let files: BTreeSet<FileId> = events.iter().map(|event| event.file).collect();
    for file in files {
        lives(events, file, &mut found);
    }
    found
}

fn follows(kind: Kind) -> bool {
    matches!(kind, Kind::Open | Kind::Create | Kind::Close | Kind::Seek | Kind::Run | Kind::Sync)
}

fn open_after(events: &[Event]) -> u64 {
    let mut open = BTreeSet::new();
    for event in events {
        match event.kind {
            Kind::Open | Kind::Create => open.insert(event.open),
            Kind::Close => open.remove(&event.open),
            _ => false,
        };
    }
    open.len() as u64
}

/// Adds the events of one open number, which begin at most one access.
fn access(of: &[&Event], found: &mut Naive) {
    let Some(begin) = of.iter().position(|event| matches!(event.kind, Kind::Open | Kind::Create)) else {
        return;
    };
    for pair in of[begin..].windows(2) {
        let apart = u64::try_from(pair[1].time - pair[0].time).unwrap();
        found.intervals.add(apart, pair[1].bytes());
    }
    let (first, last) = (of[begin], of[of.len() - 1]);
    if last.kind != Kind::Close {
        return;
    }
    let runs: Vec<_> =
        of[begin..].iter().filter(|e| e.bytes() > 0).map(|e| (e.position, e.position + e.bytes())).collect();
    let bytes: u64 = of[begin..].iter().map(|event| event.bytes()).sum();
    found.sizes.add(last.size, bytes);
    found.open_times.add(u64::try_from(last.time - first.time).unwrap(), bytes);
    let mode = match (first.flags.has(Flags::READ), first.flags.has(Flags::WRITE)) {
        (true, false) => Mode::Read,
        (false, true) => Mode::Write,
        (true, true) => Mode::Both,
        (false, false) => unreachable!("the test opens files for something"),
    };
    let adjoin = runs.windows(2).all(|pair| pair[0].1 == pair[1].0);
    let ends = runs.first().zip(runs.last()).map(|(first, last)| (first.0, last.1));
    let whole = adjoin && ends.map_or(last.size == 0, |(from, to)| from == 0 && to >= last.size);
    let orders = &mut found.modes[mode as usize];
    orders.accesses += 1;
    orders.bytes += bytes;
    orders.whole += u64::from(whole);
    orders.whole_bytes += if whole { bytes } else { 0 };
    orders.sequential += u64::from(adjoin);
    orders.sequential_bytes += if adjoin { bytes } else { 0 };
    orders.untouched += u64::from(runs.is_empty() && !whole);
}

fn window(events: &[Event], length: i64) -> Window {
    let Some(first) = events.first() else { return Window::default() };
    let mut users: BTreeMap<i64, BTreeSet<u32>> = BTreeMap::new();
    let mut bytes: BTreeMap<i64, u64> = BTreeMap::new();
    let place = |event: &Event| (event.time - first.time).max(0) / length;
    for event in events {
        users.entry(place(event)).or_default().insert(event.user);
        *bytes.entry(place(event)).or_default() += event.bytes();
    }
    let whole = events.iter().map(place).max().unwrap_or(0);
    let mut window = Window::default();
    #[allow(clippy::cast_precision_loss)] // Small numbers.
    for n in 0..whole {
        let active = users.get(&n).map_or(0, BTreeSet::len) as f64;
        let rate = bytes.get(&n).copied().unwrap_or(0) as f64 / (length as f64 / 1e9);
        window.users.push(active);
        window.rates.push(if active > 0.0 { rate / active } else { 0.0 });
    }
    window
}

/// Adds the lives of one file's data: each from the event that begins it to the first later event
/// that ends it.
fn lives(events: &[Event], file: FileId, found: &mut Naive) {
    let of: Vec<&Event> = events.iter().filter(|event| event.file == file).collect();
    let (mut at, mut still) = (0, 0);
    while at < of.len() {
        if !begins(of[at]) {
            at += 1;
            continue;
        }
        // After a truncating call, the data still belongs to the open that created it, if that is
        // open.
        let (birth, mut maker) = (of[at], if of[at].kind == Kind::Truncate { still } else { of[at].open });
        still = 0;
        let (mut written, mut extent, mut unlinked) = (0, 0, false);
        let mut end = None;
        for (n, event) in of.iter().enumerate().skip(at + 1) {
            let data = written.min(extent);
            let covers = data > 0 && event.written > 0 && event.position == 0 && event.written >= extent;
            if event.written > 0 && !covers {
                written += event.written;
                extent = extent.max(event.position + event.written);
            }
            let makers_close = event.kind == Kind::Close && event.open == maker;
            if makers_close {
                maker = 0;
            }
            if event.kind == Kind::Create {
                // Its end was not seen.
                end = Some((n, false));
            } else if begins(event) && data == 0 {
                maker = if event.kind == Kind::Truncate { maker } else { event.open };
            } else if begins(event) || covers {
                end = Some((n, true));
            } else if event.kind == Kind::Truncate {
                extent = extent.min(event.size);
            } else if event.kind == Kind::Unlink && event.flags.has(Flags::LAST) {
                unlinked = true;
                end = (maker == 0).then_some((n, true));
            } else if event.kind == Kind::Close
                && (event.flags.has(Flags::LAST) || (unlinked && makers_close))
            {
                end = Some((n, true));
            }
            if end.is_some() {
                break;
            }
        }
        let bytes = written.min(extent);
        match end {
            Some((n, true)) => {
                let age = u64::try_from(of[n].time - birth.time).unwrap_or(0);
                found.ended.add(age, bytes);
                still = maker;
                at = if begins(of[n]) {
                    n
                } else {
                    still = 0;
                    n + 1
                };
            }
            Some((n, false)) => at = n,
            None => {
                found.surviving.files += 1;
                found.surviving.bytes += bytes;
                at = of.len();
            }
        }
    }
}

fn begins(event: &Event) -> bool {
    match event.kind {
        Kind::Create => true,
        Kind::Open => event.flags.has(Flags::TRUNCATED),
        Kind::Truncate => event.size == 0,
        _ => false,
    }
}
