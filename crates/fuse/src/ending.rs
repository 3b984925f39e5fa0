//! What ends a moment later than it seems.
//!
//! *Uses of a mount.* The last use of a file can end after the program that used it: the kernel
//! closes what asynchronous I/O held from a thread of its own, and a process that is just being
//! started holds copies of all descriptors. So a busy mount is tried again for a moment.
//!
//! *Daemons.* `umount(8)` without our helper returns when the kernel has let go, while the daemon
//! completes the image, which it has locked. Who mounts it again waits for that daemon, which the
//! lock names.

use crate::record::is_ending;
use crate::{Error, Result};
use spindle_clock::Clock;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// How long a mount may be busy before it is said to be in use.
const BUSY: Duration = Duration::from_secs(2);
/// How long a daemon may take to complete its image.
const ENDING: Duration = Duration::from_secs(120);
/// Time between two looks.
const STEP: Duration = Duration::from_millis(20);

/// Tries while the mount is busy, for a moment.
pub(crate) fn while_busy(clock: &dyn Clock, attempt: impl Fn() -> Result<()>) -> Result<()> {
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

/// Returns true while `image` is locked by a daemon whose mount is gone, so that it will be free
/// soon.
#[must_use]
pub fn is_held_by_ending(image: &Path) -> bool {
    let Ok(metadata) = fs::metadata(image) else { return false };
    let Ok(locks) = fs::read_to_string("/proc/locks") else { return false };
    locks.lines().filter_map(|line| holder(line, metadata.dev(), metadata.ino())).any(is_ending)
}

/// Waits for the daemon that [`is_held_by_ending`] tells of, for two minutes at most.
pub fn wait_for_ending(image: &Path, clock: &dyn Clock) {
    let mut waited = Duration::ZERO;
    while waited < ENDING && is_held_by_ending(image) {
        clock.sleep(STEP);
        waited += STEP;
    }
}

/// Returns who holds the whole-file lock of this file, if a line of `/proc/locks` is of it: number,
/// kind, advisory or not, access, process, and major and minor number of the device and inode
/// number as `%02x:%02x:%d`.
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

    /// Promise: a mount that is busy for a moment is unmounted, one that stays busy is not, and
    /// nothing else is tried again.
    #[test]
    fn busy_for_a_moment() {
        let busy = || Err(Error::mount("unmount", Path::new("/mnt"), nix::errno::Errno::EBUSY));
        for (failures, expected) in [(0, true), (3, true), (u32::MAX, false)] {
            let attempts = Cell::new(0);
            let result = while_busy(&ManualClock::at(0), || {
                attempts.set(attempts.get() + 1);
                if attempts.get() > failures { Ok(()) } else { busy() }
            });
            assert_eq!(result.is_ok(), expected);
            assert_eq!(attempts.get(), if expected { failures + 1 } else { 101 });
        }
        let attempts = Cell::new(0);
        let other = while_busy(&ManualClock::at(0), || {
            attempts.set(attempts.get() + 1);
            Err(Error::mount("unmount", Path::new("/mnt"), nix::errno::Errno::EPERM))
        });
        assert!(other.is_err() && attempts.get() == 1);
    }

    /// Promise: a line of `/proc/locks` is taken for a file only if all its numbers are.
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
