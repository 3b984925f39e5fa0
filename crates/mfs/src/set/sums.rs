//! Verifying data blocks when they are read: each part of data storage asks here what its blocks
//! should be, and takes another copy if one is wrong. What the structures are is in `structures`.
//!
//! The checksums are those of the structures as they are now, which only a mount, a check or a
//! change of the set that is under way knows. While there is none, nothing is verified.

use crate::format::layout::{ClassLayout, DataBlock, Layout, index};
use crate::format::map_page::{MAP_PAGE_BYTES, MapPage};
use crate::format::sums::{self, SUM_PAGE_BYTES, SUM_SECTOR_BYTES, Source};
use spindle_clock::RwLock;
use spindle_device::{Device, Judge, Stripe};
use spindle_vfs::Result;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// What the judges of all parts share.
#[derive(Default)]
pub(crate) struct Verifier {
    source: RwLock<Option<Arc<dyn Source>>>,
    mends: AtomicBool,
}

/// Ends the verification by its source when it is dropped, unless there is a later one.
pub(crate) struct Verification {
    verifier: Arc<Verifier>,
    source: Arc<dyn Source>,
}

impl Drop for Verification {
    fn drop(&mut self) {
        let mut source = self.verifier.source.write();
        if source.as_ref().is_some_and(|now| Arc::ptr_eq(now, &self.source)) {
            *source = None;
        }
    }
}

impl Verifier {
    /// Has everything verified that is read until the result is dropped, and mended if `mends`.
    pub(super) fn begin(self: &Arc<Self>, source: Arc<dyn Source>, mends: bool) -> Verification {
        *self.source.write() = Some(source.clone());
        self.mends.store(mends, Ordering::Release);
        Verification { verifier: self.clone(), source }
    }

    /// Returns the source, without the lock: it reads from the same devices.
    fn source(&self) -> Option<Arc<dyn Source>> {
        self.source.read().clone()
    }

    /// Returns true if what is wrong is mended now.
    fn mends(&self) -> bool {
        self.mends.load(Ordering::Acquire) && self.is_active()
    }

    /// Returns true if something is verified now.
    pub(super) fn is_active(&self) -> bool {
        self.source.read().is_some()
    }
}

/// The structures on a device to which nothing is written.
pub(crate) struct Still(pub(crate) Arc<dyn Device>);

impl Source for Still {
    fn page(&self, at: u64) -> Result<Vec<u8>> {
        let mut page = vec![0; SUM_PAGE_BYTES];
        self.0.read_at(at, &mut page)?;
        Ok(page)
    }

    fn is_on_its_way(&self, _: DataBlock) -> bool {
        false
    }
}

/// The judge of a part of data storage: pages of the allocation map know themselves if they are
/// whole, and data blocks have checksums or are not judged.
pub(super) struct OfData {
    pub(super) verifier: Arc<Verifier>,
    pub(super) layout: Layout,
    /// The class of the data.
    pub(super) class: usize,
    /// The storage of the class.
    pub(super) stripe: Weak<Stripe>,
    /// The member of the stripe that the part is.
    pub(super) member: usize,
    /// True while the set is written as a file system.
    pub(super) is_mounted: Arc<AtomicBool>,
}

impl OfData {
    /// Returns the data block that byte `offset` of the part belongs to.
    fn block_at(&self, offset: u64) -> Option<DataBlock> {
        let (at, _) = self.stripe.upgrade()?.address_of(self.member, offset)?;
        Some(DataBlock::of(self.class, self.class().block_at(at)?))
    }

    fn class(&self) -> &ClassLayout {
        self.layout.class(self.class)
    }

    /// Returns the page of the allocation map that begins at byte `offset` of the part or before;
    /// none if it is not one, or pages may lie on several parts.
    fn page_at(&self, offset: u64) -> Option<u64> {
        let class = self.class();
        let size = MAP_PAGE_BYTES as u64;
        if !u64::from(class.structure.stripe_bytes).is_multiple_of(size) {
            return None;
        }
        let (at, _) = self.stripe.upgrade()?.address_of(self.member, offset)?;
        Some(at / size).filter(|&page| page < class.map_pages)
    }

