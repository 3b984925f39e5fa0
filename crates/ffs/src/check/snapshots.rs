//! Snapshots: whether what they show can be believed.
//!
//! Block `n` of a snapshot is block `n` of the file system as it was. Where a pointer is 0, it is
//! read where it is: so a pointer that is lost is no hole, but shows what the file system has there
//! now. A snapshot can be believed if nothing is wrong with its inode and its pointers, if nobody
//! else has a block of it, and if its view has this file system with all its groups.

use super::node::{Node, kind};
use super::reader::Reader;
use super::state::{BlockMap, MAX_DUPLICATES, mask};
use super::{Checker, Finding};
use crate::check::inodes::{ROOTINO, bad_address};
use crate::check::walk::pointer_at;
use crate::format::group::{Group, GroupMap, isset};
use crate::format::layout::{Extent, Layout};
use crate::format::ondisk::{NDADDR, NIADDR, SBLOCKSIZE};
use crate::format::superblock::decode;
use crate::format::units::{Frag, index};
use spindle_device::Device;
use spindle_vfs::{Error, Result};

/// Where a pointer of a snapshot stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PointerPlace {
    /// Direct pointer of the inode.
    Inode(usize),
    /// Byte on the device.
    Byte(u64),
}

/// A snapshot, and the file system as it shows it.
pub(crate) struct SnapshotView<'a> {
    device: &'a dyn Device,
    layout: &'a Layout,
    ino: u32,
    pub(crate) node: Node,
}

impl<'a> SnapshotView<'a> {
    /// Returns the snapshot in an inode of the file system on `device`.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn open(device: &'a dyn Device, layout: &'a Layout, ino: u32) -> Result<Self> {
        let (block, offset) = layout.ino_to_fsba(ino);
        let mut reader = Reader::new(device);
        let bytes = reader.read(layout.byte(block) + offset as u64, layout.inode_size(), 0)?;
        Ok(Self { device, layout, ino, node: Node::decode(layout, bytes) })
    }

    /// Returns its inode.
    pub(crate) const fn ino(&self) -> u32 {
        self.ino
    }

    /// Returns the number of its blocks that stand for those of the file system.
    fn blocks(&self) -> u64 {
        self.layout.fs_size.div_ceil(self.layout.fs_frag.into())
    }

    /// Passes the number and the pointer of each block to `visit`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if an indirect block is missing; device errors; those of `visit`.
    pub(crate) fn each_pointer(&self, visit: &mut dyn FnMut(u64, u64) -> Result<()>) -> Result<()> {
        let blocks = self.blocks();
        for (block, &pointer) in (0..blocks).zip(&self.node.db) {
            visit(block, pointer)?;
        }
        let (mut first, mut span) = (NDADDR as u64, 1);
        for (level, &raw) in (1..).zip(&self.node.ib) {
            if first >= blocks {
                break;
            }
            self.each_below(raw, level, first, visit)?;
            span *= u64::from(self.layout.fs_nindir);
            first += span;
        }
        Ok(())
    }

    fn each_below(
        &self,
        raw: u64,
        level: u32,
        first: u64,
        visit: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<()> {
        let span = u64::from(self.layout.fs_nindir).pow(level - 1);
        let mut bytes = vec![0; self.layout.fs_bsize as usize];
        self.device.read_at(self.indirect(raw)?, &mut bytes)?;
        let pointers = bytes.chunks_exact(self.layout.pointer_size());
        for (block, pointer) in (first..self.blocks()).step_by(index(span)).zip(pointers) {
            let pointer = pointer_at(self.layout, pointer);
            if level == 1 {
                visit(block, pointer)?;
            } else {
                self.each_below(pointer, level - 1, block, visit)?;
            }
        }
        Ok(())
    }

    /// Returns the byte on the device of an indirect block.
    fn indirect(&self, raw: u64) -> Result<u64> {
        if self.node.is_hole(raw) || bad_address(self.layout, raw, self.layout.fs_frag).is_some() {
            return Err(Error::corrupt("an indirect block is missing", format!("inode {}", self.ino)));
        }
        Ok(self.layout.byte(Frag(raw)))
    }

    /// Returns where the pointer of a block stands, and the pointer.
    ///
    /// # Errors
    /// As [`Self::each_pointer`].
    pub(crate) fn pointer(&self, block: u64) -> Result<(PointerPlace, u64)> {
        if let Some(&pointer) = self.node.db.get(index(block)) {
            return Ok((PointerPlace::Inode(index(block)), pointer));
        }
        let nindir = u64::from(self.layout.fs_nindir);
        let (mut rest, mut span, mut level) = (block - NDADDR as u64, nindir, 0);
        while rest >= span && level + 1 < NIADDR {
            rest -= span;
            span *= nindir;
            level += 1;
        }
        let mut raw = self.node.ib[level];
        loop {
            span /= nindir;
            let width = self.layout.pointer_size() as u64;
            let at = self.indirect(raw)? + rest / span * width;
            let mut reader = Reader::new(self.device);
            raw = pointer_at(self.layout, reader.read(at, index(width), 0)?);
            rest %= span;
            if span == 1 {
                return Ok((PointerPlace::Byte(at), raw));
            }
        }
    }

    /// Returns bytes of the file system as it was.
    fn read(&self, at: u64, len: usize) -> Result<Vec<u8>> {
        let (mut bytes, end) = (Vec::with_capacity(len), at + len as u64);
        let mut at = at;
        while at < end {
            let block = at >> self.layout.fs_bshift;
            let part = end.min((block + 1) << self.layout.fs_bshift) - at;
            let (_, pointer) = self.pointer(block)?;
            if pointer != 0 && self.node.is_hole(pointer) {
                bytes.resize(bytes.len() + index(part), 0);
            } else {
                let within = at - (block << self.layout.fs_bshift);
                let from = if pointer == 0 { at } else { self.layout.byte(Frag(pointer)) + within };
                bytes.extend_from_slice(Reader::new(self.device).read(from, index(part), 0)?);
            }
            at += part;
        }
        Ok(bytes)
    }

    /// Returns the fragments that were in use: what is shown of the others does not count.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the view has no map of them; device errors.
    pub(crate) fn used(&self) -> Result<BlockMap> {
        let layout = self.layout;
        let mut used = BlockMap::new(layout.fs_size);
        for cgx in 0..layout.fs_ncg {
            let block = self.read(layout.byte(layout.cgtod(cgx)), layout.fs_cgsize as usize)?;
            let map = GroupMap::check(layout, &block, cgx)?;
            let group = Group::new(layout, &map, &block);
            let base = layout.cgbase(cgx).0;
            (0..layout.cg_frags(cgx))
                .filter(|&n| !isset(group.blksfree(), n))
                .for_each(|n| used.set(base + u64::from(n)));
        }
        Ok(used)
    }

    /// Returns what is wrong with the view; none if it can be believed.
    fn problem(&self) -> Result<Option<&'static str>> {
        let layout = self.layout;
        if self.node.size < layout.byte(Frag(layout.fs_size)) {
            return Ok(Some("it is shorter than the file system"));
        }
        let at = layout.fs_sblockloc;
        let raw = self.read(at, SBLOCKSIZE)?;
        let extent = Extent::Whole(self.device.info().size_bytes);
        let shown = decode(&raw).and_then(|(fs, endian)| Layout::check(&fs, &raw, endian, at, extent).ok());
        let geometry = |of: &Layout| (of.fs_size, of.fs_ncg, of.fs_fpg, of.fs_ipg, of.fs_bsize, of.fs_fsize);
        if shown.is_none_or(|shown| geometry(&shown) != geometry(layout)) {
            return Ok(Some("its superblock is not that of this file system"));
        }
        Ok(self.used().err().map(|_| "its cylinder groups cannot be used"))
    }
}

