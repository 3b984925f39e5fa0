//! Giving files other inodes: those whose cylinder groups go.
//!
//! An inode goes to the group that many groups before its own, if that has a free one: what was in
//! one group stays in one. Then everything that names it is changed: entries of directories, `.`
//! and `..` among them, access control lists of Solaris, and the superblock.

use crate::check::node::Node;
use crate::check::{Checker, Findings, Options};
use crate::format::dialect::Dialect;
use crate::format::entries::Entries;
use crate::format::group::{Group, GroupMap};
use crate::format::layout::{InodeFormat, Layout, ROOT_INO, Version};
use crate::format::ondisk::{Cg, FsNetBsd};
use crate::format::superblock::Superblock;
use crate::format::units::Frag;
use crate::repair::{Image, seal};
use rand::{Rng, RngCore};
use spindle_device::Device;
use spindle_ondisk::Field;
use spindle_vfs::{Error, Result};
use std::collections::BTreeMap;

/// Byte offsets of the generation in an inode of UFS2.
const DI_GEN: usize = 80;

/// Returns how many inodes are in use from `limit` on.
pub(super) fn beyond(checker: &Checker<'_>, limit: u32) -> u32 {
    let first = limit / checker.layout.fs_ipg;
    let groups = checker.state.inodes.iter().skip(first as usize);
    u32::try_from(groups.flatten().filter(|state| state.kind != 0).count()).unwrap_or(u32::MAX)
}

/// Moves all inodes of the group `groups` and those behind it into the groups before, on `device`.
/// Returns their numbers before and after.
///
/// # Errors
/// [`Error::NoSpace`] if there are too few free ones; errors of the device.
pub(super) fn renumber(
    device: &dyn Device,
    groups: u32,
    random: &mut dyn RngCore,
) -> Result<BTreeMap<u32, u32>> {
    let mut superblock = Superblock::open(device)?;
    let found = superblock.clone();
    let mut quiet = |_| ();
    let findings = Findings::new(Options::default().limit);
    let checker = Checker::run(device, &found, None, findings, &mut quiet)?;
    let layout = checker.layout;
    let image = Image { device, layout, hashes: checker.hashes };
    let limit = groups * layout.fs_ipg;
    if beyond(&checker, limit) == 0 {
        return Ok(BTreeMap::new());
    }
    let mut slots = Slots { checker: &checker, image, random, groups, next: vec![0; groups as usize] };
    let mut moved = BTreeMap::new();
    for (cgx, states) in (0_u32..).zip(&checker.state.inodes).skip(groups as usize) {
        for (ino, state) in (cgx * layout.fs_ipg..).zip(states) {
            if state.kind != 0 {
                moved.insert(ino, slots.take(cgx % groups)?);
            }
        }
    }
    for (&from, &to) in &moved {
        image.move_inode(from, to)?;
    }
    let now = |ino: u32| moved.get(&ino).copied().unwrap_or(ino);
    if layout.inode_format == InodeFormat::Sun {
        for (cgx, states) in (0_u32..).zip(&checker.state.inodes) {
            for (ino, _) in (cgx * layout.fs_ipg..).zip(states).filter(|(_, state)| state.kind != 0) {
                let shadow = Node::decode(layout, &image.inode(now(ino))?).shadow;
                if moved.contains_key(&shadow) {
                    image.change_inode(now(ino), |fields| fields.set_shadow(now(shadow)))?;
                }
            }
        }
    }
    for dir in &checker.state.dirs {
        for block in &checker.state.dir_blocks[dir.blocks.clone()] {
            let held = layout.blksize(dir.size, crate::format::units::Lbn(block.lbn));
            let len = held.min(layout.fs_bsize) as usize;
            rename(layout, image, block.frag, len, &moved)?;
        }
    }
    superblock_names(&mut superblock, &moved);
    superblock.write(device)?;
    Ok(moved)
}

