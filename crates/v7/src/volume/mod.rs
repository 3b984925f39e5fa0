//! The volume: the blocks and inodes of an old file system, changed in transactions.
//!
//! The super-block says "in use" on the device before the first change is made to anything else
//! ([`Volume::mark_in_use`], which every transaction calls), and "clean" only when the tree
//! requests it ([`Volume::write_superblock`]).

pub(crate) mod bmap;
pub(crate) mod free_list;
mod ilist;
mod inodes;
pub(crate) mod tx;

use crate::format::dinode::seconds;
use crate::format::layout::{BlockMap, Layout};
use crate::format::superblock::Superblock;
use free_list::Space;
use spindle_cache::Cache;
use spindle_clock::{Clock, Mutex};
use spindle_tree::Condition;
use spindle_vfs::{Error, Result};
use std::ops::Deref;
use std::sync::Arc;

/// The blocks and inodes of a file system.
pub(crate) struct Volume {
    pub(crate) layout: Layout,
    pub(crate) cache: Cache,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) space: Mutex<Space>,
    /// Blocks of the file system that the device has.
    pub(crate) blocks_there: u64,
    condition: Condition,
}

impl Deref for Volume {
    type Target = Condition;
    fn deref(&self) -> &Condition {
        &self.condition
    }
}

impl Volume {
    /// Opens the volume that `superblock` describes, with the `free` blocks.
    ///
    /// # Errors
    /// Device errors while free inodes are counted, unless it is opened to read.
    pub(crate) fn open(
        layout: Layout,
        superblock: Superblock,
        free: BlockMap,
        cache: Cache,
        clock: Arc<dyn Clock>,
        read_only: bool,
    ) -> Result<Self> {
        let space = Space { free_blocks: free.len(), free, free_inodes: 0, superblock };
        let condition = Condition::new(read_only, cache.read_failures());
        let blocks_there = cache.device().info().size_bytes / u64::from(layout.format.bsize);
        let blocks_there = blocks_there.min(layout.s_fsize.into());
        let volume = Self { layout, cache, clock, space: Mutex::new(space), blocks_there, condition };
        volume.space.lock().free_inodes = match volume.count_free_inodes() {
            Err(error) if read_only => {
                log::warn!("the free inodes cannot be counted, they count as 0: {error}");
                0
            }
            count => count?,
        };
        Ok(volume)
    }

    /// Marks the file system as in use on the device; the first change to anything else comes after
    /// it.
    pub(crate) fn mark_in_use(&self) -> Result<()> {
        self.condition.mark_with(|| self.write_superblock(false))
    }

    /// Begins a transaction of the cache; without a log it never waits.
    pub(crate) fn begin(&self) -> Result<spindle_cache::Tx<'_>> {
        let without_log = || Error::corrupt("a log where there is none", "cache");
        self.cache.begin(0)?.ok_or_else(without_log)
    }

    /// Writes all changes, and then the super-block, marked as `clean` says.
    pub(crate) fn write_superblock(&self, clean: bool) -> Result<()> {
        let tx = self.begin()?;
        let mut space = self.space.lock();
        space.superblock.set_clean(clean, seconds(self.clock.now()));
        self.put_superblock(&tx, &space)?;
        drop(space);
        tx.commit();
        Ok(self.cache.sync()?)
    }
}
