//! One workload on one image: recorded, cut everywhere, recovered, judged.
//!
//! The recorder holds the medium. While the journal of the run is gone through, what is durable is
//! put on the medium for good; each state of the window after it is put on top, looked at, and
//! taken back.

use super::foreign::{self, System};
use super::record::{Recording, message, story};
use super::recorder::{Event, Mark, Recorder, Write};
use super::recovery::{Recovered, recover};
use super::states::{Shape, State, states};
use super::workload::Name;
use crate::overlay::{Allowance, Usage};
use crate::workers;
use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Violations after which a workload is given up.
const MOST_OF_ONE: usize = 3;

/// How closely a workload is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// States at each cut.
    pub states: usize,
    /// One recovery in so many is itself cut.
    pub nested_share: u64,
    /// States at each cut of such a recovery.
    pub nested_states: usize,
    /// One cut in so many.
    pub cut_share: u64,
    /// One state in so many is also worked with after its recovery.
    pub work_share: u64,
    /// One state in so many is mounted by another system first.
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
            Name::Long(_) | Name::Full(_) => Self {
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

/// A cut and the state there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Entry of the journal after which power was lost.
    pub cut: usize,
    /// Number of the state there.
    pub variant: usize,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.cut, self.variant)
    }
}

/// What was found out about a workload.
#[derive(Debug, Default)]
pub struct Findings {
    /// States recovered and judged, those of crashes in recoveries among them.
    pub states: u64,
    /// States in which power was lost during a recovery.
    pub nested: u64,
    /// Sessions of other systems before a mount of ours.
    pub foreign: u64,
    /// The most that a recovery asked of the device.
    pub recovery: Usage,
    /// Broken promises: where, and what.
    pub violations: Vec<(Vec<Point>, String)>,
}

impl Findings {
    /// Returns a workload that went wrong without any crash.
    #[must_use]
    pub fn broken(what: String) -> Self {
        Self { violations: vec![(Vec::new(), what)], ..Self::default() }
    }

    const fn go_on(&self) -> ControlFlow<()> {
        if self.violations.len() < MOST_OF_ONE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// The states that were looked at: content, and promises given.
type Seen = HashSet<(u64, usize)>;

/// A state on the medium.
struct Scene<'a> {
    point: Point,
    /// The event numbers of the writes in the window.
    window: &'a [usize],
    state: &'a State,
    promises: usize,
    latest: usize,
}

/// A recording on the device that it was made on.
pub struct CrashStateChecker<'a> {
    recording: &'a Recording,
    device: Arc<Recorder>,
    depth: Depth,
    seed: u64,
}

impl<'a> CrashStateChecker<'a> {
    /// Returns a trial of the run of the workload `name`.
    #[must_use]
    pub fn new(recording: &'a Recording, name: &Name, device: Arc<Recorder>) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self { recording, device, depth: Depth::of(name), seed: hasher.finish() }
    }

    fn seed(&self, cut: usize) -> u64 {
        let mixed = (self.seed ^ cut as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 32)
    }

    /// Returns one state in `share`, by its content.
    fn falls_to(&self, share: u64) -> bool {
        self.device.fingerprint().is_multiple_of(share)
    }

    /// Looks at the states of a recording: all that belong to its depth, or only the one at `only`.
    /// Ends early when enough has been found.
    #[must_use]
    pub fn explore(&self, only: Option<&[Point]>) -> Findings {
        let mut findings = Findings::default();
        let mut seen = Seen::new();
        let events = &self.recording.events;
        let _ = self.scenes(events, (0, 0), self.depth.states, only, &mut seen, &mut |scene, seen| {
            if only.is_some() || self.falls_to(self.depth.foreign_share) {
                self.foreign(scene, &mut findings, only.is_some());
            }
            let nest = only.map_or_else(|| self.falls_to(self.depth.nested_share), |points| points.len() > 1);
            let recovered = self.show(scene, &[], &mut findings, only.is_some());
            if let Some(recovered) = recovered.filter(|_| nest) {
                let bounds = (scene.promises, scene.latest);
                let only = only.map(|points| &points[1..]);
                let most = self.depth.nested_states;
                if only.is_some() {
                    println!("the recovery:\n{}", story(&recovered.events, |mark| format!("{mark:?}")));
                }
                self.scenes(&recovered.events, bounds, most, only, seen, &mut |again, _| {
                    findings.nested += 1;
                    self.show(again, &[scene.point], &mut findings, only.is_some());
                    findings.go_on()
                })?;
            }
            findings.go_on()
        });
        findings
    }

    /// Has another system mount what is on the medium before us: one of them, or all.
    fn foreign(&self, scene: &Scene<'_>, findings: &mut Findings, all: bool) {
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
                Err(what) => findings.violations.push((vec![scene.point], what)),
            }
            findings.foreign += 1;
        }
    }

    /// Recovers what is on the medium, judges it, and takes it back.
    fn show(
        &self,
        scene: &Scene<'_>,
        outer: &[Point],
        findings: &mut Findings,
        verbose: bool,
    ) -> Option<Recovered> {
        workers::pulse();
        let here = self.device.position();
        let recovered = recover(&self.device, self.falls_to(self.depth.work_share));
        self.device.rewind(here);
        findings.states += 1;
        let history = &self.recording.history;
        let judged = recovered.as_ref().map_err(Clone::clone).and_then(|recovered| {
            findings.recovery = findings.recovery.max(recovered.usage);
            history.judge(&recovered.tree, scene.promises, scene.latest)
        });
        let place = || {
            let range = history.range(scene.promises, scene.latest);
            let Scene { point, window, state, .. } = scene;
            format!(
                "cut after event {}, versions {range:?}; of the window {window:?} these came to the medium: {state}",
                point.cut
            )
        };
        match judged {
            Err(what) => {
                let points = outer.iter().copied().chain([scene.point]).collect();
                findings.violations.push((points, format!("{}\n{what}", place())));
            }
            Ok(version) if verbose => println!("{}: version {version} was recovered", place()),
            Ok(_) => {}
        }
        recovered.ok()
    }

    /// Puts state after state on the medium and shows it, until `show` breaks.
    fn scenes(
        &self,
        events: &[Event],
        (mut promises, mut latest): (usize, usize),
        most: usize,
        only: Option<&[Point]>,
        seen: &mut Seen,
        show: &mut dyn FnMut(&Scene<'_>, &mut Seen) -> ControlFlow<()>,
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
            let shapes: Vec<Shape> = window
                .iter()
                .map(|&write| Shape {
                    offset: write_of(&events[write]).offset,
                    sectors: write_of(&events[write]).bytes.len() / self.device.sector(),
                    together_until: window
                        .partition_point(|&other| landed[write].is_none_or(|at| other < at)),
                })
                .collect();
            for (variant, state) in states(&shapes, self.seed(cut), most).iter().enumerate() {
                if only.is_some_and(|points| points[0].variant != variant) {
                    continue;
                }
                let base = self.device.position();
                for pick in &state.0 {
                    let sectors = shapes[pick.write].sectors;
                    self.put(write_of(&events[window[pick.write]]), |n| pick.part.has(n, sectors));
                }
                let mut flow = ControlFlow::Continue(());
                if seen.insert((self.device.fingerprint(), promises)) || only.is_some() {
                    let point = Point { cut, variant };
                    flow = show(&Scene { point, window: &window, state, promises, latest }, seen);
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
