//! Errors of file systems, and objections to writing.

/// Result of a file-system operation.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! errors {
    ($($(#[$meta:meta])* $name:ident = $errno:literal, $text:literal;)*) => {
        /// Reason why an operation was refused or failed. The variants without fields are the POSIX
        /// errors.
        #[derive(Clone, Debug, thiserror::Error)]
        pub enum Error {
            $($(#[$meta])* #[error($text)] $name,)*
            /// The image contradicts itself or its format.
            #[error("corrupt: {what} ({place})")]
            Corrupt {
                /// The problem.
                what: String,
                /// The structure and its number or byte offset.
                place: String,
            },
            /// The image is in a state or format that this operation does not support.
            #[error("{what}; {remedy}")]
            Unsupported {
                /// The problem.
                what: String,
                /// The remedy: an action that the user can take.
                remedy: String,
            },
            /// The device failed.
            #[error(transparent)]
            Device(#[from] spindle_device::Error),
        }

        impl Error {
            /// Returns true if something is broken; false for a mere refusal.
            #[must_use]
            pub const fn is_failure(&self) -> bool {
                matches!(self, Self::Corrupt { .. } | Self::Device(_))
            }

            /// Returns why a file system whose root directory fails like this cannot be opened.
            #[must_use]
            pub fn of_root(self) -> Self {
                match self {
                    Self::Device(_) => self,
                    Self::Corrupt { what, place } => Self::corrupt(what, format!("root directory, {place}")),
                    Self::Stale => Self::corrupt("its inode is not in use", "root directory"),
                    other => Self::corrupt(other.to_string(), "root directory"),
                }
            }

            /// Returns the Linux error number.
            #[must_use]
            pub fn errno(&self) -> i32 {
                match self {
                    $(Self::$name => $errno,)*
                    Self::Corrupt { .. } => 117,
                    Self::Unsupported { .. } => 95,
                    Self::Device(spindle_device::Error::ReadOnly { .. } | spindle_device::Error::Latched { .. }) => 30,
                    // What the host has no space for, as a sparse image on a full disk.
                    Self::Device(spindle_device::Error::Io { source, .. }) => match source.raw_os_error() {
                        Some(full @ (28 | 122)) => full,
                        _ => 5,
                    },
                    Self::Device(_) => 5,
                }
            }
        }
    };
}

errors! {
    /// EPERM: not allowed for anyone, or only for the owner.
    NotPermitted = 1, "operation not permitted";
    /// ENOENT.
    NotFound = 2, "no such file or directory";
    /// ENXIO: there is no data or hole beyond this offset.
    NoSuchOffset = 6, "no data or hole at or after this offset";
    /// EBADF: the handle is not open, or not for this operation.
    BadHandle = 9, "bad file handle";
    /// EAGAIN: the operation would have to wait.
    WouldBlock = 11, "resource temporarily unavailable";
    /// EACCES.
    Access = 13, "permission denied";
    /// EBUSY.
    Busy = 16, "in use";
    /// EEXIST.
    Exists = 17, "file exists";
    /// EXDEV.
    CrossDevice = 18, "on different file systems";
    /// ENOTDIR.
    NotDirectory = 20, "not a directory";
    /// EISDIR.
    IsDirectory = 21, "is a directory";
    /// EINVAL.
    Invalid = 22, "invalid argument";
    /// EFBIG.
    TooBig = 27, "file too large";
    /// ENOSPC: no blocks or no inodes left for this caller.
    NoSpace = 28, "no space left";
    /// EROFS.
    ReadOnly = 30, "read-only file system";
    /// EMLINK.
    TooManyLinks = 31, "too many links";
    /// ERANGE: the caller's buffer is too small.
    Range = 34, "result too large for the buffer";
    /// EDEADLK.
    Deadlock = 35, "waiting would deadlock";
    /// ENAMETOOLONG.
    NameTooLong = 36, "file name too long";
    /// ENOTEMPTY.
    NotEmpty = 39, "directory not empty";
    /// ELOOP.
    Loop = 40, "too many symbolic links";
    /// ENODATA: no such extended attribute.
    NoAttribute = 61, "no such attribute";
    /// EOVERFLOW.
    Overflow = 75, "value too large for the format";
    /// EOPNOTSUPP: this file system does not have the feature.
    NotSupported = 95, "not supported by this file system";
    /// ESTALE: the inode number no longer refers to this file.
    Stale = 116, "stale file handle";
    /// EDQUOT.
    QuotaExceeded = 122, "quota exceeded";
    /// EINTR.
    Interrupted = 4, "interrupted";
}

impl Error {
    /// Returns [`Error::Corrupt`] with these parts. The problem may be the text of such an error.
    pub fn corrupt(what: impl Into<String>, place: impl Into<String>) -> Self {
        let what: String = what.into();
        Self::Corrupt { what: what.trim_start_matches("corrupt: ").to_owned(), place: place.into() }
    }

    /// Returns the problem and its place, for a text that says already that something is damaged.
    #[must_use]
    pub fn problem(&self) -> String {
        match self {
            Self::Corrupt { what, place } => format!("{what} ({place})"),
            other => other.to_string(),
        }
    }

    /// Returns [`Error::Unsupported`] with these parts.
    pub fn unsupported(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Unsupported { what: what.into(), remedy: remedy.into() }
    }
}

/// A reason not to write to a file system, with a remedy.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Objection {
    /// The problem.
    pub reason: String,
    /// The remedy: an action that the user can take.
    pub remedy: String,
    /// True if the user may insist on writing.
    pub overridable: bool,
}
