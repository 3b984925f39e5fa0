//! Many workloads on all processors: a fixed set, and then random ones until the budget ends.

use super::aimed::Aim;
use super::checker::{CrashStateChecker, Findings, Point};
use super::images::{Image, Shape, shapes, snapshot_shapes, synchronous_shapes};
use super::operation;
use super::record::{Recording, message};
use super::recorder::Recorder;
use super::workload::{Name, Workload, catalogue};
use crate::overlay::Usage;
use crate::workers::{self, Done, run_cases};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use spindle_clock::{Clock, Mutex, SystemClock};
use spindle_ffs::LogUse;
use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Number of violations that ends a campaign.
const MOST_VIOLATIONS: usize = 20;
/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// The extent of a campaign.
#[derive(Clone, Copy, Debug)]
pub enum Budget {
    /// This many workloads, at random from all kinds.
    Sample(usize),
    /// All sequences of one operation on each format and of two operations on the first, then
    /// random workloads until this time has passed.
    Time(Duration),
}

/// The identity of a state, as messages print it.
#[derive(Clone, Debug)]
pub struct Id {
    /// The format.
    pub format: String,
    /// The workload.
    pub workload: Name,
    /// The power cuts: in the run, and in the recovery. If empty, the whole workload is meant.
    pub points: Vec<Point>,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.format, self.workload)?;
        self.points.iter().try_for_each(|point| write!(f, "/{point}"))
    }
}

impl std::str::FromStr for Id {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is not FORMAT/WORKLOAD[/CUT.VARIANT[/CUT.VARIANT]]");
        let mut parts = text.split('/');
        let format = parts.next().ok_or_else(wrong)?.to_owned();
        let workload = parts.next().ok_or_else(wrong)?.parse()?;
        let point = |text: &str| -> Option<Point> {
            let (cut, variant) = text.split_once('.')?;
            Some(Point { cut: cut.parse().ok()?, variant: variant.parse().ok()? })
        };
        let points = parts.map(|part| point(part).ok_or_else(wrong)).collect::<Result<_, _>>()?;
        Ok(Self { format, workload, points })
    }
}

/// Returns the command that repeats a state.
#[must_use]
pub fn repeat(id: &Id) -> String {
    format!("SPINDLE_CRASH={id} make torture")
}

/// The results of a campaign.
#[derive(Debug, Default)]
pub struct Report {
    /// Workloads run.
    pub workloads: u64,
    /// States recovered and judged.
    pub states: u64,
    /// The states among them with a power cut during a recovery.
    pub nested: u64,
    /// Sessions of other systems before a mount by Spindle.
    pub foreign: u64,
    /// The most requests and bytes of a recovery.
    pub recovery: Usage,
    /// The time that it took.
    pub time: Duration,
    /// Broken promises: the state, what is wrong, and the number of states judged by the end of its
    /// workload.
    pub violations: Vec<(Id, String, u64)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workloads, states, nested, foreign, recovery, time, violations } = self;
        let rate = u128::from(*states) * 1000 / time.as_millis().max(1);
        write!(
            f,
            "{workloads} workloads, {states} states ({nested} with a second crash), {foreign} sessions of other \
             systems, {rate} states per second, a recovery took at most {} requests and {} KiB, {} violations",
            recovery.requests,
            recovery.bytes >> 10,
            violations.len()
        )
    }
}

impl Report {
    fn add(&mut self, format: &str, name: &Name, findings: Findings, panicked_at: Option<String>) {
        self.workloads += 1;
        self.states += findings.states;
        self.nested += findings.nested;
        self.foreign += findings.foreign;
        self.recovery = self.recovery.max(findings.recovery);
        let panic = panicked_at.map(|place| format!("\nthe last panic was at {place}")).unwrap_or_default();
        for (points, what) in findings.violations {
            let id = Id { format: format.to_owned(), workload: name.clone(), points };
            self.violations.push((id, format!("{what}{panic}"), self.states));
        }
    }

    /// Returns the broken promises, with the commands that repeat them.
    #[must_use]
    pub fn violation_list(&self) -> String {
        let violations = self.violations.iter();
        let lines =
            violations.map(|(id, what, states)| format!("after {states} states: {}\n{what}\n", repeat(id)));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// An image, and devices that hold it, for one workload at a time each.
struct ImagePool {
    image: Image,
    idle: Mutex<Vec<Arc<Recorder>>>,
}

/// What the workloads on a format are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Mounts with a log.
    Logged,
    /// Mounts with `-o sync`.
    Synchronous,
    /// Snapshots, on mounts with a log.
    Snapshots,
}

/// The images of a format.
struct Format {
    of: Use,
    /// With a log.
    logged: ImagePool,
    /// Without a log: the first mount makes one.
    unlogged: ImagePool,
}

/// The images of all formats, for many workloads.
pub struct Explorer {
    formats: Vec<Format>,
    /// How the images were made that should have a log; without one there are violations to be
    /// found.
    log: LogUse,
}

impl ImagePool {
    const fn new(image: Image) -> Self {
        Self { image, idle: Mutex::new(Vec::new()) }
    }

