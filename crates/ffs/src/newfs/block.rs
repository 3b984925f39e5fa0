//! Cylinder group blocks of a new file system.
//!
//! Groups differ only in how far their structures are shifted, in how long they are, and in that
//! the first holds the summaries and the first directories. So a few templates serve however many
//! groups there are. All counts of a template are taken from its map of free fragments.

use super::conventions::Conventions;
use crate::format::ckhash::check_hash;
use crate::format::group::{CG_CKHASH, isset, setbit};
use crate::format::layout::{Layout, Version};
use crate::format::ondisk::{CG_MAGIC, Cg, Csum, Fs, OldCg};
use crate::format::rotation::Rotation;
use rand::RngCore;
use spindle_device::AlignedBuf;
use spindle_ondisk::{Endian, Field};
use std::collections::BTreeMap;

/// Contents of the first cylinder group besides its structures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    /// Fragments in use: address and length.
    pub frags: Vec<(u64, u64)>,
    /// Inodes in use, from 0.
    pub inodes: u32,
    pub directories: u32,
}

/// The cylinders of which groups are made, where they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cylinders<'a> {
    pub rotation: &'a Rotation,
    /// Cylinders of the file system.
    pub ncyl: u32,
}

/// The properties in which cylinder groups differ: first or not, shift of the structures,
/// fragments.
type Kind = (bool, u64, u32);

#[derive(Clone, Debug)]
struct Template {
    block: Vec<u8>,
    counts: Csum,
}

/// The blocks of all groups, by their kinds.
#[derive(Clone, Debug)]
pub(crate) struct GroupBlocks {
    templates: BTreeMap<Kind, Template>,
    /// Cylinders of a group, and of the last one as its system's checker expects it.
    ncyl: (i16, i16),
    hashed: bool,
}

fn kind(layout: &Layout, cgx: u32) -> Kind {
    (cgx == 0, layout.cgstart(cgx) - layout.cgbase(cgx), layout.cg_frags(cgx))
}

impl GroupBlocks {
    pub fn new(
        layout: &Layout,
        fs: &Fs,
        conventions: &Conventions,
        cylinders: Option<Cylinders<'_>>,
        used: &Used,
    ) -> Self {
        let mut templates = BTreeMap::new();
        let none = Used::default();
        // The shifts repeat after as many groups as the mask has zero bits for.
        let period = (!layout.fs_old_cgmask).saturating_add(2).min(layout.fs_ncg);
        for cgx in (0..period).chain([layout.fs_ncg - 1]) {
            templates.entry(kind(layout, cgx)).or_insert_with(|| {
                Template::build(layout, cylinders, cgx, if cgx == 0 { used } else { &none })
            });
        }
        let ncyl = match (cylinders, layout.version) {
            (Some(c), _) => {
                let cpg = c.rotation.fs_old_cpg;
                let short = |n: u32| i16::try_from(n).unwrap_or(i16::MAX);
                (short(cpg), short(c.ncyl % cpg))
            }
            (None, Version::Ufs1) => (1, conventions.last_ncyl),
            (None, Version::Ufs2) => (0, 0),
        };
        Self { templates, ncyl, hashed: fs.fs_metackhash & crate::format::ondisk::CK_CYLGRP != 0 }
    }

    /// Returns the counts of group `cgx`.
    pub fn counts(&self, layout: &Layout, cgx: u32) -> Csum {
        self.templates.get(&kind(layout, cgx)).map_or_else(Csum::default, |t| t.counts)
    }

    /// Returns what stands together at the start of group `cgx`: its copy of the superblock, its
    /// block, and the inodes that are initialised, none of them in use; and the byte where it
    /// stands.
    pub fn structures(
        &self,
        layout: &Layout,
        cgx: u32,
        secs: i64,
        superblock: &[u8],
        random: &mut dyn RngCore,
    ) -> (u64, AlignedBuf) {
        let offset = |frags: u32| (frags - layout.fs_sblkno) as usize * layout.fs_fsize as usize;
        let (block_at, inodes_at) = (offset(layout.fs_cblkno), offset(layout.fs_iblkno));
        let inode_size = layout.inode_size();
        let gen_at = if layout.version == Version::Ufs1 { DI_GEN_UFS1 } else { DI_GEN_UFS2 };
        let mut run = AlignedBuf::zeroed(inodes_at + initialised_inodes(layout) as usize * inode_size);
        run[..superblock.len()].copy_from_slice(superblock);
        self.encode(layout, cgx, secs, &mut run[block_at..inodes_at]);
        for inode in run[inodes_at..].chunks_exact_mut(inode_size) {
            positive(random).put(&mut inode[gen_at..], layout.endian);
        }
        (layout.byte(layout.cgsblock(cgx)), run)
    }

