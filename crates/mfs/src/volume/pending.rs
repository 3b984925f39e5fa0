//! Space that is freed by the commit of the present epoch.
//!
//! A crash may bring back what the epoch has removed. So nothing may be written over it before the
//! epoch is durable: data and nodes go to free space without the log.

use super::Volume;
use crate::format::class::CLASSES_MAX;
use crate::format::layout::{ControlBlock, DataBlock};
use spindle_clock::Mutex;
use spindle_vfs::Result;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Space that waits for a commit.
#[derive(Default)]
pub(super) struct Pending {
    space: Mutex<Vec<Space>>,
    /// Data blocks that wait, by their classes.
    data_blocks: [AtomicU64; CLASSES_MAX],
    /// Blocks of names that wait, by their cylinders.
    blocks: Mutex<BTreeMap<u64, u32>>,
}

/// Space that is not in use any more.
#[derive(Clone, Copy, Debug)]
enum Space {
    /// A block of names.
    Block(ControlBlock),
    /// Data blocks: the first, and their number.
    Data(u64, u64),
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(block) => write!(f, "block {} of control storage", block.0),
            Self::Data(start, len) => write!(f, "what lies in {len} data blocks from {start} on"),
        }
    }
}

impl Pending {
    /// Returns the data blocks of a class that wait.
    pub(super) fn data_blocks(&self, class: usize) -> u64 {
        self.data_blocks[class].load(Ordering::Relaxed)
    }

    /// Returns the number of blocks of names that wait, for each cylinder that has any.
    pub(super) fn blocks(&self) -> BTreeMap<u64, u32> {
        self.blocks.lock().clone()
    }

    /// Has the next commit free a block of names in `cylinder`.
    pub(super) fn add_block(&self, block: ControlBlock, cylinder: u64) {
        *self.blocks.lock().entry(cylinder).or_default() += 1;
        self.space.lock().push(Space::Block(block));
    }

    /// Has the next commit free data blocks: the first, and their number.
    pub(super) fn add_data(&self, start: u64, len: u64) {
        self.data_blocks[DataBlock(start).class()].fetch_add(len, Ordering::Relaxed);
        self.space.lock().push(Space::Data(start, len));
    }

    fn take(&self) -> Vec<Space> {
        let mut space = self.space.lock();
        self.data_blocks.iter().for_each(|blocks| blocks.store(0, Ordering::Relaxed));
        self.blocks.lock().clear();
        std::mem::take(&mut *space)
    }

    fn is_empty(&self) -> bool {
        self.space.lock().is_empty()
    }
}

impl Volume {
    /// Makes every ended transaction durable.
    pub(crate) fn commit(&self) -> Result<()> {
        if self.is_read_only() {
            // Nothing is left to write, unless it could not be written.
            return Ok(self.cache.check()?);
        }
        self.cache.commit(self.cache.epoch(), |tx| -> Result<Vec<Range<u64>>> {
            let mut freed = Vec::new();
            self.fresh.end_epoch(self.cache.epoch());
            for space in self.pending.take() {
                let entered = match space {
                    Space::Block(block) => self.enter_free_block(tx, block),
                    Space::Data(start, len) => {
                        let class = self.layout.class(DataBlock(start).class());
                        let byte = self.layout.data_byte(DataBlock(start));
                        freed.push(byte..byte + len * class.block_bytes());
                        self.enter_free_data(tx, start, len)
                    }
                };
                if let Err(error) = entered {
                    log::error!("{space} is not in use any more and cannot be entered as free: {error}");
                    self.note_damage();
                }
            }
            // The blocks of names that are freed get new contents with a later commit only.
            self.end_empty_cylinders(tx)?;
            Ok(freed)
        })
    }

    /// Commits if that frees space; returns true if it did.
    pub(crate) fn commit_freed(&self) -> Result<bool> {
        let any = !self.pending.is_empty() || self.has_emptied_cylinders();
        if any {
            self.commit()?;
        }
        Ok(any)
    }
}
