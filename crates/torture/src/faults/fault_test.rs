//! One workload on one image, tested with faults.
//!
//! A run on a healthy device ([`HealthyRun`]) gives what is expected and counts the requests, so
//! that a fault can be injected into each. A case then runs the same steps on a faulty device. A
//! read that fails is tried again, as programs do. So a temporary fault changes nothing in the end,
//! and the test sees it if a refused operation has changed something.
//!
//! After a failed write or flush every change and every `sync` must be refused, and reads must
//! continue. In the end the medium is opened on a healthy device and judged as after a crash.

use super::campaign::{Subject, Test, bounded, seed_of};
use super::device::{Counts, FaultyDevice, Unflushed};
use super::healthy_run::{HealthyRun, Unread};
use super::plan::{Fault, Plan};
use super::running::{FaultyRun, Refusal};
use crate::crash::images::{self, Image};
use crate::crash::operation::Driver;
use crate::crash::oracle::Tree;
use crate::crash::record::open;
use crate::crash::recovery::checked;
use crate::crash::workload::Workload;
use crate::exercise::{change, walk};
use rand::rngs::SmallRng;
use rand::seq::index::sample;
use rand::{Rng, SeedableRng};
use spindle_clock::{Clock, ManualClock};
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::{Finding, Found, Options, check};
use spindle_ffs::repair::{self, Scope};
use spindle_ffs::{LogUse, Superblock};
use spindle_tree::check::{Finding as _, Severity};
use spindle_vfs::{FileSystem, Limits};
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Bytes of memory that a case may hold at once.
const MOST_MEMORY: usize = 32 << 20;
/// Most requests of a kind that each fault is injected into: all of a short workload.
const MOST_REQUESTS: usize = 40;
/// Findings that a check of damage may list.
const MOST_FINDINGS: usize = 200;

/// The phase in which the fault is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The workload.
    Run,
    /// The mount after a crash at the end of the workload.
    Recovery,
}

/// A fault, and the end of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The phase in which the fault is injected.
    pub phase: Phase,
    /// The fault.
    pub plan: Plan,
    /// The fate of the writes that were not durable at the end.
    pub unflushed: Unflushed,
}

/// The names of the phases.
pub(super) const PHASES: [(Phase, &str); 2] = [(Phase::Run, "run"), (Phase::Recovery, "recovery")];
const ENDS: [(Unflushed, &str); 3] =
    [(Unflushed::Kept, "kept"), (Unflushed::Lost, "lost"), (Unflushed::Either, "either")];

