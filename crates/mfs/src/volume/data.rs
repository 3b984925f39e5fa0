//! Data storage: free blocks and striped tracks.
//!
//! Space for a file goes on behind what it has. Else a request of a track or more gets a track that
//! is wholly free, and a smaller one the first free blocks (paper, section 4.3). Each class of data
//! has its own space: one that is full does not get that of others.

use super::tx::{Allocated, Tx};
use super::{Owner, Volume, update};
use crate::format::layout::{ClassLayout, DataBlock};
use crate::format::map_page::{self, MAP_PAGE_BYTES, MapPage};
use spindle_cache::Buffer;
use spindle_device::Device;
use spindle_vfs::{Error, Result};
use std::ops::Range;

/// Pages that are read at once when a set is opened: 1 MiB.
const PAGES_AT_ONCE: usize = 256;

/// A way to find free blocks in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// A track that is wholly free, and what is free behind it.
    Track,
    /// So many blocks that follow each other.
    Whole,
    /// The first blocks that are free.
    Any,
}

/// What is known of the pages of the allocation map of a class.
pub(super) struct DataSpace {
    pages: Vec<Summary>,
    total: u64,
    /// The page in which space was found last.
    page: u64,
}

/// What is known of a page. The bounds spare the search of pages that have been searched in vain,
/// as `fs_maxcluster` does in the fast file system; what is freed there lifts them.
#[derive(Clone, Copy, Debug)]
struct Summary {
    /// Free blocks.
    free: u32,
    /// No more free blocks than this follow each other.
    longest: u32,
    /// False if no track is wholly free.
    track: bool,
}

impl Summary {
    const fn new(free: u32) -> Self {
        Self { free, longest: free, track: free > 0 }
    }

    /// Returns true if a search for `most` blocks may find some.
    const fn may_have(&self, search: Search, most: u32) -> bool {
        match search {
            Search::Track => self.track,
            Search::Whole => self.longest >= most,
            Search::Any => self.free > 0,
        }
    }

    /// Notes that a search for `most` blocks has found none.
    const fn note_none(&mut self, search: Search, most: u32) {
        match search {
            Search::Track => self.track = false,
            Search::Whole => self.longest = most.saturating_sub(1),
            Search::Any => {}
        }
    }
}

impl DataSpace {
    /// Reads the counts of all pages.
    pub(super) fn read(class: &ClassLayout, device: &std::sync::Arc<dyn Device>) -> Result<Self> {
        let mut pages = Vec::new();
        let mut bytes = vec![0; PAGES_AT_ONCE * MAP_PAGE_BYTES];
        let all: Vec<u64> = (0..class.map_pages).collect();
        for numbers in all.chunks(PAGES_AT_ONCE) {
            let bytes = &mut bytes[..numbers.len() * MAP_PAGE_BYTES];
            device.read_at(class.map_page_at(numbers[0]), bytes)?;
            for (&page, bytes) in numbers.iter().zip(bytes.chunks_exact(MAP_PAGE_BYTES)) {
                let free = MapPage::new(bytes, page, class.structure.track_blocks)?.free();
                pages.push(Summary::new(free));
            }
        }
        let total = pages.iter().map(|page| u64::from(page.free)).sum();
        Ok(Self { pages, total, page: 0 })
    }

    /// Returns the number of free blocks.
    pub(super) const fn free(&self) -> u64 {
        self.total
    }

    /// Returns the space of a class whose map cannot be read: none is free.
    pub(super) fn unknown(class: &ClassLayout) -> Self {
        let pages = (0..class.map_pages).map(|_| Summary::new(0)).collect();
        Self { pages, total: 0, page: 0 }
    }

    fn summary(&mut self, page: u64) -> &mut Summary {
        &mut self.pages[usize::try_from(page).unwrap_or(usize::MAX)]
    }

