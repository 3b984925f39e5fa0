//! The log of Solaris (`sys/fs/ufs_log.h` and `sys/fs/ufs_trans.h`): a block of extents, a head in
//! the first of them, and sectors of 512 bytes whose last 8 number them.

use spindle_ondisk::structure;

/// Bytes of a sector of the log.
pub const LUFS_SECTOR: usize = 512;
/// Bytes of a sector in front of its trailer (`LDL_USABLE_BSIZE`).
pub const LUFS_USABLE: usize = LUFS_SECTOR - SectTrailer::SIZE;
/// Most bytes of a delta (`MAPBLOCKSIZE`).
pub const MAPBLOCKSIZE: i32 = 8192;
/// [`LufsExtents::kind`].
pub const LUFS_EXTENTS: u32 = 0;
/// [`LufsHead::od_version`].
pub const LUFS_VERSION: u32 = 1;

/// Types of deltas.
pub mod delta_type {
    /// The superblock.
    pub const DT_SB: i32 = 1;
    /// A block of pointers, or of a directory.
    pub const DT_AB: i32 = 4;
    /// The same, all zeros, which are not in the log.
    pub const DT_ABZERO: i32 = 5;
    /// The end of a transaction.
    pub const DT_COMMIT: i32 = 10;
    /// Earlier deltas of these bytes do not count any more.
    pub const DT_CANCEL: i32 = 11;
    /// The first number that is none.
    pub const DT_MAX: i32 = 17;
}

structure! {
    /// The beginning of the block of extents (`struct extent_block`).
    pub struct LufsExtents: 20 {
        /// [`LUFS_EXTENTS`].
        0 kind: u32,
        /// The sum of all words of the block, but this one.
        4 chksum: u32,
        /// Number of extents that follow.
        8 nextents: u32,
        /// Bytes in them.
        12 nbytes: u32,
        /// The next such block (unused).
        16 nextbno: u32,
    }
}

structure! {
    /// An extent of the log (`struct extent`), in sectors.
    pub struct LufsExtent: 12 {
        /// Its first sector in the log.
        0 lbno: u32,
        /// Its first sector on the disk.
        4 pbno: u32,
        /// Number of sectors.
        8 nbno: u32,
    }
}

structure! {
    /// The head of the log (`struct ml_odunit`), in its first two sectors. Offsets count bytes of
    /// the log from there.
    pub struct LufsHead: 76 {
        /// [`LUFS_VERSION`].
        0 od_version: u32,
        /// Not 0 if it cannot be believed.
        4 od_badlog: u32,
        /// Bytes of a sector.
        16 od_devbsize: u32,
        /// First byte of the ring.
        20 od_bol_lof: i32,
        /// The byte behind the ring.
        24 od_eol_lof: i32,
        /// Bytes of the two sectors.
        32 od_statesize: u32,
        /// Bytes of the ring.
        36 od_logsize: u32,
        /// The first delta that may not be in its place.
        48 od_head_lof: i32,
        /// Number of its sector.
        52 od_head_ident: u32,
        /// The end, when the head was written.
        56 od_tail_lof: i32,
        /// Number of the sector there.
        60 od_tail_ident: u32,
        /// The sum of the two numbers.
        64 od_chksum: u32,
        /// The transaction at the first delta.
        68 od_head_tid: u32,
    }
}

structure! {
    /// The end of a sector (`struct sect_trailer`).
    pub struct SectTrailer: 8 {
        /// Transaction.
        0 st_tid: u32,
        /// Number of the sector.
        4 st_ident: u32,
    }
}

structure! {
    /// The head of a delta (`struct delta`).
    pub struct Delta: 16 {
        /// First byte on the disk.
        0 d_mof: i64,
        /// Number of bytes.
        8 d_nb: i32,
        /// Its type.
        12 d_typ: i32,
    }
}
