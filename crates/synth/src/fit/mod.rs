//! Fits a model to a trace.
//!
//! The one idea: a model keeps how often each thing is done, and drops who did it and when. There
//! are two passes. The first finds the classes of files (`population`). The second measures the
//! bursts of processes (`bursts`, `scripts`), the reuse of files and records, and when users are
//! active (`users`). Distributions are measured (`sketch`), not assumed.
//!
//! Invariants: memory holds the files that exist and tables of fixed size, never all events; the
//! same trace gives the same model; merging keeps the means.

mod bursts;
mod operations;
mod population;
mod scripts;
mod sketch;
mod users;

use super::distribution::Distribution;
use super::model::{
    Class, Command, Daemon, FixedRun, Model, Operation, Owner, Program, Recency, Step, Timing,
};
use bursts::{Pass, Programs, ReuseStats, Usage};
use population::{Census, Classes};
use scripts::{Run, Script, StepKind, StepStats};
use sketch::{Sketch, short};
use spindle_trace::{Batch, Error, Result, Source};
use std::collections::{BTreeMap, BTreeSet};
use users::UserActivity;

/// Number of values of most distributions in a model.
const STEP_VALUES: usize = 12;
/// Number of values of the distributions of times within a step.
const TIME_VALUES: usize = 6;
/// Number of values of the important distributions.
const MAIN_VALUES: usize = 24;
/// Nanoseconds per second.
const SECOND: f64 = 1e9;

