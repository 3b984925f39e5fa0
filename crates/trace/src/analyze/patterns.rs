//! How files are gone through (1985 paper, Table V), how long runs are (figure 1), how large files
//! are when they are closed (figure 2), how long they are open (figure 3), and how close together
//! the events of an open file lie (section 3).
//!
//! What is not an access to a file's data stays out: directories, which today's systems do not let
//! programs read as bytes, and files that were open before the recording began, of which the
//! beginning is not known (their runs, and their sizes at the close, count).

use super::histogram::Histogram;
use crate::Event;
use crate::follow::{Access, Pattern};
use serde::Serialize;

/// Accesses in the three modes, and distributions.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Patterns {
    /// Read-only, write-only and read-write accesses ([`crate::follow::Mode`]).
    pub modes: [Orders; 3],
    /// Accesses to directories.
    pub directories: u64,
    /// Accesses that began before the recording.
    pub before: u64,
    /// Accesses that the trace does not see the end of.
    pub unfinished: u64,
    /// Lengths of runs, each with its bytes as its weight.
    pub runs: Histogram,
    /// Sizes of files at their closes, each with the bytes moved in the access as its weight.
    pub sizes: Histogram,
    /// How long files were open, in ns; weight: the bytes moved.
    pub open_times: Histogram,
    /// Time between two successive events of one open file, in ns; weight: the bytes of the run
    /// that the later one ends.
    pub intervals: Histogram,
}

/// Accesses of one mode by the order in which they went through their files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Orders {
    /// All.
    pub accesses: u64,
    /// Bytes in all.
    pub bytes: u64,
    /// From the beginning of the file to its end.
    pub whole: u64,
    /// Bytes in these.
    pub whole_bytes: u64,
    /// In one direction without a gap: with the whole-file ones, and with those that moved nothing.
    pub sequential: u64,
    /// Bytes in these.
    pub sequential_bytes: u64,
    /// Those that moved nothing though the file was not empty.
    pub untouched: u64,
}

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
    /// Takes a run.
    pub(super) fn run(&mut self, bytes: u64) {
        self.runs.add(bytes, bytes);
    }

    /// Takes the last event of an open file so far.
    pub(super) fn interval<T>(&mut self, access: &Access<T>, event: &Event) {
        self.intervals.add(access.interval, event.bytes());
    }

    /// Takes an access that ended, to a file of `size` bytes at the close.
    pub(super) fn closed<T>(&mut self, access: &Access<T>, size: u64) {
        self.sizes.add(size, access.bytes());
        if access.is_from_before() {
            self.before += 1;
        } else {
            self.open_times.add(access.duration(), access.bytes());
            self.modes[access.mode() as usize].add(access.pattern(size), access.bytes());
        }
    }

    /// Returns all modes together.
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
