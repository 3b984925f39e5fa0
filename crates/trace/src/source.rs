//! Where events come from.

use crate::format::{Columns, Reader};
use crate::{Batch, Result, import};
use std::path::Path;

/// What a trace says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// What made it: a recorder with its version, an importer with the name of its format, a
    /// generator with its parameters.
    pub source: String,
    /// Events that were lost while recording. What is lost makes every count a lower bound.
    pub lost: u64,
    /// What else is to be known of how it came to be: a sentence each.
    pub notes: Vec<String>,
}

/// A stream of events.
pub trait Source {
    /// Returns what the trace says of itself; what is only known at its end is there when
    /// [`Source::next`] has given `false`.
    fn info(&self) -> Info;

    /// False if its end is missing: it is still being written, or who wrote it was killed.
    fn is_finished(&self) -> bool {
        true
    }

    /// Replaces what is in `batch` by the next events, some thousands; false if there are no more
    /// (the batch is then empty).
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Malformed`]; what came before is good.
    fn next(&mut self, batch: &mut Batch) -> Result<bool>;

    /// Returns how much of the trace has been given, from 0 to 1, if that is known.
    fn progress(&self) -> Option<f64> {
        None
    }
}

/// Opens a trace in any format that is known by its content: ours, or another tool's. Of our own
/// format only `columns` are read.
///
/// # Errors
/// [`crate::Error::Io`]; [`crate::Error::Malformed`] when it is none of the formats.
pub fn open(path: &Path, columns: Columns) -> Result<Box<dyn Source>> {
    open_as(path, None, columns)
}

/// Opens a trace whose format was perhaps said: `NAME` or `NAME:SETTING=VALUE,…` of
/// [`crate::FORMATS`]. The path `-` is standard input, for other tools' formats only.
///
/// # Errors
/// As [`open`]; [`crate::Error::Refused`] for a format or a setting that there is not.
pub fn open_as(path: &Path, format: Option<&str>, columns: Columns) -> Result<Box<dyn Source>> {
    if format.is_none() && path != Path::new("-") && Reader::recognises(path)? {
        return Ok(Box::new(Reader::open(path, columns)?));
    }
    import::open(path, format)
}
