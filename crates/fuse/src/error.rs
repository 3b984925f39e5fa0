//! Errors of mounting, serving and unmounting.

use std::io;
use std::path::{Path, PathBuf};

/// Result of mounting and unmounting.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of mounting, serving or unmounting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such mount option.
    #[error("mount option `{word}` is unknown")]
    UnknownOption {
        /// The option, with its value.
        word: String,
    },
    /// A mount option is invalid.
    #[error("mount option `{word}` {why}")]
    Option {
        /// The option.
        word: String,
        /// The reason.
        why: String,
    },
    /// The kernel or `fusermount3` refused to mount or unmount.
    #[error("cannot {what} {}: {source}", path.display())]
    Mount {
        /// The attempted operation.
        what: &'static str,
        /// The mount point.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A precondition is not met.
    #[error("{0}")]
    State(String),
    /// The connection with the kernel failed.
    #[error("the FUSE connection of {} failed: {source}", path.display())]
    Session {
        /// The mount point.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Data is not in the image although `write(2)` had reported success, or after it was
    /// written through a mapping.
    #[error("{0}")]
    Lost(String),
    /// The file system could not be unmounted completely.
    #[error("the file system could not be written completely: {0}")]
    FileSystem(#[from] spindle_vfs::Error),
    /// Another system call failed.
    #[error("{what}: {source}")]
    System {
        /// The attempted operation.
        what: String,
        /// The reason.
        source: io::Error,
    },
}

impl Error {
    /// Returns true if something cannot be mounted, unmounted or remounted because it is in use.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Mount { source, .. } if source.raw_os_error() == Some(libc::EBUSY))
    }

    pub(crate) fn option(word: &str, why: &str) -> Self {
        Self::Option { word: word.into(), why: why.into() }
    }

    pub(crate) fn mount(what: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Mount { what, path: path.into(), source: source.into() }
    }

    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { what: what.into(), source: source.into() }
    }
}
