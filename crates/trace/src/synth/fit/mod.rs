//! A model of what a trace recorded.
//!
//! The one idea: a model is what is left of a trace when one forgets who did what when, and remembers how often what is done. Two passes: the
//! first finds the classes of files (`population`), the second what bouts of processes do with them (`bouts`, `scripts`), in which
//! order files and records come back, and when users are there (`users`). Distributions are measured (`sketch`), not supposed.
//!
//! Invariants: memory is that of the files that are there and of tables of fixed size, not of the events; the same trace gives the same
//! model; means are kept wherever something is merged.

mod bouts;
mod population;
mod scripts;
mod sketch;
mod users;

use super::model::{Act, Class, Command, Model, Owner, Program, Recency, Step, Timing};
use super::spread::Spread;
use crate::{Batch, Error, Result, Source};
use bouts::{Pass, Programs, Ranks, Usage};
use population::{Census, Classes};
use scripts::{Deed, Manner, Script};
use sketch::{Sketch, short};
use std::collections::BTreeSet;

/// Values of a distribution in a model.
const POINTS: usize = 12;
/// Values of one that matters for many.
const MORE: usize = 24;
/// Seconds in a nanosecond, turned round.
const SECOND: f64 = 1e9;

/// Fits a model to the trace that `open` opens, as often as it is asked to, with all columns. `progress` is told how much is done.
///
/// # Errors
/// Those of the source; [`Error::Refused`] if it has no files that are opened.
pub fn fit(
    name: &str,
    open: &dyn Fn() -> Result<Box<dyn Source>>,
    progress: &dyn Fn(&'static str, Option<f64>),
) -> Result<Model> {
    let mut batch = Batch::default();
    let mut census = Census::default();
    let mut source = open()?;
    while source.next(&mut batch)? {
        batch.events.iter().for_each(|event| census.event(event, &batch));
        progress("looking", source.progress());
    }
    if census.opens == 0 {
        return Err(Error::Refused(format!(
            "{name}: nothing is opened in it, so it does not say what programs do: a model is fitted to traces of programs, not of disks \
             or caches"
        )));
    }
    let classes = census.finish();
    let mut pass = Pass::new(&classes);
    let mut source = open()?;
    while source.next(&mut batch)? {
        batch.events.iter().for_each(|event| pass.event(event, &batch));
        progress("fitting", source.progress());
    }
    pass.end();
    let model = assemble(name, pass, &classes);
    model.check().map_err(|e| Error::Refused(format!("{name}: no model comes out: {e}")))?;
    Ok(model)
}

/// What classes and programs are called in the model.
struct Names {
    classes: Vec<String>,
    programs: Vec<String>,
}

fn assemble(name: &str, pass: Pass<'_>, classes: &Classes) -> Model {
    let Pass { usage, programs, scripts, watch, .. } = pass;
    let scripts = scripts.finish();
    let names = Names { classes: class_names(classes), programs: program_names(&programs) };
    let deeds = || scripts.iter().flat_map(|(_, script)| script.deeds.keys());
    let used: BTreeSet<u32> = deeds().filter(|deed| deed.act != Act::Exec).map(|deed| deed.on).collect();
    let loaded: BTreeSet<u32> = deeds().filter(|deed| deed.act == Act::Exec).map(|deed| deed.on).collect();
    let class =
        used.iter().map(|&at| (names.classes[at as usize].clone(), class(at as usize, &usage, classes)));
    let program = loaded
        .iter()
        .map(|&at| (names.programs[at as usize].clone(), Program { size: programs.all[at as usize].1 }));
    let (mut hold, mut gap) = (Sketch::default(), Sketch::default());
    for manner in scripts.iter().flat_map(|(_, script)| script.deeds.values()) {
        hold.merge(&manner.hold);
        gap.merge(&manner.gap);
    }
    let timing = Timing {
        source: "measured".into(),
        hold: hold.spread(MORE, SECOND).unwrap_or(Spread::Fixed(0.0)),
        gap: gap.spread(MORE, SECOND).unwrap_or(Spread::Fixed(0.0)),
        // Transfers are part of the time that a file is held.
        bytes_per_second: 1e18,
        call: 0.0,
    };
    Model {
        title: format!("fitted to {name}"),
        source: "measured".into(),
        hours: short(watch.hours().max(1.0 / 3600.0)),
        timing,
        program: program.collect(),
        class: class.collect(),
        command: scripts.iter().map(|(program, script)| command(*program, script, &names)).collect(),
        daemon: Vec::new(),
        users: watch.finish(),
    }
}

/// Names for all classes: where they are and what they end in, with a number.
fn class_names(classes: &Classes) -> Vec<String> {
    let letters = |text: &str| -> String {
        let last = text.rsplit('/').next().unwrap_or_default();
        last.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_' || *c == '-').collect()
    };
    let shared = (1..).zip(&classes.shapes).map(|(n, shape): (u32, _)| {
        let parts = [letters(&shape.group.directory), letters(&shape.group.extension), n.to_string()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
    });
    let shared: Vec<String> = shared.collect();
    let own: Vec<String> = shared.iter().map(|name| format!("own-{name}")).collect();
    [shared, own].concat()
}

fn program_names(programs: &Programs) -> Vec<String> {
    programs
        .all
        .iter()
        .map(|(name, _)| if name.is_empty() { "unknown".into() } else { name.clone() })
        .collect()
}

fn class(at: usize, usage: &[Usage], classes: &Classes) -> Class {
    let shape = &classes.shapes[at % classes.shapes.len()];
    let own = at >= classes.shapes.len();
    let usage = &usage[at];
    let records = &usage.records;
    Class {
        source: "measured".into(),
        path: if shape.group.directory.is_empty() { "/".into() } else { shape.group.directory.clone() },
        of: if own { Owner::Command } else { Owner::System },
        files: usize::try_from(usage.before).unwrap_or(usize::MAX),
        most: (!own).then(|| usize::try_from(2 * usage.most.max(1)).unwrap_or(usize::MAX)),
        directories: shape.group.folder,
        size: usage.sizes.spread(MORE, 1.0).unwrap_or(Spread::Fixed(0.0)),
        recency: recency(&usage.used),
        removal: (usage.removed.count() > 0).then(|| recency(&usage.removed)),
        record: if records.count() > 0 { shape.record } else { 0 },
        records: recency(records),
        limit: None,
    }
}

#[allow(clippy::cast_precision_loss)] // A share.
fn recency(ranks: &Ranks) -> Recency {
    if ranks.count() == 0 {
        return Recency::default();
    }
    Recency {
        ranks: Some(ranks.again.spread(MORE, 1.0).unwrap_or(Spread::Fixed(0.0))),
        fresh: short(ranks.fresh as f64 / ranks.count() as f64),
        ..Recency::default()
    }
}

fn command(program: u32, script: &Script, names: &Names) -> Command {
    #[allow(clippy::cast_precision_loss)] // A weight.
    let weight = script.bouts as f64;
    Command {
        name: names.programs[program as usize].clone(),
        weight,
        // Bouts begin when they begin, whether others are over or not.
        background: true,
        account: None,
        steps: script
            .in_order()
            .into_iter()
            .map(|(deed, manner)| step(*deed, manner, weight, names))
            .collect(),
    }
}

#[allow(clippy::cast_precision_loss)] // Shares.
fn step(deed: Deed, manner: &Manner, bouts: f64, names: &Names) -> Step {
    let on = deed.on as usize;
    let share = |part: u64, all: u64| if part == 0 { 0.0 } else { short(part as f64 / all as f64) };
    let once = Spread::Fixed(1.0);
    let several = |sketch: &Sketch| sketch.spread(POINTS, 1.0).filter(|spread| *spread != once);
    let [runs, writing, growing] = manner.moved;
    let chance = manner.bouts as f64 / bouts;
    Step {
        act: deed.act,
        on: if deed.act == Act::Exec { names.programs[on].clone() } else { names.classes[on].clone() },
        times: several(&manner.times),
        chance: (chance < 1.0).then(|| short(chance)),
        all: false,
        both: deed.both,
        bytes: if deed.whole { None } else { manner.bytes.spread(POINTS, 1.0) },
        runs: several(&manner.runs),
        writing: share(writing, runs),
        growing: share(growing, writing),
        hold: manner.hold.spread(POINTS, SECOND),
        gap: manner.gap.spread(POINTS, SECOND),
    }
}

#[cfg(test)]
mod tests;
