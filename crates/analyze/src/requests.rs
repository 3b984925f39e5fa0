//! Calls by what they ask for: the bytes of a file, or something about files (paper on the
//! multi-structured file system, section 3).
//!
//! Every event but a seek and the load of a program is a call that asks something about a file, a
//! *control* call, except that files which the system closes and names that a rename takes away are
//! no calls of their own. Calls that read or write are counted in the event that ends their run;
//! accesses through a mapping are no calls.

use super::parts::{Count, Each, Earliest, How, Part, Read, Reader, Whole, number, parts};
use serde::Serialize;
use spindle_trace::{Event, Flags, Kind};

/// Slots of time are doubled when there would be more than this.
const SLOTS: usize = 256;
/// Length of a slot at first, in ns.
const SLOT: u64 = 1_000_000;
/// How often a length may be doubled until [`SLOTS`] are longer than any trace.
const DOUBLINGS: usize = 36;

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// Everything else.
    Control,
}

impl Class {
    /// All classes with their names, in the order of their numbers.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Read, "read"), (Self::Write, "write"), (Self::Control, "control")];
}

/// Calls of the 4.3BSD system that the paper measured, by [`Class`], in 75 minutes (Table 1).
pub const CALLS_1991: [f64; 3] = [55_475.0, 17_413.0, 116_215.0];

/// Calls in slots of time.
#[derive(Clone, Debug, Serialize)]
pub struct Slots {
    /// When the first slot begins, in ns since 1970; none before the first call. The slots of each
    /// of several traces count from its own beginning, of which this is the earliest.
    pub start: Option<i64>,
    /// Length of a slot in ns.
    pub length: u64,
    /// Calls in each slot, by [`Class`].
    pub calls: Vec<[u64; 3]>,
}

impl Default for Slots {
    fn default() -> Self {
        Self { start: None, length: SLOT, calls: Vec::new() }
    }
}

impl Slots {
    /// Adds calls. One of before the first slot, which events of several processes may be, counts
    /// in that.
    fn add(&mut self, time: i64, class: Class, calls: u64) {
        let start = *self.start.get_or_insert(time);
        let since = u64::try_from(time.saturating_sub(start)).unwrap_or(0);
        while since / self.length >= SLOTS as u64 {
            self.double();
        }
        let slot = usize::try_from(since / self.length).unwrap_or(0);
        if self.calls.len() <= slot {
            self.calls.resize(slot + 1, [0; 3]);
        }
        self.calls[slot][class as usize] += calls;
    }

    /// Doubles the length of the slots.
    fn double(&mut self) {
        self.length *= 2;
        let pairs = self.calls.chunks(2).map(|pair| {
            let second = pair.get(1).copied().unwrap_or_default();
            std::array::from_fn(|class| pair[0][class] + second[class])
        });
        self.calls = pairs.collect();
    }
}

impl Part for Slots {
    fn merge(&mut self, other: &Self) {
        Earliest::merge(&mut self.start, &other.start);
        let mut other = other.clone();
        while self.length < other.length {
            self.double();
        }
        while other.length < self.length {
            other.double();
        }
        if self.calls.len() < other.calls.len() {
            self.calls.resize(other.calls.len(), [0; 3]);
        }
        self.calls.iter_mut().zip(&other.calls).for_each(|(into, calls)| Each::<Count>::merge(into, calls));
    }

