//! Phase 5: the maps, counts and summaries of the cylinder groups against what phases 1 to 4 know.
//!
//! For each group everything is computed anew from the block map and the inode states, then
//! compared. One wrong bit so shows in the map and in every count that was made from the same bit.

use super::finding::Finding;
use super::inodes::ROOTINO;
use super::node::kind;
use super::state::mask;
use super::terms::Counts;
use super::{Checker, Phase};
use crate::format::ckhash::check_hash;
use crate::format::dialect::Dialect;
use crate::format::group::{CG_CKHASH, Group, GroupMap, isset, setbit};
use crate::format::layout::{Layout, Version};
use crate::format::ondisk::{Cg, Csum};
use crate::format::units::Frag;

/// Bytes of summaries read at once.
const RUN_BYTES: usize = 1 << 20;

/// The contents that a group block should have.
pub(crate) struct Expected {
    pub(crate) inosused: Vec<u8>,
    pub(crate) blksfree: Vec<u8>,
    pub(crate) clustersfree: Vec<u8>,
    pub(crate) counts: Counts,
    pub(crate) frsum: [u32; 8],
    /// By length; entry 0 is not used.
    pub(crate) clustersum: Vec<u32>,
    /// Free blocks by fragment, for the rotational counts.
    pub(crate) free_blocks: Vec<u32>,
}

