//! Writing: pages are changed at once and go to the device later, in clusters.

use super::extents::Mapped;
use super::{Departure, Page, State, Stream};
use crate::flight::Flight;
use crate::{Cache, Tx};
use spindle_clock::{MutexGuard, Work};
use spindle_device::{AlignedBuf, Op, Result};
use std::ops::Range;
use std::sync::{Arc, Weak};

/// Dirty pages are gathered into transfers of up to this many bytes when everything is flushed.
const FLUSH_BYTES: usize = 1 << 20;

/// Space of a file on the device that data is written to: it is contiguous.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// Offset in the file of the first byte that is written.
    pub offset: u64,
    /// Its address on the device.
    pub at: u64,
    /// Offset in the file at which the space ends: not before the last byte written, and at most
    /// the end of its block.
    pub end: u64,
}

impl Cache {
    /// Writes `data` to `space` of a file. Old data of that file may surround it.
    ///
    /// # Errors
    /// When the device fails, or an earlier write failed.
    pub fn write(&self, stream: &Arc<Stream>, tx: &Tx<'_>, space: Space, data: &[u8]) -> Result<()> {
        debug_assert!(tx.is_of(self), "a transaction of this cache");
        self.check()?;
        tx.has_changed();
        if self.settings.data.zeros_left_out && is_zero(data) {
            return Ok(());
        }
        if self.goes_straight(stream, space, data.len()) {
            let blocks = space.offset / stream.block_bytes()
                ..(space.offset + data.len() as u64).div_ceil(stream.block_bytes());
            blocks.clone().for_each(|_| self.clock.work(Work::WriteBlock));
            self.settle(stream, blocks)?;
            self.await_release(&(space.at..space.at + data.len() as u64))?;
            return self.device.write_at(space.at, data).map_err(|error| self.fail(error));
        }
        for part in parts(stream, space, data) {
            self.clock.work(Work::WriteBlock);
            self.make_room(stream.block)?;
            if let Some(blocks) = self.write_part(stream, part)? {
                self.write_out(stream, blocks)?;
            }
        }
        Ok(())
    }

    /// Puts bytes that a file had back into its space, in memory: there they are read also when the
    /// device takes nothing any more. The next flush writes them.
    ///
    /// # Errors
    /// When the device cannot read what is around them.
    pub(crate) fn put_back(&self, stream: &Arc<Stream>, space: Space, data: &[u8]) -> Result<()> {
        let put = |result: Result<()>, part| result.and(self.write_part(stream, part).map(drop));
        parts(stream, space, data).fold(Ok(()), put)
    }

    /// Returns true for a write that need not be kept and gains nothing from being delayed: a large
    /// one, or one that does not go on where the last one ended. Notes where it ends.
    fn goes_straight(&self, stream: &Stream, space: Space, len: usize) -> bool {
        let data = &self.settings.data;
        if data.keep {
            return false;
        }
        let whole = |unit: usize| {
            let unit = unit as u64;
            [space.offset, space.at, len as u64].iter().all(|number| number.is_multiple_of(unit))
        };
        let random = data.straight_random_bytes.is_some_and(|unit| {
            let last_end = std::mem::replace(&mut stream.lock().written_end, space.offset + len as u64);
            // Space that cannot be written to yet is no reason for a small write to wait.
            let waits = || self.held.overlaps(&(space.at..space.at + len as u64));
            space.offset != last_end && whole(unit) && !waits()
        });
        let sector = self.device.info().sector_bytes as usize;
        random || data.straight_bytes.is_some_and(|least| len >= least && whole(sector))
    }

