//! Cylinder group blocks of a new file system.
//!
//! Groups differ only in how far their structures are shifted, in how long they are, and in that
//! the first holds the summaries and the first directories. So a few templates serve however many
//! groups there are. All counts and maps are taken from the runs of free fragments, so that the
//! counts can be had without the maps.

use super::conventions::Conventions;
use crate::format::ckhash::check_hash;
use crate::format::group::{CG_CKHASH, setbit};
use crate::format::layout::{Layout, Version};
use crate::format::ondisk::{CG_MAGIC, Cg, Csum, Fs, OldCg};
use crate::format::rotation::Rotation;
use rand::RngCore;
use spindle_device::AlignedBuf;
use spindle_ondisk::{Endian, Field};
use std::collections::BTreeMap;
use std::ops::Range;

/// Contents of the first cylinder group besides its structures.
#[derive(Clone, Debug)]
pub(crate) struct Used {
    /// Fragments in use: address and length.
    pub frags: Vec<(u64, u64)>,
    /// Inodes in use, from 0.
    pub inodes: u32,
    pub directories: u32,
}

/// The contents of the other groups.
pub(crate) static NOTHING: Used = Used { frags: Vec::new(), inodes: 0, directories: 0 };

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

/// The block of a group of one kind.
struct Template(Vec<u8>);

/// The blocks of all groups, by their kinds.
pub(crate) struct GroupBlocks {
    templates: BTreeMap<Kind, Template>,
    /// Cylinders of a group, and of the last one as its system's checker expects it.
    ncyl: (i16, i16),
    hashed: bool,
}

fn kind(layout: &Layout, cgx: u32) -> Kind {
    (cgx == 0, layout.cgstart(cgx) - layout.cgbase(cgx), layout.cg_frags(cgx))
}

