//! Allocation: blocks, fragments and inodes out of the cylinder groups.
//!
//! Every change of a group happens in [`Volume::with_group`]: the group's lock, its buffer, its
//! checked map, the change, and then the same change in the summaries, all inside the caller's
//! transaction. A group's lock is the last one taken; nothing is waited for under it but the
//! group's own block.
//!
//! The transaction notes what is allocated, and gives it back if it fails. What is freed is
//! only noted there, after a look at the maps: it is entered into them when the transaction has
//! succeeded, and with a log when its epoch is committed ([`crate::volume::commit`]).

use super::Volume;
use crate::format::ckhash::check_hash;
use crate::format::group::{CG_CKHASH, Group, GroupMap, GroupMut, Patch, find_bit, isset};
use crate::format::layout::Layout;
use crate::format::ondisk::{Cg, Csum, FS_OPTTIME};
use crate::format::units::Frag;
use crate::volume::policy::{directory_group, group_order, optimization};
use crate::volume::search::{find_block, find_run};
use crate::volume::summary::Summaries;
use crate::volume::tx::{Allocated, Deferred, MapSector, Tx};
use spindle_cache::{Buffer, BufferMut, Seal};
use spindle_clock::{Mutex, Work};
use spindle_ondisk::{Endian, Field};
use spindle_vfs::{Error, Privilege, Result};
use std::sync::{Arc, OnceLock};

/// What belongs to the groups in memory.
pub(crate) struct Groups {
    groups: Vec<GroupInMemory>,
    seal: Option<Arc<dyn Seal>>,
}

#[derive(Default)]
struct GroupInMemory {
    /// Held from a look at the group to the change that follows from it.
    lock: Mutex<()>,
    /// Its map, once it has been checked.
    map: OnceLock<Box<GroupMap>>,
}

impl Groups {
    pub(crate) fn new(layout: &Layout, hashed: bool) -> Self {
        let seal = hashed.then(|| -> Arc<dyn Seal> {
            Arc::new(GroupSeal { cgsize: layout.fs_cgsize as usize, endian: layout.endian })
        });
        Self { groups: (0..layout.fs_ncg).map(|_| GroupInMemory::default()).collect(), seal }
    }
}

/// Puts the check-hash of a group block right.
struct GroupSeal {
    cgsize: usize,
    endian: Endian,
}

impl Seal for GroupSeal {
    fn seal(&self, bytes: &mut [u8]) {
        // Where a wrong geometry has something else at this place too, the buffer may be shorter.
        let Some(block) = bytes.get(..self.cgsize) else { return };
        let hash = check_hash(block, CG_CKHASH);
        hash.put(&mut bytes[CG_CKHASH..], self.endian);
    }
}