    /// Writes the block of group `cgx` into `block`, which is one block long and zero.
    fn encode(&self, layout: &Layout, cgx: u32, secs: i64, block: &mut [u8]) {
        let Some(template) = self.templates.get(&kind(layout, cgx)) else { return };
        let endian = layout.endian;
        block[..template.block.len()].copy_from_slice(&template.block);
        let ncyl = if cgx == layout.fs_ncg - 1 { self.ncyl.1 } else { self.ncyl.0 };
        if layout.old_cg {
            let mut cg = OldCg::decode(block, endian);
            (cg.cg_time, cg.cg_cgx, cg.cg_ncyl) =
                (crate::format::units::low_word(secs), cgx.cast_signed(), ncyl);
            cg.encode(block, endian);
            return;
        }
        let mut cg = Cg::decode(block, endian);
        cg.cg_cgx = cgx;
        cg.cg_old_ncyl = ncyl;
        match layout.version {
            Version::Ufs1 => cg.cg_old_time = crate::format::units::low_word(secs),
            Version::Ufs2 => cg.cg_time = secs,
        }
        // The old formats end before the newer fields: what is zero there leaves nothing behind.
        cg.encode(block, endian);
        if self.hashed {
            cg.cg_ckhash = check_hash(&block[..layout.fs_cgsize as usize], CG_CKHASH);
            cg.encode(block, endian);
        }
    }
}

/// Byte offsets of the generation of an inode.
const DI_GEN_UFS1: usize = 108;
const DI_GEN_UFS2: usize = 80;

/// Returns a random number that is neither zero nor negative, as every BSD takes it.
pub(super) fn positive(random: &mut dyn RngCore) -> i32 {
    (random.next_u32() >> 1).max(1).cast_signed()
}

/// Byte offsets of the maps (FreeBSD `mkfs.c`, `initcg`).
struct Maps {
    btotoff: usize,
    boff: usize,
    iusedoff: usize,
    freeoff: usize,
    clustersumoff: usize,
    clusteroff: usize,
    nextfreeoff: usize,
}

impl Maps {
    fn new(layout: &Layout, cylinders: Option<Cylinders<'_>>) -> Self {
        let bytes = |bits: u32| bits.div_ceil(8) as usize;
        if layout.old_cg {
            let nextfreeoff = OldCg::SIZE + bytes(layout.fs_fpg);
            return Self {
                btotoff: 84,
                boff: 212,
                iusedoff: 724,
                freeoff: OldCg::SIZE,
                clustersumoff: 0,
                clusteroff: 0,
                nextfreeoff,
            };
        }
        // The newer systems fake one cylinder with one position in UFS1, and have none in UFS2.
        let (cpg, nrpos) = match (cylinders, layout.version) {
            (Some(c), _) => (c.rotation.fs_old_cpg as usize, c.rotation.fs_old_nrpos as usize),
            (None, Version::Ufs1) => (1, 1),
            (None, Version::Ufs2) => (0, 0),
        };
        let btotoff = Cg::SIZE;
        let boff = btotoff + cpg * 4;
        let iusedoff = boff + cpg * nrpos * 2;
        let freeoff = iusedoff + bytes(layout.fs_ipg);
        let mut maps = Self {
            btotoff,
            boff,
            iusedoff,
            freeoff,
            clustersumoff: 0,
            clusteroff: 0,
            nextfreeoff: freeoff + bytes(layout.fs_fpg),
        };
        if layout.fs_contigsumsize > 0 {
            let end = u32::try_from(maps.nextfreeoff).unwrap_or(u32::MAX - 3);
            maps.clustersumoff = layout.clustersumoff(end) as usize;
            maps.clusteroff = maps.clustersumoff + (layout.fs_contigsumsize as usize + 1) * 4;
            maps.nextfreeoff = maps.clusteroff + bytes(layout.fs_fpg / layout.fs_frag);
        }
        maps
    }
}

impl Template {
    fn build(layout: &Layout, cylinders: Option<Cylinders<'_>>, cgx: u32, used: &Used) -> Self {
        let maps = Maps::new(layout, cylinders);
        let (_, shift, ndblk) = kind(layout, cgx);
        let start = if cgx == 0 { 0 } else { shift + u64::from(layout.fs_sblkno) };
        let mut end = shift + u64::from(layout.fs_dblkno);
        if cgx == 0 {
            end += u64::from(layout.fs_cssize.div_ceil(layout.fs_fsize));
        }
        let mut free = vec![true; ndblk as usize];
        for (at, len) in used.frags.iter().copied().chain([(start, end - start)]) {
            let range = crate::format::units::index(at)..crate::format::units::index(at + len);
            if let Some(taken) = free.get_mut(range) {
                taken.fill(false);
            }
        }

        let mut block = vec![0; layout.fs_bsize as usize];
        let blksfree = &mut block[maps.freeoff..];
        for frag in (0..ndblk).filter(|&n| free[n as usize]) {
            setbit(blksfree, frag);
        }
        let inosused = &mut block[maps.iusedoff..];
        for ino in 0..used.inodes {
            setbit(inosused, ino);
        }

        let mut counts = Csum {
            cs_ndir: used.directories.cast_signed(),
            cs_nifree: (layout.fs_ipg - used.inodes).cast_signed(),
            ..Csum::default()
        };
        let mut frsum = [0_u32; 8];
        let mut whole = Vec::new();
        for (n, frags) in (0..).zip(free.chunks(layout.fs_frag as usize)) {
            if frags.len() == layout.fs_frag as usize && frags.iter().all(|&f| f) {
                whole.push(n);
            } else {
                for run in frags.split(|&f| !f).filter(|run| !run.is_empty()) {
                    frsum[run.len()] += 1;
                    counts.cs_nffree += i32::try_from(run.len()).unwrap_or(0);
                }
            }
        }
        counts.cs_nbfree = i32::try_from(whole.len()).unwrap_or(i32::MAX);
        // UFS1 without a geometry has one cylinder and one position, where all blocks are counted.
        match (cylinders, layout.version) {
            (Some(c), _) => {
                count_positions(&mut block, &maps, layout.endian, layout.fs_frag, c.rotation, &whole);
            }
            (None, Version::Ufs1) => {
                counts.cs_nbfree.put(&mut block[maps.btotoff..], layout.endian);
                // The count per position has the low 16 bits of it.
                let [a, b, ..] = counts.cs_nbfree.to_le_bytes();
                u16::from_le_bytes([a, b]).put(&mut block[maps.boff..], layout.endian);
            }
            (None, Version::Ufs2) => {}
        }
        if layout.fs_contigsumsize > 0 {
            count_clusters(&mut block, &maps, layout, ndblk / layout.fs_frag, &whole);
        }
        Self::head(layout, &maps, ndblk, counts, frsum, &mut block);
        Self { block, counts }
    }