    /// Counts blocks of a page that were allocated.
    fn took(&mut self, page: u64, blocks: u32) {
        let summary = self.summary(page);
        summary.free = summary.free.saturating_sub(blocks);
        self.total = self.total.saturating_sub(blocks.into());
    }

    /// Counts blocks of a page that were freed.
    fn freed(&mut self, page: u64, blocks: u32) {
        let summary = self.summary(page);
        *summary = Summary::new(summary.free.saturating_add(blocks));
        self.total = self.total.saturating_add(blocks.into());
    }
}

impl Volume {
    /// Returns the number of free data blocks of a class, with those that a commit frees.
    pub(crate) fn free_data_blocks(&self, class: usize) -> u64 {
        self.free_data_blocks_now(class) + self.pending.data_blocks(class)
    }

    /// Returns the number of data blocks of a class that are free at once.
    pub(crate) fn free_data_blocks_now(&self, class: usize) -> u64 {
        self.data[class].lock().free()
    }

    fn map_page(&self, class: &ClassLayout, page: u64) -> Result<Buffer<'_>> {
        Ok(self.cache.get(class.map_page_at(page), MAP_PAGE_BYTES, None)?)
    }

    /// Allocates contiguous data blocks of class `number`: at `goal` if possible, at most `most`,
    /// and leaves `spare` blocks. Returns the first and their number.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::ReadOnly`] if the class is.
    pub(crate) fn alloc_data(
        &self,
        tx: &Tx<'_>,
        number: usize,
        goal: Option<DataBlock>,
        most: u64,
        spare: u64,
    ) -> Result<(u64, u64)> {
        let class = self.layout.class(number);
        if class.read_only {
            return Err(Error::ReadOnly);
        }
        let mut space = self.data[number].lock();
        let most = most.min(space.total.saturating_sub(spare));
        if most == 0 {
            return Err(Error::NoSpace);
        }
        let track_blocks = class.structure.track_blocks;
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let goal = goal.filter(|goal| goal.class() == number).map(DataBlock::within);
        if let Some(goal) = goal.filter(|&goal| goal < class.blocks()) {
            let (page, block) = class.map_place(goal);
            let run = MapPage::new(&self.map_page(class, page)?.read(), page, track_blocks)?.run(block, most);
            if run > 0 {
                return self.take(tx, &mut space, number, page, block..block + run);
            }
        }
        let first = goal.map_or(space.page, |goal| class.map_place(goal).0.min(class.map_pages - 1));
        let searches = [if most >= track_blocks { Search::Track } else { Search::Whole }, Search::Any];
        for search in searches {
            for page in (first..class.map_pages).chain(0..first) {
                if !space.summary(page).may_have(search, most) {
                    continue;
                }
                let found = self.search(class, page, search, most)?;
                if let Some(run) = found {
                    return self.take(tx, &mut space, number, page, run);
                }
                space.summary(page).note_none(search, most);
            }
        }
        Err(Error::corrupt("free blocks are counted that are not there", "allocation map"))
    }

    fn search(
        &self,
        class: &ClassLayout,
        page: u64,
        search: Search,
        most: u32,
    ) -> Result<Option<Range<u32>>> {
        let track_blocks = class.structure.track_blocks;
        let buffer = self.map_page(class, page)?;
        let bytes = buffer.read();
        let page = MapPage::new(&bytes, page, track_blocks)?;
        Ok(match search {
            Search::Track => page.free_track(0).map(|track| {
                let start = track * track_blocks;
                start..start + page.run(start, most)
            }),
            Search::Whole => page.find(0, most, most),
            Search::Any => page.find(0, 1, most),
        })
    }

    /// Marks blocks of a page as used.
    fn take(
        &self,
        tx: &Tx<'_>,
        space: &mut DataSpace,
        number: usize,
        page: u64,
        run: Range<u32>,
    ) -> Result<(u64, u64)> {
        let class = self.layout.class(number);
        let blocks = run.end - run.start;
        let len = u64::from(blocks);
        let start = page * class.blocks_in_page() + u64::from(run.start);
        if start + len > class.blocks() {
            return Err(Error::corrupt("blocks are free that do not exist", place(class, page)));
        }
        self.set_map(tx, class, page, run, false)?;
        space.took(page, blocks);
        space.page = page;
        let DataBlock(start) = DataBlock::of(number, start);
        self.note_fresh(start..start + len);
        tx.note_allocated(Allocated::Data(start, len));
        Ok((start, len))
    }

    fn set_map(
        &self,
        tx: &spindle_cache::Tx<'_>,
        class: &ClassLayout,
        page: u64,
        run: Range<u32>,
        free: bool,
    ) -> Result<()> {
        let track_blocks = class.structure.track_blocks;
        update(tx, &self.map_page(class, page)?, Owner::Shared, |bytes| {
            MapPage::new(bytes, page, track_blocks)?;
            if map_page::set(bytes, track_blocks, run.clone(), free) {
                return Ok(());
            }
            let what = if free { "free blocks are freed" } else { "blocks in use are allocated" };
            Err(Error::corrupt(what, format!("{}, blocks {run:?}", place(class, page))))
        })
    }

    /// Enters blocks as free.
    pub(super) fn enter_free_data(&self, tx: &spindle_cache::Tx<'_>, start: u64, len: u64) -> Result<()> {
        let number = DataBlock(start).class();
        let class = self.layout.class(number);
        for (page, run) in by_pages(class, DataBlock(start), len) {
            let mut space = self.data[number].lock();
            let blocks = run.end - run.start;
            self.set_map(tx, class, page, run, true)?;
            space.freed(page, blocks);
        }
        Ok(())
    }

    /// Keeps the pages of blocks in memory until the commit that frees them. Returns their number.
    pub(super) fn hold_map_of(&self, tx: &Tx<'_>, start: u64, len: u64) -> Result<usize> {
        let class = self.layout.class(DataBlock(start).class());
        let mut pages = 0;
        for (page, _) in by_pages(class, DataBlock(start), len) {
            self.map_page(class, page)?.hold(tx);
            pages += 1;
        }
        Ok(pages)
    }
}

