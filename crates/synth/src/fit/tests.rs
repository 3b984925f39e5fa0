//! Promises of fitted models.

use super::super::tests::{made, obeys};
use super::super::{AccessMethod, Length, Model, Synthesis};
use super::*;
use crate::compare::Side;
use spindle_analyze::{Findings, Orders, analyze};
use spindle_trace::follow::Mode;
use spindle_trace::{Event, FileId, Flags, Kind, Names};

fn fitted(open: &dyn Fn() -> Result<Box<dyn Source>>) -> Result<Model> {
    fit("test", open, &|_, _| ())
}

fn of(events: &[Event]) -> Result<Model> {
    let batch = || Batch { events: events.to_vec(), names: Names::default() };
    fitted(&|| Ok(Box::new(batch())))
}

fn a5(hours: f64) -> Synthesis {
    Synthesis::new(Model::parse(Model::built_in("a5").unwrap(), "a5").unwrap(), Length::Hours(hours), 1)
}

/// Promise: the same trace gives the same model, and a printed model reads back unchanged.
#[test]
fn models_are_files() {
    let [one, again] = [(); 2].map(|()| fitted(&|| Ok(Box::new(a5(2.0)))).unwrap());
    assert_eq!(one, again);
    assert_eq!(Model::parse(&one.text().unwrap(), "test").unwrap(), one);
}

/// Promise: traces of a fitted model resemble the trace it was fitted to, in amounts and order.
#[test]
#[allow(clippy::cast_precision_loss)] // Shares and rates.
fn synthetic_traces_resemble_the_original() {
    let hours = 16.0;
    let model = fitted(&|| Ok(Box::new(a5(hours)))).unwrap();
    let side = |open: &dyn Fn() -> Synthesis| Side::of(&|| Ok(Box::new(open())), &|_, _| ()).unwrap();
    let target = side(&|| a5(hours));
    let made = side(&|| Synthesis::new(model.clone(), Length::Hours(hours), 1));
    for (size, points) in [(1 << 20, 0.07), (4 << 20, 0.03), (16 << 20, 0.03)] {
        let [ours, theirs] = [&made, &target].map(|side| side.miss_ratio(size).unwrap());
        assert!((ours - theirs).abs() < points, "a cache of {size} bytes misses {ours}, not {theirs}");
    }
    let (target, made) = (target.findings(), made.findings());
    let near = |what: &str, of: &dyn Fn(&Findings) -> f64, tolerance: f64| {
        let ratio = of(made) / of(target);
        assert!((ratio - 1.0).abs() < tolerance, "{what}: {} of {}", of(made), of(target));
    };
    for kind in [Kind::Open, Kind::Create, Kind::Close, Kind::Seek, Kind::Unlink, Kind::Exec] {
        near(kind.name(), &|found| found.totals.count(kind) as f64, 0.3);
    }
    near("read", &|found| found.totals.read as f64, 0.25);
    near("written", &|found| found.totals.written as f64, 0.25);
    for mode in Mode::ALL {
        let orders = |found: &Findings| found.patterns.modes[mode as usize];
        for part in [|o: &Orders| o.whole, |o: &Orders| o.sequential] {
            let share = |found| part(&orders(found)) as f64 / orders(found).accesses as f64;
            assert!(
                (share(made) - share(target)).abs() < 0.05,
                "{mode:?}: {} {}",
                share(made),
                share(target)
            );
        }
    }
}

/// Promise: a trace without opens is refused with the reason; even a minimal trace has a model that
/// can be run.
#[test]
fn minimal_traces() {
    let run = Event { kind: Kind::Run, read: 512, ..Event::default() };
    let opened = Event {
        open: 1,
        flags: Flags::READ,
        size: 100,
        file: FileId { device: 1, inode: 2 },
        ..Event::default()
    };
    let closed = Event { kind: Kind::Close, read: 100, time: 1000, ..opened };
    for nothing in [&[][..], &[run], &[closed]] {
        let refused = of(nothing).unwrap_err().to_string();
        assert!(refused.contains("no file is opened"), "{refused}");
    }
    for events in [&[opened][..], &[opened, closed], &[opened, opened, closed, closed]] {
        let model = of(events).unwrap();
        let text = model.text().unwrap();
        let mut made = Synthesis::new(Model::parse(&text, "test").unwrap(), Length::Events(50), 1);
        let found = analyze(&mut made, |_| {}).unwrap();
        assert!(found.totals.count(Kind::Open) > 10, "{text}");
    }
}

