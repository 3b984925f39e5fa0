//! Data storage: free blocks and striped tracks.
//!
//! Space for a file goes on behind what it has. Else a request of a track or more gets a track that
//! is wholly free, and a smaller one the first free blocks (paper, section 4.3).

use super::tx::{Allocated, Tx};
use super::{Owner, Volume, update};
use crate::format::layout::{DataBlock, Layout};
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

/// What is known of the pages of the allocation map.
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
    pub(super) fn read(layout: &Layout, device: &std::sync::Arc<dyn Device>) -> Result<Self> {
        let mut pages = Vec::new();
        let mut bytes = vec![0; PAGES_AT_ONCE * MAP_PAGE_BYTES];
        let all: Vec<u64> = (0..layout.map_pages).collect();
        for numbers in all.chunks(PAGES_AT_ONCE) {
            let bytes = &mut bytes[..numbers.len() * MAP_PAGE_BYTES];
            device.read_at(layout.map_page_at(numbers[0]), bytes)?;
            for (&page, bytes) in numbers.iter().zip(bytes.chunks_exact(MAP_PAGE_BYTES)) {
                let free = MapPage::new(bytes, page, layout.parameters.track_blocks)?.free();
                pages.push(Summary::new(free));
            }
        }
        let total = pages.iter().map(|page| u64::from(page.free)).sum();
        Ok(Self { pages, total, page: 0 })
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
    /// Returns the number of free data blocks, with those that a commit frees.
    pub(crate) fn free_data_blocks(&self) -> u64 {
        self.data.lock().total + self.pending.data_blocks()
    }

    /// Returns the number of data blocks that are free at once.
    pub(crate) fn free_data_blocks_now(&self) -> u64 {
        self.data.lock().total
    }

    fn map_page(&self, page: u64) -> Result<Buffer<'_>> {
        Ok(self.cache.get(self.layout.map_page_at(page), MAP_PAGE_BYTES, None)?)
    }

    /// Allocates contiguous data blocks: at `goal` if possible, at most `most`, and leaves `spare`
    /// blocks. Returns the first and their number.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub(crate) fn alloc_data(
        &self,
        tx: &Tx<'_>,
        goal: Option<u64>,
        most: u64,
        spare: u64,
    ) -> Result<(u64, u64)> {
        let mut space = self.data.lock();
        let most = most.min(space.total.saturating_sub(spare));
        if most == 0 {
            return Err(Error::NoSpace);
        }
        let track_blocks = self.layout.parameters.track_blocks;
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        if let Some(goal) = goal.filter(|&goal| goal < self.layout.data_blocks()) {
            let (page, block) = self.layout.map_place(DataBlock(goal));
            let run = MapPage::new(&self.map_page(page)?.read(), page, track_blocks)?.run(block, most);
            if run > 0 {
                return self.take(tx, &mut space, page, block..block + run);
            }
        }
        let first = goal.map_or(space.page, |goal| {
            self.layout.map_place(DataBlock(goal)).0.min(self.layout.map_pages - 1)
        });
        let searches = [if most >= track_blocks { Search::Track } else { Search::Whole }, Search::Any];
        for search in searches {
            for page in (first..self.layout.map_pages).chain(0..first) {
                if !space.summary(page).may_have(search, most) {
                    continue;
                }
                let found = self.search(page, search, most)?;
                if let Some(run) = found {
                    return self.take(tx, &mut space, page, run);
                }
                space.summary(page).note_none(search, most);
            }
        }
        Err(Error::corrupt("free blocks are counted that are not there", "allocation map"))
    }

    fn search(&self, page: u64, search: Search, most: u32) -> Result<Option<Range<u32>>> {
        let track_blocks = self.layout.parameters.track_blocks;
        let buffer = self.map_page(page)?;
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
    fn take(&self, tx: &Tx<'_>, space: &mut DataSpace, page: u64, run: Range<u32>) -> Result<(u64, u64)> {
        let blocks = run.end - run.start;
        let len = u64::from(blocks);
        let start = page * self.layout.blocks_in_page() + u64::from(run.start);
        if start + len > self.layout.data_blocks() {
            let place = format!("page {page} of the allocation map");
            return Err(Error::corrupt("blocks are free that do not exist", place));
        }
        self.set_map(tx, page, run, false)?;
        space.took(page, blocks);
        space.page = page;
        self.note_fresh(start..start + len);
        tx.note_allocated(Allocated::Data(start, len));
        Ok((start, len))
    }

    fn set_map(&self, tx: &spindle_cache::Tx<'_>, page: u64, run: Range<u32>, free: bool) -> Result<()> {
        let track_blocks = self.layout.parameters.track_blocks;
        update(tx, &self.map_page(page)?, Owner::Shared, |bytes| {
            MapPage::new(bytes, page, track_blocks)?;
            if map_page::set(bytes, track_blocks, run.clone(), free) {
                return Ok(());
            }
            let what = if free { "free blocks are freed" } else { "blocks in use are allocated" };
            Err(Error::corrupt(what, format!("page {page} of the allocation map, blocks {run:?}")))
        })
    }

    /// Splits blocks by the pages of the allocation map.
    fn by_pages(&self, start: u64, len: u64) -> impl Iterator<Item = (u64, Range<u32>)> + use<> {
        let each = self.layout.blocks_in_page();
        let end = start + len;
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        (start / each..end.div_ceil(each)).map(move |page| {
            let first = page * each;
            (page, narrow(start.max(first) - first)..narrow(end.min(first + each) - first))
        })
    }

    /// Enters blocks as free.
    pub(super) fn enter_free_data(&self, tx: &spindle_cache::Tx<'_>, start: u64, len: u64) -> Result<()> {
        for (page, run) in self.by_pages(start, len) {
            let mut space = self.data.lock();
            let blocks = run.end - run.start;
            self.set_map(tx, page, run, true)?;
            space.freed(page, blocks);
        }
        Ok(())
    }

    /// Keeps the pages of blocks in memory until the commit that frees them. Returns their number.
    pub(super) fn hold_map_of(&self, tx: &Tx<'_>, start: u64, len: u64) -> Result<usize> {
        let mut pages = 0;
        for (page, _) in self.by_pages(start, len) {
            self.map_page(page)?.hold(tx);
            pages += 1;
        }
        Ok(pages)
    }
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
