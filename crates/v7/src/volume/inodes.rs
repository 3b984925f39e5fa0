//! Inodes on the device, and the checks of their pointers.

use super::Volume;
use super::tx::Tx;
use crate::format::dinode::Dinode;
use crate::format::layout::{Block, ROOT_INO};
use crate::format::ondisk::INODE_SIZE;
use spindle_cache::Buffer;
use spindle_tree::Unreadable;
use spindle_vfs::{Error, Result};

impl Volume {
    /// Reads an inode from its block. If nobody can change it, an impossible size ends with its
    /// last block.
    ///
    /// # Errors
    /// [`Error::Stale`] if there is no such inode or it is free; [`Error::Corrupt`] if it is
    /// invalid.
    pub(crate) fn read_dinode(&self, ino: u16) -> Result<Dinode> {
        if ino < ROOT_INO || ino > self.layout.last_ino() {
            return Err(Error::Stale);
        }
        let mut di = self.decode_inode(ino)?;
        let damaged = |what: String| Err(Error::corrupt(what, format!("inode {ino}")));
        if di.mode == 0 {
            return Err(Error::Stale);
        }
        if di.kind_in(self.layout.format).is_none() {
            return damaged(format!("mode is {:o}", di.mode));
        }
        if !di.has_blocks() && di.size != 0 {
            self.pass_over(&Error::corrupt(
                format!("a special file of {} bytes, which may be a file whose mode is damaged", di.size),
                format!("inode {ino}"),
            ));
        }
        // What cannot be read is noticed by a read.
        if self.is_read_only()
            && let Ok(Some(end)) = self.names_end(&di)
        {
            self.pass_over(&shorter(ino, di.size, end));
            di.size = end;
        }
        // In a smaller file, what is missing is noticed by a read.
        let is_large = di.size > di.size_max(&self.layout).min(self.layout.size_bytes());
        let least = if is_large {
            di.least_size(&self.layout, &mut |block| Ok(self.metadata(block)?.read().to_vec()))?
        } else {
            None
        };
        if let Some(least) = least {
            let sized = damaged(format!("size is {}, its blocks end at {least}", di.size));
            self.past_damage(sized, Unreadable::Fails)?;
            di.size = least;
        } else if di.has_blocks() && di.size > di.size_max(&self.layout) {
            return damaged(format!("size is {}", di.size));
        }
        Ok(di)
    }

    /// Fails if the size of a directory ends before the names in its blocks do: a new name would be
    /// written over those.
    ///
    /// # Errors
    /// [`Error::Corrupt`] in this case; device errors.
    pub(crate) fn check_end(&self, ino: u16, di: &Dinode) -> Result<()> {
        self.names_end(di)?.map_or(Ok(()), |end| Err(shorter(ino, di.size, end)))
    }

    /// Returns where the names in the blocks of a directory end, if that is behind its size.
    fn names_end(&self, di: &Dinode) -> Result<Option<u64>> {
        let mut read = |block| Ok(self.metadata(block)?.read().to_vec());
        di.names_end(&self.layout, &mut read, &mut |ino| Ok(self.decode_inode(ino)?.mode != 0))
    }

    /// Returns an inode of the disk as it is, also a free one.
    pub(crate) fn decode_inode(&self, ino: u16) -> Result<Dinode> {
        let (block, offset) = self.layout.inode_at(ino);
        Ok(Dinode::decode(&self.metadata(block)?.read()[offset..], self.layout.format.endian))
    }

    /// Writes an inode into its block.
    pub(crate) fn store(&self, tx: &Tx<'_>, ino: u16, di: &Dinode) -> Result<()> {
        let (block, offset) = self.layout.inode_at(ino);
        let range = offset..offset + INODE_SIZE;
        di.encode(self.metadata(block)?.write(tx).bytes_mut(range), self.layout.format.endian);
        Ok(())
    }

    /// Returns the buffer of a block of metadata.
    pub(crate) fn metadata(&self, block: Block) -> Result<Buffer<'_>> {
        Ok(self.cache.get(self.layout.byte(block), self.layout.bsize(), None)?)
    }

    /// Returns the block that a pointer on the disk leads to; `None` for a hole.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it leads out of the data area or, where something can be changed, to a
    /// free block; to read, the free list need not be right.
    pub(crate) fn pointer(&self, raw: u32, ino: u16) -> Result<Option<Block>> {
        if raw == 0 {
            return Ok(None);
        }
        let damaged =
            |what: &str| Error::corrupt(format!("block pointer {raw} {what}"), format!("inode {ino}"));
        let block = self.layout.data_block(raw).ok_or_else(|| damaged("leads outside the data"))?;
        if !self.is_read_only() && self.space.lock().free.has(block) {
            Err(damaged("leads to a free block"))
        } else {
            Ok(Some(block))
        }
    }
}

/// Returns the error of a directory whose size ends before the names in its blocks do.
fn shorter(ino: u16, size: u64, end: u64) -> Error {
    let what = format!("its size is {size}, and its blocks hold names up to {end}");
    Error::corrupt(what, format!("directory inode {ino}"))
}
