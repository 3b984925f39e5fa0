//! What a simulation counts, and the policies of writing it is about.

use spindle_report::number::share;
use std::fmt;
use std::time::Duration;

/// When modified blocks go to the disk (1985 paper, 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Write {
    /// At once.
    Through,
    /// All that have been modified since the last time, every so often from the first event on.
    Flush(Duration),
    /// When they have to leave the cache.
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

/// What a cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses of blocks that read them.
    pub reads: u64,
    /// Accesses of blocks that write them.
    pub writes: u64,
    /// Blocks that came from the disk.
    pub disk_reads: u64,
    /// Blocks that went to the disk.
    pub disk_writes: u64,
    /// Modified blocks whose data was deleted before they were written.
    pub dropped: u64,
    /// Modified blocks that were in the cache at the end. They are in no other count: a longer
    /// trace would show whether they had to be written, and the paper does not tell.
    pub left: u64,
}

impl Counts {
    /// Accesses of blocks.
    #[must_use]
    pub const fn accesses(&self) -> u64 {
        self.reads + self.writes
    }

    /// Disk accesses.
    #[must_use]
    pub const fn ios(&self) -> u64 {
        self.disk_reads + self.disk_writes
    }

    /// Returns the paper's miss ratio: disk accesses in parts of accesses of blocks. 0 without any.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        share(self.ios(), self.accesses()).unwrap_or(0.0)
    }

    /// Returns the part of the written blocks that never went to the disk, because they were
    /// written again or deleted before.
    #[must_use]
    pub fn never_written(&self) -> f64 {
        share(self.writes.saturating_sub(self.disk_writes + self.left), self.writes).unwrap_or(0.0)
    }
}
