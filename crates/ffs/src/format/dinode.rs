//! An inode in memory: one shape for UFS1, UFS2 and the old formats.
//!
//! [`Dinode::decode`] takes the on-disk bytes apart as the file system's format has them, and
//! [`Dinode::encode`] puts them back over the same bytes, so that what we do not know survives.
//! Block pointers are unchecked addresses until [`crate::Layout::contains`] has seen them.

use crate::format::ckhash::check_hash;
use crate::format::dialect::Dialect;
use crate::format::layout::{InodeFormat, Layout, Version};
use crate::format::ondisk::{DI_CKHASH, Dinode1, Dinode2, NDADDR, NIADDR, SF_SNAPSHOT};
use crate::format::rdev;
use spindle_clock::Timestamp;
use spindle_ondisk::{Endian, Field};
use spindle_vfs::{Error, FileKind, Rdev, Result};

/// Byte offset of the block pointers, which short symbolic links use.
const DI_DB1: usize = 40;
const DI_DB2: usize = 112;
/// Solaris: the 16-bit owner that sends the reader to the 32-bit one.
const UID_LONG: u16 = 0xffff;

/// The inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dinode {
    /// Kind and permission; 0 in a free inode.
    pub mode: u16,
    /// Names.
    pub nlink: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Space held in units of 512 bytes.
    pub blocks: u64,
    /// Last read.
    pub atime: Timestamp,
    /// Data changed.
    pub mtime: Timestamp,
    /// Inode changed.
    pub ctime: Timestamp,
    /// Created (UFS2).
    pub birthtime: Timestamp,
    /// Generation.
    pub r#gen: u32,
    /// File flags.
    pub flags: u32,
    /// Direct blocks, as fragment addresses; 0 for none.
    pub db: [u64; NDADDR],
    /// Indirect blocks.
    pub ib: [u64; NIADDR],
    /// Bytes of extended attributes (UFS2).
    pub extsize: u32,
    /// Blocks of extended attributes (UFS2).
    pub extb: [u64; 2],
    /// Modification count.
    pub modrev: u64,
    /// Depth of a directory, or next unlinked inode (UFS2).
    pub dirdepth: u32,
    /// The target of a symbolic link that stands in the inode.
    pub inline_target: Option<Vec<u8>>,
}

impl Dinode {
    /// Returns a free inode with generation `gen`.
    #[must_use]
    pub const fn free(generation: u32) -> Self {
        const NEVER: Timestamp = Timestamp::new(0, 0);
        Self {
            mode: 0,
            nlink: 0,
            uid: 0,
            gid: 0,
            size: 0,
            blocks: 0,
            atime: NEVER,
            mtime: NEVER,
            ctime: NEVER,
            birthtime: NEVER,
            r#gen: generation,
            flags: 0,
            db: [0; NDADDR],
            ib: [0; NIADDR],
            extsize: 0,
            extb: [0; 2],
            modrev: 0,
            dirdepth: 0,
            inline_target: None,
        }
    }

    /// Returns what it is; `None` if free or of no known kind.
    #[must_use]
    pub const fn kind(&self) -> Option<FileKind> {
        FileKind::from_mode(self.mode as u32)
    }

