//! What can go wrong on a device.

use std::sync::Arc;

/// Result of a device operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A device failure, naming the device and the place.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The request does not lie within the device.
    #[error("{device}: {len} bytes at {offset} lie beyond its end at {size}")]
    OutOfRange {
        /// Device name.
        device: String,
        /// First byte asked for.
        offset: u64,
        /// Bytes asked for.
        len: u64,
        /// Size of the device in bytes.
        size: u64,
    },
    /// The request is not whole sectors.
    #[error("{device}: {len} bytes at {offset} are not whole sectors")]
    Misaligned {
        /// Device name.
        device: String,
        /// First byte asked for.
        offset: u64,
        /// Bytes asked for.
        len: u64,
    },
    /// A write to a device that was opened read-only.
    #[error("{device}: opened read-only")]
    ReadOnly {
        /// Device name.
        device: String,
    },
    /// The system refused or failed the transfer.
    #[error("{device}: {action} failed: {source}")]
    Io {
        /// Device name.
        device: String,
        /// What was tried, with its place.
        action: String,
        /// The system's word.
        source: Arc<std::io::Error>,
    },
    /// Somebody else has the device open in a way that excludes this one.
    #[error("{device}: in use: {reason}")]
    Busy {
        /// Device name.
        device: String,
        /// Who may hold it, and what would help.
        reason: String,
    },
    /// What was named is no device, or no partition of it that can be opened.
    #[error("{device}: {reason}")]
    Unusable {
        /// Device name.
        device: String,
        /// What is wrong with it, and what there is instead.
        reason: String,
    },
    /// An earlier write failed, so no more are taken.
    #[error("{device}: writing stopped after an earlier failure: {reason}")]
    Latched {
        /// Device name.
        device: String,
        /// The earlier failure.
        reason: String,
    },
}

impl Error {
    /// Returns a failure of the system in `action` on `device`.
    #[must_use]
    pub fn io(device: &str, action: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { device: device.to_owned(), action: action.into(), source: Arc::new(source) }
    }
}