    /// Zeroes `range` of a block whose space at `at` is new, up to the end of the space, without
    /// reading it. The caller then writes what is before the range.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_zeros(
        &self,
        stream: &Arc<Stream>,
        tx: &Tx<'_>,
        block: u64,
        at: u64,
        range: Range<usize>,
    ) -> Result<()> {
        let sector = self.device.info().sector_bytes as usize;
        // What is kept is whole blocks.
        let start = if self.settings.data.keep { 0 } else { range.start / sector * sector };
        let offset = block * stream.block_bytes();
        let space =
            Space { offset: offset + start as u64, at: at + start as u64, end: offset + range.end as u64 };
        self.write(stream, tx, space, &vec![0; range.end - start])
    }

    /// Changes a part of a block in memory. Returns the blocks that are to be written now.
    fn write_part(&self, stream: &Arc<Stream>, part: Part<'_>) -> Result<Option<Range<u64>>> {
        let Part { block, at, range: part, end, data } = part;
        let mut state = self.cleared_for(stream, block, &part)?;
        let around = self.around(&part, end);
        let charge = self.charge(stream, block, end);
        let page = state.pages.entry(block).or_insert_with(|| Page::empty(at, end));
        self.read_around(page, at, &part, &around)?;
        page.fill(part.clone()).copy_from_slice(data);
        stream.pool.dirtied(page.changed(at));
        let before = page.recharge(charge);
        stream.pool.holds(stream, &mut state.known, block, before, charge);
        state.extents.enter(Mapped { block, count: 1, at }, stream.block_bytes());
        if !std::mem::replace(&mut state.pending, true) {
            stream.pool.pend(stream);
        }
        Ok(state.delay.wrote(block, part.end == stream.block, stream.cluster))
    }

    /// Returns the range of a block that must be in memory when `part` of it is: all of it if data
    /// is kept, or whole sectors.
    fn around(&self, part: &Range<usize>, end: usize) -> Range<usize> {
        if self.settings.data.keep {
            return 0..end.max(part.end);
        }
        let sector = self.device.info().sector_bytes as usize;
        part.start / sector * sector..part.end.next_multiple_of(sector)
    }

    /// Waits until `part` of a block can be changed in its page: no read of it is in flight, and
    /// the valid bytes stay one range.
    fn cleared_for<'a>(
        &self,
        stream: &'a Arc<Stream>,
        block: u64,
        part: &Range<usize>,
    ) -> Result<MutexGuard<'a, State>> {
        loop {
            let mut state = stream.lock();
            if let Some(nth) = state.reads.iter().position(|read| read.blocks.contains(&block)) {
                let read = state.reads.remove(nth);
                drop(state);
                // It would return bytes that are just being replaced.
                let _ = read.flight.land();
                continue;
            }
            let joins = state.pages.get(&block).is_none_or(|page| page.joins(&self.around(part, 0)));
            if joins {
                return Ok(state);
            }
            drop(state);
            self.settle(stream, block..block + 1)?;
        }
    }

    /// Reads the sectors of `around` that are neither in the page nor wholly in `part`, which the
    /// caller writes.
    fn read_around(
        &self,
        page: &mut Page,
        at: u64,
        part: &Range<usize>,
        around: &Range<usize>,
    ) -> Result<()> {
        let sector = self.device.info().sector_bytes as usize;
        let within = |outer: &Range<usize>, byte: usize| outer.start <= byte && byte + sector <= outer.end;
        let mut gaps: Vec<Range<usize>> = Vec::new();
        for byte in around.clone().step_by(sector) {
            if within(&page.valid(), byte) || within(part, byte) {
                continue;
            }
            match gaps.last_mut() {
                Some(gap) if gap.end == byte => gap.end += sector,
                _ => gaps.push(byte..byte + sector),
            }
        }
        let mut found = Vec::new();
        for gap in gaps {
            let mut sectors = AlignedBuf::zeroed(gap.len());
            self.device.read_at(at + gap.start as u64, &mut sectors)?;
            found.push((gap, sectors));
        }
        for (gap, sectors) in found {
            page.fill(gap).copy_from_slice(&sectors);
        }
        Ok(())
    }

    /// Starts writing the dirty pages among `blocks`. Contiguous pages go in one transfer of up to
    /// a cluster.
    pub(crate) fn write_out(&self, stream: &Arc<Stream>, blocks: Range<u64>) -> Result<()> {
        let most = index(stream.cluster * stream.block_bytes());
        let mut from = blocks.start;
        while from < blocks.end {
            let mut state = stream.lock();
            stream.retire(&mut state, self.settings.data.keep);
            let Some(first) = state.pages.range(from..blocks.end).find(|(_, page)| page.is_dirty()) else {
                return Ok(());
            };
            from = *first.0;
            let mut cluster = vec![from];
            let start = first.1.at() + first.1.valid().start as u64;
            let mut end = first.1.at() + first.1.valid().end as u64;
            let mut bytes = first.1.valid().len();
            for (&block, page) in state.pages.range(from + 1..blocks.end) {
                let follows = page.is_dirty() && page.at() + page.valid().start as u64 == end;
                if !follows || bytes + page.valid().len() > most {
                    break;
                }
                end += page.valid().len() as u64;
                bytes += page.valid().len();
                cluster.push(block);
            }
            if self.held.overlaps(&(start..end)) {
                drop(state);
                self.await_release(&(start..end))?;
                continue;
            }
            if let Some(flight) = self.obstacle(&state, &cluster, bytes) {
                drop(state);
                flight.land().map_err(|error| self.fail(error))?;
                continue;
            }
            from = cluster.last().map_or(blocks.end, |last| last + 1);
            self.send(stream, state, &cluster, bytes)?;
        }
        Ok(())
    }

    /// Returns the write that has to end first: one of the same pages, or the oldest if too many
    /// bytes are in flight.
    fn obstacle(&self, state: &State, cluster: &[u64], bytes: usize) -> Option<Arc<Flight>> {
        let same = cluster.iter().find_map(|block| state.pages.get(block).and_then(Page::in_flight));
        same.or_else(|| {
            let limit = self.settings.data.write_limit_bytes?;
            if state.writes_bytes + bytes > limit { state.oldest_write() } else { None }
        })
    }

    /// Submits the write of contiguous dirty pages.
    fn send(
        &self,
        stream: &Stream,
        mut state: MutexGuard<'_, State>,
        cluster: &[u64],
        bytes: usize,
    ) -> Result<()> {
        let mut buf = AlignedBuf::with_capacity(bytes);
        let mut offset = None;
        for block in cluster {
            if let Some(page) = state.pages.get(block) {
                let valid = page.valid();
                offset.get_or_insert(page.at() + valid.start as u64);
                buf.extend_from_slice(page.bytes(valid));
            }
        }
        let flight = Arc::new(Flight::gathering(&self.device, Op::Write));
        for block in cluster {
            if let Some(page) = state.pages.get_mut(block) {
                stream.pool.cleaned(page.sent(Some(flight.clone())));
            }
        }
        state.writes_bytes += bytes;
        state.writes.push_back(Departure { flight: flight.clone(), blocks: cluster.to_vec(), bytes });
        drop(state);
        flight.submit(offset.unwrap_or(0), buf).map_err(|error| self.fail(error))
    }

    /// Waits for all writes of a stream that are in flight.
    pub(crate) fn land_writes(&self, stream: &Stream) -> Result<()> {
        self.landed(stream).map(drop)
    }

    /// Waits for all writes of a stream that are in flight, and returns the stream locked.
    fn landed<'a>(&self, stream: &'a Stream) -> Result<MutexGuard<'a, State>> {
        loop {
            let mut state = stream.lock();
            stream.retire(&mut state, self.settings.data.keep);
            let Some(flight) = state.oldest_write() else { return Ok(state) };
            drop(state);
            flight.land().map_err(|error| self.fail(error))?;
        }
    }

    /// Evicts pages until `bytes` more fit into memory, in bursts as large as the settings say.
    pub(super) fn make_room(&self, bytes: usize) -> Result<()> {
        let data = &self.settings.data;
        let mut capacity = data.capacity_bytes;
        while let Some((stream, block)) = self.pool.victim(capacity, bytes) {
            capacity = data.capacity_bytes.saturating_sub(data.reclaim_bytes);
            self.clock.work(Work::Reclaim);
            self.give_up(&stream, block)?;
        }
        Ok(())
    }

    fn give_up(&self, stream: &Arc<Stream>, block: u64) -> Result<()> {
        loop {
            let mut state = stream.lock();
            stream.retire(&mut state, self.settings.data.keep);
            let Some(page) = state.pages.get_mut(&block) else {
                stream.pool.gone(stream.id, block, 0, false);
                return Ok(());
            };
            if page.is_dirty() {
                drop(state);
                self.write_out(stream, block..block + 1)?;
            } else if let Some(flight) = page.in_flight() {
                drop(state);
                flight.land().map_err(|error| self.fail(error))?;
            } else {
                stream.remove(&mut state, block);
                return Ok(());
            }
        }
    }

    /// Starts writing everything that streams have delayed, neighbours on the device in one
    /// transfer, also those of different files. Returns the streams that had data to write.
    pub(crate) fn start_delayed(&self) -> Result<Vec<Arc<Stream>>> {
        let streams = self.pool.pending();
        let mut dirty = Vec::new();
        for (nth, stream) in streams.iter().enumerate() {
            let mut state = stream.lock();
            state.delay.clear();
            let changed = state.pages.iter().filter(|(_, page)| page.is_dirty());
            dirty.extend(changed.map(|(&block, page)| Dirty {
                at: page.at() + page.valid().start as u64,
                bytes: page.valid().len(),
                nth,
                block,
            }));
        }
        dirty.sort_unstable_by_key(|page| page.at);
        let mut batch = Batch::new(self);
        for run in dirty.chunk_by(|page, next| page.at + page.bytes as u64 == next.at) {
            batch.expected = run.iter().map(|page| page.bytes).sum();
            for page in run {
                batch.add(&streams[page.nth], page.block)?;
            }
        }
        batch.submit()?;
        Ok(streams)
    }

    /// Starts writing what is delayed, and waits for what was started before that, unless another
    /// thread is doing so.
    pub(crate) fn start_early(&self) -> Result<()> {
        let Some(mut started) = self.started.try_lock() else { return Ok(()) };
        let before: Vec<_> = started.iter().filter_map(Weak::upgrade).collect();
        *started = self.start_delayed()?.iter().map(Arc::downgrade).collect();
        self.land_delayed(&before)
    }

    /// Waits for everything that [`Self::start_delayed`] has started.
    pub(crate) fn land_delayed(&self, streams: &[Arc<Stream>]) -> Result<()> {
        for stream in streams {
            let mut state = self.landed(stream)?;
            state.pending = state.is_pending();
            let settled = (!state.pending).then(|| self.pool.settled(stream));
            drop(state);
            drop(settled);
        }
        Ok(())
    }
}

