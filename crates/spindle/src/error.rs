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
    /// The device that the reason begins with, if it does.
    device: Option<String>,
    /// What the user can do about it, which the text says too.
    remedy: Option<String>,
}

impl Error {
    /// Returns an error with this text and no error number.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: without_number(&text.into()), errno: None, device: None, remedy: None }
    }

    /// Returns the system's error number, as `ENOSPC`, if the failure has one.
    #[must_use]
    pub const fn errno(&self) -> Option<i32> {
        self.errno
    }

    /// Returns what the user can do about something that is not supported; the text says it too.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }

    /// Returns true if the device has failed, and not the file system on it.
    #[must_use]
    pub const fn is_of_device(&self) -> bool {
        self.device.is_some()
    }

    /// Returns the error of work that a signal has ended, which is no fault of what it was done to:
    /// only the outermost object stands in front of it.
    #[must_use]
    pub fn interrupted() -> Self {
        spindle_vfs::Error::Interrupted.into()
    }

    /// Returns true if the failure has the error number of `error`.
    #[must_use]
    pub fn is(&self, error: &spindle_vfs::Error) -> bool {
        self.errno == Some(error.errno())
    }

    /// Returns the same error with `what` in front of its text, unless that stands there already.
    /// Errors of a device name it themselves: that name is left out behind the same one. Of the
    /// objects of an interruption only the last one is kept.
    #[must_use]
    pub fn within(mut self, what: impl fmt::Display) -> Self {
        if self.is(&spindle_vfs::Error::Interrupted) {
            self = Self::interrupted();
        }
        let what = format!("{what}: ");
        if self.text.starts_with(&what) {
            return self;
        }
        if self.device.as_ref().is_some_and(|device| what.strip_suffix(": ") == Some(device))
            && let Some(at) = self.text.rfind(&format!(": {what}"))
        {
            self.text.replace_range(at..at + what.len(), "");
        }
        self.text.insert_str(0, &what);
        self
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
        let device = match &error {
            spindle_vfs::Error::Device(error) => Some(error.device().to_owned()),
            _ => None,
        };
        let remedy = match &error {
            spindle_vfs::Error::Unsupported { remedy, .. } => Some(remedy.clone()),
            _ => None,
        };
        Self { text: without_number(&error.to_string()), errno: Some(error.errno()), device, remedy }
    }
}

impl From<spindle_device::Error> for Error {
    fn from(error: spindle_device::Error) -> Self {
        let device = Some(error.device().to_owned());
        Self { device, ..Self::new(error.to_string()) }
    }
}

impl From<spindle_ffs::newfs::ParameterError> for Error {
    fn from(error: spindle_ffs::newfs::ParameterError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        // Readers and writers of this program pass its own errors on.
        if let Some(own) = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            return own.clone();
        }
        let text = without_number(&error.to_string());
        let errno = error.raw_os_error();
        // Our own messages begin with a small letter, so the system's do too.
        let text = if errno.is_some() { text.to_lowercase() } else { text };
        Self { text, errno, device: None, remedy: None }
    }
}

