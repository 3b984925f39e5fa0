//! Promises of synthetic traces.

use super::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_analyze::paper::TRACES;
use spindle_analyze::{By, analyze};
use spindle_trace::{Batch, Event, FileId, Flags, Kind, Source};
use std::collections::HashMap;

fn model(name: &str) -> Model {
    Model::parse(Model::built_in(name).unwrap(), name).unwrap()
}

pub fn made(model: Model, length: Length, seed: u64) -> Vec<Event> {
    let mut source = Synthesis::new(model, length, seed);
    let (mut batch, mut all) = (Batch::default(), Vec::new());
    while source.next(&mut batch).unwrap() {
        all.extend(&batch.events);
    }
    all
}

/// Promise: a seed always gives the same trace, another seed another one, and a longer trace begins
/// like a shorter one.
#[test]
fn seeds_repeat() {
    let [one, again, other] = [1, 1, 2].map(|seed| made(model("a5"), Length::Hours(2.0), seed));
    assert_eq!(one, again);
    assert_ne!(one, other);
    let counted = made(model("a5"), Length::Events(5000), 1);
    assert!(counted.len() >= 5000 && counted.len() < 5100);
    assert_eq!(counted[..5000], one[..5000]);
}

/// Promise: memory is bounded by the population, however long the trace is.
#[test]
fn memory_is_bounded() {
    let model = model("a5");
    let files =
        |of| model.class.values().filter(|class| class.of == of).map(|class| class.files).sum::<usize>();
    let population = files(Owner::System) + files(Owner::User) * model.users.count as usize;
    // Each user runs one command, and some run others in the background, each with a few files of
    // its own and files that are removed but open.
    let running = 20 * model.users.count as usize;
    let mut source = Synthesis::new(model, Length::Hours(200.0), 1);
    let (mut batch, mut most, mut events) = (Batch::default(), 0, 0);
    while source.next(&mut batch).unwrap() {
        most = most.max(source.kept());
        events += batch.events.len();
    }
    assert!(events > 1_000_000, "{events}");
    assert!(
        most < population + running,
        "{most} files and entries in memory, for a population of {population}"
    );
}

/// Checks that events keep the invariants of traces.
pub fn obeys(events: &[Event]) {
    let mut open: HashMap<u64, (Event, u64)> = HashMap::new();
    let mut sizes: HashMap<FileId, u64> = HashMap::new();
    let mut seen = 0;
    for pair in events.windows(2) {
        assert!(pair[0].time <= pair[1].time, "{pair:?}");
    }
    for event in events {
        if event.kind.ends_run() {
            let (opened, position) =
                open.get_mut(&event.open).unwrap_or_else(|| panic!("not open: {event:?}"));
            let apart = event.flags.has(Flags::POSITIONAL) || event.flags.has(Flags::MAPPED);
            let begins = if apart { event.position } else { *position };
            assert_eq!(
                (opened.file, opened.user, begins),
                (event.file, event.user, event.position),
                "{event:?}"
            );
            assert!(event.read == 0 || event.written == 0 && opened.flags.has(Flags::READ), "{event:?}");
            assert!(event.written == 0 || opened.flags.has(Flags::WRITE), "{event:?}");
            let size = sizes.entry(event.file).or_default();
            if event.written > 0 {
                *size = (*size).max(event.end());
            }
            if !apart {
                *position = if event.kind == Kind::Seek { event.new_position } else { event.end() };
            }
            assert!(event.kind != Kind::Seek || event.new_position != event.end(), "{event:?}");
        }
        match event.kind {
            Kind::Open | Kind::Create => {
                assert!(event.open > seen, "opens are numbered in order: {event:?}");
                seen = event.open;
                let known = sizes.insert(event.file, event.size);
                assert!(event.kind == Kind::Open || known.is_none(), "made twice: {event:?}");
                assert!(known.is_none_or(|size| size == event.size), "{known:?} {event:?}");
                if event.flags.has(Flags::TRUNCATED) {
                    sizes.insert(event.file, 0);
                }
                open.insert(event.open, (*event, 0));
            }
            Kind::Close => {
                assert_eq!(sizes[&event.file], event.size, "{event:?}");
                open.remove(&event.open);
            }
            Kind::Truncate => drop(sizes.insert(event.file, event.size)),
            _ => {}
        }
    }
}

/// Promise: traces of every built-in model keep the rules, whatever the seed.
#[test]
fn torture_traces_obey_the_rules() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("it is a number"));
    let seed = number("SPINDLE_SEED").unwrap_or_else(|| StdRng::from_os_rng().random());
    let cases = number("SPINDLE_CASES").unwrap_or(3);
    println!("SPINDLE_SEED={seed} cargo test -p spindle-synth torture_traces_obey_the_rules");
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..cases {
        for (name, _) in Model::BUILT_IN {
            obeys(&made(model(name), Length::Hours(2.0), random.random()));
        }
    }
}

