//! Formats of lines of text.

use super::input::Input;
use crate::{Batch, Error, Event, Info, Result, Source};

/// Number of events returned at a time, or a few more.
pub(super) const BATCH: usize = 1 << 13;

/// Decodes the lines of a format.
pub(super) trait Decode {
    /// Adds the events of a line to `out`, which is emptied only between lines.
    ///
    /// # Errors
    /// Describes the problem, as a part of a sentence.
    fn line(&mut self, line: &str, out: &mut Batch) -> std::result::Result<(), String>;

    /// Adds the events that are known only at the end.
    fn end(&mut self, _out: &mut Batch) {}

    /// Forgets indices into the batch, because `out` has been taken and emptied.
    fn batch_taken(&mut self) {}

    /// Returns the information about the trace so far.
    fn info(&self) -> Info;
}

/// A text that is being read.
pub(super) struct Lines<D> {
    input: Input,
    decode: D,
    line: Vec<u8>,
    number: u64,
    ended: bool,
}

impl<D: Decode> Lines<D> {
    pub(super) fn new(input: Input, decode: D) -> Self {
        Self { input, decode, line: Vec::new(), number: 0, ended: false }
    }
}

impl<D: Decode> Source for Lines<D> {
    fn info(&self) -> Info {
        self.decode.info()
    }

    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        batch.clear();
        self.decode.batch_taken();
        while batch.events.len() < BATCH && !self.ended {
            if !self.input.line(self.number + 1, &mut self.line)? {
                self.ended = true;
                self.decode.end(batch);
                break;
            }
            self.number += 1;
            let line = String::from_utf8_lossy(&self.line);
            let before = batch.events.len();
            self.decode
                .line(&line, batch)
                .and_then(|()| check_positions(&batch.events[before..]))
                .map_err(|what| Error::malformed(self.input.path(), format!("line {}", self.number), what))?;
        }
        Ok(!batch.events.is_empty())
    }

    fn progress(&self) -> Option<f64> {
        self.input.progress()
    }
}

/// Refuses events whose bytes lie beyond what a file can have: sums over them could overflow.
pub(super) fn check_positions(events: &[Event]) -> std::result::Result<(), String> {
    match events.iter().find(|event| i64::try_from(event.end()).is_err()) {
        None => Ok(()),
        Some(event) => {
            let bytes = event.read.saturating_add(event.written);
            Err(format!("{bytes} bytes at offset {} are out of range", event.position))
        }
    }
}

/// Parses the number in a column; `what` names it in the error.
pub(super) fn number<T: std::str::FromStr>(text: &str, what: &str) -> std::result::Result<T, String> {
    text.trim().parse().map_err(|_| format!("{what} is {:?}, not a number that fits", shortened(text)))
}

/// Shortens a text for a message.
pub(super) fn shortened(text: &str) -> &str {
    match text.char_indices().nth(60) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}