/// Changes the inodes that the entries of a block of a directory name.
fn rename(
    layout: &Layout,
    image: Image<'_>,
    frag: u64,
    len: usize,
    moved: &BTreeMap<u32, u32>,
) -> Result<()> {
    image.change(layout.byte(Frag(frag)), len, |bytes| {
        let wrong: Vec<(usize, u32)> = Entries::new(layout, bytes)
            .flatten()
            .filter_map(|entry| Some((entry.at, *moved.get(&entry.ino)?)))
            .collect();
        for (at, ino) in wrong {
            ino.put(&mut bytes[at..], layout.endian);
        }
    })?;
    Ok(())
}

/// Changes the inodes that the superblock names: of the log, and of NetBSD's quotas.
fn superblock_names(superblock: &mut Superblock, moved: &BTreeMap<u32, u32>) {
    if let Some(mut place) = superblock.log_place()
        && let Some(&to) = place.ino.and_then(|ino| moved.get(&ino))
    {
        place.ino = Some(to);
        superblock.set_log_place(Some(place));
    }
    if superblock.dialect == Dialect::NetBsd {
        let endian = superblock.layout.endian;
        let mut netbsd = FsNetBsd::decode(superblock.raw(), endian);
        let now = |ino: u64| u32::try_from(ino).ok().and_then(|ino| moved.get(&ino)).map(|&to| to.into());
        let files = netbsd.fs_quotafile.map(|ino| now(ino).unwrap_or(ino));
        if files != netbsd.fs_quotafile {
            netbsd.fs_quotafile = files;
            netbsd.encode(&mut superblock.raw, endian);
        }
    }
}

/// The free inodes of the groups that stay.
struct Slots<'a> {
    checker: &'a Checker<'a>,
    image: Image<'a>,
    random: &'a mut dyn RngCore,
    groups: u32,
    /// The inode of each group from which on there may be free ones.
    next: Vec<u32>,
}

impl Slots<'_> {
    /// Takes a free inode, of this group if it has one.
    fn take(&mut self, cgx: u32) -> Result<u32> {
        for cgx in (cgx..self.groups).chain(0..cgx) {
            let layout = self.checker.layout;
            let states = &self.checker.state.inodes[cgx as usize];
            let next = &mut self.next[cgx as usize];
            let is_free = |n: &u32| {
                (cgx > 0 || *n > ROOT_INO) && states.get(*n as usize).is_none_or(|state| state.kind == 0)
            };
            let Some(n) = (*next..layout.fs_ipg).find(is_free) else {
                *next = layout.fs_ipg;
                continue;
            };
            *next = n + 1;
            self.initialise(cgx, n)?;
            return Ok(cgx * layout.fs_ipg + n);
        }
        Err(Error::NoSpace)
    }

    /// Fills the blocks of inodes of a group up to this one that were never used.
    fn initialise(&mut self, cgx: u32, n: u32) -> Result<()> {
        let (layout, image) = (self.checker.layout, self.image);
        if layout.version == Version::Ufs1 {
            return Ok(());
        }
        let at = layout.byte(layout.cgtod(cgx));
        let block = image.read(at, layout.fs_cgsize as usize)?;
        let map = GroupMap::check(layout, &block, cgx)?;
        let ready = Group::new(layout, &map, &block).initediblk();
        let wanted = (n + 1).next_multiple_of(layout.fs_inopb).min(layout.fs_ipg);
        if wanted <= ready {
            return Ok(());
        }
        for first in (ready..wanted).step_by(layout.fs_inopb as usize) {
            let mut bytes = vec![0; layout.fs_bsize as usize];
            for inode in bytes.chunks_exact_mut(layout.inode_size()) {
                self.random.random_range(1..=u32::MAX).put(&mut inode[DI_GEN..], layout.endian);
            }
            let (block, _) = layout.ino_to_fsba(cgx * layout.fs_ipg + first);
            image.put(layout.byte(block), &bytes)?;
        }
        image.change(at, layout.fs_cgsize as usize, |block| {
            let mut cg = Cg::decode(block, layout.endian);
            cg.cg_initediblk = wanted;
            cg.encode(block, layout.endian);
            seal(layout, self.checker.hashes.groups, block);
        })?;
        Ok(())
    }
}
