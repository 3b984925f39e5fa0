//! A cylinder group block: where its maps are, checked, and the arithmetic on them.
//!
//! [`GroupMap::check`] looks at a group block once and yields the byte offsets of its parts, for
//! the format with stated offsets and for the fixed one of 4.2BSD. [`Group`] and [`GroupMut`] pair
//! it with the block's bytes. All changes keep the block's own accounts exact: the counts of
//! `cg_cs`, the free runs of `cg_frsum`, the clusters, and the rotational counts where there are
//! any. What they return is to be added to the summaries outside.

use crate::format::layout::{Layout, Version};
use crate::format::ondisk::{CG_MAGIC, Cg, Csum, OldCg};
use spindle_cache::BufferMut;
use spindle_ondisk::Field;
use spindle_vfs::{Error, Result};
use std::ops::Range;

/// Byte offsets of the counters, the same in both formats.
const CG_CS: usize = 24;
const CG_ROTOR: usize = 40;
const CG_FROTOR: usize = 44;
const CG_IROTOR: usize = 48;
const CG_FRSUM: usize = 52;
const CG_INITEDIBLK: usize = 120;
const CG_OLD_TIME: usize = 8;
const CG_TIME: usize = 136;
/// Byte offset of `cg_ckhash`.
pub const CG_CKHASH: usize = 132;

/// Where the parts of a group block are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMap {
    /// Number of the group.
    pub cgx: u32,
    /// Fragments in the group.
    pub ndblk: u32,
    /// Map of used inodes, a bit each.
    pub inosused: Range<usize>,
    /// Map of free fragments, a bit each.
    pub blksfree: Range<usize>,
    /// Counts of free clusters of 1, 2, … blocks (the last counts longer ones too).
    pub clustersum: Option<Range<usize>>,
    /// Map of free blocks, a bit each.
    pub clustersfree: Range<usize>,
    /// Blocks in that map.
    pub nclusterblks: u32,
    /// Free blocks per cylinder (i32) and per cylinder and position (i16).
    pub rotational: Option<(Range<usize>, Range<usize>)>,
}