/// A part of a block that is written.
struct Part<'a> {
    block: u64,
    /// Address of the block's first byte on the device.
    at: u64,
    /// The bytes of the block that change.
    range: Range<usize>,
    /// Bytes of space that the block has.
    end: usize,
    /// What they become.
    data: &'a [u8],
}

/// Divides `data`, which goes to `space` of a file, into parts of blocks.
fn parts<'a>(stream: &Stream, space: Space, data: &'a [u8]) -> impl Iterator<Item = Part<'a>> {
    let block_bytes = stream.block;
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == data.len() {
            return None;
        }
        let offset = space.offset + done as u64;
        let block = offset / block_bytes as u64;
        let start = index(offset - block * block_bytes as u64);
        let range = start..(start + data.len() - done).min(block_bytes);
        let at = space.at + done as u64 - start as u64;
        let end = index(space.end - block * block_bytes as u64).min(block_bytes);
        let data = &data[done..done + range.len()];
        done += data.len();
        Some(Part { block, at, range, end, data })
    })
}

/// A page with delayed data.
struct Dirty {
    /// Address of its valid bytes on the device.
    at: u64,
    bytes: usize,
    /// Which of the streams it is of.
    nth: usize,
    block: u64,
}

/// Pages of any files that are neighbours on the device, gathered for one transfer.
struct Batch<'a> {
    cache: &'a Cache,
    flight: Arc<Flight>,
    offset: u64,
    bytes: AlignedBuf,
    /// How many bytes of neighbours are to come: for so many there will be space.
    expected: usize,
}

