//! A model of what a trace recorded.
//!
//! The one idea: a model is what is left of a trace when one forgets who did what when, and
//! remembers how often what is done. Two passes: the first finds the classes of files
//! (`population`), the second what bouts of processes do with them (`bouts`, `scripts`), in which
//! order files and records come back, and when users are there (`users`). Distributions are
//! measured (`sketch`), not supposed.
//!
//! Invariants: memory is that of the files that are there and of tables of fixed size, not of the
//! events; the same trace gives the same model; means are kept wherever something is merged.

mod bouts;
mod population;
mod scripts;
mod sketch;
mod users;

use super::model::{Act, Class, Command, Daemon, Model, Owner, Piece, Program, Recency, Step, Timing};
use super::spread::Spread;
use crate::{Batch, Error, Result, Source};
use bouts::{Pass, Programs, Ranks, Usage};
use population::{Census, Classes};
use scripts::{Deed, Manner, Run, Script};
use sketch::{Sketch, short};
use std::collections::{BTreeMap, BTreeSet};
use users::Watch;

/// Values of a distribution in a model.
const POINTS: usize = 12;
/// Values of one of times within a bout.
const TIMES: usize = 6;
/// Values of one that matters for many.
const MORE: usize = 24;
/// Seconds in a nanosecond, turned round.
const SECOND: f64 = 1e9;

/// Fits a model to the trace that `open` opens, as often as it is asked to, with all columns.
/// `progress` is told how much is done.
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
    let files = |deed: &&Deed| !matches!(deed.act, Act::Exec | Act::Mkdir | Act::Rmdir);
    let used: BTreeSet<u32> = deeds().filter(files).map(|deed| deed.on).collect();
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
    let accounts = accounts(&scripts, &watch);
    let of_daemon = |script: &Script| script.account.is_some_and(|account| accounts.contains(&account));
    let (daemons, users): (Vec<_>, Vec<_>) = scripts.into_iter().partition(|(_, script)| of_daemon(script));
    let length = watch.length();
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
        hours: short(watch.hours()),
        timing,
        program: program.collect(),
        class: class.collect(),
        command: users.iter().map(|(program, script)| command(*program, script, &names)).collect(),
        daemon: daemons.iter().map(|(program, script)| daemon(*program, script, &names, length)).collect(),
        users: watch.finish(&accounts),
    }
}

/// Returns the names for all classes: where they are and what they end in, with a number.
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

/// Accounts that are no users: there from the first half of the trace to the second, and doing what
/// nobody else does.
fn accounts(scripts: &[(u32, Script)], watch: &Watch) -> BTreeSet<u32> {
    let mut own: BTreeMap<u32, (u64, i64, i64)> = BTreeMap::new();
    for (_, script) in scripts {
        if let Some(account) = script.account {
            let known = own.entry(account).or_insert((0, i64::MAX, i64::MIN));
            *known = (known.0 + script.bouts, known.1.min(script.span.0), known.2.max(script.span.1));
        }
    }
    own.retain(|&account, (bouts, first, last)| {
        *bouts * 10 >= watch.bouts(account) * 9 && *bouts >= 10 && *last - *first > watch.length() / 2
    });
    // Somebody must be there.
    if own.len() == watch.accounts() { BTreeSet::new() } else { own.into_keys().collect() }
}

fn daemon(program: u32, script: &Script, names: &Names, length: i64) -> Daemon {
    #[allow(clippy::cast_precision_loss)] // A time.
    let mean = Spread::Exponential(short(length as f64 / SECOND / script.bouts.max(1) as f64));
    let told_apart = script.every.count() + 1 == script.bouts && script.bouts > 2;
    let every = script.every.spread(MORE, SECOND).filter(|_| told_apart).unwrap_or(mean);
    Daemon {
        name: names.programs[program as usize].clone(),
        source: "measured".into(),
        account: script.account.unwrap_or(0),
        every,
        copies: 1,
        background: true,
        steps: steps(script, names),
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
        steps: steps(script, names),
    }
}

#[allow(clippy::cast_precision_loss)] // A count.
fn steps(script: &Script, names: &Names) -> Vec<Step> {
    let bouts = script.bouts as f64;
    script.in_order().into_iter().map(|(deed, manner)| step(*deed, manner, bouts, names)).collect()
}

#[allow(clippy::cast_precision_loss)] // Shares.
fn step(deed: Deed, manner: &Manner, bouts: f64, names: &Names) -> Step {
    let on = deed.on as usize;
    let share = |part: u64, all: u64| if part == 0 { 0.0 } else { short(part as f64 / all as f64) };
    let once = Spread::Fixed(1.0);
    let several = |sketch: &Sketch| sketch.spread(POINTS, 1.0).filter(|spread| *spread != once);
    let all = manner.moved.count();
    let mut moved = manner.moved.clone();
    moved.keep((all / 64).max(2));
    // Places that come again because they were used lately are records; those of which nearly all
    // is made are how a file is used.
    if moved.moved[0] * 5 > all {
        moved.keep(u64::MAX);
    }
    let [runs, writing, growing] = moved.moved;
    let [read, written] = moved.bytes;
    let mut bytes = if written.count() > 0 { written.clone() } else { read.clone() };
    let apart = deed.both && written.count() > 0 && read.count() > 0;
    if !apart && written.count() > 0 {
        bytes.merge(&read);
    }
    let opens =
        !matches!(deed.act, Act::Exec | Act::Remove | Act::Rename | Act::Truncate | Act::Mkdir | Act::Rmdir);
    let piece = |(run, times): &(Run, u64)| {
        let Run { at, bytes, writes, way, .. } = *run;
        Piece { at, bytes, writes, way, share: short(*times as f64 / all as f64) }
    };
    let chance = manner.bouts as f64 / bouts;
    Step {
        act: deed.act,
        on: match deed.act {
            Act::Exec => names.programs[on].clone(),
            Act::Mkdir | Act::Rmdir => String::new(),
            _ => names.classes[on].clone(),
        },
        times: several(&manner.times),
        chance: (chance < 1.0).then(|| short(chance)),
        again: share(manner.again, manner.runs.count()),
        all: false,
        both: deed.both,
        bytes: bytes.spread(POINTS, 1.0).filter(|_| !deed.whole),
        reading: read.spread(POINTS, 1.0).filter(|_| apart),
        runs: several(&manner.runs),
        writing: share(writing, runs),
        growing: share(growing, writing),
        pieces: moved.pieces.iter().map(piece).collect(),
        way: deed.way,
        syncs: manner.syncs.spread(POINTS, 1.0).filter(|spread| *spread != Spread::Fixed(0.0)),
        hold: manner.hold.spread(TIMES, SECOND).filter(|_| opens),
        gap: manner.gap.spread(TIMES, SECOND),
    }
}

#[cfg(test)]
mod tests;
