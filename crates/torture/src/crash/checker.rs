//! One workload on one image: recorded, with a power cut at many moments, recovered, and judged.
//!
//! The recorder's device is the medium. The recorded events of the run are gone through in order.
//! Durable writes are put on the medium; then each state of the window after them is put on top,
//! recovered and judged, and undone.

use super::foreign::{self, System};
use super::images::Mounting;
use super::record::{Recording, message, story};
use super::recorder::{Event, Mark, Recorder, Write};
use super::recovery::{Recovered, recover};
use super::states::{State, WindowWrite, states};
use super::workload::Name;
use crate::overlay::{Allowance, Usage};
use crate::workers;
use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Number of violations that ends a workload.
const MOST_VIOLATIONS_PER_WORKLOAD: usize = 3;

/// How many states of a workload are checked.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// Most states at each cut.
    pub states: usize,
    /// One recovery in this many is itself cut.
    pub nested_share: u64,
    /// Most states at each cut of such a recovery.
    pub nested_states: usize,
    /// One cut in this many is checked.
    pub cut_share: u64,
    /// One state in this many is also used after its recovery.
    pub work_share: u64,
    /// One state in this many is mounted by another system first.
    pub foreign_share: u64,
}

impl Depth {
    /// Returns the depth for a workload.
    #[must_use]
    pub const fn of(name: &Name) -> Self {
        match name {
            Name::Sequence(entries) if entries.len() == 1 => Self {
                states: 200,
                nested_share: 8,
                nested_states: 16,
                cut_share: 1,
                work_share: 2,
                foreign_share: 4,
            },
            Name::FirstMount(..) => Self {
                states: 100,
                nested_share: 8,
                nested_states: 16,
                cut_share: 1,
                work_share: 2,
                foreign_share: 4,
            },
            Name::Sequence(_) | Name::Aimed(_) => Self {
                states: 24,
                nested_share: 64,
                nested_states: 12,
                cut_share: 1,
                work_share: 16,
                foreign_share: 32,
            },
            Name::Long(_) | Name::Full(_) | Name::Snapshots(_) => Self {
                states: 12,
                nested_share: 32,
                nested_states: 6,
                cut_share: 3,
                work_share: 16,
                foreign_share: 16,
            },
        }
    }
}

/// A power cut, and the state that it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The number of the event after which power was lost.
    pub cut: usize,
    /// The number of the state among those of this cut.
    pub variant: usize,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.cut, self.variant)
    }
}

/// The results for a workload.
#[derive(Debug, Default)]
pub struct Findings {
    /// States recovered and judged, including those of power cuts in recoveries.
    pub states: u64,
    /// States in which power was lost during a recovery.
    pub nested: u64,
    /// Sessions of other systems before a mount by Spindle.
    pub foreign: u64,
    /// The most requests and bytes of a recovery.
    pub recovery: Usage,
    /// Broken promises: the power cuts, and what is wrong.
    pub violations: Vec<(Vec<Point>, String)>,
}

impl Findings {
    /// Returns the findings of a workload that went wrong without any crash.
    #[must_use]
    pub fn failed(what: String) -> Self {
        Self { violations: vec![(Vec::new(), what)], ..Self::default() }
    }

    const fn go_on(&self) -> ControlFlow<()> {
        if self.violations.len() < MOST_VIOLATIONS_PER_WORKLOAD {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
}

/// The states that were checked: fingerprint of the medium, and number of promises given.
type Seen = HashSet<(u64, usize)>;

/// A state that is on the medium.
struct CrashState<'a> {
    point: Point,
    /// The event numbers of the writes since the last flush.
    window: &'a [usize],
    /// The writes among them that reached the medium.
    writes: &'a State,
    /// The number of promises given before the cut.
    promises: usize,
    /// The version that the last operation before the cut leads to.
    latest: usize,
}

/// Checks the states that power cuts in a recorded run may leave.
pub struct CrashStateChecker<'a> {
    recording: &'a Recording,
    mounting: Mounting,
    device: Arc<Recorder>,
    depth: Depth,
    seed: u64,
    /// Other systems are simulated, which do not know snapshots.
    foreign_sessions: bool,
}

