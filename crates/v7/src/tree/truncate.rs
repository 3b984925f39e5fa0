//! Freeing blocks: at the ends of files, for punched holes, and of whole inodes.
//!
//! Blocks are freed from the last to the first, as `itrunc` does, so that the free list gives them
//! out again in the order in which the file had them.

use crate::format::dinode::Dinode;
use crate::format::layout::Lbn;
use crate::format::ondisk::{NADDR, NDIRECT};
use crate::tree::inode::Inode;
use crate::tree::mount::V7;
use crate::volume::tx::{Freed, Tx};
use spindle_vfs::Result;
use std::ops::Range;

impl V7 {
    /// Frees the blocks of a range, and the indirect blocks without pointers after that. The caller
    /// stores the inode.
    pub(crate) fn free_blocks(
        &self,
        tx: &Tx<'_>,
        inode: &Inode,
        di: &mut Dinode,
        range: Range<u64>,
    ) -> Result<()> {
        let ino = inode.ino;
        tx.free(Freed::Data(inode.stream.clone(), range.clone()))?;
        for levels in (1..=NADDR - NDIRECT).rev() {
            let Lbn(first) = self.layout().first_behind(levels);
            let n = NDIRECT + levels - 1;
            if di.addr[n] != 0 && first < range.end && range.start < first + self.layout().span(levels) {
                let mut freed = 0;
                let tree = (di.addr[n], levels, first);
                if self.free_tree(tx, ino, tree, &range, &mut freed)? {
                    di.addr[n] = 0;
                }
                di.account(-freed);
            }
        }
        for n in (0..NDIRECT).rev().filter(|&n| range.contains(&(n as u64))) {
            if let Some(block) = self.volume.pointer(di.addr[n], ino)? {
                di.addr[n] = 0;
                self.volume.free(tx, block)?;
                di.account(-1);
            }
        }
        Ok(())
    }

    /// Frees the part of a range below an indirect block with `levels` levels, which begins with
    /// block `first` of the file. Returns true if the indirect block itself was freed.
    fn free_tree(
        &self,
        tx: &Tx<'_>,
        ino: u16,
        (raw, levels, first): (u32, usize, u64),
        range: &Range<u64>,
        freed: &mut i64,
    ) -> Result<bool> {
        let Some(block) = self.volume.pointer(raw, ino)? else { return Ok(true) };
        if levels > 0 {
            let buffer = self.volume.metadata(block)?;
            let pointers: Vec<u32> = {
                let bytes = buffer.read();
                (0..self.layout().nindir()).map(|n| self.volume.get_pointer(&bytes, n)).collect()
            };
            let span = self.layout().span(levels - 1);
            let mut left = pointers.iter().filter(|&&raw| raw != 0).count();
            for (n, &raw) in pointers.iter().enumerate().rev().filter(|(_, raw)| **raw != 0) {
                let first = first + n as u64 * span;
                let outside = first >= range.end || first + span <= range.start;
                if !outside && self.free_tree(tx, ino, (raw, levels - 1, first), range, freed)? {
                    self.volume.put_pointer(&mut buffer.write(tx), n, 0);
                    left -= 1;
                }
            }
            if left > 0 {
                return Ok(false);
            }
        }
        self.volume.free(tx, block)?;
        *freed += 1;
        Ok(true)
    }

    /// Truncates a file to `size` bytes.
    pub(crate) fn shrink(&self, tx: &Tx<'_>, inode: &Inode, di: &mut Dinode, size: u64) -> Result<()> {
        di.size = size;
        self.free_blocks(tx, inode, di, size.div_ceil(self.layout().format.bsize.into())..u64::MAX)?;
        self.clear_tail(tx, inode, di)?;
        self.store_end(tx, inode, di)
    }
}
