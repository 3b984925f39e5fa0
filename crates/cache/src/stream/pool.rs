//! The memory that all streams of a cache share.

use super::Stream;
use crate::policy::Lru;
use spindle_clock::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// The memory that each stream takes, and the order in which blocks were used.
#[derive(Default)]
pub(crate) struct Pool {
    /// The number of the last stream.
    last: AtomicU64,
    state: Mutex<State>,
    /// Bytes in memory; changed with the state locked, and read without it.
    bytes: AtomicUsize,
    /// Number of the pending streams, likewise.
    pending: AtomicUsize,
    /// Changed bytes that are not in flight yet.
    dirty_bytes: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// The streams that have a block in the order.
    streams: HashMap<u64, Weak<Stream>>,
    /// Blocks by stream and number.
    lru: Lru<(u64, u64)>,
    /// Streams with data that the device does not have.
    pending: BTreeMap<u64, Arc<Stream>>,
}

impl Pool {
    /// Returns the number of a new stream.
    pub(super) fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed)
    }

    /// Removes a stream with all its pages.
    pub(super) fn leave(&self, id: u64, charges: impl Iterator<Item = (u64, usize)>) {
        let mut state = self.state.lock();
        state.streams.remove(&id);
        for (block, charge) in charges {
            state.lru.remove((id, block));
            self.bytes.fetch_sub(charge, Ordering::Relaxed);
        }
    }

    /// Notes that a page was used and now takes `charge` bytes, `before` until now. A page that
    /// takes none is not evicted for others; with another the stream is `known` from now on.
    pub(super) fn holds(
        &self,
        stream: &Arc<Stream>,
        known: &mut bool,
        block: u64,
        before: usize,
        charge: usize,
    ) {
        let mut state = self.state.lock();
        self.bytes.fetch_add(charge, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
        if charge > 0 {
            state.lru.touch((stream.id, block));
            if !std::mem::replace(known, true) {
                state.streams.insert(stream.id, Arc::downgrade(stream));
            }
        }
    }

    /// Removes a page; if it is the `last` one of a stream, that is not known any more.
    pub(super) fn gone(&self, id: u64, block: u64, charge: usize, last: bool) {
        let mut state = self.state.lock();
        if last {
            state.streams.remove(&id);
        }
        self.bytes.fetch_sub(charge, Ordering::Relaxed);
        state.lru.remove((id, block));
    }

    pub(super) fn touch(&self, id: u64, block: u64) {
        self.state.lock().lru.touch((id, block));
    }

    /// Returns the bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the block that was used longest ago, if more than `capacity` bytes would be held
    /// with `more`.
    pub(super) fn victim(&self, capacity: usize, more: usize) -> Option<(Arc<Stream>, u64)> {
        if self.bytes() + more <= capacity {
            return None;
        }
        let mut state = self.state.lock();
        while self.bytes() + more > capacity {
            let (id, block) = state.lru.oldest()?;
            match state.streams.get(&id).and_then(Weak::upgrade) {
                Some(stream) => return Some((stream, block)),
                None => state.lru.remove((id, block)),
            }
        }
        None
    }

    pub(super) fn dirtied(&self, bytes: usize) {
        self.dirty_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn cleaned(&self, bytes: usize) {
        self.dirty_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn dirty_bytes(&self) -> usize {
        self.dirty_bytes.load(Ordering::Relaxed)
    }

    /// Enters a stream among the pending ones.
    pub(super) fn pend(&self, stream: &Arc<Stream>) {
        let mut state = self.state.lock();
        state.pending.insert(stream.id, stream.clone());
        self.pending.store(state.pending.len(), Ordering::Relaxed);
    }

    /// Returns the number of streams with data that the device may not have yet.
    pub(crate) fn pending_streams(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// Returns all streams with data that the device does not have, in the order in which they were
    /// made.
    pub(super) fn pending(&self) -> Vec<Arc<Stream>> {
        self.state.lock().pending.values().cloned().collect()
    }

    /// Drops the data that was never flushed.
    pub(crate) fn abandon(&self) {
        let pending = std::mem::take(&mut self.state.lock().pending);
        drop(pending);
    }

    /// Removes a stream from the pending ones, because the device has all its data, and returns it.
    pub(super) fn settled(&self, stream: &Stream) -> Option<Arc<Stream>> {
        let mut state = self.state.lock();
        let settled = state.pending.remove(&stream.id);
        self.pending.store(state.pending.len(), Ordering::Relaxed);
        settled
    }
}
