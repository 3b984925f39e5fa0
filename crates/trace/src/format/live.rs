//! A trace that grows while things happen, and is readable as far as it got.
//!
//! The one idea: a Parquet file may have a directory of its row groups anywhere; where another one
//! follows, readers take it for a gap. So a recording makes a checkpoint now and then
//! ([`Writer::checkpoint`]), and of what a killed recorder leaves behind [`super::Reader`] reads
//! what stands before the last.
//!
//! Invariant: between two checkpoints lies a second, or a twentieth of the recording if that is
//! longer; so there are a few hundred of them however long it goes on, and all together are small.

use super::Writer;
use crate::{Batch, Info, Result};
use spindle_clock::{Clock, SystemClock};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Writes a trace while it is being recorded.
#[derive(Debug)]
pub struct Live {
    writer: Writer,
    /// What is known of the trace before its end.
    info: Info,
    begun: Duration,
    /// When the next checkpoint is.
    due: Duration,
}

impl Live {
    /// Begins a recording in a file, emptied if it is there, of which `source` says what makes it.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn create(path: &Path, source: &str) -> Result<Self> {
        let info = Info { source: source.to_owned(), ..Info::default() };
        let writer = Writer::create(path)?;
        let now = SystemClock.monotonic();
        let mut live = Self { writer, info, begun: now, due: now };
        live.checkpoint()?;
        Ok(live)
    }

    /// Returns what comes next out of `queue`, nothing when it is closed; makes checkpoints
    /// meanwhile.
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

    /// Completes the file; gives the number of events in it.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn finish(self, lost: u64, notes: Vec<String>) -> Result<u64> {
        self.writer.finish(&Info { lost, notes, ..self.info })
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.writer.checkpoint(&self.info)?;
        let now = SystemClock.monotonic();
        self.due = now + Duration::from_secs(1).max(now.saturating_sub(self.begun) / 20);
        Ok(())
    }
}
