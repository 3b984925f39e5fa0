//! Standard output: buffered, and quiet when its reader goes away.

use crate::error::{Context, Failure, Result};
use crate::text::tame_lines;
use std::io::{self, StdoutLock, Write};

/// Standard output.
pub struct Output(io::BufWriter<StdoutLock<'static>>);

impl Output {
    /// Takes standard output.
    pub fn stdout() -> Self {
        Self(io::BufWriter::with_capacity(1 << 16, io::stdout().lock()))
    }

    /// Writes bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        told(self.0.write_all(bytes))
    }

    /// Writes lines for people, in which no name controls the terminal ([`tame_lines`]).
    pub fn text(&mut self, lines: &str) -> Result<()> {
        self.bytes(tame_lines(lines).as_bytes())
    }

    /// Writes such a line.
    pub fn line(&mut self, line: impl AsRef<str>) -> Result<()> {
        self.text(line.as_ref())?;
        self.bytes(b"\n")
    }

    /// Writes a value as JSON, indented.
    pub fn json(&mut self, value: &impl serde::Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value).map_err(|e| Failure::new(e.to_string()))?;
        self.exact(&text)
    }

    /// Writes a line for programs, as it is.
    fn exact(&mut self, line: &str) -> Result<()> {
        self.bytes(line.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Writes a value as a line of JSON.
    pub fn json_line(&mut self, value: &impl serde::Serialize) -> Result<()> {
        let text = serde_json::to_string(value).map_err(|e| Failure::new(e.to_string()))?;
        self.exact(&text)
    }

    /// Writes what is still buffered.
    pub fn finish(mut self) -> Result<()> {
        told(self.0.flush())
    }
}

/// Returns the result of writing to standard output as a command has it.
pub fn told<T>(result: io::Result<T>) -> Result<T> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(Failure::ClosedPipe),
        other => other.context("standard output"),
    }
}
