//! The free list: which block a file gets next. It is the whole of this file system's layout
//! policy.
//!
//! The super-block holds up to [`NICFREE`] addresses, a stack. When it is full, a freed block takes
//! the fifty in and becomes the only address on the stack, so the first address always leads to the
//! next fifty; when that one is taken, what it holds becomes the stack. An address 0 ends the
//! chain. After mkfs the list follows the interleave; as files come and go it becomes the order in
//! which they went, and new files are scattered over the disk: that is what the paper on the fast
//! file system measures.
//!
//! The list cannot tell a block that is freed twice, so a map of the free blocks, made at mount,
//! stands beside it in memory.

use crate::layout::{Block, BlockMap, Layout};
use crate::mount::V7;
use crate::ondisk::{Filsys, NICFREE};
use crate::superblock::{Superblock, free_addresses, holder};
use crate::tx::{Freed, Taken, Tx};
use spindle_vfs::{Error, Result};

/// What a link of the chain holds: how many addresses, and the addresses.
pub(crate) type Link = (i16, [u32; NICFREE]);

/// The super-block in memory, with what it does not hold itself. Its lock is the last to be taken.
pub(crate) struct Space {
    pub(crate) superblock: Superblock,
    pub(crate) free: BlockMap,
    pub(crate) free_blocks: u32,
    pub(crate) free_inodes: u32,
}

impl Space {
    /// Returns the super-block with the counts of this moment.
    pub(crate) fn current(&self) -> Superblock {
        let mut superblock = self.superblock.clone();
        superblock.tail.s_tfree = self.free_blocks;
        superblock.tail.s_tinode = u16::try_from(self.free_inodes).unwrap_or(u16::MAX);
        superblock
    }
}

/// Follows the chain from the super-block to its end: the blocks in it, and what is wrong with it,
/// if anything. Each block can be in it only once, so it has an end.
pub(crate) fn walk(
    layout: &Layout,
    head: &Filsys,
    mut read: impl FnMut(Block) -> Result<Link>,
) -> (BlockMap, Result<()>) {
    let mut free = BlockMap::new(layout);
    let mut link = (head.s_nfree, head.s_free);
    let mut held_by = None;
    let walked = (|| {
        loop {
            let damaged = |what: String| Error::corrupt(what, holder(held_by));
            let addresses = free_addresses(link.0, &link.1).map_err(damaged)?;
            for (n, &raw) in addresses.iter().enumerate() {
                if n == 0 && raw == 0 {
                    continue;
                }
                let block = layout
                    .data_block(raw)
                    .ok_or_else(|| damaged(format!("address {raw} leads outside the data")))?;
                if !free.enter(block) {
                    return Err(damaged(format!("block {raw} is in it twice")));
                }
            }
            match addresses.first() {
                None | Some(0) => return Ok(()),
                Some(&next) => {
                    held_by = Some(Block(next));
                    link = read(Block(next))?;
                }
            }
        }
    })();
    (free, walked)
}

/// Makes a free list of the blocks for which `is_free` holds, in the order of mkfs and of the old
/// checkers' `-s`: in cylinders of `n` blocks, from each block to the next `m` further on. Gives
/// what goes into the super-block and the number of blocks.
pub(crate) fn interleaved(
    layout: &Layout,
    (m, n): (u16, u16),
    is_free: impl Fn(Block) -> bool,
    mut write: impl FnMut(Block, Link) -> Result<()>,
) -> Result<(Link, u32)> {
    let (m, n) = (usize::from(m).max(1), usize::from(n).max(1));
    let mut order = Vec::with_capacity(n);
    let (mut taken, mut at) = (vec![false; n], 0);
    for _ in 0..n {
        while taken[at] {
            at = (at + 1) % n;
        }
        taken[at] = true;
        order.push(u32::try_from(at + 1).unwrap_or(u32::MAX));
        at = (at + m) % n;
    }
    let (mut count, mut top, mut list) = (0, 1, [0; NICFREE]);
    // The list is a stack, so the last cylinder comes first.
    let cylinders = layout.s_fsize.div_ceil(u32::try_from(n).unwrap_or(u32::MAX));
    for end in (1..=cylinders).rev().map(|cylinder| cylinder * u32::try_from(n).unwrap_or(u32::MAX)) {
        for block in
            order.iter().filter_map(|back| layout.data_block(end - back)).filter(|block| is_free(*block))
        {
            if top == NICFREE {
                write(block, (i16::try_from(top).unwrap_or(0), list))?;
                top = 0;
            }
            list[top] = block.0;
            top += 1;
            count += 1;
        }
    }
    Ok(((i16::try_from(top).unwrap_or(0), list), count))
}