/// Promise: a day of each machine resembles the paper's trace in activity and order of accesses.
#[test]
#[allow(clippy::cast_precision_loss)] // Shares and rates.
fn days_are_like_the_papers() {
    for paper in &TRACES {
        let model = model(&paper.name.to_ascii_lowercase());
        let found = analyze(&mut Synthesis::new(model, Length::Hours(24.0), 1), |_| {}).unwrap();
        let name = paper.name;
        for (kind, count) in paper.events.iter().filter(|(kind, _)| *kind != Kind::Truncate) {
            let (ours, theirs) = (found.totals.count(*kind) as f64 / 24.0, count / paper.hours);
            assert!((ours / theirs - 1.0).abs() < 0.3, "{name}: {kind:?}s in an hour: {ours}, {theirs}");
        }
        let [reads, writes, both] = found.patterns.modes;
        let percent = |part: u64, all: u64| 100.0 * part as f64 / all as f64;
        for (what, ours, theirs) in [
            ("whole reads", percent(reads.whole, reads.accesses), paper.whole_reads.1),
            ("whole writes", percent(writes.whole, writes.accesses), paper.whole_writes.1),
            ("sequential reads", percent(reads.sequential, reads.accesses), paper.sequential_reads.1),
            ("sequential writes", percent(writes.sequential, writes.accesses), paper.sequential_writes.1),
            ("sequential both", percent(both.sequential, both.accesses), paper.sequential_both.1),
        ] {
            assert!((ours - 100.0 * theirs).abs() < 5.0, "{name}: {what}: {ours}, {theirs}");
        }
        let active = found.activity.minutes.active.mean;
        assert!((active / paper.minute_users.0 - 1.0).abs() < 0.3, "{name}: {active} active users");
        let short = found.patterns.open_times.share_below(500_000_000, By::Count).unwrap();
        assert!((0.65..0.85).contains(&short), "{name}: {short} are open less than half a second");
    }
}

/// Promise: an invalid model is refused with the place of the error.
#[test]
fn bad_models_are_refused() {
    let good = Model::built_in("a5").unwrap();
    for (old, new, complaint) in [
        ("on = \"header\"", "on = \"haeder\"", "compile: step 5: there is no class or program \"haeder\""),
        ("count = 150", "count = 0", "count must be at least 1"),
        ("login = \"login\"", "login = \"logout\"", "there is no command logout"),
        ("inequality", "unequality", "unequality"),
        ("{ fixed = 45000 }", "{ fixed = -1 }", "-1 is not a finite number of at least 0"),
    ] {
        assert!(good.contains(old), "{old}");
        let refused = Model::parse(&good.replacen(old, new, 1), "test").unwrap_err().to_string();
        assert!(refused.starts_with("model test: ") && refused.contains(complaint), "{refused}");
    }
}

/// Promise: drawn values stay within their bounds and have the expected mean.
#[test]
fn draws_have_their_means() {
    let mut random = StdRng::seed_from_u64(7);
    let steps = Distribution::Steps(vec![(10.0, 1.0), (10.0, 1.0), (20.0, 0.0), (30.0, 2.0)]);
    for (distribution, mean, tolerance) in [
        (Distribution::Fixed(3.0), 3.0, 1e-9),
        (Distribution::Uniform(1.0, 3.0), 2.0, 0.02),
        (Distribution::Exponential(5.0), 5.0, 0.1),
        (Distribution::Lognormal(2.0, 0.5), 2.0 * 0.125_f64.exp(), 0.03),
        (
            Distribution::Mix(vec![(1.0, Distribution::Fixed(1.0)), (3.0, Distribution::Fixed(2.0))]),
            1.75,
            0.01,
        ),
        (steps, 17.3, 0.2),
    ] {
        let draws = 40_000;
        let sum: f64 = (0..draws).map(|_| distribution.draw(&mut random)).sum();
        let found = sum / f64::from(draws);
        assert!((found - mean).abs() < tolerance, "{distribution:?}: {found}");
    }
    let mut counts = [0_u32; 8];
    for _ in 0..40_000 {
        counts[distribution::rank(8, 0.5, 1.5, &mut random)] += 1;
    }
    assert!(counts.windows(2).all(|pair| pair[0] > pair[1]), "{counts:?}");
    assert!(
        Distribution::Bounded(2.0, 0.5, 1.0).check().is_err() && Distribution::Mix(vec![]).check().is_err()
    );
}
