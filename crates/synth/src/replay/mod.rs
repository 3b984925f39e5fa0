//! Replay: repeats the operations of a trace on any file system and times them.
//!
//! The one idea: a [`Replay`] turns events into calls of a [`Target`], one after the other in the
//! order of the trace, at the recorded times, faster, or without pauses ([`Pace`]). Files are named
//! by numbers, never by the paths in the trace ([`Name`]); files that existed before the trace
//! ([`population`]) are created before the clock starts. [`Directory`] is a target on the host;
//! `lab` has one on modelled disks.
//!
//! Invariants: after a replay the files and their sizes are those of the trace. Nothing outside the
//! target is touched. Calls of one copy of a trace are sequential; load comes from several copies
//! at once, each with its own files.

mod directory;
mod names;
mod outcome;
mod perform;

pub use directory::Directory;
pub use names::{Name, Population, population};
pub use outcome::{Call, Timings};
pub use perform::{Pace, Replay, Settings};

use spindle_trace::Result;

/// Way of opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// The file exists.
    Existing,
    /// The file exists and is truncated to 0.
    Truncated,
    /// The file is created.
    New,
}

/// Number of bytes written at a time when files are created.
const CHUNK: usize = 1 << 16;

/// A place for files. Each function except [`Target::make`] is one call of a program.
pub trait Target {
    /// An open file.
    type Open;

    /// Creates a file of this size, before the replay begins.
    ///
    /// # Errors
    /// Errors of the system.
    fn make(&mut self, name: Name, size: u64) -> Result<()> {
        let mut open = self.open(name, OpenMode::New)?;
        let mut done = 0;
        while done < size {
            let part = usize::try_from(size - done).unwrap_or(CHUNK).min(CHUNK);
            self.write(&mut open, done, part)?;
            done += part as u64;
        }
        self.close(open)
    }

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// Errors of the system.
    fn open(&mut self, name: Name, mode: OpenMode) -> Result<Self::Open>;

    /// Reads; returns the number of bytes read.
    ///
    /// # Errors
    /// Errors of the system.
    fn read(&mut self, open: &mut Self::Open, position: u64, bytes: usize) -> Result<usize>;

    /// Writes `bytes` bytes.
    ///
    /// # Errors
    /// Errors of the system.
    fn write(&mut self, open: &mut Self::Open, position: u64, bytes: usize) -> Result<()>;

    /// Makes an open file durable.
    ///
    /// # Errors
    /// Errors of the system.
    fn sync(&mut self, open: &mut Self::Open) -> Result<()>;

    /// Closes a file.
    ///
    /// # Errors
    /// Errors of the system.
    fn close(&mut self, open: Self::Open) -> Result<()>;

    /// Truncates or extends a file.
    ///
    /// # Errors
    /// Errors of the system.
    fn truncate(&mut self, name: Name, size: u64) -> Result<()>;

    /// Looks at the attributes of a file.
    ///
    /// # Errors
    /// Errors of the system.
    fn stat(&mut self, name: Name) -> Result<()>;

    /// Changes the attributes of a file.
    ///
    /// # Errors
    /// Errors of the system.
    fn change(&mut self, name: Name) -> Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Errors of the system.
    fn remove(&mut self, name: Name) -> Result<()>;

    /// Renames a file within its directory.
    ///
    /// # Errors
    /// Errors of the system.
    fn rename(&mut self, from: Name, to: Name) -> Result<()>;
}

#[cfg(test)]
mod tests;
