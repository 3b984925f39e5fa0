//! Quota files: the array of limits and usage by user or group (`sys/ufs/ufs/quota.h`).

use spindle_ondisk::structure;

/// [`Dqhdr64::dqh_magic`].
pub const Q_DQHDR64_MAGIC: [u8; 8] = *b"QUOTA64\0";
/// [`Dqhdr64::dqh_version`].
pub const Q_DQHDR64_VERSION: u32 = 0x2008_1104;

structure! {
    /// A record of the classic quota file (`struct dqblk32`), in the byte order of its system.
    /// Blocks are sectors of 512 bytes; of id 0 the times are the grace periods.
    pub struct Dqblk32: 32 {
        /// First count of blocks that is refused; 0 for no limit.
        0 dqb_bhardlimit: u32,
        /// First count of blocks that starts the grace period; 0 for no limit.
        4 dqb_bsoftlimit: u32,
        /// Blocks in use.
        8 dqb_curblocks: u32,
        /// First count of inodes that is refused; 0 for no limit.
        12 dqb_ihardlimit: u32,
        /// First count of inodes that starts the grace period; 0 for no limit.
        16 dqb_isoftlimit: u32,
        /// Inodes in use.
        20 dqb_curinodes: u32,
        /// End of the grace period for blocks, in seconds since 1970.
        24 dqb_btime: i32,
        /// End of the grace period for inodes, in seconds since 1970.
        28 dqb_itime: i32,
    }
}

structure! {
    /// The head of FreeBSD's 64-bit quota file, big-endian.
    pub struct Dqhdr64: 64 {
        /// [`Q_DQHDR64_MAGIC`].
        0 dqh_magic: [u8; 8],
        /// [`Q_DQHDR64_VERSION`].
        8 dqh_version: u32,
        /// Bytes of this head.
        12 dqh_hdrlen: u32,
        /// Bytes of a record.
        16 dqh_reclen: u32,
    }
}

structure! {
    /// A record of FreeBSD's 64-bit quota file, big-endian; the fields of [`Dqblk32`].
    pub struct Dqblk64: 64 {
        /// First count of blocks that is refused; 0 for no limit.
        0 dqb_bhardlimit: u64,
        /// First count of blocks that starts the grace period; 0 for no limit.
        8 dqb_bsoftlimit: u64,
        /// Blocks in use.
        16 dqb_curblocks: u64,
        /// First count of inodes that is refused; 0 for no limit.
        24 dqb_ihardlimit: u64,
        /// First count of inodes that starts the grace period; 0 for no limit.
        32 dqb_isoftlimit: u64,
        /// Inodes in use.
        40 dqb_curinodes: u64,
        /// End of the grace period for blocks, in seconds since 1970.
        48 dqb_btime: i64,
        /// End of the grace period for inodes, in seconds since 1970.
        56 dqb_itime: i64,
    }
}
