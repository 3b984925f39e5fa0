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
//! 1. makes its rings, at least one for each queue, before it replies to INIT, and accepts the flag
//!    [`OVER_IO_URING`] only if that has succeeded: from then on the kernel asks nothing until all
//!    queues have places;
//! 2. runs [`Ring::serve`] of each in a thread of its own, which then stays on the CPU of its queue
//!    and yields that to the programs that it answers ([`Placement`]), and declares before each
//!    answer what it takes ([`Placement::expect`]);
//! 3. goes on reading `/dev/fuse`, from which FORGET and INTERRUPT still come, and writes notices
//!    into it.
//!
//! A request can be answered later, and by another thread: see [`Reply`]. The ring then offers the
//! kernel one more place. If the answer is to wait for other requests of the kernel, which may be
//! queued behind it, [`Reply::can_wait_for_others`] says whether something is left to take them.
#![cfg(target_os = "linux")]

mod placement;
mod queue;
mod reply;
mod ring;

pub use placement::{Pace, Placement};
pub use queue::{Queue, queues};
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
