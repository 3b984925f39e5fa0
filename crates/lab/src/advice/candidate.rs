//! A way to make and mount a file system, as data.
//!
//! The one idea: whatever can be advised is a field of a [`Candidate`], so what is simulated, what
//! the table calls it and what the commands say come from the same value.

use serde::Serialize;
use spindle_report::number::bytes;

/// Default of the option `commit=` of mounts, in seconds.
const COMMIT: u32 = 5;

/// A file system on the user's disk, and how it is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// What `newfs` is asked for.
    pub layout: Layout,
    /// Bytes of a cluster: what is allocated contiguously and moves in one request.
    pub cluster_bytes: u32,
    /// When changes of names reach the disk, and what a crash takes.
    pub names: Names,
    /// Seconds after which everything that has changed is made durable.
    pub commit_seconds: u32,
    /// Bytes of memory for file data.
    pub memory_bytes: u64,
}

/// The structures on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// The fast file system.
    Ufs {
        /// Version of the format: 1 or 2.
        version: u8,
        /// Bytes of a block.
        block_bytes: u32,
        /// Bytes of a fragment.
        fragment_bytes: u32,
        /// Bytes of space for each inode.
        density_bytes: u32,
    },
    /// The multi-structured file system.
    Mfs {
        /// Bytes of a block of data.
        block_bytes: u32,
        /// What is on the second disk.
        apart: Apart,
    },
}

/// The parts of a multi-structured file system that are on a second disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Apart {
    /// None: everything is on one disk.
    Nothing,
    /// Log storage.
    Log,
    /// Control storage (inodes and names) and log storage.
    Control,
}

/// When changes of names reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Names {
    /// Through a log, in order.
    Logged,
    /// Without any order.
    Unordered,
    /// Before the call returns, each with a barrier.
    Synchronous,
}

impl Names {
    /// Returns the option of a mount; none for the default.
    const fn option(self) -> Option<&'static str> {
        match self {
            Self::Logged => None,
            Self::Unordered => Some("nolog"),
            Self::Synchronous => Some("sync"),
        }
    }

    /// Returns it in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Logged => "with a log",
            Self::Unordered => "no log",
            Self::Synchronous => "synchronous names",
        }
    }
}

impl Candidate {
    /// Returns what `newfs` and `mount` do without options, on a host with so much memory for file
    /// data.
    #[must_use]
    pub const fn usual(memory_bytes: u64) -> Self {
        let layout = Layout::Ufs {
            version: 2,
            block_bytes: 32 << 10,
            fragment_bytes: 4 << 10,
            density_bytes: 8 << 10,
        };
        Self { layout, cluster_bytes: 1 << 20, names: Names::Logged, commit_seconds: COMMIT, memory_bytes }
    }

    /// Returns the blocks of a cluster.
    #[must_use]
    pub fn cluster_blocks(&self) -> u32 {
        (self.cluster_bytes / self.layout.block_bytes()).max(1)
    }

    /// Returns why it is not advised in place of `usual`, however fast it is: what it loses or
    /// needs.
    #[must_use]
    pub fn objection(&self, usual: &Self) -> Option<String> {
        if let Layout::Ufs { version: 1, .. } = self.layout {
            return Some("it has no times after 2038, extended attributes and check-hashes".into());
        }
        if self.names == Names::Unordered {
            return Some("without a log a crash leaves names in any order, and needs a check".into());
        }
        if self.commit_seconds > usual.commit_seconds {
            return Some(format!("a crash takes up to {} s of what was not synced", self.commit_seconds));
        }
        (self.memory_bytes > usual.memory_bytes)
            .then(|| format!("{} of memory are needed", bytes(self.memory_bytes)))
    }

    /// Returns the options of `newfs` and `mount` that differ from those of `other`, and memory;
    /// `default` if none does.
    #[must_use]
    pub fn options(&self, other: &Self) -> String {
        let mut found = self.layout.options(other.layout);
        if self.cluster_bytes != other.cluster_bytes {
            let option = if matches!(self.layout, Layout::Ufs { .. }) { "-a" } else { "--track" };
            found.push(format!("{option} {}", self.cluster_blocks()));
        }
        if self.names != other.names {
            found.push(self.names.option().unwrap_or("log").into());
        }
        if self.commit_seconds != other.commit_seconds {
            found.push(format!("commit={}", self.commit_seconds));
        }
        if self.memory_bytes != other.memory_bytes {
            found.push(format!("memory {}", short(self.memory_bytes)));
        }
        if found.is_empty() { "default".into() } else { found.join(" ") }
    }

