//! What all copies of a superblock say: the standard one and the replicas in the groups.
//!
//! A superblock without a check-hash can be wrong in a field that contradicts nothing else in it,
//! and by which good files look damaged, or a mount would write summaries into files. The replicas
//! show that. How they decide is the repair's: see `repair/superblock.rs`.

use crate::format::layout::{InodeFormat, Layout, Version};
use crate::format::ondisk::Fs;
use crate::format::superblock::{Superblock, decode_replica};
use spindle_device::Device;

/// Groups whose replicas are asked about a superblock; each is a seek on a disk.
pub(crate) const GROUPS_ASKED: u32 = 16;

/// The fields that never change after newfs (`fsck_ffs/setup.c`).
macro_rules! constant_fields {
    ($($field:ident),*) => {
        fn constants(fs: &Fs) -> [(&'static str, i64); 22] {
            [$((stringify!($field), i64::from(fs.$field))),*]
        }

        /// Gives a superblock the constants of another one, those of all systems.
        pub(crate) fn copy_constants(fs: &mut Fs, from: &Fs) {
            $(fs.$field = from.$field;)*
        }
    };
}

constant_fields!(
    fs_magic,
    fs_sblkno,
    fs_cblkno,
    fs_iblkno,
    fs_dblkno,
    fs_old_cgoffset,
    fs_old_cgmask,
    fs_ncg,
    fs_bsize,
    fs_fsize,
    fs_frag,
    fs_bmask,
    fs_fmask,
    fs_bshift,
    fs_fshift,
    fs_fragshift,
    fs_fsbtodb,
    fs_nindir,
    fs_inopb,
    fs_cssize,
    fs_ipg,
    fs_fpg
);

/// Fields of a superblock, by name, and their values.
pub(crate) type Fields = Vec<(&'static str, i64)>;

/// Returns the fields in which a superblock and its replicas agree, by name. Systems before UFS2
/// compare the sizes as well; later ones may change them in one place.
pub(crate) fn agreed_fields(fs: &Fs, layout: &Layout) -> Fields {
    let old = !(layout.version == Version::Ufs2 || layout.flags_updated);
    let sizes = [("fs_old_size", fs.fs_old_size), ("fs_old_dsize", fs.fs_old_dsize)];
    let sizes = sizes.into_iter().filter(|_| old).map(|(field, n)| (field, i64::from(n)));
    constants(fs).into_iter().chain(sizes).collect()
}

/// Returns the fields besides these by which good files look damaged if they are wrong: the place
/// of the summaries and the formats of the parts, by name.
pub(crate) fn format_fields(fs: &Fs, layout: &Layout) -> Fields {
    let csaddr = match layout.version {
        Version::Ufs1 => ("fs_old_csaddr", fs.fs_old_csaddr.into()),
        Version::Ufs2 => ("fs_csaddr", fs.fs_csaddr),
    };
    let formats = [
        ("fs_old_postblformat", fs.fs_old_postblformat),
        ("fs_contigsumsize", fs.fs_contigsumsize),
        ("fs_maxsymlinklen", fs.fs_maxsymlinklen),
    ];
    // Others keep there what changes with each mount.
    let formats = formats.into_iter().filter(|_| layout.inode_format == InodeFormat::New);
    std::iter::once(csaddr).chain(formats.map(|(field, n)| (field, i64::from(n)))).collect()
}

/// Returns the size in fragments that all copies have, from before a growth a smaller one.
pub(crate) fn size(fs: &Fs, layout: &Layout) -> i64 {
    match layout.version {
        Version::Ufs1 => fs.fs_old_size.into(),
        Version::Ufs2 => fs.fs_size,
    }
}

/// Returns the fields of `fs`, which is `raw` in its bytes, that differ from those of a superblock
/// with this layout and should not: their names, their values, and those of the superblock.
pub(crate) fn differing(
    fs: &Fs,
    raw: &[u8],
    superblock: &Fs,
    layout: &Layout,
) -> Vec<(&'static str, i64, i64)> {
    let fields = |fs: &Fs| [agreed_fields(fs, layout), format_fields(fs, layout)].concat();
    let pairs = fields(fs).into_iter().zip(fields(superblock));
    let mut all: Vec<_> = pairs.map(|((field, found), (_, own))| (field, found, own)).collect();
    if InodeFormat::of(fs, raw, layout.endian) != Some(layout.inode_format) {
        let (found, own) = (fs.fs_old_inodefmt, superblock.fs_old_inodefmt);
        all.push(("fs_old_inodefmt", found.into(), own.into()));
    }
    all.retain(|(_, found, own)| found != own);
    all
}

impl Superblock {
    /// Returns in what a superblock without a check-hash differs from its replicas, if fewer of
    /// them agree with it than do not: then it cannot be trusted. Replicas of another size say
    /// nothing: systems leave them behind when a file system grows. If the first one agrees, no
    /// other is read.
    pub(crate) fn find_contradiction(&self, device: &dyn Device) -> Option<String> {
        if self.check_hashes().superblock {
            return None;
        }
        let layout = &self.layout;
        let (mut agree, mut against) = (0, Vec::new());
        for cgx in 0..layout.fs_ncg.min(GROUPS_ASKED) {
            let at = layout.byte(layout.cgsblock(cgx));
            let Ok(Some(raw)) = Self::read_raw(device, at) else { continue };
            let Some(fs) = decode_replica(&raw, layout).filter(|fs| self.has_size_of(fs)) else { continue };
            // NetBSD makes UFS2 to UFS2ea in place.
            let mut fields = differing(&fs, &raw, &self.fs, layout).into_iter();
            match fields.find(|(name, ..)| *name != "fs_magic") {
                Some(field) => against.push(field),
                None => agree += 1,
            }
            if cgx == 0 && agree == 1 {
                return None;
            }
        }
        let (field, theirs, own) = against.first().filter(|_| against.len() > agree)?;
        Some(format!("its {field} is {own}, and {theirs} in its replicas"))
    }

    fn has_size_of(&self, replica: &Fs) -> bool {
        let sizes = |fs: &Fs| (fs.fs_ncg, fs.fs_cssize, size(fs, &self.layout));
        sizes(&self.fs) == sizes(replica)
    }
}