/// Promise: runs that always have the same position and method keep both; files that commands
/// create for themselves belong to the command; syncs, renames and directories are kept.
#[test]
fn details_of_steps_are_kept() {
    let mut events = Vec::new();
    let mut time = 0;
    let mut say = |event: Event| {
        time += 1_000_000;
        events.push(Event { time, ..event });
    };
    for round in 1..200 {
        let process = u32::try_from(round).unwrap();
        let library = Event {
            open: 3 * round,
            process,
            flags: Flags::READ,
            size: 300_000,
            file: FileId { device: 1, inode: 2 },
            ..Event::default()
        };
        say(library);
        let mapped = Event { kind: Kind::Run, flags: Flags::READ | Flags::MAPPED, ..library };
        say(Event { position: 4096, read: 200_000, ..mapped });
        say(Event { position: 204_800, read: 90_000, ..mapped });
        say(Event { kind: Kind::Close, read: 832, ..library });
        let file = FileId { device: 1, inode: 1000 + round };
        let file = Event { open: 3 * round + 1, file, flags: Flags::WRITE, size: 0, ..library };
        say(Event { kind: Kind::Create, ..file });
        say(Event { kind: Kind::Sync, ..file });
        say(Event { kind: Kind::Close, written: 5000, size: 5000, ..file });
        if round % 2 == 0 {
            say(Event { kind: Kind::Unlink, flags: Flags::LAST, open: 0, ..file });
        } else {
            say(Event { kind: Kind::Rename, flags: Flags::NONE, open: 0, ..file });
        }
        say(Event { kind: Kind::Mkdir, flags: Flags::DIRECTORY, process, ..Event::default() });
    }
    let model = of(&events).unwrap();
    let step = |act: Operation| {
        let mut steps = model.command.iter().flat_map(|command| &command.steps);
        steps.find(|step| step.act == act).unwrap_or_else(|| panic!("{act:?}: {model:#?}")).clone()
    };
    let pieces: Vec<_> = step(Operation::Lookup).pieces.iter().map(|p| (p.at, p.bytes, p.way)).collect();
    assert_eq!(
        pieces,
        [
            (4096, 200_000, AccessMethod::Mapped),
            (204_800, 90_000, AccessMethod::Mapped),
            (0, 832, AccessMethod::Calls)
        ]
    );
    assert_eq!(step(Operation::Create).syncs, Some(Distribution::Fixed(1.0)));
    assert!(model.class.values().any(|class| class.of == Owner::Command));
    assert!(model.class.values().any(|class| class.of == Owner::System && class.most.is_some()));
    obeys(&made(model.clone(), Length::Events(20_000), 1));
    let found = analyze(&mut Synthesis::new(model, Length::Events(5000), 1), |_| {}).unwrap();
    let count = |kind| found.totals.count(kind);
    assert!(
        count(Kind::Run).abs_diff(2 * count(Kind::Open)) <= 4,
        "two positional runs per open, except for files still open"
    );
    for kind in [Kind::Sync, Kind::Rename, Kind::Unlink, Kind::Mkdir] {
        assert!(count(kind) > 100, "{kind:?}: {}", count(kind));
    }
}

/// Promise: calls that only look at files or change their attributes are as frequent in the
/// synthetic trace as in the original, fail as often, and concern the same kinds of files; the
/// order in which files are opened does not depend on them.
#[test]
#[allow(clippy::cast_precision_loss)] // Rates.
fn control_calls_are_kept() {
    let mut names = Names::default();
    let [path, other, program] = ["/src/a.c", "/elsewhere/b", "cc"].map(|word| names.symbol(word));
    let mut events = Vec::new();
    for round in 1..400 {
        let file = FileId { device: 1, inode: 2 + round % 20 };
        let base = Event {
            time: i64::try_from(round).unwrap() * 1_000_000_000,
            process: u32::try_from(round).unwrap(),
            command: program,
            path,
            file,
            ..Event::default()
        };
        let call = |kind| Event { kind, ..base };
        events.extend([Event { size: 9000, ..call(Kind::Stat) }, call(Kind::Access)]);
        events.push(Event { flags: Flags::FAILED, file: FileId::default(), path: other, ..call(Kind::Stat) });
        let opened = Event { open: round, flags: Flags::READ, size: 9000, ..base };
        events.extend([opened, Event { kind: Kind::Close, read: 9000, ..opened }]);
        if round % 4 == 0 {
            events.extend([call(Kind::Chmod), call(Kind::Utime)]);
        }
    }
    let batch = || Batch { events: events.clone(), names: names.clone() };
    let open = || -> Result<Box<dyn Source>> { Ok(Box::new(batch())) };
    let model = fitted(&open).unwrap();
    let without = {
        let events: Vec<_> = events.iter().filter(|event| !event.kind.is_control_call()).copied().collect();
        let batch = || Batch { events: events.clone(), names: names.clone() };
        fitted(&|| Ok(Box::new(batch()))).unwrap()
    };
    assert_eq!(model.class, without.class);
    let target = analyze(&mut *open().unwrap(), |_| {}).unwrap();
    let text = model.text().unwrap();
    let model = Model::parse(&text, "test").unwrap();
    let made = made(model, Length::Events(40_000), 1);
    obeys(&made);
    let opens = made.iter().filter(|event| event.kind == Kind::Open).count() as f64;
    for kind in [Kind::Stat, Kind::Access, Kind::Chmod, Kind::Utime, Kind::Readlink] {
        let ours = made.iter().filter(|event| event.kind == kind).count() as f64 / opens;
        let theirs = target.totals.count(kind) as f64 / target.totals.count(Kind::Open) as f64;
        assert!((ours - theirs).abs() <= 0.1 * theirs, "{kind:?}: {ours} of {theirs} an open: {text}");
    }
    let failed = made.iter().filter(|event| event.flags.has(Flags::FAILED)).count() as f64;
    assert!((failed / opens - 1.0).abs() < 0.1, "{failed} failed of {opens}: {text}");
}
