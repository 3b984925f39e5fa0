//! Judging structures when they are read: each has a checksum, and most know their place, so that
//! of several copies of control and log storage the right one is seen.
//!
//! Nothing else has to be known for it, and nothing is read: what a cylinder holds is seen in its
//! blocks. What is no whole structure may be right too, if it was never used. It counts as wrong
//! here, and as it is when no other copy has a whole structure there.
//!
//! A recovery writes everything again that was on its way, except to blocks that were freed since:
//! there copies may differ after it, which is seen in the description of the cylinder.

use crate::format::cylinder::{Cylinder, Kind};
use crate::format::header::{has_its_place, is_used};
use crate::format::layout::{HEADER_BYTES, Layout, ROOT_INO};
use crate::format::node;
use crate::format::sums::{self, SUM_SECTOR_BYTES};
use crate::log::is_header_slot;
use spindle_device::{Device, Judge, Mirror};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Bytes of all structures but nodes.
const SECTOR: usize = 512;
const _: () = assert!(HEADER_BYTES == SECTOR && SUM_SECTOR_BYTES == SECTOR);

/// The judge of control storage.
pub(super) struct OfControl {
    pub(super) layout: Layout,
    /// Control storage.
    pub(super) storage: Weak<Mirror>,
    /// True while the set is written as a file system.
    pub(super) is_mounted: Arc<AtomicBool>,
}

impl OfControl {
    /// Returns the byte after the last cylinder.
    fn cylinders_end(&self) -> u64 {
        self.layout.cylinder_at(self.layout.cylinders)
    }

    /// Returns the description of a cylinder, if it can be read.
    fn description(&self, number: u64) -> Option<Cylinder> {
        let mut bytes = [0; SECTOR];
        self.storage.upgrade()?.read_at(self.layout.cylinder_at(number), &mut bytes).ok()?;
        Cylinder::decode(&bytes, number, self.layout.cylinder_blocks()).ok()
    }

    /// Returns the bytes of the table of checksums.
    fn table(&self) -> Range<u64> {
        self.layout.sum_page_at(0)..self.layout.sum_page_at(self.layout.sum_pages)
    }

    /// Returns true if the sector at byte `at` of control storage is a whole structure that belongs
    /// there, or a place that has none.
    fn is_right(&self, at: u64, sector: &[u8]) -> bool {
        if at >= self.cylinders_end() {
            let table = self.table();
            return !table.contains(&at) || sums::is_whole(sector, (at - table.start) / SECTOR as u64);
        }
        let cylinder_bytes = u64::from(self.layout.parameters.cylinder_bytes);
        let (cylinder, within) = (at / cylinder_bytes, at % cylinder_bytes);
        let Some(slot) = within.checked_sub(self.layout.block_bytes() as u64) else {
            let blocks = self.layout.cylinder_blocks();
            return within > 0 || Cylinder::decode(sector, cylinder, blocks).is_ok();
        };
        let slot = u32::try_from(slot / SECTOR as u64).unwrap_or(u32::MAX);
        let ino = self.layout.ino_of(cylinder, slot);
        if ino < ROOT_INO { !is_used(sector) } else { has_its_place(sector, ino) }
    }
}

impl Judge for OfControl {
    /// Returns whole blocks, which nodes are; of a header or a description only itself.
    fn whole(&self, bytes: Range<u64>) -> Range<u64> {
        let block = self.layout.block_bytes() as u64;
        if bytes.end - bytes.start <= SECTOR as u64 || bytes.end > self.cylinders_end() {
            return bytes;
        }
        bytes.start / block * block..bytes.end.next_multiple_of(block)
    }

    fn wrong(&self, offset: u64, bytes: &[u8], _: bool) -> Vec<Range<usize>> {
        let block = self.layout.block_bytes();
        let mut wrong: Vec<Range<usize>> = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let place = offset + at as u64;
            let is_node = |bytes: &[u8]| place < self.cylinders_end() && node::is_whole(bytes);
            if place.is_multiple_of(block as u64) && bytes.get(at..at + block).is_some_and(is_node) {
                at += block;
                continue;
            }
            let sector = at..bytes.len().min(at + SECTOR);
            if !self.is_right(place, &bytes[sector.clone()]) {
                match wrong.last_mut().filter(|last| last.end == at) {
                    Some(last) => last.end = sector.end,
                    None => wrong.push(sector),
                }
            }
            at += SECTOR;
        }
        wrong
    }

    /// Returns false: who reads a structure sees that it is damaged.
    fn refuses(&self, _: u64) -> bool {
        false
    }

    fn mends(&self, _: u64) -> bool {
        self.is_mounted.load(Ordering::Acquire)
    }

    /// Returns the blocks that nothing is in, as the descriptions of their cylinders say, and what
    /// is behind everything. A block that a mount takes into use meanwhile stays among them until
    /// its first contents are on all members: a commit writes new blocks first, then the log has
    /// their description, and only later its place. So no block counts as a fault for being new.
    fn unused(&self, bytes: Range<u64>) -> Vec<Range<u64>> {
        let (end, table) = (self.cylinders_end(), self.table());
        let mut unused = vec![end..table.start, end.max(table.end)..u64::MAX];
        let (cylinder_bytes, block_bytes) =
            (u64::from(self.layout.parameters.cylinder_bytes), self.layout.block_bytes() as u64);
        for number in bytes.start / cylinder_bytes..bytes.end.min(end).div_ceil(cylinder_bytes) {
            let Some(cylinder) = self.description(number) else { continue };
            let is_unused = |block: u32| {
                let is_fresh = block > self.layout.cylinder_blocks() - cylinder.fresh;
                match cylinder.kind {
                    Kind::Unused => true,
                    Kind::Headers => is_fresh,
                    Kind::Names => is_fresh || cylinder.has_free(block),
                }
            };
            let at = |block: u32| self.layout.cylinder_at(number) + u64::from(block) * block_bytes;
            let blocks = u32::try_from(cylinder_bytes / block_bytes).unwrap_or(0);
            unused
                .extend((1..blocks).filter(|&block| is_unused(block)).map(|block| at(block)..at(block + 1)));
        }
        unused
    }

    /// Returns false: a recovery writes again what was on its way, except to blocks that are not
    /// used any more.
    fn may_differ(&self, _: u64, _: bool) -> bool {
        false
    }
}

