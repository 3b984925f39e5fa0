//! The transactions of `ffs`: an operation is done wholly, or not at all.
//!
//! The cache takes back the bytes that a failed operation has changed
//! ([`spindle_cache::Tx::roll_back`]). What several operations change at once it cannot: so here
//! stands what was taken from the maps of the cylinder groups, to be given back after a failure,
//! and what is given up, which happens only when nothing can fail any more: space that was freed,
//! file data in it, names that were the last ones. Inodes in memory that an operation changes are
//! kept as they were ([`Restore`]).
//!
//! What the caller must do: name in [`Volume::transact`] each inode whose state it changes, and
//! write over data that was there before only when nothing else can fail.

use super::Volume;
use crate::format::dinode::Dinode;
use crate::format::units::Frag;
use crate::log::OPERATION_SECTORS;
use crate::volume::alloc::MapSector;
use crate::volume::intervals::Intervals;
use spindle_cache::{Restore, Savepoint, Stream};
use spindle_vfs::{Error, Result};
use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Sectors of the log that one more block of a file may need, with three indirect blocks.
pub(crate) const BLOCK_SECTORS: usize = 32;
/// Sectors of the log that clearing one more pointer may need, and storing the inode.
pub(crate) const POINTER_SECTORS: usize = 2;

/// An open transaction.
pub struct Tx<'a> {
    cache: spindle_cache::Tx<'a>,
    work: RefCell<Work>,
}

/// What a transaction has done besides changing bytes.
#[derive(Default)]
struct Work {
    taken: Vec<Taken>,
    given_up: Vec<GivenUp>,
    /// The fragments among it.
    freed: Intervals,
    /// Sectors of the maps that will change when it is entered there.
    claimed: HashSet<MapSector>,
}

/// Something taken from the maps.
#[derive(Clone, Copy)]
pub(crate) enum Taken {
    /// So many fragments.
    Fragments(Frag, u64),
    /// An inode, for a directory or not.
    Inode(u32, bool),
}

/// Something given up with the transaction.
pub(crate) enum GivenUp {
    /// The data of a file in these blocks.
    Data(Arc<Stream>, Range<u64>),
    /// The end of the buffer at this address, which then has this length, in bytes.
    Tail(u64, usize),
    /// The buffer of so many fragments, and its space.
    Metadata(Frag, u64),
    /// So many fragments.
    Fragments(Frag, u64),
    /// An inode, of a directory or not.
    Inode(u32, bool),
    /// The last name of an inode with this mode.
    LastName(u32, u16),
}

/// A moment in a transaction that it can be rolled back to.
pub(crate) struct Mark {
    cache: Savepoint,
    taken: usize,
    given_up: usize,
}

impl<'a> Deref for Tx<'a> {
    type Target = spindle_cache::Tx<'a>;
    fn deref(&self) -> &Self::Target {
        &self.cache
    }
}

impl Tx<'_> {
    /// Notes what was taken from the maps.
    pub(crate) fn took(&self, what: Taken) {
        self.work.borrow_mut().taken.push(what);
    }

    /// Notes fragments that are freed; false if they were before.
    pub(crate) fn frees(&self, at: Frag, count: u64) -> bool {
        let freed = &mut self.work.borrow_mut().freed;
        let first = !freed.overlaps(at, count);
        if first {
            freed.insert(at, count);
        }
        first
    }

    /// Gives something up when the operation has succeeded.
    pub(crate) fn give_up(&self, what: GivenUp) {
        self.work.borrow_mut().given_up.push(what);
    }

    /// Claims room in the log for sectors that change when the operation has succeeded.
    pub(crate) fn claim(&self, sectors: Vec<MapSector>) {
        self.work.borrow_mut().claimed.extend(sectors);
    }

    /// Returns true if so many more sectors of the log can be changed.
    pub(crate) fn has_room(&self, volume: &Volume, sectors: usize) -> bool {
        let claimed = self.work.borrow().claimed.len();
        self.room() >= (claimed + sectors) * volume.sector()
    }

    /// Returns the present moment.
    pub(crate) fn mark(&self) -> Mark {
        let work = self.work.borrow();
        Mark { cache: self.cache.savepoint(), taken: work.taken.len(), given_up: work.given_up.len() }
    }
}