/// Returns the name of a value.
pub(super) fn name_of<T: PartialEq>(names: &[(T, &'static str)], value: &T) -> &'static str {
    names.iter().find(|(known, _)| known == value).map_or("", |(_, name)| name)
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { phase, plan, unflushed } = self;
        write!(f, "{}/{plan}/{}", name_of(&PHASES, phase), name_of(&ENDS, unflushed))
    }
}

impl FromStr for Case {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a case such as run/torn-write@7-8w/lost");
        let [phase, plan, end] = text.split('/').collect::<Vec<_>>()[..] else { return Err(wrong()) };
        let phase = PHASES.iter().find(|(_, name)| *name == phase).ok_or_else(wrong)?.0;
        let unflushed = ENDS.iter().find(|(_, name)| *name == end).ok_or_else(wrong)?.0;
        Ok(Self { phase, plan: plan.parse()?, unflushed })
    }
}

/// A workload on an image, prepared for faults.
pub struct FaultTest {
    expected: HealthyRun,
    medium: MemoryDevice,
    /// The requests of a healthy run, with its unmount.
    run: Counts,
    /// The medium after a crash at the end of a healthy run.
    crashed: MemoryDevice,
    /// The requests of a healthy recovery of `crashed`.
    recovery: Counts,
}

impl FaultTest {
    /// Runs the workload on healthy devices, up to the first step that is refused because space is
    /// missing.
    ///
    /// # Errors
    /// Reports what goes wrong without any fault.
    pub fn new(image: &Image, workload: Workload) -> Result<Self, String> {
        let medium = image.device();
        let mut test = Self {
            expected: HealthyRun::of(image, workload)?,
            run: Counts::default(),
            crashed: medium.branch(),
            recovery: Counts::default(),
            medium,
        };
        let device = healthy(&test.medium);
        FaultyRun::new(&device, &Plan::NONE, false).run(&test.expected, false)?;
        test.crashed = device.medium(Unflushed::Either);
        let device = healthy(&test.medium);
        FaultyRun::new(&device, &Plan::NONE, false).run(&test.expected, true)?;
        test.run = device.counts();
        let device = healthy(&test.crashed);
        recover(&device).map_err(|e| format!("recovery: {e}"))?;
        test.recovery = device.counts();
        Ok(test)
    }

    /// Tests a fault that the device reports: nothing that was acknowledged may be lost.
    fn reported_fault(
        &self,
        case: &Case,
        device: &Arc<FaultyDevice>,
        seed: u64,
        verbose: bool,
    ) -> Result<(), String> {
        let reached = match case.phase {
            Phase::Run => {
                FaultyRun::new(device, &case.plan, verbose).run(&self.expected, seed.is_multiple_of(2))?
            }
            Phase::Recovery => {
                let running = FaultyRun::new(device, &case.plan, verbose);
                // The recovery may fail; its result is judged below.
                let unread = match running.retry(&"recovery", || mounted(device)) {
                    Ok(unread) => unread,
                    Err(Refusal::Device(_)) => Unread::Nothing,
                    Err(Refusal::Other(error)) => return Err(format!("recovery: {error}")),
                };
                self.expected.reached(unread)
            }
        };
        let found = healthy(&device.medium(case.unflushed));
        if reached.unread != Unread::Nothing {
            repair_unread(&found, reached.unread).map_err(|e| format!("after unread metadata: {e}"))?;
        }
        let tree = recover(&found).map_err(|e| format!("after reopening: {e}"))?;
        self.expected
            .history
            .judge(&tree, reached.promises, reached.version)
            .map_err(|e| format!("after reopening: {e}"))?;
        Ok(())
    }

    /// Tests a fault that the device does not report: every call must return, with any result.
    fn silent_fault(&self, case: &Case, device: &Arc<FaultyDevice>, seed: u64) {
        let clock = images::clock();
        if case.phase == Phase::Recovery {
            let _ = mounted(device);
        } else if let Ok(fs) = images::open(device.clone(), clock.clone(), LogUse::IfThere) {
            let mut driver = Driver::of_ffs(&fs);
            for (n, step) in self.expected.workload.steps.iter().enumerate() {
                clock.advance(1);
                if driver.apply(&step.op, n as u64, usize::MAX).is_ok() {
                    let _ = driver.sync(&step.op, step.sync);
                }
            }
            let _ = fs.unmount();
        }
        let found = healthy(&device.medium(case.unflushed));
        let options = Options { limit: MOST_FINDINGS, ..Options::default() };
        let _ = check(&*found, &options, &mut |_| ());
        if let Ok(fs) = images::open(found.clone(), clock, LogUse::IfThere) {
            let nodes = walk(&fs);
            change(&fs, nodes, &mut SmallRng::seed_from_u64(seed));
            let _ = fs.unmount();
        }
        let _ = check(&*found, &options, &mut |_| ());
    }
}

impl Subject for Image {
    type Test = FaultTest;
    const TEST: &'static str = "faults";
    fn name(&self) -> &str {
        self.name
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn makes_snapshots(&self) -> bool {
        self.snapshots
    }
    fn prepare(&self, workload: Workload) -> Result<FaultTest, String> {
        FaultTest::new(self, workload)
    }
}

impl Test for FaultTest {
    type Case = Case;

    fn cases(&self, rng: &mut SmallRng) -> Vec<Case> {
        let mut cases = Vec::new();
        for (phase, counts) in [(Phase::Run, self.run), (Phase::Recovery, self.recovery)] {
            for fault in Fault::ALL {
                let requests = usize::try_from(counts.of(fault.affects())).unwrap_or(usize::MAX);
                for first in sample(rng, requests, MOST_REQUESTS.min(requests)) {
                    let plan = Plan::random(fault, first as u64, rng);
                    let unflushed = ENDS[rng.random_range(0..ENDS.len())].0;
                    cases.push(Case { phase, plan, unflushed });
                }
            }
        }
        cases
    }

    fn run(&self, case: &Case, verbose: bool) -> Result<u64, String> {
        let seed = seed_of(&self.expected.workload.name, case);
        let medium = if case.phase == Phase::Run { &self.medium } else { &self.crashed };
        let device = Arc::new(FaultyDevice::new(medium, case.plan.clone(), seed));
        let work = || {
            if case.plan.fault.is_reported() {
                self.reported_fault(case, &device, seed, verbose)
            } else {
                self.silent_fault(case, &device, seed);
                Ok(())
            }
        };
        bounded(MOST_MEMORY, work)?;
        if device.exhausted() {
            return Err(format!("too many requests: {:?}", device.counts()));
        }
        Ok(device.counts().injected)
    }
}

/// Returns a device that holds a medium, without faults.
fn healthy(medium: &MemoryDevice) -> Arc<FaultyDevice> {
    Arc::new(FaultyDevice::new(medium, Plan::NONE, 0))
}

/// Mounts, reads everything and unmounts. Returns whether metadata could not be read.
fn mounted(device: &Arc<FaultyDevice>) -> spindle_vfs::Result<Unread> {
    let fs = images::open(device.clone(), later(), LogUse::IfThere)?;
    walk(&fs);
    fs.unmount()?;
    Ok(Unread::of(&fs, false))
}

/// Checks that a file system of which metadata could not be read is not marked clean although it
/// was unmounted, and has it repaired. What was removed may not have been freed; there is no other
/// damage.
fn repair_unread(device: &Arc<FaultyDevice>, unread: Unread) -> Result<(), String> {
    let found = Superblock::open(&**device).map_err(|e| e.to_string())?;
    if found.is_clean() {
        return if unread == Unread::Marked { Err("it is marked clean".into()) } else { Ok(()) };
    }
    let objections = found.objections_to_mounting(&**device).map_err(|e| e.to_string())?;
    if objections.is_empty() {
        // Where there are snapshots, the next mount frees what was removed, not a repair.
        let is_left = unread == Unread::Marked && found.snapshots().is_empty();
        return if is_left { Err("it can be mounted without a check".into()) } else { Ok(()) };
    }
    let options = Options { limit: MOST_FINDINGS, ..Options::default() };
    let (below, clock): (Arc<dyn Device>, Arc<dyn Clock>) = (device.clone(), later());
    let plan = repair::plan(&below, &clock, &options, Scope::All, &mut |_| true, &mut |_| ())
        .map_err(|e| format!("repair: {e}"))?;
    if !is_unfreed(&plan.before.findings) || plan.refusal.is_some() || !plan.after.is_clean() {
        let list: Vec<_> = plan.before.findings.iter().map(ToString::to_string).collect();
        return Err(format!("repair ({:?}):\n{}", plan.refusal, list.join("\n")));
    }
    plan.apply(&**device).map_err(|e| format!("repair: {e}"))?;
    let mut superblock = Superblock::open(&**device).map_err(|e| e.to_string())?;
    superblock.mark_checked(&**device, clock.now()).map(drop).map_err(|e| format!("marking: {e}"))
}

/// Returns true if these are the findings of what was removed and not freed, or not to the end.
fn is_unfreed(findings: &[Found]) -> bool {
    let removed: HashSet<u32> = findings
        .iter()
        .filter_map(|found| match found.finding {
            Finding::UnreferencedFile { ino, nlink: 0, .. } | Finding::UnreferencedDirectory { ino, .. } => {
                Some(ino)
            }
            _ => None,
        })
        .collect();
    findings.iter().all(|found| match found.finding {
        Finding::UnreferencedFile { ino, .. }
        | Finding::UnreferencedDirectory { ino, .. }
        | Finding::BlockCount { ino, .. }
        | Finding::PartlyTruncated { ino, .. } => removed.contains(&ino),
        Finding::LinkCount { .. } | Finding::Totals { .. } => true,
        Finding::FragsMarkedUsed { .. }
        | Finding::GroupCounts { .. }
        | Finding::ClusterMap { .. }
        | Finding::ClusterSum { .. }
        | Finding::SummaryCounts { .. } => !removed.is_empty(),
        ref other => other.severity() == Severity::Note,
    })
}

/// Recovers the file system on a healthy device, and checks that it has no damage.
fn recover(device: &Arc<FaultyDevice>) -> Result<Tree, String> {
    let fs = open(device.clone(), later(), LogUse::IfThere)?;
    let tree = Tree::of(&fs, std::iter::empty())?;
    fs.unmount().map_err(|e| format!("unmount: {e}"))?;
    drop(fs);
    checked(&**device, "afterwards")?;
    Ok(tree)
}

/// Returns a clock that shows a time after the run.
fn later() -> Arc<ManualClock> {
    let clock = images::clock();
    clock.advance(1000);
    clock
}
