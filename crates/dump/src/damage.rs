//! What is wrong with a stream.

use std::fmt;
use std::io;

/// Result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Something in a stream that is not as it should be. Reading goes on past it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of the record, from 0 at the start of the stream.
    pub record: u64,
    /// The problem.
    pub what: String,
}

impl Damage {
    /// Returns a damage at a record.
    #[must_use]
    pub fn new(record: u64, what: impl Into<String>) -> Self {
        Self { record, what: what.into() }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}: {}", self.record, self.what)
    }
}

/// Why a stream cannot be read or written at all.
#[derive(Debug)]
pub enum Error {
    /// The file, pipe or device has failed.
    Io(io::Error),
    /// The stream is none that can be read, for this reason.
    Refused(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