impl GroupMap {
    /// Checks the group block of group `cgx`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] naming the group and the field that cannot be.
    pub fn check(layout: &Layout, block: &[u8], cgx: u32) -> Result<Self> {
        let size = layout.fs_cgsize as usize;
        let corrupt = |what: String| Error::corrupt(what, format!("cylinder group {cgx}"));
        let ndblk = layout.cg_frags(cgx);
        let inode_bytes = (layout.fs_ipg as usize).div_ceil(8);
        let free_bytes = (layout.fs_fpg as usize).div_ceil(8);
        if layout.old_cg {
            let cg = OldCg::decode(block, layout.endian);
            if cg.cg_magic != CG_MAGIC {
                return Err(corrupt(format!("cg_magic is {:#x}", cg.cg_magic)));
            }
            if cg.cg_cgx != cgx.cast_signed() || cg.cg_ndblk != ndblk.cast_signed() {
                return Err(corrupt(format!(
                    "cg_cgx {} and cg_ndblk {} are another group's",
                    cg.cg_cgx, cg.cg_ndblk
                )));
            }
            return Ok(Self {
                cgx,
                ndblk,
                inosused: 724..724 + inode_bytes,
                blksfree: OldCg::SIZE..OldCg::SIZE + free_bytes,
                clustersum: None,
                clustersfree: 0..0,
                nclusterblks: 0,
                rotational: layout.rotation.is_some().then_some((84..212, 212..724)),
            });
        }
        let cg = Cg::decode(block, layout.endian);
        if cg.cg_magic != CG_MAGIC {
            return Err(corrupt(format!("cg_magic is {:#x}", cg.cg_magic)));
        }
        if cg.cg_cgx != cgx {
            return Err(corrupt(format!("cg_cgx is {}", cg.cg_cgx)));
        }
        if cg.cg_ndblk != ndblk {
            return Err(corrupt(format!("cg_ndblk is {}, not {ndblk}", cg.cg_ndblk)));
        }
        let part = |field: &str, offset: u64, len: usize| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            match start.checked_add(len) {
                Some(end) if start >= Cg::SIZE.min(116) && end <= size => Ok(start..end),
                _ => Err(corrupt(format!("{field} is {offset}, outside the group block"))),
            }
        };
        let (clustersum, clustersfree, nclusterblks) = if layout.fs_contigsumsize > 0 {
            let blocks = ndblk / layout.fs_frag;
            if cg.cg_nclusterblks != blocks {
                return Err(corrupt(format!("cg_nclusterblks is {}, not {blocks}", cg.cg_nclusterblks)));
            }
            let sums = layout.fs_contigsumsize as usize * 4;
            (
                // The table is indexed from 1: entry 0 would stand at cg_clustersumoff.
                Some(part("cg_clustersumoff", u64::from(cg.cg_clustersumoff) + 4, sums)?),
                part("cg_clusteroff", cg.cg_clusteroff.into(), (blocks as usize).div_ceil(8))?,
                blocks,
            )
        } else {
            (None, 0..0, 0)
        };
        let rotational = match &layout.rotation {
            None => None,
            Some(r) => {
                let cylinders = r.fs_old_cpg as usize;
                let offset = |v: i32| u64::try_from(v).unwrap_or(u64::MAX);
                Some((
                    part("cg_old_btotoff", offset(cg.cg_old_btotoff), cylinders * 4)?,
                    part("cg_old_boff", offset(cg.cg_old_boff), cylinders * r.fs_old_nrpos as usize * 2)?,
                ))
            }
        };
        let map = Self {
            cgx,
            ndblk,
            inosused: part("cg_iusedoff", cg.cg_iusedoff.into(), inode_bytes)?,
            blksfree: part("cg_freeoff", cg.cg_freeoff.into(), (ndblk as usize).div_ceil(8))?,
            clustersum,
            clustersfree,
            nclusterblks,
            rotational,
        };
        map.check_disjoint().map_err(corrupt)?;
        if layout.version == Version::Ufs2
            && (cg.cg_initediblk > layout.fs_ipg || !cg.cg_initediblk.is_multiple_of(layout.fs_inopb))
        {
            return Err(corrupt(format!("cg_initediblk is {} of {}", cg.cg_initediblk, layout.fs_ipg)));
        }
        Ok(map)
    }

    fn check_disjoint(&self) -> std::result::Result<(), String> {
        let rotational = self.rotational.iter().flat_map(|(a, b)| [a, b]);
        let mut parts: Vec<_> = [&self.inosused, &self.blksfree, &self.clustersfree]
            .into_iter()
            .chain(&self.clustersum)
            .chain(rotational)
            .filter(|r| !r.is_empty())
            .collect();
        parts.sort_by_key(|r| r.start);
        if parts.windows(2).any(|w| w[0].end > w[1].start) {
            return Err("its maps overlap".into());
        }
        Ok(())
    }
}

/// Returns true if bit `n` is set.
#[must_use]
pub fn isset(map: &[u8], n: u32) -> bool {
    map[n as usize / 8] >> (n % 8) & 1 != 0
}

/// Sets bit `n`.
pub fn setbit(map: &mut [u8], n: u32) {
    map[n as usize / 8] |= 1 << (n % 8);
}

/// Clears bit `n`.
pub fn clrbit(map: &mut [u8], n: u32) {
    map[n as usize / 8] &= !(1 << (n % 8));
}

/// Returns the first `n` in `range` whose bit is `wanted`, a machine word at a time.
#[must_use]
pub fn find_bit(map: &[u8], range: Range<u32>, wanted: bool) -> Option<u32> {
    let mut at = range.start;
    while at < range.end {
        let byte = at as usize / 8;
        if at.is_multiple_of(8) && range.end - at >= 64 && byte + 8 <= map.len() {
            let word = u64::from_le_bytes(map[byte..byte + 8].try_into().unwrap_or_default());
            let hits = if wanted { word } else { !word };
            if hits != 0 {
                return Some(at + hits.trailing_zeros());
            }
            at += 64;
        } else {
            if isset(map, at) == wanted {
                return Some(at);
            }
            at += 1;
        }
    }
    None
}

/// A group block to look at.
#[derive(Clone, Copy)]
pub struct Group<'a> {
    layout: &'a Layout,
    map: &'a GroupMap,
    block: &'a [u8],
}

impl<'a> Group<'a> {
    /// Pairs a block with its checked map; `block` must be the block that `map` was made from.
    #[must_use]
    pub const fn new(layout: &'a Layout, map: &'a GroupMap, block: &'a [u8]) -> Self {
        Self { layout, map, block }
    }

