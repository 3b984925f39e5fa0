//! Making a snapshot.
//!
//! It begins as an inode without a name, which a crash frees, that gets everything it will need:
//! all indirect blocks, and space for what it must have from the beginning. Then all changes are
//! kept out for a moment; everything is checkpointed; and the snapshot is filled in on the device,
//! past the cache: the marks of what is free, and copies of the superblock, the summaries and the
//! groups as they would be after a check. From then on changes are preserved for it. It counts when
//! the transaction is durable that gives it its name.
//!
//! In the view of a snapshot it is not there itself, nor are inodes without names; what belongs to
//! older snapshots is free, and they and the log are empty files.
//!
//! Source: `ffs_snapshot`, `cgaccount`, `expunge_ufs2` of FreeBSD.

use super::{NOT_COPIED, OF_A_SNAPSHOT, Pointers};
use crate::format::dialect::Dialect;
use crate::format::dinode::Dinode;
use crate::format::group::{GroupMut, find_bit};
use crate::format::layout::ROOT_INO;
use crate::format::ondisk::{Csum, NDADDR, NIADDR, SF_SNAPSHOT};
use crate::format::units::{Frag, Lbn, index};
use crate::volume::Volume;
use crate::volume::alloc::{Part, free_range};
use crate::volume::bmap::{PointerAt, Slot};
use crate::volume::tx::Tx;
use spindle_ondisk::Field;
use spindle_vfs::{Error, FileKind, Privilege, Result};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// What has to be prepared before a snapshot can be taken.
pub(crate) enum Needed {
    /// Copies of these blocks.
    Blocks(BTreeSet<u64>),
    /// Nothing: it has been taken, and its size is this.
    Nothing(u64),
}

/// What is to be seen of an inode in a snapshot.
enum Seen {
    /// It is free.
    Free,
    /// It is an empty file.
    Empty,
}

impl Volume {
    /// Begins a snapshot in an inode that is stored and has no space.
    pub(crate) fn begin_snapshot(&self, ino: u32, di: &Dinode) {
        self.snapshots.lock().apart.push(Pointers::of(ino, di));
    }

    /// Gives a snapshot that is being made the indirect blocks on the way to block `lbn`, and if
    /// `with_block`, the block itself, if it has none of them.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; device errors. What it has got it keeps.
    pub(crate) fn give_block(&self, tx: &Tx<'_>, ino: u32, lbn: Lbn, with_block: bool) -> Result<()> {
        let state = &mut *self.snapshots.lock();
        let Some(nth) = state.apart.iter().position(|pointers| pointers.ino == ino) else {
            return Err(Error::Stale);
        };
        let _inode = self.inode_buffer(ino)?;
        let zeros = vec![0; self.layout.fs_bsize as usize];
        let near = self.block_of(self.layout.cgdmin(self.layout.ino_to_cg(ino)));
        let counted = u64::from(self.layout.fs_bsize >> 9);
        if let PointerAt::Indirect { levels, path } = self.pointer_at(lbn)? {
            if state.apart[nth].ib[levels - 1] == 0 {
                let at = self.new_block(tx, state, near, &zeros)?;
                let pointers = &mut state.apart[nth];
                pointers.ib[levels - 1] = at.0;
                pointers.blocks += counted;
                self.store_pointers(tx, pointers).map_err(|error| self.cache.half_done(&error))?;
            }
            let mut block = Frag(state.apart[nth].ib[levels - 1]);
            for &step in &path[NIADDR - levels..NIADDR - 1] {
                let raw = self.get_pointer(&self.indirect(block)?.read(), step);
                block = if let Some(next) = self.pointer(raw, self.layout.fs_frag, ino)? {
                    next
                } else {
                    let above = self.indirect(block)?;
                    let at = self.new_block(tx, state, near, &zeros)?;
                    self.put_pointer(&mut above.write_shared(tx), step, at.0);
                    let pointers = &mut state.apart[nth];
                    pointers.blocks += counted;
                    self.store_pointers(tx, pointers).map_err(|error| self.cache.half_done(&error))?;
                    at
                };
            }
        }
        let slot = self.slot(&state.apart[nth], lbn)?;
        if !with_block || self.slot_pointer(&state.apart[nth], slot)? != 0 {
            return Ok(());
        }
        let wanted = state.wanted.unwrap_or(Frag(near * u64::from(self.layout.fs_frag)));
        let at = self.alloc_for_good(tx, self.layout.fs_frag, wanted, Privilege::Root)?;
        state.wanted = Some(at + u64::from(self.layout.fs_frag));
        let pointers = &mut state.apart[nth];
        pointers.blocks += counted;
        self.put_slot(tx, pointers, slot, at.0)
            .and_then(|()| self.store_pointers(tx, pointers))
            .map_err(|error| self.cache.half_done(&error).into())
    }