/// Fits a model to a trace. `open` opens the trace with all columns; it is called twice. `progress`
/// receives the phase and the part of it that is done.
///
/// # Errors
/// Errors of the source; [`Error::Refused`] if the trace opens no files.
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
        progress("scanning", source.progress());
    }
    if census.opens == 0 {
        return Err(Error::Refused(format!(
            "{name}: no file is opened in this trace; a model needs a trace of programs, not of a disk or a cache"
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
    model.check().map_err(|e| Error::Refused(format!("{name}: the fitted model is invalid: {e}")))?;
    Ok(model)
}

/// Names of classes and programs in the model.
struct Names {
    classes: Vec<String>,
    programs: Vec<String>,
}

fn assemble(name: &str, pass: Pass<'_>, classes: &Classes) -> Model {
    let Pass { usage, programs, scripts, activity, .. } = pass;
    let scripts = scripts.finish();
    let names = Names { classes: class_names(classes), programs: program_names(&programs) };
    let steps = || scripts.iter().flat_map(|(_, script)| script.steps.keys());
    let files = |kind: &&StepKind| !matches!(kind.act, Operation::Exec | Operation::Mkdir | Operation::Rmdir);
    let used: BTreeSet<u32> = steps().filter(files).map(|kind| kind.on).collect();
    let loaded: BTreeSet<u32> =
        steps().filter(|kind| kind.act == Operation::Exec).map(|kind| kind.on).collect();
    let class =
        used.iter().map(|&at| (names.classes[at as usize].clone(), class(at as usize, &usage, classes)));
    let program = loaded
        .iter()
        .map(|&at| (names.programs[at as usize].clone(), Program { size: programs.all[at as usize].1 }));
    let (mut hold, mut gap) = (Sketch::default(), Sketch::default());
    for stats in scripts.iter().flat_map(|(_, script)| script.steps.values()) {
        hold.merge(&stats.hold);
        gap.merge(&stats.gap);
    }
    let accounts = accounts(&scripts, &activity);
    let of_daemon = |script: &Script| script.account.is_some_and(|account| accounts.contains(&account));
    let (daemons, users): (Vec<_>, Vec<_>) = scripts.into_iter().partition(|(_, script)| of_daemon(script));
    let length = activity.length();
    let timing = Timing {
        source: "measured".into(),
        hold: hold.reduce(MAIN_VALUES, SECOND).unwrap_or(Distribution::Fixed(0.0)),
        gap: gap.reduce(MAIN_VALUES, SECOND).unwrap_or(Distribution::Fixed(0.0)),
        // Transfer times are included in the hold times.
        bytes_per_second: 1e18,
        call: 0.0,
    };
    Model {
        title: format!("fitted to {name}"),
        source: "measured".into(),
        hours: short(activity.hours()),
        timing,
        program: program.collect(),
        class: class.collect(),
        command: users.iter().map(|(program, script)| command(*program, script, &names)).collect(),
        daemon: daemons.iter().map(|(program, script)| daemon(*program, script, &names, length)).collect(),
        users: activity.finish(&accounts),
    }
}

/// Returns the names of all classes: directory, extension and a number.
fn class_names(classes: &Classes) -> Vec<String> {
    let letters = |text: &str| -> String {
        let last = text.rsplit('/').next().unwrap_or_default();
        last.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_' || *c == '-').collect()
    };
    let shared = (1..).zip(&classes.infos).map(|(n, info): (u32, _)| {
        let parts = [letters(&info.group.directory), letters(&info.group.extension), n.to_string()];
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
    let info = &classes.infos[at % classes.infos.len()];
    let own = at >= classes.infos.len();
    let usage = &usage[at];
    let records = &usage.records;
    Class {
        source: "measured".into(),
        path: if info.group.directory.is_empty() { "/".into() } else { info.group.directory.clone() },
        of: if own { Owner::Command } else { Owner::System },
        files: usize::try_from(usage.before).unwrap_or(usize::MAX),
        most: (!own).then(|| usize::try_from(2 * usage.most.max(1)).unwrap_or(usize::MAX)),
        directories: info.group.is_directory,
        size: usage.sizes.reduce(MAIN_VALUES, 1.0).unwrap_or(Distribution::Fixed(0.0)),
        recency: recency(&usage.used),
        removal: (usage.removed.count() > 0).then(|| recency(&usage.removed)),
        record: if records.count() > 0 { info.record } else { 0 },
        records: recency(records),
        limit: None,
    }
}

#[allow(clippy::cast_precision_loss)] // A share.
fn recency(reuse: &ReuseStats) -> Recency {
    if reuse.count() == 0 {
        return Recency::default();
    }
    Recency {
        ranks: Some(reuse.distances.reduce(MAIN_VALUES, 1.0).unwrap_or(Distribution::Fixed(0.0))),
        fresh: short(reuse.first_uses as f64 / reuse.count() as f64),
        ..Recency::default()
    }
}

/// Returns the accounts of daemons: those active from the first half of the trace to the second
/// whose commands are run by no other account.
fn accounts(scripts: &[(u32, Script)], activity: &UserActivity) -> BTreeSet<u32> {
    let mut own: BTreeMap<u32, (u64, i64, i64)> = BTreeMap::new();
    for (_, script) in scripts {
        if let Some(account) = script.account {
            let known = own.entry(account).or_insert((0, i64::MAX, i64::MIN));
            *known = (known.0 + script.bursts, known.1.min(script.span.0), known.2.max(script.span.1));
        }
    }
    own.retain(|&account, (bursts, first, last)| {
        *bursts * 10 >= activity.bursts(account) * 9
            && *bursts >= 10
            && *last - *first > activity.length() / 2
    });
    // Keep at least one user.
    if own.len() == activity.accounts() { BTreeSet::new() } else { own.into_keys().collect() }
}

fn daemon(program: u32, script: &Script, names: &Names, length: i64) -> Daemon {
    #[allow(clippy::cast_precision_loss)] // A time.
    let mean = Distribution::Exponential(short(length as f64 / SECOND / script.bursts.max(1) as f64));
    let complete = script.intervals.count() + 1 == script.bursts && script.bursts > 2;
    let every = script.intervals.reduce(MAIN_VALUES, SECOND).filter(|_| complete).unwrap_or(mean);
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
    let weight = script.bursts as f64;
    Command {
        name: names.programs[program as usize].clone(),
        weight,
        // Bursts start independently of whether earlier ones have ended.
        background: true,
        account: None,
        steps: steps(script, names),
    }
}

#[allow(clippy::cast_precision_loss)] // A count.
fn steps(script: &Script, names: &Names) -> Vec<Step> {
    let bursts = script.bursts as f64;
    script.in_order().into_iter().map(|(kind, stats)| step(*kind, stats, bursts, names)).collect()
}

#[allow(clippy::cast_precision_loss)] // Shares.
fn step(kind: StepKind, stats: &StepStats, bursts: f64, names: &Names) -> Step {
    let on = kind.on as usize;
    let share = |part: u64, all: u64| if part == 0 { 0.0 } else { short(part as f64 / all as f64) };
    let once = Distribution::Fixed(1.0);
    let several =
        |sketch: &Sketch| sketch.reduce(STEP_VALUES, 1.0).filter(|distribution| *distribution != once);
    let all = stats.moved.count();
    let mut moved = stats.moved.clone();
    moved.keep((all / 64).max(2));
    // Positions are kept if the same runs recur. If nearly all runs are at such positions, this is
    // how the file is always used; otherwise they are just recently used records.
    if moved.counts[0] * 5 > all {
        moved.keep(u64::MAX);
    }
    let [runs, writing, growing] = moved.counts;
    let [read, written] = moved.bytes;
    let mut bytes = if written.count() > 0 { written.clone() } else { read.clone() };
    let apart = kind.both && written.count() > 0 && read.count() > 0;
    if !apart && written.count() > 0 {
        bytes.merge(&read);
    }
    let is_call = matches!(
        kind.act,
        Operation::Exec
            | Operation::Remove
            | Operation::Rename
            | Operation::Truncate
            | Operation::Mkdir
            | Operation::Rmdir
    );
    let opens = !is_call && kind.act.control_call().is_none();
    let piece = |(run, times): &(Run, u64)| {
        let Run { at, bytes, writes, way, .. } = *run;
        FixedRun { at, bytes, writes, way, share: short(*times as f64 / all as f64) }
    };
    let chance = stats.bursts as f64 / bursts;
    Step {
        act: kind.act,
        on: match kind.act {
            Operation::Exec => names.programs[on].clone(),
            Operation::Mkdir | Operation::Rmdir => String::new(),
            _ => names.classes[on].clone(),
        },
        times: several(&stats.times),
        chance: (chance < 1.0).then(|| short(chance)),
        again: share(stats.again, stats.runs.count()),
        failing: share(stats.failed, stats.runs.count()),
        all: false,
        both: kind.both,
        bytes: bytes.reduce(STEP_VALUES, 1.0).filter(|_| !kind.whole),
        reading: read.reduce(STEP_VALUES, 1.0).filter(|_| apart),
        runs: several(&stats.runs),
        writing: share(writing, runs),
        growing: share(growing, writing),
        pieces: moved.placed.iter().map(piece).collect(),
        way: kind.way,
        syncs: stats
            .syncs
            .reduce(STEP_VALUES, 1.0)
            .filter(|distribution| *distribution != Distribution::Fixed(0.0)),
        hold: stats.hold.reduce(TIME_VALUES, SECOND).filter(|_| opens),
        gap: stats.gap.reduce(TIME_VALUES, SECOND),
    }
}

#[cfg(test)]
mod tests;