    /// Returns true for a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind() == Some(FileKind::Directory)
    }

    /// Returns true for a regular file that is marked as a snapshot.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.flags & SF_SNAPSHOT != 0 && self.kind() == Some(FileKind::Regular)
    }

    /// Takes apart the inode at the start of `bytes`.
    #[must_use]
    pub fn decode(bytes: &[u8], layout: &Layout) -> Self {
        let mut inode = match layout.version {
            Version::Ufs1 => Self::decode1(bytes, layout),
            Version::Ufs2 => Self::decode2(bytes, layout.endian),
        };
        let area = &bytes[inline_start(layout)..];
        // Solaris knows one that stands in the inode by its having no blocks, whatever its size.
        let is_short = layout.inode_format != InodeFormat::Sun && inode.size < layout.fs_maxsymlinklen.into();
        let inline = inode.kind() == Some(FileKind::Symlink)
            && (is_short || inode.blocks == 0)
            && inode.size < inline_capacity(layout) as u64
            && layout.fs_maxsymlinklen > 0;
        if inline {
            inode.inline_target = Some(area[..usize::try_from(inode.size).unwrap_or(0)].to_vec());
            inode.db = [0; NDADDR];
            inode.ib = [0; NIADDR];
        }
        inode
    }

    fn decode1(bytes: &[u8], layout: &Layout) -> Self {
        let d = Dinode1::decode(bytes, layout.endian);
        let [old_uid, old_gid] = d.di_oldids;
        let (uid, gid) = match layout.inode_format {
            InodeFormat::Old => (old_uid.into(), old_gid.into()),
            InodeFormat::New => (d.di_uid, d.di_gid),
            InodeFormat::Sun => (
                if old_uid == UID_LONG { d.di_gid } else { old_uid.into() },
                if old_gid == UID_LONG { d.di_modrev[0] } else { old_gid.into() },
            ),
        };
        let time = |secs: i32, nanos: i32| match layout.inode_format {
            // 4.3BSD has spare words where later systems have nanoseconds.
            InodeFormat::Old => Timestamp::new(secs.into(), 0),
            // Solaris counts microseconds there.
            InodeFormat::Sun => timestamp(secs.into(), nanos.saturating_mul(1000)),
            InodeFormat::New => timestamp(secs.into(), nanos),
        };
        Self {
            mode: d.di_mode,
            nlink: d.di_nlink.cast_unsigned(),
            uid,
            gid,
            size: d.di_size,
            blocks: d.di_blocks.into(),
            atime: time(d.di_atime, d.di_atimensec),
            mtime: time(d.di_mtime, d.di_mtimensec),
            ctime: time(d.di_ctime, d.di_ctimensec),
            flags: if layout.inode_format == InodeFormat::New { d.di_flags } else { 0 },
            db: d.di_db.map(|p| u64::from(p.cast_unsigned())),
            ib: d.di_ib.map(|p| u64::from(p.cast_unsigned())),
            modrev: match layout.inode_format {
                InodeFormat::New => quad(d.di_modrev, layout.endian),
                _ => 0,
            },
            ..Self::free(d.di_gen)
        }
    }

    fn decode2(bytes: &[u8], endian: Endian) -> Self {
        let d = Dinode2::decode(bytes, endian);
        Self {
            mode: d.di_mode,
            nlink: d.di_nlink.cast_unsigned(),
            uid: d.di_uid,
            gid: d.di_gid,
            size: d.di_size,
            blocks: d.di_blocks,
            atime: timestamp(d.di_atime, d.di_atimensec),
            mtime: timestamp(d.di_mtime, d.di_mtimensec),
            ctime: timestamp(d.di_ctime, d.di_ctimensec),
            birthtime: timestamp(d.di_birthtime, d.di_birthnsec),
            r#gen: d.di_gen,
            flags: d.di_flags,
            db: d.di_db.map(i64::cast_unsigned),
            ib: d.di_ib.map(i64::cast_unsigned),
            extsize: d.di_extsize,
            extb: d.di_extb.map(i64::cast_unsigned),
            modrev: d.di_modrev,
            dirdepth: d.di_freelink,
            inline_target: None,
        }
    }

    /// Puts the inode over the bytes at the start of `bytes`; with `hashed` also its check-hash.
    pub fn encode(&self, bytes: &mut [u8], layout: &Layout, hashed: bool) {
        match layout.version {
            Version::Ufs1 => self.encode1(bytes, layout),
            Version::Ufs2 => self.encode2(bytes, layout.endian),
        }
        if let Some(target) = &self.inline_target {
            let start = inline_start(layout);
            let area = &mut bytes[start..start + inline_capacity(layout)];
            area.fill(0);
            area[..target.len()].copy_from_slice(target);
        }
        if hashed {
            let hash = check_hash(&bytes[..Dinode2::SIZE], DI_CKHASH);
            hash.put(&mut bytes[DI_CKHASH..], layout.endian);
        }
    }

    fn encode1(&self, bytes: &mut [u8], layout: &Layout) {
        let format = layout.inode_format;
        let mut d = Dinode1::decode(bytes, layout.endian);
        let nanos = |t: Timestamp| match format {
            InodeFormat::Old => 0,
            InodeFormat::Sun => (t.nanos / 1000).cast_signed(),
            InodeFormat::New => t.nanos.cast_signed(),
        };
        d.di_mode = self.mode;
        d.di_nlink = self.nlink.cast_signed();
        d.di_size = self.size;
        d.di_blocks = u32::try_from(self.blocks).unwrap_or(u32::MAX);
        (d.di_atime, d.di_atimensec) = (seconds32(self.atime), nanos(self.atime));
        (d.di_mtime, d.di_mtimensec) = (seconds32(self.mtime), nanos(self.mtime));
        (d.di_ctime, d.di_ctimensec) = (seconds32(self.ctime), nanos(self.ctime));
        d.di_gen = self.r#gen;
        d.di_db = self.db.map(pointer32);
        d.di_ib = self.ib.map(pointer32);
        if format == InodeFormat::New {
            d.di_flags = self.flags;
            d.di_modrev = unquad(self.modrev, layout.endian);
        }
        put_owner(&mut d, format, (self.uid, self.gid));
        d.encode(bytes, layout.endian);
    }

    fn encode2(&self, bytes: &mut [u8], endian: Endian) {
        let old = Dinode2::decode(bytes, endian);
        Dinode2 {
            di_mode: self.mode,
            di_nlink: self.nlink.cast_signed(),
            di_uid: self.uid,
            di_gid: self.gid,
            di_size: self.size,
            di_blocks: self.blocks,
            di_atime: self.atime.secs,
            di_mtime: self.mtime.secs,
            di_ctime: self.ctime.secs,
            di_birthtime: self.birthtime.secs,
            di_mtimensec: self.mtime.nanos.cast_signed(),
            di_atimensec: self.atime.nanos.cast_signed(),
            di_ctimensec: self.ctime.nanos.cast_signed(),
            di_birthnsec: self.birthtime.nanos.cast_signed(),
            di_gen: self.r#gen,
            di_flags: self.flags,
            di_extsize: self.extsize,
            di_extb: self.extb.map(u64::cast_signed),
            di_db: self.db.map(u64::cast_signed),
            di_ib: self.ib.map(u64::cast_signed),
            di_modrev: self.modrev,
            di_freelink: self.dirdepth,
            ..old
        }
        .encode(bytes, endian);
    }

    /// Checks the check-hash of the UFS2 inode at the start of `bytes`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is wrong. Free inodes have none.
    pub fn verify(bytes: &[u8], layout: &Layout, ino: u32) -> Result<()> {
        let d = Dinode2::decode(bytes, layout.endian);
        let hash = check_hash(&bytes[..Dinode2::SIZE], DI_CKHASH);
        if d.di_mode != 0 && d.di_ckhash != hash {
            return Err(Error::corrupt(
                format!(
                    "check-hash {:#010x} is recorded, {hash:#010x} computed, so its attributes and contents may \
                     be wrong",
                    d.di_ckhash
                ),
                format!("inode {ino}"),
            ));
        }
        Ok(())
    }

    /// Returns the device number of a device node.
    #[must_use]
    pub fn rdev(&self, dialect: Dialect) -> Rdev {
        rdev::decode(dialect, [self.db[0], self.db[1]])
    }

    /// Sets the device number of a device node.
    ///
    /// # Errors
    /// [`Error::Overflow`] if the format cannot hold it.
    pub fn set_rdev(&mut self, dialect: Dialect, rdev: Rdev, version: Version) -> Result<()> {
        [self.db[0], self.db[1]] = rdev::encode(dialect, rdev);
        if self.rdev(dialect) == rdev && (version == Version::Ufs2 || self.db[0] >> 32 == 0) {
            Ok(())
        } else {
            Err(Error::Overflow)
        }
    }
}