/// The judge of the first part of log storage, which has the headers. Records lie on all parts:
/// recovery looks for them in all copies.
pub(super) struct OfLog {
    pub(super) set_id: [u8; 16],
}

impl Judge for OfLog {
    fn whole(&self, bytes: Range<u64>) -> Range<u64> {
        bytes
    }

    fn wrong(&self, offset: u64, bytes: &[u8], _: bool) -> Vec<Range<usize>> {
        let sectors = (0..bytes.len()).step_by(SECTOR).map(|at| at..bytes.len().min(at + SECTOR));
        let is_wrong = |sector: &Range<usize>| {
            is_header_slot(offset + sector.start as u64, &bytes[sector.clone()], self.set_id) == Some(false)
        };
        sectors.filter(is_wrong).collect()
    }

    /// Returns false: one header is enough.
    fn refuses(&self, _: u64) -> bool {
        false
    }

    /// Returns false: each is written again soon.
    fn mends(&self, _: u64) -> bool {
        false
    }

    /// Returns true: what was being written is not finished, and a recovery goes on behind it.
    fn may_differ(&self, _: u64, _: bool) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::header::Header;
    use crate::format::label::Role;
    use crate::newfs::{Member, NewArea, Wishes, make};
    use rand::SeedableRng;
    use rand::rngs::SmallRng;
    use spindle_clock::ManualClock;
    use spindle_device::MemoryDevice;

    /// Promise: a header, a node and a description are right only if they are whole, and headers
    /// and descriptions only in their own place; what has none of them counts as wrong where a
    /// structure could be, block by block.
    #[test]
    fn structures_are_judged() {
        let areas = [Role::Control, Role::Data, Role::Log].map(NewArea::of).to_vec();
        let member = Member { device: Arc::new(MemoryDevice::new(64 << 20)), areas };
        let set = make(&[member], &Wishes::new(), &ManualClock::at(0), &mut SmallRng::seed_from_u64(1));
        let layout = Layout::of(&set.unwrap().label).unwrap();
        let judge = OfControl { layout: layout.clone(), storage: Weak::new(), is_mounted: Arc::default() };
        let block = layout.block_bytes();
        let at = layout.control_byte(layout.block_of(1, 1));
        let mut bytes = vec![0; block];
        let one = |range: Range<usize>| vec![range];
        let all = one(0..block);
        assert_eq!(judge.wrong(at, &bytes, false), all, "never used");
        let first = layout.ino_of(1, 0);
        for (n, slot) in (first..).zip(bytes.chunks_exact_mut(SECTOR)) {
            Header::free(3).encode(slot, n);
        }
        assert!(judge.wrong(at, &bytes, false).is_empty());
        assert_eq!(judge.wrong(at + block as u64, &bytes, false), all, "another place");
        bytes[SECTOR + 70] ^= 1;
        assert_eq!(judge.wrong(at, &bytes, false), one(SECTOR..2 * SECTOR));
        node::Node::Leaf(Vec::new()).encode(&mut bytes, 5);
        assert!(judge.wrong(at, &bytes, false).is_empty());
        bytes[block - 1] ^= 1;
        assert_eq!(judge.wrong(at, &bytes, false), all);
        let mut first = vec![0; block];
        Cylinder::unused(1, layout.cylinder_blocks()).encode(&mut first);
        let description = layout.cylinder_at(1);
        assert!(judge.wrong(description, &first, false).is_empty());
        assert_eq!(judge.wrong(layout.cylinder_at(2), &first, false), one(0..SECTOR));
        first[40] ^= 1;
        assert_eq!(judge.wrong(description, &first, false), one(0..SECTOR));
    }
}
