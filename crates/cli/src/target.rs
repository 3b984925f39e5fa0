//! Paths on the command line: a path of this machine, or `IMAGE:/path`.
//!
//! The image is the longest part before a colon that names an existing file, so names of images may
//! contain colons. The part after the colon is a path from the root of the image, with or without
//! the leading slash.

use crate::error::{Failure, Result};
use spindle_device::Spec;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A file or directory on this machine or in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A path of this machine.
    Local(PathBuf),
    /// A path in an image.
    Inside(ImagePath),
}

/// A path in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePath {
    /// The image as the user named it: `disk.img`, `disk.img@s1a`.
    pub image: String,
    /// The path in the image, with a leading slash.
    pub path: Vec<u8>,
}

impl ImagePath {
    /// Returns the text `IMAGE:/path`.
    pub fn display(&self) -> String {
        crate::text::quoted(&[self.image.as_bytes(), b":", &self.path].concat())
    }
}

impl Target {
    /// Parses `IMAGE:/path` if the image exists; any other text is a path of this machine.
    pub fn parse(word: &OsStr) -> Self {
        let bytes = word.as_bytes();
        if Path::new(word).symlink_metadata().is_ok() {
            return Self::Local(word.into());
        }
        let colons = (0..bytes.len()).rev().filter(|&i| bytes[i] == b':');
        for colon in colons {
            if let Some(image) = existing_image(&bytes[..colon]) {
                return Self::Inside(ImagePath { image, path: absolute(&bytes[colon + 1..]) });
            }
        }
        Self::Local(word.into())
    }

    /// Parses an argument that must be in an image; `IMAGE` alone means its root.
    pub fn in_image(word: &OsStr) -> Result<ImagePath> {
        match Self::parse(word) {
            Self::Inside(inside) => Ok(inside),
            Self::Local(path) => match existing_image(word.as_bytes()) {
                Some(image) => Ok(ImagePath { image, path: b"/".to_vec() }),
                None => Err(missing(&path)),
            },
        }
    }

    /// Refuses a path of this machine that does not exist and looks like `IMAGE:/path`.
    pub fn check_local(path: &Path) -> Result<()> {
        if path.symlink_metadata().is_err() && path.as_os_str().as_bytes().windows(2).any(|w| w == b":/") {
            return Err(missing(path));
        }
        Ok(())
    }
}

fn missing(path: &Path) -> Failure {
    let bytes = path.as_os_str().as_bytes();
    let image = match bytes.windows(2).position(|w| w == b":/") {
        Some(colon) => OsString::from_vec(bytes[..colon].to_vec()),
        None => path.as_os_str().to_owned(),
    };
    let image_path = PathBuf::from(&image);
    let found = image_path.metadata();
    let why = if found.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
        "is a directory, not an image; name a path in an image as IMAGE:/path"
    } else if found.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
        "permission denied"
    } else {
        "there is no such image; name a path in an image as IMAGE:/path"
    };
    Failure::new(format!("{}: {why}", image_path.display()))
}

/// Returns the text if it names an existing file or block device, or a partition of one.
fn existing_image(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty())?;
    let spec = Spec::parse(text).ok()?;
    let metadata = std::fs::metadata(&spec.path).ok()?;
    (!metadata.is_dir()).then(|| text.to_owned())
}

fn absolute(path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") { path.to_vec() } else { [b"/", path].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(word: &Path) -> ImagePath {
        match Target::parse(word.as_os_str()) {
            Target::Inside(inside) => inside,
            Target::Local(path) => panic!("{} is parsed as local", path.display()),
        }
    }

    /// Promise: the longest existing image wins, partitions belong to its name, and a path
    /// without an image is local.
    #[test]
    fn longest_image_wins() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["a", "a:b", "plain"] {
            std::fs::write(path(name), "").unwrap();
        }
        let image = |name: &str| path(name).to_str().unwrap().to_owned();
        for (word, name, within) in [
            ("a:b:/c:d", "a:b", "/c:d"),
            ("a:/b", "a", "/b"),
            ("a:x", "a", "/x"),
            ("a:", "a", "/"),
            ("plain@s1a:/x", "plain@s1a", "/x"),
            ("plain@offset=512:/x@y", "plain@offset=512", "/x@y"),
        ] {
            let got = inside(&path(word));
            assert_eq!((got.image, got.path), (image(name), within.as_bytes().to_vec()), "{word}");
        }
        for local in ["a:b", "missing:/x", "other", "x:y"] {
            assert_eq!(Target::parse(path(local).as_os_str()), Target::Local(path(local)));
        }
        let whole = Target::in_image(path("a:b").as_os_str()).unwrap();
        assert_eq!((whole.image, &whole.path[..]), (image("a:b"), &b"/"[..]));
        let failure = Target::in_image(path("missing:/x").as_os_str()).unwrap_err().to_string();
        assert!(failure.ends_with("missing: there is no such image; name a path in an image as IMAGE:/path"));
        let failure = Target::in_image(dir.path().as_os_str()).unwrap_err().to_string();
        assert!(failure.contains("is a directory, not an image"));
    }
}
