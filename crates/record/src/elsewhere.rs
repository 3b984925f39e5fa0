//! Where there is no recorder.

use crate::{Done, Error, Result, Wanted};
use std::path::Path;

/// A recording, which there is none of here.
#[derive(Debug)]
pub enum Recording {}

impl Recording {
    /// Does not start.
    ///
    /// # Errors
    /// [`Error::Elsewhere`].
    pub fn start(_wanted: &Wanted, _output: &Path, _source: &str) -> Result<Self> {
        Err(Error::Elsewhere)
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// None.
    pub fn follow_no_more(&mut self) -> Result<()> {
        match *self {}
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// None.
    pub fn finish(self) -> Result<Done> {
        match self {}
    }
}