impl Restore for Dinode {
    type Saved = Self;
    fn save(&self) -> Self {
        self.clone()
    }
    fn restore(&mut self, saved: Self) {
        *self = saved;
    }
}

/// How far an operation has got that may need more of the log than there is.
pub(crate) enum Progress<T> {
    /// To its end.
    Done(T),
    /// Not to its end; another transaction has to go on.
    Partial(T),
}

impl<T> Progress<T> {
    /// Returns what has come of it, and whether that is all.
    pub(crate) fn split(self) -> (T, bool) {
        match self {
            Self::Done(value) => (value, true),
            Self::Partial(value) => (value, false),
        }
    }
}

/// How a transaction is begun.
#[derive(Clone, Copy)]
enum Kind {
    /// For an operation on names, whose order on the device matters where the mount is synchronous.
    Naming,
    /// For any other.
    Other,
}

impl Volume {
    /// Carries `change` out as one transaction, which changes the inodes in `touched`. The caller
    /// holds all inode locks it needs. If it fails, whatever the reason, everything is as it was.
    pub(crate) fn transact<R: Restore, T>(
        &self,
        touched: R,
        change: impl FnOnce(&Tx<'_>, &mut R) -> Result<T>,
    ) -> Result<T> {
        self.run(self.begin(Kind::Other, OPERATION_SECTORS * self.sector())?, touched, change)
    }

    /// [`Self::transact`] for an operation on names.
    pub(crate) fn transact_naming<R: Restore, T>(
        &self,
        touched: R,
        change: impl FnOnce(&Tx<'_>, &mut R) -> Result<T>,
    ) -> Result<T> {
        self.run(self.begin(Kind::Naming, OPERATION_SECTORS * self.sector())?, touched, change)
    }

    /// [`Self::transact`] for an operation that may need more of the log than others. If it does
    /// not get to its end it is taken back, and tried again with as much as an epoch can have; what
    /// is not done then is for a further transaction.
    pub(crate) fn transact_at_length<R: Restore, T>(
        &self,
        touched: R,
        change: impl FnMut(&Tx<'_>, &mut R) -> Result<Progress<T>>,
    ) -> Result<Progress<T>> {
        self.run_at_length(Kind::Other, touched, change)
    }

    /// [`Self::transact_at_length`] for an operation on names.
    pub(crate) fn transact_naming_at_length<R: Restore, T>(
        &self,
        touched: R,
        change: impl FnMut(&Tx<'_>, &mut R) -> Result<Progress<T>>,
    ) -> Result<Progress<T>> {
        self.run_at_length(Kind::Naming, touched, change)
    }

    fn run_at_length<R: Restore, T>(
        &self,
        kind: Kind,
        mut touched: R,
        mut change: impl FnMut(&Tx<'_>, &mut R) -> Result<Progress<T>>,
    ) -> Result<Progress<T>> {
        let share = self.long_operation_bytes();
        let mut partial = false;
        let first = self.run(self.begin(kind, share)?, &mut touched, |tx, touched| {
            let progress = change(tx, touched)?;
            partial = matches!(progress, Progress::Partial(_));
            // Taking it back is what a failure does.
            if partial { Err(Error::WouldBlock) } else { Ok(progress) }
        });
        if !partial {
            return first;
        }
        let most = self.log.as_ref().map_or(share, |log| spindle_cache::Log::limit_bytes(&**log));
        self.run(self.begin(kind, most)?, &mut touched, |tx, touched| change(tx, touched))
    }

    /// [`Self::transact`], with more room in the log, before the superblock says that the file
    /// system is in use.
    pub(crate) fn transact_unmarked<R: Restore, T>(
        &self,
        touched: R,
        change: impl FnOnce(&Tx<'_>, &mut R) -> Result<T>,
    ) -> Result<T> {
        self.run(self.begin_unmarked(Kind::Other, self.long_operation_bytes())?, touched, change)
    }

    /// Returns the bytes of the log that an operation may take at first that may need more than
    /// others.
    fn long_operation_bytes(&self) -> usize {
        let share = self.log.as_ref().map_or(0, |log| spindle_cache::Log::limit_bytes(&**log) / 4);
        share.max(OPERATION_SECTORS * self.sector())
    }

    fn begin(&self, kind: Kind, log_bytes: usize) -> Result<Tx<'_>> {
        // Space that waits for a commit is as good as none when little else is left.
        const SCARCE: u64 = 8;
        self.mark_in_use()?;
        let free = u64::try_from(self.free_frags_now()).unwrap_or(0);
        if self.cache.wants_commit() || self.pending.frags() > free / SCARCE {
            self.commit()?;
        }
        self.begin_unmarked(kind, log_bytes)
    }

    fn begin_unmarked(&self, kind: Kind, log_bytes: usize) -> Result<Tx<'_>> {
        loop {
            let begun = match kind {
                Kind::Naming => self.cache.begin_naming(log_bytes)?,
                Kind::Other => self.cache.begin(log_bytes)?,
            };
            if let Some(cache) = begun {
                return Ok(Tx { cache, work: RefCell::default() });
            }
            self.commit()?;
        }
    }

    fn run<R: Restore, T>(
        &self,
        tx: Tx<'_>,
        mut touched: R,
        change: impl FnOnce(&Tx<'_>, &mut R) -> Result<T>,
    ) -> Result<T> {
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
        let Work { given_up, freed, .. } = &mut *work;
        for what in given_up.drain(to.given_up..) {
            if let GivenUp::Fragments(at, _) | GivenUp::Metadata(at, _) = what {
                freed.remove(at);
            }
        }
        for taken in work.taken.drain(to.taken..).rev() {
            match taken {
                Taken::Fragments(at, count) => self.free_in_map(&tx.cache, at, count),
                Taken::Inode(ino, directory) => self.free_inode_in_map(&tx.cache, ino, directory),
            }
            .map_err(|error| self.half_done(error))?;
        }
        Ok(())
    }

    /// Ends a transaction that has done all it should: gives up what it gave up.
    fn finish(&self, tx: Tx<'_>) -> Result<()> {
        let Work { given_up, .. } = tx.work.take();
        // First what may still be under way to space that others may have next.
        for what in &given_up {
            match what {
                GivenUp::Data(stream, blocks) => self.cache.discard(stream, blocks.clone())?,
                GivenUp::Tail(at, len) => self.cache.resize(*at, *len, &tx.cache)?,
                GivenUp::Metadata(at, count) => {
                    let byte = self.layout.byte(*at);
                    self.cache.forget(byte);
                    self.cache.revoke(&tx.cache, byte..byte + (count << self.layout.fs_fshift));
                }
                _ => {}
            }
        }
        for what in given_up {
            match what {
                GivenUp::Metadata(at, count) | GivenUp::Fragments(at, count) => {
                    self.free_with(&tx.cache, at, count);
                }
                GivenUp::Inode(ino, directory) => {
                    let freed = self.free_inode_in_map(&tx.cache, ino, directory);
                    self.note_lost(freed, || format!("inode {ino}"));
                    self.pending.forget_orphan(ino);
                }
                GivenUp::LastName(ino, mode) => self.pending.add_orphan(ino, mode),
                GivenUp::Data(..) | GivenUp::Tail(..) => {}
            }
        }
        tx.cache.commit();
        Ok(())
    }

    /// Notes that something was given up and could not be entered into the maps: no file has it any
    /// more, and a check will find it.
    pub(crate) fn note_lost(&self, freed: Result<()>, what: impl FnOnce() -> String) {
        if let Err(error) = freed {
            log::error!("{} is not in use any more and cannot be entered as free: {error}", what());
            self.note_damage();
        }
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

    /// Returns the bytes of a sector of the device.
    pub(crate) fn sector(&self) -> usize {
        self.cache.device().info().sector_bytes as usize
    }
}
