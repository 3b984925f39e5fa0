//! The transactions of the multi-structured file system: an operation is done completely, or not at
//! all.
//!
//! The cache restores the bytes that a failed operation has changed
//! ([`spindle_cache::Tx::roll_back`]). What several operations change at once it cannot restore: a
//! transaction records what it has allocated and frees it again after a failure, and what it frees
//! becomes free only when nothing can fail any more. The inodes in memory that an operation changes
//! are saved before ([`Restore`]).
//!
//! The caller must name in [`Volume::transact`] each inode whose state it changes, and overwrite
//! existing data only when nothing else can fail.

use super::Volume;
use crate::format::layout::{ControlBlock, DataBlock};
use spindle_cache::{Restore, Savepoint, Stream};
use spindle_vfs::{Error, Result};
use std::cell::RefCell;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Bytes of log that an operation on a file gets: some headers, the descriptions of what is
/// allocated, and what is freed. Operations that need more ask for more, or go on in further
/// transactions.
pub(crate) const OPERATION_BYTES: usize = 160 * SECTOR;
/// Nodes that an operation on names may change at most: in each of two directories a leaf and those
/// above it, all of which are divided.
const NAME_NODES: usize = 6;
/// Bytes of log for what it changes besides: four headers, and the descriptions of what is
/// allocated.
const NAME_BYTES: usize = 32 * SECTOR;
/// Bytes of log that freeing something needs in the map.
pub(crate) const FREE_BYTES: usize = 2 * SECTOR;
const SECTOR: usize = 512;

/// An open transaction.
pub struct Tx<'a> {
    cache: spindle_cache::Tx<'a>,
    effects: RefCell<Effects>,
}

/// The effects of a transaction other than changed bytes.
#[derive(Default)]
struct Effects {
    allocated: Vec<Allocated>,
    deferred: Vec<Deferred>,
}

/// Something that was allocated, counted, or set, and is taken back by a rollback.
#[derive(Clone, Copy)]
pub(crate) enum Allocated {
    /// A header.
    Header(u64),
    /// A block of names.
    Block(ControlBlock),
    /// Data blocks: the first, and their number.
    Data(u64, u64),
    /// A file without a name more, or less, in its cylinder.
    Orphan(u64, i32),
    /// The checksum of a data block was another.
    Sum(DataBlock, u32),
}

/// Something that happens when the transaction has succeeded.
pub(crate) enum Deferred {
    /// The data of a file in these blocks is dropped from memory.
    Stream(Arc<Stream>, Range<u64>),
    /// A header becomes free, which so many files have had.
    Header(u64, u32),
    /// A block of names is freed.
    Block(ControlBlock),
    /// Data blocks are freed: the first, and their number.
    Data(u64, u64),
}

/// A moment in a transaction to which it can be rolled back.
pub(crate) struct Mark {
    cache: Savepoint,
    allocated: usize,
    deferred: usize,
}

impl<'a> Deref for Tx<'a> {
    type Target = spindle_cache::Tx<'a>;
    fn deref(&self) -> &Self::Target {
        &self.cache
    }
}

impl Tx<'_> {
    /// Records an allocation.
    pub(crate) fn note_allocated(&self, what: Allocated) {
        self.effects.borrow_mut().allocated.push(what);
    }

    /// Has something done when the operation has succeeded.
    pub(crate) fn defer(&self, what: Deferred) {
        self.effects.borrow_mut().deferred.push(what);
    }

    /// Returns a savepoint.
    pub(crate) fn savepoint(&self) -> Mark {
        let effects = self.effects.borrow();
        Mark {
            cache: self.cache.savepoint(),
            allocated: effects.allocated.len(),
            deferred: effects.deferred.len(),
        }
    }
}

