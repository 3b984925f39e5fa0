//! Many workloads with faults at every request, on all processors until the budget ends.

use crate::crash::operation::Sync;
use crate::crash::record::message;
use crate::crash::workload::{Name, Workload, catalogue};
use crate::memory::measure;
use crate::workers::{Budget, Done, pulse, run_cases};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use spindle_clock::{Clock, Mutex, SystemClock};
use spindle_vfs::Limits;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::time::Duration;

/// Number of violations that ends a campaign.
const MOST_VIOLATIONS: usize = 20;
/// Number of violations that ends a workload.
const MOST_VIOLATIONS_PER_WORKLOAD: usize = 3;
/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// What faults are injected into: a small file system on its devices.
pub trait Subject: std::marker::Sync {
    /// A workload on it.
    type Test: Test;
    /// The name of the test whose campaign it belongs to, for the command that repeats a case.
    const TEST: &'static str;
    /// Returns its name, as in the names of cases.
    fn name(&self) -> &str;
    /// Returns the limits of its format.
    fn limits(&self) -> &Limits;
    /// Returns true if its random workloads make and remove snapshots.
    fn makes_snapshots(&self) -> bool {
        false
    }
    /// Prepares a workload on it.
    ///
    /// # Errors
    /// Reports what goes wrong without any fault.
    fn prepare(&self, workload: Workload) -> Result<Self::Test, String>;
}

/// A workload on a subject, prepared for faults.
pub trait Test {
    /// A fault, and the end of the run; its text repeats it.
    type Case: Clone + Send + fmt::Display + FromStr<Err = String>;
    /// Returns the cases: each fault at each request, or a sample.
    fn cases(&self, rng: &mut SmallRng) -> Vec<Self::Case>;
    /// Runs one case, and prints each call if `verbose`. Returns the number of requests with a
    /// fault.
    ///
    /// # Errors
    /// The first promise that is broken.
    fn run(&self, case: &Self::Case, verbose: bool) -> Result<u64, String>;
}

/// Returns the seed of a case, which its name determines.
pub(super) fn seed_of(workload: &Name, case: &impl fmt::Display) -> u64 {
    let mut hasher = DefaultHasher::new();
    (workload, case.to_string()).hash(&mut hasher);
    hasher.finish()
}

/// Runs the work of a case, which may use so many bytes of memory.
///
/// # Errors
/// Those of `work`, a panic, and too much memory.
pub(super) fn bounded(most_memory: usize, work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let (result, memory) = measure(|| catch_unwind(AssertUnwindSafe(work)));
    result.unwrap_or_else(|panic| Err(format!("panic: {}", message(&*panic))))?;
    if memory > most_memory {
        return Err(format!("used {memory} bytes of memory"));
    }
    Ok(())
}

/// The case of a subject.
type CaseOf<S> = <<S as Subject>::Test as Test>::Case;

/// A workload on a subject, and a case of it or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id<C> {
    /// The subject.
    pub subject: String,
    /// The workload.
    pub workload: Name,
    /// The case; if absent, all of the workload.
    pub case: Option<C>,
}

impl<C: fmt::Display> fmt::Display for Id<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.subject, self.workload)?;
        self.case.iter().try_for_each(|case| write!(f, "/{case}"))
    }
}

impl<C: FromStr<Err = String>> FromStr for Id<C> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, '/');
        let (Some(subject), Some(workload)) = (parts.next(), parts.next()) else {
            return Err(format!("{text:?} is not SUBJECT/WORKLOAD[/PHASE/…/FAULT/END]"));
        };
        let case = parts.next().map(str::parse).transpose()?;
        Ok(Self { subject: subject.into(), workload: workload.parse()?, case })
    }
}

impl<C: fmt::Display> Id<C> {
    /// Returns the command that repeats the case or workload, in the campaign of `test`.
    #[must_use]
    pub fn repeat(&self, test: &str) -> String {
        format!("SPINDLE_FAULT={self} cargo test -p spindle-torture --test {test} -- torture_ --nocapture")
    }
}

/// The results of a campaign.
#[derive(Debug, Default)]
pub struct Report {
    /// Workloads run.
    pub workloads: u64,
    /// Cases in which at least one request had a fault.
    pub faults: u64,
    /// The time that it took.
    pub time: Duration,
    /// Broken promises: the command that repeats the case, what is wrong, and the number of faults
    /// injected before.
    pub violations: Vec<(String, String, u64)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workloads, faults, time, violations } = self;
        let rate = u128::from(*faults) * 1000 / time.as_millis().max(1);
        let count = violations.len();
        write!(f, "{workloads} workloads: {faults} faults injected, {rate} per second, {count} violations")
    }
}

impl Report {
    fn add(&mut self, injected: u64, violations: Vec<(String, String)>) {
        self.workloads += 1;
        self.faults += injected;
        self.violations.extend(violations.into_iter().map(|(repeat, what)| (repeat, what, self.faults)));
    }

    /// Returns the broken promises, with the commands that repeat them.
    #[must_use]
    pub fn violation_list(&self) -> String {
        let line = |(repeat, what, faults): &(String, String, u64)| {
            format!("after {faults} faults\n{repeat}\n{what}\n")
        };
        self.violations.iter().map(line).collect()
    }
}

/// The subjects that the workloads run on.
pub struct Campaign<S> {
    subjects: Vec<S>,
}

impl<S: Subject> Campaign<S> {
    /// Returns the campaign with these subjects.
    #[must_use]
    pub const fn new(subjects: Vec<S>) -> Self {
        Self { subjects }
    }

