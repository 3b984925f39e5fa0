//! The bytes of files: in the header while they are few, in data storage else.
//!
//! Invariants: the part of the last block beyond the file's size is zero before the file grows over
//! it; a missing block reads as zeros; immediate data is as long as the file.

use super::mount::Mfs;
use crate::format::extent::Extent;
use crate::format::header::{Contents, Header, MAP_BYTES};
use crate::format::layout::{DataBlock, index};
use crate::tree::inode::Inode;
use crate::volume::tx::Tx;
use spindle_cache::{Space, Stream};
use spindle_vfs::{Error, FallocateMode, Result, Seek};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of log that must be left before one more extent is allocated.
pub(super) const EXTENT_ROOM: usize = 32 * 512;

/// Most bytes that are written at once in place of others.
const MOVED_BYTES: u64 = 16 << 20;

/// A file's number, and its data in memory.
pub(crate) type File<'a> = (u64, &'a Arc<Stream>);

/// A run of blocks that is about to be written.
struct Run {
    /// First block of the file.
    lbn: u64,
    /// Its address.
    at: DataBlock,
    /// Number of blocks.
    blocks: u64,
    /// What is in the blocks.
    holds: Holds,
}

/// What is in a run of blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// The data of the file.
    Data,
    /// Nothing: the blocks have just been allocated in a hole.
    Nothing,
    /// Nothing: they take the place of others, of which this is the first.
    Moved(DataBlock),
}

impl Mfs {
    /// Returns the bytes of a data block of a file.
    pub(crate) fn bsize(&self, di: &Header) -> u64 {
        self.layout().class(di.class.into()).block_bytes()
    }

    /// Returns the pages of a file's stream in each of its blocks: those of all streams are as
    /// large as the smallest block, so that the class of a file in use can be changed.
    fn pages_in_block(&self, di: &Header) -> u64 {
        self.bsize(di) / u64::from(self.layout().smallest_block())
    }

    /// Returns the pages of a file's stream that hold some of its blocks.
    pub(super) fn pages(&self, di: &Header, blocks: &Range<u64>) -> Range<u64> {
        let each = self.pages_in_block(di);
        blocks.start.saturating_mul(each)..blocks.end.saturating_mul(each)
    }

