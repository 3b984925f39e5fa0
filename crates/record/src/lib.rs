//! Recording what programs do with files, through programs of ours in the Linux kernel (BPF).
//!
//! The one idea is to do in the kernel what the 1985 study did there: reads and writes only
//! lengthen a *run* that is kept beside the open file, and what ends a run (a seek, a close,
//! another direction) sends it. So a recording costs little, and its bytes are exact. The kernel's
//! half is C in `src/bpf`, made into `recorder.bpf.o` by `scripts/build-bpf` and kept there, so
//! that building this crate needs no clang. It sits on typed tracepoints only; kprobes and their
//! like need not exist.
//!
//! [`Recording::start`] loads it; from then on what happens is recorded. [`Recording::finish`]
//! completes the file. In between one thread empties the kernel's ring buffer, and another makes
//! [`Event`](spindle_trace::Event)s of it ([`translate`]) and writes them; the recorder's own
//! accesses are not recorded.
//!
//! Invariants: an open id comes with its `open` or `create` first; a run is told once; what the
//! ring could not hold is counted ([`Done::lost`], and in the file). Only Linux on x86-64 has a
//! recorder: the numbers of system calls and registers are its.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod elsewhere;
mod error;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod kernel;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod session;
mod signals;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod translate;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod wire;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub use elsewhere::Recording;
pub use error::{Error, Result};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use session::Recording;
pub use signals::{Child, Signals};

use std::path::PathBuf;

/// Which processes are recorded, and which files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only the processes that this one starts from now on, and theirs; else all of the system.
    pub children: bool,
    /// Only those of this account.
    pub user: Option<u32>,
    /// Only those in this cgroup (a directory of the unified hierarchy), or below it.
    pub cgroup: Option<PathBuf>,
    /// Only files of the file system that this is on.
    pub mount: Option<PathBuf>,
    /// Only files at or below this absolute name.
    pub prefix: Option<String>,
}

/// What a recording came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Events in the file.
    pub events: u64,
    /// Events that were lost.
    pub lost: u64,
    /// What else is to be known.
    pub notes: Vec<String>,
}
