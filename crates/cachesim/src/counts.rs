//! Counts of a simulation, and write policies.

use spindle_report::number::share;
use std::fmt;
use std::time::Duration;

/// Policy for writing modified blocks to the disk (1985 paper, 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Write {
    /// At once.
    Through,
    /// At fixed intervals from the first event on, all blocks modified since the last time.
    Flush(Duration),
    /// When they leave the cache.
    Delayed,
}

impl Write {
    /// The policies of the paper's Table VI, in its order.
    pub const PAPER: [Self; 4] = [
        Self::Through,
        Self::Flush(Duration::from_secs(30)),
        Self::Flush(Duration::from_secs(300)),
        Self::Delayed,
    ];
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Through => f.pad("through"),
            Self::Delayed => f.pad("delayed"),
            Self::Flush(every) => match (every.as_secs(), every.subsec_nanos()) {
                (seconds, 0) if seconds % 3600 == 0 => write!(f, "flush:{}h", seconds / 3600),
                (seconds, 0) if seconds % 60 == 0 => write!(f, "flush:{}m", seconds / 60),
                (seconds, 0) => write!(f, "flush:{seconds}s"),
                _ => write!(f, "flush:{}s", every.as_secs_f64()),
            },
        }
    }
}

/// Counts of one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of accesses that read blocks.
    pub reads: u64,
    /// Number of accesses that write blocks.
    pub writes: u64,
    /// Number of blocks read from the disk.
    pub disk_reads: u64,
    /// Number of blocks written to the disk.
    pub disk_writes: u64,
    /// Number of modified blocks whose data was deleted before they were written.
    pub dropped: u64,
    /// Number of modified blocks in the cache at the end. They are not counted as disk writes: only
    /// a longer trace would show whether they are written, and the paper does not mention them.
    pub left: u64,
}

impl Counts {
    /// Returns the number of accesses to blocks.
    #[must_use]
    pub const fn accesses(&self) -> u64 {
        self.reads + self.writes
    }

    /// Returns the number of disk accesses.
    #[must_use]
    pub const fn ios(&self) -> u64 {
        self.disk_reads + self.disk_writes
    }

    /// Returns the miss ratio of the paper: disk accesses divided by accesses to blocks; 0 without
    /// any.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        share(self.ios(), self.accesses()).unwrap_or(0.0)
    }

    /// Returns the share of written blocks that were never written to the disk, because they were
    /// written again or deleted before.
    #[must_use]
    pub fn never_written(&self) -> f64 {
        share(self.writes.saturating_sub(self.disk_writes + self.left), self.writes).unwrap_or(0.0)
    }
}