    /// Returns the pages of the allocation map in `bytes` that are not whole.
    fn wrong_pages(&self, offset: u64, bytes: &[u8]) -> Vec<Range<usize>> {
        let track_blocks = self.class().structure.track_blocks;
        let first = index(offset.next_multiple_of(MAP_PAGE_BYTES as u64) - offset);
        let mut wrong = Vec::new();
        for start in (first..bytes.len()).step_by(MAP_PAGE_BYTES) {
            let Some(number) = self.page_at(offset + start as u64) else { break };
            let Some(page) = bytes.get(start..start + MAP_PAGE_BYTES) else { break };
            if MapPage::new(page, number, track_blocks).is_err() {
                wrong.push(start..start + MAP_PAGE_BYTES);
            }
        }
        wrong
    }

    /// Returns true if a block is written in several pieces, of which some may be on the device
    /// before the others.
    fn has_pieces(&self) -> bool {
        self.class().structure.block_bytes > self.layout.smallest_block()
    }
}

/// The page that was looked up last, by its address.
struct Page<'a> {
    source: &'a dyn Source,
    at: u64,
    bytes: Option<Vec<u8>>,
}

impl<'a> Page<'a> {
    const fn none(source: &'a dyn Source) -> Self {
        Self { source, at: u64::MAX, bytes: None }
    }

    /// Returns a page; none if it cannot be read.
    fn get(&mut self, at: u64) -> Option<&[u8]> {
        if self.at != at {
            let read = self.source.page(at);
            self.bytes = read.inspect_err(|error| log::error!("verifying data: {error}")).ok();
            self.at = at;
        }
        self.bytes.as_deref()
    }
}

impl Judge for OfData {
    fn whole(&self, bytes: Range<u64>) -> Range<u64> {
        if bytes.is_empty() {
            return bytes;
        }
        let verifies = self.verifier.is_active();
        let unit = |offset: u64| match self.page_at(offset) {
            Some(_) => MAP_PAGE_BYTES as u64,
            None if verifies && self.block_at(offset).is_some() => self.class().block_bytes(),
            None => 1,
        };
        let (first, last) = (unit(bytes.start), unit(bytes.end - 1));
        bytes.start / first * first..bytes.end.next_multiple_of(last)
    }

    fn wrong(&self, offset: u64, bytes: &[u8], for_copy: bool) -> Vec<Range<usize>> {
        let mut wrong = self.wrong_pages(offset, bytes);
        let Some(source) = self.verifier.source() else { return wrong };
        let size = index(self.class().block_bytes());
        let (mut sums, mut map) = (Page::none(&*source), Page::none(&*source));
        let first = index(offset.next_multiple_of(size as u64) - offset);
        for start in (first..bytes.len()).step_by(size) {
            let Some(block) = self.block_at(offset + start as u64) else { continue };
            let Some(found) = bytes.get(start..start + size) else { break };
            if for_copy && (source.is_on_its_way(block) || self.is_free(&mut map, block)) {
                continue;
            }
            let (sector, n) = self.layout.sum_place(block);
            let (at, within) = self.layout.sum_sector_at(sector);
            let is_right = sums.get(at).is_some_and(|page| {
                let sector_bytes = &page[within..within + SUM_SECTOR_BYTES];
                sums::is_whole(sector_bytes, sector) && sums::get(sector_bytes, n) == sums::sum_of(found)
            });
            // What was freed, or written again, since the block was read is not wrong; nor is
            // one of which the device may have a piece only.
            if !(is_right || (for_copy || self.has_pieces()) && source.is_on_its_way(block)) {
                wrong.push(start..start + size);
            }
        }
        wrong
    }

