//! Control storage: cylinders, and the free headers and blocks in them.
//!
//! A cylinder gets its kind when the first entry in it is needed. Its blocks get their first
//! contents one after the other, so that nothing has to be cleared beforehand: `fresh` blocks have
//! never been used.

use super::headers::RESERVED;
use super::tx::{Allocated, Tx};
use super::usage::{Share, StorageUse};
use super::{Owner, Volume, update};
use crate::format::cylinder::{CYLINDER_BYTES, Cylinder, Kind};
use crate::format::header::is_used;
use crate::format::layout::{ControlBlock, HEADER_BYTES, Layout, ROOT_INO, index};
use spindle_device::{AlignedBuf, Device, Op, Request};
use spindle_vfs::{Error, Result};
use std::collections::BTreeSet;

/// Descriptions of cylinders that are read at once when a set is opened.
const READS_AT_ONCE: usize = 32;

/// What is known of all cylinders.
pub(super) struct ControlSpace {
    cylinders: Vec<Summary>,
    /// The cylinders with a free entry of each kind, and those that are unused, in the order of
    /// [`Kind`].
    open: [BTreeSet<u64>; 3],
    /// Free headers and blocks in cylinders that have a kind.
    free_headers: u64,
    free_blocks: u64,
    unused: u64,
    /// Cylinders that may have no entry in use any more.
    emptied: BTreeSet<u64>,
}

/// What is known of a cylinder.
#[derive(Clone, Copy)]
struct Summary {
    kind: Kind,
    free: u32,
    orphans: u32,
}

impl ControlSpace {
    /// Reads the descriptions of all cylinders, several at once.
    pub(super) fn read(layout: &Layout, device: &std::sync::Arc<dyn Device>) -> Result<Self> {
        let mut space = Self {
            cylinders: Vec::new(),
            open: Default::default(),
            free_headers: 0,
            free_blocks: 0,
            unused: 0,
            emptied: BTreeSet::new(),
        };
        let len = CYLINDER_BYTES.max(device.info().sector_bytes as usize);
        let request = |number| Request {
            op: Op::Read,
            offset: layout.cylinder_at(number),
            buf: AlignedBuf::zeroed(len),
        };
        let all: Vec<u64> = (0..layout.cylinders).collect();
        for numbers in all.chunks(READS_AT_ONCE) {
            let tickets: Vec<_> = numbers.iter().map(|&number| device.submit(request(number))).collect();
            // All are waited for, also after one has failed.
            let read: Vec<_> =
                tickets.into_iter().map(|ticket| ticket.and_then(|ticket| device.wait(ticket))).collect();
            for (&number, bytes) in numbers.iter().zip(read) {
                let Cylinder { kind, free, orphans, .. } =
                    Cylinder::decode(&bytes?, number, layout.cylinder_blocks())?;
                space.cylinders.push(Summary { kind, free, orphans });
                match kind {
                    Kind::Unused => space.unused += 1,
                    Kind::Headers => space.free_headers += u64::from(free),
                    Kind::Names => space.free_blocks += u64::from(free),
                }
                space.note_open(number);
            }
        }
        Ok(space)
    }

    /// Returns what of control storage is used.
    pub(super) fn usage(&self, layout: &Layout) -> StorageUse {
        let of_kind = |kind| self.cylinders.iter().filter(|summary| summary.kind == kind).count() as u64;
        let (header_cylinders, name_cylinders) = (of_kind(Kind::Headers), of_kind(Kind::Names));
        let share = |entries: u64, free| Share { used: entries.saturating_sub(free), free };
        // The first numbers are of no file.
        let headers = (header_cylinders * layout.headers_in_cylinder()).saturating_sub(ROOT_INO);
        let name_blocks = name_cylinders * u64::from(layout.cylinder_blocks());
        StorageUse {
            header_cylinders,
            headers: share(headers, self.free_headers),
            name_cylinders,
            name_blocks: share(name_blocks, self.free_blocks),
            unused_cylinders: self.unused,
            ..StorageUse::default()
        }
    }

    /// Enters a cylinder among those that are open, or takes it out.
    fn note_open(&mut self, number: u64) {
        let summary = self.cylinders[index(number)];
        let open = (summary.kind == Kind::Unused || summary.free > 0).then_some(summary.kind);
        for kind in [Kind::Unused, Kind::Headers, Kind::Names] {
            let set = &mut self.open[kind as usize];
            if open == Some(kind) {
                set.insert(number);
            } else {
                set.remove(&number);
            }
        }
    }

