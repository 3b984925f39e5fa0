//! Many workloads, each struck at every request, on all processors until the budget ends.

use super::trial::{Case, FaultTest};
use crate::crash::images::{Image, shapes};
use crate::crash::operation::Sync;
use crate::crash::workload::{Name, Workload, catalogue};
use crate::workers::{Budget, Done, pulse, work};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_clock::{Clock, Mutex, SystemClock};
use spindle_ffs::LogUse;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::time::Duration;

/// Requests of a kind that are struck by each fault: all of a short workload.
const MOST_REQUESTS: usize = 40;
/// Violations that end a campaign.
const ENOUGH: usize = 20;
/// Violations after which a workload is given up.
const MOST_OF_ONE: usize = 3;
/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(5);

/// A workload on a format, and a case of it or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id {
    /// The format.
    pub format: String,
    /// The workload.
    pub workload: Name,
    /// The case; without, all of the workload.
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
    /// Returns the command that repeats it.
    #[must_use]
    pub fn repeat(&self) -> String {
        format!("SPINDLE_FAULT={self} cargo test -p spindle-torture --test faults -- torture_ --nocapture")
    }
}

/// What came out.
#[derive(Debug, Default)]
pub struct Report {
    /// Workloads done.
    pub workloads: u64,
    /// Faults that have happened to at least one request.
    pub faults: u64,
    /// How long it took.
    pub time: Duration,
    /// Broken promises, with the faults that had been injected before.
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
    fn add(&mut self, struck: u64, violations: Vec<(Id, String)>) {
        self.workloads += 1;
        self.faults += struck;
        self.violations.extend(violations.into_iter().map(|(id, what)| (id, what, self.faults)));
    }

    /// Returns the broken promises, with the commands that repeat them.
    #[must_use]
    pub fn listed(&self) -> String {
        let listed = self.violations.iter();
        let listed =
            listed.map(|(id, what, faults)| format!("after {faults} faults\n{}\n{what}\n", id.repeat()));
        listed.collect::<Vec<_>>().concat()
    }
}

/// The images that faults happen to.
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

    /// Returns the workload with a number, in the campaign with this seed.
    fn lot(&self, seed: u64, number: u64) -> (&Image, Name) {
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

    /// Strikes each request of one workload; `at` is called with each case before it runs.
    fn strike(image: &Image, name: &Name, seed: u64, at: impl Fn(Id)) -> (u64, Vec<(Id, String)>) {
        let id = |case| Id { format: image.name.into(), workload: name.clone(), case };
        at(id(None));
        let trial = match FaultTest::new(image, Workload::new(name.clone(), &image.limits)) {
            Ok(trial) => trial,
            Err(what) => return (0, vec![(id(None), what)]),
        };
        let (mut faults, mut violations) = (0, Vec::new());
        for case in trial.cases(MOST_REQUESTS, &mut SmallRng::seed_from_u64(seed)) {
            at(id(Some(case.clone())));
            pulse();
            match trial.strike(&case, false) {
                Ok(struck) => faults += u64::from(struck > 0),
                Err(what) => violations.push((id(Some(case)), what)),
            }
            if violations.len() >= MOST_OF_ONE {
                break;
            }
        }
        (faults, violations)
    }

    /// Runs random workloads, which `seed` determines, and prints progress on standard error now
    /// and then. A case that hangs ends the process, after the command that repeats it.
    ///
    /// # Panics
    /// If a thread cannot be started.
    #[must_use]
    pub fn run(&self, seed: u64, budget: Budget) -> Report {
        let start = SystemClock.monotonic();
        let mut report = Report::default();
        let mut printed = start;
        let present: Mutex<BTreeMap<u64, Id>> = Mutex::default();
        let run = |number| {
            let (image, name) = self.lot(seed, number);
            let done =
                Self::strike(image, &name, seed ^ number, |id| drop(present.lock().insert(number, id)));
            present.lock().remove(&number);
            done
        };
        let take = |done: Done<(u64, Vec<(Id, String)>)>| {
            let (faults, violations) = done.result;
            report.add(faults, violations);
            let now = SystemClock.monotonic();
            report.time = now.saturating_sub(start);
            if now.saturating_sub(printed) > PROGRESS {
                printed = now;
                eprintln!("{report}");
            }
            if report.violations.len() < ENOUGH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        work(budget, run, take, |number| present.lock().get(&number).map(Id::repeat).unwrap_or_default());
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
            None => Self::strike(image, &id.workload, 0, |_| ()),
            Some(case) => {
                let trial = FaultTest::new(image, Workload::new(id.workload.clone(), &image.limits));
                match trial.and_then(|trial| trial.strike(case, true)) {
                    Ok(struck) => (u64::from(struck > 0), Vec::new()),
                    Err(what) => (0, vec![(id.clone(), what)]),
                }
            }
        };
        report.add(faults, violations);
        report
    }
}
