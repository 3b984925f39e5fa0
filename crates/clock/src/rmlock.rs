//! A lock that is nearly always taken shared, as `rmlock(9)` of FreeBSD.

use crate::hook::is_scheduled;
use crate::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// Parts of a lock.
const PARTS: usize = 4;

/// Many readers or one writer, where readers come all the time and writers seldom.
///
/// A reader takes the part of its CPU, so that two processors do not pass one cache line to and
/// fro; a writer takes all parts. A waiting writer keeps new readers out, so one thread must not
/// read-lock twice.
#[derive(Debug, Default)]
pub struct RmLock<T> {
    parts: [Part; PARTS],
    value: UnsafeCell<T>,
}

/// A part, alone in its cache lines (two, because processors fetch them in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part(RwLock<()>);

// SAFETY: readers share the value among threads, which `Sync` allows, and a writer has it alone,
// for which `Send` suffices.
#[allow(unsafe_code)] // The locks of one value cannot be taken apart otherwise.
unsafe impl<T: Send + Sync> Sync for RmLock<T> {}

/// Shared access to the value of an [`RmLock`].
#[derive(Debug)]
pub struct RmLockReadGuard<'a, T> {
    lock: &'a RmLock<T>,
    _part: RwLockReadGuard<'a, ()>,
}

/// Exclusive access to the value of an [`RmLock`].
#[derive(Debug)]
pub struct RmLockWriteGuard<'a, T> {
    lock: &'a RmLock<T>,
    _parts: [RwLockWriteGuard<'a, ()>; PARTS],
}

impl<T> RmLock<T> {
    /// Waits for shared access.
    pub fn read(&self) -> RmLockReadGuard<'_, T> {
        // A simulation must not depend on the CPU.
        let part = if is_scheduled() { 0 } else { cpu() % PARTS };
        RmLockReadGuard { lock: self, _part: self.parts[part].0.read() }
    }

    /// Waits for exclusive access.
    pub fn write(&self) -> RmLockWriteGuard<'_, T> {
        RmLockWriteGuard { lock: self, _parts: self.parts.each_ref().map(|part| part.0.write()) }
    }
}

impl<T> Deref for RmLockReadGuard<'_, T> {
    type Target = T;
    #[allow(unsafe_code)]
    fn deref(&self) -> &T {
        // SAFETY: while this guard has a part, nobody has all of them.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> Deref for RmLockWriteGuard<'_, T> {
    type Target = T;
    #[allow(unsafe_code)]
    fn deref(&self) -> &T {
        // SAFETY: this guard has all parts.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for RmLockWriteGuard<'_, T> {
    #[allow(unsafe_code)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard has all parts, so nobody else has one, and it is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

/// Returns the CPU that this thread is on just now.
#[cfg(target_os = "linux")]
fn cpu() -> usize {
    rustix::thread::sched_getcpu()
}

/// Returns a number of this thread, where the system does not say which CPU it is on.
#[cfg(not(target_os = "linux"))]
fn cpu() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    OWN.with(|&own| own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Promise: a writer is alone, whichever parts the readers have; readers are not.
    #[test]
    fn a_writer_is_alone() {
        let lock = RmLock::<[u64; 2]>::default();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..1000 {
                        if n % 10 == 0 {
                            let mut value = lock.write();
                            value[0] += 1;
                            thread::yield_now();
                            value[1] += 1;
                        } else {
                            let value = lock.read();
                            let first = value[0];
                            thread::yield_now();
                            assert_eq!([first; 2], *value);
                        }
                    }
                });
            }
        });
        assert_eq!(*lock.read(), [400; 2]);
        // Whichever part this thread has, the other one gets in as well.
        let shared = lock.read();
        thread::scope(|scope| scope.spawn(|| drop(lock.read())).join()).unwrap();
        drop(shared);
        let writer = lock.write();
        assert!(lock.parts.iter().all(|part| part.0.try_read().is_none()));
        drop(writer);
    }
}
