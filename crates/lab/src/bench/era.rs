//! What systems of the time had: memory for the file system, and how they used it.

use spindle_cache::{DataSettings, Naming, Settings};

/// Memory of a VAX 11/750 of 1984 in MB: that of which a tenth is [`VAX_BUFFERS`].
const VAX_MB: usize = 2;
/// Buffers of 4.2BSD in bytes: a tenth of the memory (Ousterhout and others, 1985, section 6: 200
/// to 400 KB).
pub const VAX_BUFFERS: usize = 200 << 10;
/// Buffers of a block of 1 KB that 4.1BSD has for each MB of memory (`startup` in its `machdep.c`).
const OLD_BUFFERS_PER_MB: usize = 32;

/// Returns the settings of the BSDs before clusters: blocks of `bsize` bytes move one by one, one
/// is read ahead, names are written at once.
fn bsd(bsize: usize, buffers: usize) -> Settings {
    Settings {
        capacity_bytes: buffers,
        dirty_limit_bytes: buffers,
        naming: Naming::Synchronous,
        compaction: false,
        data: DataSettings::old(bsize, buffers),
    }
}

/// Returns the settings of 4.1BSD, which has the old file system with blocks of 1 KB.
pub fn bsd41() -> Settings {
    bsd(1 << 10, VAX_MB * OLD_BUFFERS_PER_MB * 1024)
}

/// Returns the settings of the system on which the blocks of the file system still had 512 bytes;
/// its buffers are taken to be as many as those of 4.1BSD.
pub fn v32() -> Settings {
    bsd(512, VAX_MB * OLD_BUFFERS_PER_MB * 512)
}

/// Returns the settings of 4.2BSD.
pub fn bsd42(bsize: usize) -> Settings {
    bsd(bsize, VAX_BUFFERS)
}

/// Returns the same hardware with clusters of `cluster_bytes` and all that came with them in 1991.
pub fn clustered(cluster_bytes: usize) -> Settings {
    Settings { data: DataSettings::clustered(cluster_bytes, VAX_BUFFERS), ..bsd42(cluster_bytes) }
}

/// Memory of a `SPARCstation` 1 with 8 MB for pages of files, in bytes: what the kernel and its
/// tables leave.
pub const SPARC_PAGES: usize = 5 << 20;

/// One of the four runs of the clustering paper's figure 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// A to D.
    pub name: &'static str,
    /// Bytes of a cluster.
    pub cluster_bytes: usize,
    /// Milliseconds of rotational delay.
    pub rotdelay_ms: u32,
    /// Pages are freed behind sequential readers.
    pub free_behind: bool,
    /// No more than 240 KB of a file are on their way to the disk.
    pub write_limit: bool,
}

/// The runs of figure 9.
pub const RUNS: [Run; 4] = [
    Run { name: "A", cluster_bytes: 120 << 10, rotdelay_ms: 0, free_behind: true, write_limit: true },
    Run { name: "B", cluster_bytes: 8 << 10, rotdelay_ms: 4, free_behind: true, write_limit: true },
    Run { name: "C", cluster_bytes: 8 << 10, rotdelay_ms: 4, free_behind: false, write_limit: true },
    Run { name: "D", cluster_bytes: 8 << 10, rotdelay_ms: 4, free_behind: false, write_limit: false },
];

impl Run {
    /// Returns the settings of `SunOS` for this run.
    pub fn settings(&self) -> Settings {
        Settings {
            capacity_bytes: 1 << 20,
            dirty_limit_bytes: SPARC_PAGES,
            naming: Naming::Synchronous,
            compaction: false,
            data: DataSettings {
                free_behind: self.free_behind,
                write_limit_bytes: self.write_limit.then_some(240 << 10),
                ..DataSettings::old(self.cluster_bytes, SPARC_PAGES)
            },
        }
    }

    /// Returns the blocks of 8192 bytes in a cluster.
    pub fn maxcontig(&self) -> u32 {
        u32::try_from(self.cluster_bytes / 8192).unwrap_or(1)
    }
}

/// Buffers of a Unisys 7000/51 with 64 MB in bytes (Muller and Pasquale 1991, section 3).
pub const TAHOE_BUFFERS: usize = 7 << 20;
