//! The names that a user wants of a dump.

use crate::transfer::names;

/// A choice of files: those named and everything below them, or all.
#[derive(Clone, Debug, Default)]
pub struct Names(Vec<Vec<u8>>);

impl Names {
    /// Returns the choice of these paths from the root of the dump, with or without a slash or `./`
    /// at their start; the root alone, or no path, chooses all.
    pub fn new(paths: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let plain = |path: &[u8]| {
            let parts: Vec<&[u8]> = names(path).filter(|name| *name != b".").collect();
            parts.join(&b'/')
        };
        let chosen: Vec<_> = paths.into_iter().map(|path| plain(path.as_ref())).collect();
        if chosen.iter().any(Vec::is_empty) { Self::default() } else { Self(chosen) }
    }

    /// Returns true if everything is chosen.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the file at `path` is chosen.
    #[must_use]
    pub fn has(&self, path: &[u8]) -> bool {
        self.is_all() || self.0.iter().any(|name| is_within(path, name))
    }

    /// Returns true if the file at `path` is a directory above one that is chosen.
    #[must_use]
    pub fn leads_through(&self, path: &[u8]) -> bool {
        self.is_all() || self.0.iter().any(|name| is_within(name, path))
    }

    /// Returns the paths that were chosen.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }
}

/// Returns true if `path` is `dir` or below it.
fn is_within(path: &[u8], dir: &[u8]) -> bool {
    dir.is_empty() || path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a name chooses what is below it and leads through what is above it, and similar
    /// names are others.
    #[test]
    fn names_choose_subtrees() {
        let names = Names::new(["/a/b/", "./c"]);
        for chosen in ["a/b", "a/b/x/y", "c"] {
            assert!(names.has(chosen.as_bytes()), "{chosen}");
        }
        for other in ["", "a", "a/bb", "a/c", "cc", "b"] {
            assert!(!names.has(other.as_bytes()), "{other}");
        }
        assert!(names.leads_through(b"a") && names.leads_through(b"") && !names.leads_through(b"b"));
        for all in [Names::new(["."]), Names::new(["x", "/"]), Names::default()] {
            assert!(all.is_all() && all.has(b"x"));
        }
    }
}
