//! Errors of reading, making and using traces.

use std::fmt;
use std::path::{Path, PathBuf};

/// Result of an operation on a trace.
pub type Result<T> = std::result::Result<T, Error>;

/// An error with its place.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A file has an unexpected format, or is damaged.
    #[error("{}: {place}: {what}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Place in the file: a line, an offset, a column.
        place: String,
        /// Description of the problem.
        what: String,
    },
    /// The format of a file is not known.
    #[error("{}: {what}", .path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Why, and what helps.
        what: &'static str,
    },
    /// The request is invalid, or impossible with this trace.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// Returns a system error for a file.
    pub fn io(path: impl AsRef<Path>, source: std::io::Error) -> Self {
        Self::Io { path: path.as_ref().to_owned(), source }
    }

    /// Returns an error for a malformed file.
    pub fn malformed(path: impl AsRef<Path>, place: impl fmt::Display, what: impl fmt::Display) -> Self {
        Self::Malformed { path: path.as_ref().to_owned(), place: place.to_string(), what: what.to_string() }
    }
}
