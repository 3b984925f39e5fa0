//! Waiting for uses of a mount and for daemons that end late.
//!
//! *Uses of a mount.* The last use of a file can end after the program that used it: the kernel
//! closes files of asynchronous I/O in a thread of its own, and a process that is just being
//! started holds copies of all descriptors. So [`retry_while_busy`] retries a busy mount for a
//! short time.
//!
//! *Daemons.* `umount(8)` without our helper returns when the kernel has unmounted, while the
//! daemon still writes the image and holds its lock. The next mount of the image finds that daemon
//! by the lock, once, and then waits for its [record](crate::record).

use crate::Result;
use crate::record::Ending;
use spindle_clock::Clock;
use spindle_device::lock_holders;
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
            Err(error) if error.is_busy() && waited < BUSY => {}
            result => return result,
        }
        clock.sleep(STEP);
        waited += STEP;
    }
}

/// Returns true while `image` is locked by a daemon that is unmounted and will end soon.
#[must_use]
pub fn is_held_by_ending_daemon(image: &Path) -> bool {
    ending_daemon(image).is_some()
}

fn ending_daemon(image: &Path) -> Option<Ending> {
    lock_holders(image).into_iter().find_map(Ending::of)
}

/// Waits for the daemon of [`is_held_by_ending_daemon`], if there is one, until it has closed
/// `image`, for at most two minutes. `step` is called again and again, and may end the wait.
///
/// # Errors
/// Those of `step`.
pub fn wait_for_ending_daemon<E>(
    image: &Path,
    clock: &dyn Clock,
    step: &mut dyn FnMut() -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let Some(daemon) = ending_daemon(image) else { return Ok(()) };
    let mut waited = Duration::ZERO;
    // A record that cannot be locked would be waited for in vain.
    while waited < ENDING && !daemon.is_over().unwrap_or(true) {
        clock.sleep(STEP);
        waited += STEP;
        step()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
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
}
