//! The memory that all streams of a cache share.

use super::Stream;
use crate::policy::Lru;
use spindle_clock::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Who holds how much, and in which order it was used.
#[derive(Default)]
pub(crate) struct Pool {
    state: Mutex<State>,
    /// Changed bytes that are not on their way yet.
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

    /// A stream is gone, with all its pages.
    pub(super) fn leave(&self, id: u64, charges: impl Iterator<Item = (u64, usize)>) {
        let mut state = self.state.lock();
        state.streams.remove(&id);
        for (block, charge) in charges {
            state.lru.remove((id, block));
            state.bytes -= charge;
        }
    }

    /// A page takes `charge` bytes, `before` until now; one that takes none is not given up for
    /// others. It was used last.
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

    /// Streams with data that the device does not have, or had not when somebody last looked.
    pub(crate) fn pending_streams(&self) -> usize {
        self.state.lock().pending.len()
    }

    /// Returns all streams with data that the device does not have, in the order in which they were
    /// made.
    pub(super) fn pending(&self) -> Vec<Arc<Stream>> {
        self.state.lock().pending.values().cloned().collect()
    }

    /// Forgets what was never flushed.
    pub(crate) fn abandon(&self) {
        let pending = std::mem::take(&mut self.state.lock().pending);
        drop(pending);
    }

    /// Returns the device has everything of a stream, as far as the caller has seen.
    pub(super) fn settled(&self, stream: &Stream) -> Option<Arc<Stream>> {
        self.state.lock().pending.remove(&stream.id)
    }
}
