//! Where everything is: the geometry of a file system, checked once, computed with ever after.
//!
//! A [`Layout`] comes only out of [`Layout::check`], which refuses every superblock whose numbers
//! contradict each other or the size of the device. After that no address computed here can leave
//! the file system, divide by zero or overflow. Masks and shifts are derived, never taken from the
//! disk.
//!
//! Addresses follow the macros of `fs.h`: group `c` owns fragments `cgbase(c) .. cgbase(c + 1)`;
//! its structures start at `cgstart(c)`, which UFS1 shifts from group to group so that the
//! superblock copies spiral down the pack (paper, section 3).

use crate::format::beside::{DIRBLKSIZ, LARGE_DIRBLKSIZ};
use crate::format::dialect::Dialect;
use crate::format::ondisk::{
    Cg, Dinode1, Dinode2, FS_42INODEFMT, FS_44INODEFMT, FS_HPUX_4GB, FS_HPUX_FEATURES, FS_HPUX_LFN,
    FS_UFS1_MAGIC, FS_UFS2_MAGIC, FS_UFS2EA_MAGIC, Fs, FsSun, NDADDR, NIADDR, OldCg, SBLOCKSIZE, flags,
};
use crate::format::rotation::Rotation;
use crate::format::units::{Frag, Lbn};
use spindle_ondisk::Endian;
use spindle_vfs::{Error, Result};

/// Smallest block in bytes (paper, section 3).
pub const MINBSIZE: u32 = 4096;
/// The root directory's inode.
pub const ROOT_INO: u32 = 2;

/// Symbolic links of UFS1 shorter than this stand in the inode (`APPLEUFS_MAXSYMLINKLEN`).
const MAXSYMLINKLEN_UFS1: u32 = 60;

/// Largest block in bytes.
pub const MAXBSIZE: u32 = 65536;

/// Format of the superblock, groups and inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub enum Version {
    /// 32-bit addresses, 128-byte inodes.
    Ufs1,
    /// 64-bit addresses, 256-byte inodes, birth times, extended attributes.
    Ufs2,
}

/// Format of the owners in a UFS1 inode, and of the types of names in directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub enum InodeFormat {
    /// 16-bit owners, 16-bit name lengths (4.2BSD, 4.3BSD).
    Old,
    /// 32-bit owners, kinds in directories (4.4BSD, and UFS2).
    New,
    /// Solaris: 32-bit owners at places of its own, 16-bit name lengths.
    Sun,
}

impl InodeFormat {
    /// Returns the format that a superblock says, which is `fs` in its bytes `raw`; none if it says
    /// none that there is.
    pub(crate) fn of(fs: &Fs, raw: &[u8], endian: Endian) -> Option<Self> {
        if matches!(fs.fs_magic, FS_UFS2_MAGIC | FS_UFS2EA_MAGIC) {
            return Some(Self::New);
        }
        let old_cg = fs.fs_old_postblformat != crate::format::ondisk::FS_DYNAMICPOSTBLFMT;
        if fs.fs_old_inodefmt == FS_42INODEFMT || old_cg {
            return Some(Self::Old);
        }
        if sun_quad(FsSun::decode(raw, endian).fs_qbmask, endian) == i64::from(fs.fs_bsize) - 1 {
            return Some(Self::Sun);
        }
        match fs.fs_old_inodefmt {
            FS_44INODEFMT => Some(Self::New),
            0 => Some(Self::Old),
            _ => None,
        }
    }
}

