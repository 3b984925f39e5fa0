//! Replay: what a trace tells is done again, on any file system, and timed.
//!
//! The one idea: a [`Replay`] turns events into calls of a [`Target`], one after the other in the
//! order of the trace, at the recorded times, faster, or as fast as they go ([`Pace`]). Files are
//! named by numbers, never by the trace's own paths ([`Name`]); what was there before the trace
//! began ([`population`]) is made before the time runs. [`Directory`] is a target on the host;
//! `lab` has one on modelled disks.
//!
//! Invariants: after a replay the files and their sizes are those that the trace tells. Nothing
//! outside the target is touched. Calls of one copy of a trace follow each other; load comes from
//! several copies at once, each with its own files.

mod directory;
mod names;
mod outcome;
mod perform;

pub use directory::Directory;
pub use names::{Name, population};
pub use outcome::{Timed, Timings};
pub use perform::{Pace, Replay, Settings};

use crate::Result;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is there.
    Existing,
    /// It is there, and is cut to nothing.
    Emptied,
    /// It is made.
    New,
}

/// Bytes written at a time when files are made.
const CHUNK: usize = 1 << 16;

/// A place where files can be. Each function but [`Target::make`] is one call of a program.
pub trait Target {
    /// An open file.
    type Open;

    /// Makes a file of this size, before the replay begins.
    ///
    /// # Errors
    /// As the system.
    fn make(&mut self, name: Name, size: u64) -> Result<()> {
        let mut open = self.open(name, How::New)?;
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
    /// As the system.
    fn open(&mut self, name: Name, how: How) -> Result<Self::Open>;

    /// Reads; gives the bytes read.
    ///
    /// # Errors
    /// As the system.
    fn read(&mut self, open: &mut Self::Open, position: u64, bytes: usize) -> Result<usize>;

    /// Writes all of so many bytes.
    ///
    /// # Errors
    /// As the system.
    fn write(&mut self, open: &mut Self::Open, position: u64, bytes: usize) -> Result<()>;

    /// Makes an open file durable.
    ///
    /// # Errors
    /// As the system.
    fn sync(&mut self, open: &mut Self::Open) -> Result<()>;

    /// Closes a file.
    ///
    /// # Errors
    /// As the system.
    fn close(&mut self, open: Self::Open) -> Result<()>;

    /// Cuts or extends a file.
    ///
    /// # Errors
    /// As the system.
    fn truncate(&mut self, name: Name, size: u64) -> Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// As the system.
    fn remove(&mut self, name: Name) -> Result<()>;

    /// Gives a file another name, in the same directory.
    ///
    /// # Errors
    /// As the system.
    fn rename(&mut self, from: Name, to: Name) -> Result<()>;
}

#[cfg(test)]
mod tests;