    /// Reads from a file and returns the number of bytes read, fewer at its end.
    pub(crate) fn read_file(
        &self,
        stream: &Arc<Stream>,
        di: &Header,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize> {
        let want = index(di.size.saturating_sub(offset).min(buf.len() as u64));
        if let Contents::Immediate(data) = &di.contents {
            let from = index(offset.min(data.len() as u64));
            buf[..want].copy_from_slice(&data[from..from + want]);
            return Ok(want);
        }
        let (each, page_bytes) = (self.pages_in_block(di), u64::from(self.layout().smallest_block()));
        self.volume.cache.read(stream, di.size, offset, &mut buf[..want], |page, most| {
            let (block, within) = (page / each, page % each);
            let (at, blocks) = di.find(block);
            let at = at.map(|at| self.layout().data_byte(at) + within * page_bytes);
            let pages = blocks.saturating_mul(each) - within;
            Ok::<_, Error>(spindle_cache::Extent { at, blocks: pages.min(most.max(1)) })
        })?;
        Ok(want)
    }

    /// Writes to a file, growing it as needed, and returns the number of bytes written: fewer if
    /// there is no space, or if the rest needs another transaction. The caller stores the header.
    pub(crate) fn write_file(
        &self,
        tx: &Tx<'_>,
        file: File<'_>,
        di: &mut Header,
        offset: u64,
        data: &[u8],
    ) -> Result<usize> {
        let most = self.layout().class(di.class.into()).file_size_max();
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= most).ok_or(Error::TooBig)?;
        if let Contents::Immediate(bytes) = &mut di.contents
            && end <= MAP_BYTES as u64
        {
            let (from, to) = (index(offset), index(end));
            bytes.resize(bytes.len().max(to), 0);
            bytes[from..to].copy_from_slice(data);
            di.size = bytes.len() as u64;
            return Ok(data.len());
        }
        self.volume.hold_header(tx, file.0)?;
        self.spill(tx, file, di)?;
        if offset > di.size {
            self.clear_tail(tx, file, di)?;
        }
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (mark, before) = (tx.savepoint(), di.clone());
            let run = match self.run_at(tx, file, di, at..end) {
                Ok(Some(run)) => run,
                Ok(None) if done > 0 => break,
                Err(Error::NoSpace) if done > 0 => {
                    *di = before;
                    self.volume.roll_back(tx, &mark)?;
                    break;
                }
                Ok(None) => return Err(Error::NoSpace),
                Err(error) => return Err(error),
            };
            let stop = end.min((run.lbn + run.blocks) * self.bsize(di));
            let part = &data[done..index(stop - offset)];
            self.write_run(tx, (file.1, self.bsize(di)), &run, di.size, at, part)?;
            di.size = di.size.max(stop);
            done += part.len();
        }
        Ok(done)
    }

    /// Returns the run of blocks that has the beginning of a range, after allocating it in a hole,
    /// or in place of blocks that are not written over. Returns none if the transaction has no room
    /// to allocate.
    fn run_at(&self, tx: &Tx<'_>, file: File<'_>, di: &mut Header, range: Range<u64>) -> Result<Option<Run>> {
        let lbn = range.start / self.bsize(di);
        let wanted = range.end.div_ceil(self.bsize(di)) - lbn;
        let (former, blocks) = di.find(lbn);
        let mut blocks = blocks.min(wanted);
        if let Some(at) = former {
            let writable;
            (writable, blocks) = self.volume.is_writable(at, blocks);
            if writable {
                return Ok(Some(Run { lbn, at, blocks, holds: Holds::Data }));
            }
        }
        let blocks = blocks.min(self.volume.blocks_for_sums(tx.room().saturating_sub(EXTENT_ROOM)));
        if tx.room() < EXTENT_ROOM || blocks == 0 {
            return Ok(None);
        }
        let goal = di.extents_mut().goal(lbn).map(DataBlock);
        // What is overwritten stays in its class, unless that is read-only.
        let (class, spare) = match former {
            Some(former) if !self.layout().is_read_only(former.class()) => (former.class(), 0),
            _ => (di.class.into(), self.layout().spare_blocks(di.class.into())),
        };
        // What moves is in memory meanwhile.
        let blocks =
            if former.is_some() { blocks.min((MOVED_BYTES / self.bsize(di)).max(1)) } else { blocks };
        let (start, len) = self.volume.alloc_data(tx, class, goal, blocks, spare)?;
        for gone in di.extents_mut().remove(lbn..lbn + len) {
            self.volume.give_up_data(tx, gone.start, gone.len)?;
        }
        di.extents_mut().insert(Extent { lbn, start, len });
        tx.forget_data_on_rollback(file.1, self.pages(di, &(lbn..lbn + len)));
        self.volume.store_overflow(tx, file.0, di)?;
        let holds = former.map_or(Holds::Nothing, Holds::Moved);
        Ok(Some(Run { lbn, at: DataBlock(start), blocks: len, holds }))
    }

    /// Writes to a run of blocks of `bsize` bytes from byte `offset` of a file of `size` bytes on.
    /// The rest of blocks that have just been allocated is zeroed, or gets what the former ones
    /// have.
    fn write_run(
        &self,
        tx: &Tx<'_>,
        (stream, bsize): (&Arc<Stream>, u64),
        run: &Run,
        size: u64,
        offset: u64,
        part: &[u8],
    ) -> Result<()> {
        if self.volume.has_sums() || matches!(run.holds, Holds::Moved(_)) {
            return self.write_whole(tx, (stream, bsize), run, size, offset, part);
        }
        let start = run.lbn * bsize;
        let end = start + run.blocks * bsize;
        let byte = self.layout().data_byte(run.at);
        let write = |from: u64, bytes: &[u8]| {
            let space = Space { offset: from, at: byte + (from - start), end };
            self.volume.cache.write(stream, tx, space, bytes)
        };
        if run.holds == Holds::Data {
            return Ok(write(offset, part)?);
        }
        // A block that gets bytes for a part of it only is zeroed first, so that nothing has to be
        // read around them; and all blocks are written in their order, because only those that
        // follow each other are delayed together.
        let zeros = |from: u64, to: u64| {
            if from < to { write(from, &vec![0; index(to - from)]) } else { Ok(()) }
        };
        let data = |from: u64, to: u64| {
            if from < to { write(from, &part[index(from - offset)..index(to - offset)]) } else { Ok(()) }
        };
        let stop = offset + part.len() as u64;
        let (head, tail) = (offset.next_multiple_of(bsize), stop / bsize * bsize);
        if head > tail {
            zeros(start, end)?;
            return Ok(data(offset, stop)?);
        }
        zeros(start, head)?;
        data(offset, tail)?;
        zeros(tail, end)?;
        Ok(data(tail, stop)?)
    }

    /// Writes to a run of blocks that have checksums or take the place of others: each of them as a
    /// whole.
    fn write_whole(
        &self,
        tx: &Tx<'_>,
        (stream, bsize): (&Arc<Stream>, u64),
        run: &Run,
        size: u64,
        offset: u64,
        part: &[u8],
    ) -> Result<()> {
        let (start, stop) = (run.lbn * bsize, offset + part.len() as u64);
        let blocks = if run.holds == Holds::Data { stop.div_ceil(bsize) - run.lbn } else { run.blocks };
        let mut bytes = vec![0; index(blocks * bsize)];
        let partial = [(offset > start, 0), (!stop.is_multiple_of(bsize), (stop - start) / bsize)];
        for (_, n) in partial.into_iter().filter(|(is_partial, n)| *is_partial && *n < blocks) {
            let at = match run.holds {
                Holds::Data => DataBlock(run.at.0 + n),
                Holds::Moved(first) => DataBlock(first.0 + n),
                Holds::Nothing => continue,
            };
            let block = &mut bytes[index(n * bsize)..index((n + 1) * bsize)];
            self.read_block((stream, bsize), (run.lbn + n, at), size, block)?;
        }
        bytes[index(offset - start)..index(stop - start)].copy_from_slice(part);
        self.volume.hold_sums(tx, run.at, blocks)?;
        if matches!(run.holds, Holds::Moved(_)) {
            // What is in memory has its former address.
            let each = bsize / u64::from(self.layout().smallest_block());
            self.volume.cache.discard(stream, run.lbn * each..(run.lbn + blocks) * each)?;
        }
        let at = self.layout().data_byte(run.at);
        let space = Space { offset: start, at, end: start + blocks * bsize };
        self.volume.cache.write(stream, tx, space, &bytes)?;
        self.volume.set_sums(tx, run.at, &bytes)
    }

    /// Reads a block of a file at its address; zeros beyond the size.
    fn read_block(
        &self,
        (stream, bsize): (&Arc<Stream>, u64),
        (lbn, at): (u64, DataBlock),
        size: u64,
        block: &mut [u8],
    ) -> Result<()> {
        let (offset, page_bytes) = (lbn * bsize, u64::from(self.layout().smallest_block()));
        self.volume.cache.read(stream, offset + bsize, offset, block, |page, _| {
            let skipped = page * page_bytes - offset;
            let at = Some(self.layout().data_byte(at) + skipped);
            Ok::<_, Error>(spindle_cache::Extent { at, blocks: (bsize - skipped) / page_bytes })
        })?;
        block[index(size.saturating_sub(offset).min(bsize))..].fill(0);
        Ok(())
    }

    /// Moves the data of an immediate file to data storage.
    fn spill(&self, tx: &Tx<'_>, file: File<'_>, di: &mut Header) -> Result<()> {
        let Contents::Immediate(bytes) = &di.contents else { return Ok(()) };
        let bytes = bytes.clone();
        di.extents_mut();
        let mut done = 0;
        while done < bytes.len() {
            let range = done as u64..bytes.len() as u64;
            let run = self.run_at(tx, file, di, range.clone())?.ok_or(Error::NoSpace)?;
            let (from, stop) = (range.start, range.end.min((run.lbn + run.blocks) * self.bsize(di)));
            self.write_run(tx, (file.1, self.bsize(di)), &run, 0, from, &bytes[done..index(stop)])?;
            done = index(stop);
        }
        Ok(())
    }

    /// Zeroes the stored parts of a range. A block that is zeroed in part is read first and saved
    /// for a rollback, which must not need to read. Whole blocks that are zeroed in their places
    /// come last, because nothing else can fail then.
    pub(super) fn zero_stored(
        &self,
        tx: &Tx<'_>,
        file: File<'_>,
        di: &mut Header,
        range: Range<u64>,
    ) -> Result<()> {
        let bsize = self.bsize(di);
        let stream = (file.1, bsize);
        let mut whole = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let lbn = at / bsize;
            let (address, blocks) = di.find(lbn);
            let Some(address) = address else {
                at = range.end.min(lbn.saturating_add(blocks).saturating_mul(bsize));
                continue;
            };
            let is_whole = at == lbn * bsize && range.end - at >= bsize;
            let last = if is_whole { lbn + blocks.min((range.end - at) / bsize) } else { lbn + 1 };
            let next = range.end.min(last * bsize);
            let run = self.run_at(tx, file, di, at..next)?.ok_or(Error::NoSpace)?;
            let next = next.min((lbn + run.blocks) * bsize);
            if run.holds == Holds::Data {
                if is_whole {
                    whole.push(run);
                    at = next;
                    continue;
                }
                let space = Space {
                    offset: lbn * bsize,
                    at: self.layout().data_byte(address),
                    end: (lbn + 1) * bsize,
                };
                let mut former = vec![0; index(bsize)];
                // Also the bytes beyond the size, which `read_file` would not return.
                self.read_block(stream, (lbn, address), u64::MAX, &mut former)?;
                tx.restore_data_on_rollback(file.1, space, former);
                self.volume.restore_sum_on_rollback(tx, address)?;
            }
            self.write_run(tx, stream, &run, di.size, at, &vec![0; index(next - at)])?;
            at = next;
        }
        let zeros = vec![0; index(bsize)];
        let single = |run: Run| {
            (0..run.blocks).map(move |n| Run {
                lbn: run.lbn + n,
                at: DataBlock(run.at.0 + n),
                blocks: 1,
                holds: Holds::Data,
            })
        };
        let size = di.size;
        whole
            .into_iter()
            .flat_map(single)
            .try_for_each(|run| self.write_run(tx, stream, &run, size, run.lbn * bsize, &zeros))
    }

    /// Zeroes the last block beyond the size: after truncating, and before growing, because a crash
    /// keeps the size of before and the data of after.
    pub(super) fn clear_tail(&self, tx: &Tx<'_>, file: File<'_>, di: &mut Header) -> Result<()> {
        // The caller will store the header: that must not fail after the bytes are zeroed.
        self.volume.hold_header(tx, file.0)?;
        self.zero_stored(tx, file, di, di.size..di.size.next_multiple_of(self.bsize(di)))
    }

    /// Makes a file longer without storing anything.
    pub(crate) fn extend_file(&self, tx: &Tx<'_>, file: File<'_>, di: &mut Header, size: u64) -> Result<()> {
        if let Contents::Immediate(bytes) = &mut di.contents
            && size <= MAP_BYTES as u64
        {
            bytes.resize(index(size), 0);
        } else {
            self.spill(tx, file, di)?;
            self.clear_tail(tx, file, di)?;
        }
        di.size = size;
        Ok(())
    }

    /// Allocates, zeroes or frees a range. Returns true if nothing is left to be done, which
    /// another transaction can do. The caller stores the header.
    pub(crate) fn fallocate_file(
        &self,
        tx: &Tx<'_>,
        inode: &Inode,
        di: &mut Header,
        mode: FallocateMode,
        range: Range<u64>,
    ) -> Result<bool> {
        let file = (inode.ino, &inode.stream);
        let stored = range.start..range.end.min(di.size).max(range.start);
        match mode {
            FallocateMode::PunchHole => {
                if let Contents::Immediate(bytes) = &mut di.contents {
                    if !stored.is_empty() {
                        bytes[index(stored.start)..index(stored.end)].fill(0);
                    }
                    return Ok(true);
                }
                self.punch_some(tx, inode, di, range)
            }
            FallocateMode::Allocate { keep_size } => self.fill(tx, file, di, range, keep_size, false),
            FallocateMode::ZeroRange { keep_size } => self.fill(tx, file, di, range, keep_size, true),
        }
    }

    /// Returns the number of blocks of a range that a file does not have.
    fn missing_blocks(di: &Header, range: Range<u64>) -> u64 {
        let within =
            |extent: &Extent| extent.end().min(range.end).saturating_sub(extent.lbn.max(range.start));
        range.end - range.start - di.extents().iter().map(within).sum::<u64>()
    }

    /// Allocates every missing block of a range, filled with zeros, and zeroes the others if
    /// `zero`. Returns true if nothing is left to be done.
    fn fill(
        &self,
        tx: &Tx<'_>,
        file: File<'_>,
        di: &mut Header,
        range: Range<u64>,
        keep_size: bool,
        zero: bool,
    ) -> Result<bool> {
        let class = usize::from(di.class);
        if range.end > self.layout().class(class).file_size_max() {
            return Err(Error::TooBig);
        }
        let small = range.end <= MAP_BYTES as u64;
        if let Contents::Immediate(bytes) = &mut di.contents
            && small
        {
            if !keep_size {
                bytes.resize(bytes.len().max(index(range.end)), 0);
                di.size = bytes.len() as u64;
            }
            if zero {
                let end = index(range.end).min(bytes.len());
                bytes[index(range.start).min(end)..end].fill(0);
            }
            return Ok(true);
        }
        let bsize = self.bsize(di);
        // What does not fit is refused before any of it is done.
        let missing = Self::missing_blocks(di, range.start / bsize..range.end.div_ceil(bsize));
        if missing > self.volume.free_data_blocks(class).saturating_sub(self.layout().spare_blocks(class)) {
            let is_read_only = self.layout().is_read_only(class);
            return Err(if is_read_only { Error::ReadOnly } else { Error::NoSpace });
        }
        self.spill(tx, file, di)?;
        let (mut had, mut allocated) = (Vec::new(), false);
        let mut at = range.start;
        while at < range.end {
            let lbn = at / bsize;
            let (address, blocks) = di.find(lbn);
            let next = if address.is_some() {
                let next = range.end.min((lbn + blocks) * bsize);
                had.push(at..next);
                next
            } else {
                let run = match self.run_at(tx, file, di, lbn * bsize..range.end)? {
                    Some(run) => run,
                    // What was allocated is passed over the next time.
                    None if allocated => return Ok(false),
                    None => return Err(Error::NoSpace),
                };
                self.write_run(tx, (file.1, bsize), &run, di.size, lbn * bsize, &[])?;
                allocated = true;
                range.end.min((lbn + run.blocks) * bsize)
            };
            at = next;
        }
        if !keep_size && range.end > di.size {
            self.clear_tail(tx, file, di)?;
            di.size = range.end;
        }
        if zero {
            had.into_iter().try_for_each(|range| self.zero_stored(tx, file, di, range))?;
        }
        Ok(true)
    }

    /// Returns the next data or hole at or after `offset`.
    pub(crate) fn seek_file(&self, di: &Header, offset: u64, what: Seek) -> Result<u64> {
        if offset >= di.size {
            return Err(Error::NoSuchOffset);
        }
        if matches!(di.contents, Contents::Immediate(_)) {
            return Ok(if what == Seek::Data { offset } else { di.size });
        }
        let mut at = offset;
        while at < di.size {
            let lbn = at / self.bsize(di);
            let (address, blocks) = di.find(lbn);
            if address.is_some() == (what == Seek::Data) {
                return Ok(at);
            }
            at = lbn.saturating_add(blocks).saturating_mul(self.bsize(di));
        }
        if what == Seek::Data { Err(Error::NoSuchOffset) } else { Ok(di.size) }
    }
}