/// The checked geometry. Sizes in bytes end in `_size` or are `fs_bsize`, `fs_fsize`; everything
/// else named as in `fs.h` counts what it counts there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Byte order.
    pub endian: Endian,
    /// Format.
    pub version: Version,
    /// Format of inodes and directories.
    pub inode_format: InodeFormat,
    /// Block size in bytes.
    pub fs_bsize: u32,
    /// Fragment size in bytes.
    pub fs_fsize: u32,
    /// Fragments in a block: 1, 2, 4 or 8.
    pub fs_frag: u32,
    /// log2 of the block size.
    pub fs_bshift: u32,
    /// log2 of the fragment size.
    pub fs_fshift: u32,
    /// Cylinder groups.
    pub fs_ncg: u32,
    /// Inodes in a group.
    pub fs_ipg: u32,
    /// Fragments in a group.
    pub fs_fpg: u32,
    /// Fragments in the file system.
    pub fs_size: u64,
    /// Fragments for data.
    pub fs_dsize: u64,
    /// Superblock copy in a group, in fragments from `cgstart`.
    pub fs_sblkno: u32,
    /// Group block, in fragments from `cgstart`.
    pub fs_cblkno: u32,
    /// Inodes, in fragments from `cgstart`.
    pub fs_iblkno: u32,
    /// First data after the inodes, in fragments from `cgstart`.
    pub fs_dblkno: u32,
    /// Shift of the structures from group to group, in fragments.
    pub fs_old_cgoffset: u32,
    /// Which bits of the group number do not shift.
    pub fs_old_cgmask: u32,
    /// Address of the summaries.
    pub fs_csaddr: Frag,
    /// Bytes of the summaries.
    pub fs_cssize: u32,
    /// Bytes of a group block.
    pub fs_cgsize: u32,
    /// Bytes of the superblock with its tables.
    pub fs_sbsize: u32,
    /// Block pointers in an indirect block.
    pub fs_nindir: u32,
    /// Inodes in a block.
    pub fs_inopb: u32,
    /// Entries in the groups' tables of free clusters, 0 for none.
    pub fs_contigsumsize: u32,
    /// Symbolic links shorter than this stand in the inode; 0 for none.
    pub fs_maxsymlinklen: u32,
    /// Largest file in bytes.
    pub fs_maxfilesize: u64,
    /// Bytes of a directory chunk.
    pub dirblksiz: u32,
    /// Where the standard superblock stands, in bytes.
    pub fs_sblockloc: u64,
    /// Groups have the fixed maps of [`OldCg`].
    pub old_cg: bool,
    /// UFS1 whose flags and counts have moved to their new places as well.
    pub flags_updated: bool,
    /// Rotational tables to maintain, in UFS1 that nothing newer has written.
    pub rotation: Option<Rotation>,
}

/// Complains about one field of the superblock.
fn bad(field: &str, value: impl std::fmt::Display, want: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("{field} is {value}, not {want}"), "superblock")
}

/// Takes an unsigned value out of a signed field, within a range.
fn within(field: &str, value: i64, low: u64, high: u64) -> Result<u64> {
    match u64::try_from(value) {
        Ok(v) if (low..=high).contains(&v) => Ok(v),
        _ => Err(bad(field, value, format_args!("{low} to {high}"))),
    }
}

fn within32(field: &str, value: i32, low: u32, high: u32) -> Result<u32> {
    within(field, value.into(), low.into(), high.into()).map(|v| u32::try_from(v).unwrap_or(high))
}

/// How much of a file system is on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it, in so many bytes at the most.
    Whole(u64),
    /// Perhaps only its first bytes, so many: what is behind them cannot be read.
    Beginning(u64),
}

