//! Errors of devices.

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
        source: Arc<std::io::Error>,
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

    /// Returns a failure of the system in `action` on `device`.
    #[must_use]
    pub fn io(device: &str, action: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { device: device.to_owned(), action: action.into(), source: Arc::new(source) }
    }
}
