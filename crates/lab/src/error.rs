//! The errors of experiments.

/// Result of an experiment or a part of it.
pub type Result<T> = std::result::Result<T, Error>;

/// An experiment that failed: a fault of the program, as nothing in it comes from outside.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file system under test refused or failed.
    #[error(transparent)]
    FileSystem(#[from] spindle_vfs::Error),
    /// A device under test failed.
    #[error(transparent)]
    Device(#[from] spindle_device::Error),
    /// A file system that was asked for cannot be made.
    #[error(transparent)]
    Newfs(#[from] spindle_ffs::newfs::ParameterError),
    /// A machine that was asked for is not described, or cannot be.
    #[error(transparent)]
    Preset(#[from] spindle_sim::preset::Error),
    /// A trace could not be made or used.
    #[error(transparent)]
    Trace(#[from] spindle_trace::Error),
    /// The experiment is not for such a machine.
    #[error("{0}")]
    Refused(&'static str),
    /// The measurements contradict each other.
    #[error("{0}")]
    Contradiction(String),
}
