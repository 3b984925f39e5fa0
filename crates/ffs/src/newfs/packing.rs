//! Cylinder groups without cylinders: as many fragments in a group as its maps in one block can
//! describe, but at least four groups. The newer BSDs divide a disk so whatever its geometry
//! (FreeBSD `sbin/newfs/mkfs.c`).

use super::frame::{Frame, Groups};
use super::parameters::{Format, ParameterError, Resolved, Result};

/// Fewer groups than this only where a group must hold more to meet the density.
const MINCYLGRPS: u64 = 4;
/// UFS1 keeps the inodes of a group in 16 bits with a sign.
pub(super) const MAX_UFS1_IPG: u64 = 0x7fff;
/// Bytes of `struct cg` with its alignment, and of the word that CGSIZE adds.
const CG_HEAD: u64 = 176 + 4;

/// Blocks that the first directories take.
const FIRST_BLOCKS: u64 = 2;
/// FreeBSD mounts nothing that has fewer blocks.
const LEAST_BLOCKS: u64 = 8;
/// With no more groups than this it is the size, not the number of groups, that is wrong.
const SMALL_GROUPS: u64 = 16;

struct Packing<'a> {
    frame: &'a Frame,
    ufs1: bool,
    /// Inodes for a number of fragments.
    inodes: u64,
    per_frags: u64,
}

impl Packing<'_> {
    /// Returns the inodes for a group of `fpg` fragments.
    fn ipg(&self, fpg: u64) -> u64 {
        (fpg * self.inodes).div_ceil(self.per_frags).next_multiple_of(self.frame.inopb.into())
    }

    /// Returns the bytes of the group block (`CGSIZE`).
    fn cg_bytes(&self, fpg: u64) -> u64 {
        let clusters = u64::from(self.frame.contigsumsize);
        let old_counts = if self.ufs1 { 4 + 2 } else { 0 };
        let cluster_bytes =
            if clusters > 0 { clusters * 4 + (fpg / u64::from(self.frame.frag)).div_ceil(8) } else { 0 };
        CG_HEAD + old_counts + self.ipg(fpg).div_ceil(8) + fpg.div_ceil(8) + cluster_bytes
    }

    /// Returns the fragments that the structures of a group with this many fragments take.
    fn overhead(&self, fpg: u64) -> u64 {
        let frame = self.frame;
        u64::from(frame.iblkno) + self.ipg(fpg) / u64::from(frame.inopb) * u64::from(frame.frag)
    }

    /// Returns the fewest fragments that hold a group's structures and keep the density.
    fn least_fpg(&self, fs_size: u64) -> u64 {
        let frame = self.frame;
        let frag = u64::from(frame.frag);
        let inopb = u64::from(frame.inopb);
        let wanted = (self.per_frags * inopb / self.inodes).min(fs_size);
        let first = (u64::from(frame.iblkno) + frag).max(wanted);
        let mut fpg = self.overhead(first).max(wanted).next_multiple_of(frag);
        // With several inodes to a fragment, more fragments need more inodes need more fragments.
        while self.inodes > 1 && self.overhead(fpg) + FIRST_BLOCKS * frag > fpg {
            fpg = self.overhead(fpg) + FIRST_BLOCKS * frag;
        }
        fpg
    }

    /// Returns the most fragments that the maps of a group can describe, at most `most` and so that
    /// there are enough groups, but not less than [`Self::least_fpg`].
    fn most_fpg(&self, fs_size: u64, most: u64) -> u64 {
        let (frag, bsize) = (u64::from(self.frame.frag), u64::from(self.frame.bsize));
        let least = self.least_fpg(fs_size);
        let too_many_inodes = |fpg| self.ufs1 && self.ipg(fpg) > MAX_UFS1_IPG;
        let enough_groups = |fpg| fs_size / fpg >= MINCYLGRPS;
        let may_grow = |fpg: u64| {
            fpg < most && !too_many_inodes(fpg) && enough_groups(fpg) && self.cg_bytes(fpg) < bsize
        };
        // The first size that may not grow: a group that is larger than the file system may not.
        let (mut low, mut high) = (0, fs_size / frag + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if may_grow(least + middle * frag) { low = middle + 1 } else { high = middle }
        }
        let fpg = least + low * frag;
        let too_large = too_many_inodes(fpg) || (enough_groups(fpg) && self.cg_bytes(fpg) > bsize);
        if fpg < most && too_large { fpg - frag } else { fpg }
    }

    /// Returns true if groups of `fpg` fragments hold their structures, the last one too, and the
    /// first also the summaries and the first directories.
    fn fits(&self, fpg: u64, fs_size: u64) -> bool {
        let frag = u64::from(self.frame.frag);
        let overhead = self.overhead(fpg);
        let summaries = (fs_size.div_ceil(fpg) * 16).div_ceil(self.frame.fsize.into());
        let first = overhead + summaries.next_multiple_of(frag) + FIRST_BLOCKS * frag;
        let last = fs_size % fpg;
        fs_size >= LEAST_BLOCKS * frag && first <= fpg.min(fs_size) && (last == 0 || last >= overhead)
    }
}