/// Splits blocks by the pages of the allocation map of their class.
fn by_pages(class: &ClassLayout, start: DataBlock, len: u64) -> impl Iterator<Item = (u64, Range<u32>)> {
    let each = class.blocks_in_page();
    let (start, end) = (start.within(), start.within() + len);
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    (start / each..end.div_ceil(each)).map(move |page| {
        let first = page * each;
        (page, narrow(start.max(first) - first)..narrow(end.min(first + each) - first))
    })
}

/// Returns the name of a page of the allocation map for messages.
fn place(class: &ClassLayout, page: u64) -> String {
    format!("page {page} of the allocation map of class {}", class.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a page that was searched in vain is not searched for as much again, but for less;
    /// what is freed there makes it worth a search.
    #[test]
    fn a_page_is_not_searched_in_vain_twice() {
        let mut space = DataSpace { pages: vec![Summary::new(100); 2], total: 200, page: 0 };
        space.summary(0).note_none(Search::Whole, 8);
        space.summary(0).note_none(Search::Track, 64);
        let may = |space: &mut DataSpace, search, most| space.summary(0).may_have(search, most);
        assert!(!may(&mut space, Search::Whole, 8) && may(&mut space, Search::Whole, 7));
        assert!(!may(&mut space, Search::Track, 64) && may(&mut space, Search::Any, 1));
        assert!(space.summary(1).may_have(Search::Track, 64), "another page");
        space.took(0, 100);
        assert!(!may(&mut space, Search::Any, 1));
        space.freed(0, 50);
        assert!(may(&mut space, Search::Whole, 50) && !may(&mut space, Search::Whole, 51));
        assert!(may(&mut space, Search::Track, 64));
        assert_eq!(space.total, 150);
    }
}
