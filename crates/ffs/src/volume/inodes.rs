//! Inodes on the device: reading and writing them, and what a pointer in one may lead to.

use super::Volume;
use super::tx::Tx;
use crate::format::dinode::Dinode;
use crate::format::layout::ROOT_INO;
use crate::format::ondisk::SF_SNAPSHOT;
use crate::format::short::Extent;
use crate::format::units::{Frag, Lbn};
use crate::volume::bmap::Run;
use rand::Rng;
use spindle_cache::{Buffer, Stream};
use spindle_vfs::{Error, FileKind, Result};
use std::sync::Arc;

impl Volume {
    /// Reads an inode that is in use.
    ///
    /// # Errors
    /// [`Error::Stale`] if it is not, or there is none of this number; [`Error::Corrupt`] if it
    /// cannot be one.
    pub(crate) fn read_inode(&self, ino: u32) -> Result<Dinode> {
        if ino < ROOT_INO || ino >= self.layout.inodes() {
            return Err(Error::Stale);
        }
        let mut di = self.read_dinode(ino)?;
        if di.mode == 0 {
            return Err(Error::Stale);
        }
        if di.kind().is_none() {
            return Err(Error::corrupt(format!("mode is {:o}", di.mode), format!("inode {ino}")));
        }
        if di.flags & SF_SNAPSHOT != 0
            && self.is_read_only()
            && !self.superblock.lock().may_be_snapshot(ino, di.kind(), di.size)
        {
            di.flags &= !SF_SNAPSHOT;
            self.pass_over(&Error::corrupt(
                "it has the flag of a snapshot, and is none",
                format!("inode {ino}"),
            ));
        }
        self.check_dinode(ino, &di)?;
        let has_contents =
            matches!(di.kind(), Some(FileKind::Regular | FileKind::Directory | FileKind::Symlink));
        if !has_contents && di.size != 0 {
            self.pass_over(&Error::corrupt(
                format!("a special file of {} bytes, which may be a file whose mode is damaged", di.size),
                format!("inode {ino}"),
            ));
        }
        if di.is_directory()
            && self.is_read_only()
            && let Some(end) = self.hidden_end(&di)
        {
            self.pass_over(&shorter(ino, di.size, end));
            di.size = end;
        }
        if let Some(end) = self.least_size(ino, &di)? {
            self.pass_over(&Error::corrupt(
                format!("size is {}, its blocks end at {end}", di.size),
                format!("inode {ino}"),
            ));
            di.size = end;
        }
        Ok(di)
    }

    /// Fails if the size of a directory ends before its blocks do: a new name would be written over
    /// those that are there.
    ///
    /// # Errors
    /// [`Error::Corrupt`] in this case.
    pub(crate) fn check_end(&self, ino: u32, di: &Dinode) -> Result<()> {
        self.hidden_end(di).map_or(Ok(()), |end| Err(shorter(ino, di.size, end)))
    }

    /// Returns the size that the blocks of a directory have, if its own is less.
    fn hidden_end(&self, di: &Dinode) -> Option<u64> {
        let Dinode { size, blocks, extsize, db, ib, .. } = di;
        let extent = Extent { size: *size, blocks: *blocks, extsize: *extsize, db, ib };
        let mut read = |at, len| {
            let mut bytes = vec![0; len];
            let read = self.cache.directly(|device| Ok(device.read_at(at, &mut bytes).is_ok()));
            matches!(read, Ok(true)).then_some(bytes)
        };
        extent.hidden(&self.layout, &mut read).map(|hidden| hidden.size)
    }

    /// Returns where the blocks of a file end whose size is damaged: it is longer than the file
    /// system, nobody can change it, and the block with its last byte, which each file has, does
    /// not exist.
    fn least_size(&self, ino: u32, di: &Dinode) -> Result<Option<u64>> {
        let is_long = di.size > self.layout.fs_size << self.layout.fs_fshift;
        let is_snapshot = di.flags & SF_SNAPSHOT != 0;
        if !is_long || !self.is_read_only() || di.kind() != Some(FileKind::Regular) || is_snapshot {
            return Ok(None);
        }
        let last = Lbn((di.size - 1) >> self.layout.fs_bshift);
        match self.bmap(ino, di, last, 1) {
            Ok(Run { at: None, .. }) => Ok(Some(self.end_of_blocks(ino, di)?.unwrap_or(0))),
            // Reading the file says what is wrong with its pointers.
            _ => Ok(None),
        }
    }

    fn read_dinode(&self, ino: u32) -> Result<Dinode> {
        if self.was_never_used(ino) {
            return Err(Error::Stale);
        }
        let (_, offset) = self.layout.ino_to_fsba(ino);
        let buffer = self.inode_buffer(ino)?;
        let bytes = buffer.read();
        if self.hashes.inodes
            && let Err(error) = Dinode::verify(&bytes[offset..], &self.layout, ino)
        {
            // It does not say which bytes are wrong, and most of them say nothing of the contents.
            if !self.is_read_only() {
                return Err(error);
            }
            self.pass_over(&error);
        }
        Ok(Dinode::decode(&bytes[offset..], &self.layout))
    }

