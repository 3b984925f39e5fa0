//! Operations of processes: what a burst consists of, and which kind of step an operation is.

use super::super::model::{AccessMethod, Operation};
use super::scripts::{Run, Runs, StepKind};
use spindle_trace::follow::{Access, Mode, Pattern};
use spindle_trace::{Event, Flags};

/// Reuse of an item (a file or a record), with the number of other items used since its last use.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reuse {
    Distance(u32),
    First,
}

impl Reuse {
    /// Converts a depth in a [`Stack`], where the most recently used item has depth 1.
    pub(super) fn of(depth: Option<u32>) -> Self {
        depth.map_or(Self::First, |depth| Self::Distance(depth - 1))
    }
}

/// Operations of a process without a long pause between them.
pub(super) struct Burst {
    pub(super) program: u32,
    pub(super) account: u32,
    pub(super) begin: i64,
    pub(super) last: i64,
    pub(super) operations: Vec<BurstOperation>,
    /// Number of its operations whose files are still open.
    pub(super) open: usize,
    /// Set when no more operations are added.
    pub(super) over: bool,
    /// Serial numbers of files that it created and that still exist (`made`), and of those that it
    /// also removed (`own`).
    pub(super) made: Vec<u64>,
    pub(super) own: Vec<u64>,
}

/// One operation of a burst.
pub(super) struct BurstOperation {
    /// Kind of the step; `None` while the file is open.
    pub(super) kind: Option<StepKind>,
    pub(super) serial: u64,
    pub(super) class: Option<u32>,
    pub(super) reuse: Option<Reuse>,
    pub(super) begin: i64,
    pub(super) end: i64,
    pub(super) moved: Runs,
    pub(super) runs: u64,
    pub(super) syncs: u64,
    /// The call failed, because there is no such file.
    pub(super) failed: bool,
    /// Size of the file afterwards, in bytes.
    pub(super) size: u64,
}

/// An open file, and the operation of a burst that opened it.
pub(super) struct OpenFile {
    pub(super) burst: u64,
    pub(super) operation: usize,
    pub(super) start: Option<u64>,
    pub(super) moved: Runs,
    /// Access method; `None` before the first access.
    pub(super) way: Option<AccessMethod>,
    /// Set if accesses used different methods.
    pub(super) mixed: bool,
    pub(super) size: u64,
    pub(super) made: bool,
}

impl BurstOperation {
    pub(super) fn at(event: &Event, kind: Option<StepKind>) -> Self {
        Self {
            kind,
            serial: 0,
            class: None,
            reuse: None,
            begin: event.time,
            end: event.time,
            moved: Runs::default(),
            runs: 0,
            syncs: 0,
            failed: false,
            size: 0,
        }
    }
}

impl OpenFile {
    pub(super) fn run(&mut self, event: &Event) {
        if event.bytes() == 0 {
            return;
        }
        let way = match event.flags {
            flags if flags.has(Flags::MAPPED) => AccessMethod::Mapped,
            flags if flags.has(Flags::POSITIONAL) => AccessMethod::Positional,
            _ => AccessMethod::Calls,
        };
        self.mixed |= self.way.is_some_and(|known| known != way);
        self.way = Some(way);
        let writes = event.written > 0;
        let grows = writes && event.position >= self.size;
        let run = Run { at: event.position, bytes: event.bytes(), writes, grows, way };
        if self.start.is_none() && self.made {
            self.moved.first(event.bytes(), writes);
        } else {
            self.moved.add(run, 1, true);
        }
        self.start.get_or_insert(event.position);
        if writes {
            self.size = self.size.max(event.end());
        }
    }
}

/// Returns the kind of step of an open file of a class, given its size at the close.
pub(super) fn kind(access: &Access<OpenFile>, class: u32, size: u64) -> StepKind {
    let both = access.mode() == Mode::Both;
    let pattern = access.pattern(size);
    let start = access.tag.start.unwrap_or(0);
    let in_order = pattern != Pattern::Random;
    let (mut act, mut whole) = (Operation::Read, false);
    if access.created {
        act = Operation::Create;
    } else if access.flags.has(Flags::TRUNCATED) {
        act = Operation::Rewrite;
    } else if access.flags.has(Flags::DIRECTORY) {
        whole = true;
    } else if access.written > 0 {
        let appends = access.read == 0 && in_order && start >= access.size;
        act = if appends { Operation::Append } else { Operation::Update };
    } else if access.runs > 0 && !(in_order && start == 0) {
        act = Operation::Lookup;
    } else {
        whole = pattern == Pattern::Whole;
    }
    let way = access.tag.way.filter(|_| !access.tag.mixed).unwrap_or_default();
    StepKind { act, on: class, both, whole, way }
}
