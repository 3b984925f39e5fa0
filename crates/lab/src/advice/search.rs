//! The search for the best candidate, and the ranking of all that were simulated.
//!
//! The one idea: coordinate descent. From what `newfs` and `mount` do by themselves one property is
//! varied after the other ([`axes`](super::axes)), and each keeps the value that is best.
//!
//! What is best: the fastest. Of those that are no slower by more than the noise, the one with the
//! least work for the disk; of those, the one that holds the most files; of those, the one that is
//! in use before, or else the first. Never one that loses more in a crash than the default does, or
//! needs what the user does not have: these are simulated and shown.
//!
//! Invariant: noise is measured. Two candidates differ only if the whole window says so, by more
//! than [`MODEL`], and by more than its two halves disagree about it.

use super::axes::{self, Axis, Setting};
use super::candidate::Candidate;
use super::simulate::{Half, Prediction, predict};
use super::window::Window;
use super::{Ground, Progress};
use crate::bench::at_once::at_once;
use crate::{Error, Result};
use serde::Serialize;
use spindle_report::number::{bytes, real};
use std::sync::Arc;

/// How much the models of disks are off: mean service times of validated drives differ by up to 4.5
/// % from the measured ones (docs/LAB.md, on the drives of `DiskSim`).
const MODEL: f64 = 0.05;
/// A part of the space that is not worth anything else: fewer inodes, for one, which other files
/// than those of the trace may need.
const ROOM: f64 = 0.02;
/// A disk that works for less than this part of the time is as good as idle.
const IDLE: f64 = 0.1;
/// Times are compared as if they were this many seconds at least, so that none is divided by.
const LEAST_SECONDS: f64 = 1e-9;

/// A candidate with what it does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    /// Which.
    pub candidate: Candidate,
    /// The options in which it differs from the default.
    pub name: String,
    /// What it does.
    pub prediction: Prediction,
    /// Why it is not advised, whatever it does: what it loses or needs.
    pub but: Option<String>,
    /// Its rank from 1: equal for those between which there is no difference in speed.
    pub rank: usize,
    /// Speed relative to the default.
    pub times_default: f64,
}

/// A candidate that cannot carry the load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// The options in which it differs from the default.
    pub name: String,
    /// What happened.
    pub why: String,
}

/// What varying a property has shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The property.
    pub property: &'static str,
    /// The value that is advised, in words.
    pub advice: String,
    /// The figures.
    pub because: String,
}

/// The search so far.
pub(super) struct Search<'a> {
    window: Arc<Window>,
    ground: &'a Ground,
    progress: &'a Progress<'a>,
    usual: Candidate,
    tried: Vec<Tried>,
    failed: Vec<Failed>,
}

/// The result of a search.
pub(super) struct Found {
    /// All that were simulated, the best first.
    pub ranking: Vec<Tried>,
    /// Those that cannot carry the load.
    pub failed: Vec<Failed>,
    /// The one that is advised.
    pub advised: Tried,
    /// What each property has shown.
    pub verdicts: Vec<Verdict>,
}

/// Simulates candidates and returns what was found.
///
/// # Errors
/// When the default cannot carry the load, or something is wrong with the ground.
pub(super) fn search(window: &Arc<Window>, ground: &Ground, progress: &Progress<'_>) -> Result<Found> {
    let usual = Candidate::usual(ground.memory);
    let (tried, failed) = (Vec::new(), Vec::new());
    let mut search = Search { window: window.clone(), ground, progress, usual: usual.clone(), tried, failed };
    let prediction = predict(&usual, window, ground).map_err(|error| {
        let size = bytes(ground.size);
        Error::Contradiction(format!("the default file system of {size} cannot carry the load: {error}"))
    })?;
    search.note(usual.clone(), prediction);
    let mut now = usual;
    let mut verdicts = Vec::new();
    for (at, axis) in axes::ALL.iter().enumerate() {
        verdicts.extend(search.vary(axis, at, &mut now)?);
    }
    let advised =
        search.find(&now).cloned().ok_or_else(|| Error::Contradiction("nothing was tried".into()))?;
    let Search { tried, failed, .. } = search;
    let ranking = ranked(tried);
    let advised =
        ranking.iter().find(|tried| tried.candidate == advised.candidate).cloned().unwrap_or(advised);
    Ok(Found { ranking, failed, advised, verdicts })
}

