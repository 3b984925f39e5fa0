//! Errors of recording.

use std::path::PathBuf;

/// Result of a recording.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of recording.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recorder does not run on this system.
    #[error("recording needs Linux on x86-64")]
    UnsupportedSystem,
    /// The caller may not load programs into the kernel.
    #[error("recording needs root, or the capabilities CAP_BPF and CAP_PERFMON")]
    Forbidden,
    /// The kernel lacks a feature that recording needs.
    #[error("this kernel cannot be recorded: {0}")]
    Kernel(String),
    /// A file or directory could not be used.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The request is invalid.
    #[error("{0}")]
    Refused(String),
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] spindle_trace::Error),
}
