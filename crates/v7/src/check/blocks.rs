//! The repair of the blocks of files: pointers that lead nowhere, and blocks that several pointers
//! lead to.
//!
//! One walk through all files in the order of the check, in which the first pointer to a block has
//! it, and each further one gets a copy: nobody can say whose block it is, so every file keeps its
//! bytes. Where there is no space for a copy, the pointer stays as it is, and so does everything
//! that it leads to ([`Image::change`]). A pointer that leads out of the data area becomes a hole,
//! as does one to an indirect block in which there is nothing but such pointers and zeros.

use super::repair::Image;
use crate::format::dinode::Dinode;
use crate::format::layout::{Block, BlockMap};
use crate::format::ondisk::NDIRECT;
use spindle_ondisk::Field;
use spindle_vfs::Result;

/// Bytes that a repair copies at most: they are kept in memory until all is known. The next repair
/// copies the rest.
pub(super) const COPIED_MAX: u64 = 256 << 20;

/// A walk through all files.
struct Walk<'w, 'a> {
    image: &'w mut Image<'a>,
    /// Blocks that a pointer has already.
    claimed: BlockMap,
    /// Indirect blocks to change in place, when all copies are made.
    in_place: Vec<(Block, Vec<u8>)>,
    /// True if there was no space for a copy.
    is_full: bool,
}

impl Image<'_> {
    /// Repairs the pointers of all files. Returns true if that has changed anything.
    pub(super) fn mend_blocks(&mut self) -> Result<bool> {
        let mut inodes = Vec::new();
        let claimed = BlockMap::new(&self.layout);
        let mut walk = Walk { image: self, claimed, in_place: Vec::new(), is_full: false };
        for ino in 1..=walk.image.layout.last_ino() {
            let di = walk.image.inode(ino)?;
            if !di.claims_blocks(&walk.image.layout) {
                continue;
            }
            let mut addr = di.addr;
            for (n, raw) in addr.iter_mut().enumerate() {
                *raw = walk.pointer(*raw, (n + 1).saturating_sub(NDIRECT))?;
            }
            if addr != di.addr {
                inodes.push((ino, Dinode { addr, ..di }));
            }
        }
        let Walk { in_place, is_full, .. } = walk;
        if is_full {
            self.frozen = self.late.clone();
        }
        let mut changed = !inodes.is_empty();
        for (block, bytes) in in_place {
            changed |= self.change(block, |old| old.copy_from_slice(&bytes))?;
        }
        for (ino, di) in inodes {
            self.put_inode(ino, &di)?;
        }
        Ok(changed)
    }
}

impl Walk<'_, '_> {
    /// Returns what a pointer with `levels` levels of indirect blocks should be.
    fn pointer(&mut self, raw: u32, levels: usize) -> Result<u32> {
        let Some(block) = self.image.layout.data_block(raw) else { return Ok(0) };
        let is_first = !self.claimed.has(block);
        if is_first && levels == 0 {
            self.claimed.enter(block);
            return Ok(raw);
        }
        let before = self.image.read(block)?;
        if levels > 0 && self.leads_nowhere(&before) {
            return Ok(0);
        }
        let place = if is_first {
            self.claimed.enter(block);
            block
        } else {
            self.note_late(block, levels)?;
            let Some(place) = self.image.room_for_copy() else {
                self.is_full = true;
                return Ok(raw);
            };
            place
        };
        let mut after = before.clone();
        if levels > 0 {
            let endian = self.image.layout.format.endian;
            for pointer in after.chunks_exact_mut(u32::SIZE) {
                self.pointer(u32::get(pointer, endian), levels - 1)?.put(pointer, endian);
            }
        }
        if is_first && after == before {
            return Ok(raw);
        }
        // What leads to itself must not be changed where it is, or a repair that is cut has no
        // bytes left to copy.
        let leads_to_itself = is_first && self.image.late.has(block);
        let place = if leads_to_itself { self.image.room_for_copy().unwrap_or(place) } else { place };
        if place == block {
            self.in_place.push((block, after));
        } else {
            self.image.change(place, |bytes| bytes.copy_from_slice(&after))?;
        }
        Ok(place.0)
    }

    /// Returns true if an indirect block has no pointer into the data area.
    fn leads_nowhere(&self, bytes: &[u8]) -> bool {
        let layout = &self.image.layout;
        let mut pointers =
            bytes.chunks_exact(u32::SIZE).map(|pointer| u32::get(pointer, layout.format.endian));
        pointers.all(|raw| layout.data_block(raw).is_none())
    }

    /// Notes that several pointers lead to a block, and to all that it leads to.
    fn note_late(&mut self, block: Block, levels: usize) -> Result<()> {
        if !self.image.late.enter(block) || levels == 0 {
            return Ok(());
        }
        let endian = self.image.layout.format.endian;
        for pointer in self.image.read(block)?.chunks_exact(u32::SIZE) {
            if let Some(below) = self.image.layout.data_block(u32::get(pointer, endian)) {
                self.note_late(below, levels - 1)?;
            }
        }
        Ok(())
    }
}
