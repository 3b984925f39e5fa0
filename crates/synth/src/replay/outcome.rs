//! The times of the calls of a replay.

use serde::Serialize;
use spindle_analyze::{By, Histogram};
use spindle_report::Outcome;
use spindle_report::outcome::{Cell, Column, Table};
use std::time::Duration;

/// A kind of call that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Call {
    /// Opening an existing file.
    Open,
    /// Creating and opening a file.
    Create,
    /// A call that reads.
    Read,
    /// A call that writes.
    Write,
    /// Closing a file.
    Close,
    /// Removing a file.
    Remove,
    /// Truncating or extending a file.
    Truncate,
    /// Renaming a file.
    Rename,
    /// `fsync`.
    Sync,
    /// Looking at the attributes of a file (`stat`, `access`).
    Stat,
    /// Changing the attributes of a file (`chmod`, `chown`, `utime`).
    Change,
}

impl Call {
    /// All kinds with their names, in the order of their numbers.
    pub const ALL: [(Self, &'static str); 11] = [
        (Self::Open, "open"),
        (Self::Create, "create"),
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Close, "close"),
        (Self::Remove, "unlink"),
        (Self::Truncate, "truncate"),
        (Self::Rename, "rename"),
        (Self::Sync, "fsync"),
        (Self::Stat, "stat, access"),
        (Self::Change, "chmod, chown, utime"),
    ];
}

/// Times of calls, by kind.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timings {
    /// Service times in ns, weighted by the bytes transferred, by [`Call`].
    pub times: [Histogram; Call::ALL.len()],
    /// Time from the first event to the last.
    pub elapsed: Duration,
    /// Maximum delay of an event.
    pub latest: Duration,
    /// Number of calls that read less than in the trace.
    pub short: u64,
    /// Number of events that were not replayed: about directories, additional names, symbolic
    /// links, files that the trace does not identify, or calls that failed.
    pub skipped: u64,
    /// Bytes of files that were mapped into memory, which are not replayed: a trace does not say
    /// what of them was touched.
    pub mapped: u64,
}

impl Timings {
    pub(super) fn add(&mut self, what: Call, time: Duration, bytes: u64) {
        self.times[what as usize].add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), bytes);
    }

    /// Returns the times of all calls together.
    #[must_use]
    pub fn all(&self) -> Histogram {
        let mut all = Histogram::default();
        self.times.iter().for_each(|times| all.merge(times));
        all
    }

    /// Returns tables for copies that ran at the same time, with the share of time in which the
    /// disk was busy, if known.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Only a few digits are shown.
    pub fn outcome(copies: &[Self], busy: Option<f64>) -> Outcome {
        let ms = |ns: f64| Cell::Number(ns / 1e6);
        let names = ["call", "calls", "mean ms", "median ms", "95 % ms", "99 % ms", "MB"];
        let decimals = [0, 0, 3, 3, 3, 3, 1];
        let columns = names.into_iter().zip(decimals).map(|(name, decimals)| Column::new(name, decimals));
        let mut service = Table::new("Service times", columns);
        let mut moved = 0.0;
        for (what, name) in Call::ALL {
            let mut all = Histogram::default();
            for copy in copies {
                all.merge(&copy.times[what as usize]);
            }
            if all.count() == 0 {
                continue;
            }
            let at = |part| all.quantile(part, By::Count).map_or(Cell::Empty, |ns| ms(ns as f64));
            let bytes = all.weight() as f64;
            moved += bytes;
            let (mean, count) = (ms(all.mean()), (all.count() as f64).into());
            service.row([name.into(), count, mean, at(0.5), at(0.95), at(0.99), (bytes / 1e6).into()]);
        }
        let longest = copies.iter().map(|copy| copy.elapsed).max().unwrap_or_default().as_secs_f64();
        let latest = copies.iter().map(|copy| copy.latest).max().unwrap_or_default().as_secs_f64();
        let calls: u64 = copies.iter().flat_map(|copy| &copy.times).map(Histogram::count).sum();
        let mut whole = Table::new("The replay", [Column::new("", 0), Column::new("value", 2)]);
        let mut row = |name: &str, value: f64| {
            whole.row([name.into(), value.into()]);
        };
        row("copies", copies.len() as f64);
        row("seconds", longest);
        row("calls per second", calls as f64 / longest.max(1e-9));
        row("KB per second", moved / 1e3 / longest.max(1e-9));
        row("maximum delay of an event (seconds)", latest);
        row(
            "calls that read less than in the trace",
            copies.iter().map(|copy| copy.short).sum::<u64>() as f64,
        );
        row("events not replayed", copies.iter().map(|copy| copy.skipped).sum::<u64>() as f64);
        let mapped = copies.iter().map(|copy| copy.mapped).sum::<u64>() as f64;
        row("MB mapped into memory, which are not replayed", mapped / 1e6);
        if let Some(busy) = busy {
            row("% of the time with a busy disk", 100.0 * busy);
        }
        Outcome { tables: vec![service, whole], ..Outcome::default() }
    }
}