impl Checker<'_> {
    /// Phase 5.
    pub(crate) fn check_groups(&mut self) {
        let layout = self.layout;
        let mut total = Counts::default();
        for cgx in 0..layout.fs_ncg {
            self.report_progress(Phase::Groups, cgx.into(), layout.fs_ncg.into());
            let expected = self.expect(cgx);
            total.ndir += expected.counts.ndir;
            total.nbfree += expected.counts.nbfree;
            total.nifree += expected.counts.nifree;
            total.nffree += expected.counts.nffree;
            self.check_summary(cgx, expected.counts);
            let at = layout.byte(layout.cgtod(cgx));
            let size = layout.fs_cgsize as usize;
            match self.reader.read(at, size, 0).map(<[u8]>::to_vec) {
                Ok(block) => self.check_group(cgx, &block, &expected),
                Err(error) => self.unreadable(at, size as u64, &error),
            }
        }
        self.free = total;
        if self.from_replica {
            return;
        }
        let found = Counts::from(self.superblock.totals());
        if found != total {
            self.findings.push(Finding::Totals { found, expected: total });
        }
        let old = Counts::from(self.superblock.old_totals());
        if layout.flags_updated && old != total && old != found {
            self.findings.push(Finding::OldTotals { found: old, expected: total });
        }
    }

    /// Checks the counts of a cylinder group in the summary area.
    fn check_summary(&mut self, cgx: u32, expected: Counts) {
        let layout = self.layout;
        let offset = cgx as usize * Csum::SIZE;
        let at = layout.byte(layout.fs_csaddr) + offset as u64;
        let ahead = (layout.fs_cssize as usize - offset).min(RUN_BYTES);
        match self.inode_reader.read(at, Csum::SIZE, ahead) {
            Ok(bytes) => {
                let found = Csum::decode(bytes, layout.endian).into();
                if found != expected {
                    self.findings.push(Finding::SummaryCounts { cgx, found, expected });
                }
            }
            Err(error) => self.unreadable(at, Csum::SIZE as u64, &error),
        }
    }

    /// Computes what the group block should hold.
    pub(crate) fn expect(&self, cgx: u32) -> Expected {
        let layout = self.layout;
        let (ndblk, frag) = (layout.cg_frags(cgx), layout.fs_frag);
        let base = layout.cgbase(cgx).0;
        let bytes = |bits: u32| vec![0; (bits as usize).div_ceil(8)];
        let mut e = Expected {
            inosused: bytes(layout.fs_ipg),
            blksfree: bytes(layout.fs_fpg),
            clustersfree: bytes(ndblk / frag),
            counts: Counts::default(),
            frsum: [0; 8],
            clustersum: vec![0; layout.fs_contigsumsize as usize + 1],
            free_blocks: Vec::new(),
        };
        let reserved = if cgx == 0 { ROOTINO } else { 0 };
        (0..reserved.min(layout.fs_ipg)).for_each(|n| setbit(&mut e.inosused, n));
        let mut used = i64::from(reserved);
        for (n, state) in (0..).zip(&self.state.inodes[cgx as usize]) {
            if state.kind != 0 {
                setbit(&mut e.inosused, n);
                used += 1;
                e.counts.ndir += i64::from(state.kind == kind::DIR && !state.clear);
            }
        }
        e.counts.nifree = i64::from(layout.fs_ipg) - used;
        let mut run = 0;
        for bno in (0..ndblk).step_by(frag as usize) {
            let here = frag.min(ndblk - bno);
            let free = mask(here) & !self.state.used.bits(base + u64::from(bno), here);
            if free == mask(frag) {
                e.counts.nbfree += 1;
                setbit(&mut e.clustersfree, bno / frag);
                e.free_blocks.push(bno);
                run += 1;
            } else {
                e.end_cluster(&mut run);
                e.counts.nffree += i64::from(free.count_ones());
                e.count_runs(free);
            }
            if free != 0 {
                // A block's bits never cross a byte.
                e.blksfree[bno as usize / 8] |= free << (bno % 8);
            }
        }
        e.end_cluster(&mut run);
        e
    }

    fn check_group(&mut self, cgx: u32, block: &[u8], e: &Expected) {
        let layout = self.layout;
        let map = match GroupMap::check(layout, block, cgx) {
            Ok(map) => map,
            Err(error) => {
                return self.findings.push(Finding::GroupUnusable { cgx, why: error.problem() });
            }
        };
        let group = Group::new(layout, &map, block);
        let cg = Cg::decode(block, layout.endian);
        let ncyl = i64::from(cg.cg_old_ncyl);
        let wrong_ncyl = self.wrong_ncyl(cgx, ncyl);
        let findings = &mut self.findings;
        if self.hashes.groups {
            let expected = check_hash(block, CG_CKHASH);
            if expected != cg.cg_ckhash {
                findings.push(Finding::GroupCheckHash { cgx, found: cg.cg_ckhash, expected });
            }
        }
        let (ndblk, ipg) = (i64::from(map.ndblk), i64::from(layout.fs_ipg));
        for (field, found, most) in [
            ("cg_rotor", i64::from(cg.cg_rotor), ndblk - 1),
            ("cg_frotor", i64::from(cg.cg_frotor), ndblk - 1),
            ("cg_irotor", i64::from(cg.cg_irotor), ipg - 1),
        ] {
            if found > most {
                findings.push(Finding::GroupField { cgx, field, found, expected: most });
            }
        }
        if let Some(expected) = wrong_ncyl {
            findings.push(Finding::GroupField { cgx, field: "cg_old_ncyl", found: ncyl, expected });
        }
        let found = i64::from(group.frsum(0));
        if found != 0 {
            findings.push(Finding::GroupField { cgx, field: "cg_frsum[0]", found, expected: 0 });
        }
        if !layout.old_cg {
            let (bits, after) = if layout.fs_contigsumsize > 0 {
                (layout.fs_fpg / layout.fs_frag, cg.cg_clusteroff)
            } else {
                (layout.fs_fpg, cg.cg_freeoff)
            };
            let (found, expected) = (i64::from(cg.cg_nextfreeoff), i64::from(after + bits.div_ceil(8)));
            if found != expected {
                findings.push(Finding::GroupField { cgx, field: "cg_nextfreeoff", found, expected });
            }
        }
        let clusters = layout.fs_fpg / layout.fs_frag;
        for (name, map, bits) in [
            ("fragments", &map.blksfree, layout.fs_fpg),
            ("clusters", &map.clustersfree, if map.clustersfree.is_empty() { 0 } else { clusters }),
        ] {
            // What the last byte of the map itself has beyond the end is seen with the map.
            let rest = map.end..(map.start + bits.div_ceil(8) as usize).clamp(map.end, block.len());
            if let Some(at) = block[rest].iter().position(|&byte| byte != 0) {
                let byte = map.len() + at;
                let bit =
                    u32::try_from(byte * 8).unwrap_or(u32::MAX) + block[map.start + byte].trailing_zeros();
                findings.push(Finding::FreeBeyondEnd { cgx, map: name, bit });
            }
        }
        let (field, found) = match layout.version {
            Version::Ufs1 => ("cg_old_niblk", i64::from(cg.cg_old_niblk.cast_unsigned())),
            Version::Ufs2 => ("cg_niblk", i64::from(cg.cg_niblk)),
        };
        if found != ipg {
            findings.push(Finding::GroupField { cgx, field, found, expected: ipg });
        }

        let first = cgx * layout.fs_ipg;
        differences(&e.inosused, group.inosused(), &mut |n, inodes, used| {
            let ino = first + n;
            findings.push(if used {
                Finding::InodesMarkedFree { ino, inodes }
            } else {
                Finding::InodesMarkedUsed { ino, inodes }
            });
        });
        let base = layout.cgbase(cgx);
        differences(&e.blksfree, group.blksfree(), &mut |n, frags, free| {
            let Frag(frag) = base + u64::from(n);
            findings.push(if free {
                Finding::FragsMarkedUsed { frag, frags }
            } else {
                Finding::FragsMarkedFree { frag, frags }
            });
        });
        if layout.fs_contigsumsize > 0 {
            differences(&e.clustersfree, group.clustersfree(), &mut |block, blocks, _| {
                findings.push(Finding::ClusterMap { cgx, block, blocks });
            });
        }
        for blocks in 1..=layout.fs_contigsumsize {
            let (found, expected) = (group.clustersum(blocks), e.clustersum[blocks as usize]);
            if found != expected {
                findings.push(Finding::ClusterSum { cgx, blocks, found, expected });
            }
        }
        let found = group.cs().into();
        if found != e.counts {
            findings.push(Finding::GroupCounts { cgx, found, expected: e.counts });
        }
        for frags in 1..layout.fs_frag {
            let (found, expected) = (group.frsum(frags), e.frsum[frags as usize]);
            if found != expected {
                findings.push(Finding::FreeRuns { cgx, frags, found, expected });
            }
        }
        if map.rotational.is_some() {
            self.check_rotation(cgx, &group, &e.free_blocks);
        }
    }

    /// Returns what the cylinders of a group should be, if they are not. Systems differ on the last
    /// group (see `docs/DIALECTS.md`); where nobody knows whose it is, all that one of them wants
    /// is right.
    pub(crate) fn wrong_ncyl(&self, cgx: u32, found: i64) -> Option<i64> {
        let (layout, fs) = (self.layout, &self.superblock.fs);
        let cpg = i64::from(fs.fs_old_cpg);
        let mut good = match layout.version {
            Version::Ufs2 => vec![0],
            Version::Ufs1 if cgx + 1 < layout.fs_ncg => vec![cpg],
            Version::Ufs1 => {
                let rest = i64::from(fs.fs_old_ncyl).checked_rem(cpg).unwrap_or(0);
                let cylinder = i64::from(layout.fs_fpg) / cpg.max(1);
                let held =
                    i64::from(layout.cg_frags(cgx)).unsigned_abs().div_ceil(cylinder.max(1).unsigned_abs());
                match self.superblock.dialect {
                    _ if !layout.flags_updated => vec![rest],
                    Dialect::FreeBsd | Dialect::NetBsd => vec![held.cast_signed()],
                    Dialect::OpenBsd => vec![rest],
                    _ => vec![held.cast_signed(), rest],
                }
            }
        };
        let expected = good.remove(0);
        (found != expected && !good.contains(&found)).then_some(expected)
    }

    /// Checks the counts of free blocks by cylinder and rotational position.
    fn check_rotation(&mut self, cgx: u32, group: &Group<'_>, free_blocks: &[u32]) {
        for (cylinder, expected) in (0..).zip(free_by_position(self.layout, free_blocks)) {
            let (found, total) = (group.blktot(cylinder), expected.iter().sum());
            if found != total {
                let finding = Finding::CylinderBlocks { cgx, cylinder, found, expected: total };
                self.findings.push(finding);
            }
            for (position, &expected) in (0..).zip(&expected) {
                let expected = expected & 0xffff;
                let found = i32::from(group.blks(cylinder, position));
                if found != expected {
                    let finding = Finding::RotationalBlocks { cgx, cylinder, position, found, expected };
                    self.findings.push(finding);
                }
            }
        }
    }
}

