//! The free list: which block a file gets next. This is the only layout policy of this file system.
//!
//! The super-block holds up to [`NICFREE`] addresses, a stack. When it is full, a freed block takes
//! the fifty in and becomes the only address on the stack, so the first address always leads to the
//! next fifty; when that one is taken, what it holds becomes the stack. An address 0 ends the
//! chain. After mkfs the list follows the interleave; as files are created and removed it takes the
//! order of the removals, and new files are scattered over the disk, as the paper on the fast file
//! system measures.
//!
//! The list does not show when a block is freed twice, so a map of the free blocks is made at mount
//! and kept in memory.

use super::Volume;
use crate::format::free_list::Link;
use crate::format::layout::{Block, BlockMap};
use crate::format::ondisk::NICFREE;
use crate::format::superblock::{Superblock, free_addresses, holder};
use crate::volume::tx::{Allocated, Freed, Tx};
use spindle_vfs::{Error, Result};

/// The super-block in memory, with counts and a map that are not in it. Its lock is taken last.
pub(crate) struct Space {
    pub(crate) superblock: Superblock,
    pub(crate) free: BlockMap,
    pub(crate) free_blocks: u32,
    pub(crate) free_inodes: u32,
}

impl Space {
    /// Returns the super-block with the current counts.
    pub(crate) fn current(&self) -> Superblock {
        let mut superblock = self.superblock.clone();
        superblock.tail.s_tfree = self.free_blocks;
        superblock.tail.s_tinode = u16::try_from(self.free_inodes).unwrap_or(u16::MAX);
        superblock
    }
}

impl Volume {
    /// Reads a link of the chain.
    fn read_link(&self, block: Block) -> Result<Link> {
        let buffer = self.metadata(block)?;
        let link = self.layout.format.decode_link(&buffer.read());
        Ok(link)
    }

    /// Takes blocks off the list, all or none.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there are fewer than `count`.
    pub(crate) fn alloc(&self, tx: &Tx<'_>, count: usize) -> Result<Vec<Block>> {
        let mut space = self.space.lock();
        if (space.free_blocks as usize) < count {
            return Err(Error::NoSpace);
        }
        let mut blocks = Vec::with_capacity(count);
        for _ in 0..count {
            let block = self.pop(&mut space)?;
            tx.note_allocated(Allocated::Block(block));
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

    /// Frees a block, and its buffer if there is one, when the transaction ends.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is free already.
    pub(crate) fn free(&self, tx: &Tx<'_>, block: Block) -> Result<()> {
        if self.space.lock().free.has(block) {
            return Err(Error::corrupt("a block is freed that is free", format!("block {}", block.0)));
        }
        tx.free(Freed::Block(block))
    }

    /// Puts a block on the list. It must not have a buffer any more.
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
        let range = offset..offset + crate::format::superblock::SIZE;
        space.current().encode(self.metadata(block)?.write_shared(tx).bytes_mut(range));
        Ok(())
    }
}
