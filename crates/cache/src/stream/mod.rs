//! Streams: the data of one file between a program and the device.
//!
//! A [`Stream`] belongs to an inode in memory. It holds pages, one for each block of the file that
//! is in memory: data kept for reading again, data read ahead, delayed writes, and writes in
//! flight. A page is known by its block number in the file; the file system supplies its device
//! address, with the data or through `bmap`.
//!
//! Invariants:
//! - a byte of the device that holds file data is in the stream of that file or in none, so the
//!   stream alone decides if the device is up to date;
//! - two writes of one block are never in flight together, and a block is not read while a write of
//!   it is in flight;
//! - a page that differs from the device is dirty or in flight, and its stream is in the pool's
//!   list of pending streams until then;
//! - the valid bytes of a page are one range of whole sectors.
//!
//! What the file system must do: hold its lock on the file, exclusively for [`Cache::write`] and
//! [`Cache::discard`] and shared at least for [`Cache::read`]; write within a transaction; call
//! [`Cache::discard`] *before* blocks of the file are freed or move.

mod extents;
mod page;
mod pool;
mod read;
mod write;

pub use extents::Extent;
pub use write::Space;

use crate::policy::{Delay, Reader};
use crate::{Cache, DataSettings, flight::Flight};
use extents::Extents;
use page::Page;
pub(crate) use pool::Pool;
use spindle_clock::{Mutex, MutexGuard};
use spindle_device::Result;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The data of one file in memory.
pub struct Stream {
    id: u64,
    /// Block size of the file in bytes.
    block: usize,
    /// Blocks in a cluster.
    cluster: u64,
    pool: Arc<Pool>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pages: BTreeMap<u64, Page>,
    /// Reads in flight; their blocks have no pages yet.
    reads: Vec<Arrival>,
    /// Writes in flight, oldest first.
    writes: VecDeque<Departure>,
    /// Bytes of the writes in flight.
    writes_bytes: usize,
    reader: Reader,
    delay: Delay,
    /// Offset in the file at which the last write ended.
    written_end: u64,
    extents: Extents,
    /// The pool knows the stream.
    known: bool,
    /// It is among the pool's pending streams.
    pending: bool,
}

/// Blocks of the file that are being read.
#[derive(Clone)]
struct Arrival {
    blocks: Range<u64>,
    at: u64,
    flight: Arc<Flight>,
}

/// Blocks of the file that are being written.
struct Departure {
    flight: Arc<Flight>,
    blocks: Vec<u64>,
    bytes: usize,
}

impl State {
    /// Returns the oldest write.
    fn oldest_write(&self) -> Option<Arc<Flight>> {
        self.writes.front().map(|write| write.flight.clone())
    }

    fn is_pending(&self) -> bool {
        !self.writes.is_empty() || self.pages.values().any(Page::is_pending)
    }
}

impl Stream {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        self.block as u64
    }

    /// Forgets the oldest writes up to the first that has not ended. Unless data is kept, their
    /// pages are dropped, too.
    fn retire(&self, state: &mut State, keep: bool) {
        while state.writes.front().is_some_and(|write| write.flight.has_landed()) {
            let Some(landed) = state.writes.pop_front() else { return };
            state.writes_bytes -= landed.bytes;
            for block in landed.blocks {
                let Some(page) = state.pages.get_mut(&block) else { continue };
                page.retire();
                if !keep && !page.is_pending() {
                    self.remove(state, block);
                }
            }
        }
    }

    fn remove(&self, state: &mut State, block: u64) {
        if let Some(mut page) = state.pages.remove(&block) {
            let last = state.pages.is_empty() && std::mem::take(&mut state.known);
            self.pool.gone(self.id, block, page.charge(), last);
            self.pool.cleaned(page.sent(None));
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if state.known {
            let charges = state.pages.iter().map(|(&block, page)| (block, page.charge()));
            self.pool.leave(self.id, charges);
        }
    }
}

impl Cache {
    /// Returns a stream for a file with blocks of `block_bytes`, whose clusters have `maxcontig`
    /// blocks unless the settings say otherwise.
    #[must_use]
    pub fn stream(&self, block_bytes: u32, maxcontig: u32) -> Arc<Stream> {
        let block = block_bytes as usize;
        let data = &self.settings.data;
        // An image may state any block size.
        let most = (data.capacity_bytes / 4).min(DataSettings::CLUSTER_BYTES_MAX) / block.max(1);
        let cluster = match data.cluster_bytes {
            Some(bytes) => (bytes / block.max(1)) as u64,
            None => u64::from(maxcontig),
        };
        Arc::new(Stream {
            id: self.pool.number(),
            block,
            cluster: cluster.min(most as u64).max(1),
            pool: self.pool.clone(),
            state: Mutex::default(),
        })
    }

    /// Drops the data of a file in `blocks`, delayed or not, and waits for transfers of it in
    /// flight. Afterwards the space of these blocks can be used for something else.
    ///
    /// # Errors
    /// When a write in flight failed; the data is dropped all the same.
    pub fn discard(&self, stream: &Stream, blocks: Range<u64>) -> Result<()> {
        let mut result = Ok(());
        loop {
            let mut state = stream.lock();
            state.extents.clear();
            if let Some(nth) = state.reads.iter().position(|read| overlap(&read.blocks, &blocks)) {
                let read = state.reads.remove(nth);
                drop(state);
                // The bytes are not needed any more, so an error does not matter either.
                let _ = read.flight.land();
                continue;
            }
            let flight = state.pages.range(blocks.clone()).find_map(|(_, page)| page.in_flight());
            if let Some(flight) = flight {
                drop(state);
                let landed = flight.land().map_err(|error| self.fail(error));
                result = result.and(landed.map(drop));
                continue;
            }
            if overlap(&state.delay.blocks(), &blocks) {
                state.delay.clear();
            }
            let gone: Vec<_> = state.pages.range(blocks.clone()).map(|(&block, _)| block).collect();
            for block in gone {
                stream.remove(&mut state, block);
            }
            return result;
        }
    }

    /// Drops the data of a block of a file behind its first `len` bytes, which are whole sectors,
    /// delayed or not, and waits for transfers of it in flight. Afterwards that space can be used
    /// for something else.
    ///
    /// # Errors
    /// When a write in flight failed.
    pub(crate) fn cut(&self, stream: &Stream, block: u64, len: usize) -> Result<()> {
        loop {
            let mut state = stream.lock();
            state.extents.clear();
            let Some(page) = state.pages.get_mut(&block) else { return Ok(()) };
            if let Some(flight) = page.in_flight() {
                drop(state);
                flight.land().map_err(|error| self.fail(error))?;
                continue;
            }
            if page.valid().start >= len {
                stream.remove(&mut state, block);
            } else {
                stream.pool.cleaned(page.cut(len));
            }
            return Ok(());
        }
    }

    /// Writes the data of a file in `blocks` to the device and drops it from memory, before a part
    /// of its space is freed.
    ///
    /// # Errors
    /// When the device fails.
    pub fn settle(&self, stream: &Arc<Stream>, blocks: Range<u64>) -> Result<()> {
        self.write_out(stream, blocks.clone())?;
        self.discard(stream, blocks)
    }

    /// Makes the data of a new file durable where names are, before anything points to it, as
    /// [`crate::Buffer::precede`] does with a buffer.
    ///
    /// # Errors
    /// When the device fails; no changes are accepted after that.
    pub fn precede_data(&self, stream: &Arc<Stream>, blocks: Range<u64>) -> Result<()> {
        self.precede(|cache| {
            cache.write_out(stream, blocks)?;
            cache.land_writes(stream)
        })
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod transfers;
