//! What programs do, merged into scripts.
//!
//! The one idea: a *bout* of a process, what it did without a long pause, is the number of times
//! that it did each [`Deed`]. Bouts with the same program and deeds are one [`Script`] whose
//! numbers are distributions; when there are too many scripts, the rarest of a program become one
//! in which each deed has a chance. Merging keeps all means, so a model does as much of everything
//! as the trace it was fitted to, however few scripts are left of it.

use super::super::model::{Act, Way};
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
    /// How bytes are reached, if always in the same way.
    pub way: Way,
}

impl Deed {
    /// Without bytes.
    pub const fn of(act: Act, on: u32) -> Self {
        Self { act, on, both: false, whole: true, way: Way::Calls }
    }
}

/// Bytes that are moved in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it begins.
    pub at: u64,
    /// Bytes.
    pub bytes: u64,
    /// It writes.
    pub writes: bool,
    /// It begins at the end of the file, or behind.
    pub grows: bool,
    /// How.
    pub way: Way,
}

/// Runs: those that come again at the same place, in the order in which they first came, and of all
/// others their bytes.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// The runs, and how often they came.
    pub pieces: Vec<(Run, u64)>,
    /// Bytes of the others: of those that read, and those that wrote.
    pub bytes: [Sketch; 2],
    /// All others, those that wrote, and those of them that wrote at the end.
    pub moved: [u64; 3],
}

/// Runs that are told apart.
const PIECES: usize = 24;

impl Runs {
    /// Takes a run that came so often; its place is remembered if that is wanted.
    pub fn add(&mut self, run: Run, times: u64, placed: bool) {
        if !placed || run.grows {
            self.other(run, times);
        } else if let Some(known) = self.pieces.iter_mut().find(|known| known.0 == run) {
            known.1 += times;
        } else {
            self.pieces.push((run, times));
            if self.pieces.len() > PIECES {
                let all: u64 = self.pieces.iter().map(|piece| piece.1).sum();
                self.keep(all / PIECES as u64 + 1);
            }
        }
    }

    /// Takes a run that begins where it begins.
    pub fn first(&mut self, bytes: u64, writes: bool) {
        self.bytes[usize::from(writes)].add(bytes);
    }

    /// A run of which only the bytes count.
    fn other(&mut self, run: Run, times: u64) {
        self.bytes[usize::from(run.writes)].add_times(run.bytes, times);
        for (sum, counts) in self.moved.iter_mut().zip([true, run.writes, run.grows]) {
            *sum += if counts { times } else { 0 };
        }
    }

    /// Keeps the places of what came at least so often.
    pub fn keep(&mut self, least: u64) {
        let (kept, others) = self.pieces.drain(..).partition(|piece| piece.1 >= least);
        self.pieces = kept;
        for (run, times) in others {
            self.other(run, times);
        }
    }

    /// Takes all of another.
    pub fn merge(&mut self, other: &Self) {
        for &(run, times) in &other.pieces {
            self.add(run, times, true);
        }
        for (sum, more) in self.bytes.iter_mut().zip(&other.bytes) {
            sum.merge(more);
        }
        for (sum, more) in self.moved.iter_mut().zip(other.moved) {
            *sum += more;
        }
    }

    /// Returns how many there were.
    pub fn count(&self) -> u64 {
        self.moved[0] + self.pieces.iter().map(|piece| piece.1).sum::<u64>()
    }
}

/// How a deed was done: once by a bout while it is collected, then by all bouts of a script.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// Bouts that did it.
    pub bouts: u64,
    /// How often, in those.
    pub times: Sketch,
    /// How often to a file that the bout had used before.
    pub again: u64,
    /// What was moved.
    pub moved: Runs,
    /// Runs each time.
    pub runs: Sketch,
    /// How often it was made durable.
    pub syncs: Sketch,
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
        self.again += other.again;
        self.moved.merge(&other.moved);
        self.runs.merge(&other.runs);
        self.syncs.merge(&other.syncs);
        self.hold.merge(&other.hold);
        self.gap.merge(&other.gap);
        self.place += other.place;
    }
}

/// What some bouts did.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// How many they are.
    pub bouts: u64,
    /// What they did.
    pub deeds: BTreeMap<Deed, Manner>,
    /// Whose they all are, if they are all of one.
    pub account: Option<u32>,
    /// When the first and the last of them began, in ns since 1970.
    pub span: (i64, i64),
    /// From one to the next, in ns, as long as they are told apart.
    pub every: Sketch,
}

impl Script {
    fn merge(&mut self, other: &Self) {
        if self.bouts == 0 {
            (self.account, self.span) = (other.account, other.span);
        } else if self.account != other.account {
            self.account = None;
        }
        if other.bouts == 1 && self.bouts > 0 {
            self.every.add(other.span.0.abs_diff(self.span.1));
        }
        self.span = (self.span.0.min(other.span.0), self.span.1.max(other.span.1));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: however many different bouts there are, few scripts are left, and what they do
    /// together is what the bouts did.
    #[test]
    fn merging_loses_nothing() {
        let mut scripts = Scripts::default();
        let (mut done, mut bytes) = (0, 0);
        for number in 0..3 * ROOM as u64 {
            let mut bout = Script { bouts: 1, account: Some(1), ..Script::default() };
            for bit in (0..12_u32).filter(|bit| ((number * 2_654_435_761) >> (7 + bit)) & 1 == 1) {
                let mut manner = Manner { bouts: 1, ..Manner::default() };
                manner.times.add(1);
                manner.runs.add(1);
                manner.moved.first(number, false);
                bout.deeds.insert(Deed::of(Act::Read, bit), manner);
                (done, bytes) = (done + 1, bytes + number);
            }
            scripts.add(u32::try_from(number % 5).unwrap(), &bout);
        }
        let all = scripts.finish();
        assert!(all.len() <= SCRIPTS + 5, "{} scripts", all.len());
        assert_eq!(all.iter().map(|(_, script)| script.bouts).sum::<u64>(), 3 * ROOM as u64);
        let manners = || all.iter().flat_map(|(_, script)| script.deeds.values());
        assert_eq!(manners().map(|manner| manner.runs.count()).sum::<u64>(), done);
        let read = |manner: &Manner| {
            let [read, _] = &manner.moved.bytes;
            read.mean() * f64::from(u32::try_from(read.count()).unwrap())
        };
        let sum: f64 = manners().map(read).sum();
        assert!(
            (sum / f64::from(u32::try_from(bytes / 1024).unwrap()) / 1024.0 - 1.0).abs() < 1e-3,
            "{sum} of {bytes}"
        );
    }

    /// Promise: places that come again are kept among many that do not, and no run is lost.
    #[test]
    fn places_that_come_again() {
        let mut runs = Runs::default();
        let run = |at, bytes| Run { at, bytes, writes: false, grows: false, way: Way::Mapped };
        for n in 0..1000 {
            runs.add(run(64, 784), 1, true);
            runs.add(run(n * 4096, 100), 1, true);
        }
        runs.keep(10);
        assert_eq!((runs.count(), runs.moved[0]), (2000, 1000));
        assert_eq!(runs.pieces, [(run(64, 784), 1000)]);
    }
}
