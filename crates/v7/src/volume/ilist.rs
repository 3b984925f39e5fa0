//! Free inodes: the super-block remembers up to [`NICINOD`] of them, a stack; when it is empty, the
//! inodes are searched from the first (`ialloc`, `ifree`). The numbers in the super-block are
//! hints: an inode is free when its mode is 0.

use super::Volume;
use crate::format::dinode::Dinode;
use crate::format::layout::ROOT_INO;
use crate::format::ondisk::{DiskInode, INODE_SIZE, NICINOD};
use crate::volume::free_list::Space;
use crate::volume::tx::{Allocated, Freed, Tx};
use spindle_ondisk::Field;
use spindle_vfs::{Error, Result};

impl Volume {
    /// Allocates a free inode and stores `di` in it, with the generation that the inode has.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is none.
    pub(crate) fn alloc_inode(&self, tx: &Tx<'_>, di: &mut Dinode) -> Result<u16> {
        let mut space = self.space.lock();
        loop {
            let head = &mut space.superblock.head;
            // A damaged count, negative or beyond the array, is treated as an empty list.
            let top = usize::try_from(head.s_ninode).ok().and_then(|count| count.checked_sub(1));
            let Some(top) = top.filter(|&top| top < NICINOD) else {
                self.find_free_inodes(&mut space)?;
                continue;
            };
            head.s_ninode -= 1;
            let ino = head.s_inode[top];
            if (ROOT_INO + 1..=self.layout.last_ino()).contains(&ino) && self.is_free_inode(ino)? {
                di.generation = self.decode_inode(ino)?.generation;
                self.store(tx, ino, di)?;
                space.free_inodes = space.free_inodes.saturating_sub(1);
                tx.note_allocated(Allocated::Inode(ino));
                self.put_superblock(tx, &space)?;
                return Ok(ino);
            }
        }
    }

    /// Fills the super-block's list of free inodes by searching the inodes.
    fn find_free_inodes(&self, space: &mut Space) -> Result<()> {
        let head = &mut space.superblock.head;
        head.s_ninode = 0;
        for ino in ROOT_INO + 1..=self.layout.last_ino() {
            let count = usize::try_from(head.s_ninode).unwrap_or(NICINOD);
            if count == NICINOD {
                break;
            }
            if self.is_free_inode(ino)? {
                head.s_inode[count] = ino;
                head.s_ninode += 1;
            }
        }
        if head.s_ninode == 0 { Err(Error::NoSpace) } else { Ok(()) }
    }

    fn is_free_inode(&self, ino: u16) -> Result<bool> {
        let (block, offset) = self.layout.inode_at(ino);
        let buffer = self.metadata(block)?;
        let free = u16::get(&buffer.read()[offset..], self.layout.format.endian) == 0;
        Ok(free)
    }

    /// Frees an inode when the transaction ends.
    pub(crate) fn free_inode(&self, tx: &Tx<'_>, ino: u16) -> Result<()> {
        // Read the block now: clearing the inode later must not fail.
        self.metadata(self.layout.inode_at(ino).0)?;
        tx.free(Freed::Inode(ino))
    }

    /// Clears an inode, which makes it free.
    pub(crate) fn clear_inode(&self, tx: &spindle_cache::Tx<'_>, ino: u16) -> Result<()> {
        let (block, offset) = self.layout.inode_at(ino);
        let buffer = self.metadata(block)?;
        let range = offset..offset + INODE_SIZE;
        let freed = self.decode_inode(ino)?.freed();
        freed.encode(buffer.write_shared(tx).bytes_mut(range), self.layout.format.endian);
        self.enter_free_inode(tx, ino)
    }

    /// Adds an inode to the super-block's list of free ones.
    pub(crate) fn enter_free_inode(&self, tx: &spindle_cache::Tx<'_>, ino: u16) -> Result<()> {
        let mut space = self.space.lock();
        space.free_inodes += 1;
        let head = &mut space.superblock.head;
        if let Ok(count) = usize::try_from(head.s_ninode)
            && count < NICINOD
        {
            head.s_inode[count] = ino;
            head.s_ninode += 1;
        }
        self.put_superblock(tx, &space)
    }

    /// Counts the free inodes after the root's.
    pub(crate) fn count_free_inodes(&self) -> Result<u32> {
        let first = self.layout.byte(self.layout.inode_at(1).0);
        let mut inodes = vec![0; usize::from(self.layout.last_ino()) * INODE_SIZE];
        self.cache.read_unbuffered(first, &mut inodes)?;
        let mode = |bytes: &[u8]| DiskInode::decode(bytes, self.layout.format.endian).di_mode;
        let behind_root = inodes.chunks_exact(INODE_SIZE).skip(usize::from(ROOT_INO));
        Ok(behind_root.map(|bytes| u32::from(mode(bytes) == 0)).sum())
    }
}