impl From<spindle_dump::Error> for Error {
    fn from(error: spindle_dump::Error) -> Self {
        match error {
            spindle_dump::Error::Io(error) => error.into(),
            spindle_dump::Error::Refused(why) => Self::new(why),
        }
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
        self.map_err(|error| error.into().within(text::quoted(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an error of each kind that a device or a file system has.
    fn every_kind() -> Vec<Error> {
        use spindle_device::Error as Failed;
        use spindle_vfs::Error as Fs;
        let device = || "disk.img".to_owned();
        let failed = [
            Failed::OutOfRange { device: device(), offset: 512, len: 512, size: 512 },
            Failed::Misaligned { device: device(), offset: 1, len: 2 },
            Failed::ReadOnly { device: device() },
            Failed::io("disk.img", "reading 512 bytes at 0", std::io::Error::from_raw_os_error(5)),
            Failed::Busy { device: device(), reason: "another program writes it".into() },
            Failed::Unusable { device: device(), reason: "no partition x".into() },
            Failed::Latched { device: device(), reason: "a write failed".into() },
        ];
        let refused = [
            Fs::NotPermitted,
            Fs::NotFound,
            Fs::NoSuchOffset,
            Fs::BadHandle,
            Fs::WouldBlock,
            Fs::Access,
            Fs::Busy,
            Fs::Exists,
            Fs::CrossDevice,
            Fs::NotDirectory,
            Fs::IsDirectory,
            Fs::Invalid,
            Fs::TooBig,
            Fs::NoSpace,
            Fs::ReadOnly,
            Fs::TooManyLinks,
            Fs::Range,
            Fs::Deadlock,
            Fs::NameTooLong,
            Fs::NotEmpty,
            Fs::Loop,
            Fs::NoAttribute,
            Fs::Overflow,
            Fs::NotSupported,
            Fs::Stale,
            Fs::QuotaExceeded,
            Fs::Interrupted,
            Fs::corrupt("its size is 7", "inode 5"),
            Fs::unsupported("a journal", "replay it"),
        ];
        // Each also as the reason why a structure or a root directory cannot be used.
        let structures = refused.iter().map(|error| Fs::corrupt(error.to_string(), "superblock"));
        let once: Vec<Fs> = structures.chain(refused.iter().cloned()).chain(failed.map(Fs::from)).collect();
        let roots = once.iter().map(|error| error.clone().of_root());
        roots.chain(once.iter().cloned()).map(Error::from).collect()
    }

    /// Promise: no message says the same twice, whatever the error and however often its objects
    /// are put in front of it.
    #[test]
    fn no_message_says_the_same_twice() {
        for error in every_kind() {
            let chains = [
                error.clone().within("disk.img"),
                error.clone().within("disk.img").within("disk.img"),
                error.clone().within("/etc").within("disk.img"),
                error.clone().within("fstab").within("/etc").within("disk.img").within("disk.img"),
            ];
            for chain in chains {
                let text = chain.to_string();
                let parts: Vec<&str> = text.split(": ").collect();
                for (n, part) in parts.iter().enumerate() {
                    assert!(!parts[..n].contains(part), "{text}");
                }
                assert!(text.starts_with("disk.img: ") && chain.errno() == error.errno(), "{text}");
            }
        }
        // A file may have the name of the image.
        let error = Error::from(spindle_vfs::Error::NotFound).within("disk.img").within("/etc");
        assert_eq!(
            error.within("disk.img").to_string(),
            "disk.img: /etc: disk.img: no such file or directory"
        );
    }

    /// Promise: of an interruption only the outermost object is named, also by a reader.
    #[test]
    fn interruptions_name_one_object() {
        let within = |error: Error| error.within("c.img: /b/1").within("/a/1").within("a.img").to_string();
        assert_eq!(within(Error::interrupted()), "a.img: interrupted");
        assert_eq!(within(std::io::Error::other(Error::interrupted()).into()), "a.img: interrupted");
    }

    /// Promise: a message names the outer part first, and the error number and the remedy survive.
    #[test]
    fn context_comes_first() {
        let error =
            Err::<(), _>(spindle_vfs::Error::NotFound).named(b"a\nb").context("disk.img").unwrap_err();
        assert_eq!(error.to_string(), r"disk.img: $'a\nb': no such file or directory");
        assert!(error.is(&spindle_vfs::Error::NotFound));
        let error = Err::<(), _>(rustix::io::Errno::ACCESS).context("x").unwrap_err();
        assert_eq!(error.to_string(), "x: permission denied");
        let error = Error::from(spindle_vfs::Error::unsupported("a journal", "replay it")).within("x");
        assert_eq!(
            (error.to_string().as_str(), error.remedy()),
            ("x: a journal; replay it", Some("replay it"))
        );
        let error = Error::new("a: No such file (os error 2); b (os error 5)");
        assert_eq!(error.to_string(), "a: No such file; b");
    }
}
