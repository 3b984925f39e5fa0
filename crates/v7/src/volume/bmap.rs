//! The mapping from blocks of a file to blocks of the device: ten addresses in the inode, then
//! one, two and three levels of indirect blocks.

use super::Volume;
use crate::format::dinode::Dinode;
use crate::format::layout::{Block, Lbn, PointerAt};
use crate::format::ondisk::NDIRECT;
use crate::volume::tx::Tx;
use spindle_cache::BufferMut;
use spindle_ondisk::Field;
use spindle_vfs::{Error, Result};

/// One block of a file with its address, or a run of missing blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The address; `None` for a hole.
    pub(crate) at: Option<Block>,
    /// Length in blocks.
    pub(crate) blocks: u64,
}

/// The block that was found or allocated for a block of a file.
#[derive(Clone, Copy)]
pub(crate) struct Allocation {
    pub(crate) at: Block,
    /// True if it was just allocated and holds no data of the file.
    pub(crate) fresh: bool,
}

impl Volume {
    /// Returns pointer number `n` of an indirect block.
    pub(crate) fn get_pointer(&self, block: &[u8], n: usize) -> u32 {
        u32::get(&block[n * 4..], self.layout.format.endian)
    }

    /// Sets pointer number `n` of an indirect block.
    pub(crate) fn put_pointer(&self, block: &mut BufferMut<'_>, n: usize, to: u32) {
        to.put(block.bytes_mut(n * 4..n * 4 + 4), self.layout.format.endian);
    }

    /// Returns where block `lbn` of a file is.
    ///
    /// # Errors
    /// [`Error::TooBig`] beyond the last possible block, [`Error::Corrupt`] if a pointer is
    /// invalid.
    pub(crate) fn bmap(&self, ino: u16, di: &Dinode, lbn: Lbn) -> Result<Run> {
        let (levels, path) = match self.layout.pointer_at(lbn).ok_or(Error::TooBig)? {
            PointerAt::Direct(n) => return Ok(Run { at: self.pointer(di.addr[n], ino)?, blocks: 1 }),
            PointerAt::Indirect { levels, path } => (levels, path),
        };
        let mut raw = di.addr[NDIRECT + levels - 1];
        for level in (0..=levels).rev() {
            let Some(block) = self.pointer(raw, ino)? else {
                let behind = lbn.0 - self.layout.first_behind(levels).0;
                let span = self.layout.span(level);
                return Ok(Run { at: None, blocks: span - behind % span });
            };
            if level == 0 {
                return Ok(Run { at: Some(block), blocks: 1 });
            }
            let buffer = self.metadata(block)?;
            let bytes = buffer.read();
            raw = self.get_pointer(&bytes, path[path.len() - level]);
            // It is freed with its last pointer, so it was overwritten, and that is no hole.
            if raw == 0 && bytes.iter().all(|&byte| byte == 0) {
                let what = format!("indirect block {} is zeros: the blocks behind it are lost", block.0);
                return Err(Error::corrupt(what, format!("inode {ino}")));
            }
        }
        Err(Error::corrupt("an indirect block without a level", format!("inode {ino}")))
    }
    /// Finds or allocates block `lbn` of a file, with the indirect blocks that lead to it: all of
    /// them or none. The caller stores the inode, and fills a fresh block.
    ///
    /// # Errors
    /// As [`Self::bmap`], and [`Error::NoSpace`].
    pub(crate) fn place(&self, tx: &Tx<'_>, ino: u16, di: &mut Dinode, lbn: Lbn) -> Result<Allocation> {
        let (levels, path) = match self.layout.pointer_at(lbn).ok_or(Error::TooBig)? {
            PointerAt::Direct(n) => {
                if let Some(at) = self.pointer(di.addr[n], ino)? {
                    return Ok(Allocation { at, fresh: false });
                }
                let at = self.alloc(tx, 1)?[0];
                di.addr[n] = at.0;
                di.account(1);
                return Ok(Allocation { at, fresh: true });
            }
            PointerAt::Indirect { levels, path } => (levels, path),
        };
        let top = NDIRECT + levels - 1;
        let mut raw = di.addr[top];
        let mut held_by = None;
        for level in (0..=levels).rev() {
            if let Some(at) = self.pointer(raw, ino)? {
                if level == 0 {
                    return Ok(Allocation { at, fresh: false });
                }
                let n = path[path.len() - level];
                raw = self.get_pointer(&self.metadata(at)?.read(), n);
                held_by = Some((at, n));
                continue;
            }
            // All further blocks are missing: `level` indirect blocks, the outermost first, and the
            // block itself.
            let blocks = self.alloc(tx, level + 1)?;
            for (pair, level) in blocks.windows(2).zip((1..=level).rev()) {
                let buffer = self.cache.get_new(self.layout.byte(pair[0]), self.layout.bsize(), None, tx)?;
                self.put_pointer(&mut buffer.write(tx), path[path.len() - level], pair[1].0);
            }
            match held_by {
                None => di.addr[top] = blocks[0].0,
                Some((at, n)) => self.put_pointer(&mut self.metadata(at)?.write(tx), n, blocks[0].0),
            }
            di.account(i64::try_from(blocks.len()).unwrap_or(0));
            return Ok(Allocation { at: blocks[level], fresh: true });
        }
        Err(Error::corrupt("an indirect block without a level", format!("inode {ino}")))
    }

