//! The recorder on systems that have none.

use crate::{Error, Filter, Result, Summary};
use std::fs::File;
use std::path::Path;

/// A recording; it does not exist on this system.
#[derive(Debug)]
pub enum Recording {}

/// The kernel's half of a recorder; it does not exist on this system.
#[derive(Debug)]
pub enum Probes {}

impl Probes {
    /// Fails, because this system has no recorder.
    ///
    /// # Errors
    /// [`Error::UnsupportedSystem`].
    pub fn attach(_filter: &Filter) -> Result<Self> {
        Err(Error::UnsupportedSystem)
    }

    /// Does nothing: there are no probes to call it on.
    ///
    /// # Errors
    /// None.
    pub fn record(
        self,
        _output: (File, &Path),
        _source: &str,
        _failed: impl FnOnce() + Send + 'static,
    ) -> Result<Recording> {
        match self {}
    }
}

impl Recording {
    /// Does nothing: there is no recording to call it on.
    ///
    /// # Errors
    /// None.
    pub fn stop_following(&mut self) -> Result<()> {
        match *self {}
    }

    /// Does nothing: there is no recording to call it on.
    ///
    /// # Errors
    /// None.
    pub fn finish(self) -> Result<Summary> {
        match self {}
    }
}
