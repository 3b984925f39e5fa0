//! Geometries that are consistent in themselves, but do not fit the rest of the disk.
//!
//! If one field of a superblock has an extreme value, the checks against the other fields refuse
//! it. Here the other fields are changed with it, so that a mount accepts the superblock, and then
//! looks for every structure in the wrong place.

use rand::Rng;
use rand::rngs::SmallRng;
use spindle_ffs::ondisk::{FS_UFS1_MAGIC, Fs};

/// Sets the number of cylinder groups that follows from the sizes of the file system and of a
/// group.
fn recount(fs: &mut Fs) {
    let size = if fs.fs_magic == FS_UFS1_MAGIC { fs.fs_old_size.into() } else { fs.fs_size };
    let groups = size.max(0).cast_unsigned().div_ceil(fs.fs_fpg.max(1).cast_unsigned().into());
    fs.fs_ncg = u32::try_from(groups).unwrap_or(u32::MAX);
}

fn scale_fragments(fs: &mut Fs, larger: bool) {
    fs.fs_fsize = if larger { fs.fs_fsize.wrapping_mul(2) } else { fs.fs_fsize / 2 };
    fs.fs_fshift += if larger { 1 } else { -1 };
    fs.fs_frag = fs.fs_bsize / fs.fs_fsize.max(1);
    fs.fs_fragshift = fs.fs_frag.max(1).ilog2().cast_signed();
    fs.fs_fpg = fs.fs_fpg / fs.fs_frag.max(1) * fs.fs_frag;
}

fn scale_blocks(fs: &mut Fs, larger: bool) {
    let inode = fs.fs_bsize.cast_unsigned() / fs.fs_inopb.max(1);
    let pointer = fs.fs_bsize / fs.fs_nindir.max(1);
    fs.fs_bsize = if larger { fs.fs_bsize.wrapping_mul(2) } else { fs.fs_bsize / 2 };
    fs.fs_bshift += if larger { 1 } else { -1 };
    fs.fs_frag = fs.fs_bsize / fs.fs_fsize.max(1);
    fs.fs_fragshift = fs.fs_frag.max(1).ilog2().cast_signed();
    fs.fs_inopb = fs.fs_bsize.cast_unsigned() / inode.max(1);
    fs.fs_nindir = fs.fs_bsize / pointer.max(1);
    fs.fs_ipg = fs.fs_ipg.next_multiple_of(fs.fs_inopb.max(1));
    fs.fs_dblkno =
        fs.fs_dblkno.max(fs.fs_iblkno + (fs.fs_ipg / fs.fs_inopb.max(1)).cast_signed() * fs.fs_frag);
}

/// Changes the geometry in one of many consistent ways, and returns a description of the change.
pub fn change_geometry(fs: &mut Fs, rng: &mut SmallRng) -> &'static str {
    let ufs1 = fs.fs_magic == FS_UFS1_MAGIC;
    let larger = rng.random();
    let groups = rng.random_range(1..4);
    let what = match rng.random_range(0..13) {
        0 => {
            scale_fragments(fs, larger);
            "fragments of another size"
        }
        1 => {
            scale_blocks(fs, larger);
            "blocks of another size"
        }
        2 => {
            let size = rng.random_range(1..=if ufs1 { fs.fs_old_size.into() } else { fs.fs_size }.max(1));
            fs.fs_size = size;
            fs.fs_old_size = i32::try_from(size).unwrap_or(i32::MAX);
            fs.fs_dsize = fs.fs_dsize.min(size);
            fs.fs_old_dsize = fs.fs_old_dsize.min(fs.fs_old_size);
            "a smaller file system"
        }
        3 => {
            let least = fs.fs_dblkno.max(fs.fs_frag).max(1);
            let most = fs.fs_fpg.saturating_mul(groups).max(least);
            fs.fs_fpg = rng.random_range(least..=most) / fs.fs_frag.max(1) * fs.fs_frag;
            "cylinder groups of another size"
        }
        4 => {
            let blocks = rng.random_range(1..=(fs.fs_ipg / fs.fs_inopb.max(1)).max(1) * 2);
            fs.fs_ipg = blocks * fs.fs_inopb;
            "another number of inodes"
        }
        5 => {
            let by = rng.random_range(-8..=8);
            for field in [&mut fs.fs_cblkno, &mut fs.fs_iblkno, &mut fs.fs_dblkno] {
                *field += by;
            }
            "structures moved in their cylinder groups"
        }
        6 => {
            fs.fs_dblkno = fs.fs_fpg;
            "cylinder groups without data"
        }
        7 => {
            let at = rng.random_range(1..fs.fs_size.max(2).max(fs.fs_old_size.into()));
            fs.fs_csaddr = at;
            fs.fs_old_csaddr = i32::try_from(at).unwrap_or(i32::MAX);
            "summaries at another address"
        }
        8 => {
            fs.fs_contigsumsize = rng.random_range(0..=16);
            fs.fs_cgsize = rng.random_range(168..=fs.fs_bsize.max(168));
            "other cluster tables"
        }
        9 => {
            fs.fs_maxsymlinklen = *[0, 1, 59, 60, 119, 120].get(rng.random_range(0..6)).unwrap_or(&0);
            "another maximum length of links in inodes"
        }
        10 => {
            fs.fs_old_cgoffset = rng.random_range(0..=fs.fs_fpg.max(1) / 4);
            fs.fs_old_cgmask = *[0, -1, -2, -16, 1].get(rng.random_range(0..5)).unwrap_or(&0);
            "cylinder groups shifted"
        }
        11 => {
            fs.fs_old_inodefmt = *[-1, 0, 2].get(rng.random_range(0..3)).unwrap_or(&0);
            fs.fs_old_postblformat = *[-1, 1].get(rng.random_range(0..2)).unwrap_or(&1);
            "other formats of inodes and rotational tables"
        }
        _ => {
            fs.fs_old_spc = rng.random_range(1..300);
            fs.fs_old_cpg = rng.random_range(1..400);
            fs.fs_old_nsect = rng.random_range(1..=fs.fs_old_spc);
            fs.fs_old_nrpos = rng.random_range(1..=64);
            fs.fs_old_cpc = rng.random_range(0..40);
            "another disk geometry"
        }
    };
    recount(fs);
    what
}
