//! What programs do, merged into scripts.
//!
//! The one idea: a *bout* of a process, what it did without a long pause, is the number of times that it did each [`Deed`]. Bouts with the
//! same program and deeds are one [`Script`] whose numbers are distributions; when there are too many scripts, the rarest of a
//! program become one in which each deed has a chance. Merging keeps all means, so a model does as much of everything as the
//! trace it was fitted to, however few scripts are left of it.

use super::super::model::Act;
use super::sketch::Sketch;
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};

/// Most scripts at the end, and while they are collected.
const SCRIPTS: usize = 256;
const ROOM: usize = 16 * SCRIPTS;

/// What a step does, apart from how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Deed {
    /// What it does.
    pub act: Act,
    /// Number of the class, or of the program.
    pub on: u32,
    /// Open for reading and writing.
    pub both: bool,
    /// Bytes are not told: the whole file.
    pub whole: bool,
}

/// How a deed was done: once by a bout while it is collected, then by all bouts of a script.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// Bouts that did it.
    pub bouts: u64,
    /// How often, in those.
    pub times: Sketch,
    /// Bytes of each run.
    pub bytes: Sketch,
    /// Runs each time.
    pub runs: Sketch,
    /// Runs in all, those that wrote, and those of them that wrote at the end.
    pub moved: [u64; 3],
    /// Nanoseconds of each run, and to what comes next.
    pub hold: Sketch,
    /// The same.
    pub gap: Sketch,
    /// Sum over bouts of where in the bout it was first done, from 0 to 1.
    pub place: f64,
}

impl Manner {
    fn merge(&mut self, other: &Self) {
        self.bouts += other.bouts;
        self.times.merge(&other.times);
        self.bytes.merge(&other.bytes);
        self.runs.merge(&other.runs);
        self.hold.merge(&other.hold);
        self.gap.merge(&other.gap);
        self.place += other.place;
        for (sum, more) in self.moved.iter_mut().zip(other.moved) {
            *sum += more;
        }
    }
}

/// What some bouts did.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// How many they are.
    pub bouts: u64,
    /// What they did.
    pub deeds: BTreeMap<Deed, Manner>,
}

impl Script {
    fn merge(&mut self, other: &Self) {
        self.bouts += other.bouts;
        for (deed, manner) in &other.deeds {
            self.deeds.entry(*deed).or_default().merge(manner);
        }
    }

    /// Deeds in the order in which they are done on average.
    pub fn in_order(&self) -> Vec<(&Deed, &Manner)> {
        let mut deeds: Vec<_> = self.deeds.iter().collect();
        #[allow(clippy::cast_precision_loss)] // An order.
        deeds.sort_by(|a, b| {
            let place = |manner: &Manner| manner.place / manner.bouts as f64;
            place(a.1).total_cmp(&place(b.1))
        });
        deeds
    }
}

/// All scripts: of each program those that are told apart, and one for the rest.
#[derive(Debug, Default)]
pub struct Scripts {
    apart: HashMap<(u32, Vec<Deed>), Script, RandomState>,
    rest: BTreeMap<u32, Script>,
}

impl Scripts {
    /// Takes a bout of a program.
    pub fn add(&mut self, program: u32, bout: &Script) {
        let deeds = bout.deeds.keys().copied().collect();
        self.apart.entry((program, deeds)).or_default().merge(bout);
        if self.apart.len() > ROOM {
            self.reduce(ROOM / 2);
        }
    }

    /// Puts the rarest into the rest of their programs.
    fn reduce(&mut self, most: usize) {
        let mut all: Vec<_> = self.apart.drain().collect();
        all.sort_by(|a, b| b.1.bouts.cmp(&a.1.bouts).then_with(|| a.0.cmp(&b.0)));
        for ((program, _), script) in all.drain(most.min(all.len())..) {
            self.rest.entry(program).or_default().merge(&script);
        }
        self.apart.extend(all);
    }

    /// Programs with scripts, the most frequent first.
    pub fn finish(mut self) -> Vec<(u32, Script)> {
        self.reduce(SCRIPTS);
        let mut all: Vec<_> =
            self.apart.into_iter().map(|((program, _), script)| (program, script)).collect();
        all.extend(self.rest);
        all.sort_by(|a, b| {
            (b.1.bouts, a.0).cmp(&(a.1.bouts, b.0)).then_with(|| a.1.deeds.keys().cmp(b.1.deeds.keys()))
        });
        all
    }
}
