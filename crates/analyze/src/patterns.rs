//! The order of accesses within files (1985 paper, Table V), the lengths of runs (figure 1), sizes
//! of files at their closes (figure 2), open times (figure 3), and the intervals between the events
//! of an open file (section 3).
//!
//! Two kinds of open files do not count as accesses: directories, which programs on today's systems
//! cannot read as bytes, and files that were open before the recording began, whose beginning is
//! unknown (but their runs and their sizes at the close count).

use super::histogram::Histogram;
use super::parts::{Count, Each, Sum, Whole, parts};
use serde::Serialize;
use spindle_trace::Event;
use spindle_trace::follow::{Access, Pattern};

/// Accesses in the three modes, and distributions.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Patterns {
    /// Read-only, write-only and read-write accesses ([`spindle_trace::follow::Mode`]).
    pub modes: [Orders; 3],
    /// Number of accesses to directories.
    pub directories: u64,
    /// Number of accesses that began before the recording.
    pub before: u64,
    /// Number of accesses whose end is not in the trace.
    pub unfinished: u64,
    /// Lengths of runs, weighted by their bytes.
    pub runs: Histogram,
    /// Sizes of files at their closes, weighted by the bytes transferred in the access.
    pub sizes: Histogram,
    /// Open times in ns, weighted by the bytes transferred.
    pub open_times: Histogram,
    /// Times between two successive events of one open file in ns, weighted by the bytes of the run
    /// that the later one ends.
    pub intervals: Histogram,
}

parts!(Patterns {
    modes: Each<Whole>,
    directories: Count,
    before: Count,
    unfinished: Count,
    runs: Whole,
    sizes: Whole,
    open_times: Whole,
    intervals: Whole,
});

/// Accesses of one mode by the order in which they went through their files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Orders {
    /// Number of accesses.
    pub accesses: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of accesses from the beginning of the file to its end.
    pub whole: u64,
    /// Their bytes.
    pub whole_bytes: u64,
    /// Number of accesses in one direction without a gap, including whole-file ones and those that
    /// transferred nothing.
    pub sequential: u64,
    /// Their bytes.
    pub sequential_bytes: u64,
    /// Number of accesses that transferred nothing although the file was not empty.
    pub untouched: u64,
}

parts!(
    Orders {
        accesses: Count,
        bytes: Sum,
        whole: Count,
        whole_bytes: Sum,
        sequential: Count,
        sequential_bytes: Sum,
        untouched: Count,
    },
    |orders| orders.whole.max(orders.untouched) <= orders.sequential && orders.sequential <= orders.accesses,
    "more accesses in one order than there are"
);

impl Orders {
    fn add(&mut self, pattern: Pattern, bytes: u64) {
        let orders: &mut [(&mut u64, &mut u64)] = match pattern {
            Pattern::Whole => &mut [
                (&mut self.whole, &mut self.whole_bytes),
                (&mut self.sequential, &mut self.sequential_bytes),
            ],
            Pattern::Sequential | Pattern::Untouched => {
                &mut [(&mut self.sequential, &mut self.sequential_bytes)]
            }
            Pattern::Random => &mut [],
        };
        for (accesses, total) in orders {
            **accesses += 1;
            **total = total.saturating_add(bytes);
        }
        self.accesses += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.untouched += u64::from(pattern == Pattern::Untouched);
    }
}

impl Patterns {
    /// Adds a run.
    pub(super) fn run(&mut self, bytes: u64) {
        self.runs.add(bytes, bytes);
    }

    /// Adds the interval before the last event of an open file.
    pub(super) fn interval<T>(&mut self, access: &Access<T>, event: &Event) {
        self.intervals.add(access.interval, event.bytes());
    }

    /// Adds an access that has ended; the file has `size` bytes.
    pub(super) fn closed<T>(&mut self, access: &Access<T>, size: u64) {
        self.sizes.add(size, access.bytes());
        if access.predates_recording() {
            self.before += 1;
        } else {
            self.open_times.add(access.duration(), access.bytes());
            self.modes[access.mode() as usize].add(access.pattern(size), access.bytes());
        }
    }

    /// Returns the sum of all modes.
    #[must_use]
    pub fn all(&self) -> Orders {
        let mut all = Orders::default();
        for mode in &self.modes {
            all.accesses += mode.accesses;
            all.whole += mode.whole;
            all.sequential += mode.sequential;
            all.untouched += mode.untouched;
            all.bytes = all.bytes.saturating_add(mode.bytes);
            all.whole_bytes = all.whole_bytes.saturating_add(mode.whole_bytes);
            all.sequential_bytes = all.sequential_bytes.saturating_add(mode.sequential_bytes);
        }
        all
    }
}
