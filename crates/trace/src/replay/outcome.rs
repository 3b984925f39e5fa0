//! How long the calls of a replay took.

use crate::analyze::{By, Histogram};
use serde::Serialize;
use spindle_report::Outcome;
use spindle_report::outcome::{Cell, Column, Table};
use std::time::Duration;

/// What was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Timed {
    /// Opening a file that is there.
    Open,
    /// Making and opening one.
    Create,
    /// A call that reads.
    Read,
    /// A call that writes.
    Write,
    /// Closing.
    Close,
    /// Removing a file.
    Remove,
    /// Cutting or extending one.
    Truncate,
    /// Renaming one.
    Rename,
    /// `fsync`.
    Sync,
}

impl Timed {
    /// All, in the order of their numbers, with their names.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Open, "open"),
        (Self::Create, "create"),
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Close, "close"),
        (Self::Remove, "unlink"),
        (Self::Truncate, "truncate"),
        (Self::Rename, "rename"),
        (Self::Sync, "fsync"),
    ];
}

/// Times of calls, by what they were.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timings {
    /// Service times in ns, each with the bytes it moved as its weight, by the numbers of
    /// [`Timed`].
    pub times: [Histogram; Timed::ALL.len()],
    /// From the first event to the last.
    pub elapsed: Duration,
    /// How late an event was at most.
    pub latest: Duration,
    /// Calls that read less than the trace did.
    pub short: u64,
    /// Events that were not replayed: about directories, further names, or files that were never
    /// opened.
    pub skipped: u64,
}

impl Timings {
    pub(super) fn add(&mut self, what: Timed, time: Duration, bytes: u64) {
        self.times[what as usize].add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), bytes);
    }

    /// Tables for some copies that ran at once, with the part of the time that a disk was busy, if
    /// that is known.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Shown to a few digits.
    pub fn shown(copies: &[Self], busy: Option<f64>) -> Outcome {
        let ms = |ns: f64| Cell::Number(ns / 1e6);
        let names = ["call", "calls", "mean ms", "median ms", "95 % ms", "99 % ms", "MB"];
        let decimals = [0, 0, 3, 3, 3, 3, 1];
        let columns = names.into_iter().zip(decimals).map(|(name, decimals)| Column::new(name, decimals));
        let mut service = Table::new("Service times", columns);
        let mut moved = 0.0;
        for (what, name) in Timed::ALL {
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
        row("seconds by which the latest event was late", latest);
        row(
            "calls that read less than the trace did",
            copies.iter().map(|copy| copy.short).sum::<u64>() as f64,
        );
        row("events not replayed", copies.iter().map(|copy| copy.skipped).sum::<u64>() as f64);
        if let Some(busy) = busy {
            row("% of the time that the disk was busy", 100.0 * busy);
        }
        Outcome { tables: vec![service, whole], ..Outcome::default() }
    }
}
