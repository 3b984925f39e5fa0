//! Options of a model.

use spindle_vfs::{AclKind, AtimePolicy, Limits};

/// Options of a model.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// Limits of the format.
    pub limits: Limits,
    /// Block size in bytes, which is also the granularity of holes.
    pub block_bytes: u32,
    /// Number of blocks for the data of files.
    pub blocks: u64,
    /// Number of blocks that only [`spindle_vfs::Privilege::Root`] may use.
    pub reserve_blocks: u64,
    /// Number of inodes.
    pub files: u64,
    /// True to refuse changes.
    pub read_only: bool,
    /// Rule for the access time of files that are read.
    pub atime: AtimePolicy,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            limits: Limits {
                name_max: 255,
                symlink_max: 1023,
                link_max: 32767,
                file_size_max: 1 << 50,
                xattrs: true,
                acls: AclKind::None,
                time_granularity_ns: 1,
                time_range: (-(1 << 40), 1 << 40),
                birthtime: true,
                file_flags: u32::MAX,
                id_max: u32::MAX,
                log: None,
            },
            block_bytes: 4096,
            blocks: 4096,
            reserve_blocks: 256,
            files: 8192,
            read_only: false,
            atime: AtimePolicy::Always,
        }
    }
}

impl ModelOptions {
    /// Returns the limits of an old file system: names of 14 bytes, no symbolic links, seconds,
    /// 16-bit owners.
    #[must_use]
    pub fn old() -> Self {
        let limits = Limits {
            name_max: 14,
            symlink_max: 0,
            link_max: 127,
            file_size_max: (1 << 30) - 1,
            xattrs: false,
            acls: AclKind::None,
            time_granularity_ns: 1_000_000_000,
            time_range: (i64::from(i32::MIN), i64::from(i32::MAX)),
            birthtime: false,
            file_flags: 0,
            id_max: 0xffff,
            log: None,
        };
        Self { limits, block_bytes: 512, blocks: 16384, reserve_blocks: 0, ..Self::default() }
    }
}
