//! When modified blocks are written at intervals: the instants, and the blocks modified since the
//! last one.

use std::time::Duration;

/// The flushes of a policy. They come at whole intervals after the first event; one that falls
/// together with an event comes before it.
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

    /// The time of the first event.
    pub fn start(&mut self, time: i64) {
        self.next = time.saturating_add(self.interval);
    }

    /// A block has been modified that is not on the list yet.
    pub fn list(&mut self, block: u32) {
        self.blocks.push(block);
    }

    /// Returns the blocks on the list, if there has been a flush by now; the list is then empty.
    #[inline]
    pub fn due(&mut self, now: i64) -> impl Iterator<Item = u32> {
        let due = now >= self.next;
        if due {
            // Nothing is modified between the last access and now, so one flush does for all that
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

    /// Promise: flushes come at whole intervals after the start, also when nothing happened for
    /// some of them.
    #[test]
    fn instants() {
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
