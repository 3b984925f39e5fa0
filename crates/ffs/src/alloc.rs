//! Allocation: blocks, fragments and inodes out of the cylinder groups.
//!
//! Every change of a group happens in [`Ffs::with_group`]: the group's lock, its buffer, its checked map, the
//! change, and then the same change in the summaries, all inside the caller's transaction. A group's
//! lock is the last one taken; nothing is waited for under it but the group's own block.

use crate::ckhash::check_hash;
use crate::group::{CG_CKHASH, Group, GroupMap, GroupMut, find_bit, isset};
use crate::layout::Layout;
use crate::mount::Ffs;
use crate::ondisk::{Cg, Csum, FS_OPTTIME};
use crate::policy::{directory_group, group_order, optimization};
use crate::search::{find_block, find_run};
use crate::units::Frag;
use spindle_cache::{Buffer, Seal, Tx};
use spindle_clock::{Mutex, Work};
use spindle_ondisk::{Endian, Field};
use spindle_vfs::{Error, Privilege, Result};
use std::sync::Arc;

/// The lock of each group, and its map once it has been checked.
pub(crate) struct Groups {
    maps: Vec<Mutex<Option<Arc<GroupMap>>>>,
    seal: Option<Arc<dyn Seal>>,
}

impl Groups {
    pub(crate) fn new(layout: &Layout, hashed: bool) -> Self {
        let seal = hashed.then(|| -> Arc<dyn Seal> {
            Arc::new(GroupSeal { cgsize: layout.fs_cgsize as usize, endian: layout.endian })
        });
        Self { maps: (0..layout.fs_ncg).map(|_| Mutex::new(None)).collect(), seal }
    }
}

/// Puts the check-hash of a group block right.
struct GroupSeal {
    cgsize: usize,
    endian: Endian,
}

impl Seal for GroupSeal {
    fn seal(&self, bytes: &mut [u8]) {
        let hash = check_hash(&bytes[..self.cgsize], CG_CKHASH);
        hash.put(&mut bytes[CG_CKHASH..], self.endian);
    }
}

