//! One workload on one set, tested with faults of each member.

use super::healthy::Healthy;
use super::judge::{judge, later};
use super::rig::{Rig, Standing, mount};
use super::session::{Reached, Session};
use super::subject::SetImage;
use crate::crash::images;
use crate::crash::operation::Driver;
use crate::crash::workload::Workload;
use crate::exercise::{change, walk};
use crate::faults::campaign::{Test, bounded, seed_of};
use crate::faults::device::{Counts, Unflushed};
use crate::faults::fault_test::{PHASES, Phase, name_of};
use crate::faults::plan::{Fault, Plan};
use rand::rngs::SmallRng;
use rand::seq::index::sample;
use rand::{Rng, SeedableRng};
use spindle_device::MemoryDevice;
use spindle_mfs::check::check;
use spindle_vfs::FileSystem;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Most requests of a kind of a member that each fault is injected into.
const MOST_REQUESTS: usize = 4;
/// Bytes of memory that a case may hold at once: the devices are in memory.
const MOST_MEMORY: usize = 64 << 20;
/// Findings that a check of damage may list.
const MOST_FINDINGS: usize = 200;

/// The end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is unmounted; then the power fails.
    Unmount,
    /// The program ends.
    Forget,
    /// The power fails, and what was not flushed is lost.
    Crash,
    /// The power fails, and any part of what was not flushed is there.
    TornCrash,
}

const ENDS: [(End, &str); 4] = [
    (End::Unmount, "unmount"),
    (End::Forget, "forget"),
    (End::Crash, "crash"),
    (End::TornCrash, "torn-crash"),
];

/// A fault of a member, and the end of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The phase in which the fault is injected.
    pub phase: Phase,
    /// The member, by its position; the spare device comes after them.
    pub member: usize,
    /// The fault.
    pub plan: Plan,
    /// The end.
    pub end: End,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { phase, member, plan, end } = self;
        write!(f, "{}/{member}/{plan}/{}", name_of(&PHASES, phase), name_of(&ENDS, end))
    }
}

impl FromStr for Case {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a case such as run/2/torn-write@7-8w/crash");
        let [phase, member, plan, end] = text.split('/').collect::<Vec<_>>()[..] else { return Err(wrong()) };
        let phase = PHASES.iter().find(|(_, name)| *name == phase).ok_or_else(wrong)?.0;
        let end = ENDS.iter().find(|(_, name)| *name == end).ok_or_else(wrong)?.0;
        Ok(Self { phase, member: member.parse().map_err(|_| wrong())?, plan: plan.parse()?, end })
    }
}

/// A workload on a set, prepared for faults.
pub struct SetTest {
    image: Arc<SetImage>,
    expected: Healthy,
    /// The requests of each device in a healthy run, with its unmount.
    run: Vec<Counts>,
    /// What the devices have after a crash at the end of a healthy run.
    crashed: Vec<MemoryDevice>,
    /// The requests of each device in a healthy recovery of `crashed`.
    recovery: Vec<Counts>,
}

impl SetTest {
    /// Runs the workload on healthy members.
    ///
    /// # Errors
    /// Reports what goes wrong without any fault.
    pub(super) fn new(image: Arc<SetImage>, workload: Workload) -> Result<Self, String> {
        let counts = |rig: &Rig| rig.members.iter().map(|member| member.counts()).collect::<Vec<_>>();
        let rig = Rig::healthy(&image.media);
        let expected = Healthy::of(&image, workload, &rig)?;
        let run = counts(&rig);
        let none = (0, &Plan::NONE);
        let rig = Rig::healthy(&image.media);
        Session::new(&image, &rig, none, Standing::Expendable, false).run(&expected, false)?;
        let crashed = rig.media(Unflushed::Either);
        let rig = Rig::healthy(&crashed);
        Session::new(&image, &rig, none, Standing::Expendable, false).recover(&expected)?;
        let recovery = counts(&rig);
        Ok(Self { image, expected, run, crashed, recovery })
    }

