//! The inodes (`struct ufs1_dinode` and `struct ufs2_dinode`).

use spindle_ondisk::structure;

/// Direct block pointers in an inode.
pub const NDADDR: usize = 12;
/// Indirect block pointers in an inode.
pub const NIADDR: usize = 3;

/// `di_flags`: a snapshot, whose pointers may be marks.
pub const SF_SNAPSHOT: u32 = 0x0020_0000;
/// The pointers of a snapshot that are marks: `BLK_NOCOPY`, not copied, and `BLK_SNAP`, a hole that
/// is.
pub const SNAPSHOT_MARKS: std::ops::RangeInclusive<u64> = 1..=2;

/// Byte offset of `di_ckhash` in a UFS2 inode.
pub const DI_CKHASH: usize = 244;

structure! {
    /// The UFS1 inode. Short symbolic links stand in `di_db` and `di_ib`.
    pub struct Dinode1: 128 {
        /// Kind and permission.
        0 di_mode: u16,
        /// Names.
        2 di_nlink: i16,
        /// Old formats: 16-bit owner and group (FreeBSD: next unlinked inode or depth).
        4 di_oldids: [u16; 2],
        /// Bytes.
        8 di_size: u64,
        /// Last read, seconds.
        16 di_atime: i32,
        /// Last read, nanoseconds.
        20 di_atimensec: i32,
        /// Data changed, seconds.
        24 di_mtime: i32,
        /// Data changed, nanoseconds.
        28 di_mtimensec: i32,
        /// Inode changed, seconds.
        32 di_ctime: i32,
        /// Inode changed, nanoseconds.
        36 di_ctimensec: i32,
        /// Direct blocks, as fragment addresses.
        40 di_db: [i32; NDADDR],
        /// Indirect blocks.
        88 di_ib: [i32; NIADDR],
        /// File flags.
        100 di_flags: u32,
        /// Space held in units of 512 bytes.
        104 di_blocks: u32,
        /// Generation.
        108 di_gen: u32,
        /// Owner (Sun: shadow inode).
        112 di_uid: u32,
        /// Group (Sun: owner).
        116 di_gid: u32,
        /// Modification count (Sun: group, then flags).
        120 di_modrev: [u32; 2],
    }
}

structure! {
    /// The UFS2 inode. Short symbolic links stand in `di_db` and `di_ib`.
    pub struct Dinode2: 256 {
        /// Kind and permission.
        0 di_mode: u16,
        /// Names.
        2 di_nlink: i16,
        /// Owner.
        4 di_uid: u32,
        /// Group.
        8 di_gid: u32,
        /// Block size of the inode (unused).
        12 di_blksize: u32,
        /// Bytes.
        16 di_size: u64,
        /// Space held in units of 512 bytes.
        24 di_blocks: u64,
        /// Last read, seconds.
        32 di_atime: i64,
        /// Data changed, seconds.
        40 di_mtime: i64,
        /// Inode changed, seconds.
        48 di_ctime: i64,
        /// Created, seconds.
        56 di_birthtime: i64,
        /// Data changed, nanoseconds.
        64 di_mtimensec: i32,
        /// Last read, nanoseconds.
        68 di_atimensec: i32,
        /// Inode changed, nanoseconds.
        72 di_ctimensec: i32,
        /// Created, nanoseconds.
        76 di_birthnsec: i32,
        /// Generation.
        80 di_gen: u32,
        /// Flags of the kernel.
        84 di_kernflags: u32,
        /// File flags.
        88 di_flags: u32,
        /// Bytes of extended attributes.
        92 di_extsize: u32,
        /// Blocks of extended attributes.
        96 di_extb: [i64; 2],
        /// Direct blocks, as fragment addresses.
        112 di_db: [i64; NDADDR],
        /// Indirect blocks.
        208 di_ib: [i64; NIADDR],
        /// Modification count.
        232 di_modrev: u64,
        /// Next unlinked inode, or depth of a directory.
        240 di_freelink: u32,
        /// Check-hash.
        244 di_ckhash: u32,
        /// For later.
        248 di_spare: [u32; 2],
    }
}