impl Ffs {
    fn group_buffer(&self, cgx: u32) -> Result<Buffer<'_>> {
        let at = self.layout.byte(self.layout.cgtod(cgx));
        let len = (self.layout.fs_cgsize as usize).next_multiple_of(self.layout.fs_fsize as usize);
        Ok(self.cache.get(at, len, self.groups.seal.as_ref())?)
    }

    /// The checked map of a group, from the block on the first call.
    fn group_map(&self, cgx: u32, known: &mut Option<Arc<GroupMap>>, block: &[u8]) -> Result<Arc<GroupMap>> {
        if let Some(map) = known {
            return Ok(map.clone());
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
        let map = Arc::new(GroupMap::check(&self.layout, block, cgx)?);
        *known = Some(map.clone());
        Ok(map)
    }

    /// Looks at a group under its lock with `look`, and if that finds something, changes it with `change`, which returns
    /// what it did to the counts.
    fn with_group<L, R>(
        &self,
        tx: &Tx<'_>,
        cgx: u32,
        look: impl FnOnce(Group<'_>, &GroupMap) -> Result<Option<L>>,
        change: impl FnOnce(&mut GroupMut<'_>, L) -> (Csum, R),
    ) -> Result<Option<R>> {
        let mut known = self.groups.maps[cgx as usize].lock();
        let buffer = self.group_buffer(cgx)?;
        let (map, found) = {
            let block = buffer.read();
            let map = self.group_map(cgx, &mut known, &block)?;
            let found = look(Group::new(&self.layout, &map, &block), &map)?;
            (map, found)
        };
        let Some(found) = found else { return Ok(None) };
        let (counts, result) = {
            let mut block = buffer.write_later(tx);
            let mut group = GroupMut::new(&self.layout, &map, &mut block);
            group.set_time(self.clock.now().secs);
            change(&mut group, found)
        };
        self.summaries.add(&self.layout, &self.cache, tx, cgx, counts)?;
        Ok(Some(result))
    }

    /// Reads a group without changing it.
    pub(crate) fn view_group<R>(&self, cgx: u32, look: impl FnOnce(Group<'_>) -> R) -> Result<R> {
        let mut known = self.groups.maps[cgx as usize].lock();
        let buffer = self.group_buffer(cgx)?;
        let block = buffer.read();
        let map = self.group_map(cgx, &mut known, &block)?;
        Ok(look(Group::new(&self.layout, &map, &block)))
    }

    /// Fragments that are free in the maps.
    pub(crate) fn free_frags_now(&self) -> i64 {
        let total = self.summaries.total();
        total.cs_nbfree.saturating_mul(self.layout.fs_frag.into()).saturating_add(total.cs_nffree)
    }

    /// Fragments left for a caller, after the reserve.
    pub(crate) fn free_frags_for(&self, by: Privilege) -> i64 {
        let free = self.free_frags_now();
        let reserve = match by {
            Privilege::Root => 0,
            Privilege::User => {
                let dsize = i64::try_from(self.layout.fs_dsize).unwrap_or(i64::MAX);
                dsize / 100 * i64::from(self.minfree()) + dsize % 100 * i64::from(self.minfree()) / 100
            }
        };
        free - reserve
    }

    /// Takes `frags` fragments (a whole block if that many) near `wanted`, a fragment address whose group
    /// is tried first.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub(crate) fn alloc(&self, tx: &Tx<'_>, frags: u32, wanted: Frag, by: Privilege) -> Result<Frag> {
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

    fn alloc_in_group(&self, tx: &Tx<'_>, cgx: u32, frags: u32, near: Option<u32>) -> Result<Option<u32>> {
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
        Ok(grown.is_some())
    }

    /// How many fragments to take for a fragment that grows to `want`: a whole block while time comes first, of which
    /// the caller gives the rest back.
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
        taken.map(|()| at).ok_or(Error::NoSpace)
    }

    /// Refuses to free what lies outside.
    pub(crate) fn check_extent(&self, at: Frag, count: u64) -> Result<()> {
        if self.layout.contains(at, count) {
            return Ok(());
        }
        Err(Error::corrupt(format!("{count} fragments to free lie outside"), format!("fragment {at}")))
    }

    /// Enters `count` fragments from `at` into the maps as free; they may span blocks and groups.
    pub(crate) fn free_now(&self, tx: &Tx<'_>, at: Frag, count: u64) -> Result<()> {
        self.check_extent(at, count)?;
        let (mut at, end) = (at, at + count);
        while at < end {
            let cgx = self.layout.dtog(at);
            let stop = end.min(self.layout.cgbase(cgx) + u64::from(self.layout.fs_fpg));
            let (first, last) = (self.layout.dtogd(at), self.layout.dtogd(at) + frags32(stop - at));
            self.with_group(
                tx,
                cgx,
                |group, map| {
                    if last > map.ndblk || find_bit(group.blksfree(), first..last, true).is_some() {
                        return Err(Error::corrupt(
                            "freeing free fragments",
                            format!("fragments {at} to {stop}"),
                        ));
                    }
                    Ok(Some(()))
                },
                |group, ()| (free_range(group, first, last, self.layout.fs_frag), ()),
            )?;
            at = stop;
        }
        Ok(())
    }

    /// Takes an inode: for a directory in the group that the policy chooses, otherwise near `parent`.
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
                return Ok(ino);
            }
        }
        Err(Error::NoSpace)
    }

    fn alloc_inode_in(&self, tx: &Tx<'_>, cgx: u32, directory: bool) -> Result<Option<u32>> {
        let base = cgx * self.layout.fs_ipg;
        let taken = self.with_group(
            tx,
            cgx,
            |group, _| {
                if group.cs().cs_nifree <= 0 {
                    return Ok(None);
                }
                let start = group.irotor();
                let free = find_bit(group.inosused(), start..self.layout.fs_ipg, false)
                    .or_else(|| find_bit(group.inosused(), 0..start, false));
                Ok(free.filter(|n| base + n > crate::mount::ROOT_INO))
            },
            |group, n| {
                // UFS2 writes inode blocks only when they are first needed. Under the group's lock, so that
                // nobody takes an inode of the block before the block is there.
                let ready = group.view().initediblk();
                let needed = (n + 1).next_multiple_of(self.layout.fs_inopb).max(ready);
                let written = (ready..needed)
                    .step_by(self.layout.fs_inopb as usize)
                    .try_for_each(|first| self.init_inode_block(tx, base + first));
                if needed > ready && written.is_ok() {
                    group.set_initediblk(needed);
                }
                (group.take_inode(n, directory), written.map(|()| base + n))
            },
        )?;
        taken.transpose()
    }

    /// Gives an inode back.
    pub(crate) fn free_inode(&self, tx: &Tx<'_>, ino: u32, directory: bool) -> Result<()> {
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

/// Frees fragments `first..last` of a group, block by block.
fn free_range(group: &mut GroupMut<'_>, first: u32, last: u32, frag: u32) -> Csum {
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
