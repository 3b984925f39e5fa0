//! Where a simulator's scheduler stands behind the locks and clocks of this crate.
//!
//! A thread that entered a [`Scheduler`] blocks nowhere else: what would block it is first tried
//! without blocking, and when that fails the scheduler is asked to let others go on. All threads of
//! one scheduler pass a single baton, so between two such calls nothing else of the simulation
//! runs. Threads that entered none are not affected; as long as there is no simulation at all the
//! cost is one look at an atomic counter.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Passes the baton among the threads that entered it.
pub trait Scheduler: Send + Sync {
    /// Gives the baton up until somebody wakes `key`, or `timeout` (virtual) has passed; true if
    /// that came first.
    fn wait(&self, key: usize, timeout: Option<Duration>) -> bool;

    /// Lets those who wait for `key` run again when it is their turn: the first of them, or all.
    fn wake(&self, key: usize, all: bool);

    /// A point at which another thread may be given the baton.
    fn pass(&self);
}

/// Threads under a scheduler in this process.
static SCHEDULED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Scheduler>>> = const { RefCell::new(None) };
}

/// As long as it lives, its thread is under a scheduler.
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

/// Returns the scheduler of this thread.
pub(crate) fn current() -> Option<Arc<dyn Scheduler>> {
    if SCHEDULED.load(Ordering::Relaxed) == 0 {
        return None;
    }
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}