/// Returns where a short symbolic link stands in the inode.
pub(crate) const fn inline_start(layout: &Layout) -> usize {
    match layout.version {
        Version::Ufs1 => DI_DB1,
        Version::Ufs2 => DI_DB2,
    }
}

/// Returns the bytes that the block pointers take.
pub(crate) const fn inline_capacity(layout: &Layout) -> usize {
    (NDADDR + NIADDR) * layout.pointer_size()
}

fn timestamp(secs: i64, nanos: i32) -> Timestamp {
    // A count outside a second is somebody's garbage; the seconds are still good.
    Timestamp::new(secs, u32::try_from(nanos).ok().filter(|&n| n < 1_000_000_000).unwrap_or(0))
}

fn seconds32(time: Timestamp) -> i32 {
    i32::try_from(time.secs).unwrap_or(if time.secs < 0 { i32::MIN } else { i32::MAX })
}

fn pointer32(pointer: u64) -> i32 {
    word(pointer).cast_signed()
}

/// Returns the low 32 bits.
#[allow(clippy::cast_possible_truncation)] // That is its purpose.
const fn word(n: u64) -> u32 {
    n as u32
}

fn quad(words: [u32; 2], endian: Endian) -> u64 {
    let [a, b] = words.map(u64::from);
    if endian == Endian::Big { a << 32 | b } else { b << 32 | a }
}

fn unquad(value: u64, endian: Endian) -> [u32; 2] {
    let (high, low) = (word(value >> 32), word(value));
    if endian == Endian::Big { [high, low] } else { [low, high] }
}

/// Stores the user and the group of a UFS1 inode.
pub(crate) fn put_owner(d: &mut Dinode1, format: InodeFormat, (uid, gid): (u32, u32)) {
    let short = |id: u32| u16::try_from(id).unwrap_or(UID_LONG);
    match format {
        InodeFormat::Old => d.di_oldids = [short(uid), short(gid)],
        InodeFormat::New => (d.di_uid, d.di_gid) = (uid, gid),
        InodeFormat::Sun => {
            d.di_oldids = [short(uid), short(gid)];
            (d.di_gid, d.di_modrev[0]) = (uid, gid);
        }
    }
}
