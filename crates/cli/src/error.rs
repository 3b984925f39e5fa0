//! The failure of a command: its message and its exit code.
//!
//! The message of a [`Failure`] is one line, `WHAT: WHY`. It grows from the inside out: each caller
//! puts its own part in front with [`Context::context`]. A closed output pipe is a failure without
//! a message.

use std::fmt;

/// Result of a command or a part of it.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Exit code of an ordinary failure.
pub const FAILED: u8 = 1;
/// Exit code of an invalid command line; clap uses the same.
pub const USAGE: u8 = 2;
/// Exit code after SIGPIPE, as a shell reports it.
const CLOSED_PIPE: u8 = 128 + 13;

/// The failure of a command.
#[derive(Debug)]
pub enum Failure {
    /// A failure with a message for the user.
    Message {
        /// One line: the object, and the reason; and the system's error number, if there is one.
        error: spindle::Error,
        /// The exit code of the program.
        code: u8,
    },
    /// The reader of our output has closed the pipe.
    ClosedPipe,
}

impl Failure {
    /// Returns an ordinary failure.
    pub fn new(text: impl Into<String>) -> Self {
        Self::Message { error: spindle::Error::new(text), code: FAILED }
    }

    /// Returns the failure of an invalid command line.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Message { error: spindle::Error::new(text), code: USAGE }
    }

    /// Returns the same failure with another exit code.
    pub fn with_code(mut self, new: u8) -> Self {
        if let Self::Message { code, .. } = &mut self {
            *code = new;
        }
        self
    }

    /// Returns the exit code of the program.
    pub fn code(&self) -> u8 {
        match self {
            Self::Message { code, .. } => *code,
            Self::ClosedPipe => CLOSED_PIPE,
        }
    }

    /// Returns the error without the exit code.
    pub fn into_error(self) -> spindle::Error {
        match self {
            Self::Message { error, .. } => error,
            Self::ClosedPipe => rustix::io::Errno::PIPE.into(),
        }
    }

    /// Returns true if the failure has the error number of `error`.
    pub fn is(&self, error: &spindle_vfs::Error) -> bool {
        matches!(self, Self::Message { error: failed, .. } if failed.is(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The text may contain names from an image or an archive.
            Self::Message { error, .. } => f.write_str(&crate::text::terminal_safe(&error.to_string())),
            Self::ClosedPipe => f.write_str("the reader of the output closed the pipe"),
        }
    }
}

impl From<spindle::Error> for Failure {
    fn from(error: spindle::Error) -> Self {
        // Only outputs are written to pipes.
        if error.errno() == Some(rustix::io::Errno::PIPE.raw_os_error()) {
            return Self::ClosedPipe;
        }
        Self::Message { error, code: FAILED }
    }
}

impl From<spindle_vfs::Error> for Failure {
    fn from(error: spindle_vfs::Error) -> Self {
        spindle::Error::from(error).into()
    }
}

impl From<spindle_device::Error> for Failure {
    fn from(error: spindle_device::Error) -> Self {
        spindle::Error::from(error).into()
    }
}

impl From<spindle_lab::Error> for Failure {
    fn from(error: spindle_lab::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<spindle_report::Error> for Failure {
    fn from(error: spindle_report::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<spindle_trace::Error> for Failure {
    fn from(error: spindle_trace::Error) -> Self {
        match error {
            spindle_trace::Error::Refused(text) => Self::usage(text),
            spindle_trace::Error::Io { path, source } => {
                spindle::Error::from(source).within(path.display()).into()
            }
            malformed @ (spindle_trace::Error::Malformed { .. } | spindle_trace::Error::Unknown { .. }) => {
                Self::new(malformed.to_string())
            }
        }
    }
}

impl From<spindle_record::Error> for Failure {
    fn from(error: spindle_record::Error) -> Self {
        match error {
            spindle_record::Error::Refused(text) => Self::usage(text),
            spindle_record::Error::Trace(error) => error.into(),
            other => Self::new(other.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        spindle::Error::from(error).into()
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(errno: rustix::io::Errno) -> Self {
        spindle::Error::from(errno).into()
    }
}

/// Puts the object of an operation in front of the reason of its failure.
pub trait Context<T> {
    /// Turns an error into the message `what: error`.
    fn context(self, what: impl fmt::Display) -> Result<T>;

    /// Does the same with a name in bytes, such as a path in an image or an archive.
    fn named(self, name: &[u8]) -> Result<T>;
}

impl<T, E: Into<Failure>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| match error.into() {
            Failure::Message { error, code } => Failure::Message { error: error.within(what), code },
            Failure::ClosedPipe => Failure::ClosedPipe,
        })
    }

    fn named(self, name: &[u8]) -> Result<T> {
        self.map_err(Into::into).or_else(|error: Failure| Err(error).context(crate::text::quoted(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a message names the outer part first, and the exit code and error number survive.
    #[test]
    fn context_comes_first() {
        let failure =
            Err::<(), _>(spindle_vfs::Error::NotFound).named(b"a\nb").context("disk.img").unwrap_err();
        assert_eq!(failure.to_string(), r"disk.img: $'a\nb': no such file or directory");
        assert!(failure.is(&spindle_vfs::Error::NotFound) && failure.code() == FAILED);
        let failure = Failure::from(spindle::Error::from(rustix::io::Errno::PIPE));
        assert!(matches!(failure, Failure::ClosedPipe));
    }
}
