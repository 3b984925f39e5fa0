//! The locks: those of `parking_lot`, or in a simulation those of its scheduler.

use crate::hook::{Scheduler, current};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// Returns the scheduler's key for a lock or condition: its address.
fn key<T: ?Sized>(of: &T) -> usize {
    std::ptr::from_ref(of).cast::<()>().addr()
}

/// Lets other threads run until `attempt` succeeds.
fn acquire<G>(scheduler: &dyn Scheduler, key: usize, attempt: impl Fn() -> Option<G>) -> G {
    scheduler.pass();
    loop {
        if let Some(guard) = attempt() {
            return guard;
        }
        scheduler.wait(key, None);
    }
}

/// Wakes the threads that wait for a lock that is about to be free.
fn released(key: usize) {
    if let Some(scheduler) = current() {
        scheduler.wake(key, true);
    }
}

/// Mutual exclusion; not reentrant, not poisoned by a panic.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(parking_lot::Mutex<T>);

/// Access to the value of a [`Mutex`].
#[derive(Debug)]
pub struct MutexGuard<'a, T: ?Sized>(parking_lot::MutexGuard<'a, T>);

impl<T> Mutex<T> {
    /// Returns a mutex around `value`.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(match current() {
            None => self.0.lock(),
            Some(scheduler) => acquire(&*scheduler, key(&self.0), || self.0.try_lock()),
        })
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().map(MutexGuard)
    }

    /// Returns the value; the exclusive reference makes locking unnecessary.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        released(key(parking_lot::MutexGuard::mutex(&self.0)));
    }
}

/// Many readers or one writer. A waiting writer keeps new readers out, so one thread must not
/// read-lock twice.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(parking_lot::RwLock<T>);

/// Shared access to the value of an [`RwLock`].
#[derive(Debug)]
pub struct RwLockReadGuard<'a, T: ?Sized>(parking_lot::RwLockReadGuard<'a, T>);

/// Exclusive access to the value of an [`RwLock`].
#[derive(Debug)]
pub struct RwLockWriteGuard<'a, T: ?Sized>(parking_lot::RwLockWriteGuard<'a, T>);

impl<T> RwLock<T> {
    /// Returns a lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits for shared access.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard(match current() {
            None => self.0.read(),
            Some(scheduler) => acquire(&*scheduler, key(&self.0), || self.0.try_read()),
        })
    }

    /// Waits for exclusive access.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard(match current() {
            None => self.0.write(),
            Some(scheduler) => acquire(&*scheduler, key(&self.0), || self.0.try_write()),
        })
    }

    /// Takes shared access if no writer has it or waits for it.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.0.try_read().map(RwLockReadGuard)
    }

    /// Takes exclusive access if the lock is free.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.0.try_write().map(RwLockWriteGuard)
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        released(key(parking_lot::RwLockReadGuard::rwlock(&self.0)));
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        released(key(parking_lot::RwLockWriteGuard::rwlock(&self.0)));
    }
}

/// A condition to wait for under a [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// Returns a condition without waiting threads.
    #[must_use]
    pub const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    /// Releases the lock, waits for a notification, and takes the lock again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        match current() {
            None => self.0.wait(&mut guard.0),
            Some(scheduler) => drop(self.wait_scheduled(&*scheduler, guard, None)),
        }
    }

    /// Waits like [`Self::wait`], for at most `timeout`; returns true after a timeout.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        match current() {
            None => self.0.wait_for(&mut guard.0, timeout).timed_out(),
            Some(scheduler) => self.wait_scheduled(&*scheduler, guard, Some(timeout)),
        }
    }

    fn wait_scheduled<T: ?Sized>(
        &self,
        scheduler: &dyn Scheduler,
        guard: &mut MutexGuard<'_, T>,
        timeout: Option<Duration>,
    ) -> bool {
        let mutex = parking_lot::MutexGuard::mutex(&guard.0);
        parking_lot::MutexGuard::unlocked(&mut guard.0, || {
            scheduler.wake(key(mutex), true);
            let timed_out = scheduler.wait(key(&self.0), timeout);
            // The thread with the baton can lock a free mutex without blocking.
            while mutex.is_locked() {
                scheduler.wait(key(mutex), None);
            }
            timed_out
        })
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        match current() {
            None => drop(self.0.notify_one()),
            Some(scheduler) => scheduler.wake(key(&self.0), false),
        }
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        match current() {
            None => drop(self.0.notify_all()),
            Some(scheduler) => scheduler.wake(key(&self.0), true),
        }
    }
}
