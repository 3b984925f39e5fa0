//! The names that a user wants of a dump.

use crate::transfer::names;
use std::collections::BTreeSet;

/// A choice of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// Those named and everything below them; all without a name.
    Trees(Vec<Vec<u8>>),
    /// Those named and nothing else; the empty path is the root.
    Exactly(BTreeSet<Vec<u8>>),
}

impl Default for Names {
    /// Returns the choice of everything.
    fn default() -> Self {
        Self::Trees(Vec::new())
    }
}

impl Names {
    /// Returns the choice of these paths from the root of the dump, with or without a slash or `./`
    /// at their start; the root alone, or no path, chooses all.
    pub fn new(paths: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let chosen: Vec<_> = paths.into_iter().map(|path| plain(path.as_ref())).collect();
        if chosen.iter().any(Vec::is_empty) { Self::default() } else { Self::Trees(chosen) }
    }

    /// Returns the choice of these paths without what is below them; the root alone without a path.
    pub fn exactly(paths: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let mut chosen: BTreeSet<_> = paths.into_iter().map(|path| plain(path.as_ref())).collect();
        if chosen.is_empty() {
            chosen.insert(Vec::new());
        }
        Self::Exactly(chosen)
    }

    /// Returns true if everything is chosen.
    #[must_use]
    pub fn is_all(&self) -> bool {
        matches!(self, Self::Trees(names) if names.is_empty())
    }

    /// Returns true if the root itself is chosen.
    pub(super) fn has_root(&self) -> bool {
        match self {
            Self::Trees(names) => names.is_empty(),
            Self::Exactly(names) => names.contains(&b""[..]),
        }
    }

    /// Returns true if the file at `path` is chosen.
    #[must_use]
    pub fn has(&self, path: &[u8]) -> bool {
        match self {
            Self::Trees(names) => names.is_empty() || names.iter().any(|name| is_within(path, name)),
            Self::Exactly(names) => names.contains(path),
        }
    }

    /// Returns true if the file at `path` is a directory above one that is chosen.
    #[must_use]
    pub fn leads_through(&self, path: &[u8]) -> bool {
        match self {
            Self::Trees(names) => names.is_empty() || names.iter().any(|name| is_within(name, path)),
            Self::Exactly(names) => {
                let below = [path, b"/"].concat();
                path.is_empty() && !names.is_empty()
                    || names.contains(path)
                    || names.range(below.clone()..).next().is_some_and(|name| name.starts_with(&below))
            }
        }
    }

    /// Returns the paths that were chosen.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let (trees, exact) = match self {
            Self::Trees(names) => (Some(names), None),
            Self::Exactly(names) => (None, Some(names)),
        };
        trees.into_iter().flatten().chain(exact.into_iter().flatten()).map(Vec::as_slice)
    }
}

/// Returns a path without slashes at its ends and without `.`.
fn plain(path: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = names(path).filter(|name| *name != b".").collect();
    parts.join(&b'/')
}

/// Returns true if `path` is `dir` or below it.
fn is_within(path: &[u8], dir: &[u8]) -> bool {
    dir.is_empty() || path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a name chooses what is below it, unless it is meant exactly, and leads through what
    /// is above it; similar names are others.
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
        let exact = Names::exactly(["a/b", "./c/"]);
        assert!(exact.has(b"a/b") && exact.has(b"c") && !exact.has(b"a/b/c") && !exact.has(b""));
        assert!(exact.leads_through(b"a") && exact.leads_through(b"") && !exact.leads_through(b"c/d"));
        assert!(Names::exactly([""; 0]).has(b"") && !Names::exactly(["/"]).has(b"a"));
        for all in [Names::new(["."]), Names::new(["x", "/"]), Names::default()] {
            assert!(all.is_all() && all.has(b"x"));
        }
    }
}