impl<'a> CrashStateChecker<'a> {
    /// Returns a checker for the recorded run of the workload `name` on such a mount.
    #[must_use]
    pub fn new(recording: &'a Recording, mounting: Mounting, name: &Name, device: Arc<Recorder>) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let foreign_sessions = !matches!(name, Name::Snapshots(_));
        Self { recording, mounting, device, depth: Depth::of(name), seed: hasher.finish(), foreign_sessions }
    }

    fn seed(&self, cut: usize) -> u64 {
        let mixed = (self.seed ^ cut as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 32)
    }

    /// Returns true for one state in `share`, chosen by its content.
    fn is_in_share(&self, share: u64) -> bool {
        self.device.fingerprint().is_multiple_of(share)
    }

    /// Checks the states of a recording: all that its depth asks for, or only the one at `only`.
    /// Ends early after many violations.
    #[must_use]
    pub fn explore(&self, only: Option<&[Point]>) -> Findings {
        let mut findings = Findings::default();
        let mut seen = Seen::new();
        let events = &self.recording.events;
        let _ =
            self.for_each_state(events, (0, 0), self.depth.states, only, &mut seen, &mut |state, seen| {
                // Neither other systems nor repairs that are cut are what these mounts promise.
                let logged = self.mounting != Mounting::Synchronous;
                if logged
                    && self.foreign_sessions
                    && (only.is_some() || self.is_in_share(self.depth.foreign_share))
                {
                    self.foreign(state, &mut findings, only.is_some());
                }
                let nest =
                    only.map_or_else(|| self.is_in_share(self.depth.nested_share), |points| points.len() > 1);
                let recovered = self.check(state, &[], &mut findings, only.is_some());
                if let Some(recovered) = recovered.filter(|_| logged && nest) {
                    let bounds = (state.promises, state.latest);
                    let only = only.map(|points| &points[1..]);
                    let most = self.depth.nested_states;
                    if only.is_some() {
                        println!("the recovery:\n{}", story(&recovered.events, |mark| format!("{mark:?}")));
                    }
                    self.for_each_state(&recovered.events, bounds, most, only, seen, &mut |again, _| {
                        findings.nested += 1;
                        self.check(again, &[state.point], &mut findings, only.is_some());
                        findings.go_on()
                    })?;
                }
                findings.go_on()
            });
        findings
    }

    /// Simulates a session of another system before a mount by Spindle: of one system, or of all.
    fn foreign(&self, state: &CrashState<'_>, findings: &mut Findings, all: bool) {
        let here = self.device.position();
        let nth = usize::try_from(self.device.fingerprint() >> 32).unwrap_or(0) % System::ALL.len();
        for (n, system) in System::ALL.into_iter().enumerate() {
            if !all && n != nth {
                continue;
            }
            workers::pulse();
            self.device.allow(Allowance { requests: u64::MAX, bytes: u64::MAX });
            let judged = catch_unwind(AssertUnwindSafe(|| {
                foreign::session(&self.device, system)?
                    .map(|theirs| foreign::survives(&self.device, system, &theirs))
                    .transpose()
            }));
            self.device.rewind(here);
            match judged.unwrap_or_else(|panic| Err(format!("{system}: panic: {}", message(&*panic)))) {
                Ok(None) => continue,
                Ok(Some(())) => {}
                Err(what) => findings.violations.push((vec![state.point], what)),
            }
            findings.foreign += 1;
        }
    }

