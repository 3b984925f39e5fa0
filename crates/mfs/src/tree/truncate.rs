//! Freeing blocks: at the ends of files, and for punched holes.

use super::file::EXTENT_ROOM;
use super::mount::Mfs;
use crate::format::header::{Contents, Header};
use crate::format::layout::{DataBlock, index};
use crate::tree::inode::Inode;
use crate::volume::tx::{Deferred, Tx};
use spindle_vfs::Result;
use std::ops::Range;

impl Mfs {
    /// Frees the blocks of a range.
    fn free_blocks(&self, tx: &Tx<'_>, inode: &Inode, di: &mut Header, range: Range<u64>) -> Result<()> {
        let pages = self.pages(di, &range);
        let Contents::Extents(extents) = &mut di.contents else { return Ok(()) };
        tx.defer(Deferred::Stream(inode.stream.clone(), pages));
        for gone in extents.remove(range) {
            self.volume.give_up_data(tx, gone.start, gone.len)?;
        }
        // A file that has nothing of a read-only class any more can be written.
        if extents.as_slice().is_empty() && self.layout().is_read_only(di.class.into()) {
            self.leave_read_only(di);
        }
        self.volume.store_overflow(tx, inode.ino, di)
    }

    /// Gives a file without blocks the default class, unless it is too large for that.
    fn leave_read_only(&self, di: &mut Header) {
        if di.size <= self.layout().class(0).file_size_max() {
            di.class = 0;
        }
    }

    /// Returns true if the last block of a file that ends within it is zeroed beyond the end only
    /// when the file grows: it would move, for which there may be no space.
    fn keeps_tail(&self, di: &Header) -> bool {
        let (last, _) = di.find(di.size / self.bsize(di));
        self.volume.has_sums() || last.is_some_and(|at| self.layout().is_read_only(at.class()))
    }

    /// Truncates a file to `size` bytes, from its end, as far as the transaction has room. Returns
    /// true if it has come to `size`; else the file ends where the last block is that is left. The
    /// caller stores the header.
    pub(crate) fn shrink_some(&self, tx: &Tx<'_>, inode: &Inode, di: &mut Header, size: u64) -> Result<bool> {
        if let Contents::Immediate(bytes) = &mut di.contents {
            bytes.truncate(index(size));
            di.size = size;
            return Ok(true);
        }
        let keep = size.div_ceil(self.bsize(di));
        while let Some(last) = di.extents().last().copied().filter(|last| last.end() > keep) {
            if tx.room() < EXTENT_ROOM {
                di.size = di.size.min(last.end() * self.bsize(di));
                return Ok(false);
            }
            // An extent may be longer than a transaction can free.
            let most = u64::try_from((tx.room() - EXTENT_ROOM) / 2048).unwrap_or(1).max(1);
            let each = self.layout().class(DataBlock(last.start).class()).blocks_in_page();
            let from = last.lbn.max(keep).max(last.end().saturating_sub(most * each));
            self.free_blocks(tx, inode, di, from..u64::MAX)?;
        }
        di.size = size;
        if size == 0 {
            di.contents = Contents::Immediate(Vec::new());
            return Ok(true);
        }
        if !self.keeps_tail(di) {
            self.clear_tail(tx, (inode.ino, &inode.stream), di)?;
        }
        Ok(true)
    }

    /// Frees the whole blocks of a range, from its end, as far as the transaction has room, and
    /// zeroes the partial ones at its ends. Returns true if nothing is left to be done.
    pub(super) fn punch_some(
        &self,
        tx: &Tx<'_>,
        inode: &Inode,
        di: &mut Header,
        range: Range<u64>,
    ) -> Result<bool> {
        let bsize = self.bsize(di);
        if range.is_empty() {
            return Ok(true);
        }
        let first = range.start.div_ceil(bsize);
        let end = if range.end >= di.size { range.end.div_ceil(bsize) } else { range.end / bsize };
        if first < end {
            let inside = di.extents().iter().filter(|extent| extent.lbn < end && extent.end() > first);
            let inside: Vec<u64> = inside.map(|extent| extent.lbn).collect();
            // The partial blocks at both ends may move.
            let moves = if self.volume.moves_data() { 3 } else { 0 };
            let most = tx.room().saturating_sub((1 + moves) * EXTENT_ROOM) / 1024;
            if let Some(left) = inside.len().checked_sub(most).filter(|&left| left > 0) {
                // One at least, so that it comes to an end.
                let from = inside[left.min(inside.len() - 1)];
                self.free_blocks(tx, inode, di, from.max(first)..end)?;
                return Ok(false);
            }
            self.free_blocks(tx, inode, di, first..end)?;
        }
        let file = (inode.ino, &inode.stream);
        let head = range.start..range.end.min(first.saturating_mul(bsize));
        let tail = range.end.min(head.end.max(end.saturating_mul(bsize)))..range.end;
        self.zero_stored(tx, file, di, head)?;
        self.zero_stored(tx, file, di, tail)?;
        Ok(true)
    }
}