/// Returns how many of the free blocks of a group, given by their fragments, stand in each cylinder
/// at each rotational position; nothing where there are no tables.
pub(crate) fn free_by_position(layout: &Layout, free_blocks: &[u32]) -> Vec<Vec<i32>> {
    let Some(rotation) = &layout.rotation else { return Vec::new() };
    let cylinders = if layout.old_cg { rotation.fs_old_cpg.min(32) } else { rotation.fs_old_cpg };
    let mut table = vec![vec![0; rotation.fs_old_nrpos as usize]; cylinders as usize];
    for &bno in free_blocks {
        let cylinder = table.get_mut(rotation.cylinder(bno) as usize);
        if let Some(count) = cylinder.and_then(|counts| counts.get_mut(rotation.position(bno) as usize)) {
            *count += 1;
        }
    }
    table
}

impl Expected {
    /// Counts the free runs in the bits of a block that is not wholly free.
    fn count_runs(&mut self, mut free: u8) {
        while free != 0 {
            free >>= free.trailing_zeros();
            let run = free.trailing_ones();
            self.frsum[run as usize % 8] += 1;
            free = free.checked_shr(run).unwrap_or(0);
        }
    }

    /// Counts the cluster that ends here.
    fn end_cluster(&mut self, run: &mut usize) {
        let longest = self.clustersum.len() - 1;
        if *run > 0 && longest > 0 {
            self.clustersum[(*run).min(longest)] += 1;
        }
        *run = 0;
    }
}

/// Calls `report` with start, length and expected bit of each run of bits in which two maps differ.
/// Bits that the expected map does not have are expected clear.
fn differences(expected: &[u8], found: &[u8], report: &mut dyn FnMut(u32, u32, bool)) {
    let mut run: Option<(u32, u32, bool)> = None;
    for (at, &byte) in (0_u32..).zip(found) {
        let want = expected.get(at as usize).copied().unwrap_or(0);
        if byte == want && run.is_none() {
            continue;
        }
        for bit in 0..8 {
            let n = at * 8 + bit;
            let want = isset(&[want], bit);
            let differs = isset(&[byte], bit) != want;
            run = match run {
                Some((start, len, polarity)) if differs && polarity == want => {
                    Some((start, len + 1, polarity))
                }
                ended => {
                    if let Some((start, len, polarity)) = ended {
                        report(start, len, polarity);
                    }
                    differs.then_some((n, 1, want))
                }
            };
        }
    }
    if let Some((start, len, polarity)) = run {
        report(start, len, polarity);
    }
}
