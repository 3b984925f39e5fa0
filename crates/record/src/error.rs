//! Why nothing could be recorded.

use std::path::PathBuf;

/// Result of a recording.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system is none that has a recorder.
    #[error("recording needs Linux on x86-64")]
    Elsewhere,
    /// The caller may not load programs into the kernel.
    #[error("recording needs root, or the capabilities CAP_BPF and CAP_PERFMON")]
    Forbidden,
    /// The kernel lacks something.
    #[error("this kernel cannot be recorded: {0}")]
    Kernel(String),
    /// A file or directory could not be used.
    #[error("{}: {source}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Refused(String),
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] spindle_trace::Error),
}
