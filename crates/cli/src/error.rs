//! What a command says when it fails, and the exit code it fails with.
//!
//! A [`Failure`] is one line, `WHAT: WHY`, built from the inside out: whoever knows more puts its
//! own part in front with [`Context::context`]. The reader of a closed pipe is no failure to speak
//! of.

use std::fmt;

/// Result of a command or a part of it.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Exit code of an ordinary failure.
pub const FAILED: u8 = 1;
/// Exit code of arguments that make no sense, clap's own.
pub const USAGE: u8 = 2;
/// Exit code of a program that a closed pipe ended, as a shell reports the signal.
const CLOSED_PIPE: u8 = 128 + 13;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// Something to tell the user.
    Told {
        /// One line: what, and why.
        text: String,
        /// The error number behind it, where there is one.
        errno: Option<i32>,
        /// The exit code it asks for.
        code: u8,
    },
    /// Nobody reads what we write any more.
    ClosedPipe,
}

impl Failure {
    /// Returns an ordinary failure.
    pub fn new(text: impl Into<String>) -> Self {
        Self::Told { text: without_number(&text.into()), errno: None, code: FAILED }
    }

    /// Returns a command line that cannot be meant.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Told { text: text.into(), errno: None, code: USAGE }
    }

    /// Returns the same failure with another exit code.
    pub fn with_code(mut self, new: u8) -> Self {
        if let Self::Told { code, .. } = &mut self {
            *code = new;
        }
        self
    }

    /// Returns the code to exit with.
    pub fn code(&self) -> u8 {
        match self {
            Self::Told { code, .. } => *code,
            Self::ClosedPipe => CLOSED_PIPE,
        }
    }

    /// Returns true if it stands for this error of the file system.
    pub fn is(&self, error: &spindle_vfs::Error) -> bool {
        matches!(self, Self::Told { errno: Some(errno), .. } if *errno == error.errno())
    }
}

/// Returns the text without the error number in brackets that the standard library adds and that
/// helps nobody.
fn without_number(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(" (os error ") {
        let Some(len) = rest[start..].find(')') else { break };
        out.push_str(&rest[..start]);
        rest = &rest[start + len + 1..];
    }
    out + rest
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // It may have names in it that nobody has looked at.
            Self::Told { text, .. } => f.write_str(&crate::text::tame(text)),
            Self::ClosedPipe => f.write_str("the reader of the output went away"),
        }
    }
}

impl From<spindle_vfs::Error> for Failure {
    fn from(error: spindle_vfs::Error) -> Self {
        Self::Told { text: without_number(&error.to_string()), errno: Some(error.errno()), code: FAILED }
    }
}

impl From<spindle_device::Error> for Failure {
    fn from(error: spindle_device::Error) -> Self {
        Self::new(error.to_string())
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
            other => Self::new(other.to_string()),
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
        let text = without_number(&error.to_string());
        let errno = error.raw_os_error();
        // The text of our own errors is a sentence's part, so the system's is one too.
        let text = if errno.is_some() { text.to_lowercase() } else { text };
        Self::Told { text, errno, code: FAILED }
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(errno: rustix::io::Errno) -> Self {
        std::io::Error::from(errno).into()
    }
}

/// Puts what was tried in front of why it failed.
pub trait Context<T> {
    /// `what: why`.
    fn context(self, what: impl fmt::Display) -> Result<T>;

    /// Returns the same, for a name of bytes: of a path in an image or an archive.
    fn named(self, name: &[u8]) -> Result<T>;
}

impl<T, E: Into<Failure>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| match error.into() {
            Failure::Told { text, errno, code } => {
                Failure::Told { text: format!("{what}: {text}"), errno, code }
            }
            Failure::ClosedPipe => Failure::ClosedPipe,
        })
    }

    fn named(self, name: &[u8]) -> Result<T> {
        self.map_err(Into::into).or_else(|error: Failure| Err(error).context(crate::text::printable(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the parts of an error are told from the outside in, and its exit code and number
    /// survive.
    #[test]
    fn context_comes_first() {
        let failure =
            Err::<(), _>(spindle_vfs::Error::NotFound).named(b"a\nb").context("disk.img").unwrap_err();
        assert_eq!(failure.to_string(), r"disk.img: a\nb: no such file or directory");
        assert!(failure.is(&spindle_vfs::Error::NotFound) && failure.code() == FAILED);
        let failure = Err::<(), _>(rustix::io::Errno::ACCESS).context("x").unwrap_err();
        assert_eq!(failure.to_string(), "x: permission denied");
        let failure = Failure::new("a: No such file (os error 2); b (os error 5)");
        assert_eq!(failure.to_string(), "a: No such file; b");
    }
}
