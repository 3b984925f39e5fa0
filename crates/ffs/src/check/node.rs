//! An inode as the check sees it: the fields of both formats in one shape, unchecked.

use crate::format::dinode::{inline_capacity, inline_start};
use crate::format::layout::{InodeFormat, Layout, Version};
use crate::format::ondisk::{Dinode1, Dinode2, NDADDR, NIADDR, SF_SNAPSHOT, SNAPSHOT_MARKS};
use crate::format::short::Extent;
use crate::format::units::index;

/// Kinds of files: the `S_IFMT` bits shifted down by 12, which is also `d_type`.
pub(crate) mod kind {
    pub(crate) const FIFO: u8 = 1;
    pub(crate) const CHR: u8 = 2;
    pub(crate) const DIR: u8 = 4;
    pub(crate) const BLK: u8 = 6;
    pub(crate) const REG: u8 = 8;
    pub(crate) const LNK: u8 = 10;
    /// Solaris: an access control list.
    pub(crate) const SHAD: u8 = 11;
    pub(crate) const SOCK: u8 = 12;
    /// In directories only: a whiteout.
    pub(crate) const WHT: u8 = 14;
}

/// The fields of an inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) mode: u16,
    pub(crate) nlink: u16,
    /// The owner; not of the formats before 4.4BSD.
    pub(crate) uid: u32,
    /// The group; not of the formats before 4.4BSD.
    pub(crate) gid: u32,
    pub(crate) size: u64,
    pub(crate) blocks: u64,
    pub(crate) flags: u32,
    pub(crate) extsize: u32,
    pub(crate) extb: [u64; 2],
    pub(crate) db: [u64; NDADDR],
    pub(crate) ib: [u64; NIADDR],
    pub(crate) depth: u32,
    pub(crate) ckhash: u32,
    /// Solaris: inode of the access control list.
    pub(crate) shadow: u32,
}

impl Node {
    pub(crate) fn decode(layout: &Layout, bytes: &[u8]) -> Self {
        // An address with a sign becomes one far out of range.
        let wide = |p: i32| i64::from(p).cast_unsigned();
        match layout.version {
            Version::Ufs1 => {
                let d = Dinode1::decode(bytes, layout.endian);
                Self {
                    mode: d.di_mode,
                    nlink: d.di_nlink.cast_unsigned(),
                    uid: d.di_uid,
                    gid: d.di_gid,
                    size: d.di_size,
                    blocks: d.di_blocks.into(),
                    flags: if layout.inode_format == InodeFormat::New { d.di_flags } else { 0 },
                    extsize: 0,
                    extb: [0; 2],
                    db: d.di_db.map(wide),
                    ib: d.di_ib.map(wide),
                    depth: 0,
                    ckhash: 0,
                    shadow: if layout.inode_format == InodeFormat::Sun { d.di_uid } else { 0 },
                }
            }
            Version::Ufs2 => {
                let d = Dinode2::decode(bytes, layout.endian);
                Self {
                    mode: d.di_mode,
                    nlink: d.di_nlink.cast_unsigned(),
                    uid: d.di_uid,
                    gid: d.di_gid,
                    size: d.di_size,
                    blocks: d.di_blocks,
                    flags: d.di_flags,
                    extsize: d.di_extsize,
                    extb: d.di_extb.map(i64::cast_unsigned),
                    db: d.di_db.map(i64::cast_unsigned),
                    ib: d.di_ib.map(i64::cast_unsigned),
                    depth: d.di_freelink,
                    ckhash: d.di_ckhash,
                    shadow: 0,
                }
            }
        }
    }

    /// Returns what it says of its space.
    pub(crate) const fn extent(&self) -> Extent<'_> {
        let Self { size, blocks, extsize, db, ib, .. } = self;
        Extent { size: *size, blocks: *blocks, extsize: *extsize, db, ib }
    }

    /// Returns the kind, 0 for a free inode.
    pub(crate) fn kind(&self) -> u8 {
        (self.mode >> 12).to_le_bytes()[0]
    }

    /// Returns a kind that this format knows.
    pub(crate) fn known_kind(&self, layout: &Layout) -> bool {
        use kind::{BLK, CHR, DIR, FIFO, LNK, REG, SHAD, SOCK};
        match self.kind() {
            FIFO | CHR | DIR | BLK | REG | LNK | SOCK => true,
            SHAD => layout.inode_format == InodeFormat::Sun,
            _ => false,
        }
    }

    pub(crate) const fn is_snapshot(&self) -> bool {
        self.flags & SF_SNAPSHOT != 0
    }

    /// Returns true if a pointer points at nothing: at a hole, or in a snapshot at a mark.
    pub(crate) fn is_hole(&self, pointer: u64) -> bool {
        pointer == 0 || (self.is_snapshot() && SNAPSHOT_MARKS.contains(&pointer))
    }

    /// Returns a symbolic link that stands in the pointers. In Solaris and in systems
    /// without a limit it is one that has no blocks.
    pub(crate) fn is_short_link(&self, layout: &Layout) -> bool {
        let limit = match (layout.inode_format, layout.fs_maxsymlinklen) {
            (InodeFormat::New, 1..) => {
                return self.kind() == kind::LNK && self.size < layout.fs_maxsymlinklen.into();
            }
            (InodeFormat::Sun, limit) => u64::from(limit),
            _ => ((NDADDR + NIADDR) * layout.pointer_size()) as u64,
        };
        self.kind() == kind::LNK && self.blocks == 0 && self.size < limit
    }

    /// Returns the target of a short symbolic link, whose inode stands in `bytes`.
    pub(crate) fn short_target<'a>(&self, layout: &Layout, bytes: &'a [u8]) -> &'a [u8] {
        let start = inline_start(layout);
        &bytes[start..start + index(self.size).min(inline_capacity(layout))]
    }

    /// Returns true if the pointers point at blocks.
    pub(crate) fn has_blocks(&self, layout: &Layout) -> bool {
        matches!(self.kind(), kind::DIR | kind::REG | kind::LNK | kind::SHAD) && !self.is_short_link(layout)
    }

    /// Returns a free inode as it should be: nothing in it that could be taken for a file.
    pub(crate) fn is_blank(&self) -> bool {
        self.mode == 0 && self.size == 0 && self.db == [0; NDADDR] && self.ib == [0; NIADDR]
    }
}
