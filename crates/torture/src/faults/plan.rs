//! What goes wrong, and when: a [`Plan`], whose text repeats it.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A read fails.
    ReadError,
    /// A read fails after its first part.
    ShortRead,
    /// A read succeeds with a few bits of it turned over.
    FlippedRead,
    /// A write fails, and nothing of it is on the medium.
    WriteError,
    /// A write fails after its first part.
    ShortWrite,
    /// A write fails, and any of its sectors are on the medium.
    TornWrite,
    /// A write succeeds and never reaches the medium.
    LostWrite,
    /// A write succeeds and lands elsewhere.
    MisdirectedWrite,
    /// A flush fails, and any of the writes since the last one never reach the medium.
    FlushError,
    /// A flush succeeds and makes nothing durable.
    IdleFlush,
    /// Whatever is asked fails, and does nothing.
    Dead,
}

/// The requests among which a fault is counted out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
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

    /// Returns the requests that it can happen to.
    #[must_use]
    pub const fn among(self) -> Among {
        match self {
            Self::ReadError | Self::ShortRead | Self::FlippedRead => Among::Reads,
            Self::WriteError
            | Self::ShortWrite
            | Self::TornWrite
            | Self::LostWrite
            | Self::MisdirectedWrite => Among::Writes,
            Self::FlushError | Self::IdleFlush => Among::Flushes,
            Self::Dead => Among::All,
        }
    }

    /// Returns true if the device reports the fault. Then nothing that was acknowledged may be
    /// lost; otherwise only sanity is demanded.
    #[must_use]
    pub const fn is_reported(self) -> bool {
        !matches!(self, Self::FlippedRead | Self::LostWrite | Self::MisdirectedWrite | Self::IdleFlush)
    }
}

/// The moment at which the device reports an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedAt {
    /// When the request is handed over.
    AtSubmit,
    /// When its end is waited for.
    AtWait,
}

/// A fault that happens to some requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What happens.
    pub fault: Fault,
    /// The requests it happens to, counted from zero among those that it can happen to.
    pub requests: Range<u64>,
    /// When an error is reported.
    pub reported: ReportedAt,
}

impl Plan {
    /// No fault at all.
    pub const NONE: Self = Self { fault: Fault::Dead, requests: 0..0, reported: ReportedAt::AtSubmit };
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

    /// Reads what [`fmt::Display`] writes: `torn-write@7-8w` is the eighth write, `dead@30s` all
    /// from the thirty-first request on.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no plan like torn-write@7-8w");
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

    /// Promise: the text of a plan gives the plan back.
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
