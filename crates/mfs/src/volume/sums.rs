//! Checksums of data blocks.
//!
//! A block and its checksum change in one transaction, and a block that is durable is never written
//! over: what takes its place goes to another one. So after a crash each block that a file has is
//! the one that its checksum was made of. Only blocks that the present epoch has allocated are
//! written again in their places.

use super::tx::{Allocated, Tx};
use super::{Owner, Volume, update};
use crate::format::layout::{DataBlock, index};
use crate::format::runs::Runs;
use crate::format::sums::{self, SUM_PAGE_BYTES, SUM_SECTOR_BYTES, SUMS_IN_SECTOR, Source};
use spindle_cache::{Cache, Epoch};
use spindle_clock::Mutex;
use spindle_vfs::{Error, Result};
use std::ops::Range;
use std::sync::{Arc, Weak};

/// The blocks that were allocated in the present epoch and in the one before.
pub(crate) struct Fresh(Mutex<Epochs>);

struct Epochs {
    present: Runs,
    before: Runs,
    /// The epoch before.
    epoch: Epoch,
}

/// Returns an empty set of blocks of any class.
const fn no_blocks() -> Runs {
    Runs::new(u64::MAX)
}

impl Fresh {
    /// Returns none.
    pub(super) fn new() -> Self {
        Self(Mutex::new(Epochs { present: no_blocks(), before: no_blocks(), epoch: 0 }))
    }

    /// Notes that another epoch than `epoch` begins.
    pub(super) fn end_epoch(&self, epoch: Epoch) {
        let mut state = self.0.lock();
        state.before = std::mem::replace(&mut state.present, no_blocks());
        state.epoch = epoch;
    }
}

impl Volume {
    /// Returns true if data blocks have checksums.
    pub(crate) const fn has_sums(&self) -> bool {
        self.layout.sum_pages > 0
    }

    /// Returns true if what is written over blocks may go to others.
    pub(crate) fn moves_data(&self) -> bool {
        self.has_sums() || self.layout.classes.iter().any(|class| class.read_only)
    }

    /// Notes that blocks were allocated in the present epoch.
    pub(super) fn note_fresh(&self, blocks: Range<u64>) {
        if self.has_sums() {
            self.fresh.0.lock().present.enter(blocks);
        }
    }

    /// Returns true if a block of a file can be written in its place, and how many of `blocks` from
    /// there on the same holds for.
    pub(crate) fn is_writable(&self, DataBlock(first): DataBlock, blocks: u64) -> (bool, u64) {
        if self.layout.is_read_only(DataBlock(first).class()) {
            return (false, blocks);
        }
        if !self.has_sums() {
            return (true, blocks);
        }
        let state = self.fresh.0.lock();
        match state.present.within(first..first + blocks).next() {
            Some(run) if run.start == first => (true, run.end - first),
            Some(run) => (false, run.start - first),
            None => (false, blocks),
        }
    }

    /// Returns how many blocks can get checksums with so many bytes of the log.
    pub(crate) fn blocks_for_sums(&self, log_bytes: usize) -> u64 {
        if !self.has_sums() {
            return u64::MAX;
        }
        // A run of blocks may begin and end within sectors.
        ((log_bytes / SUM_SECTOR_BYTES) as u64).saturating_sub(1) * SUMS_IN_SECTOR
    }

    /// Reads the checksums of blocks, and keeps them in memory until the commit, so that setting
    /// them cannot fail.
    pub(crate) fn hold_sums(&self, tx: &Tx<'_>, first: DataBlock, blocks: u64) -> Result<()> {
        if !self.has_sums() {
            return Ok(());
        }
        let (from, n) = self.layout.sum_place(first);
        for sector in from..from + (n + blocks).div_ceil(SUMS_IN_SECTOR) {
            let (at, within) = self.layout.sum_sector_at(sector);
            let buffer = self.cache.get(at, SUM_PAGE_BYTES, None)?;
            if !sums::is_whole(&buffer.read()[within..within + SUM_SECTOR_BYTES], sector) {
                return Err(damaged(sector));
            }
            buffer.hold(tx);
        }
        Ok(())
    }

    /// Sets the checksums of the blocks from `first` on to those of `bytes`. A rollback leaves
    /// them, as it leaves data that was written in its place.
    pub(crate) fn set_sums(&self, tx: &Tx<'_>, first: DataBlock, bytes: &[u8]) -> Result<()> {
        if !self.has_sums() {
            return Ok(());
        }
        let blocks = bytes.chunks_exact(index(self.layout.class(first.class()).block_bytes()));
        let sums: Vec<u32> = blocks.map(sums::sum_of).collect();
        self.put_sums(tx, first, &sums)
    }

    /// Has a rollback restore the checksum of a block, whose data it restores.
    pub(crate) fn restore_sum_on_rollback(&self, tx: &Tx<'_>, block: DataBlock) -> Result<()> {
        if !self.has_sums() {
            return Ok(());
        }
        self.hold_sums(tx, block, 1)?;
        let (sector, n) = self.layout.sum_place(block);
        let (at, within) = self.layout.sum_sector_at(sector);
        let buffer = self.cache.get(at, SUM_PAGE_BYTES, None)?;
        let sum = sums::get(&buffer.read()[within..within + SUM_SECTOR_BYTES], n);
        tx.note_allocated(Allocated::Sum(block, sum));
        Ok(())
    }

    /// Sets the checksums of the blocks from `first` on.
    pub(super) fn put_sums(
        &self,
        tx: &spindle_cache::Tx<'_>,
        DataBlock(first): DataBlock,
        sums: &[u32],
    ) -> Result<()> {
        let mut done = 0;
        while done < sums.len() {
            let (sector, n) = self.layout.sum_place(DataBlock(first + done as u64));
            let (at, within) = self.layout.sum_sector_at(sector);
            let rest = &sums[done..];
            let part = &rest[..rest.len().min(index(SUMS_IN_SECTOR - n))];
            let buffer = self.cache.get(at, SUM_PAGE_BYTES, None)?;
            update(tx, &buffer, Owner::Shared, |page| {
                let sector_bytes = &mut page[within..within + SUM_SECTOR_BYTES];
                if !sums::is_whole(sector_bytes, sector) {
                    return Err(damaged(sector));
                }
                sums::set(sector_bytes, n, part);
                Ok(())
            })?;
            done += part.len();
        }
        Ok(())
    }

    /// Returns what says which checksums the blocks should have while the set is mounted.
    pub(crate) fn sum_source(&self) -> Arc<dyn Source> {
        let cache = Arc::downgrade(&self.cache);
        Arc::new(Mounted { cache, fresh: self.fresh.clone() })
    }
}

fn damaged(sector: u64) -> Error {
    Error::corrupt("it is damaged", format!("sector {sector} of the table of checksums"))
}

/// The structures of a mounted set.
struct Mounted {
    cache: Weak<Cache>,
    fresh: Arc<Fresh>,
}

impl Source for Mounted {
    fn page(&self, at: u64) -> Result<Vec<u8>> {
        let cache = self.cache.upgrade().ok_or(Error::Stale)?;
        let buffer = cache.get(at, SUM_PAGE_BYTES, None)?;
        let page = buffer.read().to_vec();
        Ok(page)
    }

    fn is_on_its_way(&self, DataBlock(block): DataBlock) -> bool {
        let state = self.fresh.0.lock();
        let has = |runs: &Runs| runs.within(block..block + 1).next().is_some();
        let before = self.cache.upgrade().is_none_or(|cache| !cache.is_durable(state.epoch));
        has(&state.present) || before && has(&state.before)
    }
}
