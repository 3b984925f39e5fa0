//! Flushes at intervals: their times, and the blocks modified since the last one.

use std::time::Duration;

/// The flushes of a write policy. They happen at whole intervals after the first event; a flush at
/// the time of an event happens before it.
pub(super) struct Flushes {
    interval: i64,
    next: i64,
    blocks: Vec<u32>,
}

impl Flushes {
    pub fn new(every: Duration) -> Self {
        let interval = i64::try_from(every.as_nanos()).unwrap_or(i64::MAX).max(1);
        Self { interval, next: i64::MAX, blocks: Vec::new() }
    }

    /// Sets the time of the first event.
    pub fn start(&mut self, time: i64) {
        self.next = time.saturating_add(self.interval);
    }

    /// Adds a modified block that is not on the list.
    pub fn list(&mut self, block: u32) {
        self.blocks.push(block);
    }

    /// Returns and removes the blocks on the list if a flush is due.
    #[inline]
    pub fn due(&mut self, now: i64) -> impl Iterator<Item = u32> {
        let due = now >= self.next;
        if due {
            // Nothing is modified between the last access and now, so one flush replaces all that
            // were missed.
            let missed = (now.abs_diff(self.next) / self.interval.unsigned_abs()).saturating_add(1);
            let missed = i64::try_from(missed).unwrap_or(i64::MAX);
            self.next = self.next.saturating_add(missed.saturating_mul(self.interval));
        }
        self.blocks.drain(..if due { self.blocks.len() } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: flushes happen at whole intervals after the start, also when some intervals had no
    /// events.
    #[test]
    fn flush_times() {
        let mut flushes = Flushes::new(Duration::from_nanos(30));
        flushes.start(7);
        let mut at = |now, block| {
            let due: Vec<_> = flushes.due(now).collect();
            flushes.list(block);
            due
        };
        assert_eq!(at(7, 1), []);
        assert_eq!(at(36, 2), []);
        assert_eq!(at(37, 3), [1, 2]);
        assert_eq!(at(66, 4), []);
        assert_eq!(at(157, 5), [3, 4]);
        assert_eq!(at(186, 6), []);
        assert_eq!(at(187, 7), [5, 6]);
    }
}
