//! Inodes in memory: one for each number, with its lock, its references and what is derived from
//! it.
//!
//! The state of an [`Inode`] is written through: every change is stored in the transaction that
//! makes it ([`crate::Tree::store`]), so an inode that nobody uses can be dropped at any time.

use crate::{Dinode, Number};
use spindle_cache::{Restore, Stream};
use spindle_clock::{Mutex, RmLock, RwLock, Timestamp};
use spindle_vfs::AtimePolicy;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// An inode in memory.
pub struct Inode<N, D, X> {
    /// Its number.
    pub ino: N,
    /// Stays the same as long as a name or a reference leads to it, so that asking takes no lock.
    pub is_directory: bool,
    /// The device had it without links when it was read. Where a name leads to it, it is damaged,
    /// and no orphan: it is not freed because its last reference goes.
    pub(crate) read_without_links: bool,
    /// References to it. Where the table has it, they keep it there.
    references: AtomicU64,
    /// Its data in memory, if it is a file or a symbolic link.
    pub stream: Arc<Stream>,
    /// What its lock protects.
    pub state: RwLock<State<D, X>>,
}

impl<N, D, X> Inode<N, D, X> {
    fn is_referenced(&self) -> bool {
        self.references.load(Ordering::Acquire) > 0
    }
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

struct Shard<N, D, X> {
    entries: HashMap<N, Arc<Inode<N, D, X>>>,
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

impl<N, D, X> Default for Shard<N, D, X> {
    fn default() -> Self {
        Self { entries: HashMap::new(), sweep_at: SWEEP_AT_LEAST, removals: 0 }
    }
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
        let references = AtomicU64::new(0);
        let inode = Arc::new(Inode { ino, is_directory, read_without_links, references, stream, state });
        self.entries.insert(ino, inode.clone());
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
        self.entries.retain(|_, inode| {
            inode.is_referenced()
                || Arc::strong_count(inode) > 1
                // The cache holds streams with data that the device does not have.
                || Arc::strong_count(&inode.stream) > 1
                || inode.state.try_read().is_none_or(|s| s.atime_pending.lock().is_some())
        });
        self.removals += (before - self.entries.len()) as u64;
        self.sweep_at = SWEEP_AT_LEAST.max(self.entries.len() * 2);
    }
}

/// All inodes in memory, by number.
pub struct InodeTable<N, D, X> {
    shards: [RmLock<Shard<N, D, X>>; SHARDS],
}

impl<N: Number, D: Dinode, X> Default for InodeTable<N, D, X> {
    fn default() -> Self {
        Self { shards: Default::default() }
    }
}

impl<N: Number, D: Dinode, X> InodeTable<N, D, X> {
    fn shard(&self, ino: N) -> &RmLock<Shard<N, D, X>> {
        let number: u64 = ino.into();
        &self.shards[usize::try_from(number % SHARDS as u64).unwrap_or(0)]
    }

    /// Returns the inode if it is in memory.
    ///
    /// # Errors
    /// [`Missing`] if it is not.
    pub fn find(&self, ino: N) -> Result<Arc<Inode<N, D, X>>, Missing> {
        let shard = self.shard(ino).read();
        shard.entries.get(&ino).cloned().ok_or(Missing { removals: shard.removals })
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
        let mut shard = self.shard(ino).write();
        if let Some(inode) = shard.entries.get(&ino) {
            return Some(inode.clone());
        }
        let without_links = di.nlink() == 0;
        (shard.removals == missing.removals).then(|| shard.insert(ino, di, derived, stream, without_links))
    }

    /// Enters an inode that was just allocated, in the place of what is left of the number's former
    /// file.
    pub fn enter_new(&self, ino: N, di: D, derived: X, stream: Arc<Stream>) -> Arc<Inode<N, D, X>> {
        let mut shard = self.shard(ino).write();
        shard.remove(ino);
        shard.insert(ino, di, derived, stream, false)
    }

    /// Takes a reference. The caller holds the inode's lock or that of a directory that names it.
    pub fn reference(&self, inode: &Arc<Inode<N, D, X>>) {
        let shard = self.shard(inode.ino);
        if let Some(known) = shard.read().entries.get(&inode.ino) {
            known.references.fetch_add(1, Ordering::AcqRel);
            return;
        }
        let mut shard = shard.write();
        let entered = shard.entries.entry(inode.ino).or_insert_with(|| inode.clone());
        entered.references.fetch_add(1, Ordering::AcqRel);
    }

    /// Gives references back, and returns the inode if these were the last.
    pub fn release(&self, ino: N, count: u64) -> Option<Arc<Inode<N, D, X>>> {
        let shard = self.shard(ino).read();
        let inode = shard.entries.get(&ino)?;
        let less = |references: u64| Some(references.saturating_sub(count));
        let before = inode.references.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        before.is_ok_and(|before| before <= count).then(|| inode.clone())
    }

    /// Returns true if there are references to an inode.
    pub fn is_referenced(&self, ino: N) -> bool {
        self.shard(ino).read().entries.get(&ino).is_some_and(|inode| inode.is_referenced())
    }

    /// Drops an inode that was freed, unless its number has been given to another file meanwhile.
    pub fn drop_freed(&self, freed: &Arc<Inode<N, D, X>>) {
        let mut shard = self.shard(freed.ino).write();
        if shard.entries.get(&freed.ino).is_some_and(|inode| Arc::ptr_eq(inode, freed)) {
            shard.remove(freed.ino);
        }
    }

    /// Returns all inodes in memory, in the order of their numbers.
    pub fn all(&self) -> Vec<Arc<Inode<N, D, X>>> {
        let of = |shard: &RmLock<Shard<N, D, X>>| shard.read().entries.values().cloned().collect::<Vec<_>>();
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
