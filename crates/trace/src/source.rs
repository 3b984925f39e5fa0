//! Sources of events.

use crate::format::{Columns, Reader};
use crate::latency::Latencies;
use crate::{Batch, Result, import};
use std::path::Path;

/// Information about a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Origin of the trace: a recorder with its version, an importer with the name of its format,
    /// or a generator with its parameters.
    pub source: String,
    /// Number of events lost while recording; if it is not 0, every count is a lower bound.
    pub lost: u64,
    /// Further notes about its origin, one sentence each.
    pub notes: Vec<String>,
    /// How long calls took, if that was measured.
    pub latencies: Latencies,
}

/// How a note ends that says which accesses a trace lacks.
const GAP: &str = "are not counted: their accesses are missing";

impl Info {
    /// Returns the note that a trace lacks what so many requests did; `what` makes such requests.
    #[must_use]
    pub fn gap(requests: u64, what: &str) -> String {
        format!("{requests} requests of {what} {GAP}")
    }

    /// Returns the notes on accesses that are missing. They belong to all figures of the trace.
    pub fn gaps(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().map(String::as_str).filter(|note| note.ends_with(GAP))
    }
}

/// A stream of events.
pub trait Source {
    /// Returns the information about the trace; some of it may be complete only after
    /// [`Source::next`] has returned `false`.
    fn info(&self) -> Info;

    /// Returns false if the end of the trace is missing: it is still being written, or its writer
    /// was killed.
    fn is_finished(&self) -> bool {
        true
    }

    /// Replaces `batch` with the next events, some thousands; returns false and an empty batch at
    /// the end.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Malformed`]; earlier batches are valid.
    fn next(&mut self, batch: &mut Batch) -> Result<bool>;

    /// Returns the part of the trace that has been read, from 0 to 1, if known.
    fn progress(&self) -> Option<f64> {
        None
    }
}

/// A batch has its events once.
impl Source for Batch {
    fn info(&self) -> Info {
        Info::default()
    }

    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        *batch = std::mem::take(self);
        Ok(!batch.events.is_empty())
    }
}

/// Opens a trace, whose format is detected by its content: Spindle's or that of another tool. Only
/// `columns` are read from Spindle's own format.
///
/// # Errors
/// [`crate::Error::Io`]; [`crate::Error::Malformed`] if it has none of the formats.
pub fn open(path: &Path, columns: Columns) -> Result<Box<dyn Source>> {
    open_as(path, None, columns)
}

/// Opens a trace in a given format, if any: `NAME` or `NAME:SETTING=VALUE,…` of [`crate::FORMATS`].
/// The path `-` is standard input, only for the formats of other tools.
///
/// # Errors
/// Those of [`open`]; [`crate::Error::Refused`] for an unknown format or setting.
pub fn open_as(path: &Path, format: Option<&str>, columns: Columns) -> Result<Box<dyn Source>> {
    if format.is_none() && path != Path::new("-") && Reader::recognises(path)? {
        return Ok(Box::new(Reader::open(path, columns)?));
    }
    import::open(path, format)
}
