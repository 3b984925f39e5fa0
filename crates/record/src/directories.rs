//! The directories that messages refer to by number.
//!
//! The kernel part remembers 2^14 directories, and gives one that it has forgotten a new number. So
//! a number that was not used while four times as many others were is not used again, and is
//! dropped: memory does not grow with the directories that come and go.

use crate::wire::{CUT, Message};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of directories after which those that were not used meanwhile are dropped.
const GENERATION: usize = 1 << 16;

/// A directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Its absolute path; empty if it is too long to be known.
    pub path: Arc<str>,
    /// Device number in the encoding of `stat`.
    pub device: u64,
}

/// The directories by number: those used lately, and those used before.
#[derive(Debug, Default)]
pub struct Directories {
    lately: HashMap<u64, Directory>,
    before: HashMap<u64, Directory>,
}

impl Directories {
    /// Adds the directory that a message is about.
    pub fn add(&mut self, message: &Message<'_>) {
        let path = if message.flags & CUT == 0 { whole_name(message.text) } else { Arc::default() };
        self.use_now(message.base, Directory { path, device: message.device() });
    }

    /// Returns the directory with this number, if it is known.
    pub fn get(&mut self, number: u64) -> Option<&Directory> {
        if let Some(directory) = self.before.remove(&number) {
            self.use_now(number, directory);
        }
        self.lately.get(&number)
    }

    fn use_now(&mut self, number: u64, directory: Directory) {
        if self.lately.len() >= GENERATION {
            self.before = std::mem::take(&mut self.lately);
        }
        self.lately.insert(number, directory);
    }

    /// Replaces each path for which `moved` returns another one; returns true if there was one.
    pub fn rename(&mut self, moved: impl Fn(&str) -> Option<Arc<str>>) -> bool {
        let mut was_any = false;
        for directory in self.lately.values_mut().chain(self.before.values_mut()) {
            if let Some(path) = moved(&directory.path) {
                directory.path = path;
                was_any = true;
            }
        }
        was_any
    }
}

/// Returns the path of a directory, whose components are in reverse order, each followed by a 0.
fn whole_name(text: &[u8]) -> Arc<str> {
    let mut name = String::new();
    for part in text.strip_suffix(b"\0").unwrap_or(text).rsplit(|&byte| byte == 0) {
        name.push('/');
        name.push_str(&String::from_utf8_lossy(part));
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u64, text: &[u8]) -> Message<'_> {
        Message { base: number, text, ..Message::default() }
    }

    /// Promise: paths come in the right order, and one that lacks its beginning is unknown.
    #[test]
    fn paths() {
        let mut all = Directories::default();
        all.add(&message(1, b"include\0usr\0"));
        all.add(&message(2, b""));
        all.add(&Message { flags: CUT, ..message(3, b"z\0y\0") });
        let path = |all: &mut Directories, number| all.get(number).map(|found| found.path.to_string());
        assert_eq!(path(&mut all, 1).as_deref(), Some("/usr/include"));
        assert_eq!(path(&mut all, 2).as_deref(), Some("/"));
        assert_eq!(path(&mut all, 3).as_deref(), Some(""));
        assert_eq!(path(&mut all, 4), None);
    }

    /// Promise: however many directories there were, only some are remembered, among them those
    /// that are used.
    #[test]
    fn memory_is_bounded() {
        let mut all = Directories::default();
        for number in 0..5 * GENERATION as u64 {
            all.add(&message(number, b"d\0"));
            assert!(all.get(0).is_some(), "{number}");
        }
        assert!(all.lately.len() + all.before.len() <= 2 * GENERATION);
        assert!(all.get(1).is_none());
    }
}
