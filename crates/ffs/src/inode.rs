//! Inodes in memory: one per number, with its lock, its references and what is derived from it.
//!
//! An [`Inode`]'s state is written through: whoever changes the dinode calls [`Ffs::store`] in the
//! same transaction, so a table entry that nobody uses can be dropped at any time.
//!
//! Order of locks: a directory before the file in it, and among other files the lower number first.
//! Only the holder of [`Ffs::rename_lock`] waits for a second directory: a damaged tree may have a
//! directory below itself, where there is no order among directories. A transaction is begun after
//! all inode locks are held, never before one.

use crate::dinode::Dinode;
use crate::dirindex::DirIndex;
use crate::file::Content;
use crate::mount::Ffs;
use crate::tx::Tx;
use crate::units::Frag;
use rand::Rng;
use spindle_cache::{Buffer, Epoch, Stream};
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
        if ino < crate::mount::ROOT_INO || ino >= self.layout.inodes() {
            return Err(Error::Stale);
        }
        let di = self.read_dinode(ino)?;
        if di.mode == 0 {
            return Err(Error::Stale);
        }
        if di.kind().is_none() {
            return Err(Error::corrupt(format!("mode is {:o}", di.mode), format!("inode {ino}")));
        }
        self.check_dinode(ino, &di)?;
        // Whoever changed it before may not be durable yet.
        Ok(self.inodes.enter(ino, di, self.new_stream(), self.cache.epoch()))
    }

    /// Returns the inode behind a number from above the seam.
    pub(crate) fn iget_ino(&self, ino: Ino) -> Result<Arc<Inode>> {
        self.iget(u32::try_from(ino.0).map_err(|_| Error::Stale)?)
    }

    fn read_dinode(&self, ino: u32) -> Result<Dinode> {
        let cgx = self.layout.ino_to_cg(ino);
        if self.view_group(cgx, |group| ino % self.layout.fs_ipg >= group.initediblk())? {
            return Err(Error::Stale);
        }
        let (_, offset) = self.layout.ino_to_fsba(ino);
        let buffer = self.inode_buffer(ino)?;
        let bytes = buffer.read();
        if self.hashes.inodes {
            Dinode::verify(&bytes[offset..], &self.layout, ino)?;
        }
        Ok(Dinode::decode(&bytes[offset..], &self.layout))
    }

    /// Refuses an inode whose size its format cannot have.
    fn check_dinode(&self, ino: u32, di: &Dinode) -> Result<()> {
        if di.size > self.layout.fs_maxfilesize {
            return Err(Error::corrupt(format!("size is {}", di.size), format!("inode {ino}")));
        }
        let most_ext = 2 * self.layout.fs_bsize;
        if di.extsize > most_ext {
            return Err(Error::corrupt(format!("di_extsize is {}", di.extsize), format!("inode {ino}")));
        }
        if di.is_directory() && di.size > (self.layout.fs_dsize + 1) << self.layout.fs_fshift {
            return Err(Error::corrupt(
                format!("size of a directory is {}", di.size),
                format!("inode {ino}"),
            ));
        }
        Ok(())
    }

    /// Returns the buffer of an inode's block.
    pub(crate) fn inode_buffer(&self, ino: u32) -> Result<Buffer<'_>> {
        let (block, _) = self.layout.ino_to_fsba(ino);
        Ok(self.cache.get(self.layout.byte(block), self.layout.fs_bsize as usize, None)?)
    }

    /// Writes an inode's state into its block.
    pub(crate) fn store(&self, tx: &Tx<'_>, ino: u32, di: &Dinode) -> Result<()> {
        let (_, offset) = self.layout.ino_to_fsba(ino);
        let buffer = self.inode_buffer(ino)?;
        let range = offset..offset + self.layout.inode_size();
        di.encode(buffer.write(tx).bytes_mut(range), &self.layout, self.hashes.inodes);
        Ok(())
    }

    /// Enters a newly allocated inode into the table, replacing whatever was left of the number's
    /// former file.
    pub(crate) fn enter_new(&self, ino: u32, di: Dinode, stream: Arc<Stream>) -> Arc<Inode> {
        self.inodes.drop_former(ino);
        self.inodes.enter(ino, di, stream, self.cache.epoch())
    }

    /// Memory for the data of a file.
    pub(crate) fn new_stream(&self) -> Arc<Stream> {
        self.cache.stream(self.layout.fs_bsize, self.placement.maxcontig)
    }

    /// Fills a block of UFS2 inodes that was never used: free inodes with random generations. That
    /// is no part of the operation that needs the first of them, and stays when it is rolled back.
    pub(crate) fn init_inode_block(&self, tx: &spindle_cache::Tx<'_>, first: u32) -> Result<()> {
        let (block, _) = self.layout.ino_to_fsba(first);
        let (at, len) = (self.layout.byte(block), self.layout.fs_bsize as usize);
        let buffer = self.cache.get_new_for_good(at, len, None, tx)?;
        let mut block = buffer.write_shared(tx);
        for inode in block.bytes_mut(0..len).chunks_exact_mut(self.layout.inode_size()) {
            Dinode::free(self.new_generation()).encode(inode, &self.layout, false);
        }
        Ok(())
    }

    /// Returns a generation number: random, never 0.
    pub(crate) fn new_generation(&self) -> u32 {
        self.random.lock().random_range(1..=u32::MAX)
    }

    /// Returns the address of a pointer found on the disk, checked to be `frags` fragments of data;
    /// `None` for a hole.
    pub(crate) fn pointer(&self, raw: u64, frags: u32, ino: u32) -> Result<Option<Frag>> {
        if raw == 0 {
            return Ok(None);
        }
        let at = Frag(raw);
        if !self.layout.contains(at, frags.into()) || self.is_metadata(at) {
            return Err(Error::corrupt(
                format!("block pointer {raw} leads outside the data"),
                format!("inode {ino}"),
            ));
        }
        Ok(Some(at))
    }

    /// Returns true for the fragments of a group's own structures and of the summaries.
    fn is_metadata(&self, at: Frag) -> bool {
        let summaries = u64::from(self.layout.numfrags(self.layout.fs_cssize));
        if (self.layout.fs_csaddr..self.layout.fs_csaddr + summaries).contains(&at) {
            return true;
        }
        let cgx = self.layout.dtog(at);
        let first = if cgx == 0 { Frag(0) } else { self.layout.cgsblock(cgx) };
        (first..self.layout.cgdmin(cgx)).contains(&at)
    }
}
