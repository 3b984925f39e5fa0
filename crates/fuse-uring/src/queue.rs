//! The queues of the kernel, and what takes the requests that wait in one.
//!
//! A request that comes when all places of its queue are taken waits there. The kernel gives it to
//! a place when an answer is handed in there, but not to a place that is new (seen on Linux 6.18:
//! `fuse_uring_do_register` only adds it to the free ones). So a place *takes* what waits if it is
//! certain that its next answer does not depend on another request:
//!
//! - the first place of a queue does, because the kernel asks nothing before all queues have one;
//! - a new place does from its first request on, or from when an answer was handed in after it was
//!   offered, and no request waited for that place;
//! - a place whose answer waits for other requests does not, until that is handed in.
//!
//! While a place that takes is free, nothing waits, because what comes is given to a free place.

use spindle_clock::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The queue of one CPU.
#[derive(Clone, Debug)]
pub struct Queue {
    pub(crate) number: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    begun: Condvar,
    /// Some places are new; only a hint, to spare the lock.
    has_new: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    has_rings: bool,
    /// The first ring has offered its place, or has failed.
    has_begun: bool,
    /// Places that take what waits.
    takers: usize,
    /// Places of which that is not certain yet, and the number of the next one.
    new: Vec<u64>,
    next: u64,
}

impl Queue {
    fn new(number: u16) -> Self {
        Self { number, shared: Arc::default() }
    }

    /// Adds a ring. Returns true if it is the first, whose first place is that of the queue, and
    /// takes what waits.
    pub(crate) fn add_ring(&self) -> bool {
        let mut state = self.shared.state.lock();
        let is_first = !std::mem::replace(&mut state.has_rings, true);
        state.takers += usize::from(is_first);
        is_first
    }

    /// Lets the other rings offer places.
    pub(crate) fn begin(&self) {
        self.shared.state.lock().has_begun = true;
        self.shared.begun.notify_all();
    }

    /// Waits until the first ring has offered its first place.
    pub(crate) fn wait_for_first(&self) {
        let mut state = self.shared.state.lock();
        while !state.has_begun {
            self.shared.begun.wait(&mut state);
        }
    }

    /// Adds a new place, which the kernel has. Returns its number.
    pub(crate) fn add_new(&self) -> u64 {
        let mut state = self.shared.state.lock();
        let number = state.next;
        state.next += 1;
        state.new.push(number);
        self.shared.has_new.store(true, Ordering::Relaxed);
        number
    }

    /// Returns the new places.
    pub(crate) fn new_places(&self) -> Vec<u64> {
        if self.shared.has_new.load(Ordering::Relaxed) {
            self.shared.state.lock().new.clone()
        } else {
            Vec::new()
        }
    }

    /// Notes that places that were new take what waits.
    pub(crate) fn settle(&self, places: &[u64]) {
        let mut state = self.shared.state.lock();
        let before = state.new.len();
        state.new.retain(|number| !places.contains(number));
        state.takers += before - state.new.len();
        self.shared.has_new.store(!state.new.is_empty(), Ordering::Relaxed);
    }

    /// Notes that a place takes what waits again.
    pub(crate) fn add_taker(&self) {
        self.shared.state.lock().takers += 1;
    }

    /// Notes that a place does not take what waits any more, unless it is the last. Returns true if
    /// another is left.
    pub(crate) fn remove_taker(&self) -> bool {
        let mut state = self.shared.state.lock();
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

    /// Promise: of the places that take what waits, one always stays, whatever waits for others;
    /// and a new place counts once.
    #[test]
    fn one_taker_stays() {
        let queue = Queue::new(0);
        assert!(queue.add_ring());
        assert!(!queue.add_ring());
        assert!(!queue.remove_taker());
        let place = queue.add_new();
        assert!(!queue.remove_taker());
        assert_eq!(queue.new_places(), [place]);
        queue.settle(&[place]);
        queue.settle(&[place]);
        assert!(queue.new_places().is_empty());
        assert!(queue.remove_taker());
        assert!(!queue.remove_taker());
        queue.add_taker();
        assert!(queue.remove_taker());
    }
}