    /// Returns the cylinder of `kind` with a free entry that is nearest to `wanted`; the nearest
    /// unused one if there is none.
    fn find(&self, kind: Kind, wanted: u64) -> Option<(u64, Kind)> {
        let nearest = |kind: Kind| {
            let set = &self.open[kind as usize];
            let (above, below) = (set.range(wanted..).next(), set.range(..wanted).next_back());
            let found = above.into_iter().chain(below).min_by_key(|number| number.abs_diff(wanted));
            found.map(|&number| (number, kind))
        };
        nearest(kind).or_else(|| nearest(Kind::Unused))
    }

    fn count(&mut self, kind: Kind, change: i64) {
        let count = match kind {
            Kind::Headers => &mut self.free_headers,
            Kind::Names => &mut self.free_blocks,
            Kind::Unused => return,
        };
        *count = count.saturating_add_signed(change);
    }
}

impl Volume {
    /// Returns the headers that can be made, and those that are in use. What holds names cannot
    /// hold headers, so their sum is less where there are many names.
    pub(crate) fn header_counts(&self) -> (u64, u64) {
        let pending = self.pending.blocks();
        let space = self.control.lock();
        let each = self.layout.headers_in_cylinder();
        // A cylinder whose names are all gone can hold headers after the next commit.
        let candidates: BTreeSet<u64> = pending.keys().chain(&space.emptied).copied().collect();
        let emptied = candidates.iter().filter(|&number| {
            let summary = space.cylinders[index(*number)];
            let waiting = pending.get(number).copied().unwrap_or(0);
            summary.kind == Kind::Names && summary.free + waiting == self.entries(Kind::Names)
        });
        let free = space.free_headers + (space.unused + emptied.count() as u64) * each;
        let holders = space.cylinders.iter().filter(|summary| summary.kind == Kind::Headers).count() as u64;
        // Two headers are never used.
        (free, (holders * each).saturating_sub(space.free_headers + ROOT_INO))
    }

    /// Returns true if a cylinder has become empty, which the next commit makes unused.
    pub(super) fn has_emptied_cylinders(&self) -> bool {
        !self.control.lock().emptied.is_empty()
    }

    /// Returns the cylinders that have headers of files without a name.
    pub(crate) fn cylinders_with_orphans(&self) -> Vec<u64> {
        let space = self.control.lock();
        let with = |(n, summary): (usize, &Summary)| (summary.orphans > 0).then_some(n as u64);
        space.cylinders.iter().enumerate().filter_map(with).collect()
    }

    /// Returns true if a cylinder holds headers.
    pub(crate) fn holds_headers(&self, cylinder: u64) -> bool {
        let n = usize::try_from(cylinder).unwrap_or(usize::MAX);
        self.control.lock().cylinders.get(n).is_some_and(|summary| summary.kind == Kind::Headers)
    }

    /// Changes the description of a cylinder, and what is known of it.
    fn change_cylinder(
        &self,
        tx: &spindle_cache::Tx<'_>,
        space: &mut ControlSpace,
        number: u64,
        change: impl FnOnce(&mut Cylinder),
    ) -> Result<()> {
        let buffer = self.block(self.layout.cylinder_at(number))?;
        let after = update(tx, &buffer, Owner::Shared, |bytes| {
            let mut cylinder = Cylinder::decode(bytes, number, self.layout.cylinder_blocks())?;
            change(&mut cylinder);
            cylinder.encode(bytes);
            Ok(cylinder)
        })?;
        let n = usize::try_from(number).unwrap_or(usize::MAX);
        let before = space.cylinders[n];
        space.cylinders[n] = Summary { kind: after.kind, free: after.free, orphans: after.orphans };
        match (before.kind, after.kind) {
            (Kind::Unused, Kind::Headers | Kind::Names) => space.unused -= 1,
            (Kind::Headers | Kind::Names, Kind::Unused) => space.unused += 1,
            _ => {}
        }
        if before.kind != Kind::Unused && after.free == self.entries(after.kind) {
            space.emptied.insert(number);
        }
        space.count(before.kind, -i64::from(before.free));
        space.count(after.kind, after.free.into());
        if before.kind != after.kind || (before.free > 0) != (after.free > 0) {
            space.note_open(number);
        }
        Ok(())
    }

