//! Whether a mounted file system may be changed, what its superblock says of that, and whether it
//! is damaged.
//!
//! The superblock says "in use" on the device before the first change is made to anything else. A
//! file system in which damage was met, or whose metadata could not be read, is never marked clean.

use spindle_cache::ReadFailures;
use spindle_clock::Mutex;
use spindle_vfs::{Error, Result};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What becomes of a block of a directory that the device cannot read. If nobody can change the
/// directory, a block that is corrupt is passed over in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Reading the directory fails.
    Fails,
    /// It is passed over, too.
    PassedOver,
}

/// The condition of a mounted file system.
pub struct Condition {
    read_only: AtomicBool,
    /// True once the superblock on the device says "in use".
    marked: AtomicBool,
    /// Held while it is marked.
    marking: Mutex<()>,
    damaged: AtomicBool,
    /// Metadata that the device could not read.
    unread: ReadFailures,
    passed_over: Mutex<PassedOver>,
}

/// Damage that reads have passed over: what was said of it, each once, in this order.
#[derive(Default)]
struct PassedOver {
    said: Vec<Arc<str>>,
    known: HashSet<Arc<str>>,
}

/// Most places of damage that are remembered.
const REMEMBERED: usize = 10_000;

impl Condition {
    /// Returns the condition of a file system that has just been opened; `unread` is that of its
    /// cache.
    #[must_use]
    pub fn new(read_only: bool, unread: ReadFailures) -> Self {
        Self {
            read_only: read_only.into(),
            marked: false.into(),
            marking: Mutex::default(),
            damaged: false.into(),
            unread,
            passed_over: Mutex::default(),
        }
    }

    /// Returns true if nothing can be changed.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// Has `write` mark the file system as in use on the device, if it is not marked yet.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; those of `write`.
    pub fn mark_with(&self, write: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        if self.is_marked() {
            return Ok(());
        }
        let _one = self.marking.lock();
        if !self.is_marked() {
            write()?;
            self.marked.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Returns true once the superblock on the device says "in use".
    pub fn is_marked(&self) -> bool {
        self.marked.load(Ordering::Acquire)
    }

    /// Notes damage that an operation has met, so that the file system is not marked clean, and
    /// returns the result.
    ///
    /// # Errors
    /// Those of the result.
    pub fn note<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(Error::Corrupt { what, place }) = &result
            && !self.note_damage()
        {
            log::error!("{place}: {what}: run a check");
        }
        result
    }

    /// Notes damage that a read passes over, so that something is missing in what it returns.
    pub fn pass_over(&self, error: &Error) {
        self.note_damage();
        let mut passed = self.passed_over.lock();
        if passed.said.len() == REMEMBERED {
            return;
        }
        let what: Arc<str> = error.to_string().into();
        if passed.known.insert(what.clone()) {
            log::error!("{what}: passed over; run a check");
            passed.said.push(what);
        }
    }

    /// Returns what was read of a directory; nothing where it cannot be, if nobody can change the
    /// directory: its other names can still be shown.
    ///
    /// # Errors
    /// Those of the result, if the file system can be changed.
    pub fn past_damage<T>(&self, read: Result<T>, unreadable: Unreadable) -> Result<Option<T>> {
        let passes = match &read {
            Err(Error::Corrupt { .. }) => true,
            Err(Error::Device(_)) => unreadable == Unreadable::PassedOver,
            _ => false,
        };
        match read {
            Err(error) if passes && self.is_read_only() => {
                self.pass_over(&error);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Returns the damage that reads have passed over.
    pub fn passed_over(&self) -> Vec<String> {
        self.passed_over.lock().said.iter().map(ToString::to_string).collect()
    }

    /// Notes that the file system is damaged. Returns true if that was known.
    pub fn note_damage(&self) -> bool {
        self.damaged.swap(true, Ordering::Relaxed)
    }

    /// Returns true if damage was met, or metadata could not be read and was not read later.
    pub fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed) || self.unread.remain()
    }

    /// Refuses all further changes.
    pub fn end_changes(&self) {
        self.read_only.store(true, Ordering::Relaxed);
    }
}
