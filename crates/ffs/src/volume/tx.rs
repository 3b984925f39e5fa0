//! The transactions of `ffs`: an operation is done wholly, or not at all.
//!
//! The cache takes back the bytes that a failed operation has changed
//! ([`spindle_cache::Tx::roll_back`]). What several operations change at once it cannot: so here
//! stands what was taken from the maps of the cylinder groups, to be given back after a failure,
//! what was charged to quotas,
//! and what is given up, which happens only when nothing can fail any more: space that was freed,
//! file data in it, names that were the last ones. Inodes in memory that an operation changes are
//! kept as they were ([`Restore`]).
//!
//! The caller must name in [`Volume::transact`] each inode whose state it changes, and
//! write over data that was there before only when nothing else can fail.

use super::Volume;
use crate::format::dinode::Dinode;
use crate::format::units::Frag;
use crate::log::OPERATION_SECTORS;
use crate::quota::store::Pen;
use crate::quota::table::{Charged, Quotas, Warning};
use crate::volume::intervals::Intervals;
use crate::volume::snapshot::SNAPSHOT_SECTORS;
use foldhash::HashSet;
use spindle_cache::{Restore, Savepoint, Stream};
use spindle_clock::RmLockReadGuard;
use spindle_vfs::{Error, Result};
use std::cell::RefCell;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Sectors of the log that one more block of a file may need, with three indirect blocks.
const BLOCK_SECTORS: usize = 32;
/// Sectors of the log that quotas inside the file system may need for an operation: records of two
/// users and two groups, each across two sectors, two of them new.
const QUOTA_SECTORS: usize = 12;
/// Sectors of the log that clearing one more pointer may need, and storing the inode.
const POINTER_SECTORS: usize = 2;

/// An open transaction.
pub struct Tx<'a> {
    cache: spindle_cache::Tx<'a>,
    effects: RefCell<Effects>,
    /// No snapshot is taken meanwhile.
    _changes: RmLockReadGuard<'a, ()>,
}

/// The effects of a transaction other than changed bytes.
#[derive(Default)]
struct Effects {
    allocated: Vec<Allocated>,
    charged: Vec<Charged>,
    /// What has to be said about quotas in the end.
    warnings: Vec<Warning>,
    deferred: Vec<Deferred>,
    /// The fragments among it.
    freed: Intervals,
    /// Sectors of the maps that will change when it is entered there.
    claimed: MapSectors,
    /// Snapshots whose inodes were stored.
    pointers: Vec<u32>,
    /// File data has another place now, although its inode may be as it was.
    moved: bool,
}

/// Something allocated in the maps.
#[derive(Clone, Copy)]
pub(crate) enum Allocated {
    /// Fragments: the first, and their number.
    Fragments(Frag, u64),
    /// An inode, for a directory or not.
    Inode(u32, bool),
}

/// Something that happens when the transaction has succeeded: space, an inode or a name is given
/// up.
pub(crate) enum Deferred {
    /// The data of a file in these blocks.
    Data(Arc<Stream>, Range<u64>),
    /// The end of the buffer at this address, which then has this length, in bytes.
    Tail(u64, usize),
    /// The buffer at a fragment, of this number of fragments, and its space.
    Metadata(Frag, u64),
    /// Fragments: the first, and their number.
    Fragments(Frag, u64),
    /// An inode, of a directory or not.
    Inode(u32, bool),
    /// The last name of an inode with this mode, which is an orphan then.
    LastName(u32, u16),
    /// Being an orphan, of an inode that gets its first name.
    FirstName(u32),
}

/// A sector of the maps that changes when space is freed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum MapSector {
    /// A sector of the block of a cylinder group: the number of the group, and of the sector.
    Group(u32, usize),
    /// A sector of the summaries, by number.
    Summary(usize),
    /// A sector of the device that has a pointer or the inode of a snapshot, by number.
    Snapshot(u64),
}

/// Sectors of the maps.
pub(crate) type MapSectors = HashSet<MapSector>;

/// A moment in a transaction that it can be rolled back to.
pub(crate) struct Mark {
    cache: Savepoint,
    allocated: usize,
    charged: usize,
    warnings: usize,
    deferred: usize,
}

impl<'a> Deref for Tx<'a> {
    type Target = spindle_cache::Tx<'a>;
    fn deref(&self) -> &Self::Target {
        &self.cache
    }
}