    /// Recovers the state on the medium, judges it, and undoes the recovery.
    fn check(
        &self,
        state: &CrashState<'_>,
        outer: &[Point],
        findings: &mut Findings,
        verbose: bool,
    ) -> Option<Recovered> {
        workers::pulse();
        let here = self.device.position();
        let recovered = recover(&self.device, self.mounting, self.is_in_share(self.depth.work_share));
        self.device.rewind(here);
        findings.states += 1;
        let history = &self.recording.history;
        let judged = recovered.as_ref().map_err(Clone::clone).and_then(|recovered| {
            findings.recovery = findings.recovery.max(recovered.usage);
            if self.mounting == Mounting::Synchronous {
                return history.judge_names(&recovered.tree, state.latest);
            }
            history.judge(&recovered.tree, state.promises, state.latest)
        });
        let description = || {
            let range = history.range(state.promises, state.latest);
            let CrashState { point, window, writes, .. } = state;
            format!(
                "cut after event {}, versions {range:?}; of the window {window:?} these writes reached the medium: {writes}",
                point.cut
            )
        };
        match judged {
            Err(what) => {
                let points = outer.iter().copied().chain([state.point]).collect();
                findings.violations.push((points, format!("{}\n{what}", description())));
            }
            Ok(version) if verbose => println!("{}: version {version} was recovered", description()),
            Ok(_) => {}
        }
        recovered.ok()
    }

    /// Puts one state after the other on the medium and calls `check`, until it breaks.
    fn for_each_state(
        &self,
        events: &[Event],
        (mut promises, mut latest): (usize, usize),
        most: usize,
        only: Option<&[Point]>,
        seen: &mut Seen,
        check: &mut dyn FnMut(&CrashState<'_>, &mut Seen) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let start = self.device.position();
        let mut window: Vec<usize> = Vec::new();
        let mut landed = vec![None; events.len()];
        for (at, event) in events.iter().enumerate() {
            if let Event::Landed(write) = event {
                landed[*write] = Some(at);
            }
        }
        for (cut, event) in events.iter().enumerate() {
            match event {
                Event::Write(_) => window.push(cut),
                Event::Landed(_) => continue,
                Event::Flush => {
                    let (durable, rest): (Vec<_>, Vec<_>) =
                        window.iter().partition(|&&write| landed[write].is_some_and(|at| at < cut));
                    for write in durable {
                        self.put(write_of(&events[write]), |_| true);
                    }
                    window = rest;
                }
                Event::Mark(Mark::Begins(version)) => {
                    latest = *version;
                    continue;
                }
                Event::Mark(Mark::Promised(count)) => promises = *count,
            }
            let wanted = only.map_or_else(
                || self.seed(cut).is_multiple_of(self.depth.cut_share) || cut + 1 == events.len(),
                |points| points[0].cut == cut,
            );
            if !wanted {
                continue;
            }
            let window_writes: Vec<WindowWrite> = window
                .iter()
                .map(|&write| WindowWrite {
                    offset: write_of(&events[write]).offset,
                    sectors: write_of(&events[write]).bytes.len() / self.device.sector(),
                    in_flight_until: window
                        .partition_point(|&other| landed[write].is_none_or(|at| other < at)),
                })
                .collect();
            for (variant, writes) in states(&window_writes, self.seed(cut), most).iter().enumerate() {
                if only.is_some_and(|points| points[0].variant != variant) {
                    continue;
                }
                let base = self.device.position();
                for pick in &writes.0 {
                    let sectors = window_writes[pick.write].sectors;
                    self.put(write_of(&events[window[pick.write]]), |n| pick.part.has(n, sectors));
                }
                let mut flow = ControlFlow::Continue(());
                if seen.insert((self.device.fingerprint(), promises)) || only.is_some() {
                    let point = Point { cut, variant };
                    flow = check(&CrashState { point, window: &window, writes, promises, latest }, seen);
                }
                self.device.rewind(if flow.is_continue() { base } else { start });
                flow?;
            }
        }
        self.device.rewind(start);
        ControlFlow::Continue(())
    }

    fn put(&self, write: &Write, has: impl Fn(usize) -> bool) {
        let mut from = 0;
        let sector = self.device.sector();
        let sectors = write.bytes.len() / sector;
        while from < sectors {
            let end = (from..sectors).find(|&n| has(n) != has(from)).unwrap_or(sectors);
            if has(from) {
                let bytes = &write.bytes[from * sector..end * sector];
                self.device.poke(write.offset + (from * sector) as u64, bytes);
            }
            from = end;
        }
    }
}

fn write_of(event: &Event) -> &Write {
    match event {
        Event::Write(write) => write,
        other => unreachable!("windows are of writes, not {other:?}"),
    }
}