    fn head(layout: &Layout, maps: &Maps, ndblk: u32, counts: Csum, frsum: [u32; 8], block: &mut [u8]) {
        let endian = layout.endian;
        if layout.old_cg {
            let mut cg = OldCg::decode(block, endian);
            cg.cg_magic = CG_MAGIC;
            cg.cg_niblk = i16::try_from(layout.fs_ipg).unwrap_or(i16::MAX);
            cg.cg_ndblk = ndblk.cast_signed();
            cg.cg_cs = counts;
            cg.cg_frsum = frsum.map(u32::cast_signed);
            cg.encode(block, endian);
            return;
        }
        let offset = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let mut cg = Cg::decode(&[0; Cg::SIZE], endian);
        cg.cg_magic = CG_MAGIC;
        cg.cg_ndblk = ndblk;
        cg.cg_cs = counts;
        cg.cg_frsum = frsum;
        cg.cg_iusedoff = offset(maps.iusedoff);
        cg.cg_freeoff = offset(maps.freeoff);
        cg.cg_nextfreeoff = offset(maps.nextfreeoff);
        if layout.fs_contigsumsize > 0 {
            cg.cg_clustersumoff = offset(maps.clustersumoff);
            cg.cg_clusteroff = offset(maps.clusteroff);
            cg.cg_nclusterblks = ndblk / layout.fs_frag;
        }
        match layout.version {
            Version::Ufs1 => {
                cg.cg_old_niblk = i16::try_from(layout.fs_ipg).unwrap_or(i16::MAX);
                cg.cg_old_btotoff = offset(maps.btotoff).cast_signed();
                cg.cg_old_boff = offset(maps.boff).cast_signed();
            }
            Version::Ufs2 => {
                cg.cg_niblk = layout.fs_ipg;
                cg.cg_initediblk = initialised_inodes(layout);
            }
        }
        cg.encode(block, endian);
    }
}

/// Counts the free blocks per cylinder and position.
fn count_positions(
    block: &mut [u8],
    maps: &Maps,
    endian: Endian,
    frag: u32,
    rotation: &Rotation,
    whole: &[u32],
) {
    for bno in whole.iter().map(|n| n * frag) {
        let cylinder = rotation.cylinder(bno) as usize;
        let place = cylinder * rotation.fs_old_nrpos as usize + rotation.position(bno) as usize;
        let total = &mut block[maps.btotoff + cylinder * 4..];
        (i32::get(total, endian) + 1).put(total, endian);
        let at_position = &mut block[maps.boff + place * 2..];
        (i16::get(at_position, endian) + 1).put(at_position, endian);
    }
}

/// Marks the free blocks and counts their runs; the last count takes all longer ones.
fn count_clusters(block: &mut [u8], maps: &Maps, layout: &Layout, blocks: u32, whole: &[u32]) {
    let map = &mut block[maps.clusteroff..];
    for &n in whole {
        setbit(map, n);
    }
    let mut sums = vec![0_u32; layout.fs_contigsumsize as usize + 1];
    let mut run = 0;
    for n in 0..=blocks {
        if n < blocks && isset(map, n) {
            run += 1;
        } else if run > 0 {
            sums[run.min(layout.fs_contigsumsize as usize)] += 1;
            run = 0;
        }
    }
    for (n, sum) in sums.iter().enumerate().skip(1) {
        sum.put(&mut block[maps.clustersumoff + n * 4..], layout.endian);
    }
}

/// Returns the number of inodes of a cylinder group that newfs initialises.
fn initialised_inodes(layout: &Layout) -> u32 {
    match layout.version {
        Version::Ufs1 => layout.fs_ipg,
        Version::Ufs2 => layout.fs_ipg.min(2 * layout.fs_inopb),
    }
}