    /// Returns a workload's findings, and prints what happens if `verbose`.
    fn run(&self, name: &Name, only: Option<&[Point]>, verbose: bool) -> Findings {
        let idle = self.idle.lock().pop();
        let device = idle.unwrap_or_else(|| Arc::new(self.image.recorder()));
        let run = || {
            let workload = Workload::new(name.clone(), &self.image.limits);
            match Recording::of(&self.image, &workload, &device) {
                Ok(recording) => {
                    if verbose {
                        println!("{}", recording.story(&workload));
                    }
                    CrashStateChecker::new(&recording, self.image.mounting, name, device.clone())
                        .explore(only)
                }
                Err(what) => Findings::failed(what),
            }
        };
        let findings = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Findings::failed(format!("panic: {}", message(&*panic))));
        device.rewind(0);
        self.idle.lock().push(device);
        findings
    }
}

impl Explorer {
    /// Makes the images, with logs unless `log` says otherwise.
    ///
    /// # Panics
    /// If one cannot be made.
    #[must_use]
    pub fn new(log: LogUse) -> Self {
        let made = |shape: &Shape, log| ImagePool::new(Image::new(shape, log));
        let with_log = |of| {
            move |shape: Shape| Format {
                of,
                logged: made(&shape, log),
                unlogged: ImagePool::new(Image { log, ..Image::new(&shape, LogUse::Never) }),
            }
        };
        let without = |shape: Shape| Format {
            of: Use::Synchronous,
            logged: made(&shape, LogUse::Never),
            unlogged: made(&shape, LogUse::Never),
        };
        let logged = shapes().into_iter().map(with_log(Use::Logged));
        let snapshots = snapshot_shapes().into_iter().map(with_log(Use::Snapshots));
        let synchronous = synchronous_shapes().into_iter().map(without);
        Self { formats: logged.chain(synchronous).chain(snapshots).collect(), log }
    }

    /// Runs all sequences of one operation on each format that is mounted with `-o sync`.
    #[must_use]
    pub fn explore_synchronous(&self) -> Report {
        let start = SystemClock.monotonic();
        let mut report = Report::default();
        for (format, name) in self.fixed(Use::Synchronous) {
            report.add(self.name(format), &name, self.base(format, &name).run(&name, None, false), None);
        }
        report.time = SystemClock.monotonic().saturating_sub(start);
        report
    }

    /// Runs so many random workloads that make and remove snapshots, on each format that has them.
    ///
    /// # Panics
    /// If a thread cannot be started.
    #[must_use]
    pub fn explore_snapshots(&self, seed: u64, count: u64) -> Report {
        let start = SystemClock.monotonic();
        let mut report = Report::default();
        let cases: Vec<_> =
            (0..count).flat_map(|n| self.formats(Use::Snapshots).map(move |of| (of, n))).collect();
        let name = |id: u64| {
            let (format, n) = cases[usize::try_from(id).expect("an index")];
            (format, Name::Snapshots(seed.wrapping_add(n)))
        };
        let run = |id| {
            let (format, name) = name(id);
            self.base(format, &name).run(&name, None, false)
        };
        let take = |done: Done<Findings>| {
            let (format, name) = name(done.id);
            report.add(self.name(format), &name, done.result, done.panicked_at);
            ControlFlow::Continue(())
        };
        let id = |id| {
            let (format, workload) = name(id);
            repeat(&Id { format: self.name(format).into(), workload, points: Vec::new() })
        };
        run_cases(workers::Budget::Cases(cases.len() as u64), run, take, id);
        report.time = SystemClock.monotonic().saturating_sub(start);
        report
    }

    /// Returns the formats of a use.
    fn formats(&self, of: Use) -> impl Iterator<Item = usize> {
        (0..self.formats.len()).filter(move |&format| self.formats[format].of == of)
    }