    fn write(&self, out: &mut Vec<u8>) {
        Earliest::write(&self.start, out);
        number((self.length / SLOT).ilog2().into(), out);
        number(self.calls.len() as u64, out);
        for calls in &self.calls {
            Each::<Count>::write(calls, out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Read<Self> {
        let start = Earliest::read(from)?;
        let length = SLOT << from.index(DOUBLINGS + 1, "a slot of time that is too long")?;
        let mut calls = Vec::new();
        for _ in 0..from.index(SLOTS + 1, "too many slots of time")? {
            calls.push(Each::<Count>::read(from)?);
        }
        Ok(Self { start, length, calls })
    }
}

/// Calls by kind and class.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Requests {
    /// Calls by [`Class`].
    pub calls: [u64; 3],
    /// Control calls by [`Kind`].
    pub control: [u64; Kind::ALL.len()],
    /// Those of them that failed.
    pub failed: [u64; Kind::ALL.len()],
    /// Runs whose calls were not counted; each counts as one.
    pub uncounted: u64,
    /// Calls over the time of the trace.
    pub over_time: Slots,
}

parts!(Requests {
    calls: Each<Count>,
    control: Each<Count>,
    failed: Each<Count>,
    uncounted: Count,
    over_time: Whole,
});

impl Requests {
    pub(super) fn event(&mut self, event: &Event) {
        if event.kind.ends_run() && event.bytes() > 0 {
            let class = if event.written > 0 { Class::Write } else { Class::Read };
            self.uncounted += u64::from(event.calls == 0);
            self.count(event.time, class, u64::from(event.calls).max(1));
        }
        let is_call = match event.kind {
            Kind::Seek | Kind::Run | Kind::Exec => false,
            Kind::Close => !event.flags.has(Flags::IMPLICIT),
            Kind::Unlink => !event.flags.has(Flags::REPLACED),
            Kind::Open => !event.flags.has(Flags::BEFORE),
            _ => true,
        };
        if is_call {
            self.control[event.kind as usize] += 1;
            self.failed[event.kind as usize] += u64::from(event.flags.has(Flags::FAILED));
            self.count(event.time, Class::Control, 1);
        }
    }

    fn count(&mut self, time: i64, class: Class, calls: u64) {
        self.calls[class as usize] += calls;
        self.over_time.add(time, class, calls);
    }

    /// Returns true if the trace has calls that only look at files or change their attributes.
    #[must_use]
    pub fn has_looks(&self) -> bool {
        Kind::ALL.iter().any(|&kind| kind.is_control_call() && self.control[kind as usize] > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: each call is counted once, in its class and kind; what the system does by itself is
    /// no call; and all calls are in the slots of time, however long the trace is.
    #[test]
    fn calls_by_class() {
        let mut requests = Requests::default();
        let mut add = |kind, flags, written, calls, time| {
            let event = Event { kind, flags, written, calls, time, ..Event::default() };
            requests.event(&event);
        };
        add(Kind::Create, Flags::NONE, 0, 0, 0);
        add(Kind::Seek, Flags::WRITE, 30, 3, 1_000_000);
        add(Kind::Run, Flags::NONE, 30, 0, 900_000_000);
        add(Kind::Close, Flags::WRITE, 10, 2, 3_000_000_000);
        add(Kind::Close, Flags::IMPLICIT, 10, 1, 86_400_000_000_000);
        add(Kind::Unlink, Flags::REPLACED, 0, 0, 86_400_000_000_000);
        add(Kind::Stat, Flags::FAILED, 0, 0, 86_400_000_000_000);
        add(Kind::Stat, Flags::NONE, 0, 0, 5);
        add(Kind::Open, Flags::BEFORE, 0, 0, 5);
        add(Kind::Exec, Flags::NONE, 0, 0, 5);
        assert_eq!(requests.calls, [0, 7, 4]);
        assert_eq!((requests.control[Kind::Stat as usize], requests.failed[Kind::Stat as usize]), (2, 1));
        assert_eq!(requests.uncounted, 1);
        assert!(requests.has_looks());
        let slots = &requests.over_time;
        assert!(slots.calls.len() <= SLOTS && slots.length * SLOTS as u64 > 86_400_000_000_000);
        let sum = |class: Class| slots.calls.iter().map(|slot| slot[class as usize]).sum::<u64>();
        assert_eq!(Class::ALL.map(|(class, _)| sum(class)), requests.calls);
        assert_eq!(slots.calls.last(), Some(&[0, 1, 1]));
    }
}
