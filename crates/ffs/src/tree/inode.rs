//! Inodes in memory: one per number, with its lock, its references and what is derived from it.
//!
//! An [`Inode`]'s state is written through: whoever changes the dinode calls [`Ffs::store`] in the
//! same transaction, so a table entry that nobody uses can be dropped at any time.
//!
//! Order of locks: a directory before the file in it, and among other files the lower number first.
//! Only the holder of [`Ffs::rename_lock`] waits for a second directory: a damaged tree may have a
//! directory below itself, where there is no order among directories. A transaction is begun after
//! all inode locks are held, never before one.

use crate::format::dinode::Dinode;
use crate::tree::dirindex::DirIndex;
use crate::tree::file::Content;
use crate::tree::mount::Ffs;
use spindle_cache::{Epoch, Restore, Stream};
use spindle_clock::{Mutex, RwLock};
use spindle_vfs::{Error, Ino, Result};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// An inode in memory.
pub(crate) struct Inode {
    pub(crate) ino: u32,
    /// Stays the same as long as a name or a reference leads to it, so that asking takes no lock.
    pub(crate) is_directory: bool,
    /// Its data in memory, if it is a file or a symbolic link.
    pub(crate) stream: Arc<Stream>,
    pub(crate) state: RwLock<State>,
}

/// What an inode's lock protects.
pub(crate) struct State {
    pub(crate) di: Dinode,
    /// The epoch that changed last where its data is, or its size.
    pub(crate) mapped_in: Epoch,
    /// Index of a directory's names, once somebody has looked one up.
    pub(crate) index: OnceLock<DirIndex>,
    /// The access time in memory is newer than the stored one.
    pub(crate) atime_pending: Mutex<Option<spindle_clock::Timestamp>>,
}

impl State {
    fn new(di: Dinode, mapped_in: Epoch) -> Self {
        Self { di, mapped_in, index: OnceLock::new(), atime_pending: Mutex::new(None) }
    }
}

/// What is kept of an inode's state.
pub(crate) struct SavedState {
    di: Dinode,
    mapped_in: Epoch,
    /// The version of the index of a directory.
    index: Option<u64>,
}

impl Restore for State {
    type Saved = SavedState;
    fn save(&self) -> SavedState {
        let index = self.index.get().map(DirIndex::version);
        SavedState { di: self.di.clone(), mapped_in: self.mapped_in, index }
    }
    fn restore(&mut self, saved: SavedState) {
        self.di = saved.di;
        self.mapped_in = saved.mapped_in;
        // An index that was built since is right only if nothing was entered.
        if self.index.get().map(DirIndex::version) != saved.index {
            self.index.take();
        }
    }
}

impl Inode {
    /// Returns what its blocks hold.
    pub(crate) fn content(&self, di: &Dinode) -> Content<'_> {
        if di.is_directory() { Content::Directory } else { Content::Data(&self.stream) }
    }
}

const SHARDS: usize = 16;
/// Inodes in a shard before it is swept for the first time.
const SWEEP_AT_LEAST: usize = 4096;

struct Entry {
    inode: Arc<Inode>,
    references: u64,
}

struct Shard {
    entries: HashMap<u32, Entry>,
    /// Inodes at which the idle ones are dropped next: twice what the last sweep left, so that
    /// sweeping costs each new inode a constant.
    sweep_at: usize,
}

impl Default for Shard {
    fn default() -> Self {
        Self { entries: HashMap::new(), sweep_at: SWEEP_AT_LEAST }
    }
}

impl Shard {
    /// Drops the inodes that nobody uses.
    fn sweep(&mut self) {
        self.entries.retain(|_, e| {
            e.references > 0
                || Arc::strong_count(&e.inode) > 1
                // The cache holds streams with data that the device does not have.
                || Arc::strong_count(&e.inode.stream) > 1
                || e.inode.state.try_read().is_none_or(|s| s.atime_pending.lock().is_some())
        });
        self.sweep_at = SWEEP_AT_LEAST.max(self.entries.len() * 2);
    }
}

/// All inodes in memory.
pub(crate) struct InodeTable {
    shards: [Mutex<Shard>; SHARDS],
}

impl InodeTable {
    pub(crate) fn new() -> Self {
        Self { shards: Default::default() }
    }

    fn shard(&self, ino: u32) -> &Mutex<Shard> {
        &self.shards[ino as usize % SHARDS]
    }

