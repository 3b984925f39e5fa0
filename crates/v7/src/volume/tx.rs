//! The transactions of the old file system: an operation is done wholly, or not at all.
//!
//! The cache takes back the bytes that a failed operation has changed
//! ([`spindle_cache::Tx::roll_back`]). The free list and the counts in the super-block are
//! everybody's: what was taken from them is noted here and given back after a failure, and what is
//! freed is entered only when nothing can fail any more. Inodes in memory that an operation changes
//! are kept as they were ([`Restore`]).
//!
//! What the caller must do: name in [`Volume::transact`] each inode whose state it changes, and
//! write over data that was there before only when nothing else can fail.

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
    work: RefCell<Work>,
}

/// What a transaction has done besides changing bytes.
#[derive(Default)]
struct Work {
    taken: Vec<Taken>,
    freed: Vec<Freed>,
    /// The blocks that are freed.
    blocks: HashSet<u32>,
}

/// Something taken from the super-block.
#[derive(Clone, Copy)]
pub(crate) enum Taken {
    /// A block.
    Block(Block),
    /// An inode.
    Inode(u16),
}

/// Something that is freed with the transaction.
pub(crate) enum Freed {
    /// The data of a file in these blocks.
    Data(Arc<Stream>, Range<u64>),
    /// A block, with its buffer if there is one.
    Block(Block),
    /// An inode.
    Inode(u16),
}

/// A moment in a transaction that it can be rolled back to.
pub(crate) struct Mark {
    cache: Savepoint,
    taken: usize,
    freed: usize,
}

impl<'a> Deref for Tx<'a> {
    type Target = spindle_cache::Tx<'a>;
    fn deref(&self) -> &Self::Target {
        &self.cache
    }
}

impl Tx<'_> {
    /// Notes what was taken.
    pub(crate) fn took(&self, what: Taken) {
        self.work.borrow_mut().taken.push(what);
    }

    /// Frees something when the operation has succeeded.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a block that was freed before.
    pub(crate) fn free(&self, what: Freed) -> Result<()> {
        let mut work = self.work.borrow_mut();
        if let Freed::Block(block) = what
            && !work.blocks.insert(block.0)
        {
            return Err(Error::corrupt("a block is freed twice", format!("block {}", block.0)));
        }
        work.freed.push(what);
        Ok(())
    }

    /// Returns the present moment.
    pub(crate) fn mark(&self) -> Mark {
        let work = self.work.borrow();
        Mark { cache: self.cache.savepoint(), taken: work.taken.len(), freed: work.freed.len() }
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
        let tx = Tx { cache: self.begin()?, work: RefCell::default() };
        let saved = touched.save();
        let beginning = tx.mark();
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

    /// Takes back what a transaction has done since `to`, but for inodes in memory.
    ///
    /// # Errors
    /// When the device fails; nothing is changed any more after that.
    pub(crate) fn roll_back(&self, tx: &Tx<'_>, to: &Mark) -> Result<()> {
        tx.cache.roll_back(to.cache)?;
        let mut work = tx.work.borrow_mut();
        let Work { taken, freed, blocks } = &mut *work;
        for what in freed.drain(to.freed..) {
            if let Freed::Block(block) = what {
                blocks.remove(&block.0);
            }
        }
        for what in taken.drain(to.taken..).rev() {
            match what {
                Taken::Block(block) => self.enter_free(&tx.cache, block),
                Taken::Inode(ino) => self.enter_free_inode(&tx.cache, ino),
            }
            .map_err(|error| self.half_done(error))?;
        }
        Ok(())
    }

    /// Ends a transaction that has done all it should: frees what it freed.
    fn finish(&self, tx: Tx<'_>) -> Result<()> {
        let Work { freed, .. } = tx.work.take();
        // First what may still be under way to space that others may have next.
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
                log::error!("something is not in use any more and cannot be entered as free: {error}");
                self.note_damage();
            }
        }
        tx.cache.commit();
        Ok(())
    }

    /// Ends all changes because an operation can be neither finished nor taken back.
    fn half_done(&self, error: Error) -> Error {
        let failed = || std::io::Error::other(error.to_string());
        let name = self.cache.device().info().name.clone();
        let ended = self.cache.directly(|_| -> spindle_device::Result<()> {
            Err(spindle_device::Error::io(&name, "taking back an operation", failed()))
        });
        ended.map_or_else(Error::from, |()| error)
    }
}
