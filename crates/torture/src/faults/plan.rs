//! The fault that a device injects, and the requests that it affects: a [`Plan`], whose text
//! repeats it.

use rand::Rng;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Most tries of a call that fails.
const MOST_TRIES: u64 = 8;

/// A fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A read fails.
    ReadError,
    /// A read fails after its first part.
    ShortRead,
    /// A read succeeds, with a few bits flipped.
    FlippedRead,
    /// A write fails, and nothing of it is on the medium.
    WriteError,
    /// A write fails after its first part.
    ShortWrite,
    /// A write fails, and any of its sectors are on the medium.
    TornWrite,
    /// A write succeeds and never reaches the medium.
    LostWrite,
    /// A write succeeds, and goes to another place.
    MisdirectedWrite,
    /// A flush fails, and any of the writes since the last one never reach the medium.
    FlushError,
    /// A flush succeeds and makes nothing durable.
    IdleFlush,
    /// Every request fails, and does nothing.
    Dead,
}

/// A kind of request, among which the affected requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Reads.
    Reads,
    /// Writes.
    Writes,
    /// Flushes.
    Flushes,
    /// Reads, writes and flushes.
    All,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::ReadError,
        Self::ShortRead,
        Self::FlippedRead,
        Self::WriteError,
        Self::ShortWrite,
        Self::TornWrite,
        Self::LostWrite,
        Self::MisdirectedWrite,
        Self::FlushError,
        Self::IdleFlush,
        Self::Dead,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::ReadError => "read-error",
            Self::ShortRead => "short-read",
            Self::FlippedRead => "flipped-read",
            Self::WriteError => "write-error",
            Self::ShortWrite => "short-write",
            Self::TornWrite => "torn-write",
            Self::LostWrite => "lost-write",
            Self::MisdirectedWrite => "misdirected-write",
            Self::FlushError => "flush-error",
            Self::IdleFlush => "idle-flush",
            Self::Dead => "dead",
        }
    }

    /// Returns the kind of request that it can affect.
    #[must_use]
    pub const fn affects(self) -> RequestKind {
        match self {
            Self::ReadError | Self::ShortRead | Self::FlippedRead => RequestKind::Reads,
            Self::WriteError
            | Self::ShortWrite
            | Self::TornWrite
            | Self::LostWrite
            | Self::MisdirectedWrite => RequestKind::Writes,
            Self::FlushError | Self::IdleFlush => RequestKind::Flushes,
            Self::Dead => RequestKind::All,
        }
    }

    /// Returns true if the device reports the fault. Then nothing that was acknowledged may be
    /// lost; otherwise the file system must only not panic, loop or use too much memory.
    #[must_use]
    pub const fn is_reported(self) -> bool {
        !matches!(self, Self::FlippedRead | Self::LostWrite | Self::MisdirectedWrite | Self::IdleFlush)
    }
}

/// The moment at which the device reports an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedAt {
    /// At the submission of the request.
    AtSubmit,
    /// At the wait for its end.
    AtWait,
}

/// A fault, and the requests that it affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The fault.
    pub fault: Fault,
    /// The affected requests, counted from zero among those of the kind that the fault can affect.
    pub requests: Range<u64>,
    /// The moment at which an error is reported.
    pub reported: ReportedAt,
}

impl Plan {
    /// No fault at all.
    pub const NONE: Self = Self { fault: Fault::Dead, requests: 0..0, reported: ReportedAt::AtSubmit };

    /// Returns a plan for a fault of the request `first` and perhaps of some after it, or of all.
    #[must_use]
    pub fn random(fault: Fault, first: u64, rng: &mut impl Rng) -> Self {
        let end = match rng.random_range(0..4) {
            0 | 1 => first + 1,
            2 => first + rng.random_range(2..6),
            _ => u64::MAX,
        };
        let reported = if rng.random() { ReportedAt::AtSubmit } else { ReportedAt::AtWait };
        Self { fault, requests: first..end, reported }
    }

    /// Returns the number of times that a call is tried that fails: until the fault has passed, or
    /// [`MOST_TRIES`].
    #[must_use]
    pub fn tries(&self) -> u64 {
        (self.requests.end - self.requests.start).saturating_add(1).min(MOST_TRIES)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.fault.name(), self.requests.start)?;
        if self.requests.end != u64::MAX {
            write!(f, "-{}", self.requests.end)?;
        }
        f.write_str(if self.reported == ReportedAt::AtWait { "w" } else { "s" })
    }
}

impl FromStr for Plan {
    type Err = String;

    /// Parses what [`fmt::Display`] writes: `torn-write@7-8w` affects the eighth write, `dead@30s`
    /// all requests from the thirty-first on.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a fault plan such as torn-write@7-8w");
        let (name, when) = text.split_once('@').ok_or_else(wrong)?;
        let fault = Fault::ALL.into_iter().find(|fault| fault.name() == name).ok_or_else(wrong)?;
        let (when, reported) = match (when.strip_suffix('s'), when.strip_suffix('w')) {
            (Some(when), _) => (when, ReportedAt::AtSubmit),
            (_, Some(when)) => (when, ReportedAt::AtWait),
            _ => return Err(wrong()),
        };
        let number = |text: &str| text.parse().map_err(|_| wrong());
        let requests = match when.split_once('-') {
            Some((first, end)) => number(first)?..number(end)?,
            None => number(when)?..u64::MAX,
        };
        Ok(Self { fault, requests, reported })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the text of a plan parses to the same plan.
    #[test]
    fn text_repeats_a_plan() {
        for fault in Fault::ALL {
            for (requests, reported) in [(7..8, ReportedAt::AtWait), (0..u64::MAX, ReportedAt::AtSubmit)] {
                let plan = Plan { fault, requests, reported };
                assert_eq!(plan.to_string().parse(), Ok(plan));
            }
        }
        for wrong in ["", "dead", "dead@", "dead@7", "dead@x-8w", "nothing@1w"] {
            assert!(wrong.parse::<Plan>().is_err(), "{wrong}");
        }
    }
}
