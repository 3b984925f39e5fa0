//! Why a mount could not be made, served or ended.

use std::io;
use std::path::{Path, PathBuf};

/// Result of mounting and unmounting.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a mount could not be made, served or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A word of `-o` is wrong.
    #[error("mount option `{word}` {why}")]
    Option {
        /// The word.
        word: String,
        /// What is wrong with it.
        why: String,
    },
    /// The kernel or `fusermount3` refused to mount or unmount.
    #[error("cannot {what} {}: {source}", path.display())]
    Mount {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something is not as it must be for this to work.
    #[error("{0}")]
    State(String),
    /// The session with the kernel broke off.
    #[error("the FUSE session of {} broke off: {source}", path.display())]
    Session {
        /// Where it was mounted.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// Data for which `write(2)` had reported success, or that was written through a mapping, is
    /// not in the image.
    #[error("{0}")]
    Lost(String),
    /// The file system could not be brought to its end.
    #[error("the file system could not be written completely: {0}")]
    FileSystem(#[from] spindle_vfs::Error),
    /// The system refused something else.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Why not.
        source: io::Error,
    },
}

impl Error {
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
