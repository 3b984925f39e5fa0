//! The sizes that follow from block and fragment size alone, and the division into groups.

use super::parameters::{DEV_BSIZE, Format, Resolved};
use crate::format::dialect::Dialect;
use crate::format::ondisk::{Dinode1, Dinode2, SBLOCK_UFS1, SBLOCK_UFS2, SBLOCKSIZE};

/// Longest run of blocks that a group counts (`FS_MAXCONTIG`).
const FS_MAXCONTIG: u32 = 16;

/// Sizes in bytes, places in fragments from the start of a group's structures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub bsize: u32,
    pub fsize: u32,
    pub frag: u32,
    /// Sectors of [`DEV_BSIZE`] in a fragment.
    pub nspf: u32,
    /// Inodes in a block.
    pub inopb: u32,
    pub contigsumsize: u32,
    /// Where the standard superblock stands, in bytes.
    pub sblockloc: u64,
    pub sblkno: u32,
    pub cblkno: u32,
    pub iblkno: u32,
}

impl Frame {
    pub fn new(wishes: &Resolved) -> Self {
        let (bsize, fsize) = (wishes.bsize, wishes.fsize);
        let frag = bsize / fsize;
        let (sblockloc, inode) = match wishes.format {
            Format::Ufs2 => (SBLOCK_UFS2, Dinode2::SIZE),
            _ => (SBLOCK_UFS1, Dinode1::SIZE),
        };
        let blocks = |bytes: u64| u32::try_from(bytes.div_ceil(bsize.into())).unwrap_or(0) * frag;
        let sblkno = blocks(sblockloc + SBLOCKSIZE as u64);
        let cblkno = sblkno + blocks(SBLOCKSIZE as u64);
        // The clusters came with 4.4BSD; Solaris never had them.
        let no_clusters = matches!(wishes.dialect, Dialect::Bsd43 | Dialect::Sun { .. });
        let contigsumsize =
            if no_clusters || wishes.maxcontig == 1 { 0 } else { wishes.maxcontig.min(FS_MAXCONTIG) };
        Self {
            bsize,
            fsize,
            frag,
            nspf: fsize / DEV_BSIZE,
            inopb: bsize / u32::try_from(inode).unwrap_or(1),
            contigsumsize,
            sblockloc,
            sblkno,
            cblkno,
            iblkno: cblkno + frag,
        }
    }
}

/// The division of the file system into groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Groups {
    /// Fragments of the file system.
    pub fs_size: u64,
    pub fs_ncg: u32,
    pub fs_fpg: u32,
    pub fs_ipg: u32,
    /// Bytes used of a group block.
    pub cg_bytes: u32,
}