impl Search<'_> {
    fn find(&self, candidate: &Candidate) -> Option<&Tried> {
        self.tried.iter().find(|tried| tried.candidate == *candidate)
    }

    fn note(&mut self, candidate: Candidate, prediction: Prediction) {
        let name = candidate.options(&self.usual);
        let but = candidate.objection(&self.usual);
        let time = prediction.whole().time();
        let usual = self.tried.first().map_or(time, |usual| usual.prediction.whole().time());
        let times_default = usual.max(LEAST_SECONDS) / time.max(LEAST_SECONDS);
        self.tried.push(Tried { candidate, name, prediction, but, rank: 0, times_default });
    }

    /// Simulates what a property can be instead, sets the best, and returns what that has shown.
    fn vary(&mut self, axis: &Axis, at: usize, now: &mut Candidate) -> Result<Option<Verdict>> {
        let setting = Setting { ground: self.ground, basis: &self.window.basis };
        let others = (axis.others)(now, &setting);
        if others.iter().all(|other| other == now) {
            return Ok(None);
        }
        let new: Vec<_> = others.iter().filter(|other| self.find(other).is_none()).cloned().collect();
        (self.progress)(axis.name, real(at as u64) / real(axes::ALL.len() as u64));
        let (window, ground) = (&self.window, self.ground);
        let predictions = at_once(&new, |_, other| Ok(predict(other, window, ground)))?;
        for (candidate, prediction) in new.into_iter().zip(predictions) {
            match prediction {
                Ok(prediction) => self.note(candidate, prediction),
                Err(error) => {
                    let name = candidate.options(&self.usual);
                    self.failed.push(Failed { name, why: error.to_string() });
                }
            }
        }
        let mut compared: Vec<&Tried> = others.iter().filter_map(|other| self.find(other)).collect();
        if !others.contains(now)
            && let Some(present) = self.find(now)
        {
            compared.insert(0, present);
        }
        let preferred = axis.is_kept.then_some(&*now);
        let Some(best) = best(&compared, &self.tried, preferred) else { return Ok(None) };
        let verdict = verdict(axis, best, &compared);
        if axis.is_kept {
            *now = best.candidate.clone();
        }
        Ok(Some(verdict))
    }
}

/// Returns the seconds that are compared: of what limits the load, and of the disk, where it works
/// at all.
const TIME: fn(Half) -> f64 = |half| half.time().max(LEAST_SECONDS);
const DISK: fn(Half) -> f64 = |half| half.disk.max(IDLE * half.time()).max(LEAST_SECONDS);

/// Returns true if two predictions differ in some seconds by more than the noise.
fn differ(one: &Prediction, other: &Prediction, seconds: fn(Half) -> f64) -> bool {
    let relative = |one: Half, other: Half| (seconds(one) / seconds(other)).ln();
    let [first, second] = [0, 1].map(|half| relative(one.halves[half], other.halves[half]));
    let noise = (first - second).abs() / 2.0;
    relative(one.whole(), other.whole()).abs() > noise.max(MODEL)
}

/// Returns those between which and the one with the fewest seconds there is no difference.
fn equal_to_least<'a>(all: &[&'a Tried], seconds: fn(Half) -> f64) -> Vec<&'a Tried> {
    let of = |tried: &Tried| seconds(tried.prediction.whole());
    let Some(least) = all.iter().min_by(|one, other| of(one).total_cmp(&of(other))) else {
        return Vec::new();
    };
    all.iter().filter(|tried| !differ(&tried.prediction, &least.prediction, seconds)).copied().collect()
}

