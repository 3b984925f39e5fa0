//! Inodes in memory: one for each number, with its lock, its references and what is derived from
//! it.
//!
//! The state of an [`Inode`] is written through: every change is stored in the transaction that
//! makes it ([`crate::Tree::store`]), so an inode that nobody uses can be dropped at any time.

use crate::{Dinode, Number};
use spindle_cache::{Restore, Stream};
use spindle_clock::{Mutex, RwLock, Timestamp};
use spindle_vfs::AtimePolicy;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// An inode in memory.
pub struct Inode<N, D, X> {
    /// Its number.
    pub ino: N,
    /// Stays the same as long as a name or a reference leads to it, so that asking takes no lock.
    pub is_directory: bool,
    /// The device had it without links when it was read. Where a name leads to it, it is damaged,
    /// and no orphan: it is not freed because its last reference goes.
    pub(crate) read_without_links: bool,
    /// Its data in memory, if it is a file or a symbolic link.
    pub stream: Arc<Stream>,
    /// What its lock protects.
    pub state: RwLock<State<D, X>>,
}

/// The state of an inode, which its lock protects.
pub struct State<D, X> {
    /// The inode as the disk has it.
    pub di: D,
    /// What is derived from it.
    pub derived: X,
    /// It was made without a name, and can get one.
    pub nameable: bool,
    /// An access time that is newer than the stored one.
    pub atime_pending: Mutex<Option<Timestamp>>,
}

impl<D: Clone, X: Restore> Restore for State<D, X> {
    type Saved = (D, X::Saved, bool);
    fn save(&self) -> Self::Saved {
        (self.di.clone(), self.derived.save(), self.nameable)
    }
    fn restore(&mut self, (di, derived, nameable): Self::Saved) {
        self.di = di;
        self.derived.restore(derived);
        self.nameable = nameable;
    }
}

const SHARDS: usize = 16;
/// Inodes in a shard before it is swept for the first time.
const SWEEP_AT_LEAST: usize = 4096;

struct Entry<N, D, X> {
    inode: Arc<Inode<N, D, X>>,
    references: u64,
}

struct Shard<N, D, X> {
    entries: HashMap<N, Entry<N, D, X>>,
    /// Inodes at which the idle ones are dropped next: twice what the last sweep left, so that
    /// sweeping costs each new inode a constant.
    sweep_at: usize,
    /// Inodes that have been removed so far.
    removals: u64,
}

/// That an inode is not in memory: needed to enter it after it was read.
#[derive(Debug)]
pub struct Missing {
    /// What the shard had removed at that moment.
    removals: u64,
}

impl<N: Number, D: Dinode, X> Shard<N, D, X> {
    fn insert(
        &mut self,
        ino: N,
        di: D,
        derived: X,
        stream: Arc<Stream>,
        read_without_links: bool,
    ) -> Arc<Inode<N, D, X>> {
        if self.entries.len() >= self.sweep_at {
            self.sweep();
        }
        let is_directory = di.is_directory();
        let state = RwLock::new(State { di, derived, nameable: false, atime_pending: Mutex::new(None) });
        let inode = Arc::new(Inode { ino, is_directory, read_without_links, stream, state });
        self.entries.insert(ino, Entry { inode: inode.clone(), references: 0 });
        inode
    }

    fn remove(&mut self, ino: N) {
        if self.entries.remove(&ino).is_some() {
            self.removals += 1;
        }
    }

    /// Drops the inodes that nobody uses.
    fn sweep(&mut self) {
        let before = self.entries.len();
        self.entries.retain(|_, entry| {
            entry.references > 0
                || Arc::strong_count(&entry.inode) > 1
                // The cache holds streams with data that the device does not have.
                || Arc::strong_count(&entry.inode.stream) > 1
                || entry.inode.state.try_read().is_none_or(|s| s.atime_pending.lock().is_some())
        });
        self.removals += (before - self.entries.len()) as u64;
        self.sweep_at = SWEEP_AT_LEAST.max(self.entries.len() * 2);
    }
}

/// All inodes in memory, by number.
pub struct InodeTable<N, D, X> {
    shards: [Mutex<Shard<N, D, X>>; SHARDS],
}

impl<N: Number, D: Dinode, X> Default for InodeTable<N, D, X> {
    fn default() -> Self {
        let shard = || Mutex::new(Shard { entries: HashMap::new(), sweep_at: SWEEP_AT_LEAST, removals: 0 });
        Self { shards: std::array::from_fn(|_| shard()) }
    }
}

impl<N: Number, D: Dinode, X> InodeTable<N, D, X> {
    fn shard(&self, ino: N) -> &Mutex<Shard<N, D, X>> {
        let number: u64 = ino.into();
        &self.shards[usize::try_from(number % SHARDS as u64).unwrap_or(0)]
    }

