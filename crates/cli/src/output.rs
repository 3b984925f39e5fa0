//! Standard output: buffered, and without a message when the reader closes the pipe.

use crate::error::{Context, Failure, Result};
use crate::text::terminal_safe_lines;
use spindle_report::render::in_lines;
use std::io::{self, StdoutLock, Write};

/// Standard output.
pub struct Output(io::BufWriter<StdoutLock<'static>>);

impl Output {
    /// Locks standard output.
    pub fn stdout() -> Self {
        Self(io::BufWriter::with_capacity(1 << 16, io::stdout().lock()))
    }

    /// Writes bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        stdout_result(self.0.write_all(bytes))
    }

    /// Writes lines for people; control characters in them are escaped ([`terminal_safe_lines`]).
    pub fn text(&mut self, lines: &str) -> Result<()> {
        self.bytes(terminal_safe_lines(lines).as_bytes())
    }

    /// Writes a line for people, escaped in the same way.
    pub fn line(&mut self, line: impl AsRef<str>) -> Result<()> {
        self.text(line.as_ref())?;
        self.bytes(b"\n")
    }

    /// Writes a named value for people, as a line. On a terminal that is too narrow for it, it gets
    /// several lines.
    pub fn row(&mut self, name: &str, value: &str) -> Result<()> {
        const INDENT: usize = 16;
        let width = terminal_width().map_or(usize::MAX, |width| width.saturating_sub(INDENT).max(INDENT));
        let mut name = name;
        for line in in_lines(value, width) {
            self.line(format!("  {name:<13} {line}"))?;
            name = "";
        }
        Ok(())
    }

    /// Writes a value as JSON, indented.
    pub fn json(&mut self, value: &impl serde::Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value).map_err(|e| Failure::new(e.to_string()))?;
        self.exact(&text)
    }

    /// Writes a line for programs, not escaped.
    fn exact(&mut self, line: &str) -> Result<()> {
        self.bytes(line.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Writes a value as a line of JSON.
    pub fn json_line(&mut self, value: &impl serde::Serialize) -> Result<()> {
        let text = serde_json::to_string(value).map_err(|e| Failure::new(e.to_string()))?;
        self.exact(&text)
    }

    /// Flushes the buffer.
    pub fn finish(mut self) -> Result<()> {
        stdout_result(self.0.flush())
    }
}

/// Returns the columns of the terminal that standard output is, if it is one.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// Converts the result of a write to standard output; a closed pipe becomes
/// [`Failure::ClosedPipe`].
pub fn stdout_result<T>(result: io::Result<T>) -> Result<T> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(Failure::ClosedPipe),
        other => other.context("standard output"),
    }
}
