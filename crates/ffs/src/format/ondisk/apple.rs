//! The label of Apple's volumes (`struct appleufslabel` of `sys/ufs/ffs/fs.h` of NetBSD), always
//! big-endian.

use spindle_ondisk::structure;

structure! {
    /// The label, in the kibibyte in front of the superblock.
    pub struct AppleLabel: 1024 {
        /// [`AppleLabel::MAGIC`].
        0 ul_magic: u32,
        /// Checksum of the Internet protocols over the label with 0 in this place.
        4 ul_checksum: u16,
        /// [`AppleLabel::VERSION`].
        8 ul_version: u32,
        /// When the volume was made, in seconds since 1970.
        12 ul_time: u32,
        /// Bytes of the name.
        16 ul_namelen: u16,
        /// Name of the volume.
        18 ul_name: [u8; 512],
        /// Identity of the volume.
        532 ul_uuid: u64,
    }
}

impl AppleLabel {
    /// Byte of the file system at which it stands (`APPLEUFS_LABEL_OFFSET`).
    pub const AT: u64 = 7168;
    /// The letters `LABL`.
    pub const MAGIC: u32 = 0x4c41_424c;
    /// The only version.
    pub const VERSION: u32 = 1;
}