    /// Returns the commands that make and mount it, of `size` bytes, on the image or device `IMAGE`
    /// and, if it has two, `SECOND`.
    #[must_use]
    pub fn commands(&self, size: u64) -> Commands {
        let (blocks, least) = (self.cluster_blocks(), short(second_bytes(size)));
        let size = short(size);
        let newfs = match self.layout {
            Layout::Ufs { version, block_bytes, fragment_bytes, density_bytes } => format!(
                "spindle newfs -s {size} -O {version} -b {block_bytes} -f {fragment_bytes} -i {density_bytes} \
                 -a {blocks} IMAGE"
            ),
            Layout::Mfs { block_bytes, apart } => {
                let members = match apart {
                    Apart::Nothing => format!("-s {size} IMAGE"),
                    Apart::Log => format!("--control IMAGE:{size} --data IMAGE --log SECOND:{least}"),
                    Apart::Control => format!("--control SECOND:{least} --data IMAGE:{size} --log SECOND"),
                };
                format!("spindle newfs -t mfs -b {block_bytes} --track {blocks} {members}")
            }
        };
        // All else is decided when it is made.
        let tunefs = match self.layout {
            Layout::Ufs { .. } => Some(format!("spindle tunefs -a {blocks} IMAGE")),
            Layout::Mfs { .. } => None,
        };
        let names = self.names.option().map(str::to_owned);
        let commit = (self.commit_seconds != COMMIT).then(|| format!("commit={}", self.commit_seconds));
        let options: Vec<_> = names.into_iter().chain(commit).collect();
        let options = if options.is_empty() { String::new() } else { format!("-o {} ", options.join(",")) };
        Commands { newfs, tunefs, mount: format!("spindle mount {options}IMAGE DIR") }
    }
}

/// Returns the bytes that a file system of `size` bytes gets of a second disk.
#[must_use]
pub fn second_bytes(size: u64) -> u64 {
    (size / 8).max(64 << 20)
}

impl Layout {
    /// Returns the bytes of a block.
    #[must_use]
    pub const fn block_bytes(self) -> u32 {
        match self {
            Self::Ufs { block_bytes, .. } | Self::Mfs { block_bytes, .. } => block_bytes,
        }
    }

    /// Returns the name of the system, and of what is on a second disk.
    #[must_use]
    pub const fn system(self) -> &'static str {
        match self {
            Self::Ufs { version: 1, .. } => "UFS1",
            Self::Ufs { .. } => "UFS2",
            Self::Mfs { apart: Apart::Nothing, .. } => "mfs",
            Self::Mfs { apart: Apart::Log, .. } => "mfs, its log on the second disk",
            Self::Mfs { apart: Apart::Control, .. } => "mfs, its control and log storage on the second disk",
        }
    }

    /// Returns the options of `newfs` that differ from those of `other`.
    fn options(self, other: Self) -> Vec<String> {
        let option = |letter: &str, size: u32| format!("-{letter} {}", short(size.into()));
        match (self, other) {
            (
                Self::Ufs { version, block_bytes, fragment_bytes, density_bytes },
                Self::Ufs { version: v, block_bytes: b, fragment_bytes: f, density_bytes: d },
            ) => [
                (version != v).then(|| format!("-O {version}")),
                (block_bytes != b).then(|| option("b", block_bytes)),
                (fragment_bytes != f).then(|| option("f", fragment_bytes)),
                (density_bytes != d).then(|| option("i", density_bytes)),
            ]
            .into_iter()
            .flatten()
            .collect(),
            _ => vec![self.system().into(), option("b", self.block_bytes())],
        }
    }
}

/// Returns a size as options take it: `16k`.
fn short(size: u64) -> String {
    let units = [(40, "t"), (30, "g"), (20, "m"), (10, "k")];
    let unit = units.into_iter().find(|(shift, _)| size > 0 && size.is_multiple_of(1 << shift));
    unit.map_or_else(|| size.to_string(), |(shift, unit)| format!("{}{unit}", size >> shift))
}

/// Commands, ready to be used with the names of an image or device and a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Commands {
    /// Makes the file system.
    pub newfs: String,
    /// Sets what can be set on one that is there: the clusters.
    pub tunefs: Option<String>,
    /// Mounts it.
    pub mount: String,
}