    /// Returns the random workload with this number in the campaign with this seed.
    fn random_workload(&self, seed: u64, number: u64) -> (&S, Name) {
        let rng = &mut SmallRng::seed_from_u64(seed.rotate_left(32) ^ number);
        let subject = &self.subjects[rng.random_range(0..self.subjects.len())];
        let entries = catalogue(subject.limits()).len();
        let mut entry = || (rng.random_range(0..entries), rng.random_range(0..Sync::ALL.len()));
        let sequence = [entry(), entry(), entry()];
        let name = match rng.random_range(0..8) {
            _ if subject.makes_snapshots() => Name::Snapshots(rng.random()),
            length @ 0..3 => Name::Sequence(sequence[..=length].to_vec()),
            3 => Name::Full(rng.random()),
            _ => Name::Long(rng.random()),
        };
        (subject, name)
    }

    /// Runs all cases of one workload, and calls `at` with each before it runs. Returns the number
    /// of faults injected, and the violations with the commands that repeat them.
    fn run_workload(
        subject: &S,
        name: &Name,
        seed: u64,
        at: impl Fn(Id<CaseOf<S>>),
    ) -> (u64, Vec<(String, String)>) {
        let id = |case| Id { subject: subject.name().into(), workload: name.clone(), case };
        at(id(None));
        let test = match subject.prepare(Workload::new(name.clone(), subject.limits())) {
            Ok(test) => test,
            Err(what) => return (0, vec![(id(None).repeat(S::TEST), what)]),
        };
        let (mut faults, mut violations) = (0, Vec::new());
        for case in test.cases(&mut SmallRng::seed_from_u64(seed)) {
            at(id(Some(case.clone())));
            pulse();
            match test.run(&case, false) {
                Ok(injected) => faults += u64::from(injected > 0),
                Err(what) => violations.push((id(Some(case)).repeat(S::TEST), what)),
            }
            if violations.len() >= MOST_VIOLATIONS_PER_WORKLOAD {
                break;
            }
        }
        (faults, violations)
    }

    /// Runs what the variables of the environment say: the case or the workload in `SPINDLE_FAULT`,
    /// or random workloads. The seed of these is `SPINDLE_SEED` or a new one, which is printed;
    /// their number is `SPINDLE_CASES`, their time `SPINDLE_BUDGET` in seconds. Without both it
    /// runs `sample` of them.
    ///
    /// # Panics
    /// If a variable cannot be understood, or a thread cannot be started.
    #[must_use]
    pub fn run_as_wished(&self, sample: u64) -> Report {
        let number = |name: &str| -> Option<u64> {
            let text = std::env::var(name).ok()?;
            Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
        };
        if let Ok(id) = std::env::var("SPINDLE_FAULT") {
            return self.repeat(&id.parse().unwrap_or_else(|e| panic!("SPINDLE_FAULT: {e}")));
        }
        let seed = number("SPINDLE_SEED").unwrap_or_else(|| SmallRng::from_os_rng().next_u64());
        println!("SPINDLE_SEED={seed} cargo test -p spindle-torture --test {}", S::TEST);
        let budget = match (number("SPINDLE_CASES"), number("SPINDLE_BUDGET")) {
            (Some(cases), _) => Budget::Cases(cases),
            (None, Some(seconds)) => Budget::Time(Duration::from_secs(seconds)),
            (None, None) => Budget::Cases(sample),
        };
        self.run(seed, budget)
    }

    /// Runs random workloads, which `seed` determines, and prints progress on standard error every
    /// few seconds. If a case hangs, the process prints the command that repeats it, and ends.
    ///
    /// # Panics
    /// If a thread cannot be started.
    #[must_use]
    pub fn run(&self, seed: u64, budget: Budget) -> Report {
        let start = SystemClock.monotonic();
        let mut report = Report::default();
        let mut printed = start;
        let running: Mutex<BTreeMap<u64, Id<CaseOf<S>>>> = Mutex::default();
        let run = |number| {
            let (subject, name) = self.random_workload(seed, number);
            let done = Self::run_workload(subject, &name, seed ^ number, |id| {
                drop(running.lock().insert(number, id));
            });
            running.lock().remove(&number);
            done
        };
        let take = |done: Done<(u64, Vec<(String, String)>)>| {
            let (faults, violations) = done.result;
            report.add(faults, violations);
            let now = SystemClock.monotonic();
            report.time = now.saturating_sub(start);
            if now.saturating_sub(printed) > PROGRESS_INTERVAL {
                printed = now;
                eprintln!("{report}");
            }
            if report.violations.len() < MOST_VIOLATIONS {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        run_cases(budget, run, take, |number| {
            running.lock().get(&number).map(|id| id.repeat(S::TEST)).unwrap_or_default()
        });
        report
    }

    /// Repeats a case, or all of a workload.
    ///
    /// # Panics
    /// If there is no such subject.
    #[must_use]
    pub fn repeat(&self, id: &Id<CaseOf<S>>) -> Report {
        let subject = self.subjects.iter().find(|subject| subject.name() == id.subject);
        let subject = subject.unwrap_or_else(|| panic!("there is no subject {}", id.subject));
        let mut report = Report::default();
        let (faults, violations) = match &id.case {
            None => Self::run_workload(subject, &id.workload, 0, |_| ()),
            Some(case) => {
                let test = subject.prepare(Workload::new(id.workload.clone(), subject.limits()));
                match test.and_then(|test| test.run(case, true)) {
                    Ok(injected) => (u64::from(injected > 0), Vec::new()),
                    Err(what) => (0, vec![(id.repeat(S::TEST), what)]),
                }
            }
        };
        report.add(faults, violations);
        report
    }
}
