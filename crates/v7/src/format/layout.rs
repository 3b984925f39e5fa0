//! Where everything is: a boot block, the super-block, the inodes from block 2, then data to the
//! end.
//!
//! A [`Layout`] is made from a checked super-block; all addresses are computed here.

use crate::format::kind::Format;
use crate::format::ondisk::{Filsys, INODE_SIZE, NADDR, NDIRECT};

/// Address of a block on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block(pub u32);

/// Number of a block within a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lbn(pub u64);

/// The root directory's inode. Inode 1 was meant for bad blocks and stays unused.
pub const ROOT_INO: u16 = 2;
/// First block of the inodes.
pub(crate) const FIRST_INODE_BLOCK: u32 = 2;
/// Number of blocks that a three-byte address can reach.
pub(crate) const MOST_BLOCKS: u32 = 1 << 24;

/// Converts a number to an index: Spindle needs a machine with 64 bits.
#[allow(clippy::cast_possible_truncation)] // Asserted beside it.
pub(crate) const fn index(n: u64) -> usize {
    const { assert!(size_of::<usize>() == size_of::<u64>()) };
    n as usize
}

/// The location of the pointer to a block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PointerAt {
    /// In the inode.
    Direct(usize),
    /// Behind `levels` (1 to 3) indirect blocks, the first of them address `NDIRECT + levels - 1`
    /// of the inode. The indices of the pointers in them, outermost first, are the last `levels` of
    /// `path`.
    Indirect { levels: usize, path: [usize; 3] },
}

/// The checked geometry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The format.
    pub format: Format,
    /// First block of data.
    pub s_isize: u32,
    /// Blocks of the file system.
    pub s_fsize: u32,
}

impl Layout {
    /// Returns the geometry that a super-block describes.
    ///
    /// # Errors
    /// A description of what contradicts the format.
    pub fn new(format: Format, head: &Filsys) -> Result<Self, String> {
        let (s_isize, s_fsize) = (u32::from(head.s_isize), head.s_fsize);
        if s_isize <= FIRST_INODE_BLOCK || s_isize >= s_fsize || s_fsize > MOST_BLOCKS {
            return Err(format!("s_isize {s_isize} and s_fsize {s_fsize} are impossible"));
        }
        Ok(Self { format, s_isize, s_fsize })
    }

    /// Returns the block size in bytes.
    #[must_use]
    pub const fn bsize(&self) -> usize {
        self.format.bsize as usize
    }

    /// Returns the number of addresses in an indirect block.
    #[must_use]
    pub const fn nindir(&self) -> usize {
        self.bsize() / 4
    }

    /// Returns the greatest inode number.
    #[must_use]
    pub fn last_ino(&self) -> u16 {
        u16::try_from((self.s_isize - FIRST_INODE_BLOCK) * self.format.inopb()).unwrap_or(u16::MAX)
    }

    /// Returns the block of an inode, and its byte offset in the block.
    #[must_use]
    pub fn inode_at(&self, ino: u16) -> (Block, usize) {
        let n = u32::from(ino.max(1)) - 1;
        (Block(FIRST_INODE_BLOCK + n / self.format.inopb()), (n % self.format.inopb()) as usize * INODE_SIZE)
    }

    /// Returns the byte on the device at which a block begins.
    #[must_use]
    pub fn byte(&self, block: Block) -> u64 {
        u64::from(block.0) * u64::from(self.format.bsize)
    }

    /// Returns the block of the super-block, and its byte offset in the block.
    #[must_use]
    pub fn superblock_at(&self) -> (Block, usize) {
        let byte = index(self.format.superblock_byte());
        (Block(u32::from(byte >= self.bsize())), byte % self.bsize())
    }

    /// Returns the blocks that can hold data.
    #[must_use]
    pub const fn data_blocks(&self) -> u32 {
        self.s_fsize - self.s_isize
    }

