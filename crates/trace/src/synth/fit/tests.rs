//! What a fitted model promises.

use super::super::{Length, Model, Synthesis};
use super::*;
use crate::analyze::{Findings, Orders, analyze};
use crate::follow::Mode;
use crate::{Event, FileId, Flags, Info, Kind, Names};

/// Events that lie in memory.
struct Given(Option<Batch>);

impl Source for Given {
    fn info(&self) -> Info {
        Info::default()
    }

    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        *batch = self.0.take().unwrap_or_default();
        Ok(!batch.events.is_empty())
    }
}

fn fitted(open: &dyn Fn() -> Result<Box<dyn Source>>) -> Result<Model> {
    fit("test", open, &|_, _| ())
}

fn of(events: &[Event]) -> Result<Model> {
    let batch = || Batch { events: events.to_vec(), names: Names::default() };
    fitted(&|| Ok(Box::new(Given(Some(batch())))))
}

fn a5(hours: f64) -> Synthesis {
    Synthesis::new(Model::parse(Model::built_in("a5").unwrap(), "a5").unwrap(), Length::Hours(hours), 1)
}

/// Promise: the same trace gives the same model, and what is printed of it is read again as it was.
#[test]
fn models_are_files() {
    let [one, again] = [(); 2].map(|()| fitted(&|| Ok(Box::new(a5(2.0)))).unwrap());
    assert_eq!(one, again);
    assert_eq!(Model::parse(&one.text().unwrap(), "test").unwrap(), one);
}

/// Promise: what a fitted model makes is like the trace it was fitted to: as much of everything, in the same order.
#[test]
#[allow(clippy::cast_precision_loss)] // Shares and rates.
fn likeness() {
    let hours = 16.0;
    let model = fitted(&|| Ok(Box::new(a5(hours)))).unwrap();
    let found = |mut source: Synthesis| analyze(&mut source, |_| {}).unwrap();
    let (target, made) = (found(a5(hours)), found(Synthesis::new(model, Length::Hours(hours), 1)));
    let near = |what: &str, of: &dyn Fn(&Findings) -> f64, tolerance: f64| {
        let ratio = of(&made) / of(&target);
        assert!((ratio - 1.0).abs() < tolerance, "{what}: {} of {}", of(&made), of(&target));
    };
    for kind in [Kind::Open, Kind::Create, Kind::Close, Kind::Seek, Kind::Unlink, Kind::Exec] {
        near(kind.name(), &|found| found.totals.count(kind) as f64, 0.2);
    }
    near("read", &|found| found.totals.read as f64, 0.25);
    near("written", &|found| found.totals.written as f64, 0.25);
    for mode in Mode::ALL {
        let orders = |found: &Findings| found.patterns.modes[mode as usize];
        for part in [|o: &Orders| o.whole, |o: &Orders| o.sequential] {
            let share = |found| part(&orders(found)) as f64 / orders(found).accesses as f64;
            assert!(
                (share(&made) - share(&target)).abs() < 0.05,
                "{mode:?}: {} {}",
                share(&made),
                share(&target)
            );
        }
    }
}

/// Promise: a trace in which nothing is opened is refused, and says why; the least of traces has a model that can be carried out.
#[test]
fn the_least_of_traces() {
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
        assert!(refused.contains("nothing is opened"), "{refused}");
    }
    for events in [&[opened][..], &[opened, closed], &[opened, opened, closed, closed]] {
        let model = of(events).unwrap();
        let text = model.text().unwrap();
        let mut made = Synthesis::new(Model::parse(&text, "test").unwrap(), Length::Events(50), 1);
        let found = analyze(&mut made, |_| {}).unwrap();
        assert!(found.totals.count(Kind::Open) > 10, "{text}");
    }
}