impl Layout {
    /// Checks a superblock that stands at `sblockloc` (or is a copy of one that does) on a device
    /// that holds this extent of its file system. `raw` is the superblock's [`SBLOCKSIZE`] bytes.
    ///
    /// # Errors
    /// [`Error::Corrupt`] naming the field that cannot be.
    pub fn check(fs: &Fs, raw: &[u8], endian: Endian, sblockloc: u64, extent: Extent) -> Result<Self> {
        let version = match fs.fs_magic {
            FS_UFS1_MAGIC | FS_HPUX_LFN | FS_HPUX_FEATURES | FS_HPUX_4GB => Version::Ufs1,
            FS_UFS2_MAGIC | FS_UFS2EA_MAGIC => Version::Ufs2,
            other => return Err(bad("fs_magic", format_args!("{other:#x}"), "that of UFS1 or UFS2")),
        };
        let ufs2 = version == Version::Ufs2;
        let fs_bsize = within32("fs_bsize", fs.fs_bsize, MINBSIZE, MAXBSIZE)?;
        let fs_fsize = within32("fs_fsize", fs.fs_fsize, 512, fs_bsize)?;
        if !fs_bsize.is_power_of_two() {
            return Err(bad("fs_bsize", fs_bsize, "a power of two"));
        }
        if !fs_fsize.is_power_of_two() || fs_bsize / fs_fsize > 8 {
            return Err(bad("fs_fsize", fs_fsize, "1, 1/2, 1/4 or 1/8 of the block size"));
        }
        let fs_frag = fs_bsize / fs_fsize;
        if fs.fs_frag != fs_frag.cast_signed() {
            return Err(bad("fs_frag", fs.fs_frag, fs_frag));
        }
        let (fs_bshift, fs_fshift) = (fs_bsize.trailing_zeros(), fs_fsize.trailing_zeros());
        if fs.fs_bshift != fs_bshift.cast_signed() {
            return Err(bad("fs_bshift", fs.fs_bshift, fs_bshift));
        }
        if fs.fs_fshift != fs_fshift.cast_signed() {
            return Err(bad("fs_fshift", fs.fs_fshift, fs_fshift));
        }

        let (size, dsize, csaddr) = if ufs2 {
            (fs.fs_size, fs.fs_dsize, fs.fs_csaddr)
        } else {
            (fs.fs_old_size.into(), fs.fs_old_dsize.into(), fs.fs_old_csaddr.into())
        };
        let (Extent::Whole(device_bytes) | Extent::Beginning(device_bytes)) = extent;
        let device_frags = device_bytes >> fs_fshift;
        let fs_size = within("fs_size", size, 1, i64::MAX.cast_unsigned() >> fs_fshift)?;
        if fs_size > device_frags && matches!(extent, Extent::Whole(_)) {
            return Err(Error::corrupt(
                format!(
                    "the file system has {fs_size} fragments of {fs_fsize} bytes, the device only {device_frags}"
                ),
                "superblock",
            ));
        }
        let fs_dsize = within("fs_dsize", dsize, 0, fs_size)?;
        let fs_fpg = within32("fs_fpg", fs.fs_fpg, fs_frag, i32::MAX.cast_unsigned() / 2)?;
        if !fs_fpg.is_multiple_of(fs_frag) {
            return Err(bad("fs_fpg", fs_fpg, format_args!("a multiple of {fs_frag}")));
        }
        let groups = fs_size.div_ceil(fs_fpg.into());
        if u64::from(fs.fs_ncg) != groups {
            return Err(bad("fs_ncg", fs.fs_ncg, format_args!("{groups}, as fs_size and fs_fpg have it")));
        }
        let inode_size = if ufs2 { Dinode2::SIZE } else { Dinode1::SIZE };
        let fs_inopb = fs_bsize / u32::try_from(inode_size).unwrap_or(u32::MAX);
        if fs.fs_inopb != fs_inopb {
            return Err(bad("fs_inopb", fs.fs_inopb, fs_inopb));
        }
        let fs_nindir = fs_bsize / if ufs2 { 8 } else { 4 };
        if fs.fs_nindir != fs_nindir.cast_signed() {
            return Err(bad("fs_nindir", fs.fs_nindir, fs_nindir));
        }
        let fs_ipg = fs.fs_ipg;
        if fs_ipg == 0 || !fs_ipg.is_multiple_of(fs_inopb) || fs_ipg.checked_mul(fs.fs_ncg).is_none() {
            return Err(bad("fs_ipg", fs_ipg, format_args!("a multiple of {fs_inopb} in range")));
        }

        let fs_sblkno = within32("fs_sblkno", fs.fs_sblkno, 0, fs_fpg)?;
        let fs_cblkno = within32("fs_cblkno", fs.fs_cblkno, fs_sblkno + 1, fs_fpg)?;
        let fs_iblkno = within32("fs_iblkno", fs.fs_iblkno, fs_cblkno + 1, fs_fpg)?;
        let inode_frags = fs_ipg / fs_inopb * fs_frag;
        let fs_dblkno = within32("fs_dblkno", fs.fs_dblkno, fs_iblkno.saturating_add(inode_frags), fs_fpg)?;
        let (fs_old_cgoffset, fs_old_cgmask) = if ufs2 {
            (0, u32::MAX)
        } else {
            (within32("fs_old_cgoffset", fs.fs_old_cgoffset, 0, fs_fpg)?, fs.fs_old_cgmask.cast_unsigned())
        };

        let old_cg = !ufs2 && fs.fs_old_postblformat != crate::format::ondisk::FS_DYNAMICPOSTBLFMT;
        if old_cg && fs.fs_old_postblformat != crate::format::ondisk::FS_42POSTBLFMT {
            return Err(bad("fs_old_postblformat", fs.fs_old_postblformat, "-1 or 1"));
        }
        let cg_head = u32::try_from(if old_cg { OldCg::SIZE } else { Cg::SIZE }).unwrap_or(u32::MAX);
        // Where the old group block keeps its map of free fragments is not its own say.
        let least_cgsize = if old_cg { cg_head + fs_fpg.div_ceil(8) } else { cg_head };
        let fs_cgsize = within32("fs_cgsize", fs.fs_cgsize, least_cgsize, fs_bsize)?;
        let maps = u64::from(cg_head)
            + u64::from(fs_fpg).div_ceil(8)
            + if old_cg { 0 } else { u64::from(fs_ipg).div_ceil(8) };
        if maps > u64::from(fs_bsize) || (old_cg && fs_ipg > 2048) {
            return Err(bad("fs_fpg", fs_fpg, "small enough for the maps of a group to fit a block"));
        }
        let csum_bytes = u64::from(fs.fs_ncg) * 16;
        let fs_cssize =
            u32::try_from(within("fs_cssize", fs.fs_cssize.into(), csum_bytes, u64::from(u32::MAX))?)
                .unwrap_or(u32::MAX);
        let cs_frags = u64::from(fs_cssize).div_ceil(fs_fsize.into());
        // So the device bounds the number of groups, and the memory that they take.
        let last_csaddr = fs_size.min(device_frags).saturating_sub(cs_frags);
        let fs_csaddr = Frag(within("fs_csaddr", csaddr, 1, last_csaddr)?);
        if u64::from(fs_cssize) > csum_bytes + 2 * u64::from(fs_bsize) {
            return Err(bad("fs_cssize", fs_cssize, format_args!("about {csum_bytes}")));
        }
        let fs_sbsize =
            within32("fs_sbsize", fs.fs_sbsize, 1376, u32::try_from(SBLOCKSIZE).unwrap_or(u32::MAX))?;

        let sun_masks = FsSun::decode(raw, endian);
        let inode_format = InodeFormat::of(fs, raw, endian)
            .ok_or_else(|| bad("fs_old_inodefmt", fs.fs_old_inodefmt, "-1, 0 or 2"))?;
        let pointers = u32::try_from((NDADDR + NIADDR) * if ufs2 { 8 } else { 4 }).unwrap_or(0);
        let fs_maxsymlinklen = match inode_format {
            InodeFormat::New => within32("fs_maxsymlinklen", fs.fs_maxsymlinklen, 0, pointers)?,
            InodeFormat::Sun => 57,
            InodeFormat::Old => 0,
        };
        let fs_contigsumsize = if inode_format == InodeFormat::Sun || old_cg {
            0
        } else {
            within32("fs_contigsumsize", fs.fs_contigsumsize.max(0), 0, 16)?
        };

        let flags_updated =
            !ufs2 && u32::from(fs.fs_old_flags.cast_unsigned()) & flags::FS_FLAGS_UPDATED != 0;
        let mut disk = *fs;
        if inode_format == InodeFormat::Sun && endian == Endian::Little {
            // Solaris on x86 keeps fs_npsect and fs_state in each other's places.
            disk.fs_old_npsect = sun_masks.fs_state;
        }
        let rotation =
            if ufs2 || flags_updated { None } else { Rotation::check(&disk, raw, endian, old_cg)? };
        if let Some(r) = &rotation {
            let most = if old_cg { r.fs_old_cpg.min(32) } else { r.fs_old_cpg };
            if r.cylinder(fs_fpg - 1) >= most {
                return Err(bad("fs_old_cpg", r.fs_old_cpg, "the cylinders that fs_fpg fragments fill"));
            }
        }
        let mut layout = Self {
            endian,
            version,
            inode_format,
            fs_bsize,
            fs_fsize,
            fs_frag,
            fs_bshift,
            fs_fshift,
            fs_ncg: fs.fs_ncg,
            fs_ipg,
            fs_fpg,
            fs_size,
            fs_dsize,
            fs_sblkno,
            fs_cblkno,
            fs_iblkno,
            fs_dblkno,
            fs_old_cgoffset,
            fs_old_cgmask,
            fs_csaddr,
            fs_cssize,
            fs_cgsize,
            fs_sbsize,
            fs_nindir,
            fs_inopb,
            fs_contigsumsize,
            fs_maxsymlinklen,
            fs_maxfilesize: 0,
            dirblksiz: DIRBLKSIZ,
            fs_sblockloc: sblockloc,
            old_cg,
            flags_updated,
            rotation,
        };
        layout.fs_maxfilesize = layout.max_file_size(fs.fs_maxfilesize);
        layout.check_groups()?;
        Ok(layout)
    }