    /// Gives an unused cylinder its kind: all its entries are free.
    fn begin_cylinder(
        &self,
        tx: &spindle_cache::Tx<'_>,
        space: &mut ControlSpace,
        number: u64,
        kind: Kind,
    ) -> Result<()> {
        let (blocks, entries) = (self.layout.cylinder_blocks(), self.entries(kind));
        self.change_cylinder(tx, space, number, |cylinder| {
            cylinder.kind = kind;
            cylinder.free = entries;
            cylinder.fresh = blocks;
            (1..=blocks).for_each(|block| cylinder.set_free(block, true));
        })
    }

    /// Returns the entries of a cylinder of a kind.
    fn entries(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Unused => 0,
            Kind::Headers => self.layout.cylinder_blocks() * self.layout.headers_in_block(),
            Kind::Names => self.layout.cylinder_blocks(),
        }
    }

    /// Makes the cylinders that have no entry in use any more unused, as part of a commit.
    pub(super) fn end_empty_cylinders(&self, tx: &spindle_cache::Tx<'_>) -> Result<()> {
        let mut space = self.control.lock();
        for number in std::mem::take(&mut space.emptied) {
            let summary = space.cylinders[usize::try_from(number).unwrap_or(usize::MAX)];
            if summary.kind == Kind::Unused || summary.free != self.entries(summary.kind) {
                continue;
            }
            let blocks = (1..=self.layout.cylinder_blocks()).map(|n| self.layout.block_of(number, n));
            blocks.for_each(|block| self.cache.forget(self.layout.control_byte(block)));
            // What the log has of the blocks must not be written over what they hold next. One
            // range: an epoch that empties many cylinders must fit into the log.
            let first = self.layout.control_byte(self.layout.block_of(number, 1));
            self.cache.revoke(tx, first..self.layout.cylinder_at(number + 1));
            self.change_cylinder(tx, &mut space, number, |cylinder| {
                *cylinder = Cylinder::unused(number, self.layout.cylinder_blocks());
            })?;
        }
        Ok(())
    }

    /// Returns the description of a cylinder.
    pub(crate) fn cylinder(&self, number: u64) -> Result<Cylinder> {
        let buffer = self.block(self.layout.cylinder_at(number))?;
        let bytes = buffer.read();
        Cylinder::decode(&bytes, number, self.layout.cylinder_blocks())
    }

    /// Finds a cylinder for an entry of `kind`, the nearest to `wanted`.
    fn cylinder_for(
        &self,
        tx: &Tx<'_>,
        space: &mut ControlSpace,
        kind: Kind,
        wanted: u64,
    ) -> Result<Cylinder> {
        let (number, found) = space.find(kind, wanted).ok_or(Error::NoSpace)?;
        if found == Kind::Unused {
            self.begin_cylinder(tx, space, number, kind)?;
        }
        self.cylinder(number)
    }

    /// Allocates a header near that of file `near`, and returns its number. The caller stores what
    /// it shall hold; until then it is marked as used by a rollback-safe placeholder.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub(crate) fn alloc_header(&self, tx: &Tx<'_>, near: u64) -> Result<u64> {
        let mut space = self.control.lock();
        let wanted = self.layout.header_place(near).map_or(0, |(cylinder, _)| cylinder);
        let cylinder = self.cylinder_for(tx, &mut space, Kind::Headers, wanted)?;
        let number = cylinder.number;
        let full = || Error::corrupt("it has no free header", format!("cylinder {number}"));
        let block = cylinder.first_free(self.layout.cylinder_blocks()).ok_or_else(full)?;
        let at = self.layout.control_byte(self.layout.block_of(number, block));
        let buffer = if block > self.layout.cylinder_blocks() - cylinder.fresh {
            self.cache.get_new_for_good(at, self.layout.block_bytes(), None, tx)?
        } else {
            self.block(at)?
        };
        let (within, others) = {
            let bytes = buffer.read();
            let mut free = self.free_headers(number, block, &bytes);
            (free.next().ok_or_else(full)?, free.next().is_some())
        };
        self.change_cylinder(tx, &mut space, number, |cylinder| {
            cylinder.free = cylinder.free.saturating_sub(1);
            cylinder.set_free(block, others);
            let used = self.layout.cylinder_blocks() - block;
            cylinder.fresh = cylinder.fresh.min(used);
        })?;
        let first = (block - 1) * self.layout.headers_in_block();
        let ino = self.layout.ino_of(number, first) + within as u64;
        tx.note_allocated(Allocated::Header(ino));
        let range = within * HEADER_BYTES..within * HEADER_BYTES + 2;
        buffer.write(tx).bytes_mut(range).copy_from_slice(RESERVED);
        Ok(ino)
    }

    /// Returns the positions of the free headers in a block of headers, which holds `bytes`.
    fn free_headers<'a>(
        &self,
        number: u64,
        block: u32,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = usize> + use<'a> {
        let first = self.layout.ino_of(number, (block - 1) * self.layout.headers_in_block());
        let headers = bytes.chunks_exact(HEADER_BYTES).enumerate();
        let free = move |&(n, header): &(usize, &[u8])| !is_used(header) && first + n as u64 >= ROOT_INO;
        headers.filter(free).map(|(n, _)| n)
    }

    /// Enters a header as free that is free in its block. Another file may have got it since: so
    /// whether the block has a free one is seen in the block.
    pub(super) fn enter_free_header(&self, tx: &spindle_cache::Tx<'_>, ino: u64) -> Result<()> {
        let Some((number, slot)) = self.layout.header_place(ino) else { return Err(Error::Stale) };
        let block = 1 + slot / self.layout.headers_in_block();
        let mut space = self.control.lock();
        let buffer = self.block(self.layout.control_byte(self.layout.block_of(number, block)))?;
        let any = self.free_headers(number, block, &buffer.read()).next().is_some();
        self.change_cylinder(tx, &mut space, number, |cylinder| {
            cylinder.free = cylinder.free.saturating_add(1);
            cylinder.set_free(block, any);
        })
    }

    /// Counts a file without a name more, or less, in its cylinder.
    pub(super) fn count_orphan(&self, tx: &spindle_cache::Tx<'_>, ino: u64, change: i32) -> Result<()> {
        let Some((number, _)) = self.layout.header_place(ino) else { return Err(Error::Stale) };
        self.change_cylinder(tx, &mut self.control.lock(), number, |cylinder| {
            cylinder.orphans = cylinder.orphans.saturating_add_signed(change);
        })
    }

    /// Allocates a block for a node of the names of directory `near`.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub(crate) fn alloc_block(&self, tx: &Tx<'_>, near: u64) -> Result<ControlBlock> {
        let mut space = self.control.lock();
        let wanted = self.layout.header_place(near).map_or(0, |(cylinder, _)| cylinder + 1);
        let cylinder = self.cylinder_for(tx, &mut space, Kind::Names, wanted)?;
        let number = cylinder.number;
        let full = || Error::corrupt("it has no free block", format!("cylinder {number}"));
        let block = cylinder.first_free(self.layout.cylinder_blocks()).ok_or_else(full)?;
        self.change_cylinder(tx, &mut space, number, |cylinder| {
            cylinder.free = cylinder.free.saturating_sub(1);
            cylinder.set_free(block, false);
        })?;
        let block = self.layout.block_of(number, block);
        tx.note_allocated(Allocated::Block(block));
        Ok(block)
    }

    /// Enters a block of names as free.
    pub(super) fn enter_free_block(&self, tx: &spindle_cache::Tx<'_>, block: ControlBlock) -> Result<()> {
        let wrong = || Error::corrupt("a block that is none was freed", format!("block {}", block.0));
        let (number, position) = self.layout.block_place(block).ok_or_else(wrong)?;
        self.change_cylinder(tx, &mut self.control.lock(), number, |cylinder| {
            cylinder.free = cylinder.free.saturating_add(1);
            cylinder.set_free(position, true);
        })
    }

    /// Keeps the description of the cylinder of a block in memory until the commit.
    pub(super) fn hold_cylinder_of(&self, tx: &Tx<'_>, block: ControlBlock) -> Result<()> {
        let wrong = || Error::corrupt("it is no block of names", format!("block {}", block.0));
        let (number, _) = self.layout.block_place(block).ok_or_else(wrong)?;
        self.block(self.layout.cylinder_at(number))?.hold(tx);
        Ok(())
    }
}