    /// Returns the fixed set of workloads on [`Self::formats`]: format and name.
    fn fixed(&self, of: Use) -> Vec<(usize, Name)> {
        let mut fixed = Vec::new();
        let syncs = 0..operation::Sync::ALL.len();
        let entries = |format: usize| catalogue(&self.formats[format].logged.image.limits).len();
        for format in self.formats(of) {
            let aims = Aim::on(&self.formats[format].logged.image.limits);
            fixed.extend(aims.map(|aim| (format, Name::Aimed(aim))));
            for entry in 0..entries(format) {
                fixed.extend(syncs.clone().map(|sync| (format, Name::Sequence(vec![(entry, sync)]))));
                if self.log == LogUse::Wanted && of == Use::Logged {
                    fixed.push((format, Name::FirstMount(entry, 1 + entry % 3)));
                }
            }
        }
        if of == Use::Synchronous {
            return fixed;
        }
        for (first, second) in (0..entries(0)).flat_map(|a| (0..entries(0)).map(move |b| (a, b))) {
            for (before, after) in syncs.clone().flat_map(|a| syncs.clone().map(move |b| (a, b))) {
                fixed.push((0, Name::Sequence(vec![(first, before), (second, after)])));
            }
        }
        fixed
    }

    /// Returns a random workload.
    fn random_workload(&self, rng: &mut SmallRng) -> (usize, Name) {
        let format = if rng.random() { 0 } else { rng.random_range(0..self.formats(Use::Logged).count()) };
        let entries = catalogue(&self.formats[format].logged.image.limits).len();
        let mut entry = || (rng.random_range(0..entries), rng.random_range(0..operation::Sync::ALL.len()));
        let sequence = [entry(), entry(), entry()];
        let name = match rng.random_range(0..4) {
            0 => Name::Sequence(sequence[..2].to_vec()),
            1 => Name::Sequence(sequence.to_vec()),
            2 => Name::Long(rng.random()),
            _ => Name::Full(rng.random()),
        };
        (format, name)
    }

    fn base(&self, format: usize, name: &Name) -> &ImagePool {
        let format = &self.formats[format];
        if matches!(name, Name::FirstMount(..)) { &format.unlogged } else { &format.logged }
    }

    /// Runs workloads, and prints progress on standard error every few seconds.
    ///
    /// # Panics
    /// If a thread cannot be started.
    #[must_use]
    pub fn explore(&self, seed: u64, budget: Budget) -> Report {
        let start = SystemClock.monotonic();
        let since = || SystemClock.monotonic().saturating_sub(start);
        let mut fixed = self.fixed(Use::Logged);
        let sampled = match budget {
            Budget::Sample(count) => {
                fixed.shuffle(&mut SmallRng::seed_from_u64(seed));
                // Hardly any other workload reaches the situations of these.
                fixed.sort_by_key(|(_, name)| !matches!(name, Name::Aimed(_)));
                fixed.truncate(count - count / 4);
                workers::Budget::Cases(count as u64 / 4)
            }
            Budget::Time(time) => workers::Budget::Time(time),
        };
        let mut report = Report::default();
        let mut printed = Duration::ZERO;
        let total = fixed.len() as u64;
        let mut each = |case: &(dyn Fn(u64) -> (usize, Name) + Sync), rounds| {
            let run = |id| {
                let (format, name) = case(id);
                self.base(format, &name).run(&name, None, false)
            };
            let take = |done: Done<Findings>| {
                let (format, name) = case(done.id);
                report.add(self.name(format), &name, done.result, done.panicked_at);
                report.time = since();
                if report.time > printed + PROGRESS_INTERVAL {
                    printed = report.time;
                    eprintln!("{report}; {} of {total} fixed workloads", report.workloads.min(total));
                }
                if report.violations.len() < MOST_VIOLATIONS {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            };
            let id = |id| {
                let (format, workload) = case(id);
                repeat(&Id { format: self.name(format).into(), workload, points: Vec::new() })
            };
            run_cases(rounds, run, take, id);
        };
        let at = |id: u64| usize::try_from(id).expect("an index");
        each(&|id| fixed[at(id)].clone(), workers::Budget::Cases(total));
        let sampled = match sampled {
            workers::Budget::Time(time) => workers::Budget::Time(time.saturating_sub(since())),
            other => other,
        };
        each(&|id| self.random_workload(&mut SmallRng::seed_from_u64(seed.rotate_left(32) ^ id)), sampled);
        report.time = since();
        report
    }

    fn name(&self, format: usize) -> &'static str {
        self.formats[format].logged.image.name
    }

    /// Repeats a state or a whole workload, and prints what is done.
    ///
    /// # Panics
    /// If there is no such format.
    #[must_use]
    pub fn repeat(&self, id: &Id) -> Report {
        let mut report = Report::default();
        let format = (0..self.formats.len()).find(|&format| self.name(format) == id.format);
        let format = format.unwrap_or_else(|| panic!("there is no format {}", id.format));
        let only = (!id.points.is_empty()).then_some(&id.points[..]);
        let start = SystemClock.monotonic();
        let findings = self.base(format, &id.workload).run(&id.workload, only, true);
        report.add(&id.format, &id.workload, findings, None);
        report.time = SystemClock.monotonic().saturating_sub(start);
        report
    }
}
