//! The queues of the kernel, and what takes the requests that wait in one.
//!
//! A request that comes when all places of its queue are taken waits there. The kernel gives it to
//! a place when an answer is handed in there, but not to a place that is new (seen on Linux 6.18:
//! `fuse_uring_do_register` only adds it to the free ones). So a place *takes* what waits if it is
//! certain that its next answer does not depend on another request:
//!
//! - the first place of a queue does, because the kernel asks nothing before all queues have one;
//! - a new place does from its first request on;
//! - a place whose answer waits for other requests does not, until that is handed in.
//!
//! While a place that takes is free, nothing waits, because what comes is given to a free place.

use spindle_clock::{Condvar, Mutex};
use std::io;
use std::sync::Arc;

/// The queue of one CPU.
#[derive(Clone, Debug)]
pub struct Queue {
    pub(crate) number: u16,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    has_rings: bool,
    /// The first ring has offered its first place, or has failed.
    has_begun: bool,
    /// Places that take what waits.
    takers: usize,
}

impl Queue {
    fn new(number: u16) -> Self {
        Self { number, state: Arc::default() }
    }

    /// Adds a ring. Returns true if it is the first, whose first place is that of the queue.
    pub(crate) fn add_ring(&self) -> bool {
        let mut state = self.state.0.lock();
        let is_first = !std::mem::replace(&mut state.has_rings, true);
        state.takers += usize::from(is_first);
        is_first
    }

    /// Lets the other rings offer places.
    pub(crate) fn begin(&self) {
        self.state.0.lock().has_begun = true;
        self.state.1.notify_all();
    }

    /// Waits until the first ring has offered its first place.
    pub(crate) fn wait_for_first(&self) {
        let mut state = self.state.0.lock();
        while !state.has_begun {
            self.state.1.wait(&mut state);
        }
    }

    /// Counts one more place that takes what waits.
    pub(crate) fn add_taker(&self) {
        self.state.0.lock().takers += 1;
    }

    /// Counts one place less, if another is left. Returns true if so.
    pub(crate) fn remove_taker(&self) -> bool {
        let mut state = self.state.0.lock();
        let others = state.takers > 1;
        state.takers -= usize::from(others);
        others
    }
}

/// Returns the queues: one for each CPU that the machine can have.
///
/// # Errors
/// If the system does not say how many there are.
pub fn queues() -> io::Result<Vec<Queue>> {
    const POSSIBLE: &str = "/sys/devices/system/cpu/possible";
    let ranges = std::fs::read_to_string(POSSIBLE)?;
    let last = last_of(&ranges).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{POSSIBLE} has {:?}", ranges.trim()))
    })?;
    Ok((0..=last).map(Queue::new).collect())
}

/// Returns the last number of a list of ranges, as `0-3,8-11`.
fn last_of(ranges: &str) -> Option<u16> {
    ranges.trim().rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the queues follow from the kernel's list of CPUs.
    #[test]
    fn lists_of_cpus() {
        assert_eq!(last_of("0\n"), Some(0));
        assert_eq!(last_of("0-3\n"), Some(3));
        assert_eq!(last_of("0-3,8-11"), Some(11));
        assert_eq!(last_of(""), None);
        assert!(!queues().unwrap().is_empty());
    }

    /// Promise: of the places that take what waits, one always stays, whatever waits for others.
    #[test]
    fn one_taker_stays() {
        let queue = Queue::new(0);
        assert!(queue.add_ring());
        assert!(!queue.add_ring());
        assert!(!queue.remove_taker());
        queue.add_taker();
        assert!(queue.remove_taker());
        assert!(!queue.remove_taker());
    }
}
