//! Why a trace could not be read, made or used.

use std::fmt;
use std::path::{Path, PathBuf};

/// Result of an operation on a trace.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, and where.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file is not what it was taken for, or is damaged.
    #[error("{}: {place}: {what}", .path.display())]
    Malformed {
        /// Which.
        path: PathBuf,
        /// Where in it: a line, an offset, a column.
        place: String,
        /// What is wrong there.
        what: String,
    },
    /// What was asked for makes no sense, or cannot be had from this trace.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// Returns a system's error about a file.
    pub fn io(path: impl AsRef<Path>, source: std::io::Error) -> Self {
        Self::Io { path: path.as_ref().to_owned(), source }
    }

    /// Something in a file that should not be there.
    pub fn malformed(path: impl AsRef<Path>, place: impl fmt::Display, what: impl fmt::Display) -> Self {
        Self::Malformed { path: path.as_ref().to_owned(), place: place.to_string(), what: what.to_string() }
    }
}
