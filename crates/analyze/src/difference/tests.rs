//! Tests of comparisons: intervals that are known, and loads of random bursts.

use super::*;
use crate::tests::MemorySource;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_trace::{Batch, Event, FileId, Flags, Info};

/// Returns a sample of ten minutes in which bursts of up to 20 files are written: about one
/// burst in `gap` ms, files of up to `size` bytes, some of which are deleted after up to `life` ms.
fn load(seed: u64, gap: i64, size: u64, life: i64) -> Sample {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut events = Vec::new();
    let (mut time, mut file) = (0, 0);
    while time < 600_000 {
        time += rng.random_range(0..2 * gap);
        for _ in 0..rng.random_range(1..20) {
            file += 1;
            let event = Event {
                time: time * 1_000_000,
                flags: Flags::WRITE,
                open: file,
                file: FileId { device: 1, inode: file },
                ..Event::default()
            };
            let size = rng.random_range(1..=size);
            let closed = event.time + rng.random_range(1..50_000_000);
            let dead = closed + rng.random_range(1..=life) * 1_000_000;
            events.push(Event { kind: Kind::Create, ..event });
            events.push(Event { time: closed, kind: Kind::Close, written: size, size, calls: 1, ..event });
            if rng.random_bool(0.7) {
                events.push(Event { time: dead, kind: Kind::Unlink, open: 0, flags: Flags::LAST, ..event });
            }
        }
    }
    events.sort_by_key(|event| event.time);
    let batch = Batch { events, ..Batch::default() };
    sample(batch)
}

fn sample(batch: Batch) -> Sample {
    Sample::of(&mut MemorySource(Some(batch), Info::default()), |_| ()).unwrap()
}

/// Returns the names of the figures that differ, and the number of all.
fn different(before: &Sample, after: &Sample) -> (Vec<String>, usize) {
    let compared = compare(before, after);
    let all = || compared.iter().flat_map(|comparison| &comparison.figures);
    let names = all().filter(|figure| figure.differs).map(|figure| figure.name.clone());
    (names.collect(), all().count())
}

/// Promise: loads that differ only by chance, and in bursts, hardly ever differ beyond noise; a
/// trace never differs from itself.
#[test]
fn chance_is_noise() {
    let loads: Vec<_> = (1..9).map(|seed| load(seed, 300, 50_000, 5000)).collect();
    let (mut false_ones, mut all) = (Vec::new(), 0);
    for (n, before) in loads.iter().enumerate() {
        assert_eq!(different(before, before).0, [""; 0]);
        for after in &loads[..n] {
            let (names, count) = different(before, after);
            false_ones.extend(names);
            all += count;
        }
    }
    assert!(all > 500 && false_ones.len() * 100 <= all, "{} of {all}: {false_ones:?}", false_ones.len());
}

/// Promise: a load of larger files, of more bursts or of longer lives differs in what this changes,
/// with about the right ratio, and not in the rest.
#[test]
fn changes_are_found() {
    let before = load(1, 300, 50_000, 5000);
    let ratio = |after: &Sample, name: &str| {
        let compared = compare(&before, after);
        let mut figures = compared.iter().flat_map(|comparison| &comparison.figures);
        let found = figures.find(|figure| figure.name == name).unwrap();
        (found.differs, found.ratio.unwrap())
    };
    let larger = load(2, 300, 100_000, 5000);
    let (differs, times) = ratio(&larger, "size of a file at its close: half up to");
    assert!(differs && (1.8..=2.2).contains(&times), "{times}");
    assert!(ratio(&larger, "bytes written").0 && !ratio(&larger, "create events").0);
    let more = load(3, 100, 50_000, 5000);
    for name in ["create events", "create events per second", "close events", "bytes written"] {
        let (differs, ratio) = ratio(&more, name);
        assert!(differs && (2.7..=3.3).contains(&ratio), "{name}: {ratio}");
    }
    assert!(!ratio(&more, "length of a run: half up to").0);
    let longer = load(4, 300, 50_000, 20_000);
    let (differs, times) = ratio(&longer, "lifetime of new data: half up to");
    assert!(differs && (3.7..=4.3).contains(&times), "{times}");
    assert!(
        !ratio(&longer, "create events").0 && !ratio(&longer, "size of a file at its close: 90 % up to").0
    );
}

