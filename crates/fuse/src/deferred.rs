//! Deferred requests: requests that must wait for the kernel. The kernel may wait for the threads
//! that serve requests, so deferred requests run in threads of their own.
//!
//! *Searching for data and holes.* The kernel passes on `SEEK_DATA` and `SEEK_HOLE` without writing
//! back its pages first (seen on Linux 6.18). A file that was just written would look like one
//! hole, and `cp` would copy it so. An invalidation notice makes the kernel write back the pages of
//! the file and wait for that.
//!
//! *Running out of space.* The space of an unlinked file becomes free when the kernel forgets the
//! file, and the kernel may send the next writes before that. So if there is no space after a
//! removal, the request waits for FORGETs ([`ExpectedSpace`]).
//!
//! The two kinds run in different threads, because searches wait for writes, which may be deferred
//! themselves.

use crate::protocol::Notifier;
use spindle_clock::{Condvar, Mutex};
use spindle_vfs::{Error, Result};
use std::collections::VecDeque;
use std::time::Duration;

/// The rest of a request, including its reply.
pub(crate) type Job = Box<dyn FnOnce(&Notifier) + Send>;

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// A queue of deferred requests.
#[derive(Default)]
pub(crate) struct DeferredRequests {
    state: Mutex<State>,
    changed: Condvar,
}

impl DeferredRequests {
    pub(crate) fn push(&self, job: Job) {
        let mut state = self.state.lock();
        if !state.closed {
            state.jobs.push_back(job);
        }
        self.changed.notify_one();
    }

    /// Makes [`Self::run`] return; requests that are still queued get an I/O error.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.jobs.clear();
        self.changed.notify_one();
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        while state.jobs.is_empty() && !state.closed {
            self.changed.wait(&mut state);
        }
        state.jobs.pop_front()
    }

    /// Runs requests until the queue is closed.
    pub(crate) fn run(&self, notifier: &Notifier) {
        while let Some(job) = self.next() {
            job(notifier);
        }
    }
}

/// Time without a FORGET after which no more space is expected. The kernel sends a FORGET at least
/// with every eighth request.
const PATIENCE: Duration = Duration::from_millis(100);
/// Maximum number of attempts.
const ATTEMPTS: u32 = 100;

#[derive(Debug, Default)]
struct Removals {
    /// A name was removed, and the kernel may not have forgotten its file yet.
    removed: bool,
    /// Number of FORGETs so far.
    forgets: u64,
    /// Number of FORGETs that are being carried out: freeing a large file takes a while.
    under_way: u64,
}

impl Removals {
    fn may_free(&self) -> bool {
        self.removed || self.under_way > 0
    }
}

/// Space of removed files that becomes free when the kernel forgets them.
#[derive(Debug, Default)]
pub(crate) struct ExpectedSpace {
    removals: Mutex<Removals>,
    forgotten: Condvar,
}

impl ExpectedSpace {
    pub(crate) fn note_removal(&self) {
        self.removals.lock().removed = true;
    }

    /// Carries out a FORGET, which may free space.
    pub(crate) fn forget(&self, forget: impl FnOnce()) {
        self.removals.lock().under_way += 1;
        forget();
        let mut removals = self.removals.lock();
        removals.under_way -= 1;
        removals.forgets += 1;
        self.forgotten.notify_all();
    }

    /// Returns true if more space may become free.
    pub(crate) fn is_expected(&self) -> bool {
        self.removals.lock().may_free()
    }

    /// Calls `attempt` until it finds space or no more FORGETs come.
    pub(crate) fn retry<T>(&self, attempt: impl Fn() -> Result<T>) -> Result<T> {
        let mut seen = self.removals.lock().forgets;
        for _ in 1..ATTEMPTS {
            let result = attempt();
            if !matches!(result, Err(Error::NoSpace)) {
                return result;
            }
            let mut removals = self.removals.lock();
            while removals.may_free() && removals.forgets == seen {
                let timed_out = self.forgotten.wait_for(&mut removals, PATIENCE);
                if timed_out && removals.forgets == seen && removals.under_way == 0 {
                    removals.removed = false;
                }
            }
            if removals.forgets == seen {
                return result;
            }
            seen = removals.forgets;
        }
        attempt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_clock::{Clock, SystemClock};
    use std::cell::Cell;
    use std::sync::Arc;

    /// Promise: a request without space after a removal gets the space that is freed later;
    /// otherwise it fails, and after one wait in vain the next one fails at once.
    #[test]
    fn waits_for_space_of_removed_files() {
        let space = Arc::new(ExpectedSpace::default());
        let free = Arc::new(Mutex::new(0));
        let attempts = Cell::new(0);
        let attempt = || {
            attempts.set(attempts.get() + 1);
            if *free.lock() >= 3 { Ok(()) } else { Err(Error::NoSpace) }
        };
        assert!(!space.is_expected());
        assert!(matches!(space.retry(attempt), Err(Error::NoSpace)));
        assert_eq!(attempts.get(), 1);
        space.note_removal();
        let (freeing, frees) = (Arc::clone(&space), Arc::clone(&free));
        let thread = std::thread::spawn(move || {
            for _ in 0..3 {
                freeing.forget(|| *frees.lock() += 1);
            }
        });
        assert!(space.is_expected());
        space.retry(attempt).unwrap();
        thread.join().unwrap();
        *free.lock() = 0;
        assert!(matches!(space.retry(attempt), Err(Error::NoSpace)));
        assert!(!space.is_expected());
    }

    /// Promise: a request without space waits for a file that is being freed, however long that
    /// takes.
    #[test]
    fn waits_for_a_file_that_is_being_freed() {
        let space = Arc::new(ExpectedSpace::default());
        space.note_removal();
        let free = Arc::new(Mutex::new(false));
        let (freeing, frees) = (Arc::clone(&space), Arc::clone(&free));
        let (begin, began) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            freeing.forget(|| {
                begin.send(()).unwrap();
                SystemClock.sleep(5 * PATIENCE);
                *frees.lock() = true;
            });
        });
        began.recv().unwrap();
        space.retry(|| if *free.lock() { Ok(()) } else { Err(Error::NoSpace) }).unwrap();
        thread.join().unwrap();
    }
}