/// Divides the file system into groups.
///
/// # Errors
/// [`ParameterError`] if it is too small for one group or the block size too small for the whole.
pub(super) fn groups(wishes: &Resolved, frame: &Frame, notes: &mut Vec<String>) -> Result<Groups> {
    let frag = u64::from(frame.frag);
    let fsize = u64::from(frame.fsize);
    let bsize = u64::from(frame.bsize);
    let fs_size = wishes.size_bytes / fsize;
    let ufs1 = wishes.format != Format::Ufs2;
    if ufs1 && fs_size > i32::MAX.unsigned_abs().into() {
        let most = u64::from(i32::MAX.unsigned_abs()) * fsize;
        return Err(ParameterError::new(
            "size",
            format_args!("{} bytes", wishes.size_bytes),
            format!("UFS1 with fragments of {fsize} bytes reaches {most}; take larger fragments or UFS2"),
        ));
    }
    let density = u64::from(wishes.density);
    let mut packing =
        Packing { frame, ufs1, inodes: (fsize / density).max(1), per_frags: (density / fsize).max(1) };
    let wanted = (packing.inodes, packing.per_frags);
    // Inode numbers have 32 bits.
    let most_inodes = (1 << 32) - u64::from(frame.inopb);
    let least_frags = 1 + fs_size / most_inodes;
    if fs_size.saturating_mul(packing.inodes) / packing.per_frags >= most_inodes {
        (packing.inodes, packing.per_frags) = (1, packing.per_frags.max(least_frags));
    }
    while packing.cg_bytes(packing.least_fpg(fs_size)) >= bsize {
        if packing.per_frags <= least_frags {
            let allowed = "a larger block and fragment size, for more than the inode numbers can count";
            return Err(ParameterError::new("block size", bsize, allowed));
        }
        packing.per_frags -= 1;
    }
    if (packing.inodes, packing.per_frags) != wanted {
        let density = packing.per_frags * fsize / packing.inodes;
        notes.push(format!("density changed to {density} bytes per inode"));
    }

    let most = wishes.blocks_per_group.map_or(i32::MAX.unsigned_abs().into(), |b| u64::from(b) * frag);
    let fpg = packing.most_fpg(fs_size, most);
    if wishes.blocks_per_group.is_some() && fpg > most {
        let allowed = format!("at least {} with this density and block size", fpg / frag);
        return Err(ParameterError::new("blocks per group", most / frag, allowed));
    }
    let best = fpg;
    let maps_fit = |fpg: u64| packing.cg_bytes(fpg) <= bsize && !(ufs1 && packing.ipg(fpg) > MAX_UFS1_IPG);
    // The last group must hold its own structures: taking from the others enlarges it, or else
    // there is one group less.
    let smaller = (1..=best / frag).rev().map(|blocks| blocks * frag);
    let fewer = (1..fs_size.div_ceil(best)).rev().map(|n| fs_size.div_ceil(n).next_multiple_of(frag));
    let fpg = smaller
        .take_while(|&fpg| fpg >= packing.overhead(fpg))
        .find(|&fpg| packing.fits(fpg, fs_size))
        .or_else(|| fewer.take_while(|&fpg| maps_fit(fpg)).find(|&fpg| packing.fits(fpg, fs_size)));
    let Some(fpg) = fpg else {
        if fs_size / best > SMALL_GROUPS {
            let allowed = "larger: the first group cannot hold the summaries of all groups";
            return Err(ParameterError::new("block size", bsize, allowed));
        }
        let least = (packing.overhead(best) + 3 * frag).max(LEAST_BLOCKS * frag);
        let allowed = format!("at least about {} bytes", least * fsize);
        return Err(ParameterError::new("size", format_args!("{} bytes", wishes.size_bytes), allowed));
    };
    if fpg != best {
        notes
            .push(format!("fragments per group changed from {best} to {fpg} for the sake of the last group"));
    }
    if fs_size.div_ceil(fpg).saturating_mul(packing.ipg(fpg)) >= 1 << 32 {
        let allowed = "larger: inode numbers have 32 bits, and each group has whole blocks of inodes";
        return Err(ParameterError::new("density", packing.per_frags * fsize / packing.inodes, allowed));
    }
    let narrow = |parameter, n: u64| {
        u32::try_from(n).map_err(|_| ParameterError::new(parameter, n, "less than 2^32; take larger blocks"))
    };
    Ok(Groups {
        fs_size,
        fs_ncg: narrow("number of groups", fs_size.div_ceil(fpg))?,
        fs_fpg: narrow("fragments per group", fpg)?,
        fs_ipg: narrow("inodes per group", packing.ipg(fpg))?,
        cg_bytes: narrow("group block", packing.cg_bytes(fpg))?,
    })
}