    /// Returns the blocks of which a snapshot that is being made needs copies.
    pub(crate) fn blocks_to_copy(&self, log_ino: Option<u32>) -> BTreeSet<u64> {
        let mut blocks = self.blocks_from_the_beginning();
        let inodes = self.seen_otherwise(log_ino).into_keys();
        blocks.extend(inodes.map(|ino| self.block_of(self.layout.ino_to_fsba(ino).0)));
        blocks
    }

    /// Returns the inodes that are something else in the view of a snapshot.
    fn seen_otherwise(&self, log_ino: Option<u32>) -> BTreeMap<u32, Seen> {
        let mut seen: BTreeMap<_, _> =
            self.pending.orphans().into_iter().map(|ino| (ino, Seen::Free)).collect();
        let state = self.snapshots.lock();
        seen.extend(state.apart.iter().map(|pointers| (pointers.ino, Seen::Free)));
        seen.extend(state.live.iter().map(|pointers| (pointers.ino, Seen::Empty)));
        // The log of NetBSD has no name.
        let log = if self.dialect == Dialect::NetBsd { Seen::Free } else { Seen::Empty };
        seen.extend(log_ino.map(|ino| (ino, log)));
        seen.retain(|&ino, _| ino > ROOT_INO && ino < self.layout.inodes());
        seen
    }

    /// Takes the snapshot for which everything has been prepared in an inode: what it holds is the
    /// file system as it is now. No change is under way meanwhile.
    ///
    /// # Errors
    /// Device errors, and [`Error::Corrupt`] if a structure that it has to copy is damaged; then
    /// nothing has been taken.
    pub(crate) fn take_snapshot(&self, ino: u32, log_ino: Option<u32>) -> Result<Needed> {
        let long = self.snapshots.long.write();
        let changes = self.snapshots.changes.write();
        let freed = self.commit_alone()?;
        let taken = self.take_unchanging(ino, log_ino);
        drop((long, changes));
        self.discard_freed(freed);
        taken
    }

    /// [`Self::take_snapshot`] of what is committed, while nothing can be changed.
    fn take_unchanging(&self, ino: u32, log_ino: Option<u32>) -> Result<Needed> {
        if self.pending.frags() > 0 {
            return Err(Error::corrupt("freed space cannot be entered as free", "cylinder groups"));
        }
        self.cache.checkpoint()?;
        let young = {
            let state = self.snapshots.lock();
            state.apart.iter().find(|pointers| pointers.ino == ino).cloned().ok_or(Error::Stale)?
        };
        let needed = self.blocks_to_copy(log_ino);
        let mut missing = BTreeSet::new();
        for &block in &needed {
            if self.needs(&young, block)? {
                missing.insert(block);
            }
        }
        if !missing.is_empty() {
            return Ok(Needed::Blocks(missing));
        }
        let (copied, list_blocks) = self.list_of(&young)?;
        let mut missing = BTreeSet::new();
        for lbn in list_blocks {
            if self.slot(&young, Lbn(lbn)).and_then(|slot| self.slot_pointer(&young, slot)).unwrap_or(0) == 0
            {
                missing.insert(lbn);
            }
        }
        if !missing.is_empty() {
            return Ok(Needed::Blocks(missing));
        }
        let mut view = View { volume: self, copies: BTreeMap::new(), counts: BTreeMap::new() };
        let mut older = BTreeSet::new();
        for (other, seen) in self.seen_otherwise(log_ino) {
            view.expunge(other, &seen, &mut older)?;
        }
        let marks = view.marks(&older)?;
        view.put_totals()?;
        let View { copies, .. } = view;
        self.fill(young, &copies, &copied, &marks).map(Needed::Nothing)
    }