    /// Returns the bytes of the file system.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.byte(Block(self.s_fsize))
    }

    /// Returns the block of a pointer on the disk, if it is in the data area.
    #[must_use]
    pub fn data_block(&self, raw: u32) -> Option<Block> {
        (self.s_isize..self.s_fsize).contains(&raw).then_some(Block(raw))
    }

    /// Returns the number of blocks reached through an address of the inode with `levels` levels of
    /// indirect blocks.
    #[must_use]
    pub(crate) fn span(&self, levels: usize) -> u64 {
        (0..levels).fold(1, |span, _| span * self.nindir() as u64)
    }

    /// Returns the first block of a file behind `levels` levels of indirect blocks.
    #[must_use]
    pub(crate) fn first_behind(&self, levels: usize) -> Lbn {
        Lbn((1..levels).fold(NDIRECT as u64, |first, level| first + self.span(level)))
    }

    /// Returns the size of the largest file in bytes: what the addresses reach and a signed long
    /// holds.
    #[must_use]
    pub fn file_size_max(&self) -> u64 {
        let blocks = (1..=NADDR - NDIRECT).fold(NDIRECT as u64, |sum, levels| sum + self.span(levels));
        (blocks * u64::from(self.format.bsize)).min(0x7fff_ffff)
    }

    /// Returns the block of a file that holds byte `at`, and the offset in that block.
    #[must_use]
    pub fn split(&self, at: u64) -> (Lbn, usize) {
        let bsize = u64::from(self.format.bsize);
        (Lbn(at / bsize), index(at % bsize))
    }

    /// Returns the location of the pointer to block `lbn` of a file; `None` beyond what the
    /// addresses reach.
    pub(crate) fn pointer_at(&self, lbn: Lbn) -> Option<PointerAt> {
        if lbn.0 < NDIRECT as u64 {
            return Some(PointerAt::Direct(index(lbn.0)));
        }
        let n = self.nindir() as u64;
        (1..=NADDR - NDIRECT).find_map(|levels| {
            let rest = lbn.0 - self.first_behind(levels).0;
            let path = [index(rest / (n * n)), index(rest / n % n), index(rest % n)];
            (rest < self.span(levels)).then_some(PointerAt::Indirect { levels, path })
        })
    }
}

/// A set of blocks, one bit for each block.
#[derive(Clone, Debug)]
pub(crate) struct BlockMap(Vec<u64>);

impl BlockMap {
    /// Returns an empty set for the blocks of `layout`.
    pub(crate) fn new(layout: &Layout) -> Self {
        Self(vec![0; layout.s_fsize.div_ceil(64) as usize])
    }

    pub(crate) fn has(&self, block: Block) -> bool {
        self.0[block.0 as usize / 64] >> (block.0 % 64) & 1 != 0
    }

    /// Adds a block; returns false if it was in the set.
    pub(crate) fn enter(&mut self, block: Block) -> bool {
        let fresh = !self.has(block);
        self.0[block.0 as usize / 64] |= 1 << (block.0 % 64);
        fresh
    }

    /// Removes a block; returns false if it was not in the set.
    pub(crate) fn take(&mut self, block: Block) -> bool {
        let had = self.has(block);
        self.0[block.0 as usize / 64] &= !(1 << (block.0 % 64));
        had
    }

    /// Returns the block behind those that it can have.
    pub(crate) fn end(&self) -> u32 {
        u32::try_from(self.0.len() * 64).unwrap_or(u32::MAX)
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: every block of a file has one pointer, in order, up to the last of the largest
    /// file.
    #[test]
    fn places() {
        let layout = Layout { format: Format::V7, s_isize: 10, s_fsize: 1000 };
        let at = |lbn| layout.pointer_at(Lbn(lbn));
        assert_eq!(at(9), Some(PointerAt::Direct(9)));
        assert_eq!(at(10), Some(PointerAt::Indirect { levels: 1, path: [0, 0, 0] }));
        assert_eq!(at(10 + 127), Some(PointerAt::Indirect { levels: 1, path: [0, 0, 127] }));
        assert_eq!(at(10 + 128), Some(PointerAt::Indirect { levels: 2, path: [0, 0, 0] }));
        let last = 10 + 128 + 128 * 128 + 128 * 128 * 128 - 1;
        assert_eq!(at(last), Some(PointerAt::Indirect { levels: 3, path: [127, 127, 127] }));
        assert_eq!(at(last + 1), None);
        assert_eq!(layout.file_size_max(), (last + 1) * 512);
    }

    /// Promise: inode 1 is the first of block 2, sixteen or eight of them are in a block, and the
    /// super-block of System V is at byte 512.
    #[test]
    fn inodes_and_superblock() {
        let v7 = Layout { format: Format::V7, s_isize: 202, s_fsize: 5000 };
        assert_eq!((v7.inode_at(1), v7.inode_at(8)), ((Block(2), 0), (Block(2), 448)));
        assert_eq!((v7.inode_at(9), v7.last_ino()), ((Block(3), 0), 1600));
        assert_eq!(v7.superblock_at(), (Block(1), 0));
        let sysv = Layout { format: Format::sysv(spindle_ondisk::Endian::Big), ..v7 };
        assert_eq!((sysv.inode_at(17), sysv.superblock_at()), ((Block(3), 0), (Block(0), 512)));
    }
}
