//! The transactions of the old file system: an operation is done completely, or not at all.
//!
//! The cache restores the bytes that a failed operation has changed
//! ([`spindle_cache::Tx::roll_back`]). All operations share the free list and the counts in the
//! super-block: a transaction records what it has allocated and frees it again after a failure, and
//! what it frees becomes free only when nothing can fail any more. The inodes in memory that an
//! operation changes are saved before ([`Restore`]).
//!
//! The caller must name in [`Volume::transact`] each inode whose state it changes, and overwrite
//! existing data only when nothing else can fail.

use super::Volume;
use crate::format::layout::Block;
use spindle_cache::{Restore, Savepoint, Stream};
use spindle_vfs::{Error, Result};
use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// An open transaction.
pub struct Tx<'a> {
    cache: spindle_cache::Tx<'a>,
    effects: RefCell<Effects>,
}

/// The allocations and frees of a transaction.
#[derive(Default)]
struct Effects {
    allocated: Vec<Allocated>,
    freed: Vec<Freed>,
    /// The blocks that are freed.
    blocks: HashSet<u32>,
}

/// A block or an inode that a transaction has allocated.
#[derive(Clone, Copy)]
pub(crate) enum Allocated {
    /// A block.
    Block(Block),
    /// An inode.
    Inode(u16),
}

/// Something that is freed when the transaction ends.
pub(crate) enum Freed {
    /// The data of a file in these blocks.
    Data(Arc<Stream>, Range<u64>),
    /// A block, with its buffer if there is one.
    Block(Block),
    /// An inode.
    Inode(u16),
}

/// A savepoint: a moment in a transaction to which it can be rolled back.
pub(crate) struct Mark {
    cache: Savepoint,
    allocated: usize,
    freed: usize,
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

    /// Frees something as soon as the operation has succeeded.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a block that was freed before.
    pub(crate) fn free(&self, what: Freed) -> Result<()> {
        let mut effects = self.effects.borrow_mut();
        if let Freed::Block(block) = what
            && !effects.blocks.insert(block.0)
        {
            return Err(Error::corrupt("a block is freed twice", format!("block {}", block.0)));
        }
        effects.freed.push(what);
        Ok(())
    }

    /// Returns a savepoint.
    pub(crate) fn savepoint(&self) -> Mark {
        let effects = self.effects.borrow();
        Mark { cache: self.cache.savepoint(), allocated: effects.allocated.len(), freed: effects.freed.len() }
    }
}

impl Volume {
    /// Carries `change` out as one transaction, which changes the inodes in `touched`. The caller
    /// holds all inode locks it needs. If it fails, whatever the reason, everything is as it was.
    pub(crate) fn transact<R: Restore, T>(
        &self,
        mut touched: R,
        change: impl FnOnce(&Tx<'_>, &mut R) -> Result<T>,
    ) -> Result<T> {
        self.mark_in_use()?;
        let tx = Tx { cache: self.begin()?, effects: RefCell::default() };
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

    /// Undoes what a transaction has done since `to`, except for inodes in memory.
    ///
    /// # Errors
    /// If the device fails; no change is accepted after that.
    pub(crate) fn roll_back(&self, tx: &Tx<'_>, to: &Mark) -> Result<()> {
        let taken_back = tx.cache.roll_back(to.cache);
        let mut effects = tx.effects.borrow_mut();
        let Effects { allocated, freed, blocks } = &mut *effects;
        for what in freed.drain(to.freed..) {
            if let Freed::Block(block) = what {
                blocks.remove(&block.0);
            }
        }
        for what in allocated.drain(to.allocated..).rev() {
            match what {
                Allocated::Block(block) => self.enter_free(&tx.cache, block),
                Allocated::Inode(ino) => self.enter_free_inode(&tx.cache, ino),
            }
            .map_err(|error| self.cache.half_done(&error))?;
        }
        Ok(taken_back?)
    }

    /// Ends a successful transaction: carries out its frees.
    fn finish(&self, tx: Tx<'_>) -> Result<()> {
        let Effects { freed, .. } = tx.effects.take();
        // First wait for writes to space that another file may get next.
        for what in &freed {
            match what {
                Freed::Data(stream, blocks) => self.cache.discard(stream, blocks.clone())?,
                Freed::Block(block) => self.cache.forget(self.layout.byte(*block)),
                Freed::Inode(_) => {}
            }
        }
        for what in freed {
            let entered = match what {
                Freed::Data(..) => Ok(()),
                Freed::Block(block) => self.enter_free(&tx.cache, block),
                Freed::Inode(ino) => self.clear_inode(&tx.cache, ino),
            };
            if let Err(error) = entered {
                log::error!("something was freed and cannot be marked as free: {error}");
                self.note_damage();
            }
        }
        tx.cache.commit();
        Ok(())
    }
}
