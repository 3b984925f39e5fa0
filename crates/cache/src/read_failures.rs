//! Metadata that the device could not read.
//!
//! The operation that needed it has failed and changed nothing. But nobody has looked at what could
//! not be read, so nobody can say that the file system is whole, unless it is read later.

use spindle_clock::Mutex;
use spindle_device::Result;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most places that are remembered. If there are more, some count as unread for good.
const REMEMBERED: usize = 10_000;

/// The places of metadata that the device of a cache could not read, and that have not been read
/// since; clones share them.
#[derive(Clone, Debug, Default)]
pub struct ReadFailures(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// True if a read has ever failed, so that reads usually need not take the lock.
    any: AtomicBool,
    unread: Mutex<Unread>,
}

#[derive(Debug, Default)]
struct Unread {
    /// First byte of each place, and the byte behind its last.
    places: BTreeMap<u64, u64>,
    /// There were more places than are remembered.
    more: bool,
}

impl ReadFailures {
    /// Returns true if there is metadata that could not be read, and has not been read since.
    #[must_use]
    pub fn remain(&self) -> bool {
        let unread = self.0.unread.lock();
        unread.more || !unread.places.is_empty()
    }

    /// Notes whether the `len` bytes at byte `at` were read, and returns the result.
    pub(crate) fn note<T>(&self, at: u64, len: usize, read: Result<T>) -> Result<T> {
        if read.is_ok() && !self.0.any.load(Ordering::Acquire) {
            return read;
        }
        let end = at + len as u64;
        let mut unread = self.0.unread.lock();
        if read.is_err() {
            self.0.any.store(true, Ordering::Release);
            if unread.places.len() < REMEMBERED {
                let known = unread.places.entry(at).or_insert(end);
                *known = end.max(*known);
            } else {
                unread.more = true;
            }
        } else {
            let read = unread.places.range(at..end).filter(|&(_, &known)| known <= end);
            for at in read.map(|(&at, _)| at).collect::<Vec<_>>() {
                unread.places.remove(&at);
            }
        }
        read
    }
}
