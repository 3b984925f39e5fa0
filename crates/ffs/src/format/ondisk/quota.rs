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

/// [`Quota2Header::q2h_magic_number`], and `fs_quota_magic` of the superblock.
pub const Q2_HEAD_MAGIC: u32 = 0xb746_915e;

structure! {
    /// Usage and limits of blocks or of inodes in NetBSD's quotas inside the file system
    /// (`struct quota2_val` of `sys/ufs/ufs/quota2.h`).
    #[derive(Default)]
    pub struct Quota2Val: 40 {
        /// Last count that is allowed; all ones for no limit.
        0 q2v_hardlimit: u64,
        /// Last count that starts no grace period; all ones for no limit.
        8 q2v_softlimit: u64,
        /// What is in use.
        16 q2v_cur: u64,
        /// End of the grace period, in seconds since 1970; counts only above the soft limit.
        24 q2v_time: i64,
        /// Length of a grace period in seconds.
        32 q2v_grace: i64,
    }
}

structure! {
    /// The record of a user or a group (`struct quota2_entry`), in the byte order of the file
    /// system.
    #[derive(Default)]
    pub struct Quota2Entry: 96 {
        /// Space, in blocks of 512 bytes.
        0 q2e_block: Quota2Val,
        /// Inodes.
        40 q2e_file: Quota2Val,
        /// Byte of the file at which the next entry of the list begins; 0 at its end.
        80 q2e_next: u64,
        /// The user or group.
        88 q2e_uid: u32,
    }
}

structure! {
    /// The beginning of a file of NetBSD's quotas (`struct quota2_header`). A table of
    /// `q2h_hash_size` heads of lists of entries follows, each 8 bytes, then the entries.
    pub struct Quota2Header: 112 {
        /// [`Q2_HEAD_MAGIC`].
        0 q2h_magic_number: u32,
        /// 0 for users, 1 for groups.
        4 q2h_type: u8,
        /// Bits of an id that say in which list it is.
        5 q2h_hash_shift: u8,
        /// Lists in the table.
        6 q2h_hash_size: u16,
        /// What a new entry gets.
        8 q2h_defentry: Quota2Entry,
        /// Byte of the file at which the first free entry begins; 0 for none.
        104 q2h_free: u64,
    }
}