    /// Returns the blocks that a snapshot that is being made has, and those that the list of them
    /// takes behind its last one.
    fn list_of(&self, young: &Pointers) -> Result<(Vec<u64>, std::ops::Range<u64>)> {
        let blocks = self.snapshot_blocks();
        let mut copied: Vec<u64> =
            (0..blocks).zip(&young.db).filter(|(_, raw)| **raw != 0).map(|(n, _)| n).collect();
        for first in (NDADDR as u64..blocks).step_by(self.layout.fs_nindir as usize) {
            let Slot::Indirect(leaf, _) = self.slot(young, Lbn(first))? else { continue };
            let buffer = self.indirect(leaf)?;
            let bytes = buffer.read();
            let lbns = (first..blocks).take(self.layout.fs_nindir as usize);
            copied
                .extend(lbns.zip(0..).filter(|&(_, n)| self.get_pointer(&bytes, n) != 0).map(|(lbn, _)| lbn));
        }
        let bytes = (copied.len() as u64 + 1) * LIST_WORD;
        Ok((copied, blocks..blocks + bytes.div_ceil(self.layout.fs_bsize.into())))
    }

    /// Writes the copies and marks of a snapshot to the device, and has changes preserved for it
    /// from now on. Returns its size.
    fn fill(
        &self,
        mut young: Pointers,
        copies: &BTreeMap<u64, Vec<u8>>,
        copied: &[u64],
        marks: &[u8],
    ) -> Result<u64> {
        let layout = &self.layout;
        let blocks = self.snapshot_blocks();
        let place = |young: &Pointers, lbn| {
            let raw = self.slot_pointer(young, self.slot(young, Lbn(lbn))?)?;
            let missing =
                || Error::corrupt(format!("no space for block {lbn}"), format!("inode {}", young.ino));
            Ok::<_, Error>(layout.byte(self.pointer(raw, layout.fs_frag, young.ino)?.ok_or_else(missing)?))
        };
        let device = self.cache.device();
        let write = |at: u64, bytes: &[u8]| self.cache.directly(|device| device.write_at(at, bytes));
        for &lbn in copied {
            let at = place(&young, lbn)?;
            match copies.get(&lbn) {
                Some(bytes) => write(at, bytes)?,
                // It was needed when it was prepared.
                None => write(at, &self.read_original(lbn)?)?,
            }
        }
        let words = std::iter::once(copied.len() as u64 + 1).chain(copied.iter().copied());
        let mut list = vec![0; index((copied.len() as u64 + 1) * LIST_WORD)];
        let size = (blocks << layout.fs_bshift) + list.len() as u64;
        list.chunks_exact_mut(index(LIST_WORD)).zip(words).for_each(|(at, word)| word.put(at, layout.endian));
        list.resize(list.len().next_multiple_of(layout.fs_bsize as usize), 0);
        for (lbn, bytes) in (blocks..).zip(list.chunks_exact(layout.fs_bsize as usize)) {
            write(place(&young, lbn)?, bytes)?;
        }
        for (raw, &mark) in young.db.iter_mut().zip(marks) {
            if *raw == 0 {
                *raw = mark.into();
            }
        }
        for first in (NDADDR as u64..blocks).step_by(layout.fs_nindir as usize) {
            let Slot::Indirect(leaf, _) = self.slot(&young, Lbn(first))? else { continue };
            let mut bytes = self.indirect(leaf)?.read().to_vec();
            for (at, &mark) in bytes.chunks_exact_mut(layout.pointer_size()).zip(&marks[index(first)..]) {
                if at.iter().all(|&byte| byte == 0) {
                    self.encode_pointer(at, mark.into());
                }
            }
            write(layout.byte(leaf), &bytes)?;
            self.cache.forget(layout.byte(leaf));
        }
        self.cache.directly(|_| device.flush())?;
        let state = &mut *self.snapshots.lock();
        state.apart.retain(|pointers| pointers.ino != young.ino);
        state.live.push(young);
        (state.settled, state.inodes_settled) = (Vec::new(), false);
        state.fresh.clear();
        self.snapshots.counted(state);
        Ok(size)
    }
}