    fn refuses(&self, offset: u64) -> bool {
        self.page_at(offset).is_none()
    }

    fn mends(&self, offset: u64) -> bool {
        match self.page_at(offset) {
            Some(_) => self.is_mounted.load(Ordering::Acquire),
            None => self.verifier.mends(),
        }
    }

    /// Returns true of blocks, which may never have been made durable. A recovery writes the pages
    /// of the map again that were on their way, and a block gets its checksum only when all copies
    /// have it.
    fn may_differ(&self, offset: u64, decided: bool) -> bool {
        !decided && self.block_at(offset).is_some()
    }
}

impl OfData {
    /// Returns true if the allocation map says that a block is free.
    fn is_free(&self, map: &mut Page<'_>, block: DataBlock) -> bool {
        let class = self.class();
        let (number, n) = class.map_place(block.within());
        let page = map.get(class.map_page_at(number));
        let page = page.and_then(|page| MapPage::new(page, number, class.structure.track_blocks).ok());
        page.is_none_or(|page| page.is_free(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::class::{Class, Structure};
    use crate::format::label::Role;
    use crate::newfs::{Member, NewArea, Wishes, make};
    use rand::SeedableRng;
    use rand::rngs::SmallRng;
    use spindle_clock::ManualClock;
    use spindle_device::MemoryDevice;

    /// A table without checksums of anything; every block is on its way to its device, or none is.
    struct Empty(bool);

    impl Source for Empty {
        fn page(&self, _: u64) -> Result<Vec<u8>> {
            Ok(vec![0; SUM_PAGE_BYTES])
        }
        fn is_on_its_way(&self, _: DataBlock) -> bool {
            self.0
        }
    }

    /// Promise: a block that is on its way is judged when a user reads it, unless its device may
    /// have it in part because blocks of other classes are smaller; a copy of it is not judged.
    #[test]
    fn what_is_on_its_way() {
        let large = Structure { block_bytes: 8192, track_blocks: 8, stripe_bytes: 8192 };
        let mut wishes = Wishes::new();
        wishes.parameters.checksums = true;
        wishes.parameters.track_blocks = 8;
        wishes.parameters.cylinder_bytes = 64 << 10;
        wishes.classes = vec![Class { name: "large".parse().unwrap(), structure: large }];
        let mut areas = [Role::Control, Role::Data, Role::Data, Role::Log].map(NewArea::of);
        areas[2].class = 1;
        let member = Member { device: Arc::new(MemoryDevice::new(16 << 20)), areas: areas.to_vec() };
        let clock = ManualClock::at(0);
        let set = make(&[member], &wishes, &clock, &mut SmallRng::seed_from_u64(1)).unwrap();
        let layout = Layout::of(&set.label).unwrap();
        for (class, in_pieces) in [(0, false), (1, true)] {
            let verifier = Arc::new(Verifier::default());
            let unit = u64::from(layout.class(class).structure.stripe_bytes);
            let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(1 << 20));
            let stripe = Arc::new(Stripe::new(vec![device], unit, "stripe".into()).unwrap());
            let judge = OfData {
                verifier: verifier.clone(),
                layout: layout.clone(),
                class,
                stripe: Arc::downgrade(&stripe),
                member: 0,
                is_mounted: Arc::default(),
            };
            let bytes = vec![7; index(layout.class(class).block_bytes())];
            // A block of the second track: the map is in the first one.
            let at = 8 * bytes.len() as u64;
            for (is_on_its_way, for_copy) in [(false, false), (true, false), (true, true)] {
                let _verification = verifier.begin(Arc::new(Empty(is_on_its_way)), false);
                let wrong = judge.wrong(at, &bytes, for_copy);
                let judged = !(is_on_its_way && (for_copy || in_pieces));
                assert_eq!(!wrong.is_empty(), judged, "class {class}, {is_on_its_way}, {for_copy}");
            }
        }
    }
}