    /// Tests a fault that the member reports: nothing that was acknowledged may be lost.
    fn reported_fault(&self, case: &Case, rig: &Rig, seed: u64, verbose: bool) -> Result<(), String> {
        let (image, media) = match case.phase {
            Phase::Run => (&self.image, &self.image.media),
            Phase::Recovery => (&self.image, &self.crashed),
        };
        let label = Rig::healthy(media).open_set().map_err(|e| e.to_string())?.label;
        let standing = Standing::of(&label, image.id(case.member));
        let session = Session::new(image, rig, (case.member, &case.plan), standing, verbose);
        let reached = match case.phase {
            Phase::Run => session.run(&self.expected, case.end == End::Unmount)?,
            Phase::Recovery => session.recover(&self.expected)?,
        };
        judge(&rig.media(case.end.unflushed(reached)), &self.expected, reached, seed)
    }

    /// Tests a fault that the member does not report: every call must return, with any result.
    fn silent_fault(&self, case: &Case, rig: &Rig, seed: u64) {
        let clock = images::clock();
        if let Ok(set) = rig.open_set()
            && let Ok(fs) = mount(&set, clock.clone(), self.image.mounting)
        {
            if case.phase == Phase::Recovery {
                walk(&fs);
            } else {
                let mut driver = Driver::new(&fs);
                let at = super::healthy::act_at(&self.expected.workload);
                for (n, step) in self.expected.workload.steps.iter().enumerate() {
                    clock.advance(1);
                    if n == at {
                        let _ = super::healthy::act(&self.image, rig, &set);
                    }
                    if driver.apply(&step.op, n as u64, usize::MAX).is_ok() {
                        let _ = driver.sync(&step.op, step.sync);
                    }
                }
            }
            if matches!(case.end, End::Unmount) {
                let _ = fs.unmount();
            }
        }
        let unflushed = if case.end == End::Forget { Unflushed::Kept } else { Unflushed::Either };
        let rig = Rig::healthy(&rig.media(unflushed));
        for _ in 0..2 {
            let Ok(set) = rig.open_set() else { return };
            let _ = check(&set, MOST_FINDINGS, &mut |_| ());
            if let Ok(fs) = mount(&set, later(), self.image.mounting) {
                let nodes = walk(&fs);
                change(&fs, nodes, &mut SmallRng::seed_from_u64(seed));
                let _ = fs.unmount();
            }
        }
    }
}

impl End {
    /// Returns what happens to what was not flushed.
    const fn unflushed(self, reached: Reached) -> Unflushed {
        match self {
            // An unmount that succeeds has flushed everything.
            Self::Unmount if reached.is_unmounted => Unflushed::Lost,
            Self::Crash => Unflushed::Lost,
            Self::Forget => Unflushed::Kept,
            Self::Unmount | Self::TornCrash => Unflushed::Either,
        }
    }
}

impl Test for SetTest {
    type Case = Case;

    fn cases(&self, rng: &mut SmallRng) -> Vec<Case> {
        let mut cases = Vec::new();
        for (phase, counts) in [(Phase::Run, &self.run), (Phase::Recovery, &self.recovery)] {
            for (member, counts) in counts.iter().enumerate().take(self.image.devices()) {
                for fault in Fault::ALL {
                    let requests = usize::try_from(counts.of(fault.affects())).unwrap_or(usize::MAX);
                    for first in sample(rng, requests, MOST_REQUESTS.min(requests)) {
                        let plan = Plan::random(fault, first as u64, rng);
                        let end = ENDS[rng.random_range(0..ENDS.len())].0;
                        cases.push(Case { phase, member, plan, end });
                    }
                }
            }
        }
        cases
    }

    fn run(&self, case: &Case, verbose: bool) -> Result<u64, String> {
        let seed = seed_of(&self.expected.workload.name, case);
        let media = if case.phase == Phase::Run { &self.image.media } else { &self.crashed };
        let rig = Rig::new(media, case.member, &case.plan, seed);
        let work = || {
            if case.plan.fault.is_reported() {
                self.reported_fault(case, &rig, seed, verbose)
            } else {
                self.silent_fault(case, &rig, seed);
                Ok(())
            }
        };
        bounded(MOST_MEMORY, work)?;
        if let Some(member) = rig.members.iter().position(|member| member.exhausted()) {
            return Err(format!("too many requests: {:?}", rig.members[member].counts()));
        }
        Ok(rig.members[case.member].counts().injected)
    }
}