    /// Takes over what depends on the dialect, and the superblock `fs` does not say: the chunks of
    /// directories, unless the disk has `shown` them, and the short symbolic links of those who
    /// have large ones.
    pub(crate) fn adopt(&mut self, fs: &Fs, dialect: Dialect, shown: Option<u32>) {
        self.dirblksiz = shown.unwrap_or(dialect.dirblksiz());
        self.fs_maxsymlinklen = match self.inode_format {
            // NeXT has them with old inodes, too, where fs_maxsymlinklen does not say so.
            InodeFormat::New | InodeFormat::Old if self.has_large_chunks() => MAXSYMLINKLEN_UFS1,
            InodeFormat::New => u32::try_from(fs.fs_maxsymlinklen).unwrap_or(0),
            InodeFormat::Sun | InodeFormat::Old => self.fs_maxsymlinklen,
        };
    }

    /// Returns true if directories have the chunks of NEXTSTEP, OPENSTEP and Apple.
    pub(crate) const fn has_large_chunks(&self) -> bool {
        self.dirblksiz == LARGE_DIRBLKSIZ
    }

    /// Returns where a new table of free clusters belongs, if the maps before it end at byte `end`
    /// of the group block. It is counted from 1, and all but Apple save the word of entry 0
    /// (`fsck_ffs/pass5.c` of NetBSD).
    pub(crate) const fn clustersumoff(&self, end: u32) -> u32 {
        end.next_multiple_of(4) - if self.has_large_chunks() { 0 } else { 4 }
    }

