//! The bytes of files, read and written block by block.
//!
//! Invariants: the part of the last block beyond the file's size is zero before the file grows over
//! it; the block with the last byte is stored; any other that is missing reads as zeros. The old
//! kernels make no holes at the end either, so where that block is missing, data is lost, and a
//! read that comes to a hole fails.

use crate::format::dinode::Dinode;
use crate::format::layout::{Block, Lbn, index};
use crate::tree::inode::Inode;
use crate::tree::mount::V7;
use crate::volume::bmap::Allocation;
use crate::volume::tx::Tx;
use spindle_cache::{Extent, Space};
use spindle_vfs::{Error, FallocateMode, FileKind, Result, Seek};
use std::collections::HashSet;
use std::ops::Range;

/// The part of one block that a range of bytes covers.
struct Piece {
    lbn: Lbn,
    /// Range of bytes in the block.
    within: Range<usize>,
    /// End of the piece, a byte offset in the file.
    end: u64,
}

impl V7 {
    fn bsize64(&self) -> u64 {
        self.layout().format.bsize.into()
    }

    /// Splits a range of bytes at the boundaries of blocks.
    fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Piece> + use<> {
        let layout = self.layout().clone();
        let mut at = range.start;
        std::iter::from_fn(move || {
            if at >= range.end {
                return None;
            }
            let (lbn, start) = layout.split(at);
            let end = range.end.min((lbn.0 + 1) * u64::from(layout.format.bsize));
            let len = index(end - at);
            at = end;
            Some(Piece { lbn, within: start..start + len, end })
        })
    }

    /// Reads from a file and returns the number of bytes read, fewer at its end.
    pub(crate) fn read_file(&self, inode: &Inode, di: &Dinode, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let want = index(di.size.saturating_sub(offset).min(buf.len() as u64));
        self.volume.cache.read(&inode.stream, di.size, offset, &mut buf[..want], |block, _| {
            let run = self.volume.bmap(inode.ino, di, Lbn(block))?;
            if run.at.is_none() {
                self.check_end(inode.ino, di)?;
            }
            Ok::<_, Error>(Extent { at: run.at.map(|at| self.layout().byte(at)), blocks: run.blocks })
        })?;
        Ok(want)
    }

    /// Checks that the block with the last byte of a file, which has a hole, is there.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is not.
    fn check_end(&self, ino: u16, di: &Dinode) -> Result<()> {
        if di.kind() != Some(FileKind::Regular) || di.size == 0 {
            return Ok(());
        }
        let (last, _) = self.layout().split(di.size - 1);
        if self.volume.bmap(ino, di, last)?.at.is_some() {
            return Ok(());
        }
        let what = format!("its size is {}, and the block with the last byte is missing", di.size);
        Err(Error::corrupt(what, format!("inode {ino}")))
    }