    /// Returns the number of blocks of a file with its indirect blocks; for a damaged file, of
    /// those that could be counted. The first call for an inode reads its indirect blocks.
    pub(crate) fn blocks_held(&self, ino: u16, di: &Dinode) -> u64 {
        if !di.has_blocks() {
            return 0;
        }
        di.held.get().copied().unwrap_or_else(|| {
            let mut count = 0;
            for (n, &raw) in di.addr.iter().enumerate() {
                if self.count_tree(ino, raw, (n + 1).saturating_sub(NDIRECT), &mut count).is_err() {
                    break;
                }
            }
            // Another reader may have been faster, with the same result.
            let _ = di.held.set(count);
            count
        })
    }

    /// Adds to `count` the block of a pointer and the blocks of the `levels` levels below it.
    fn count_tree(&self, ino: u16, raw: u32, levels: usize, count: &mut u64) -> Result<()> {
        let Some(block) = self.pointer(raw, ino)? else { return Ok(()) };
        *count += 1;
        if *count > self.layout.data_blocks().into() {
            return Err(Error::corrupt("it holds more blocks than there are", format!("inode {ino}")));
        }
        if levels > 0 {
            let buffer = self.metadata(block)?;
            let bytes = buffer.read();
            for n in 0..self.layout.nindir() {
                self.count_tree(ino, self.get_pointer(&bytes, n), levels - 1, count)?;
            }
        }
        Ok(())
    }

    /// Passes each block that a file has to `visit`, those of indirect blocks too. What cannot be
    /// known is left out, and all beyond as many blocks as there are: pointers lead in circles.
    pub(crate) fn each_held(&self, ino: u16, di: &Dinode, visit: &mut dyn FnMut(Block)) {
        let mut left = self.layout.data_blocks();
        for (n, &raw) in di.addr.iter().enumerate().filter(|_| di.has_blocks()) {
            self.visit_tree(ino, raw, (n + 1).saturating_sub(NDIRECT), &mut left, visit);
        }
    }

    fn visit_tree(&self, ino: u16, raw: u32, levels: usize, left: &mut u32, visit: &mut dyn FnMut(Block)) {
        let (Ok(Some(block)), Some(rest)) = (self.pointer(raw, ino), left.checked_sub(1)) else { return };
        *left = rest;
        visit(block);
        if levels > 0
            && let Ok(buffer) = self.metadata(block)
        {
            let bytes = buffer.read();
            for n in 0..self.layout.nindir() {
                self.visit_tree(ino, self.get_pointer(&bytes, n), levels - 1, left, visit);
            }
        }
    }
}
