//! Data storage: free blocks and striped tracks.
//!
//! Space for a file goes on behind what it has. Else a request of a track or more gets a track that
//! is wholly free, and a smaller one the first free blocks (paper, section 4.3).

use super::tx::{Allocated, Tx};
use super::{Owner, Volume, update};
use crate::format::layout::Layout;
use crate::format::map_page::{self, MAP_PAGE_BYTES, MapPage};
use spindle_cache::Buffer;
use spindle_device::Device;
use spindle_vfs::{Error, Result};
use std::ops::Range;

/// A way to find free blocks in a page.
type Search<'a> = dyn Fn(&MapPage<'_>) -> Option<Range<u32>> + 'a;

/// What is known of the pages of the allocation map.
pub(super) struct DataSpace {
    /// Free blocks of each page.
    free: Vec<u32>,
    total: u64,
    /// The page in which space was found last.
    page: u64,
}

impl DataSpace {
    /// Reads the counts of all pages.
    pub(super) fn read(layout: &Layout, device: &std::sync::Arc<dyn Device>) -> Result<Self> {
        let mut free = Vec::new();
        let mut bytes = vec![0; MAP_PAGE_BYTES];
        for page in 0..layout.map_pages {
            device.read_at(layout.map_page_at(page), &mut bytes)?;
            free.push(MapPage::new(&bytes, page, layout.parameters.track_blocks)?.free());
        }
        let total = free.iter().map(|&free| u64::from(free)).sum();
        Ok(Self { free, total, page: 0 })
    }

    fn count(&mut self, page: u64, change: i64) {
        let n = usize::try_from(page).unwrap_or(usize::MAX);
        let change32 = i32::try_from(change).unwrap_or(0);
        self.free[n] = self.free[n].saturating_add_signed(change32);
        self.total = self.total.saturating_add_signed(change);
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

    /// Returns the page of a block and its position there.
    fn page_of(&self, block: u64) -> (u64, u32) {
        let each = self.layout.blocks_in_page();
        (block / each, u32::try_from(block % each).unwrap_or(0))
    }

    /// Allocates contiguous data blocks: at `goal` if possible, at most `most`. Returns the first
    /// and their number.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub(crate) fn alloc_data(&self, tx: &Tx<'_>, goal: Option<u64>, most: u64) -> Result<(u64, u64)> {
        let mut space = self.data.lock();
        if space.total == 0 {
            return Err(Error::NoSpace);
        }
        let track_blocks = self.layout.parameters.track_blocks;
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        if let Some(goal) = goal.filter(|&goal| goal < self.layout.data_blocks()) {
            let (page, block) = self.page_of(goal);
            let run = MapPage::new(&self.map_page(page)?.read(), page, track_blocks)?.run(block, most);
            if run > 0 {
                return self.take(tx, &mut space, page, block..block + run);
            }
        }
        let first = goal.map_or(space.page, |goal| self.page_of(goal).0.min(self.layout.map_pages - 1));
        let pages = || (first..self.layout.map_pages).chain(0..first);
        let tracks = |page: &MapPage<'_>| {
            let start = page.free_track(0)? * track_blocks;
            Some(start..start + page.run(start, most))
        };
        let whole = |page: &MapPage<'_>| page.find(0, most, most);
        let any = |page: &MapPage<'_>| page.find(0, 1, most);
        let searches: [(bool, &Search<'_>); 3] =
            [(most >= track_blocks, &tracks), (most < track_blocks, &whole), (true, &any)];
        for (_, search) in searches.into_iter().filter(|(sensible, _)| *sensible) {
            for page in pages() {
                if space.free[usize::try_from(page).unwrap_or(0)] == 0 {
                    continue;
                }
                let found = search(&MapPage::new(&self.map_page(page)?.read(), page, track_blocks)?);
                if let Some(run) = found {
                    return self.take(tx, &mut space, page, run);
                }
            }
        }
        Err(Error::corrupt("free blocks are counted that are not there", "allocation map"))
    }

    /// Marks blocks of a page as used.
    fn take(&self, tx: &Tx<'_>, space: &mut DataSpace, page: u64, run: Range<u32>) -> Result<(u64, u64)> {
        let len = u64::from(run.end - run.start);
        let start = page * self.layout.blocks_in_page() + u64::from(run.start);
        if start + len > self.layout.data_blocks() {
            let place = format!("page {page} of the allocation map");
            return Err(Error::corrupt("blocks are free that do not exist", place));
        }
        self.set_map(tx, page, run, false)?;
        space.count(page, -i64::try_from(len).unwrap_or(0));
        space.page = page;
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
            let count = i64::from(run.end - run.start);
            self.set_map(tx, page, run, true)?;
            space.count(page, count);
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