    /// Writes to a file, growing it as needed, and returns the number of bytes written, fewer only
    /// if there is no space. The caller stores the inode.
    pub(crate) fn write_file(
        &self,
        tx: &Tx<'_>,
        inode: &Inode,
        di: &mut Dinode,
        offset: u64,
        data: &[u8],
    ) -> Result<usize> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= self.layout().file_size_max());
        let end = end.ok_or(Error::TooBig)?;
        if offset > di.size {
            self.clear_tail(tx, inode, di)?;
        }
        let mut rest = data;
        for piece in self.pieces(offset..end) {
            let (mark, before) = (tx.savepoint(), di.clone());
            let placed = match self.volume.place(tx, inode.ino, di, piece.lbn) {
                Err(Error::NoSpace) if rest.len() < data.len() => {
                    *di = before;
                    self.volume.roll_back(tx, &mark)?;
                    break;
                }
                placed => placed?,
            };
            let (part, others) = rest.split_at(piece.within.len());
            self.write_block(tx, inode, piece.lbn, placed, piece.within.start, part)?;
            di.size = di.size.max(piece.end);
            rest = others;
        }
        Ok(data.len() - rest.len())
    }

    /// Writes a part of a block; the rest of a fresh block is filled with zeros.
    fn write_block(
        &self,
        tx: &Tx<'_>,
        inode: &Inode,
        lbn: Lbn,
        placed: Allocation,
        start: usize,
        part: &[u8],
    ) -> Result<()> {
        let at = self.layout().byte(placed.at);
        if placed.fresh {
            tx.forget_data_on_rollback(&inode.stream, lbn.0..lbn.0 + 1);
        }
        if placed.fresh && part.len() < self.layout().bsize() {
            self.volume.cache.write_zeros(&inode.stream, tx, lbn.0, at, 0..self.layout().bsize())?;
        }
        Ok(self.volume.cache.write(&inode.stream, tx, self.space_of(lbn, placed.at, start), part)?)
    }

    /// Zeroes the stored parts of a range.
    fn zero_stored(&self, tx: &Tx<'_>, inode: &Inode, di: &Dinode, range: Range<u64>) -> Result<()> {
        self.zero_blocks(tx, inode, di, range, |_| true)
    }

    /// Zeroes the stored parts of a range in the `wanted` blocks. A block that is zeroed in part is
    /// read first and saved for a rollback, which must not need to read. Such blocks come first,
    /// because only they can fail.
    fn zero_blocks(
        &self,
        tx: &Tx<'_>,
        inode: &Inode,
        di: &Dinode,
        range: Range<u64>,
        wanted: impl Fn(Lbn) -> bool,
    ) -> Result<()> {
        let mut whole = Vec::new();
        for Piece { lbn, within, .. } in self.pieces(range).filter(|piece| wanted(piece.lbn)) {
            let Some(at) = self.volume.bmap(inode.ino, di, lbn)?.at else { continue };
            let placed = Allocation { at, fresh: false };
            if within.len() == self.layout().bsize() {
                whole.push((lbn, placed));
                continue;
            }
            let space = self.space_of(lbn, at, 0);
            let mut former = vec![0; self.layout().bsize()];
            // Also the bytes beyond the size, which `read_file` would not return.
            self.volume.cache.read(&inode.stream, space.end, space.offset, &mut former, |_, _| {
                Ok::<_, Error>(Extent { at: Some(space.at), blocks: 1 })
            })?;
            tx.restore_data_on_rollback(&inode.stream, space, former);
            self.write_block(tx, inode, lbn, placed, within.start, &vec![0; within.len()])?;
        }
        let zeros = vec![0; self.layout().bsize()];
        whole.into_iter().try_for_each(|(lbn, placed)| self.write_block(tx, inode, lbn, placed, 0, &zeros))
    }

    /// Returns the space of a block of a file from byte `start` of it on.
    fn space_of(&self, lbn: Lbn, at: Block, start: usize) -> Space {
        let block = lbn.0 * self.bsize64();
        Space {
            offset: block + start as u64,
            at: self.layout().byte(at) + start as u64,
            end: block + self.bsize64(),
        }
    }

    /// Zeroes the last block beyond the size: after truncating, and before growing, because other
    /// systems may have left data there.
    pub(crate) fn clear_tail(&self, tx: &Tx<'_>, inode: &Inode, di: &Dinode) -> Result<()> {
        // The caller will store the inode: that must not fail after the bytes are zeroed.
        self.volume.metadata(self.layout().inode_at(inode.ino).0)?;
        self.zero_stored(tx, inode, di, di.size..di.size.next_multiple_of(self.bsize64()))
    }

    /// Makes a file longer without storing anything but what [`Self::store_end`] does.
    pub(crate) fn extend_file(&self, tx: &Tx<'_>, inode: &Inode, di: &mut Dinode, size: u64) -> Result<()> {
        if size > self.layout().file_size_max() {
            return Err(Error::TooBig);
        }
        self.clear_tail(tx, inode, di)?;
        di.size = size;
        self.store_end(tx, inode, di)
    }

    /// Stores the last block of a file: one that ends in a hole is taken for damaged
    /// ([`Dinode::least_size`]).
    pub(crate) fn store_end(&self, tx: &Tx<'_>, inode: &Inode, di: &mut Dinode) -> Result<()> {
        if di.size == 0 {
            return Ok(());
        }
        let (lbn, _) = self.layout().split(di.size - 1);
        let placed = self.volume.place(tx, inode.ino, di, lbn)?;
        if placed.fresh {
            self.write_block(tx, inode, lbn, placed, 0, &vec![0; self.layout().bsize()])?;
        }
        Ok(())
    }

    /// Allocates, zeroes or frees a range. The caller stores the inode.
    pub(crate) fn fallocate_file(
        &self,
        tx: &Tx<'_>,
        inode: &Inode,
        di: &mut Dinode,
        mode: FallocateMode,
        range: Range<u64>,
    ) -> Result<()> {
        let stored = range.start..range.end.min(di.size);
        match mode {
            FallocateMode::PunchHole => self.punch(tx, inode, di, stored),
            FallocateMode::ZeroRange { keep_size } => {
                // Allocate first: if there is no space, nothing has been zeroed.
                let had = self.stored_blocks(inode, di, stored.clone())?;
                self.fill(tx, inode, di, range, keep_size)?;
                self.zero_blocks(tx, inode, di, stored, |lbn| had.contains(&lbn.0))
            }
            FallocateMode::Allocate { keep_size } => self.fill(tx, inode, di, range, keep_size),
        }
    }

    /// Frees the whole blocks of a range within the file, and zeroes the partial ones at its ends,
    /// also the last one that [`Self::store_end`] stores.
    fn punch(&self, tx: &Tx<'_>, inode: &Inode, di: &mut Dinode, range: Range<u64>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let first = range.start.div_ceil(self.bsize64());
        let last = if range.end == di.size { range.end - 1 } else { range.end };
        let end = last / self.bsize64();
        if first < end {
            self.free_blocks(tx, inode, di, first..end)?;
        }
        let head = range.start..range.end.min(first * self.bsize64());
        let tail = range.end.min(head.end.max(end * self.bsize64()))..range.end;
        self.zero_stored(tx, inode, di, head)?;
        self.zero_stored(tx, inode, di, tail)
    }

    /// Returns the numbers of the blocks of a range that are allocated.
    fn stored_blocks(&self, inode: &Inode, di: &Dinode, range: Range<u64>) -> Result<HashSet<u64>> {
        let mut stored = HashSet::new();
        for Piece { lbn, .. } in self.pieces(range) {
            if self.volume.bmap(inode.ino, di, lbn)?.at.is_some() {
                stored.insert(lbn.0);
            }
        }
        Ok(stored)
    }

    /// Allocates every missing block of a range, filled with zeros. The old checkers would report
    /// blocks beyond the size as damage.
    fn fill(
        &self,
        tx: &Tx<'_>,
        inode: &Inode,
        di: &mut Dinode,
        range: Range<u64>,
        keep_size: bool,
    ) -> Result<()> {
        if range.end > self.layout().file_size_max() {
            return Err(Error::TooBig);
        }
        if keep_size && range.end > di.size {
            return Err(Error::NotSupported);
        }
        let end = range.end;
        if end.saturating_sub(range.start) > u64::from(self.layout().s_fsize) * self.bsize64() {
            return Err(Error::NoSpace);
        }
        for Piece { lbn, .. } in self.pieces(range.start..end) {
            let placed = self.volume.place(tx, inode.ino, di, lbn)?;
            if placed.fresh {
                self.write_block(tx, inode, lbn, placed, 0, &[])?;
            }
        }
        if end > di.size {
            self.clear_tail(tx, inode, di)?;
        }
        di.size = di.size.max(end);
        Ok(())
    }

    /// Returns the next data or hole at or after `offset`.
    pub(crate) fn seek_file(&self, ino: u16, di: &Dinode, offset: u64, what: Seek) -> Result<u64> {
        if offset >= di.size {
            return Err(Error::NoSuchOffset);
        }
        let mut at = offset;
        // A limit, because damaged pointers may lead to the same blocks again and again.
        let mut most = 2 * u64::from(self.layout().s_fsize) + 64;
        while at < di.size {
            most = most
                .checked_sub(1)
                .ok_or_else(|| Error::corrupt("more blocks than there are", format!("inode {ino}")))?;
            let (lbn, _) = self.layout().split(at);
            let run = self.volume.bmap(ino, di, lbn)?;
            if run.at.is_none() {
                self.check_end(ino, di)?;
            }
            if run.at.is_some() == (what == Seek::Data) {
                return Ok(at);
            }
            at = (lbn.0 + run.blocks) * self.bsize64();
        }
        match what {
            Seek::Data => Err(Error::NoSuchOffset),
            Seek::Hole => Ok(di.size),
        }
    }
}
