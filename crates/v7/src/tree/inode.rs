//! Inodes: on the disk 64 bytes, in memory one entry for each number in use, with its lock and its
//! references.
//!
//! An [`Inode`]'s state is written through: whoever changes the [`Dinode`] calls [`V7::store`] in
//! the same transaction, so an entry that nobody uses can be dropped at any time.
//!
//! Order of locks: a directory before the file in it, and among other files the lower number first.
//! Only the holder of [`V7::rename_lock`] waits for a second directory: a damaged tree may have a
//! directory below itself, where there is no order among directories. A transaction is begun after
//! all inode locks are held, never before one.

use crate::format::dinode::Dinode;
use crate::tree::mount::V7;
use spindle_cache::{Restore, Stream};
use spindle_clock::{Mutex, RwLock, Timestamp};
use spindle_vfs::{Error, Ino, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// An inode in memory.
pub(crate) struct Inode {
    pub(crate) ino: u16,
    /// Stays the same as long as a name or a reference leads to it, so that asking takes no lock.
    pub(crate) is_directory: bool,
    /// Its data in memory, if it is a file.
    pub(crate) stream: Arc<Stream>,
    pub(crate) state: RwLock<State>,
}

/// What an inode's lock protects.
pub(crate) struct State {
    pub(crate) di: Dinode,
    /// The access time in memory is newer than the stored one.
    pub(crate) atime_pending: Mutex<Option<Timestamp>>,
}

impl Restore for State {
    type Saved = Dinode;
    fn save(&self) -> Dinode {
        self.di.clone()
    }
    fn restore(&mut self, saved: Dinode) {
        self.di = saved;
    }
}

/// Inodes in memory before the idle ones are dropped for the first time.
const SWEEP_AT_LEAST: usize = 1024;

#[derive(Default)]
struct Table {
    entries: HashMap<u16, (Arc<Inode>, u64)>,
    /// Inodes at which the idle ones are dropped next: twice what the last sweep left.
    sweep_at: usize,
}

/// All inodes in memory, with their references.
#[derive(Default)]
pub(crate) struct InodeTable(Mutex<Table>);

impl InodeTable {
    fn find(&self, ino: u16) -> Option<Arc<Inode>> {
        self.0.lock().entries.get(&ino).map(|(inode, _)| inode.clone())
    }

    /// Enters an inode, or gives the one that somebody else has entered meanwhile.
    fn enter(&self, ino: u16, di: Dinode, stream: Arc<Stream>) -> Arc<Inode> {
        let mut table = self.0.lock();
        if table.entries.len() >= table.sweep_at.max(SWEEP_AT_LEAST) {
            table.entries.retain(|_, (inode, references)| {
                // The cache holds streams with data that the device does not have.
                let written = Arc::strong_count(&inode.stream) == 1;
                let idle = *references == 0 && Arc::strong_count(inode) == 1 && written;
                !idle || inode.state.read().atime_pending.lock().is_some()
            });
            table.sweep_at = table.entries.len() * 2;
        }
        let is_directory = di.is_directory();
        let state = RwLock::new(State { di, atime_pending: Mutex::new(None) });
        let fresh = || (Arc::new(Inode { ino, is_directory, stream, state }), 0);
        table.entries.entry(ino).or_insert_with(fresh).0.clone()
    }

    /// Takes a reference; the caller holds the inode's lock or that of a directory that names it.
    pub(crate) fn reference(&self, inode: &Arc<Inode>) {
        self.0.lock().entries.entry(inode.ino).or_insert_with(|| (inode.clone(), 0)).1 += 1;
    }

    /// Gives references back; the inode if these were the last.
    pub(crate) fn release(&self, ino: u16, count: u64) -> Option<Arc<Inode>> {
        let mut table = self.0.lock();
        let (inode, references) = table.entries.get_mut(&ino)?;
        *references = references.saturating_sub(count);
        (*references == 0).then(|| inode.clone())
    }

    pub(crate) fn is_referenced(&self, ino: u16) -> bool {
        self.0.lock().entries.get(&ino).is_some_and(|(_, references)| *references > 0)
    }

    /// Drops an inode that was freed, unless its number has been given to another meanwhile.
    pub(crate) fn drop_freed(&self, freed: &Arc<Inode>) {
        let mut table = self.0.lock();
        if table.entries.get(&freed.ino).is_some_and(|(inode, _)| Arc::ptr_eq(inode, freed)) {
            table.entries.remove(&freed.ino);
        }
    }

    /// Returns all inodes in memory, in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        let mut all: Vec<_> = self.0.lock().entries.values().map(|(inode, _)| inode.clone()).collect();
        all.sort_by_key(|inode| inode.ino);
        all
    }
}

impl V7 {
    /// Returns the inode behind a number that a directory or a caller gave.
    ///
    /// # Errors
    /// [`Error::Stale`] if the number is not in use.
    pub(crate) fn iget(&self, ino: u16) -> Result<Arc<Inode>> {
        if let Some(inode) = self.inodes.find(ino) {
            return Ok(inode);
        }
        let di = self.volume.read_dinode(ino)?;
        Ok(self.inodes.enter(ino, di, self.volume.cache.stream(self.layout().format.bsize, 1)))
    }

    /// Returns the inode behind a number from above the seam.
    pub(crate) fn iget_ino(&self, ino: Ino) -> Result<Arc<Inode>> {
        self.iget(u16::try_from(ino.0).map_err(|_| Error::Stale)?)
    }

    /// Enters a newly allocated inode into the table, replacing whatever was left of the number's
    /// former file.
    pub(crate) fn enter_new(&self, ino: u16, di: Dinode) -> Arc<Inode> {
        self.inodes.0.lock().entries.remove(&ino);
        self.inodes.enter(ino, di, self.volume.cache.stream(self.layout().format.bsize, 1))
    }
}
