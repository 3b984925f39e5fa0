//! A part of the buffers in memory, by address, and the order in which they are evicted.
//!
//! The order is that of a clock with one hand: a buffer that was asked for since it was last
//! considered goes to the end of the queue. Invariant: the queue has one live entry for each
//! buffer, and no more dead entries, of buffers that were forgotten, than live ones and
//! [`DEAD_AT_LEAST`].

use crate::buffer::Slot;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Dead entries in a queue that are not worth removing.
const DEAD_AT_LEAST: usize = 64;

#[derive(Default)]
pub(crate) struct Shard {
    /// Each with the number of its entry in the queue.
    slots: HashMap<u64, (Arc<Slot>, u64)>,
    /// Addresses in the order in which they are considered for eviction, each with a number.
    queue: VecDeque<(u64, u64)>,
    /// The number of the next entry.
    next: u64,
    bytes: usize,
}

impl Shard {
    pub(crate) fn get(&self, at: u64) -> Option<Arc<Slot>> {
        self.slots.get(&at).map(|(slot, _)| slot.clone())
    }

    /// Returns the slot at byte `at`, a `fresh` one if there is none.
    pub(crate) fn get_or_insert(
        &mut self,
        at: u64,
        fresh: impl FnOnce() -> Arc<Slot>,
        capacity_bytes: usize,
    ) -> Arc<Slot> {
        self.get(at).unwrap_or_else(|| {
            let slot = fresh();
            self.insert(slot.clone(), capacity_bytes);
            slot
        })
    }

    /// Enters a slot, in place of one at the same address, and evicts unused ones until the shard
    /// holds at most `capacity_bytes`.
    pub(crate) fn insert(&mut self, slot: Arc<Slot>, capacity_bytes: usize) {
        self.remove(slot.at());
        self.bytes += slot.len();
        self.queue.push_back((slot.at(), self.next));
        self.slots.insert(slot.at(), (slot, self.next));
        self.next += 1;
        self.evict(capacity_bytes);
    }

    pub(crate) fn remove(&mut self, at: u64) -> Option<Arc<Slot>> {
        let (slot, _) = self.slots.remove(&at)?;
        self.bytes -= slot.len();
        if self.queue.len() > 2 * self.slots.len() + DEAD_AT_LEAST {
            let slots = &self.slots;
            self.queue.retain(|(at, number)| slots.get(at).is_some_and(|(_, live)| live == number));
        }
        Some(slot)
    }

    /// Evicts unchanged buffers that are not held and were not used since they were last
    /// considered.
    fn evict(&mut self, capacity_bytes: usize) {
        let mut tries = self.queue.len() * 2;
        while self.bytes > capacity_bytes && tries > 0 {
            tries -= 1;
            let Some((at, number)) = self.queue.pop_front() else { return };
            let Some((slot, live)) = self.slots.get(&at) else { continue };
            if *live != number {
                continue;
            }
            if slot.was_touched() || Arc::strong_count(slot) > 1 {
                self.queue.push_back((at, number));
            } else {
                self.bytes -= slot.len();
                self.slots.remove(&at);
            }
        }
    }

    #[cfg(test)]
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: buffers that come and go leave nothing behind, and one that comes again at the same
    /// address is considered for eviction once.
    #[test]
    fn forgotten_buffers_leave_nothing_behind() {
        let mut shard = Shard::default();
        let slot = |at| Arc::new(Slot::new(at, 512, 512, None));
        shard.insert(slot(0), 1 << 20);
        for n in 1..10_000 {
            shard.insert(slot(n % 7 * 512 + 512), 1 << 20);
            shard.remove(n % 7 * 512 + 512);
        }
        assert_eq!((shard.slots.len(), shard.bytes), (1, 512));
        assert!(shard.queue.len() <= 3 + DEAD_AT_LEAST, "{} entries", shard.queue.len());
        shard.insert(slot(0), 1 << 20);
        assert_eq!((shard.slots.len(), shard.bytes), (1, 512));
        shard.evict(0);
        shard.evict(0);
        assert_eq!((shard.slots.len(), shard.bytes, shard.queue.len()), (0, 0, 0));
    }
}
