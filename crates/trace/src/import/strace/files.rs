//! The known files. strace shows names, not inodes, so a file is identified by its name.
//!
//! A file gets a number when its name first appears, keeps it through renames, and loses it when
//! its last known name and its last open are gone. Only such files are kept, so memory depends on
//! the files that exist, not on the number of calls.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// Number of a file, from 1.
pub(super) type Number = u64;

/// A known file.
#[derive(Clone, Debug, Default)]
pub(super) struct FileInfo {
    /// Number of known names.
    pub(super) names: u32,
    /// Number of opens.
    pub(super) opens: u32,
    /// Minimum size in bytes.
    pub(super) size: u64,
    /// Set if `size` is exact.
    pub(super) exact: bool,
}

/// Files by name and number.
#[derive(Debug, Default)]
pub(super) struct Files {
    by_name: BTreeMap<Arc<str>, Number>,
    known: HashMap<Number, FileInfo>,
    last: Number,
}

impl Files {
    /// Returns the file with this name, and true if the name is new.
    pub(super) fn named(&mut self, name: &str) -> (Number, bool) {
        if let Some(&number) = self.by_name.get(name) {
            return (number, false);
        }
        let number = self.unnamed();
        self.by_name.insert(name.into(), number);
        self.known.entry(number).or_default().names = 1;
        (number, true)
    }

    /// Returns a new file without a name.
    pub(super) fn unnamed(&mut self) -> Number {
        self.last += 1;
        self.known.insert(self.last, FileInfo::default());
        self.last
    }

    pub(super) fn is_known(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns the file with this number, as a new one if it was dropped.
    pub(super) fn get(&mut self, number: Number) -> &mut FileInfo {
        self.known.entry(number).or_default()
    }

    /// Adds a name to a file.
    pub(super) fn link(&mut self, from: &str, to: &str) {
        let (number, _) = self.named(from);
        if self.by_name.insert(to.into(), number) != Some(number) {
            self.get(number).names += 1;
        }
    }

    /// Removes a name. Returns the file, and true if it was its last known name.
    pub(super) fn unlink(&mut self, name: &str) -> (Number, bool) {
        let (number, _) = self.named(name);
        self.by_name.remove(name);
        let known = self.get(number);
        known.names = known.names.saturating_sub(1);
        (number, known.names == 0)
    }

    /// Renames a file, and if it is a directory the names below it. `to` must have been unlinked.
    pub(super) fn rename(&mut self, from: &str, to: &str) -> Number {
        let (number, _) = self.named(from);
        self.by_name.remove(from);
        self.by_name.insert(to.into(), number);
        let below = format!("{from}/");
        let from_there = (Bound::Included(below.as_str()), Bound::Unbounded);
        let moved = self.by_name.range::<str, _>(from_there).map(|(name, _)| Arc::clone(name));
        let moved: Vec<_> = moved.take_while(|name| name.starts_with(&below)).collect();
        for name in moved {
            if let Some(number) = self.by_name.remove(&name) {
                self.by_name.insert(format!("{to}/{}", &name[below.len()..]).into(), number);
            }
        }
        number
    }

    /// Swaps the files of two names.
    pub(super) fn exchange(&mut self, one: &str, other: &str) {
        let (first, second) = (self.named(one).0, self.named(other).0);
        self.by_name.insert(one.into(), second);
        self.by_name.insert(other.into(), first);
    }

    /// Drops a file that has neither names nor opens.
    pub(super) fn drop_if_unused(&mut self, number: Number) {
        if self.known.get(&number).is_some_and(|known| known.names == 0 && known.opens == 0) {
            self.known.remove(&number);
        }
    }
}

/// Returns a name without `.`, `..` and double slashes; a relative name is put after `base` if that
/// is known.
pub(super) fn absolute(base: Option<&str>, name: &str) -> String {
    let whole = match base {
        Some(base) if !name.starts_with('/') => format!("{base}/{name}"),
        _ => name.to_owned(),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if whole.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if whole.starts_with('/') { format!("/{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a name refers to one file until it is unlinked; renames and links keep the file's
    /// number, below directories, too.
    #[test]
    fn names_refer_to_files() {
        let mut files = Files::default();
        let (a, new) = files.named("/a");
        assert!(new);
        assert_eq!(files.named("/a"), (a, false));
        files.link("/a", "/b");
        assert_eq!(files.unlink("/a"), (a, false));
        assert_eq!(files.unlink("/b"), (a, true));
        files.drop_if_unused(a);
        assert!(files.known.is_empty() && files.by_name.is_empty());
        let (again, _) = files.named("/a");
        assert_ne!(again, a);
        let (below, _) = files.named("/a/x");
        let (beside, _) = files.named("/ab");
        assert_eq!(files.rename("/a", "/c"), again);
        assert_eq!(files.named("/c/x"), (below, false));
        assert_eq!(files.named("/ab"), (beside, false));
        files.exchange("/c/x", "/ab");
        assert_eq!((files.named("/ab").0, files.named("/c/x").0), (below, beside));
    }

    /// Promise: a file that is unlinked while open is kept until it is closed.
    #[test]
    fn open_files_are_kept() {
        let mut files = Files::default();
        let (a, _) = files.named("/a");
        files.get(a).opens = 1;
        files.unlink("/a");
        files.drop_if_unused(a);
        assert!(files.known.contains_key(&a));
        files.get(a).opens = 0;
        files.drop_if_unused(a);
        assert!(files.known.is_empty());
    }

    /// Promise: names are made absolute if their base is known.
    #[test]
    fn names_are_absolute() {
        for (base, name, whole) in [
            (Some("/home/x"), "a/./b", "/home/x/a/b"),
            (Some("/home/x"), "../../../a", "/a"),
            (Some("/home/x"), "/a//b/..", "/a"),
            (None, "a/../../b", "../b"),
            (None, "./a", "a"),
            (Some("/"), "..", "/"),
        ] {
            assert_eq!(absolute(base, name), whole, "{base:?} {name}");
        }
    }
}
