//! The clocks.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time: seconds since 1970 (negative before it) and nanoseconds, `0..1_000_000_000`,
/// after them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds since the epoch.
    pub secs: i64,
    /// Nanoseconds past `secs`.
    pub nanos: u32,
}

impl Timestamp {
    /// Returns the time `secs` and `nanos` after the beginning of 1970.
    #[must_use]
    pub const fn new(secs: i64, nanos: u32) -> Self {
        Self { secs, nanos }
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let secs = |d: Duration| i64::try_from(d.as_secs()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self::new(secs(after), after.subsec_nanos()),
            Err(before) => {
                let before = before.duration();
                match before.subsec_nanos() {
                    0 => Self::new(-secs(before), 0),
                    nanos => Self::new(-secs(before) - 1, 1_000_000_000 - nanos),
                }
            }
        }
    }
}

/// Work of a host during a request. Code that does such work reports it to its [`Clock`]; a real
/// clock ignores this, a simulated host charges a time for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Entering and leaving the system for one call.
    Call,
    /// Copying bytes between a program and the system.
    Copy {
        /// Number of bytes.
        bytes: u64,
    },
    /// A page fault on a mapped file that the cache resolves.
    Fault,
    /// One pass through the file system for a block that is read.
    ReadBlock,
    /// One pass through the file system for a block that is written, without finding space for it.
    WriteBlock,
    /// Finding space for a block with maps and policies. (Taking a block off a free list is part of
    /// writing it.)
    Allocate,
    /// Finding memory for a block of a file by evicting another.
    Reclaim,
    /// Passing one transfer to the device's driver.
    Request,
    /// Handling the device's interrupt at the end of a transfer.
    Interrupt,
    /// A request of the kernel to a daemon that serves a file system, and its answer.
    Trip,
}

/// A source of time.
pub trait Clock: Send + Sync {
    /// Returns the calendar time.
    fn now(&self) -> Timestamp;
    /// Returns the time since an arbitrary fixed point; never decreases.
    fn monotonic(&self) -> Duration;
    /// Waits for this time.
    fn sleep(&self, time: Duration);
    /// Reports work that is done; a simulated host lets the time pass that it takes.
    fn work(&self, _work: Work) {}
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }

    fn monotonic(&self) -> Duration {
        use std::sync::OnceLock;
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// The machine's clock as its kernel uses it to date files: its calendar time advances with the
/// timer, every 1 to 10 ms.
///
/// A kernel that keeps the times of files in front of a file system then sees that a file written
/// right after its creation already has the right time, and need not send another one.
#[derive(Clone, Copy, Debug, Default)]
pub struct TickClock;

impl Clock for TickClock {
    #[cfg(target_os = "linux")]
    fn now(&self) -> Timestamp {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        Timestamp::new(time.tv_sec, u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    #[cfg(not(target_os = "linux"))]
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn monotonic(&self) -> Duration {
        SystemClock.monotonic()
    }

    fn sleep(&self, time: Duration) {
        SystemClock.sleep(time);
    }
}

/// A clock that moves only by a call: for reproducible images and tests.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Returns a clock at `secs` since 1970.
    #[must_use]
    pub const fn at(secs: i64) -> Self {
        Self(AtomicI64::new(secs))
    }

    /// Advances the clock.
    pub fn advance(&self, secs: i64) {
        self.0.fetch_add(secs, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::new(self.0.load(Ordering::Relaxed), 0)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed).unsigned_abs())
    }

    fn sleep(&self, time: Duration) {
        self.advance(i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the clock of ticks shows the system's time, at most a few ticks late, and does not
    /// move between them.
    #[test]
    fn ticks() {
        let mut same = 0;
        for _ in 0..10_000 {
            let (before, tick, after) = (TickClock.now(), TickClock.now(), SystemClock.now());
            assert!(before <= tick && tick <= after, "{before:?} {tick:?} {after:?}");
            same += u32::from(before == tick);
        }
        assert!(same > 0 || cfg!(not(target_os = "linux")));
    }

    /// Promise: nanoseconds count forwards before 1970, too.
    #[test]
    fn before_the_epoch() {
        let time = UNIX_EPOCH - Duration::from_millis(1500);
        assert_eq!(Timestamp::from(time), Timestamp::new(-2, 500_000_000));
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_secs(3)), Timestamp::new(-3, 0));
    }
}
