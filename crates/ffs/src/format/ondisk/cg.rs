//! The cylinder group block (`struct cg`, and `struct ocg` of 4.2BSD and 4.3BSD).

use super::Csum;
use spindle_ondisk::structure;

/// Magic of a cylinder group block.
pub const CG_MAGIC: i32 = 0x09_0255;

structure! {
    /// The head of a cylinder group block; the maps follow at the offsets it states.
    pub struct Cg: 168 {
        /// Historic link.
        0 cg_firstfield: i32,
        /// [`CG_MAGIC`].
        4 cg_magic: i32,
        /// UFS1: last written, seconds.
        8 cg_old_time: i32,
        /// Number of this group.
        12 cg_cgx: u32,
        /// Cylinders in this group.
        16 cg_old_ncyl: i16,
        /// UFS1: inodes in this group.
        18 cg_old_niblk: i16,
        /// Fragments in this group.
        20 cg_ndblk: u32,
        /// Counts.
        24 cg_cs: Csum,
        /// Block used last.
        40 cg_rotor: u32,
        /// Fragment used last.
        44 cg_frotor: u32,
        /// Inode used last.
        48 cg_irotor: u32,
        /// Free runs of 1 to 7 fragments.
        52 cg_frsum: [u32; 8],
        /// Offset of the free blocks per cylinder (i32).
        84 cg_old_btotoff: i32,
        /// Offset of the free blocks per cylinder and rotational position (u16).
        88 cg_old_boff: i32,
        /// Offset of the map of used inodes.
        92 cg_iusedoff: u32,
        /// Offset of the map of free fragments.
        96 cg_freeoff: u32,
        /// Offset of the end of the maps.
        100 cg_nextfreeoff: u32,
        /// Offset of the counts of free clusters, less one entry (i32).
        104 cg_clustersumoff: u32,
        /// Offset of the map of free blocks.
        108 cg_clusteroff: u32,
        /// Blocks in that map.
        112 cg_nclusterblks: u32,
        /// UFS2: inodes in this group.
        116 cg_niblk: u32,
        /// UFS2: inodes that were ever initialised.
        120 cg_initediblk: u32,
        /// Unreferenced inodes (gjournal).
        124 cg_unrefs: u32,
        /// Check-hash of the block.
        132 cg_ckhash: u32,
        /// UFS2: last written, seconds.
        136 cg_time: i64,
    }
}

structure! {
    /// The cylinder group block of [`super::FS_42POSTBLFMT`], with its maps at fixed places.
    pub struct OldCg: 984 {
        /// Last written, seconds.
        8 cg_time: i32,
        /// Number of this group.
        12 cg_cgx: i32,
        /// Cylinders in this group.
        16 cg_ncyl: i16,
        /// Inodes in this group.
        18 cg_niblk: i16,
        /// Fragments in this group.
        20 cg_ndblk: i32,
        /// Counts.
        24 cg_cs: Csum,
        /// Block used last.
        40 cg_rotor: i32,
        /// Fragment used last.
        44 cg_frotor: i32,
        /// Inode used last.
        48 cg_irotor: i32,
        /// Free runs of 1 to 7 fragments.
        52 cg_frsum: [i32; 8],
        /// Free blocks per cylinder.
        84 cg_btot: [i32; 32],
        /// Free blocks per cylinder and rotational position.
        212 cg_b: [[i16; 8]; 32],
        /// Map of used inodes; the map of free fragments follows the magic.
        724 cg_iused: [u8; 256],
        /// [`CG_MAGIC`].
        980 cg_magic: i32,
    }
}
