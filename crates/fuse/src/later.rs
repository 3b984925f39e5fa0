//! Requests that must wait for the kernel, which waits for the threads that serve requests: so they
//! wait in a thread of their own.
//!
//! *Looking for data and holes.* The kernel passes `SEEK_DATA` and `SEEK_HOLE` on without writing
//! back what it holds (seen on Linux 6.18), so a file just written would look like one hole, and
//! `cp` would copy it as such. An invalidation notice has the kernel write back the pages of a file
//! and wait for that.
//!
//! *Running out of space.* What an unlinked file held is free only when the kernel forgets the
//! file, and it may well send the next writes before that. So when space runs out after a removal,
//! the request waits for FORGETs ([`Room`]).
//!
//! The two wait in different threads, because the first waits for writes, which may be among the
//! second.

use crate::protocol::Notifier;
use spindle_clock::{Condvar, Mutex};
use spindle_vfs::{Error, Result};
use std::collections::VecDeque;
use std::time::Duration;

/// The rest of a request, its answer included.
pub(crate) type Job = Box<dyn FnOnce(&Notifier) + Send>;

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// Requests that wait, in order.
#[derive(Default)]
pub(crate) struct Later {
    state: Mutex<State>,
    changed: Condvar,
}

impl Later {
    pub(crate) fn push(&self, job: Job) {
        let mut state = self.state.lock();
        if !state.closed {
            state.jobs.push_back(job);
        }
        self.changed.notify_one();
    }

    /// Lets [`Self::run`] return; what still waits is answered with an I/O error.
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

    /// Finishes requests until the queue is closed.
    pub(crate) fn run(&self, notifier: &Notifier) {
        while let Some(job) = self.next() {
            job(notifier);
        }
    }
}

/// How long no FORGET must come before there is no more hope for space. The kernel sends one at
/// least with every eighth request.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often is tried at most, however many FORGETs come.
const ATTEMPTS: u32 = 100;

#[derive(Debug, Default)]
struct Expected {
    /// A name was removed, and the kernel may not have forgotten the file yet.
    removed: bool,
    /// FORGETs so far.
    forgets: u64,
}

/// What is known of space that will come free by itself.
#[derive(Debug, Default)]
pub(crate) struct Room {
    expected: Mutex<Expected>,
    forgotten: Condvar,
}

impl Room {
    pub(crate) fn note_removal(&self) {
        self.expected.lock().removed = true;
    }

    pub(crate) fn note_forget(&self) {
        self.expected.lock().forgets += 1;
        self.forgotten.notify_all();
    }

    /// Returns whether it is worth waiting where there was no space.
    pub(crate) fn may_grow(&self) -> bool {
        self.expected.lock().removed
    }

    /// Tries until there is space or nothing more is forgotten.
    pub(crate) fn retry<T>(&self, attempt: impl Fn() -> Result<T>) -> Result<T> {
        let mut seen = self.expected.lock().forgets;
        for _ in 1..ATTEMPTS {
            let result = attempt();
            if !matches!(result, Err(Error::NoSpace)) {
                return result;
            }
            let mut expected = self.expected.lock();
            while expected.removed && expected.forgets == seen {
                if self.forgotten.wait_for(&mut expected, PATIENCE) && expected.forgets == seen {
                    expected.removed = false;
                }
            }
            if expected.forgets == seen {
                return result;
            }
            seen = expected.forgets;
        }
        attempt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Arc;

    /// Promise: who found no space after a removal gets what is forgotten later, and otherwise
    /// hears so, once the wait was in vain at once.
    #[test]
    fn space_that_comes_free() {
        let room = Arc::new(Room::default());
        let free = Arc::new(Mutex::new(0));
        let attempts = Cell::new(0);
        let attempt = || {
            attempts.set(attempts.get() + 1);
            if *free.lock() >= 3 { Ok(()) } else { Err(Error::NoSpace) }
        };
        assert!(!room.may_grow());
        assert!(matches!(room.retry(attempt), Err(Error::NoSpace)));
        assert_eq!(attempts.get(), 1);
        room.note_removal();
        let (freeing, frees) = (Arc::clone(&room), Arc::clone(&free));
        let thread = std::thread::spawn(move || {
            for _ in 0..3 {
                *frees.lock() += 1;
                freeing.note_forget();
            }
        });
        assert!(room.may_grow());
        room.retry(attempt).unwrap();
        thread.join().unwrap();
        *free.lock() = 0;
        assert!(matches!(room.retry(attempt), Err(Error::NoSpace)));
        assert!(!room.may_grow());
    }
}