    /// Returns where its parts are.
    #[must_use]
    pub const fn map(&self) -> &'a GroupMap {
        self.map
    }

    /// Returns the counts.
    #[must_use]
    pub fn cs(&self) -> Csum {
        Csum::get(&self.block[CG_CS..], self.layout.endian)
    }

    fn word(&self, at: usize) -> u32 {
        u32::get(&self.block[at..], self.layout.endian)
    }

    /// Returns the fragments in the group.
    #[must_use]
    pub const fn fragments(&self) -> u32 {
        self.map.ndblk
    }

    /// Returns the block used last, kept within the group.
    #[must_use]
    pub fn rotor(&self) -> u32 {
        self.word(CG_ROTOR).min(self.map.ndblk - 1)
    }

    /// Returns the fragment used last, kept within the cylinder group.
    #[must_use]
    pub fn frotor(&self) -> u32 {
        self.word(CG_FROTOR).min(self.map.ndblk - 1)
    }

    /// Returns the inode used last, kept within the cylinder group.
    #[must_use]
    pub fn irotor(&self) -> u32 {
        self.word(CG_IROTOR).min(self.layout.fs_ipg - 1)
    }

    /// Returns free runs of exactly `frags` fragments.
    #[must_use]
    pub fn frsum(&self, frags: u32) -> u32 {
        self.word(CG_FRSUM + frags as usize * 4)
    }

    /// Returns the inodes ever initialised; all of them in UFS1.
    #[must_use]
    pub fn initediblk(&self) -> u32 {
        match self.layout.version {
            Version::Ufs1 => self.layout.fs_ipg,
            Version::Ufs2 => self.word(CG_INITEDIBLK),
        }
    }

    /// Returns the map of used inodes.
    #[must_use]
    pub fn inosused(&self) -> &'a [u8] {
        &self.block[self.map.inosused.clone()]
    }

    /// Returns the map of free fragments.
    #[must_use]
    pub fn blksfree(&self) -> &'a [u8] {
        &self.block[self.map.blksfree.clone()]
    }

    /// Returns the map of free blocks; empty where the format has none.
    #[must_use]
    pub fn clustersfree(&self) -> &'a [u8] {
        &self.block[self.map.clustersfree.clone()]
    }

    /// Returns free clusters of exactly `blocks` blocks (or at least, for the last entry of the
    /// table).
    #[must_use]
    pub fn clustersum(&self, blocks: u32) -> u32 {
        self.map.clustersum.as_ref().map_or(0, |sums| self.word(sums.start + (blocks as usize - 1) * 4))
    }

    /// Returns the fragment bits of the block at fragment `bno`, lowest first.
    #[must_use]
    pub fn blkmap(&self, bno: u32) -> u8 {
        blkmap(self.blksfree(), bno, self.layout.fs_frag)
    }

    /// Returns true if the whole block at fragment `bno` is free; a block that the group cuts off
    /// never is.
    #[must_use]
    pub fn is_block(&self, bno: u32) -> bool {
        bno + self.layout.fs_frag <= self.map.ndblk && self.blkmap(bno) == full(self.layout.fs_frag)
    }

    /// Returns free blocks of a cylinder at a rotational position; the low 16 bits of their number.
    #[must_use]
    pub fn blks(&self, cylinder: u32, rpos: u32) -> u16 {
        match (&self.map.rotational, &self.layout.rotation) {
            (Some((_, b)), Some(r)) => {
                let at = b.start + (cylinder * r.fs_old_nrpos + rpos) as usize * 2;
                self.block.get(at..at + 2).map_or(0, |bytes| u16::get(bytes, self.layout.endian))
            }
            _ => 0,
        }
    }

    /// Returns free blocks of a cylinder.
    #[must_use]
    pub fn blktot(&self, cylinder: u32) -> i32 {
        match &self.map.rotational {
            Some((btot, _)) => self.word(btot.start + cylinder as usize * 4).cast_signed(),
            None => 0,
        }
    }
}

/// Returns the bits of a whole free block of `frag` fragments.
const fn full(frag: u32) -> u8 {
    u8::MAX >> (8 - frag)
}

/// Returns the fragment bits of the block at `bno`.
fn blkmap(blksfree: &[u8], bno: u32, frag: u32) -> u8 {
    blksfree.get(bno as usize / 8).map_or(0, |byte| byte >> (bno % 8)) & full(frag)
}

