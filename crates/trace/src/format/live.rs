//! Writes a trace that can be read while it grows.
//!
//! The one idea: a Parquet file may contain a directory of its row groups anywhere; if another one
//! follows, readers ignore the earlier one. So a recording writes checkpoints
//! ([`Writer::checkpoint`]), and if the recorder is killed, [`super::Reader`] reads the file up to
//! the last checkpoint.
//!
//! Invariant: the time between two checkpoints is a second, or a twentieth of the recording if that
//! is longer. So even long recordings have only a few hundred checkpoints, which are small
//! together.

use super::Writer;
use crate::{Batch, Info, Result};
use spindle_clock::{Clock, SystemClock};
use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Writes a trace while it is recorded.
#[derive(Debug)]
pub struct Live {
    writer: Writer,
    /// Information about the trace before its end.
    info: Info,
    started: Duration,
    /// Time of the next checkpoint.
    due: Duration,
}

impl Live {
    /// Begins a recording in an empty file, which errors call `path`; `source` is the program that
    /// makes it.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn new(file: File, path: &Path, source: &str) -> Result<Self> {
        let info = Info { source: source.to_owned(), ..Info::default() };
        let writer = Writer::new(file, path)?;
        let now = SystemClock.monotonic();
        let mut live = Self { writer, info, started: now, due: now };
        live.checkpoint()?;
        Ok(live)
    }

    /// Returns the next item of `queue`, or `None` when it is closed; writes checkpoints while it
    /// waits.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn receive<T>(&mut self, queue: &Receiver<T>) -> Result<Option<T>> {
        loop {
            let left = self.due.saturating_sub(SystemClock.monotonic());
            if left.is_zero() {
                self.checkpoint()?;
                continue;
            }
            match queue.recv_timeout(left) {
                Ok(next) => return Ok(Some(next)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// Adds events.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        self.writer.write(batch)
    }

    /// Returns the size of the file in bytes, without the events that are not in it yet.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Returns the time since the recording into this file began.
    #[must_use]
    pub fn age(&self) -> Duration {
        SystemClock.monotonic().saturating_sub(self.started)
    }

    /// Completes the file with what is known of the trace at its end; the source stays. Returns the
    /// number of events in it.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn finish(self, end: Info) -> Result<u64> {
        self.writer.finish(&Info { source: self.info.source, ..end })
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.writer.checkpoint(&self.info)?;
        let now = SystemClock.monotonic();
        self.due = now + Duration::from_secs(1).max(now.saturating_sub(self.started) / 20);
        Ok(())
    }
}
