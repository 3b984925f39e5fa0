//! FUSE over `io_uring`: the kernel puts requests into memory of the server, and one system call
//! both hands in a reply and waits for the next request. Of `/dev/fuse` it takes two.
//!
//! The sources are `Documentation/filesystems/fuse/fuse-io-uring.rst` and
//! `include/uapi/linux/fuse.h` of Linux (6.14 and newer), whose names the constants here have. This
//! crate knows nothing of the requests themselves, so that any FUSE server can use it.
//!
//! The kernel has a queue for each CPU that the machine can have ([`queues`]), and asks a request
//! of a process in the queue of the CPU on which that runs. It uses `io_uring` only once each queue
//! has a place for a request. A [`Ring`] has places in one queue and serves them in one thread; a
//! queue can have several rings. A server
//!
//! 1. makes its rings before it replies to INIT, and accepts the flag [`OVER_IO_URING`] only if
//!    that has succeeded: from then on the kernel asks nothing until all queues have places;
//! 2. runs [`Ring::serve`] of each in a thread of its own;
//! 3. goes on reading `/dev/fuse`, from which FORGET and INTERRUPT still come, and writes notices
//!    into it.
//!
//! A request can be answered later, and by another thread: see [`Reply`]. The ring then offers the
//! kernel one more place. But it must not wait for another request of the kernel: that may be
//! queued behind it.
#![cfg(target_os = "linux")]

mod reply;
mod ring;

pub use reply::Reply;
pub use ring::{Message, Ring};

/// The flag of INIT with which the kernel offers `io_uring`, and the server accepts it; `flags2`
/// has the upper half.
pub const OVER_IO_URING: u64 = 1 << 41;

/// Returns true if the kernel has FUSE over `io_uring`, and false if root would have to switch it
/// on with [`SWITCH`]; none if it does not have it.
#[must_use]
pub fn is_switched_on() -> Option<bool> {
    let says = std::fs::read_to_string(SWITCH).ok()?;
    Some(says.trim() == "Y")
}

/// The file with which root switches it on for mounts from then on, by writing `Y`.
pub const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Returns the number of queues: that of the CPUs that the machine can have.
///
/// # Errors
/// If the system does not say.
pub fn queues() -> std::io::Result<u16> {
    const POSSIBLE: &str = "/sys/devices/system/cpu/possible";
    let ranges = std::fs::read_to_string(POSSIBLE)?;
    last_of(&ranges).and_then(|last| last.checked_add(1)).ok_or_else(|| {
        std::io::Error::new(std::io::ErrorKind::InvalidData, format!("{POSSIBLE} has {:?}", ranges.trim()))
    })
}

/// Returns the last number of a list of ranges, as `0-3,8-11`.
fn last_of(ranges: &str) -> Option<u16> {
    ranges.trim().rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the number of queues follows from the kernel's list of CPUs.
    #[test]
    fn lists_of_cpus() {
        assert_eq!(last_of("0\n"), Some(0));
        assert_eq!(last_of("0-3\n"), Some(3));
        assert_eq!(last_of("0-3,8-11"), Some(11));
        assert_eq!(last_of(""), None);
        assert!(queues().unwrap() > 0);
    }
}
