//! The sizes of a file system that has grown or shrunk, and what of the superblock follows from
//! them.

use crate::format::dialect::Dialect;
use crate::format::layout::{Layout, Version};
use crate::format::ondisk::{Csum, Fs};
use crate::format::superblock::Superblock;
use spindle_vfs::{Error, Result};

/// What a file system becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Resize {
    /// Bytes before.
    pub old_bytes: u64,
    /// Bytes after.
    pub new_bytes: u64,
    /// Cylinder groups before.
    pub old_groups: u32,
    /// Cylinder groups after.
    pub new_groups: u32,
    /// Bytes at the end that are too few for a cylinder group and stay unused.
    pub unused_bytes: u64,
    /// Bytes of the summaries after.
    #[serde(skip)]
    pub(super) fs_cssize: u32,
}

impl Resize {
    /// Returns what a file system of at most `bytes` becomes that grows. It is the same as before
    /// if there is no room for more.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it would become smaller, or larger than its format can count.
    pub fn of(superblock: &Superblock, bytes: u64) -> Result<Self> {
        let old_bytes = superblock.layout.fs_size << superblock.layout.fs_fshift;
        if bytes < old_bytes {
            return Err(Error::unsupported(
                format!("{bytes} bytes are less than the {old_bytes} that the file system has"),
                "to make it smaller, ask for that (--shrink)",
            ));
        }
        Self::to(superblock, bytes)
    }

    /// Returns what a file system becomes that is made as small as `bytes`, or by less than a
    /// cylinder group smaller.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it would become larger, or could not hold its own structures.
    pub fn smaller(superblock: &Superblock, bytes: u64) -> Result<Self> {
        let layout = &superblock.layout;
        let old_bytes = layout.fs_size << layout.fs_fshift;
        if bytes > old_bytes {
            return Err(Error::unsupported(
                format!("{bytes} bytes are more than the {old_bytes} that the file system has"),
                "to make it larger, leave out --shrink",
            ));
        }
        let frags = bytes >> layout.fs_fshift;
        let summaries = layout.fs_csaddr.0 + u64::from(layout.numfrags(layout.fs_cssize));
        if frags < summaries.max(structures(layout, 0)) + u64::from(layout.fs_frag) {
            return Err(Error::unsupported(
                format!("{bytes} bytes do not hold the first cylinder group"),
                "name a larger size (-s)",
            ));
        }
        Self::to(superblock, bytes)
    }

    fn to(superblock: &Superblock, bytes: u64) -> Result<Self> {
        let layout = &superblock.layout;
        let old_bytes = layout.fs_size << layout.fs_fshift;
        let mut size = bytes >> layout.fs_fshift;
        let most = if layout.version == Version::Ufs1 { i32::MAX.cast_unsigned().into() } else { u64::MAX };
        let fpg = u64::from(layout.fs_fpg);
        let groups = u32::try_from(size.div_ceil(fpg)).ok();
        let inodes = groups.and_then(|groups| groups.checked_mul(layout.fs_ipg));
        if size > most || inodes.is_none() {
            return Err(Error::unsupported(
                format!("{bytes} bytes are more than this file system can count"),
                "name a smaller size (-s), or make a file system with larger blocks",
            ));
        }
        // A last group that does not hold its own structures is none.
        let last = size % fpg;
        let cgx = groups.unwrap_or(1).saturating_sub(1);
        let is_new = size < layout.fs_size || cgx >= layout.fs_ncg;
        if last > 0 && is_new && last < structures(layout, cgx) {
            size -= last;
        }
        let groups = u32::try_from(size.div_ceil(fpg)).unwrap_or(u32::MAX);
        let summaries = u64::from(groups) * Csum::SIZE as u64;
        let mut summaries = summaries.next_multiple_of(layout.fs_fsize.into());
        if size >= layout.fs_size {
            summaries = summaries.max(layout.fs_cssize.into());
        }
        Ok(Self {
            old_bytes,
            new_bytes: size << layout.fs_fshift,
            old_groups: layout.fs_ncg,
            new_groups: groups,
            unused_bytes: bytes - (size << layout.fs_fshift),
            fs_cssize: u32::try_from(summaries).unwrap_or(u32::MAX),
        })
    }

    /// Returns true if nothing changes.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.old_bytes == self.new_bytes
    }

    /// Returns the fragments behind the summaries that they need as well.
    pub(super) fn added_summaries(&self, layout: &Layout) -> std::ops::Range<u64> {
        let start = layout.fs_csaddr.0;
        let end = |bytes: u32| start + u64::from(bytes.div_ceil(layout.fs_fsize));
        end(layout.fs_cssize)..end(self.fs_cssize)
    }

    /// Enters the new sizes into a superblock.
    pub(super) fn enter(&self, superblock: &mut Superblock, device_bytes: u64) {
        let layout = superblock.layout.clone();
        let size = self.new_bytes >> layout.fs_fshift;
        let signed = u64::cast_signed;
        let structures = i64::from(layout.fs_dblkno - layout.fs_sblkno);
        let summaries = |bytes: u32| i64::from(layout.numfrags(bytes));
        let groups = i64::from(self.new_groups) - i64::from(self.old_groups);
        let overhead = groups * structures + summaries(self.fs_cssize) - summaries(layout.fs_cssize);
        let dsize = signed(layout.fs_dsize) + signed(size) - signed(layout.fs_size) - overhead;
        let is_kept = |fs: &Fs| layout.version == Version::Ufs2 || fs.fs_size == i64::from(fs.fs_old_size);
        let narrow = |n: u64| i32::try_from(n).unwrap_or(i32::MAX);
        let counts_device = superblock.dialect == Dialect::FreeBsd && superblock.has_new_fields();
        superblock.change(|fs| {
            fs.fs_ncg = self.new_groups;
            fs.fs_cssize = self.fs_cssize.cast_signed();
            if is_kept(fs) {
                (fs.fs_size, fs.fs_dsize) = (signed(size), dsize);
            }
            if layout.version == Version::Ufs1 {
                (fs.fs_old_size, fs.fs_old_dsize) = (narrow(size), i32::try_from(dsize).unwrap_or(i32::MAX));
                if let Ok(spc @ 1..) = u64::try_from(fs.fs_old_spc) {
                    let sectors = size * u64::try_from(fs.fs_old_nspf).unwrap_or(0);
                    fs.fs_old_ncyl = narrow(sectors.div_ceil(spc));
                }
            }
            if counts_device && fs.fs_providersize > 0 {
                fs.fs_providersize = signed(device_bytes >> layout.fs_fshift);
            }
        });
        if superblock.fs.fs_cgrotor >= self.new_groups.cast_signed() {
            superblock.fs.fs_cgrotor = 0;
        }
    }
}

/// Returns the fragments from the start of group `cgx` to the end of its structures.
pub(super) fn structures(layout: &Layout, cgx: u32) -> u64 {
    layout.cgstart(cgx) - layout.cgbase(cgx) + u64::from(layout.fs_dblkno)
}
