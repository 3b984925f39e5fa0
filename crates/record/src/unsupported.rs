//! The recorder on systems that have none.

use crate::{Error, Filter, Result, Rotation, Summary};
use spindle_trace::Batch;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// A recording; it does not exist on this system.
#[derive(Debug)]
pub enum Recording {}

/// The kernel's half of a recorder; it does not exist on this system.
#[derive(Debug)]
pub enum Probes {}

/// Processes to record; they do not exist on this system.
#[derive(Debug)]
pub enum Processes {}

impl Processes {
    /// Fails, because this system has no recorder.
    ///
    /// # Errors
    /// [`Error::UnsupportedSystem`].
    pub fn find(_numbers: &[u32]) -> Result<Self> {
        Err(Error::UnsupportedSystem)
    }

    /// Does nothing: there are no processes to call it on.
    ///
    /// # Errors
    /// None.
    pub fn wait(&self) -> Result<()> {
        match *self {}
    }
}

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
        _rotation: Option<Rotation>,
        _source: &str,
        _failed: impl FnOnce() + Send + 'static,
    ) -> Result<Recording> {
        match self {}
    }

    /// Does nothing: there are no probes to call it on.
    ///
    /// # Errors
    /// None.
    pub fn watch(
        self,
        _interval: Duration,
        _look: impl FnMut(&mut Batch) -> bool + Send + 'static,
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
