//! Reading: from pages in memory, from reads in flight, and in clusters from the device.

use super::extents::Mapped;
use super::{Arrival, Extent, Page, State, Stream, overlap};
use crate::Cache;
use crate::flight::Flight;
use crate::settings::DataSettings;
use spindle_clock::{MutexGuard, Work};
use spindle_device::{AlignedBuf, Error, Op, Result};
use std::ops::Range;
use std::sync::Arc;

/// Blocks that `bmap` is asked for, which may be more than are read now: large clusters and the
/// bmap cache use them.
const BMAP_BLOCKS: u64 = 1024;

/// One call of [`Cache::read`].
struct Reading {
    /// Size of the file in bytes.
    size: u64,
    /// The block after the last one asked for.
    end_block: u64,
    /// The byte after the last one asked for.
    end: u64,
}

impl Cache {
    /// Reads bytes `offset..offset + buf.len()` of a file, all below its `size`. `bmap(block,
    /// most)` returns the run of at most `most` blocks that begins with `block` of the file.
    ///
    /// # Errors
    /// When the device or `bmap` fails.
    pub fn read<E: From<Error>>(
        &self,
        stream: &Arc<Stream>,
        size: u64,
        offset: u64,
        buf: &mut [u8],
        mut bmap: impl FnMut(u64, u64) -> std::result::Result<Extent, E>,
    ) -> std::result::Result<(), E> {
        let end = offset + buf.len() as u64;
        let call = Reading { size, end, end_block: end.div_ceil(stream.block_bytes()) };
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let block = at / stream.block_bytes();
            self.clock.work(Work::ReadBlock);
            done += self.read_block(stream, &call, block, at, &mut buf[done..], &mut bmap)?;
        }
        Ok(())
    }

    /// Reads from `at`, in `block`, into the front of `buf`. Returns the bytes read: up to the end
    /// of the block or more.
    fn read_block<E: From<Error>>(
        &self,
        stream: &Arc<Stream>,
        call: &Reading,
        block: u64,
        at: u64,
        buf: &mut [u8],
        bmap: &mut impl FnMut(u64, u64) -> std::result::Result<Extent, E>,
    ) -> std::result::Result<usize, E> {
        let start = index(at - block * stream.block_bytes());
        let part = start..(start + buf.len()).min(stream.block);
        let mut expected = false;
        let mut own: Option<Arc<Flight>> = None;
        loop {
            let mut state = stream.lock();
            if own.is_none() {
                expected = state.reader.expects(block);
            }
            if state.pages.get(&block).is_some_and(|page| page.has(&part)) {
                if expected && self.settings.data.read_ahead {
                    state = self.start_ahead(stream, call, block, state, bmap);
                }
                let Some(page) = state.pages.get(&block) else { continue };
                buf[..part.len()].copy_from_slice(page.bytes(part.clone()));
                self.leave_block(stream, &mut state, call, block, &part, expected);
                return Ok(part.len());
            }
            if let Some(read) = state.reads.iter().find(|read| read.blocks.contains(&block)).cloned() {
                if expected && self.settings.data.read_ahead {
                    state = self.start_ahead(stream, call, block, state, bmap);
                }
                drop(state);
                let landed = read.flight.land();
                self.arrive(stream, &read, landed.as_ref().ok().and_then(Option::as_ref));
                match landed {
                    Err(error) if own.is_some_and(|own| Arc::ptr_eq(&own, &read.flight)) => {
                        if read.blocks.end <= call.end_block {
                            return Err(error.into());
                        }
                        // The fault may lie behind what was asked for, which is read alone now.
                        expected = false;
                        own = Some(read.flight);
                    }
                    _ => own = Some(read.flight),
                }
                continue;
            }
            if state.pages.contains_key(&block) {
                // A part of the block is in memory and not written yet.
                drop(state);
                self.settle(stream, block..block + 1)?;
                continue;
            }
            drop(state);
            let cluster = self.cluster_at(stream, call, block, expected);
            let extent = stream.extent(block, cluster, bmap)?;
            let Some(address) = extent.at else {
                let holes = index((extent.blocks * stream.block_bytes()).saturating_sub(start as u64));
                let zeros = holes.min(buf.len());
                buf[..zeros].fill(0);
                stream.lock().reader.note(block + extent.blocks.min(call.end_block - block) - 1);
                return Ok(zeros);
            };
            let blocks = block..block + extent.blocks.min(cluster);
            if let Some(bytes) = self.read_past(stream, call, &blocks, address, at, buf, expected, bmap)? {
                return Ok(bytes);
            }
            own = self.start_read(stream, call.size, blocks, address, expected)?.or(own);
        }
    }

    /// Returns how many blocks to read when `block` is missing: a cluster for a sequential reader,
    /// otherwise as many as were asked for.
    fn cluster_at(&self, stream: &Stream, call: &Reading, block: u64, expected: bool) -> u64 {
        let rest = call.end_block - block;
        let wanted = match (expected, self.settings.data.random_clusters) {
            (true, true) => stream.cluster.max(rest),
            (true, false) => stream.cluster,
            (false, true) => rest,
            (false, false) => 1,
        };
        wanted.min(call.size.div_ceil(stream.block_bytes()) - block)
    }

    /// Reads straight into the caller's memory if the data is not to be kept; `None` if that cannot
    /// be done.
    #[allow(clippy::too_many_arguments)] // The source, the destination and the reader's state.
    fn read_past<E: From<Error>>(
        &self,
        stream: &Stream,
        call: &Reading,
        blocks: &Range<u64>,
        address: u64,
        at: u64,
        buf: &mut [u8],
        expected: bool,
        bmap: &mut impl FnMut(u64, u64) -> std::result::Result<Extent, E>,
    ) -> std::result::Result<Option<usize>, E> {
        let start = at - blocks.start * stream.block_bytes();
        let within = (blocks.end * stream.block_bytes() - at).min(call.end - at);
        let sector = u64::from(self.device.info().sector_bytes);
        let whole = (start + within).next_multiple_of(sector) - start;
        // Otherwise the rest of the cluster will be needed next.
        let enough = !expected
            || within >= stream.cluster * stream.block_bytes()
            || at + within == call.size
            || !self.settings.data.read_ahead;
        if self.settings.data.keep || !enough || !start.is_multiple_of(sector) {
            return Ok(None);
        }
        let mut state = stream.lock();
        let busy = state.pages.range(blocks.clone()).next().is_some()
            || state.reads.iter().any(|read| overlap(&read.blocks, blocks));
        if busy {
            return Ok(None);
        }
        state.reader.missed(blocks.clone());
        state.reader.note(blocks.end - 1);
        if expected && self.settings.data.read_ahead {
            state = self.start_ahead(stream, call, blocks.end - 1, state, bmap);
        }
        drop(state);
        let within = index(within);
        if whole == within as u64 {
            self.device.read_at(address + start, &mut buf[..within])?;
        } else {
            let mut sectors = AlignedBuf::zeroed(index(whole));
            self.device.read_at(address + start, &mut sectors)?;
            buf[..within].copy_from_slice(&sectors[..within]);
        }
        Ok(Some(within))
    }

    /// Starts a read of `blocks` up to the first that has a page or a read in flight; none if that
    /// is the first one.
    fn start_read(
        &self,
        stream: &Stream,
        size: u64,
        blocks: Range<u64>,
        address: u64,
        expected: bool,
    ) -> Result<Option<Arc<Flight>>> {
        self.make_room(index((blocks.end - blocks.start) * stream.block_bytes()))?;
        let mut state = stream.lock();
        let Some(read) = self.submit_read(stream, &mut state, size, blocks, address)? else {
            return Ok(None);
        };
        if expected {
            state.reader.missed(read.blocks.clone());
        }
        Ok(Some(read.flight))
    }

    fn submit_read(
        &self,
        stream: &Stream,
        state: &mut State,
        size: u64,
        mut blocks: Range<u64>,
        address: u64,
    ) -> Result<Option<Arrival>> {
        if let Some((&page, _)) = state.pages.range(blocks.clone()).next() {
            blocks.end = page;
        }
        for read in &state.reads {
            if overlap(&read.blocks, &blocks) {
                blocks.end = read.blocks.start;
            }
        }
        if blocks.end <= blocks.start {
            return Ok(None);
        }
        let sector = u64::from(self.device.info().sector_bytes);
        let from = blocks.start * stream.block_bytes();
        let to = (blocks.end * stream.block_bytes()).min(size.next_multiple_of(sector));
        let bytes = index(to - from);
        let read =
            Arrival { at: address, flight: Arc::new(Flight::gathering(&self.device, Op::Read)), blocks };
        read.flight.submit(address, AlignedBuf::zeroed(bytes))?;
        state.reads.push(read.clone());
        Ok(Some(read))
    }

    /// Starts the read-ahead for a sequential reader at `block`: the cluster after the one that it
    /// has just entered, or as many pieces as make up a cluster.
    fn start_ahead<'a, E: From<Error>>(
        &self,
        stream: &'a Stream,
        call: &Reading,
        block: u64,
        mut state: MutexGuard<'a, State>,
        bmap: &mut impl FnMut(u64, u64) -> std::result::Result<Extent, E>,
    ) -> MutexGuard<'a, State> {
        loop {
            let before = state.reader;
            state = self.start_next(stream, call, block, state, bmap);
            if !self.settings.data.pieces_ahead || state.reader == before {
                return state;
            }
        }
    }

    /// Starts the next transfer ahead of a sequential reader at `block`, if there is to be one. The
    /// lock is released while `bmap` runs.
    fn start_next<'a, E: From<Error>>(
        &self,
        stream: &'a Stream,
        call: &Reading,
        block: u64,
        mut state: MutexGuard<'a, State>,
        bmap: &mut impl FnMut(u64, u64) -> std::result::Result<Extent, E>,
    ) -> MutexGuard<'a, State> {
        let last = call.size.div_ceil(stream.block_bytes());
        let keep = if self.settings.data.pieces_ahead { stream.cluster } else { 0 };
        let Some(mut from) = state.reader.ahead(block, keep).filter(|&from| from < last) else {
            return state;
        };
        let end = last.min(from + stream.cluster);
        while from < end && state.has(from) {
            from += 1;
        }
        if from == end {
            state.reader.started(end);
            return state;
        }
        drop(state);
        let found = stream.extent(from, end - from, bmap);
        let room = self.make_room(index((end - from) * stream.block_bytes()));
        let mut state = stream.lock();
        if let (Ok(extent), Ok(()), Some(_)) = (found, room, state.reader.ahead(block, keep)) {
            let blocks = from..end.min(from + extent.blocks);
            state.reader.started(blocks.end);
            if let Some(address) = extent.at {
                // The read that needs these blocks will report an error.
                let _ = self.submit_read(stream, &mut state, call.size, blocks, address);
            }
        }
        state
    }

    /// Turns the blocks of a read that has ended into pages.
    fn arrive(&self, stream: &Arc<Stream>, read: &Arrival, buf: Option<&Arc<AlignedBuf>>) {
        let mut state = stream.lock();
        let known = state.reads.len();
        state.reads.retain(|other| !Arc::ptr_eq(&other.flight, &read.flight));
        let (Some(buf), true) = (buf, state.reads.len() < known) else { return };
        for (nth, block) in read.blocks.clone().enumerate() {
            let start = nth * stream.block;
            let len = buf.len().saturating_sub(start).min(stream.block);
            if len == 0 || state.pages.contains_key(&block) {
                continue;
            }
            let charge = self.charge(stream, block, len);
            let address = read.at + start as u64;
            state.pages.insert(block, Page::arrived(address, buf.clone(), start, len, charge));
            stream.pool.holds(stream, &mut state.known, block, 0, charge);
        }
    }

    /// Returns the bytes of the capacity that a page of `len` bytes takes: 0 if it is a whole small
    /// file, which stays with its inode.
    pub(super) const fn charge(&self, stream: &Stream, block: u64, len: usize) -> usize {
        let small = block == 0 && len < stream.block && len <= self.settings.data.small_file_bytes;
        if small { 0 } else { len }
    }

    /// Notes that `part` of `block` was read, and drops the page if it need not be kept.
    fn leave_block(
        &self,
        stream: &Stream,
        state: &mut State,
        call: &Reading,
        block: u64,
        part: &Range<usize>,
        expected: bool,
    ) {
        let data = &self.settings.data;
        state.reader.note(block);
        let at = block * stream.block_bytes() + part.end as u64;
        let finished = part.end == stream.block || at == call.size;
        let cluster_bytes = index(stream.cluster) * stream.block;
        let behind = data.free_behind
            && expected
            && at >= DataSettings::LARGE_OFFSET_BYTES
            && stream.pool.bytes() + 2 * cluster_bytes > data.capacity_bytes;
        let clean = state.pages.get(&block).is_some_and(|page| !page.is_pending());
        if finished && clean && (behind || !data.keep) {
            stream.remove(state, block);
        } else if data.keep && state.pages.get(&block).is_some_and(|page| page.charge() > 0) {
            stream.pool.touch(stream.id, block);
        }
    }
}

impl Stream {
    /// Returns the extent that begins with `block`, from the bmap cache or from `bmap`.
    fn extent<E>(
        &self,
        block: u64,
        most: u64,
        bmap: &mut impl FnMut(u64, u64) -> std::result::Result<Extent, E>,
    ) -> std::result::Result<Extent, E> {
        if let Some(known) = self.lock().extents.find(block, self.block_bytes()) {
            return Ok(known);
        }
        let extent = bmap(block, most.max(BMAP_BLOCKS))?;
        if let Some(at) = extent.at {
            let run = Mapped { block, count: extent.blocks, at };
            self.lock().extents.enter(run, self.block_bytes());
        }
        Ok(extent)
    }
}

impl State {
    /// Returns true if `block` is in memory or being read.
    fn has(&self, block: u64) -> bool {
        self.pages.contains_key(&block) || self.reads.iter().any(|read| read.blocks.contains(&block))
    }
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
