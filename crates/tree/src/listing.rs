//! Listing a damaged directory: every name that can be read, then an error.
//!
//! A listing goes on past damage, so that no name costs another, but it must not end as if it were
//! complete. A front-end lists in steps, each from the cookie of the last name of the one before.
//! So that a later step knows of damage that an earlier one has passed, the cookies of names behind
//! damage have a bit that no place in a directory has.

use spindle_vfs::{Error, Result};
use std::fmt::Display;

/// A step of a listing: what is lost so far.
pub struct Listing {
    bit: u64,
    /// An earlier step has passed damage.
    lost_before: bool,
    /// The first damage of this step.
    lost: Option<Error>,
}

impl Listing {
    /// Begins or continues a listing at a cookie. Returns the place in the directory with it. `bit`
    /// is one that no place has.
    #[must_use]
    pub const fn resume(cookie: u64, bit: u64) -> (u64, Self) {
        (cookie & !bit, Self { bit, lost_before: cookie & bit != 0, lost: None })
    }

    /// Notes that names are lost, and goes on.
    ///
    /// # Errors
    /// The error itself, if it is a refusal and not damage.
    pub fn pass(&mut self, error: Error) -> Result<()> {
        if !error.is_failure() {
            return Err(error);
        }
        self.lost.get_or_insert(error);
        Ok(())
    }

    /// Returns the cookie of the place behind a name.
    #[must_use]
    pub const fn cookie(&self, place: u64) -> u64 {
        if self.lost_before || self.lost.is_some() { place | self.bit } else { place }
    }

    /// Ends the listing of directory `ino`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if names are lost; the failure of the device, if that was in this step.
    pub fn end(self, ino: impl Display) -> Result<()> {
        match self.lost {
            Some(error @ Error::Device(_)) => Err(error),
            None if !self.lost_before => Ok(()),
            _ => Err(lost_names(ino)),
        }
    }
}

/// Returns the error of directory `ino`, of which names are lost: it may have had any other name.
pub fn lost_names(ino: impl Display) -> Error {
    Error::corrupt("some of its names cannot be read", format!("directory inode {ino}"))
}
