//! Errors: one line for people, and the system's error number where there is one.
//!
//! The line grows from the inside out: each caller puts the object that it works on in front of the
//! reason with [`Context::context`], as in `disk.img: /etc/passwd: permission denied`.

use crate::text;
use std::fmt;

/// Result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    text: String,
    errno: Option<i32>,
}

impl Error {
    /// Returns an error with this text and no error number.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: without_number(&text.into()), errno: None }
    }

    /// Returns the system's error number, as `ENOSPC`, if the failure has one.
    #[must_use]
    pub const fn errno(&self) -> Option<i32> {
        self.errno
    }

    /// Returns true if the failure has the error number of `error`.
    #[must_use]
    pub fn is(&self, error: &spindle_vfs::Error) -> bool {
        self.errno == Some(error.errno())
    }

    /// Returns the same error with `what` in front of its text, unless that stands there already:
    /// errors of a device begin with its name.
    #[must_use]
    pub fn within(self, what: impl fmt::Display) -> Self {
        let what = format!("{what}: ");
        if self.text.starts_with(&what) { self } else { Self { text: what + &self.text, ..self } }
    }
}

/// Returns the text without the error number in brackets that the standard library adds.
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<spindle_vfs::Error> for Error {
    fn from(error: spindle_vfs::Error) -> Self {
        Self { text: without_number(&error.to_string()), errno: Some(error.errno()) }
    }
}

impl From<spindle_device::Error> for Error {
    fn from(error: spindle_device::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<spindle_ffs::newfs::ParameterError> for Error {
    fn from(error: spindle_ffs::newfs::ParameterError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        let text = without_number(&error.to_string());
        let errno = error.raw_os_error();
        // Our own messages begin with a small letter, so the system's do too.
        Self { text: if errno.is_some() { text.to_lowercase() } else { text }, errno }
    }
}

impl From<rustix::io::Errno> for Error {
    fn from(errno: rustix::io::Errno) -> Self {
        std::io::Error::from(errno).into()
    }
}

/// Puts the object of an operation in front of the reason of its failure.
pub trait Context<T> {
    /// Turns an error into the message `what: error`.
    ///
    /// # Errors
    /// Those of the operation.
    fn context(self, what: impl fmt::Display) -> Result<T>;

    /// Does the same with a name in bytes, such as a path in an image or an archive.
    ///
    /// # Errors
    /// Those of the operation.
    fn named(self, name: &[u8]) -> Result<T>;
}

impl<T, E: Into<Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| error.into().within(what))
    }

    fn named(self, name: &[u8]) -> Result<T> {
        self.map_err(|error| error.into().within(text::printable(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a message names the outer part first, and the error number survives.
    #[test]
    fn context_comes_first() {
        let error =
            Err::<(), _>(spindle_vfs::Error::NotFound).named(b"a\nb").context("disk.img").unwrap_err();
        assert_eq!(error.to_string(), r"disk.img: a\nb: no such file or directory");
        assert!(error.is(&spindle_vfs::Error::NotFound));
        let error = Err::<(), _>(rustix::io::Errno::ACCESS).context("x").unwrap_err();
        assert_eq!(error.to_string(), "x: permission denied");
        let error = Error::new("a: No such file (os error 2); b (os error 5)");
        assert_eq!(error.to_string(), "a: No such file; b");
    }
}