impl Tx<'_> {
    /// Notes what was allocated in the maps.
    pub(crate) fn note_allocated(&self, what: Allocated) {
        self.effects.borrow_mut().allocated.push(what);
    }

    /// Notes what was charged to a quota.
    pub(crate) fn note_charged(&self, what: Charged) {
        self.effects.borrow_mut().charged.push(what);
    }

    /// Notes that the inode of a snapshot was stored: a rollback restores its bytes, but not its
    /// pointers, which others may have changed since.
    pub(crate) fn note_pointers(&self, ino: u32) {
        self.effects.borrow_mut().pointers.push(ino);
    }

    /// Notes that file data has moved.
    pub(crate) fn note_moved(&self) {
        self.effects.borrow_mut().moved = true;
    }

    /// Returns true if file data has moved.
    pub(crate) fn has_moved(&self) -> bool {
        self.effects.borrow().moved
    }

    /// Notes warnings about a quota, which are given at the end of the transaction.
    pub(crate) fn note_warnings(&self, warnings: Vec<Warning>) {
        self.effects.borrow_mut().warnings.extend(warnings);
    }

    /// Notes fragments that are freed; returns false if they were freed before.
    pub(crate) fn frees(&self, at: Frag, count: u64) -> bool {
        let freed = &mut self.effects.borrow_mut().freed;
        let first = !freed.overlaps(at, count);
        if first {
            freed.insert(at, count);
        }
        first
    }

    /// Has something done when the operation has succeeded.
    pub(crate) fn defer(&self, what: Deferred) {
        self.effects.borrow_mut().deferred.push(what);
    }

    /// Claims room in the log for sectors that change when the operation has succeeded.
    pub(crate) fn claim(&self, sectors: Vec<MapSector>) {
        self.effects.borrow_mut().claimed.extend(sectors);
    }

    /// Returns true if so many more sectors of the log can be changed.
    pub(crate) fn has_room(&self, volume: &Volume, sectors: usize) -> bool {
        let claimed = self.effects.borrow().claimed.len();
        self.room() >= (claimed + sectors) * volume.sector()
    }

    /// Returns the present moment.
    pub(crate) fn savepoint(&self) -> Mark {
        let effects = self.effects.borrow();
        Mark {
            cache: self.cache.savepoint(),
            allocated: effects.allocated.len(),
            charged: effects.charged.len(),
            warnings: effects.warnings.len(),
            deferred: effects.deferred.len(),
        }
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

/// Progress of an operation that may need more of the log than there is.
pub(crate) enum Progress<T> {
    /// To its end.
    Done(T),
    /// Not to its end; another transaction has to go on.
    Partial(T),
}

impl<T> Progress<T> {
    /// Returns the result, and true if the operation is finished.
    pub(crate) fn split(self) -> (T, bool) {
        match self {
            Self::Done(value) => (value, true),
            Self::Partial(value) => (value, false),
        }
    }
}

/// Kind of a transaction.
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
        self.run(self.begin(Kind::Other, self.operation_bytes())?, touched, change)
    }

    /// [`Self::transact`] for an operation on names.
    pub(crate) fn transact_naming<R: Restore, T>(
        &self,
        touched: R,
        change: impl FnOnce(&Tx<'_>, &mut R) -> Result<T>,
    ) -> Result<T> {
        self.run(self.begin(Kind::Naming, self.operation_bytes())?, touched, change)
    }

    /// Does what [`Self::transact`] does for an operation that may need more of the log. If it does
    /// not get to its end it is taken back, and tried again with as much as an epoch can have; what
    /// is not done then is for a further transaction.
    pub(crate) fn transact_in_parts<R: Restore, T>(
        &self,
        touched: R,
        change: impl FnMut(&Tx<'_>, &mut R) -> Result<Progress<T>>,
    ) -> Result<Progress<T>> {
        self.run_in_parts(Kind::Other, touched, change)
    }

    /// [`Self::transact_in_parts`] for an operation on names.
    pub(crate) fn transact_naming_in_parts<R: Restore, T>(
        &self,
        touched: R,
        change: impl FnMut(&Tx<'_>, &mut R) -> Result<Progress<T>>,
    ) -> Result<Progress<T>> {
        self.run_in_parts(Kind::Naming, touched, change)
    }

    fn run_in_parts<R: Restore, T>(
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
        share.max(self.operation_bytes())
    }

    /// Returns the sectors of the log that an operation may need at the most.
    pub(crate) fn operation_sectors(&self) -> usize {
        self.operation_sectors_with(self.snapshots.count())
    }

    /// [`Self::operation_sectors`] with so many snapshots.
    pub(crate) fn operation_sectors_with(&self, snapshots: usize) -> usize {
        let inside = self.quotas.as_ref().is_some_and(Quotas::is_inside);
        OPERATION_SECTORS + if inside { QUOTA_SECTORS } else { 0 } + snapshots * SNAPSHOT_SECTORS
    }

    /// Returns the sectors of the log that one more block of a file may need.
    pub(crate) fn block_sectors(&self) -> usize {
        BLOCK_SECTORS + self.block_copies()
    }

    /// Returns the sectors of the log that clearing one more pointer may need, and storing the
    /// inode.
    pub(crate) fn pointer_sectors(&self) -> usize {
        POINTER_SECTORS + self.pointer_copies()
    }

    fn operation_bytes(&self) -> usize {
        self.operation_sectors() * self.sector()
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
            let changes = self.snapshots.enter();
            let begun = match kind {
                Kind::Naming => self.cache.begin_naming(log_bytes)?,
                Kind::Other => self.cache.begin(log_bytes)?,
            };
            if let Some(cache) = begun {
                return Ok(Tx { cache, effects: RefCell::default(), _changes: changes });
            }
            drop(changes);
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
                self.warn(&tx.effects.into_inner().warnings);
                Err(error)
            }
        }
    }

    /// Takes back what a transaction has done since `to`, but for inodes in memory.
    ///
    /// # Errors
    /// When the device fails; nothing is changed any more after that.
    pub(crate) fn roll_back(&self, tx: &Tx<'_>, to: &Mark) -> Result<()> {
        let taken_back = tx.cache.roll_back(to.cache);
        let stored = tx.effects.borrow().pointers.clone();
        self.restore_pointers(&tx.cache, &stored).map_err(|error| self.cache.half_done(&error))?;
        let mut effects = tx.effects.borrow_mut();
        let Effects { deferred, freed, warnings, .. } = &mut *effects;
        for what in deferred.drain(to.deferred..) {
            if let Deferred::Fragments(at, _) | Deferred::Metadata(at, _) = what {
                freed.remove(at);
            }
        }
        // What was refused stays so; what has passed a limit has not.
        let undone = warnings.split_off(to.warnings);
        warnings.extend(undone.into_iter().filter(Warning::is_refusal));
        if let Some(quotas) = &self.quotas {
            let now = self.clock.now().secs;
            let pen = Pen { cache: &self.cache, tx: &tx.cache };
            for charged in effects.charged.drain(to.charged..).rev() {
                quotas.take_back(&charged, now, &pen).map_err(|error| self.cache.half_done(&error))?;
            }
        }
        for allocation in effects.allocated.drain(to.allocated..).rev() {
            match allocation {
                Allocated::Fragments(at, count) => self.free_in_map(&tx.cache, at, count),
                Allocated::Inode(ino, directory) => self.free_inode_in_map(&tx.cache, ino, directory),
            }
            .map_err(|error| self.cache.half_done(&error))?;
        }
        Ok(taken_back?)
    }

    /// Ends a transaction that has succeeded: does what was deferred.
    fn finish(&self, tx: Tx<'_>) -> Result<()> {
        let Effects { deferred, warnings, .. } = tx.effects.take();
        // First what may still be under way to space that others may have next.
        for what in &deferred {
            match what {
                Deferred::Data(stream, blocks) => self.cache.discard(stream, blocks.clone())?,
                Deferred::Tail(at, len) => self.cache.resize(*at, *len, &tx.cache)?,
                Deferred::Metadata(at, count) => {
                    let byte = self.layout.byte(*at);
                    self.cache.forget(byte);
                    self.cache.revoke(&tx.cache, byte..byte + (count << self.layout.fs_fshift));
                }
                _ => {}
            }
        }
        for what in deferred {
            match what {
                Deferred::Metadata(at, count) | Deferred::Fragments(at, count) => {
                    self.free_with(&tx.cache, at, count);
                }
                Deferred::Inode(ino, directory) => {
                    let freed = self.free_inode_in_map(&tx.cache, ino, directory);
                    self.note_lost(freed, || format!("inode {ino}"));
                    self.pending.forget_orphan(ino);
                }
                Deferred::LastName(ino, mode) => self.pending.add_orphan(ino, mode),
                Deferred::FirstName(ino) => self.pending.forget_orphan(ino),
                Deferred::Data(..) | Deferred::Tail(..) => {}
            }
        }
        tx.cache.commit();
        self.warn(&warnings);
        Ok(())
    }

    /// Notes that something was freed and could not be entered into the maps: no file has it any
    /// more, and a check will find it.
    pub(crate) fn note_lost(&self, freed: Result<()>, what: impl FnOnce() -> String) {
        if let Err(error) = freed {
            log::error!("{} is not in use any more and cannot be entered as free: {error}", what());
            self.note_damage();
        }
    }

    /// Returns the bytes of a sector of the device.
    pub(crate) fn sector(&self) -> usize {
        self.cache.device().info().sector_bytes as usize
    }
}
