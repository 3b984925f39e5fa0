//! Advisory locks: whole-file (`flock`) and byte-range (`fcntl`), which are independent of each
//! other.
//!
//! One mutex guards the table and is never held while waiting. Each waiter sleeps on its own
//! condition variable and is woken when a lock on its file is released, so one blocked waiter
//! blocks nobody else. Byte-range waiters form a graph: a request that would close a cycle is
//! refused with [`Error::Deadlock`]. A whole-file lock that is being converted is released while
//! its owner waits for the new kind, as in BSD.

mod ranges;
#[cfg(test)]
mod tests;

use crate::{Error, Ino, Result};
use ranges::Ranges;
use spindle_clock::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Owner of locks: an open file for whole-file locks, a process for byte ranges, as numbered by the
/// front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockOwner(pub u64);

/// Kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockKind {
    /// Shared with other shared locks.
    Shared,
    /// Exclusive.
    Exclusive,
}

/// A range of bytes of a file, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// Last byte; `u64::MAX` for an open end.
    pub end: u64,
}

impl ByteRange {
    /// All bytes.
    pub const ALL: Self = Self { start: 0, end: u64::MAX };

    /// Returns the range of `len` bytes from `start`, or to the open end if `len` is 0.
    #[must_use]
    pub const fn from_len(start: u64, len: u64) -> Self {
        Self { start, end: if len == 0 { u64::MAX } else { start.saturating_add(len - 1) } }
    }

