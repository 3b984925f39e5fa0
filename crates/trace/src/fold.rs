//! Merges single transfers into runs.
//!
//! The one idea is that of the format: a transfer that begins where the previous one ended, in the
//! same direction, belongs to the same run; any other ends it. Code that sees single reads and
//! writes (an importer, a mount) keeps a [`Run`] for each open file and adds it to the event that
//! ends it.

use crate::Event;

/// A sequential transfer in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    start: u64,
    bytes: u64,
    writes: bool,
    calls: u32,
}

impl Run {
    /// Returns an empty run.
    pub(crate) const fn at(start: u64) -> Self {
        Self { start, bytes: 0, writes: false, calls: 0 }
    }

    /// Returns the position after its last byte.
    pub(crate) const fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes)
    }

    /// Returns true if no bytes were transferred.
    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Adds a call that transferred `bytes` from `position` on. Returns the previous run if the
    /// call ended one that is not empty.
    pub(crate) fn add(&mut self, position: u64, bytes: u64, writes: bool) -> Option<Self> {
        // Limits positions to what files can have, so that sums cannot overflow, whatever the
        // input.
        let position = position.min(i64::MAX as u64);
        let bytes = bytes.min(i64::MAX as u64 - position);
        let goes_on = bytes == 0 || self.is_empty() || (self.writes == writes && self.end() == position);
        let fits = self.bytes.checked_add(bytes).is_some_and(|sum| i64::try_from(sum).is_ok());
        let ended = (!goes_on || !fits).then(|| std::mem::replace(self, Self::at(position)));
        if self.is_empty() && bytes > 0 {
            (self.start, self.writes) = (position, writes);
        }
        self.bytes += bytes;
        self.calls = self.calls.saturating_add(1);
        ended
    }

    /// Ends the run; the next one begins at its end.
    pub(crate) fn take(&mut self) -> Self {
        let end = self.end();
        std::mem::replace(self, Self::at(end))
    }

    /// Fills the run into the event that ends it.
    pub(crate) fn fill_into(&self, event: Event) -> Event {
        let (read, written) = if self.writes { (0, self.bytes) } else { (self.bytes, 0) };
        Event { position: self.start, read, written, calls: self.calls, ..event }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: calls that continue each other in one direction are one run; a jump or a change of
    /// direction ends it; a call without bytes is only counted.
    #[test]
    fn sequential_calls_are_one_run() {
        let mut run = Run::at(7);
        assert_eq!(run.add(7, 10, false), None);
        assert_eq!(run.add(17, 5, false), None);
        assert_eq!(run.add(99, 0, true), None);
        assert_eq!(run.end(), 22);
        let ended = run.add(22, 1, true).unwrap();
        let event = ended.fill_into(Event::default());
        assert_eq!((event.position, event.read, event.written, event.calls), (7, 15, 0, 3));
        let ended = run.add(30, 2, true).unwrap();
        let event = ended.fill_into(Event::default());
        assert_eq!((event.position, event.read, event.written, event.calls), (22, 0, 1, 1));
        assert_eq!(run.take().fill_into(Event::default()).position, 30);
        assert!(run.is_empty());
        assert_eq!(run.end(), 32);
    }

    /// Promise: extreme positions and counts do not overflow.
    #[test]
    fn extremes_do_not_overflow() {
        let mut run = Run::at(u64::MAX);
        assert_eq!(run.add(u64::MAX, u64::MAX, true), None);
        assert_eq!(run.add(0, u64::MAX, false), None);
        assert_eq!(run.end(), i64::MAX as u64);
        run.add(i64::MAX as u64, 1, false);
        assert!(i64::try_from(run.take().fill_into(Event::default()).end()).is_ok());
    }
}
