//! The interface of a simulator's scheduler, behind the locks and clocks of this crate.
//!
//! A thread that has entered a [`Scheduler`] blocks nowhere else: an operation that would block is
//! first tried without blocking, and if that fails the scheduler lets other threads run. All
//! threads of one scheduler pass a single baton, so nothing else of the simulation runs between two
//! such calls. Threads that have not entered a scheduler are not affected; without any simulation
//! the cost is one read of an atomic counter.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Passes the baton among the threads that have entered it.
pub trait Scheduler: Send + Sync {
    /// Gives the baton up until another thread wakes `key`, or until `timeout` (virtual time) has
    /// passed; returns true after a timeout.
    fn wait(&self, key: usize, timeout: Option<Duration>) -> bool;

    /// Makes the first thread that waits for `key`, or all of them, runnable again.
    fn wake(&self, key: usize, all: bool);

    /// Offers the baton to another thread.
    fn pass(&self);
}

/// Number of threads under a scheduler in this process.
static SCHEDULED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Scheduler>>> = const { RefCell::new(None) };
}

/// Keeps its thread under a scheduler until it is dropped.
#[derive(Debug)]
pub struct Entered(());

/// Puts this thread under `scheduler`.
#[must_use]
pub fn enter(scheduler: Arc<dyn Scheduler>) -> Entered {
    CURRENT.with_borrow_mut(|current| *current = Some(scheduler));
    SCHEDULED.fetch_add(1, Ordering::Relaxed);
    Entered(())
}

impl Drop for Entered {
    fn drop(&mut self) {
        SCHEDULED.fetch_sub(1, Ordering::Relaxed);
        CURRENT.with_borrow_mut(Option::take);
    }
}

/// Returns true if this thread is under a scheduler.
pub(crate) fn is_scheduled() -> bool {
    current().is_some()
}

/// Returns the scheduler of this thread.
pub(crate) fn current() -> Option<Arc<dyn Scheduler>> {
    if SCHEDULED.load(Ordering::Relaxed) == 0 {
        return None;
    }
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}