/// Returns the kinds of groups, each with a group that is of it and what that has in use.
fn kinds<'a>(layout: &'a Layout, used: &'a Used) -> impl Iterator<Item = (Kind, u32, &'a Used)> {
    // The shifts repeat after as many groups as the mask has zero bits for.
    let period = (!layout.fs_old_cgmask).saturating_add(2).min(layout.fs_ncg);
    let groups = (0..period).chain([layout.fs_ncg - 1]);
    groups.map(move |cgx| (kind(layout, cgx), cgx, if cgx == 0 { used } else { &NOTHING }))
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
        for (kind, cgx, used) in kinds(layout, used) {
            templates.entry(kind).or_insert_with(|| Template::build(layout, cylinders, cgx, used));
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
        let Some(Template(template)) = self.templates.get(&kind(layout, cgx)) else { return };
        let endian = layout.endian;
        block[..template.len()].copy_from_slice(template);
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

/// The free fragments of a new group: runs in order, none next to another.
struct Free {
    frag: u32,
    runs: Vec<Range<u32>>,
}

impl Free {
    fn new(layout: &Layout, cgx: u32, used: &Used) -> Self {
        let (_, shift, ndblk) = kind(layout, cgx);
        let start = if cgx == 0 { 0 } else { shift + u64::from(layout.fs_sblkno) };
        let mut end = shift + u64::from(layout.fs_dblkno);
        if cgx == 0 {
            end += u64::from(layout.fs_cssize.div_ceil(layout.fs_fsize));
        }
        let mut taken: Vec<(u64, u64)> = used.frags.iter().map(|&(at, len)| (at, at + len)).collect();
        taken.push((start, end));
        taken.sort_unstable();
        let within = |n: u64| u32::try_from(n).unwrap_or(ndblk).min(ndblk);
        let mut runs = Vec::new();
        let mut at = 0;
        for (start, end) in taken.into_iter().chain([(ndblk.into(), ndblk.into())]) {
            if at < within(start) {
                runs.push(at..within(start));
            }
            at = at.max(within(end));
        }
        Self { frag: layout.fs_frag, runs }
    }

    /// Returns the runs of whole blocks, by the numbers of blocks.
    fn blocks(&self) -> impl Iterator<Item = Range<u32>> {
        let whole = |run: &Range<u32>| run.start.div_ceil(self.frag)..run.end / self.frag;
        self.runs.iter().map(whole).filter(|blocks| !blocks.is_empty())
    }

    /// Returns the lengths of the runs in blocks that are not whole.
    fn pieces(&self) -> impl Iterator<Item = u32> {
        let ends = |run: &Range<u32>| {
            let (first, last) = (run.start.next_multiple_of(self.frag), run.end / self.frag * self.frag);
            if first > last { [run.end - run.start, 0] } else { [first - run.start, run.end - last] }
        };
        self.runs.iter().flat_map(ends).filter(|&len| len > 0)
    }

    fn counts(&self, layout: &Layout, used: &Used) -> Csum {
        let sum =
            |lengths: &mut dyn Iterator<Item = u32>| i32::try_from(lengths.sum::<u32>()).unwrap_or(i32::MAX);
        Csum {
            cs_ndir: used.directories.cast_signed(),
            cs_nifree: (layout.fs_ipg - used.inodes).cast_signed(),
            cs_nbfree: sum(&mut self.blocks().map(|blocks| blocks.end - blocks.start)),
            cs_nffree: sum(&mut self.pieces()),
        }
    }
}

/// The counts of all groups, by their kinds.
#[derive(Clone, Debug)]
pub(crate) struct GroupCounts(BTreeMap<Kind, Csum>);

impl GroupCounts {
    pub fn new(layout: &Layout, used: &Used) -> Self {
        let counts = kinds(layout, used)
            .map(|(kind, cgx, used)| (kind, Free::new(layout, cgx, used).counts(layout, used)));
        Self(counts.collect())
    }

    /// Returns the counts of group `cgx`.
    pub fn of(&self, layout: &Layout, cgx: u32) -> Csum {
        self.0.get(&kind(layout, cgx)).copied().unwrap_or_default()
    }
}

impl Template {
    fn build(layout: &Layout, cylinders: Option<Cylinders<'_>>, cgx: u32, used: &Used) -> Self {
        let maps = Maps::new(layout, cylinders);
        let (_, _, ndblk) = kind(layout, cgx);
        let free = Free::new(layout, cgx, used);
        let counts = free.counts(layout, used);
        let mut block = vec![0; layout.fs_bsize as usize];
        let blksfree = &mut block[maps.freeoff..];
        for frag in free.runs.iter().cloned().flatten() {
            setbit(blksfree, frag);
        }
        let inosused = &mut block[maps.iusedoff..];
        for ino in 0..used.inodes {
            setbit(inosused, ino);
        }
        let mut frsum = [0_u32; 8];
        for piece in free.pieces() {
            frsum[piece as usize] += 1;
        }
        // UFS1 without a geometry has one cylinder and one position, where all blocks are counted.
        match (cylinders, layout.version) {
            (Some(c), _) => {
                count_positions(&mut block, &maps, layout.endian, c.rotation, &free);
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
            count_clusters(&mut block, &maps, layout, &free);
        }
        Self::head(layout, &maps, ndblk, counts, frsum, &mut block);
        Self(block)
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
fn count_positions(block: &mut [u8], maps: &Maps, endian: Endian, rotation: &Rotation, free: &Free) {
    for bno in free.blocks().flatten().map(|n| n * free.frag) {
        let cylinder = rotation.cylinder(bno) as usize;
        let place = cylinder * rotation.fs_old_nrpos as usize + rotation.position(bno) as usize;
        let total = &mut block[maps.btotoff + cylinder * 4..];
        (i32::get(total, endian) + 1).put(total, endian);
        let at_position = &mut block[maps.boff + place * 2..];
        (i16::get(at_position, endian) + 1).put(at_position, endian);
    }
}

/// Marks the free blocks and counts their runs; the last count takes all longer ones.
fn count_clusters(block: &mut [u8], maps: &Maps, layout: &Layout, free: &Free) {
    let mut sums = vec![0_u32; layout.fs_contigsumsize as usize + 1];
    for run in free.blocks() {
        sums[run.len().min(layout.fs_contigsumsize as usize)] += 1;
        for n in run {
            setbit(&mut block[maps.clusteroff..], n);
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
