//! Many workloads with faults at every request, on all processors until the budget ends.

use super::fault_test::{Case, FaultTest};
use crate::crash::images::{Image, shapes};
use crate::crash::operation::Sync;
use crate::crash::workload::{Name, Workload, catalogue};
use crate::workers::{Budget, Done, pulse, run_cases};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_clock::{Clock, Mutex, SystemClock};
use spindle_ffs::LogUse;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::time::Duration;

/// Most requests of a kind that each fault is injected into: all of a short workload.
const MOST_REQUESTS: usize = 40;
/// Number of violations that ends a campaign.
const MOST_VIOLATIONS: usize = 20;
/// Number of violations that ends a workload.
const MOST_VIOLATIONS_PER_WORKLOAD: usize = 3;
/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// A workload on a format, and a case of it or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id {
    /// The format.
    pub format: String,
    /// The workload.
    pub workload: Name,
    /// The case; if absent, all of the workload.
    pub case: Option<Case>,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.format, self.workload)?;
        self.case.iter().try_for_each(|case| write!(f, "/{case}"))
    }
}

impl FromStr for Id {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, '/');
        let (Some(format), Some(workload)) = (parts.next(), parts.next()) else {
            return Err(format!("{text:?} is not FORMAT/WORKLOAD[/PHASE/FAULT/END]"));
        };
        let case = parts.next().map(str::parse).transpose()?;
        Ok(Self { format: format.into(), workload: workload.parse()?, case })
    }
}

impl Id {
    /// Returns the command that repeats the case or workload.
    #[must_use]
    pub fn repeat(&self) -> String {
        format!("SPINDLE_FAULT={self} cargo test -p spindle-torture --test faults -- torture_ --nocapture")
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
    /// Broken promises: the case, what is wrong, and the number of faults injected before.
    pub violations: Vec<(Id, String, u64)>,
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
    fn add(&mut self, injected: u64, violations: Vec<(Id, String)>) {
        self.workloads += 1;
        self.faults += injected;
        self.violations.extend(violations.into_iter().map(|(id, what)| (id, what, self.faults)));
    }

    /// Returns the broken promises, with the commands that repeat them.
    #[must_use]
    pub fn violation_list(&self) -> String {
        let line = |(id, what, faults): &(Id, String, u64)| {
            format!("after {faults} faults\n{}\n{what}\n", id.repeat())
        };
        self.violations.iter().map(line).collect()
    }
}

/// The images that the workloads run on.
pub struct Campaign {
    images: Vec<Image>,
}

impl Campaign {
    /// Makes the images, with logs unless `log` says otherwise.
    ///
    /// # Panics
    /// If one cannot be made.
    #[must_use]
    pub fn new(log: LogUse) -> Self {
        Self { images: shapes().iter().map(|shape| Image::new(shape, log)).collect() }
    }

    /// Returns the random workload with this number in the campaign with this seed.
    fn random_workload(&self, seed: u64, number: u64) -> (&Image, Name) {
        let rng = &mut SmallRng::seed_from_u64(seed.rotate_left(32) ^ number);
        let image = &self.images[rng.random_range(0..self.images.len())];
        let entries = catalogue(&image.limits).len();
        let mut entry = || (rng.random_range(0..entries), rng.random_range(0..Sync::ALL.len()));
        let sequence = [entry(), entry(), entry()];
        let name = match rng.random_range(0..8) {
            length @ 0..3 => Name::Sequence(sequence[..=length].to_vec()),
            3 => Name::Full(rng.random()),
            _ => Name::Long(rng.random()),
        };
        (image, name)
    }

    /// Runs all cases of one workload, and calls `at` with each before it runs. Returns the number
    /// of faults injected, and the violations.
    fn run_workload(image: &Image, name: &Name, seed: u64, at: impl Fn(Id)) -> (u64, Vec<(Id, String)>) {
        let id = |case| Id { format: image.name.into(), workload: name.clone(), case };
        at(id(None));
        let test = match FaultTest::new(image, Workload::new(name.clone(), &image.limits)) {
            Ok(test) => test,
            Err(what) => return (0, vec![(id(None), what)]),
        };
        let (mut faults, mut violations) = (0, Vec::new());
        for case in test.cases(MOST_REQUESTS, &mut SmallRng::seed_from_u64(seed)) {
            at(id(Some(case.clone())));
            pulse();
            match test.run(&case, false) {
                Ok(injected) => faults += u64::from(injected > 0),
                Err(what) => violations.push((id(Some(case)), what)),
            }
            if violations.len() >= MOST_VIOLATIONS_PER_WORKLOAD {
                break;
            }
        }
        (faults, violations)
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
        let running: Mutex<BTreeMap<u64, Id>> = Mutex::default();
        let run = |number| {
            let (image, name) = self.random_workload(seed, number);
            let done =
                Self::run_workload(image, &name, seed ^ number, |id| drop(running.lock().insert(number, id)));
            running.lock().remove(&number);
            done
        };
        let take = |done: Done<(u64, Vec<(Id, String)>)>| {
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
            running.lock().get(&number).map(Id::repeat).unwrap_or_default()
        });
        report
    }

    /// Repeats a case, or all of a workload.
    ///
    /// # Panics
    /// If there is no such format.
    #[must_use]
    pub fn repeat(&self, id: &Id) -> Report {
        let image = self.images.iter().find(|image| image.name == id.format);
        let image = image.unwrap_or_else(|| panic!("there is no format {}", id.format));
        let mut report = Report::default();
        let (faults, violations) = match &id.case {
            None => Self::run_workload(image, &id.workload, 0, |_| ()),
            Some(case) => {
                let test = FaultTest::new(image, Workload::new(id.workload.clone(), &image.limits));
                match test.and_then(|test| test.run(case, true)) {
                    Ok(injected) => (u64::from(injected > 0), Vec::new()),
                    Err(what) => (0, vec![(id.clone(), what)]),
                }
            }
        };
        report.add(faults, violations);
        report
    }
}