    /// Checks that the structures of every cylinder group lie inside it and inside the file system.
    fn check_groups(&self) -> Result<()> {
        for cgx in 0..self.fs_ncg {
            let end = self.cgstart(cgx) - self.cgbase(cgx) + u64::from(self.fs_dblkno);
            if end > u64::from(self.cg_frags(cgx)) {
                return Err(Error::corrupt(
                    format!("the structures of cylinder group {cgx} need {end} fragments and it has fewer"),
                    "superblock",
                ));
            }
        }
        Ok(())
    }

    /// Returns what pointers can reach, 31-bit block numbers in UFS1, and what the superblock says
    /// if it says less.
    fn max_file_size(&self, stated: u64) -> u64 {
        let n = u128::from(self.fs_nindir);
        let blocks = NDADDR as u128 + n + n * n + n * n * n;
        let most_blocks = if self.version == Version::Ufs1 { 1 << 31 } else { u128::MAX };
        let bytes = blocks.min(most_blocks) * u128::from(self.fs_bsize) - 1;
        let reach = u64::try_from(bytes).unwrap_or(u64::MAX).min(i64::MAX.cast_unsigned());
        if self.inode_format == InodeFormat::New && (u64::from(self.fs_bsize)..reach).contains(&stated) {
            stated
        } else {
            reach
        }
    }

    /// Returns the bytes of an inode on disk.
    #[must_use]
    pub const fn inode_size(&self) -> usize {
        match self.version {
            Version::Ufs1 => Dinode1::SIZE,
            Version::Ufs2 => Dinode2::SIZE,
        }
    }

    /// Returns the bytes of a block pointer.
    #[must_use]
    pub const fn pointer_size(&self) -> usize {
        match self.version {
            Version::Ufs1 => 4,
            Version::Ufs2 => 8,
        }
    }

    /// Returns the first fragment of cylinder group `cgx`.
    #[must_use]
    pub fn cgbase(&self, cgx: u32) -> Frag {
        Frag(u64::from(self.fs_fpg) * u64::from(cgx))
    }

    /// Returns where the structures of group `cgx` start.
    #[must_use]
    pub fn cgstart(&self, cgx: u32) -> Frag {
        self.cgbase(cgx) + u64::from(self.fs_old_cgoffset) * u64::from(cgx & !self.fs_old_cgmask)
    }

    /// Returns the fragments of group `cgx`; the last group may have fewer than the others.
    #[must_use]
    pub fn cg_frags(&self, cgx: u32) -> u32 {
        let left = self.fs_size - self.cgbase(cgx).0;
        u32::try_from(left).map_or(self.fs_fpg, |left| left.min(self.fs_fpg))
    }

    /// Returns the superblock copy of group `cgx`.
    #[must_use]
    pub fn cgsblock(&self, cgx: u32) -> Frag {
        self.cgstart(cgx) + u64::from(self.fs_sblkno)
    }

    /// Returns the group block of group `cgx`.
    #[must_use]
    pub fn cgtod(&self, cgx: u32) -> Frag {
        self.cgstart(cgx) + u64::from(self.fs_cblkno)
    }