impl Volume {
    fn group_buffer(&self, cgx: u32) -> Result<Buffer<'_>> {
        let at = self.layout.byte(self.layout.cgtod(cgx));
        let len = (self.layout.fs_cgsize as usize).next_multiple_of(self.layout.fs_fsize as usize);
        Ok(self.cache.get(at, len, self.groups.seal.as_ref())?)
    }

    /// Puts the check-hash of a copy of a group block right, where there are any.
    pub(super) fn seal_group(&self, bytes: &mut [u8]) {
        if let Some(seal) = &self.groups.seal {
            seal.seal(bytes);
        }
    }

    /// Returns the checked map of a group, from the block on the first call.
    fn group_map(&self, cgx: u32, block: &[u8]) -> Result<&GroupMap> {
        let known = &self.groups.groups[cgx as usize].map;
        if let Some(map) = known.get() {
            return Ok(map);
        }
        if self.groups.seal.is_some() {
            let recorded = Cg::decode(block, self.layout.endian).cg_ckhash;
            let hash = check_hash(&block[..self.layout.fs_cgsize as usize], CG_CKHASH);
            if recorded != hash {
                return Err(Error::corrupt(
                    format!("check-hash {recorded:#010x} is recorded, {hash:#010x} computed"),
                    format!("cylinder group {cgx}"),
                ));
            }
        }
        let map = GroupMap::check(&self.layout, block, cgx)?;
        Ok(known.get_or_init(|| map.into()))
    }

    /// Looks at a group under its lock with `look`, and if that finds something, changes it with
    /// `change`, which returns what it did to the counts.
    fn with_group<L, R>(
        &self,
        tx: &spindle_cache::Tx<'_>,
        cgx: u32,
        look: impl FnOnce(Group<'_>, &GroupMap) -> Result<Option<L>>,
        change: impl FnOnce(&mut GroupMut<'_, BufferMut<'_>>, L) -> (Csum, R),
    ) -> Result<Option<R>> {
        self.with_group_and(tx, cgx, look, change, |_, result| Ok(result))
    }

    /// Does what [`Self::with_group`] does, and `then` something with the group's buffer, still
    /// under its lock.
    fn with_group_and<L, C, R>(
        &self,
        tx: &spindle_cache::Tx<'_>,
        cgx: u32,
        look: impl FnOnce(Group<'_>, &GroupMap) -> Result<Option<L>>,
        change: impl FnOnce(&mut GroupMut<'_, BufferMut<'_>>, L) -> (Csum, C),
        then: impl FnOnce(&Buffer<'_>, C) -> Result<R>,
    ) -> Result<Option<R>> {
        let _one = self.groups.groups[cgx as usize].lock.lock();
        let buffer = self.group_buffer(cgx)?;
        let (map, found) = {
            let block = buffer.read();
            let map = self.group_map(cgx, &block)?;
            let found = look(Group::new(&self.layout, map, &block), map)?;
            (map, found)
        };
        let Some(found) = found else { return Ok(None) };
        // From here on nothing fails: a change of a map and its counts is one.
        let summary = Summaries::buffer(&self.layout, &self.cache, cgx)?;
        let (counts, result) = {
            let mut block = buffer.write_shared(tx);
            let mut group = GroupMut::new(&self.layout, map, &mut block);
            group.set_time(self.clock.now().secs);
            change(&mut group, found)
        };
        self.summaries.add(self.layout.endian, &summary, tx, cgx, counts);
        then(&buffer, result).map(Some)
    }

    /// Reads a group without changing it, as it is before or after each change.
    pub(crate) fn view_group<R>(&self, cgx: u32, look: impl FnOnce(Group<'_>) -> R) -> Result<R> {
        let buffer = self.group_buffer(cgx)?;
        let block = buffer.read();
        let map = self.group_map(cgx, &block)?;
        Ok(look(Group::new(&self.layout, map, &block)))
    }

    /// Returns where the parts of a group's block are.
    fn map_of(&self, cgx: u32) -> Result<&GroupMap> {
        match self.groups.groups[cgx as usize].map.get() {
            Some(map) => Ok(map),
            None => self.group_map(cgx, &self.group_buffer(cgx)?.read()),
        }
    }

    /// Returns the fragments that are free in the maps.
    pub(crate) fn free_frags_now(&self) -> i64 {
        self.summaries.free_frags()
    }

    /// Returns the fragments left for a caller, after the reserve.
    pub(crate) fn free_frags_for(&self, by: Privilege) -> i64 {
        let free = self.free_frags_now();
        match by {
            Privilege::Root => free,
            Privilege::User | Privilege::Process(_) => free - self.reserve(),
        }
    }

    /// Returns the fragments that stay free for root.
    pub(crate) fn reserve(&self) -> i64 {
        let dsize = i64::try_from(self.layout.fs_dsize).unwrap_or(i64::MAX);
        dsize / 100 * i64::from(self.minfree()) + dsize % 100 * i64::from(self.minfree()) / 100
    }

    /// Takes `frags` fragments (a whole block if that many) near `wanted`, a fragment address whose
    /// group is tried first.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub(crate) fn alloc(&self, tx: &Tx<'_>, frags: u32, wanted: Frag, by: Privilege) -> Result<Frag> {
        let at = self.alloc_for_good(tx, frags, wanted, by)?;
        tx.note_allocated(Allocated::Fragments(at, frags.into()));
        Ok(at)
    }

    /// Takes fragments as [`Self::alloc`] does, which stay taken if the transaction is rolled back.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub(super) fn alloc_for_good(
        &self,
        tx: &spindle_cache::Tx<'_>,
        frags: u32,
        wanted: Frag,
        by: Privilege,
    ) -> Result<Frag> {
        if self.free_frags_for(by) < frags.into() {
            return Err(Error::NoSpace);
        }
        self.clock.work(Work::Allocate);
        let preferred = if wanted.0 < self.layout.fs_size { wanted } else { Frag(0) };
        for cgx in group_order(self.layout.dtog(preferred), self.layout.fs_ncg) {
            let cs = self.summaries.group(cgx);
            if cs.cs_nbfree <= 0 && (frags == self.layout.fs_frag || cs.cs_nffree < frags.cast_signed()) {
                continue;
            }
            let near =
                (cgx == self.layout.dtog(preferred) && preferred.0 > 0).then(|| self.layout.dtogd(preferred));
            if let Some(bno) = self.alloc_in_group(tx, cgx, frags, near)? {
                return Ok(self.layout.cgbase(cgx) + u64::from(bno));
            }
        }
        Err(Error::NoSpace)
    }

    fn alloc_in_group(
        &self,
        tx: &spindle_cache::Tx<'_>,
        cgx: u32,
        frags: u32,
        near: Option<u32>,
    ) -> Result<Option<u32>> {
        let frag = self.layout.fs_frag;
        self.with_group(
            tx,
            cgx,
            |group, map| {
                if frags < frag
                    && let Some(run) = (frags..frag).find(|&run| group.frsum(run) > 0)
                    && let Some(bno) = find_run(&self.layout, group, map.ndblk, near, run)
                {
                    return Ok(Some(bno));
                }
                if group.cs().cs_nbfree <= 0 {
                    return Ok(None);
                }
                Ok(find_block(&self.layout, group, map.ndblk, near))
            },
            |group, bno| {
                let counts = if frags == frag { group.take_block(bno) } else { group.take_frags(bno, frags) };
                (counts, bno)
            },
        )
    }

    /// Grows `old` fragments at `at` to `new` in place if what follows them in their block is free.
    pub(crate) fn extend(&self, tx: &Tx<'_>, at: Frag, old: u32, new: u32) -> Result<bool> {
        let frag = self.layout.fs_frag;
        let (cgx, bno) = (self.layout.dtog(at), self.layout.dtogd(at));
        let grown = self.with_group(
            tx,
            cgx,
            |group, map| {
                let fits = bno % frag + new <= frag && bno + new <= map.ndblk;
                Ok((fits && (old..new).all(|n| isset(group.blksfree(), bno + n))).then_some(()))
            },
            |group, ()| (group.take_frags(bno + old, new - old), ()),
        )?;
        if grown.is_some() {
            tx.note_allocated(Allocated::Fragments(at + u64::from(old), (new - old).into()));
        }
        Ok(grown.is_some())
    }

    /// Returns how many fragments to take for a fragment that grows to `want`: a whole block while
    /// time comes first, of which the caller gives the rest back.
    pub(crate) fn growth_request(&self, want: u32) -> u32 {
        let total = self.summaries.total();
        let mut superblock = self.superblock.lock();
        let optim =
            optimization(superblock.fs.fs_optim, self.minfree(), total.cs_nffree, self.layout.fs_dsize);
        superblock.fs.fs_optim = optim;
        if optim == FS_OPTTIME { self.layout.fs_frag } else { want }
    }

    /// Takes the block at `at` itself.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if it is not free.
    pub(crate) fn alloc_exactly(&self, tx: &Tx<'_>, at: Frag) -> Result<Frag> {
        let (cgx, bno) = (self.layout.dtog(at), self.layout.dtogd(at));
        let taken = self.with_group(
            tx,
            cgx,
            |group, _| Ok(group.is_block(bno).then_some(())),
            |group, ()| (group.take_block(bno), ()),
        )?;
        taken.ok_or(Error::NoSpace)?;
        tx.note_allocated(Allocated::Fragments(at, self.layout.fs_frag.into()));
        Ok(at)
    }

    /// Returns the parts of a run of fragments that lie in one group each.
    pub(crate) fn by_groups(&self, at: Frag, count: u64) -> impl Iterator<Item = Part> + use<'_> {
        let end = at + count;
        let mut at = at;
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let cgx = self.layout.dtog(at);
                let stop = end.min(self.layout.cgbase(cgx) + u64::from(self.layout.fs_fpg));
                let first = self.layout.dtogd(at);
                let part = Part { at, cgx, first, last: first + frags32(stop - at) };
                at = stop;
                part
            })
        })
    }

    /// Gives `count` fragments from `at` back with the transaction; they may span blocks and
    /// groups.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if they lie outside or are free; device errors.
    pub(crate) fn free(&self, tx: &Tx<'_>, at: Frag, count: u64) -> Result<()> {
        self.check_used(tx, at, count)?;
        self.preserve_freed(tx, at, count)?;
        self.claim_to_free(tx, at, count)?;
        tx.defer(Deferred::Fragments(at, count));
        Ok(())
    }

    /// [`Self::free`] for what was metadata in one buffer: that is forgotten, and never replayed
    /// over what comes there next.
    pub(crate) fn free_metadata(&self, tx: &Tx<'_>, at: Frag, count: u64) -> Result<()> {
        self.check_used(tx, at, count)?;
        self.preserve_freed(tx, at, count)?;
        self.claim_to_free(tx, at, count)?;
        tx.defer(Deferred::Metadata(at, count));
        Ok(())
    }

    /// Claims room in the log for entering fragments into the maps as free.
    pub(crate) fn claim_to_free(&self, tx: &Tx<'_>, at: Frag, count: u64) -> Result<()> {
        if self.log.is_some() {
            tx.claim(self.sectors_to_free(at, count)?);
            tx.claim(self.sectors_to_claim(tx, at, count)?);
        }
        Ok(())
    }

    /// Returns the sectors of the groups' maps and of the summaries that change when fragments are
    /// freed.
    pub(crate) fn sectors_to_free(&self, at: Frag, count: u64) -> Result<Vec<MapSector>> {
        let layout = &self.layout;
        let size = self.sector();
        // What a part of a group takes, unless it is long.
        let mut sectors = Vec::with_capacity(8);
        for Part { cgx, first, last, .. } in self.by_groups(at, count) {
            let of_summary = cgx as usize * Csum::SIZE / size;
            sectors.push(MapSector::Summary(of_summary));
            let map = self.map_of(cgx)?;
            let mut add = |bytes: std::ops::Range<usize>| {
                let range = bytes.start / size..bytes.end.div_ceil(size);
                sectors.extend(range.map(|sector| MapSector::Group(cgx, sector)));
            };
            add(0..CG_HEADER);
            let byte = |start: usize, first: u32, last: u32| {
                start + first as usize / 8..start + (last - 1) as usize / 8 + 1
            };
            add(byte(map.blksfree.start, first, last));
            if let Some(sums) = &map.clustersum {
                let blocks = (first / layout.fs_frag, (last - 1) / layout.fs_frag + 1);
                add(sums.clone());
                add(byte(map.clustersfree.start, blocks.0, blocks.1));
            }
            if let (Some((btot, b)), Some(rotation)) = (&map.rotational, &layout.rotation) {
                let cylinders = rotation.cylinder(first) as usize..rotation.cylinder(last - 1) as usize + 1;
                let of_cylinder = rotation.fs_old_nrpos as usize * 2;
                add(btot.start + cylinders.start * 4..btot.start + cylinders.end * 4);
                add(b.start + cylinders.start * of_cylinder..b.start + cylinders.end * of_cylinder);
            }
        }
        Ok(sectors)
    }

    /// Keeps a group and its counts in memory until what is given up is entered there, which must
    /// not fail.
    fn hold_group(&self, tx: &Tx<'_>, cgx: u32) -> Result<()> {
        self.group_buffer(cgx)?.hold(tx);
        Summaries::buffer(&self.layout, &self.cache, cgx)?.0.hold(tx);
        Ok(())
    }

    /// Refuses to free what is not in use, or was given up before and is not free yet.
    fn check_used(&self, tx: &Tx<'_>, at: Frag, count: u64) -> Result<()> {
        let damaged = |what| Err(Error::corrupt(what, format!("{count} fragments from {at}")));
        if !self.layout.contains(at, count) {
            return damaged("fragments to free lie outside");
        }
        if !tx.frees(at, count) || self.pending.is_freed(at, count) {
            return damaged("fragments are freed twice");
        }
        for part in self.by_groups(at, count) {
            self.hold_group(tx, part.cgx)?;
            let (first, last) = (part.first, part.last);
            let used = self.view_group(part.cgx, |group| {
                last <= group.fragments() && find_bit(group.blksfree(), first..last, true).is_none()
            })?;
            if !used {
                return damaged("freeing free fragments");
            }
        }
        Ok(())
    }

    /// Enters `count` fragments from `at` into the maps as free; they may span blocks and groups.
    pub(crate) fn free_in_map(&self, tx: &spindle_cache::Tx<'_>, at: Frag, count: u64) -> Result<()> {
        for part in self.by_groups(at, count) {
            self.free_part(tx, part)?;
        }
        Ok(())
    }

    /// Enters fragments of one group into its map as free.
    pub(crate) fn free_part(&self, tx: &spindle_cache::Tx<'_>, part: Part) -> Result<()> {
        let Part { at, cgx, first, last } = part;
        self.with_group(
            tx,
            cgx,
            |group, map| {
                if last > map.ndblk || find_bit(group.blksfree(), first..last, true).is_some() {
                    let what = format!("{} fragments from {at}", last - first);
                    return Err(Error::corrupt("freeing free fragments", what));
                }
                Ok(Some(()))
            },
            |group, ()| (free_range(group, first, last, self.layout.fs_frag), ()),
        )?;
        Ok(())
    }

    /// Takes an inode: for a directory in the group that the policy chooses, otherwise near
    /// `parent`.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub(crate) fn alloc_inode(&self, tx: &Tx<'_>, parent: u32, directory: bool) -> Result<u32> {
        let own = self.layout.ino_to_cg(parent);
        let preferred =
            if directory { self.summaries.choose(|groups| directory_group(groups, own)) } else { own };
        for cgx in group_order(preferred, self.layout.fs_ncg) {
            if self.summaries.group(cgx).cs_nifree <= 0 {
                continue;
            }
            if let Some(ino) = self.alloc_inode_in(tx, cgx, directory)? {
                tx.note_allocated(Allocated::Inode(ino, directory));
                return Ok(ino);
            }
        }
        Err(Error::NoSpace)
    }

    fn alloc_inode_in(&self, tx: &Tx<'_>, cgx: u32, directory: bool) -> Result<Option<u32>> {
        let base = cgx * self.layout.fs_ipg;
        self.with_group_and(
            tx,
            cgx,
            |group, _| {
                if group.cs().cs_nifree <= 0 {
                    return Ok(None);
                }
                let start = group.irotor();
                let free = find_bit(group.inosused(), start..self.layout.fs_ipg, false)
                    .or_else(|| find_bit(group.inosused(), 0..start, false));
                Ok(free.filter(|n| base + n > crate::format::layout::ROOT_INO))
            },
            |group, n| {
                // UFS2 writes inode blocks only when they are first needed. Under the group's lock,
                // so that nobody takes an inode of the block before the block is there.
                let ready = group.view().initediblk();
                let needed = (n + 1).next_multiple_of(self.layout.fs_inopb).max(ready);
                let written = (ready..needed)
                    .step_by(self.layout.fs_inopb as usize)
                    .try_for_each(|first| self.init_inode_block(tx, base + first));
                if needed > ready && written.is_ok() {
                    group.set_initediblk(needed);
                }
                (group.take_inode(n, directory), written.map(|()| (base + n, needed > ready)))
            },
            |group, taken| {
                let (ino, more) = taken?;
                if more {
                    // What the group does not say is ready counts as free.
                    group.precede()?;
                }
                Ok(ino)
            },
        )
    }

    /// Gives an inode back with the transaction.
    pub(crate) fn free_inode(&self, tx: &Tx<'_>, ino: u32, directory: bool) -> Result<()> {
        let (n, cgx) = (ino % self.layout.fs_ipg, self.layout.ino_to_cg(ino));
        self.hold_group(tx, cgx)?;
        if !self.view_group(cgx, |group| isset(group.inosused(), n))? {
            return Err(Error::corrupt("freeing a free inode", format!("inode {ino}")));
        }
        tx.defer(Deferred::Inode(ino, directory));
        Ok(())
    }

    /// Enters an inode into its group's map as free.
    pub(crate) fn free_inode_in_map(
        &self,
        tx: &spindle_cache::Tx<'_>,
        ino: u32,
        directory: bool,
    ) -> Result<()> {
        let n = ino % self.layout.fs_ipg;
        self.with_group(
            tx,
            self.layout.ino_to_cg(ino),
            |group, _| {
                if isset(group.inosused(), n) {
                    Ok(Some(()))
                } else {
                    Err(Error::corrupt("freeing a free inode", format!("inode {ino}")))
                }
            },
            |group, ()| (group.free_inode(n, directory), ()),
        )?;
        Ok(())
    }
}

/// Bytes at the start of a group's block that have its counts.
const CG_HEADER: usize = 168;

/// Fragments of one group.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    /// The first.
    pub(crate) at: Frag,
    /// The group.
    pub(crate) cgx: u32,
    /// The first, counted in the group.
    pub(crate) first: u32,
    /// The one behind the last, counted in the group.
    pub(crate) last: u32,
}

/// Frees fragments `first..last` of a group, block by block.
pub(super) fn free_range<B: Patch + ?Sized>(
    group: &mut GroupMut<'_, B>,
    first: u32,
    last: u32,
    frag: u32,
) -> Csum {
    let mut sum = Csum::default();
    let mut bno = first;
    while bno < last {
        let stop = (bno - bno % frag + frag).min(last);
        let change = group.free_frags(bno, stop - bno);
        sum.cs_nbfree += change.cs_nbfree;
        sum.cs_nffree += change.cs_nffree;
        bno = stop;
    }
    sum
}

fn frags32(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