/// Returns the best of some, and of equal ones the preferred or the first; nothing if none can be
/// advised. What is slower than the fastest of all so far is no equal, so that small losses do not
/// add up from property to property.
fn best<'a>(some: &[&'a Tried], all: &'a [Tried], preferred: Option<&Candidate>) -> Option<&'a Tried> {
    let possible = |tried: &&'a Tried| tried.but.is_none();
    let some: Vec<_> = some.iter().copied().filter(possible).collect();
    let fast = equal_to_least(&all.iter().filter(possible).collect::<Vec<_>>(), TIME);
    let fast: Vec<_> = some.iter().copied().filter(|tried| fast.contains(tried)).collect();
    let left = equal_to_least(&if fast.is_empty() { equal_to_least(&some, TIME) } else { fast }, DISK);
    let fits = |tried: &Tried| tried.prediction.space.map_or(0.0, |space| real(space.fits_bytes));
    let most = left.iter().map(|tried| fits(tried)).fold(0.0, f64::max);
    let left: Vec<_> = left.into_iter().filter(|tried| fits(tried) >= most * (1.0 - ROOM)).collect();
    let same = left.iter().find(|tried| Some(&tried.candidate) == preferred);
    same.or(left.first()).copied()
}

/// Returns what varying a property has shown.
fn verdict(axis: &Axis, best: &Tried, compared: &[&Tried]) -> Verdict {
    let value = |tried: &Tried| (axis.value)(&tried.candidate);
    let list = |found: Vec<String>| (!found.is_empty()).then(|| found.join(", "));
    let (others, equal): (Vec<&Tried>, Vec<&Tried>) =
        compared.iter().partition(|tried| differ(&tried.prediction, &best.prediction, TIME));
    let time = |tried: &Tried| TIME(tried.prediction.whole());
    let same = (equal.len() > 1).then(|| list(equal.iter().map(|tried| value(tried)).collect())).flatten();
    let speeds =
        others.iter().map(|tried| format!("{} {:.2}", value(tried), time(best) / time(tried))).collect();
    let fills =
        |tried: &&Tried| Some(format!("{} {:.1} %", value(tried), tried.prediction.space?.fits_percent));
    let filled: Vec<_> = equal.iter().filter_map(fills).collect();
    let share = |tried: &&Tried| tried.prediction.space.map(|space| space.fits_percent);
    let most = share(&best).unwrap_or(0.0);
    let is_fuller = equal.iter().filter_map(share).any(|percent| (percent - most).abs() > most * ROOM);
    let objections =
        compared.iter().filter_map(|tried| Some(format!("{}: {}", value(tried), tried.but.as_ref()?)));
    let parts = [
        same.map(|same| format!("no difference in speed between {same}")),
        list(speeds).map(|speeds| format!("speed relative to it: {speeds}")),
        is_fuller.then(|| list(filled)).flatten().map(|filled| format!("files fill {filled} of the space")),
        list(objections.collect()).map(|objections| format!("not advised: {objections}")),
    ];
    let because = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    Verdict { property: axis.name, advice: value(best), because }
}

/// Returns all in the order of their speed, with ranks; those between which and the first of a rank
/// there is no difference have that rank, in the order of the work for the disk.
fn ranked(mut all: Vec<Tried>) -> Vec<Tried> {
    all.sort_by(|one, other| TIME(one.prediction.whole()).total_cmp(&TIME(other.prediction.whole())));
    let mut leader = 0;
    for at in 0..all.len() {
        if differ(&all[at].prediction, &all[leader].prediction, TIME) {
            leader = at;
        }
        all[at].rank = leader + 1;
    }
    all.sort_by(|one, other| {
        let disk = |tried: &Tried| DISK(tried.prediction.whole());
        one.rank.cmp(&other.rank).then(disk(one).total_cmp(&disk(other)))
    });
    all
}
