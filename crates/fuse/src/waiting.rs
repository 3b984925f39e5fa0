//! Waiting for uses of a mount and for daemons that end late.
//!
//! *Uses of a mount.* The last use of a file can end after the program that used it: the kernel
//! closes files of asynchronous I/O in a thread of its own, and a process that is just being
//! started holds copies of all descriptors. So [`retry_while_busy`] retries a busy mount for a
//! short time.
//!
//! *Daemons.* `umount(8)` without our helper returns when the kernel has unmounted, while the
//! daemon still writes the image and holds its lock. The next mount of the image waits for that
//! daemon, which it finds by the lock.

use crate::record::is_ending;
use crate::{Error, Result};
use spindle_clock::Clock;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Time after which a busy mount counts as in use.
const BUSY: Duration = Duration::from_secs(2);
/// Maximum time to wait for a daemon that completes its image.
const ENDING: Duration = Duration::from_secs(120);
/// Time between two attempts.
const STEP: Duration = Duration::from_millis(20);

/// Calls `attempt` again while the mount is busy, for at most [`BUSY`].
pub(crate) fn retry_while_busy(clock: &dyn Clock, attempt: impl Fn() -> Result<()>) -> Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        match attempt() {
            Err(Error::Mount { source, .. })
                if source.raw_os_error() == Some(libc::EBUSY) && waited < BUSY => {}
            result => return result,
        }
        clock.sleep(STEP);
        waited += STEP;
    }
}

/// Returns true while `image` is locked by a daemon that is unmounted and will end soon.
#[must_use]
pub fn is_held_by_ending_daemon(image: &Path) -> bool {
    let Ok(metadata) = fs::metadata(image) else { return false };
    let Ok(locks) = fs::read_to_string("/proc/locks") else { return false };
    locks.lines().filter_map(|line| holder(line, metadata.dev(), metadata.ino())).any(is_ending)
}

/// Waits until [`is_held_by_ending_daemon`] returns false, for at most two minutes.
pub fn wait_for_ending_daemon(image: &Path, clock: &dyn Clock) {
    let mut waited = Duration::ZERO;
    while waited < ENDING && is_held_by_ending_daemon(image) {
        clock.sleep(STEP);
        waited += STEP;
    }
}

/// Parses a line of `/proc/locks`. Returns the process that holds the lock if it is a whole-file
/// lock of the file (`dev`, `ino`). The fields are: number, kind, advisory or not, access, process,
/// and the device and inode numbers as `%02x:%02x:%d`.
fn holder(line: &str, dev: u64, ino: u64) -> Option<u32> {
    let mut fields = line.split_whitespace().skip(1);
    let (kind, pid, place) = (fields.next()?, fields.nth(2)?, fields.next()?);
    let mut numbers = place.split(':');
    let major = u64::from_str_radix(numbers.next()?, 16).ok()?;
    let minor = u64::from_str_radix(numbers.next()?, 16).ok()?;
    let found = numbers.next()?.parse::<u64>().ok()?;
    let same = nix::sys::stat::major(dev) == major && nix::sys::stat::minor(dev) == minor && found == ino;
    if kind == "FLOCK" && same { pid.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_clock::ManualClock;
    use std::cell::Cell;

    /// Promise: a mount that is busy for a short time is unmounted, one that stays busy is not,
    /// and other errors are not retried.
    #[test]
    fn busy_for_a_moment() {
        let busy = || Err(Error::mount("unmount", Path::new("/mnt"), nix::errno::Errno::EBUSY));
        for (failures, expected) in [(0, true), (3, true), (u32::MAX, false)] {
            let attempts = Cell::new(0);
            let result = retry_while_busy(&ManualClock::at(0), || {
                attempts.set(attempts.get() + 1);
                if attempts.get() > failures { Ok(()) } else { busy() }
            });
            assert_eq!(result.is_ok(), expected);
            assert_eq!(attempts.get(), if expected { failures + 1 } else { 101 });
        }
        let attempts = Cell::new(0);
        let other = retry_while_busy(&ManualClock::at(0), || {
            attempts.set(attempts.get() + 1);
            Err(Error::mount("unmount", Path::new("/mnt"), nix::errno::Errno::EPERM))
        });
        assert!(other.is_err() && attempts.get() == 1);
    }

    /// Promise: a line of `/proc/locks` matches a file only if all its numbers match.
    #[test]
    fn holders() {
        let dev = nix::sys::stat::makedev(254, 17);
        let line = "3: FLOCK  ADVISORY  WRITE 4711 fe:11:98765 0 EOF";
        assert_eq!(holder(line, dev, 98765), Some(4711));
        assert_eq!(holder(line, dev, 98766), None);
        assert_eq!(holder(line, nix::sys::stat::makedev(254, 16), 98765), None);
        assert_eq!(holder("3: POSIX  ADVISORY  WRITE 4711 fe:11:98765 0 EOF", dev, 98765), None);
        assert_eq!(holder("3: -> FLOCK ADVISORY WRITE 4711 fe:11:98765 0 EOF", dev, 98765), None);
        assert_eq!(holder("", dev, 98765), None);
    }
}