    /// Returns the inode if it is in memory.
    fn find(&self, ino: u32) -> Option<Arc<Inode>> {
        self.shard(ino).lock().entries.get(&ino).map(|e| e.inode.clone())
    }

    /// Enters an inode, or gives the one that somebody else has entered meanwhile.
    fn enter(&self, ino: u32, di: Dinode, stream: Arc<Stream>, epoch: Epoch) -> Arc<Inode> {
        let mut shard = self.shard(ino).lock();
        if shard.entries.len() >= shard.sweep_at {
            shard.sweep();
        }
        let entry = shard.entries.entry(ino).or_insert_with(|| Entry {
            inode: Arc::new(Inode {
                ino,
                is_directory: di.is_directory(),
                stream,
                state: RwLock::new(State::new(di, epoch)),
            }),
            references: 0,
        });
        entry.inode.clone()
    }

    /// Takes a reference; the caller holds the inode's lock or that of a directory that names it.
    pub(crate) fn reference(&self, inode: &Arc<Inode>) {
        let mut shard = self.shard(inode.ino).lock();
        let fresh = || Entry { inode: inode.clone(), references: 0 };
        shard.entries.entry(inode.ino).or_insert_with(fresh).references += 1;
    }

    /// Gives references back; the inode if these were the last.
    pub(crate) fn release(&self, ino: u32, count: u64) -> Option<Arc<Inode>> {
        let mut shard = self.shard(ino).lock();
        let entry = shard.entries.get_mut(&ino)?;
        entry.references = entry.references.saturating_sub(count);
        (entry.references == 0).then(|| entry.inode.clone())
    }

    /// Returns true if somebody has references.
    pub(crate) fn is_referenced(&self, ino: u32) -> bool {
        self.shard(ino).lock().entries.get(&ino).is_some_and(|e| e.references > 0)
    }

    /// Drops an inode that was freed. Its number may have been given out again meanwhile, to
    /// another.
    pub(crate) fn drop_freed(&self, freed: &Arc<Inode>) {
        let mut shard = self.shard(freed.ino).lock();
        if shard.entries.get(&freed.ino).is_some_and(|e| Arc::ptr_eq(&e.inode, freed)) {
            shard.entries.remove(&freed.ino);
        }
    }

    /// Makes room for an inode with a number that was just given out.
    fn drop_former(&self, ino: u32) {
        self.shard(ino).lock().entries.remove(&ino);
    }

    /// Returns all inodes in memory, in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        let mut all: Vec<_> = self
            .shards
            .iter()
            .flat_map(|s| s.lock().entries.values().map(|e| e.inode.clone()).collect::<Vec<_>>())
            .collect();
        all.sort_unstable_by_key(|inode| inode.ino);
        all
    }
}

impl Ffs {
    /// Returns the inode behind a number that a directory or a caller gave.
    ///
    /// # Errors
    /// [`Error::Stale`] if the number is not in use.
    pub(crate) fn iget(&self, ino: u32) -> Result<Arc<Inode>> {
        if let Some(inode) = self.inodes.find(ino) {
            return Ok(inode);
        }
        if ino < crate::format::layout::ROOT_INO || ino >= self.layout().inodes() {
            return Err(Error::Stale);
        }
        let di = self.volume.read_dinode(ino)?;
        if di.mode == 0 {
            return Err(Error::Stale);
        }
        if di.kind().is_none() {
            return Err(Error::corrupt(format!("mode is {:o}", di.mode), format!("inode {ino}")));
        }
        self.volume.check_dinode(ino, &di)?;
        // Whoever changed it before may not be durable yet.
        Ok(self.inodes.enter(ino, di, self.volume.new_stream(), self.volume.cache.epoch()))
    }

    /// Returns the inode behind a number from above the seam.
    pub(crate) fn iget_ino(&self, ino: Ino) -> Result<Arc<Inode>> {
        self.iget(u32::try_from(ino.0).map_err(|_| Error::Stale)?)
    }

    /// Enters a newly allocated inode into the table, replacing whatever was left of the number's
    /// former file.
    pub(crate) fn enter_new(&self, ino: u32, di: Dinode, stream: Arc<Stream>) -> Arc<Inode> {
        self.inodes.drop_former(ino);
        self.inodes.enter(ino, di, stream, self.volume.cache.epoch())
    }
}