/// Promise: a count and a share of independent events have the intervals of Poisson and Wilson, and
/// those of events of which one in four is independent are twice as wide.
#[test]
fn intervals() {
    let near = |estimate: Estimate, low: f64, high: f64| {
        let is_near = |a: f64, b: f64| (a - b).abs() < 0.01 * high;
        assert!(is_near(estimate.low, low) && is_near(estimate.high, high), "{estimate:?}");
    };
    near(Estimate::count(1000.0, 1.0), 915.5, 1092.3);
    near(Estimate::count(4000.0, 4.0), 4.0 * 915.5, 4.0 * 1092.3);
    near(Estimate::count(0.0, 1.0), 0.0, 8.68);
    near(Estimate::share(0.5, 1000.0, 1.0), 0.4536, 0.5464);
    near(Estimate::share(0.5, 4000.0, 4.0), 0.4536, 0.5464);
    near(Estimate::share(0.0, 1000.0, 1.0), 0.0, 0.0086);
    let close =
        |counts: &[f64], wanted: f64| assert!((dispersion(counts) - wanted).abs() < 1e-9, "{counts:?}");
    close(&[2.0, 4.0, 6.0], 1.0);
    close(&[0.0, 40.0], 40.0);
    close(&[], 1.0);
    close(&[0.0, 0.0], 1.0);
}

/// Promise: a trace is cut into equal parts, at least as many as are needed and less than twice as
/// many, however long it is and whatever its pauses are; what is too short shows no difference.
#[test]
fn parts() {
    for (times, is_enough) in [
        (vec![0, 1, 2], false),
        ((0..1000).collect(), false),
        ((0..1_000_000).step_by(1000).map(|n| n * 1000).collect(), true),
        (vec![0, 3_600_000_000_000, 3_600_000_000_001], true),
        (vec![i64::MIN, 0, i64::MAX], true),
    ] {
        let at = |&time: &i64| Event { time, kind: Kind::Mkdir, ..Event::default() };
        let found = sample(Batch { events: times.iter().map(at).collect(), ..Batch::default() });
        let parts = found.parts.until.len();
        assert_eq!((PARTS..2 * PARTS).contains(&parts), is_enough, "{parts} of {}", times.len());
        let count = found.count(|found| found.totals.count(Kind::Mkdir));
        assert_eq!(count.high.is_finite(), is_enough, "{count:?}");
    }
}

/// Promise: of any trace each figure is a number within its interval.
#[test]
fn torture_figures_are_numbers() {
    let seed = std::env::var("SPINDLE_SEED");
    let seed: u64 = seed.map_or_else(|_| StdRng::from_os_rng().random(), |seed| seed.parse().unwrap());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-analyze torture_figures_are_numbers");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut random = || sample(Batch { events: crate::tests::random::random(&mut rng), ..Batch::default() });
    for case in 0..100 {
        let compared = compare(&random(), &random());
        for figure in compared.iter().flat_map(|comparison| &comparison.figures) {
            for Estimate { value, low, high } in figure.before.iter().chain(&figure.after) {
                let is_right = value.is_finite() && low <= value && value <= high;
                assert!(is_right, "case {case}: {figure:?}");
            }
            assert!(figure.ratio.is_none_or(f64::is_finite), "case {case}: {figure:?}");
        }
    }
}

/// Promise: tables have the figures that differ, or all of them; without any a sentence says so.
#[test]
fn shown() {
    let compared = compare(&load(1, 300, 50_000, 5000), &load(3, 100, 50_000, 5000));
    let text = |all| spindle_report::render::sections(&sections(&compared, ["a", "b"], all));
    let (few, all) = (text(false), text(true));
    assert!(few.contains("create events") && few.contains("figures are within noise"), "{few}");
    assert!(all.contains("beyond noise") && all.lines().count() > few.lines().count(), "{all}");
    let none = sample(Batch::default());
    let nothing = compare(&none, &none);
    assert!(nothing.iter().all(|comparison| comparison.figures.is_empty()));
    let text = spindle_report::render::sections(&sections(&nothing, ["a", "b"], false));
    assert!(text.contains("None of 0 figures differs"), "{text}");
}