    const fn overlaps(self, other: Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// Returns true if the two overlap or one begins where the other ends.
    const fn touches(self, other: Self) -> bool {
        self.start <= other.end.saturating_add(1) && other.start <= self.end.saturating_add(1)
    }

    fn join(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// Its owner.
    pub owner: LockOwner,
    /// The process that took it, as `F_GETLK` returns it.
    pub pid: u32,
    /// Its kind.
    pub kind: LockKind,
    /// Its range.
    pub range: ByteRange,
}

/// A means to stop a waiter; clones share one state. Raised before a wait begins, it ends the wait
/// at once.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Returns an interrupt that is not raised.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Reaction to a lock that another owner holds.
#[derive(Clone, Copy, Debug)]
pub enum Wait<'a> {
    /// Refuse with [`Error::WouldBlock`].
    No,
    /// Wait until it is free, or refuse with [`Error::Interrupted`] when this is raised.
    Until(&'a Interrupt),
}

/// A requested lock.
#[derive(Clone, Copy, Debug)]
enum LockRequest {
    Whole(LockKind),
    Range { pid: u32, range: ByteRange, kind: LockKind },
}

#[derive(Debug, Default)]
struct FileLocks {
    ranges: Ranges,
    whole: HashMap<LockOwner, LockKind>,
}

#[derive(Debug)]
struct Waiter {
    ino: Ino,
    owner: LockOwner,
    request: LockRequest,
    interrupt: Interrupt,
    wake: Arc<Condvar>,
}

#[derive(Debug, Default)]
struct Table {
    files: HashMap<Ino, FileLocks>,
    waiters: HashMap<u64, Waiter>,
    next_waiter: u64,
}

impl Table {
    /// Returns the owners whose locks block this request.
    fn blockers(&self, ino: Ino, owner: LockOwner, request: LockRequest) -> Vec<LockOwner> {
        let Some(file) = self.files.get(&ino) else { return Vec::new() };
        match request {
            LockRequest::Range { range, kind, .. } => {
                file.ranges.conflicts(owner, range, kind).map(|held| held.owner).collect()
            }
            LockRequest::Whole(kind) => {
                let conflicts = |held: LockKind| kind == LockKind::Exclusive || held == LockKind::Exclusive;
                let others = file.whole.iter().filter(|(other, held)| **other != owner && conflicts(**held));
                others.map(|(other, _)| *other).collect()
            }
        }
    }

    /// Returns true if `owner`, waiting for `blockers`, would wait for itself.
    fn would_deadlock(&self, owner: LockOwner, blockers: Vec<LockOwner>) -> bool {
        let mut seen = HashSet::new();
        let mut next = blockers;
        while let Some(blocker) = next.pop() {
            if blocker == owner {
                return true;
            }
            if !seen.insert(blocker) {
                continue;
            }
            for waiter in self.waiters.values().filter(|waiter| waiter.owner == blocker) {
                if matches!(waiter.request, LockRequest::Range { .. }) {
                    next.extend(self.blockers(waiter.ino, waiter.owner, waiter.request));
                }
            }
        }
        false
    }

    fn grant(&mut self, ino: Ino, owner: LockOwner, request: LockRequest) {
        let file = self.files.entry(ino).or_default();
        match request {
            LockRequest::Range { pid, range, kind } => file.ranges.set(owner, pid, range, Some(kind)),
            LockRequest::Whole(kind) => drop(file.whole.insert(owner, kind)),
        }
        // A conversion may have unblocked others.
        self.wake(ino);
    }

    /// Wakes the waiters of this file, and drops the file if it has no locks and no waiters.
    fn wake(&mut self, ino: Ino) {
        for waiter in self.waiters.values().filter(|waiter| waiter.ino == ino) {
            waiter.wake.notify_one();
        }
        if self.files.get(&ino).is_some_and(|file| file.ranges.is_empty() && file.whole.is_empty()) {
            self.files.remove(&ino);
        }
    }
}

/// All advisory locks of a file system.
#[derive(Debug, Default)]
pub struct LockTable(Mutex<Table>);

impl LockTable {
    /// Returns an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Locks a range of a file for `owner`, replacing the locks that it held there.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] or [`Error::Interrupted`] as `wait` requests; [`Error::Deadlock`] if
    /// waiting would never end. Locks that were held stay.
    pub fn lock_range(
        &self,
        ino: Ino,
        owner: LockOwner,
        pid: u32,
        range: ByteRange,
        kind: LockKind,
        wait: Wait<'_>,
    ) -> Result<()> {
        self.acquire(self.0.lock(), ino, owner, LockRequest::Range { pid, range, kind }, wait)
    }

    /// Unlocks a range of a file: all locks of `owner` there.
    pub fn unlock_range(&self, ino: Ino, owner: LockOwner, range: ByteRange) {
        let mut table = self.0.lock();
        if let Some(file) = table.files.get_mut(&ino) {
            file.ranges.set(owner, 0, range, None);
            table.wake(ino);
        }
    }

    /// Returns a lock that blocks `owner` from locking this range (`F_GETLK`).
    #[must_use]
    pub fn test_range(
        &self,
        ino: Ino,
        owner: LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Option<LockHolder> {
        self.0.lock().files.get(&ino)?.ranges.conflict(owner, range, kind).copied()
    }

    /// Locks a whole file for `owner` (`flock`), or converts its lock.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] as `wait` requests: the lock held so far stays.
    /// [`Error::Interrupted`]: the lock held so far is released.
    pub fn lock_whole(&self, ino: Ino, owner: LockOwner, kind: LockKind, wait: Wait<'_>) -> Result<()> {
        let mut table = self.0.lock();
        let request = LockRequest::Whole(kind);
        let must_wait = !table.blockers(ino, owner, request).is_empty();
        if must_wait && matches!(wait, Wait::Until(_)) {
            // Two owners of shared locks that both request an exclusive one would wait forever.
            if let Some(file) = table.files.get_mut(&ino)
                && file.whole.remove(&owner).is_some()
            {
                table.wake(ino);
            }
        }
        self.acquire(table, ino, owner, request, wait)
    }

    /// Releases `owner`'s lock of a whole file.
    pub fn unlock_whole(&self, ino: Ino, owner: LockOwner) {
        let mut table = self.0.lock();
        if let Some(file) = table.files.get_mut(&ino)
            && file.whole.remove(&owner).is_some()
        {
            table.wake(ino);
        }
    }

    /// Ends the waits that use `interrupt`, now or later.
    pub fn interrupt(&self, interrupt: &Interrupt) {
        interrupt.0.store(true, Ordering::Release);
        let table = self.0.lock();
        for waiter in table.waiters.values().filter(|waiter| Arc::ptr_eq(&waiter.interrupt.0, &interrupt.0)) {
            waiter.wake.notify_one();
        }
    }

    /// Returns true if no lock is held on `ino`.
    #[must_use]
    pub fn is_free(&self, ino: Ino) -> bool {
        !self.0.lock().files.contains_key(&ino)
    }

    #[allow(clippy::unused_self)] // The guard is of this table.
    fn acquire(
        &self,
        mut table: MutexGuard<'_, Table>,
        ino: Ino,
        owner: LockOwner,
        request: LockRequest,
        wait: Wait<'_>,
    ) -> Result<()> {
        let mut waiting: Option<(u64, Arc<Condvar>)> = None;
        let result = loop {
            let blockers = table.blockers(ino, owner, request);
            if blockers.is_empty() {
                table.grant(ino, owner, request);
                break Ok(());
            }
            let Wait::Until(interrupt) = wait else { break Err(Error::WouldBlock) };
            if interrupt.is_raised() {
                break Err(Error::Interrupted);
            }
            if matches!(request, LockRequest::Range { .. }) && table.would_deadlock(owner, blockers) {
                break Err(Error::Deadlock);
            }
            if waiting.is_none() {
                let wake = Arc::new(Condvar::new());
                let id = table.next_waiter;
                table.next_waiter += 1;
                let (interrupt, signal) = (interrupt.clone(), wake.clone());
                table.waiters.insert(id, Waiter { ino, owner, request, interrupt, wake: signal });
                waiting = Some((id, wake));
            }
            if let Some((_, wake)) = &waiting {
                wake.wait(&mut table);
            }
        };
        if let Some((id, _)) = waiting {
            table.waiters.remove(&id);
        }
        result
    }
}
