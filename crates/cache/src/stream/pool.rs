//! The memory that all streams of a cache share.

use super::Stream;
use crate::policy::Lru;
use spindle_clock::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// The memory that each stream takes, and the order in which blocks were used.
#[derive(Default)]
pub(crate) struct Pool {
    state: Mutex<State>,
    /// Changed bytes that are not in flight yet.
    dirty_bytes: AtomicUsize,
}

#[derive(Default)]
struct State {
    ids: u64,
    streams: HashMap<u64, Weak<Stream>>,
    /// Blocks by stream and number.
    lru: Lru<(u64, u64)>,
    bytes: usize,
    /// Streams with data that the device does not have.
    pending: BTreeMap<u64, Arc<Stream>>,
}

impl Pool {
    pub(super) fn enter(&self, make: impl FnOnce(u64) -> Stream) -> Arc<Stream> {
        let mut state = self.state.lock();
        state.ids += 1;
        let id = state.ids;
        let stream = Arc::new(make(id));
        state.streams.insert(id, Arc::downgrade(&stream));
        stream
    }

    /// Removes a stream with all its pages.
    pub(super) fn leave(&self, id: u64, charges: impl Iterator<Item = (u64, usize)>) {
        let mut state = self.state.lock();
        state.streams.remove(&id);
        for (block, charge) in charges {
            state.lru.remove((id, block));
            state.bytes -= charge;
        }
    }

    /// Notes that a page was used and now takes `charge` bytes, `before` until now. A page that
    /// takes none is not evicted for others.
    pub(super) fn holds(&self, id: u64, block: u64, before: usize, charge: usize) {
        let mut state = self.state.lock();
        state.bytes = state.bytes - before + charge;
        if charge > 0 {
            state.lru.touch((id, block));
        }
    }

    pub(super) fn gone(&self, id: u64, block: u64, charge: usize) {
        let mut state = self.state.lock();
        state.bytes -= charge;
        state.lru.remove((id, block));
    }

    pub(super) fn touch(&self, id: u64, block: u64) {
        self.state.lock().lru.touch((id, block));
    }

    /// Returns the bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Returns the block that was used longest ago, if more than `capacity` bytes would be held
    /// with `more`.
    pub(super) fn victim(&self, capacity: usize, more: usize) -> Option<(Arc<Stream>, u64)> {
        let mut state = self.state.lock();
        while state.bytes + more > capacity {
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

    pub(super) fn pend(&self, stream: &Arc<Stream>) {
        self.state.lock().pending.entry(stream.id).or_insert_with(|| stream.clone());
    }

    /// Returns the number of streams with data that the device may not have yet.
    pub(crate) fn pending_streams(&self) -> usize {
        self.state.lock().pending.len()
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
        self.state.lock().pending.remove(&stream.id)
    }
}
