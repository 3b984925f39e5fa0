//! Cylinder groups, summaries and totals, all of it computed from the inodes.

use super::Round;
use crate::check::Finding;
use crate::check::groups::{Expected, free_by_position};
use crate::format::ckhash::check_hash;
use crate::format::group::{CG_CKHASH, Group, GroupMap};
use crate::format::layout::{Layout, Version};
use crate::format::ondisk::{CG_MAGIC, Cg, Csum, CsumTotal};
use spindle_ondisk::Field;
use spindle_vfs::{Error, Result};
use std::ops::Range;

/// Byte offset of `cg_magic` in the fixed format.
const OLD_MAGIC: usize = 980;

impl Round<'_> {
    /// Makes group blocks anew that cannot be used, and has them show all inodes that were ever
    /// used: an inode that a group hides is not looked at.
    pub(super) fn hidden_inodes(&mut self) -> Result<bool> {
        let layout = self.checker.layout;
        let mut changed = false;
        let mut needed = std::collections::BTreeMap::new();
        for finding in self.findings() {
            let (first, inodes) = match finding {
                Finding::GroupUnusable { cgx, .. } => {
                    self.memory.doubtful.insert(cgx);
                    changed |= self.put_group(cgx)?;
                    continue;
                }
                Finding::EntryUnallocated { entry } => (entry.ino, 1),
                Finding::InodesMarkedUsed { ino, inodes } => (ino, inodes),
                _ => continue,
            };
            if layout.version == Version::Ufs1 || first >= layout.inodes() {
                continue;
            }
            let cgx = layout.ino_to_cg(first);
            let base = cgx * layout.fs_ipg;
            let block = self.group_block(cgx)?;
            let Ok(map) = GroupMap::check(layout, &block, cgx) else { continue };
            let ready = Group::new(layout, &map, &block).initediblk();
            let sealed = self.checker.hashes.groups
                && !self.memory.doubtful.contains(&cgx)
                && check_hash(&block, CG_CKHASH) == Cg::decode(&block, layout.endian).cg_ckhash;
            for ino in first.max(base + ready)..(first + inodes).min(base + layout.fs_ipg) {
                if !sealed && self.may_be_a_file(ino)? {
                    let most: &mut u32 = needed.entry(cgx).or_default();
                    *most = (*most).max((ino - base + 1).next_multiple_of(layout.fs_inopb));
                }
            }
        }
        for (cgx, inodes) in needed {
            self.memory.doubtful.insert(cgx);
            let at = layout.byte(layout.cgtod(cgx));
            let hashed = self.checker.hashes.groups;
            changed |= self.image.change(at, layout.fs_cgsize as usize, |block| {
                let mut cg = Cg::decode(block, layout.endian);
                cg.cg_initediblk = inodes;
                cg.encode(block, layout.endian);
                seal(layout, hashed, block);
            })?;
        }
        Ok(changed)
    }

    /// Writes the groups, the summaries and the totals as they should be.
    pub(super) fn groups(&mut self) -> Result<bool> {
        let layout = self.checker.layout;
        let mut changed = false;
        for cgx in 0..layout.fs_ncg {
            changed |= self.put_group(cgx)?;
        }
        let totals = self.checker.free;
        let found = crate::check::Counts::from(self.checker.superblock.totals());
        if found != totals && !self.checker.from_replica {
            let mut superblock = self.checker.superblock.clone();
            superblock.set_totals(&CsumTotal {
                cs_ndir: totals.ndir,
                cs_nbfree: totals.nbfree,
                cs_nifree: totals.nifree,
                cs_nffree: totals.nffree,
                ..CsumTotal::default()
            });
            superblock.write(self.image.device)?;
            changed = true;
        }
        Ok(changed)
    }

    fn group_block(&self, cgx: u32) -> Result<Vec<u8>> {
        let layout = self.layout();
        self.image.read(layout.byte(layout.cgtod(cgx)), layout.fs_cgsize as usize)
    }

    /// Writes the block of a group, and its counts in the summaries.
    fn put_group(&self, cgx: u32) -> Result<bool> {
        let layout = self.layout();
        let expected = self.checker.expect(cgx);
        let found = self.group_block(cgx)?;
        let mut block = found.clone();
        if GroupMap::check(layout, &found, cgx).is_err() {
            block = self.new_group(cgx)?;
        }
        let map = GroupMap::check(layout, &block, cgx).map_err(|error| {
            Error::unsupported(format!("group {cgx} cannot be made anew: {error}"), super::COPY)
        })?;
        self.fill_group(&map, &expected, &mut block);
        let changed = self.image.put(layout.byte(layout.cgtod(cgx)), &block)?;
        let mut counts = [0; Csum::SIZE];
        csum(&expected).encode(&mut counts, layout.endian);
        let at = layout.byte(layout.fs_csaddr) + u64::from(cgx) * Csum::SIZE as u64;
        Ok(self.image.put(at, &counts)? | changed)
    }

    /// Fills a group block with what it should hold.
    fn fill_group(&self, map: &GroupMap, e: &Expected, block: &mut [u8]) {
        let layout = self.layout();
        let endian = layout.endian;
        // In the fixed format, the fields up to the counts of runs are at the same places.
        let mut cg = Cg::decode(block, endian);
        cg.cg_cs = csum(e);
        cg.cg_rotor = within(cg.cg_rotor, map.ndblk);
        cg.cg_frotor = within(cg.cg_frotor, map.ndblk);
        cg.cg_irotor = within(cg.cg_irotor, layout.fs_ipg);
        cg.cg_frsum[0] = 0;
        for frags in 1..layout.fs_frag as usize {
            cg.cg_frsum[frags] = e.frsum[frags];
        }
        match layout.version {
            Version::Ufs1 => cg.cg_old_niblk = i16::try_from(layout.fs_ipg).unwrap_or(i16::MAX),
            Version::Ufs2 => cg.cg_niblk = layout.fs_ipg,
        }
        if let Some(ncyl) = self.checker.wrong_ncyl(map.cgx, cg.cg_old_ncyl.into()) {
            cg.cg_old_ncyl = i16::try_from(ncyl).unwrap_or(0);
        }
        if !layout.old_cg {
            let (bits, after) = if layout.fs_contigsumsize > 0 {
                (layout.fs_fpg / layout.fs_frag, cg.cg_clusteroff)
            } else {
                (layout.fs_fpg, cg.cg_freeoff)
            };
            cg.cg_nextfreeoff = after + bits.div_ceil(8);
        }
        cg.encode(block, endian);
        let clusters = if map.clustersfree.is_empty() { 0 } else { layout.fs_fpg / layout.fs_frag };
        for (place, bits, wanted) in [
            (&map.inosused, layout.fs_ipg, &e.inosused),
            (&map.blksfree, layout.fs_fpg, &e.blksfree),
            (&map.clustersfree, clusters, &e.clustersfree),
        ] {
            let end = (place.start + bits.div_ceil(8) as usize).min(block.len());
            for (n, byte) in block[place.start..end].iter_mut().enumerate() {
                *byte = wanted.get(n).copied().unwrap_or(0);
            }
        }
        if let Some(sums) = &map.clustersum {
            for (bytes, sum) in block[sums.clone()].chunks_exact_mut(4).zip(&e.clustersum[1..]) {
                sum.put(bytes, endian);
            }
        }
        if let Some((totals, positions)) = &map.rotational {
            let table = free_by_position(layout, &e.free_blocks);
            let each = table.first().map_or(0, Vec::len);
            for (cylinder, counts) in table.iter().enumerate() {
                counts.iter().sum::<i32>().put(&mut block[totals.start + cylinder * 4..], endian);
                for (position, &count) in counts.iter().enumerate() {
                    let at = positions.start + (cylinder * each + position) * 2;
                    let [a, b, ..] = count.to_le_bytes();
                    u16::from_le_bytes([a, b]).put(&mut block[at..], endian);
                }
            }
        }
        seal(layout, self.checker.hashes.groups, block);
    }

    /// Returns a new block for a group whose own cannot be used, without its maps: the parts are
    /// where those of another group are, or else where newfs puts them.
    fn new_group(&self, cgx: u32) -> Result<Vec<u8>> {
        let layout = self.layout();
        let endian = layout.endian;
        let mut block = vec![0; layout.fs_cgsize as usize];
        let mut cg = Cg::decode(&block, endian);
        cg.cg_cgx = cgx;
        cg.cg_ndblk = layout.cg_frags(cgx);
        if layout.old_cg {
            cg.encode(&mut block, endian);
            CG_MAGIC.put(&mut block[OLD_MAGIC..], endian);
            return Ok(block);
        }
        cg.cg_magic = CG_MAGIC;
        let mut model = None;
        for other in (0..layout.fs_ncg).filter(|&other| other != cgx) {
            let found = self.group_block(other)?;
            if GroupMap::check(layout, &found, other).is_ok() {
                model = Some(Cg::decode(&found, endian));
                break;
            }
        }
        match model {
            Some(model) => {
                (cg.cg_old_btotoff, cg.cg_old_boff) = (model.cg_old_btotoff, model.cg_old_boff);
                (cg.cg_iusedoff, cg.cg_freeoff) = (model.cg_iusedoff, model.cg_freeoff);
                cg.cg_clustersumoff = model.cg_clustersumoff;
                cg.cg_clusteroff = model.cg_clusteroff;
            }
            None => self.place_parts(&mut cg),
        }
        if layout.fs_contigsumsize > 0 {
            cg.cg_nclusterblks = cg.cg_ndblk / layout.fs_frag;
        }
        if layout.version == Version::Ufs2 {
            let last = u32::try_from(self.checker.state.inodes[cgx as usize].len()).unwrap_or(0);
            let least = 2 * layout.fs_inopb;
            cg.cg_initediblk = last.next_multiple_of(layout.fs_inopb).max(least).min(layout.fs_ipg);
        }
        cg.encode(&mut block, endian);
        Ok(block)
    }

    /// Places the parts of a group block one after the other.
    fn place_parts(&self, cg: &mut Cg) {
        let layout = self.layout();
        let fs = &self.checker.superblock.fs;
        let (cylinders, positions) = match (&layout.rotation, layout.version) {
            (Some(rotation), _) => (rotation.fs_old_cpg, rotation.fs_old_nrpos),
            (None, Version::Ufs1) => {
                (fs.fs_old_cpg.max(1).cast_unsigned(), fs.fs_old_nrpos.max(1).cast_unsigned())
            }
            (None, Version::Ufs2) => (0, 0),
        };
        let head = u32::try_from(Cg::SIZE).unwrap_or(0);
        let boff = head.saturating_add(cylinders.saturating_mul(4));
        cg.cg_iusedoff = boff.saturating_add(cylinders.saturating_mul(positions).saturating_mul(2));
        cg.cg_freeoff = cg.cg_iusedoff.saturating_add(layout.fs_ipg.div_ceil(8));
        if layout.version == Version::Ufs1 {
            (cg.cg_old_btotoff, cg.cg_old_boff) = (head.cast_signed(), boff.cast_signed());
        }
        if layout.fs_contigsumsize > 0 {
            let end = cg.cg_freeoff.saturating_add(layout.fs_fpg.div_ceil(8));
            cg.cg_clustersumoff = layout.clustersumoff(end);
            cg.cg_clusteroff = cg.cg_clustersumoff.saturating_add((layout.fs_contigsumsize + 1) * 4);
        }
    }

    /// Returns true if these groups have the blocks that they should have.
    pub(super) fn are_groups(&self, mut groups: Range<u32>) -> Result<bool> {
        groups.try_fold(true, |all, cgx| {
            Ok(all && GroupMap::check(self.layout(), &self.group_block(cgx)?, cgx).is_ok())
        })
    }

    /// Returns true if most group blocks are where the superblock says that they are.
    pub(super) fn groups_confirm(&self) -> Result<bool> {
        let layout = self.layout();
        let mut good = 0;
        for cgx in 0..layout.fs_ncg {
            good += u32::from(GroupMap::check(layout, &self.group_block(cgx)?, cgx).is_ok());
        }
        Ok(good > layout.fs_ncg / 2)
    }
}

/// Returns a number if it is below `end`, otherwise 0.
const fn within(n: u32, end: u32) -> u32 {
    if n < end { n } else { 0 }
}

fn csum(e: &Expected) -> Csum {
    let narrow = |n: i64| i32::try_from(n).unwrap_or(i32::MAX);
    Csum {
        cs_ndir: narrow(e.counts.ndir),
        cs_nbfree: narrow(e.counts.nbfree),
        cs_nifree: narrow(e.counts.nifree),
        cs_nffree: narrow(e.counts.nffree),
    }
}

/// Puts the check-hash of a group block right.
pub(crate) fn seal(layout: &Layout, hashed: bool, block: &mut [u8]) {
    if hashed {
        let hash = check_hash(block, CG_CKHASH);
        hash.put(&mut block[CG_CKHASH..], layout.endian);
    }
}
