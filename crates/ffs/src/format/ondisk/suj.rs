//! The journal of FreeBSD's soft updates: records of [`JREC_SIZE`] bytes in the file [`SUJ_FILE`]
//! (`struct jsegrec` to `struct jtrncrec` of `sys/ufs/ffs/fs.h`), in the byte order of the file
//! system.

use spindle_ondisk::structure;

/// Name of the journal in the root directory.
pub const SUJ_FILE: &[u8] = b".sujournal";
/// Smallest journal in bytes.
pub const SUJ_MIN: u64 = 4 << 20;
/// Bytes of a record, the head of a segment included.
pub const JREC_SIZE: usize = 32;

/// `di_flags`: cannot be changed.
pub const SF_IMMUTABLE: u32 = 0x0002_0000;
/// `di_flags`: cannot be removed.
pub const SF_NOUNLINK: u32 = 0x0010_0000;

/// Operations of the journal, the first word of each record.
pub mod jop {
    /// A name is added.
    pub const ADDREF: u32 = 1;
    /// A name is removed.
    pub const REMREF: u32 = 2;
    /// Fragments are allocated.
    pub const NEWBLK: u32 = 3;
    /// Fragments, or an indirect block with all below it, are freed.
    pub const FREEBLK: u32 = 4;
    /// A name moves within its directory.
    pub const MVREF: u32 = 5;
    /// A file is cut.
    pub const TRUNC: u32 = 6;
    /// A file is durable: what the journal said of its length is done.
    pub const SYNC: u32 = 7;
}

structure! {
    /// The head of a segment, repeated in each of its sectors.
    pub struct JsegRec: 32 {
        /// Number of the segment.
        0 jsr_seq: u64,
        /// Number of the oldest segment that is not done.
        8 jsr_oldest: u64,
        /// Records, without the heads.
        16 jsr_cnt: u16,
        /// Sectors of the device.
        18 jsr_blocks: u16,
        /// For a checksum; the kernel writes 0.
        20 jsr_crc: u32,
        /// `fs_mtime` of the mount that has written it.
        24 jsr_time: i64,
    }
}

structure! {
    /// A name that is added or removed.
    pub struct JrefRec: 32 {
        /// Operation.
        0 jr_op: u32,
        /// Inode.
        4 jr_ino: u32,
        /// Directory.
        8 jr_parent: u32,
        /// Names before.
        12 jr_nlink: u16,
        /// Mode.
        14 jr_mode: u16,
        /// Byte of the entry in the directory.
        16 jr_diroff: i64,
        /// For later.
        24 jr_unused: u64,
    }
}

structure! {
    /// A name that moves within its directory.
    pub struct JmvRec: 32 {
        /// Operation.
        0 jm_op: u32,
        /// Inode.
        4 jm_ino: u32,
        /// Directory.
        8 jm_parent: u32,
        /// For later.
        12 jm_unused: u16,
        /// Byte of the entry before.
        16 jm_oldoff: i64,
        /// Byte of the entry afterwards.
        24 jm_newoff: i64,
    }
}

structure! {
    /// Fragments that are allocated or freed.
    pub struct JblkRec: 32 {
        /// Operation.
        0 jb_op: u32,
        /// Inode.
        4 jb_ino: u32,
        /// First fragment.
        8 jb_blkno: i64,
        /// Block of the file; negative for indirect blocks and extended attributes.
        16 jb_lbn: i64,
        /// Fragments.
        24 jb_frags: u16,
        /// Fragments that it had before.
        26 jb_oldfrags: u16,
        /// For later.
        28 jb_unused: u32,
    }
}

structure! {
    /// A file that is cut, or is durable.
    pub struct JtrncRec: 32 {
        /// Operation.
        0 jt_op: u32,
        /// Inode.
        4 jt_ino: u32,
        /// Bytes of the file afterwards.
        8 jt_size: i64,
        /// Bytes of its extended attributes afterwards.
        16 jt_extsize: u32,
        /// For later.
        20 jt_pad: [u32; 3],
    }
}