/// Bytes of a word of the list.
const LIST_WORD: u64 = 8;

/// What a snapshot shows instead of what the device has.
struct View<'a> {
    volume: &'a Volume,
    /// Blocks, by their numbers.
    copies: BTreeMap<u64, Vec<u8>>,
    /// What differs in the counts of groups.
    counts: BTreeMap<u32, Csum>,
}

impl View<'_> {
    /// Returns a block as the snapshot shows it.
    fn block(&mut self, block: u64) -> Result<&mut Vec<u8>> {
        match self.copies.entry(block) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => Ok(new.insert(self.volume.read_original(block)?.to_vec())),
        }
    }

    /// Changes a group.
    fn change_group(
        &mut self,
        cgx: u32,
        change: impl FnOnce(&mut GroupMut<'_, [u8]>) -> Result<Csum>,
    ) -> Result<()> {
        let volume = self.volume;
        let map = volume.view_group(cgx, |group| group.map().clone())?;
        let block = volume.block_of(volume.layout.cgtod(cgx));
        let bytes = self.block(block)?;
        let counts = change(&mut GroupMut::new(&volume.layout, &map, bytes.as_mut_slice()))?;
        add(self.counts.entry(cgx).or_default(), counts);
        Ok(())
    }

    /// Shows space as free.
    fn free(&mut self, at: Frag, count: u64) -> Result<()> {
        let frag = self.volume.layout.fs_frag;
        for Part { cgx, first, last, .. } in self.volume.by_groups(at, count).collect::<Vec<_>>() {
            self.change_group(cgx, |group| {
                if find_bit(group.view().blksfree(), first..last, true).is_some() {
                    let what = format!("{count} fragments from {at} belong to a file and are free");
                    return Err(Error::corrupt(what, format!("cylinder group {cgx}")));
                }
                Ok(free_range(group, first, last, frag))
            })?;
        }
        Ok(())
    }

    /// Shows an inode as `seen`, and its space as free. The blocks of snapshots that others are
    /// still preserved for are added to `older`.
    fn expunge(&mut self, ino: u32, seen: &Seen, older: &mut BTreeSet<u64>) -> Result<()> {
        let volume = self.volume;
        let layout = &volume.layout;
        let (at, offset) = layout.ino_to_fsba(ino);
        let bytes = self.block(volume.block_of(at))?;
        let mut di = Dinode::decode(&bytes[offset..], layout);
        if di.mode == 0 {
            return Ok(());
        }
        let before = di.clone();
        match seen {
            Seen::Free => {
                Dinode::free(di.r#gen).encode(&mut bytes[offset..], layout, volume.hashes.inodes);
            }
            Seen::Empty => {
                (di.size, di.blocks, di.flags) = (0, 0, di.flags & !SF_SNAPSHOT);
                (di.db, di.ib) = ([0; NDADDR], [0; NIADDR]);
                di.encode(&mut bytes[offset..], layout, volume.hashes.inodes);
            }
        }
        if matches!(seen, Seen::Free) {
            let (cgx, n) = (layout.ino_to_cg(ino), ino % layout.fs_ipg);
            self.change_group(cgx, |group| Ok(group.free_inode(n, before.is_directory())))?;
        }
        let mut held = Vec::new();
        let snapshot = volume.snapshots.lock().pointers_of(ino).cloned();
        if let Some(pointers) = snapshot {
            volume.each_block_of(&pointers, &mut |at| held.push((at, layout.fs_frag)))?;
            if matches!(seen, Seen::Empty) {
                older.extend(held.iter().map(|&(at, _)| volume.block_of(at)));
            }
        } else {
            let mut di = before;
            if !matches!(di.kind(), Some(FileKind::Regular | FileKind::Directory | FileKind::Symlink)) {
                (di.db, di.ib) = ([0; NDADDR], [0; NIADDR]);
            }
            let mut failed = Ok(());
            volume.each_held(ino, &di, &mut |found| match found {
                Ok(found) => {
                    held.push(found);
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    failed = Err(error);
                    ControlFlow::Break(())
                }
            });
            failed?;
        }
        held.into_iter().try_for_each(|(at, frags)| self.free(at, frags.into()))
    }

    /// Returns the mark of each block, 0 for none, and shows all groups.
    fn marks(&mut self, older: &BTreeSet<u64>) -> Result<Vec<u8>> {
        let volume = self.volume;
        let layout = &volume.layout;
        // The last block always has a copy.
        let mut marks = vec![0; index(volume.snapshot_blocks())];
        for cgx in 0..layout.fs_ncg {
            let base = index(volume.block_of(layout.cgbase(cgx)));
            self.change_group(cgx, |group| {
                for n in 0..layout.cg_frags(cgx) / layout.fs_frag {
                    if group.view().is_block(n * layout.fs_frag) {
                        let block = base + n as usize;
                        let is_older = older.contains(&(block as u64));
                        marks[block] = if is_older { OF_A_SNAPSHOT } else { NOT_COPIED };
                    }
                }
                Ok(Csum::default())
            })?;
            volume.seal_group(self.block(volume.block_of(layout.cgtod(cgx)))?);
        }
        Ok(marks)
    }

    /// Shows the counts, and the superblock of a file system that is clean and has neither log nor
    /// snapshots.
    fn put_totals(&mut self) -> Result<()> {
        let volume = self.volume;
        let layout = &volume.layout;
        let mut total = volume.summaries.total();
        for (cgx, change) in std::mem::take(&mut self.counts) {
            let at = layout.byte(layout.fs_csaddr) + (cgx as usize * Csum::SIZE) as u64;
            let bytes = self.block(at >> layout.fs_bshift)?;
            let range = layout.blkoff(at)..layout.blkoff(at) + Csum::SIZE;
            let mut counts = Csum::get(&bytes[range.clone()], layout.endian);
            add(&mut counts, change);
            counts.put(&mut bytes[range], layout.endian);
            total.cs_ndir += i64::from(change.cs_ndir);
            total.cs_nbfree += i64::from(change.cs_nbfree);
            total.cs_nifree += i64::from(change.cs_nifree);
            total.cs_nffree += i64::from(change.cs_nffree);
        }
        // All blocks of the summaries have copies.
        let mut superblock = volume.current_superblock();
        superblock.set_log_place(None);
        superblock.set_snapshots(&[])?;
        superblock.set_totals(&total);
        superblock.set_clean(true, false, volume.clock.now());
        let bytes = superblock.encode(layout.fs_sblockloc);
        let len = superblock.written_bytes(volume.sector());
        for (n, &byte) in bytes[..len].iter().enumerate() {
            let at = layout.fs_sblockloc + n as u64;
            self.block(at >> layout.fs_bshift)?[layout.blkoff(at)] = byte;
        }
        Ok(())
    }
}

fn add(counts: &mut Csum, change: Csum) {
    counts.cs_ndir += change.cs_ndir;
    counts.cs_nbfree += change.cs_nbfree;
    counts.cs_nifree += change.cs_nifree;
    counts.cs_nffree += change.cs_nffree;
}