/// The bytes of a block, of which every changed range is named.
pub trait Patch {
    /// Returns all bytes.
    fn bytes(&self) -> &[u8];
    /// Returns the bytes of `range`, to be changed.
    fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8];
}

impl Patch for [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
    fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self[range]
    }
}

impl Patch for BufferMut<'_> {
    fn bytes(&self) -> &[u8] {
        self
    }
    fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        self.bytes_mut(range)
    }
}

/// A group block to change.
pub struct GroupMut<'a, B: ?Sized = [u8]> {
    layout: &'a Layout,
    map: &'a GroupMap,
    block: &'a mut B,
}

impl<'a, B: Patch + ?Sized> GroupMut<'a, B> {
    /// Pairs a block with its checked map; `block` must be the block that `map` was made from.
    #[must_use]
    pub const fn new(layout: &'a Layout, map: &'a GroupMap, block: &'a mut B) -> Self {
        Self { layout, map, block }
    }

    /// Returns the cylinder group for reading.
    #[must_use]
    pub fn view(&self) -> Group<'_> {
        Group { layout: self.layout, map: self.map, block: self.block.bytes() }
    }

    fn put(&mut self, at: usize, value: u32) {
        value.put(self.block.bytes_mut(at..at + u32::SIZE), self.layout.endian);
    }

    fn add(&mut self, at: usize, by: i32) {
        let value = self.view().word(at).wrapping_add_signed(by);
        self.put(at, value);
    }

    /// Adds to the counts.
    fn add_cs(&mut self, by: Csum) {
        for (i, n) in [by.cs_ndir, by.cs_nbfree, by.cs_nifree, by.cs_nffree].into_iter().enumerate() {
            self.add(CG_CS + i * 4, n);
        }
    }

    /// Notes when the group was changed, in seconds.
    pub fn set_time(&mut self, secs: i64) {
        let endian = self.layout.endian;
        if self.layout.version == Version::Ufs2 {
            secs.put(self.block.bytes_mut(CG_TIME..CG_TIME + i64::SIZE), endian);
        } else {
            let [a, b, c, d, ..] = secs.to_le_bytes();
            let at = CG_OLD_TIME..CG_OLD_TIME + u32::SIZE;
            u32::from_le_bytes([a, b, c, d]).put(self.block.bytes_mut(at), endian);
        }
    }

    /// Takes the whole free block at fragment `bno`.
    pub fn take_block(&mut self, bno: u32) -> Csum {
        self.set_frag_bits(bno, self.layout.fs_frag, false);
        self.clusteracct(bno, -1);
        self.rotational(bno, -1);
        self.put(CG_ROTOR, bno);
        let change = Csum { cs_nbfree: -1, ..Csum::default() };
        self.add_cs(change);
        change
    }

    /// Takes `frags` free fragments from `bno`, all within one block.
    pub fn take_frags(&mut self, bno: u32, frags: u32) -> Csum {
        let frag = self.layout.fs_frag;
        let base = bno - bno % frag;
        let before = self.view().blkmap(base);
        let was_block = self.view().is_block(base);
        if !was_block {
            self.fragacct(before, -1);
        }
        self.set_frag_bits(bno, frags, false);
        let after = self.view().blkmap(base);
        self.fragacct(after, 1);
        self.put(CG_FROTOR, bno);
        let mut change = Csum { cs_nffree: -frags.cast_signed(), ..Csum::default() };
        if was_block {
            self.clusteracct(base, -1);
            self.rotational(base, -1);
            change = Csum { cs_nbfree: -1, cs_nffree: (frag - frags).cast_signed(), ..Csum::default() };
        }
        self.add_cs(change);
        change
    }

    /// Gives `frags` used fragments from `bno` back, all within one block.
    pub fn free_frags(&mut self, bno: u32, frags: u32) -> Csum {
        let frag = self.layout.fs_frag;
        let base = bno - bno % frag;
        let before = self.view().blkmap(base);
        self.fragacct(before, -1);
        self.set_frag_bits(bno, frags, true);
        let change = if self.view().is_block(base) {
            self.clusteracct(base, 1);
            self.rotational(base, 1);
            let rest = frag - frags;
            Csum { cs_nbfree: 1, cs_nffree: -rest.cast_signed(), ..Csum::default() }
        } else {
            let after = self.view().blkmap(base);
            self.fragacct(after, 1);
            Csum { cs_nffree: frags.cast_signed(), ..Csum::default() }
        };
        self.add_cs(change);
        change
    }

    /// Marks inode `n` of the group used.
    pub fn take_inode(&mut self, n: u32, directory: bool) -> Csum {
        setbit(self.byte_of(self.map.inosused.start, n), n % 8);
        self.put(CG_IROTOR, n);
        let change = Csum { cs_nifree: -1, cs_ndir: i32::from(directory), ..Csum::default() };
        self.add_cs(change);
        change
    }

    /// Marks inode `n` of the group free.
    pub fn free_inode(&mut self, n: u32, directory: bool) -> Csum {
        clrbit(self.byte_of(self.map.inosused.start, n), n % 8);
        if n < self.view().irotor() {
            self.put(CG_IROTOR, n);
        }
        let change = Csum { cs_nifree: 1, cs_ndir: -i32::from(directory), ..Csum::default() };
        self.add_cs(change);
        change
    }

    /// Records that the first `inodes` inodes are initialised.
    pub fn set_initediblk(&mut self, inodes: u32) {
        self.put(CG_INITEDIBLK, inodes);
    }

    /// Returns the byte of a map that begins at byte `map` in which bit `n` is.
    fn byte_of(&mut self, map: usize, n: u32) -> &mut [u8] {
        let at = map + n as usize / 8;
        self.block.bytes_mut(at..at + 1)
    }

    fn set_frag_bits(&mut self, bno: u32, frags: u32, free: bool) {
        let map = self.map.blksfree.start;
        for n in bno..bno + frags {
            let byte = self.byte_of(map, n);
            if free { setbit(byte, n % 8) } else { clrbit(byte, n % 8) }
        }
    }

    /// Counts the free runs within a block that is neither whole nor used up (`ffs_fragacct`).
    fn fragacct(&mut self, bits: u8, by: i32) {
        for run in frag_runs(bits, self.layout.fs_frag) {
            self.add(CG_FRSUM + run as usize * 4, by);
        }
    }

    fn rotational(&mut self, bno: u32, by: i32) {
        let (Some((btot, b)), Some(r)) = (&self.map.rotational, &self.layout.rotation) else { return };
        let (cylinder, rpos) = (r.cylinder(bno), r.position(bno));
        let at = b.start + (cylinder * r.fs_old_nrpos + rpos) as usize * 2;
        let total = btot.start + cylinder as usize * 4;
        let endian = self.layout.endian;
        if at + 2 <= self.block.bytes().len() {
            let bytes = self.block.bytes_mut(at..at + 2);
            let step = if by < 0 { u16::MAX } else { 1 };
            u16::get(bytes, endian).wrapping_add(step).put(bytes, endian);
        }
        self.add(total, by);
    }

    /// Keeps the map and the counts of free clusters when the block at fragment `bno` is freed
    /// (`by` 1) or taken (-1): the runs on both sides join or part (`ffs_clusteracct`).
    fn clusteracct(&mut self, bno: u32, by: i32) {
        let Some(sums) = self.map.clustersum.clone() else { return };
        let longest = self.layout.fs_contigsumsize;
        let block = bno / self.layout.fs_frag;
        let byte = self.byte_of(self.map.clustersfree.start, block);
        if by > 0 {
            setbit(byte, block % 8);
        } else {
            clrbit(byte, block % 8);
        }
        let map = self.view().clustersfree();
        let after =
            (1..=longest).take_while(|n| block + n < self.map.nclusterblks && isset(map, block + n)).count();
        let before = (1..=longest).take_while(|&n| n <= block && isset(map, block - n)).count();
        let mut count = |run: usize, by: i32| {
            if run > 0 {
                self.add(sums.start + (run.min(longest as usize) - 1) * 4, by);
            }
        };
        count(before + after + 1, by);
        count(before, -by);
        count(after, -by);
    }
}

/// Returns the lengths of the free runs in the bits of one block, which must not be whole.
fn frag_runs(bits: u8, frag: u32) -> impl Iterator<Item = u32> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < frag && bits >> at & 1 == 0 {
            at += 1;
        }
        let start = at;
        while at < frag && bits >> at & 1 != 0 {
            at += 1;
        }
        (at > start).then_some(at - start)
    })
}