impl V7 {
    /// Reads a link of the chain.
    fn read_link(&self, block: Block) -> Result<Link> {
        let buffer = self.metadata(block)?;
        let link = self.layout.format.decode_link(&buffer.read());
        Ok(link)
    }

    /// Takes blocks off the list, all or none.
    ///
    /// # Errors
    /// [`Error::NoSpace`] where there are not as many.
    pub(crate) fn alloc(&self, tx: &Tx<'_>, count: usize) -> Result<Vec<Block>> {
        let mut space = self.space.lock();
        if (space.free_blocks as usize) < count {
            return Err(Error::NoSpace);
        }
        let mut blocks = Vec::with_capacity(count);
        for _ in 0..count {
            let block = self.pop(&mut space)?;
            tx.took(Taken::Block(block));
            blocks.push(block);
        }
        self.put_superblock(tx, &space)?;
        Ok(blocks)
    }

    fn pop(&self, space: &mut Space) -> Result<Block> {
        let head = &mut space.superblock.head;
        let damaged = |what: &str| Error::corrupt(what, holder(None));
        let top = usize::try_from(head.s_nfree - 1).map_err(|_| damaged("the free list ends too early"))?;
        let block = Block(head.s_free[top]);
        if self.layout.data_block(block.0).is_none() || !space.free.has(block) {
            return Err(damaged("the free list has changed since it was mounted"));
        }
        if top == 0 {
            let (s_nfree, s_free) = self.read_link(block)?;
            free_addresses(s_nfree, &s_free).map_err(|what| Error::corrupt(what, holder(Some(block))))?;
            (head.s_nfree, head.s_free) = (s_nfree, s_free);
            self.cache.forget(self.layout.byte(block));
        } else {
            head.s_nfree -= 1;
        }
        space.free.take(block);
        space.free_blocks -= 1;
        Ok(block)
    }

    /// Gives a block back with the transaction, and its buffer if there is one.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is free.
    pub(crate) fn free(&self, tx: &Tx<'_>, block: Block) -> Result<()> {
        if self.space.lock().free.has(block) {
            return Err(Error::corrupt("a block is freed that is free", format!("block {}", block.0)));
        }
        tx.free(Freed::Block(block))
    }

    /// Puts a block on the list. Nobody has a buffer of it any more.
    pub(crate) fn enter_free(&self, tx: &spindle_cache::Tx<'_>, block: Block) -> Result<()> {
        let mut space = self.space.lock();
        if !space.free.enter(block) {
            return Err(Error::corrupt("a block is freed that is free", format!("block {}", block.0)));
        }
        let head = &mut space.superblock.head;
        if head.s_nfree <= 0 {
            head.s_nfree = 1;
            head.s_free[0] = 0;
        }
        if usize::try_from(head.s_nfree).is_ok_and(|count| count >= NICFREE) {
            let at = self.layout.byte(block);
            let len = self.layout.bsize();
            let buffer = self.cache.get_new_for_good(at, len, None, tx)?;
            let link = (head.s_nfree, head.s_free);
            self.layout.format.encode_link(link, buffer.write_shared(tx).bytes_mut(0..len));
            head.s_nfree = 0;
        }
        let top = usize::try_from(head.s_nfree).unwrap_or(0);
        head.s_free[top] = block.0;
        head.s_nfree += 1;
        space.free_blocks += 1;
        self.put_superblock(tx, &space)
    }

    /// Writes the super-block into its buffer.
    pub(crate) fn put_superblock(&self, tx: &spindle_cache::Tx<'_>, space: &Space) -> Result<()> {
        let (block, offset) = self.layout.superblock_at();
        let range = offset..offset + crate::superblock::SIZE;
        space.current().encode(self.metadata(block)?.write_shared(tx).bytes_mut(range));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;

    /// Promise: with an interleave of 3 the list gives out every third block of a cylinder, from
    /// the first cylinder to the last, each block once.
    #[test]
    fn interleave() {
        let layout = Layout { format: Format::V7, s_isize: 4, s_fsize: 31 };
        let ((nfree, list), count) = interleaved(&layout, (3, 10), |_| true, |_, _| Ok(())).unwrap();
        assert_eq!((nfree, count), (28, 27));
        let taken: Vec<u32> = list[1..28].iter().rev().copied().collect();
        assert_eq!(taken[..6], [5, 8, 4, 7, 6, 9], "{taken:?}");
        assert_eq!(taken[6..9], [12, 15, 18]);
        let mut sorted = taken.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (4..31).collect::<Vec<_>>());
    }
}
