//! What is known of files: strace tells names, not inodes, so a file is what a name leads to.
//!
//! A file gets a number when its name is first met, keeps it through renames, and loses it when its
//! last known name and its last open are gone. Only those are kept, so memory is bounded by the
//! files that are there, not by what happens to them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// A file's number, from 1.
pub(super) type Number = u64;

/// A file.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Names that were met.
    pub(super) names: u32,
    /// Open files of it.
    pub(super) opens: u32,
    /// Bytes that it has at least.
    pub(super) size: u64,
    /// `size` is exact.
    pub(super) exact: bool,
}

/// Files by name and number.
#[derive(Debug, Default)]
pub(super) struct Files {
    by_name: BTreeMap<Arc<str>, Number>,
    known: HashMap<Number, Known>,
    last: Number,
}

impl Files {
    /// Returns the file of this name, met before or new; true if it is new.
    pub(super) fn named(&mut self, name: &str) -> (Number, bool) {
        if let Some(&number) = self.by_name.get(name) {
            return (number, false);
        }
        let number = self.nameless();
        self.by_name.insert(name.into(), number);
        self.known.entry(number).or_default().names = 1;
        (number, true)
    }

    /// Returns a file that has no name.
    pub(super) fn nameless(&mut self) -> Number {
        self.last += 1;
        self.known.insert(self.last, Known::default());
        self.last
    }

    pub(super) fn is_known(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns what is known of a file; what is told of one that is gone is forgotten at once.
    pub(super) fn get(&mut self, number: Number) -> &mut Known {
        self.known.entry(number).or_default()
    }

    /// Gives a file another name beside those that it has.
    pub(super) fn link(&mut self, from: &str, to: &str) {
        let (number, _) = self.named(from);
        if self.by_name.insert(to.into(), number) != Some(number) {
            self.get(number).names += 1;
        }
    }

    /// Takes a name away. Gives the file, and true if it was the last name that is known.
    pub(super) fn unlink(&mut self, name: &str) -> (Number, bool) {
        let (number, _) = self.named(name);
        self.by_name.remove(name);
        let known = self.get(number);
        known.names = known.names.saturating_sub(1);
        (number, known.names == 0)
    }

    /// Moves a name, and if it is a directory's those below it. What was at `to` must have been
    /// unlinked.
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

    /// Swaps what two names lead to.
    pub(super) fn exchange(&mut self, one: &str, other: &str) {
        let (first, second) = (self.named(one).0, self.named(other).0);
        self.by_name.insert(one.into(), second);
        self.by_name.insert(other.into(), first);
    }

    /// Forgets a file that has neither names nor opens.
    pub(super) fn settle(&mut self, number: Number) {
        if self.known.get(&number).is_some_and(|known| known.names == 0 && known.opens == 0) {
            self.known.remove(&number);
        }
    }
}

/// Returns a name without `.`, `..` and doubled slashes, beginning where `base` says if it is
/// relative and that is known.
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

    /// Promise: a name leads to one file until it is unlinked; renames and links keep the file's
    /// number, below directories, too.
    #[test]
    fn names_lead_to_files() {
        let mut files = Files::default();
        let (a, new) = files.named("/a");
        assert!(new);
        assert_eq!(files.named("/a"), (a, false));
        files.link("/a", "/b");
        assert_eq!(files.unlink("/a"), (a, false));
        assert_eq!(files.unlink("/b"), (a, true));
        files.settle(a);
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

    /// Promise: a file that is unlinked while open is known until it is closed.
    #[test]
    fn open_files_are_known() {
        let mut files = Files::default();
        let (a, _) = files.named("/a");
        files.get(a).opens = 1;
        files.unlink("/a");
        files.settle(a);
        assert!(files.known.contains_key(&a));
        files.get(a).opens = 0;
        files.settle(a);
        assert!(files.known.is_empty());
    }

    /// Promise: names are made absolute where their base is known.
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
