//! Errors of devices.

use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// Result of a device operation.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a device, with the device and the place.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The request is not within the device.
    #[error("{device}: {len} bytes at {offset} are beyond its end at {size}")]
    OutOfRange {
        /// Device name.
        device: String,
        /// First byte of the request.
        offset: u64,
        /// Length of the request in bytes.
        len: u64,
        /// Size of the device in bytes.
        size: u64,
    },
    /// The request is not whole sectors.
    #[error("{device}: {len} bytes at {offset} are not whole sectors")]
    Misaligned {
        /// Device name.
        device: String,
        /// First byte of the request.
        offset: u64,
        /// Length of the request in bytes.
        len: u64,
    },
    /// A write to a device that was opened read-only.
    #[error("{device}: opened read-only")]
    ReadOnly {
        /// Device name.
        device: String,
    },
    /// The system refused the transfer, or it failed.
    #[error("{device}: {action} failed: {source}")]
    Io {
        /// Device name.
        device: String,
        /// The action and its place.
        action: String,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// Another program uses the device in a way that excludes this one.
    #[error("{device}: in use: {reason}")]
    Busy {
        /// Device name.
        device: String,
        /// The possible user of the device, and a remedy.
        reason: String,
    },
    /// The name is not that of a device, or of a partition that can be opened.
    #[error("{device}: {reason}")]
    Unusable {
        /// Device name.
        device: String,
        /// The problem, and what exists instead.
        reason: String,
    },
    /// An earlier write failed, so writes are refused.
    #[error("{device}: writing stopped after an earlier failure: {reason}")]
    Latched {
        /// Device name.
        device: String,
        /// The earlier failure.
        reason: String,
    },
}

impl Error {
    /// Returns the name of the device, which the message begins with.
    #[must_use]
    pub fn device(&self) -> &str {
        match self {
            Self::OutOfRange { device, .. }
            | Self::Misaligned { device, .. }
            | Self::ReadOnly { device }
            | Self::Io { device, .. }
            | Self::Busy { device, .. }
            | Self::Unusable { device, .. }
            | Self::Latched { device, .. } => device,
        }
    }

    /// Returns a failure of the system in `action` on `device`. A failure of a kind alone gets the
    /// words that the system has for it.
    #[must_use]
    pub fn io(device: &str, action: impl Into<String>, source: io::Error) -> Self {
        let source = in_words_of_the_system(source);
        Self::Io { device: device.to_owned(), action: action.into(), source: Arc::new(source) }
    }
}

/// Returns an error with the words of the system for it, not those of the standard library, which
/// calls a missing file an entity.
fn in_words_of_the_system(error: io::Error) -> io::Error {
    if error.raw_os_error().is_some() || error.get_ref().is_some() {
        return error;
    }
    let errno = match error.kind() {
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::PermissionDenied => Errno::ACCESS,
        ErrorKind::Unsupported => Errno::OPNOTSUPP,
        ErrorKind::Interrupted => Errno::INTR,
        ErrorKind::TimedOut => Errno::TIMEDOUT,
        ErrorKind::Other => Errno::IO,
        _ => return error,
    };
    errno.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a failure that the program names by its kind reads as one of the system, and stays
    /// of its kind; the system's own are as they were.
    #[test]
    fn kinds_have_the_words_of_the_system() {
        for (kind, words) in [
            (ErrorKind::NotFound, "No such file or directory"),
            (ErrorKind::Unsupported, "Operation not supported"),
            (ErrorKind::Other, "Input/output error"),
        ] {
            let error = Error::io("disk", "using it", kind.into());
            assert!(error.to_string().contains(words), "{error}");
        }
        let own = Error::io("disk", "using it", io::Error::new(ErrorKind::InvalidData, "no copy is right"));
        assert_eq!(own.to_string(), "disk: using it failed: no copy is right");
        let Error::Io { source, .. } = Error::io("disk", "trimming", ErrorKind::Unsupported.into()) else {
            panic!("another error");
        };
        assert_eq!(source.kind(), ErrorKind::Unsupported);
    }
}