    /// Returns the inode if it is in memory.
    ///
    /// # Errors
    /// [`Missing`] if it is not.
    pub fn find(&self, ino: N) -> Result<Arc<Inode<N, D, X>>, Missing> {
        let shard = self.shard(ino).lock();
        let found = shard.entries.get(&ino).map(|entry| entry.inode.clone());
        found.ok_or(Missing { removals: shard.removals })
    }

    /// Enters an inode that was read after [`Self::find`] had returned `missing`, or returns the
    /// one that another thread has entered meanwhile. Returns none if an inode was removed
    /// meanwhile: it may be this one, changed or freed since it was read.
    pub fn enter(
        &self,
        missing: &Missing,
        ino: N,
        di: D,
        derived: X,
        stream: Arc<Stream>,
    ) -> Option<Arc<Inode<N, D, X>>> {
        let mut shard = self.shard(ino).lock();
        if let Some(entry) = shard.entries.get(&ino) {
            return Some(entry.inode.clone());
        }
        let without_links = di.nlink() == 0;
        (shard.removals == missing.removals).then(|| shard.insert(ino, di, derived, stream, without_links))
    }

    /// Enters an inode that was just allocated, in the place of what is left of the number's former
    /// file.
    pub fn enter_new(&self, ino: N, di: D, derived: X, stream: Arc<Stream>) -> Arc<Inode<N, D, X>> {
        let mut shard = self.shard(ino).lock();
        shard.remove(ino);
        shard.insert(ino, di, derived, stream, false)
    }

    /// Takes a reference. The caller holds the inode's lock or that of a directory that names it.
    pub fn reference(&self, inode: &Arc<Inode<N, D, X>>) {
        let mut shard = self.shard(inode.ino).lock();
        let fresh = || Entry { inode: inode.clone(), references: 0 };
        shard.entries.entry(inode.ino).or_insert_with(fresh).references += 1;
    }

    /// Gives references back, and returns the inode if these were the last.
    pub fn release(&self, ino: N, count: u64) -> Option<Arc<Inode<N, D, X>>> {
        let mut shard = self.shard(ino).lock();
        let entry = shard.entries.get_mut(&ino)?;
        entry.references = entry.references.saturating_sub(count);
        (entry.references == 0).then(|| entry.inode.clone())
    }

    /// Returns true if there are references to an inode.
    pub fn is_referenced(&self, ino: N) -> bool {
        self.shard(ino).lock().entries.get(&ino).is_some_and(|entry| entry.references > 0)
    }

    /// Drops an inode that was freed, unless its number has been given to another file meanwhile.
    pub fn drop_freed(&self, freed: &Arc<Inode<N, D, X>>) {
        let mut shard = self.shard(freed.ino).lock();
        if shard.entries.get(&freed.ino).is_some_and(|entry| Arc::ptr_eq(&entry.inode, freed)) {
            shard.remove(freed.ino);
        }
    }

    /// Returns all inodes in memory, in the order of their numbers.
    pub fn all(&self) -> Vec<Arc<Inode<N, D, X>>> {
        let of = |shard: &Mutex<Shard<N, D, X>>| {
            shard.lock().entries.values().map(|entry| entry.inode.clone()).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = self.shards.iter().flat_map(of).collect();
        all.sort_unstable_by_key(|inode| inode.ino);
        all
    }
}

/// The inodes of a mounted file system, and what belongs to all of them.
pub struct Nodes<N, D, X> {
    /// The inodes in memory.
    pub table: InodeTable<N, D, X>,
    /// When reading changes the access time: an [`AtimePolicy`].
    atime: AtomicU8,
    /// The rename lock: held while the shape of the tree may change, by a rename or removal of a
    /// directory.
    pub(crate) rename_lock: Mutex<()>,
    /// Inodes with neither names nor references that could not be freed when they lost them.
    pub(crate) unfreed: Mutex<BTreeSet<N>>,
}

impl<N: Number, D: Dinode, X> Nodes<N, D, X> {
    /// Returns an empty table, with the access time policy of the mount.
    #[must_use]
    pub fn new(atime: AtimePolicy) -> Self {
        let atime = AtomicU8::new(atime as u8);
        Self { table: InodeTable::default(), atime, rename_lock: Mutex::new(()), unfreed: Mutex::default() }
    }

    /// Returns when reading changes the access time.
    pub fn atime(&self) -> AtimePolicy {
        let now = self.atime.load(Ordering::Relaxed);
        let all = [AtimePolicy::Never, AtimePolicy::Relative, AtimePolicy::Always];
        all.into_iter().find(|&policy| policy as u8 == now).unwrap_or_default()
    }

    /// Sets when reading changes the access time.
    pub fn set_atime(&self, atime: AtimePolicy) {
        self.atime.store(atime as u8, Ordering::Relaxed);
    }

    /// Returns the inodes that have lost their last name and could not be freed then.
    pub fn unfreed(&self) -> Vec<N> {
        self.unfreed.lock().iter().copied().collect()
    }
}
