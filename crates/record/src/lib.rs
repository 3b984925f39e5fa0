//! Records what programs do with files, by programs in the Linux kernel (BPF).
//!
//! The one idea is to do in the kernel what the 1985 study did there: a read or write only extends
//! a *run* that is stored beside the open file, and the event that ends the run (a seek, a close, a
//! change of direction) sends it. So recording costs little, and its bytes are exact. The kernel
//! part is C in `src/bpf`, compiled to `recorder.bpf.o` by `scripts/build-bpf` and stored there, so
//! building this crate needs no clang. It uses only typed tracepoints, not kprobes or similar.
//!
//! [`Probes::attach`] loads it, and [`Probes::record`] starts recording; [`Probes::watch`] shows
//! what happens instead. [`Recording::finish`] completes the file. One thread empties the kernel's
//! ring buffer, and another turns the messages into [`Event`](spindle_trace::Event)s
//! ([`translate`]) and writes them; the recorder's own accesses are not recorded.
//!
//! Invariants: the first event of an open number is its `open` or `create`; each run is recorded
//! once; messages that do not fit into the ring buffer are counted ([`Summary::lost`], and in the
//! file). Only Linux on x86-64 has a recorder, because the numbers of system calls and registers
//! depend on it.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod directories;
mod error;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod kernel;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod links;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod mounts;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod processes;
mod rotation;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod selection;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod session;
mod signals;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod translate;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod unsupported;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod watch;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod wire;

pub use error::{Error, Result};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use processes::Processes;
pub use rotation::Rotation;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use session::{Probes, Recording};
pub use signals::{Child, Signals};
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub use unsupported::{Probes, Processes, Recording};

use std::path::PathBuf;

/// The processes and files to record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only processes that this process starts from now on, with their descendants; otherwise all.
    pub children: bool,
    /// Only these processes, and those that they start from now on; with [`Filter::children`] both.
    pub processes: Vec<u32>,
    /// Only processes of this account.
    pub user: Option<u32>,
    /// Only processes in this cgroup (a directory of the unified hierarchy), or below it.
    pub cgroup: Option<PathBuf>,
    /// Only files on the file system that contains this path.
    pub mount: Option<PathBuf>,
    /// Only files at or below this absolute path.
    pub prefix: Option<String>,
    /// Leave out calls that look at a file or change only its attributes: from
    /// [`Kind::Stat`](spindle_trace::Kind::Stat) to [`Kind::Utime`](spindle_trace::Kind::Utime).
    pub no_looks: bool,
    /// Measure how long calls take, of all files on the wanted file system.
    pub latency: bool,
}

/// The summary of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of events in the file, or in all parts of the recording.
    pub events: u64,
    /// Number of events lost.
    pub lost: u64,
    /// Further notes.
    pub notes: Vec<String>,
}