impl Volume {
    /// Carries `change` out as one transaction, which changes the inodes in `touched`, with `bytes`
    /// of the log. The caller holds all inode locks it needs. If it fails, whatever the reason,
    /// everything is as it was.
    pub(crate) fn transact<R: Restore, T>(
        &self,
        bytes: usize,
        mut touched: R,
        change: impl FnOnce(&Tx<'_>, &mut R) -> Result<T>,
    ) -> Result<T> {
        let tx = self.begin(bytes)?;
        let saved = touched.save();
        let beginning = tx.savepoint();
        let result = change(&tx, &mut touched);
        match result {
            Ok(value) => {
                self.finish(tx)?;
                Ok(value)
            }
            Err(error) => {
                touched.restore(saved);
                self.roll_back(&tx, &beginning)?;
                tx.cache.commit();
                Err(error)
            }
        }
    }

    /// Returns the bytes of log that an operation on names may need at most.
    pub(crate) fn name_bytes(&self) -> usize {
        OPERATION_BYTES.max(NAME_NODES * self.layout.block_bytes() + NAME_BYTES)
    }

    fn begin(&self, bytes: usize) -> Result<Tx<'_>> {
        // Space that waits for a commit is as good as none when little else is left.
        const SCARCE: u64 = 8;
        self.mark_in_use()?;
        if bytes > self.log_limit() {
            log::error!("an operation needs {bytes} bytes of a log that takes {}", self.log_limit());
            return Err(Error::NoSpace);
        }
        let is_scarce = |class| self.pending.data_blocks(class) > self.free_data_blocks_now(class) / SCARCE;
        if self.cache.wants_commit() || (0..self.layout.classes.len()).any(is_scarce) {
            self.commit()?;
        }
        loop {
            if let Some(cache) = self.cache.begin(bytes)? {
                return Ok(Tx { cache, effects: RefCell::default() });
            }
            self.commit()?;
        }
    }

    /// Undoes what a transaction has done since `to`, except for inodes in memory.
    ///
    /// # Errors
    /// If the device fails; no change is accepted after that.
    pub(crate) fn roll_back(&self, tx: &Tx<'_>, to: &Mark) -> Result<()> {
        let taken_back = tx.cache.roll_back(to.cache);
        let mut effects = tx.effects.borrow_mut();
        effects.deferred.truncate(to.deferred);
        for what in effects.allocated.drain(to.allocated..).rev() {
            match what {
                Allocated::Header(ino) => self.enter_free_header(&tx.cache, ino),
                Allocated::Block(block) => self.enter_free_block(&tx.cache, block),
                Allocated::Data(start, len) => self.enter_free_data(&tx.cache, start, len),
                Allocated::Orphan(ino, change) => self.count_orphan(&tx.cache, ino, -change),
                Allocated::Sum(block, former) => self.put_sums(&tx.cache, block, &[former]),
            }
            .map_err(|error| self.cache.half_done(&error))?;
        }
        Ok(taken_back?)
    }

    /// Ends a successful transaction: does what was deferred.
    fn finish(&self, tx: Tx<'_>) -> Result<()> {
        let Effects { deferred, .. } = tx.effects.take();
        // First wait for writes to space that another file may get next.
        for what in &deferred {
            match what {
                Deferred::Stream(stream, blocks) => self.cache.discard(stream, blocks.clone())?,
                Deferred::Block(block) => {
                    let at = self.layout.control_byte(*block);
                    self.cache.forget(at);
                    self.cache.revoke(&tx.cache, at..at + self.layout.block_bytes() as u64);
                }
                _ => {}
            }
        }
        for what in deferred {
            match what {
                Deferred::Stream(..) => {}
                Deferred::Header(ino, generation) => {
                    if let Err(error) = self.clear_header(&tx.cache, ino, generation) {
                        log::error!("header {ino} is not in use any more and cannot be freed: {error}");
                        self.note_damage();
                    }
                }
                Deferred::Block(block) => {
                    let cylinder = self.layout.block_place(block).map_or(0, |(cylinder, _)| cylinder);
                    self.pending.add_block(block, cylinder);
                }
                Deferred::Data(start, len) => self.pending.add_data(start, len),
            }
        }
        tx.cache.commit();
        Ok(())
    }

    /// Frees a block of names when the transaction ends.
    pub(crate) fn give_up_block(&self, tx: &Tx<'_>, block: ControlBlock) -> Result<()> {
        self.hold_cylinder_of(tx, block)?;
        tx.spend(FREE_BYTES);
        tx.defer(Deferred::Block(block));
        Ok(())
    }

    /// Frees data blocks when the transaction ends; those of a read-only class are only given up.
    pub(crate) fn give_up_data(&self, tx: &Tx<'_>, start: u64, len: u64) -> Result<()> {
        if self.layout.is_read_only(DataBlock(start).class()) {
            return Ok(());
        }
        let pages = self.hold_map_of(tx, start, len)?;
        // A run of blocks may touch more than one sector of a page.
        let sectors = usize::try_from(len / 4096).unwrap_or(0);
        tx.spend(pages * FREE_BYTES + sectors * SECTOR);
        tx.defer(Deferred::Data(start, len));
        Ok(())
    }

    /// Counts a file that has lost its last name or was made without one, or that is freed or
    /// named.
    pub(crate) fn note_orphan(&self, tx: &Tx<'_>, ino: u64, change: i32) -> Result<()> {
        self.count_orphan(tx, ino, change)?;
        tx.note_allocated(Allocated::Orphan(ino, change));
        Ok(())
    }
}