impl<'a> Batch<'a> {
    fn new(cache: &'a Cache) -> Self {
        let flight = Self::next_flight(cache);
        Self { cache, flight, offset: 0, bytes: AlignedBuf::with_capacity(0), expected: 0 }
    }

    fn next_flight(cache: &Cache) -> Arc<Flight> {
        Arc::new(Flight::gathering(&cache.device, Op::Write))
    }

    /// Adds a page if it is still dirty. If it does not follow the gathered pages, these are
    /// submitted first.
    fn add(&mut self, stream: &Stream, block: u64) -> Result<()> {
        loop {
            let mut guard = stream.lock();
            let state = &mut *guard;
            let Some(page) = state.pages.get_mut(&block).filter(|page| page.is_dirty()) else {
                return Ok(());
            };
            let (at, valid) = (page.at() + page.valid().start as u64, page.valid());
            let under_way = page.in_flight();
            let space = at..at + valid.len() as u64;
            let held = self.cache.held.overlaps(&space);
            let joins = self.bytes.is_empty()
                || (at == self.offset + self.bytes.len() as u64 && valid.len() <= self.bytes.spare());
            if under_way.is_some() || held || !joins {
                drop(guard);
                self.submit()?;
                self.cache.await_release(&space)?;
                if let Some(flight) = under_way {
                    flight.land().map_err(|error| self.cache.fail(error))?;
                }
                continue;
            }
            if self.bytes.is_empty() {
                self.offset = at;
                let bytes = self.expected.min(FLUSH_BYTES).max(valid.len());
                self.bytes = AlignedBuf::with_capacity(bytes);
                self.expected = self.expected.saturating_sub(bytes);
            }
            self.bytes.extend_from_slice(page.bytes(valid.clone()));
            stream.pool.cleaned(page.sent(Some(self.flight.clone())));
            state.writes_bytes += valid.len();
            match state.writes.back_mut() {
                Some(last) if Arc::ptr_eq(&last.flight, &self.flight) => {
                    last.blocks.push(block);
                    last.bytes += valid.len();
                }
                _ => state.writes.push_back(Departure {
                    flight: self.flight.clone(),
                    blocks: vec![block],
                    bytes: valid.len(),
                }),
            }
            return Ok(());
        }
    }

    /// Submits what has been gathered.
    fn submit(&mut self) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::replace(&mut self.bytes, AlignedBuf::with_capacity(0));
        let flight = std::mem::replace(&mut self.flight, Self::next_flight(self.cache));
        flight.submit(self.offset, bytes).map_err(|error| self.cache.fail(error))
    }
}

/// Returns true if all bytes are zero, which a comparison of memory finds fastest.
fn is_zero(data: &[u8]) -> bool {
    const ZEROS: [u8; 4096] = [0; 4096];
    data.chunks(ZEROS.len()).all(|chunk| *chunk == ZEROS[..chunk.len()])
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