impl Checker<'_> {
    /// Names the snapshots that cannot be believed.
    pub(crate) fn check_snapshots(&mut self, device: &dyn Device) {
        let layout = self.layout;
        let is_whole = self.state.duplicates.len() < MAX_DUPLICATES;
        let listed = self.superblock.snapshots();
        let lost = self.state.snapshots.iter().filter(|ino| !listed.contains(ino));
        for &ino in lost {
            let why = "the superblock does not list it, so nothing is kept for it";
            self.findings.push(Finding::DamagedSnapshot { ino, why });
        }
        for ino in listed {
            if !(ROOTINO..layout.inodes()).contains(&ino) {
                continue;
            }
            let view = match SnapshotView::open(device, layout, ino) {
                Ok(view) if view.node.kind() == kind::REG && view.node.is_snapshot() => view,
                // It is none, or has been named as unreadable.
                _ => continue,
            };
            let spoilt = self.state.spoilt.get(&ino).copied();
            let shares = self.state.owners.contains(&ino) || !is_whole;
            let shared = shares.then_some("another file has blocks of it");
            let why = spoilt.or(shared).or_else(|| view.problem().unwrap_or(Some("its blocks are missing")));
            if let Some(why) = why {
                self.findings.push(Finding::DamagedSnapshot { ino, why });
            }
        }
    }
}

/// Returns those of the fragments of a block, `here` of them, that are in one map and not in the
/// other.
pub(crate) fn without(one: &BlockMap, other: &BlockMap, first: u64, here: u32) -> u8 {
    one.bits(first, here) & !other.bits(first, here) & mask(here)
}