    /// Returns the first inode block of group `cgx`.
    #[must_use]
    pub fn cgimin(&self, cgx: u32) -> Frag {
        self.cgstart(cgx) + u64::from(self.fs_iblkno)
    }

    /// Returns the first data fragment after the inodes of group `cgx`.
    #[must_use]
    pub fn cgdmin(&self, cgx: u32) -> Frag {
        self.cgstart(cgx) + u64::from(self.fs_dblkno)
    }

    /// Returns the group that owns a fragment.
    #[must_use]
    pub fn dtog(&self, frag: Frag) -> u32 {
        u32::try_from(frag.0 / u64::from(self.fs_fpg)).unwrap_or(u32::MAX)
    }

    /// Returns a fragment's place in its group.
    #[must_use]
    pub fn dtogd(&self, frag: Frag) -> u32 {
        u32::try_from(frag.0 % u64::from(self.fs_fpg)).unwrap_or(u32::MAX)
    }

    /// Returns the inodes of the file system, with the unusable first ones.
    #[must_use]
    pub const fn inodes(&self) -> u32 {
        self.fs_ncg * self.fs_ipg
    }

    /// Returns the group of an inode.
    #[must_use]
    pub const fn ino_to_cg(&self, ino: u32) -> u32 {
        ino / self.fs_ipg
    }

    /// Returns the block that holds an inode, and the inode's byte offset in it.
    #[must_use]
    pub fn ino_to_fsba(&self, ino: u32) -> (Frag, usize) {
        let within = ino % self.fs_ipg;
        let block = self.cgimin(self.ino_to_cg(ino)) + u64::from(within / self.fs_inopb * self.fs_frag);
        (block, (within % self.fs_inopb) as usize * self.inode_size())
    }

    /// Returns the byte offset of a fragment on the device.
    #[must_use]
    pub const fn byte(&self, frag: Frag) -> u64 {
        frag.0 << self.fs_fshift
    }

    /// Returns true if some of `frags` fragments at `frag`, which there are, belong to the
    /// structures of a group or to the summaries.
    pub(crate) fn is_metadata(&self, frag: Frag, frags: u32) -> bool {
        let end = frag + u64::from(frags);
        let within = |from: Frag, to: Frag| frag < to && from < end;
        let summaries = self.fs_csaddr + u64::from(self.fs_cssize).div_ceil(self.fs_fsize.into());
        // A block that is not aligned may reach into the next group.
        let groups = self.dtog(frag)..=self.dtog(Frag((end.0).saturating_sub(1).max(frag.0)));
        let in_group = |cgx: u32| {
            let start = if cgx == 0 { self.cgbase(0) } else { self.cgsblock(cgx) };
            within(start, self.cgdmin(cgx))
        };
        groups.into_iter().any(in_group) || within(self.fs_csaddr, summaries)
    }

    /// Returns true if `frags` fragments from `frag` lie in the file system.
    #[must_use]
    pub const fn contains(&self, frag: Frag, frags: u64) -> bool {
        frag.0 < self.fs_size && frags <= self.fs_size - frag.0
    }

    /// Returns the block of a file that holds byte `offset`.
    #[must_use]
    pub const fn lblkno(&self, offset: u64) -> Lbn {
        Lbn(offset >> self.fs_bshift)
    }

    /// Returns the offset of a byte within its block.
    #[must_use]
    pub fn blkoff(&self, offset: u64) -> usize {
        usize::try_from(offset & (u64::from(self.fs_bsize) - 1)).unwrap_or(0)
    }

    /// Returns the bytes of block `lbn` of a file (or of its part in fragments) of `size` bytes
    /// (`blksize`).
    #[must_use]
    pub fn blksize(&self, size: u64, lbn: Lbn) -> u32 {
        if lbn.0 >= NDADDR as u64 || size >= (lbn.0 + 1) << self.fs_bshift {
            self.fs_bsize
        } else {
            u32::try_from(self.blkoff(size)).unwrap_or(0).next_multiple_of(self.fs_fsize)
        }
    }

    /// Returns the fragments that `bytes` need.
    #[must_use]
    pub const fn numfrags(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.fs_fsize)
    }
}

/// Returns two words of the image as one 64-bit number.
fn sun_quad(words: [i32; 2], endian: Endian) -> i64 {
    let (high, low) = if endian == Endian::Big { (words[0], words[1]) } else { (words[1], words[0]) };
    i64::from(high) << 32 | i64::from(low.cast_unsigned())
}