    /// Returns true if an inode lies in a block of UFS2 inodes that was never written. Where its
    /// group cannot be read, the inode itself has to say whether it is in use.
    fn was_never_used(&self, ino: u32) -> bool {
        let cgx = self.layout.ino_to_cg(ino);
        match self.view_group(cgx, |group| ino % self.layout.fs_ipg >= group.initediblk()) {
            Ok(never_used) => never_used,
            Err(error) => {
                if !self.note_damage() {
                    log::warn!("{error}: its files are read without it; run a check");
                }
                false
            }
        }
    }

    /// Refuses an inode whose size its format cannot have.
    fn check_dinode(&self, ino: u32, di: &Dinode) -> Result<()> {
        if di.size > self.layout.fs_maxfilesize {
            return Err(Error::corrupt(format!("size is {}", di.size), format!("inode {ino}")));
        }
        let most_ext = 2 * self.layout.fs_bsize;
        if di.extsize > most_ext {
            return Err(Error::corrupt(format!("di_extsize is {}", di.extsize), format!("inode {ino}")));
        }
        if di.is_directory() && di.size > (self.layout.fs_dsize + 1) << self.layout.fs_fshift {
            return Err(Error::corrupt(
                format!("size of a directory is {}", di.size),
                format!("inode {ino}"),
            ));
        }
        Ok(())
    }

    /// Returns the buffer of an inode's block.
    pub(crate) fn inode_buffer(&self, ino: u32) -> Result<Buffer<'_>> {
        let (block, _) = self.layout.ino_to_fsba(ino);
        Ok(self.cache.get(self.layout.byte(block), self.layout.fs_bsize as usize, None)?)
    }

    /// Writes an inode's state into its block.
    pub(crate) fn store(&self, tx: &Tx<'_>, ino: u32, di: &Dinode) -> Result<()> {
        self.preserve_inode(tx, ino)?;
        if self.store_snapshot(tx, ino, di)? {
            return Ok(());
        }
        let (_, offset) = self.layout.ino_to_fsba(ino);
        let buffer = self.inode_buffer(ino)?;
        let range = offset..offset + self.layout.inode_size();
        di.encode(buffer.write(tx).bytes_mut(range), &self.layout, self.hashes.inodes);
        Ok(())
    }

    /// Memory for the data of a file.
    pub(crate) fn new_stream(&self) -> Arc<Stream> {
        self.cache.stream(self.layout.fs_bsize, self.placement.maxcontig)
    }

    /// Fills a block of UFS2 inodes that was never used: free inodes with random generations. That
    /// is no part of the operation that needs the first of them, and stays when it is rolled back.
    pub(crate) fn init_inode_block(&self, tx: &spindle_cache::Tx<'_>, first: u32) -> Result<()> {
        let (block, _) = self.layout.ino_to_fsba(first);
        let (at, len) = (self.layout.byte(block), self.layout.fs_bsize as usize);
        let buffer = self.cache.get_new_for_good(at, len, None, tx)?;
        let mut block = buffer.write_shared(tx);
        for inode in block.bytes_mut(0..len).chunks_exact_mut(self.layout.inode_size()) {
            Dinode::free(self.new_generation()).encode(inode, &self.layout, false);
        }
        drop(block);
        Ok(buffer.precede()?)
    }

    /// Returns the generation of a new file with this number: the one after that of the file
    /// before, as the BSDs count, so that none comes again.
    pub(crate) fn next_generation(&self, ino: u32) -> Result<u32> {
        let (_, offset) = self.layout.ino_to_fsba(ino);
        let buffer = self.inode_buffer(ino)?;
        let before = Dinode::decode(&buffer.read()[offset..], &self.layout).r#gen;
        let next = if before == 0 { 0 } else { before.wrapping_add(1) };
        Ok(if next == 0 { self.new_generation() } else { next })
    }

    /// Returns a generation number: random, never 0.
    pub(crate) fn new_generation(&self) -> u32 {
        self.random.lock().random_range(1..=u32::MAX)
    }

    /// Returns the address of a pointer found on the disk, checked to be `frags` fragments of data;
    /// `None` for a hole.
    pub(crate) fn pointer(&self, raw: u64, frags: u32, ino: u32) -> Result<Option<Frag>> {
        if raw == 0 {
            return Ok(None);
        }
        // How many fragments there are follows from the size, which may be damaged itself: so where
        // a block begins is left to the check.
        let why = if !self.layout.contains(Frag(raw), frags.into()) {
            "leads outside the data"
        } else if self.layout.is_metadata(Frag(raw), frags) {
            "leads outside the data, to structures of the file system: superblocks, groups, inodes"
        } else {
            return Ok(Some(Frag(raw)));
        };
        Err(Error::corrupt(format!("block pointer {raw} {why}"), format!("inode {ino}")))
    }
}

/// Returns the error of a directory whose size ends before its blocks do.
fn shorter(ino: u32, size: u64, end: u64) -> Error {
    let what = format!("its size is {size}, and its blocks hold names up to {end}");
    Error::corrupt(what, format!("directory inode {ino}"))
}
