//! Transactions of `ffs` and their commits: what is durable when, and what a crash must find.
//!
//! With a log, three things wait for the commit of the group that they belong to:
//! - *freed space* goes into the maps only as part of the commit, so that nothing is written over what a crash would bring back
//!   (as NetBSD does, `ffs_wapbl_sync_metadata`);
//! - *nameless inodes*, unlinked but in use or not wholly freed, are listed with each commit, so that recovery frees them;
//! - *freed metadata* is revoked, so that no older record of it is carried out over what the space holds later.
//!
//! Without a log none of this is kept, and what survives a crash is for a checker to find out.

use crate::group::isset;
use crate::mount::{Ffs, ROOT_INO};
use crate::units::Frag;
use spindle_cache::{Resume, Tx};
use spindle_clock::Mutex;
use spindle_vfs::{Error, FileKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the present group of transactions has done that its commit needs.
#[derive(Default)]
pub(crate) struct Pending {
    /// Runs of fragments that were freed.
    freed: Mutex<Vec<(Frag, u64)>>,
    freed_frags: AtomicU64,
    /// Inodes in use without names, with their modes.
    nameless: Mutex<BTreeMap<u32, u16>>,
    /// Inodes with neither names nor references that could not be freed when they lost them.
    unfreed: Mutex<BTreeSet<u32>>,
}

impl Pending {
    /// Fragments that are free once the group is committed.
    pub(crate) fn frags(&self) -> u64 {
        self.freed_frags.load(Ordering::Relaxed)
    }

    /// An inode is to be freed when space is wanted.
    pub(crate) fn keep_unfreed(&self, ino: u32) {
        self.unfreed.lock().insert(ino);
    }

    fn take_freed(&self) -> Vec<(Frag, u64)> {
        self.freed_frags.store(0, Ordering::Relaxed);
        std::mem::take(&mut *self.freed.lock())
    }

    fn put_back(&self, freed: &[(Frag, u64)]) {
        self.freed.lock().extend(freed);
        self.freed_frags.fetch_add(freed.iter().map(|(_, count)| count).sum(), Ordering::Relaxed);
    }
}

fn conclude<'a, T>(tx: Tx<'a>, change: impl FnOnce(&Tx<'a>) -> Result<T>) -> Result<T> {
    let result = change(&tx);
    if !result.as_ref().is_err_and(Error::is_failure) {
        tx.commit();
    }
    result
}

impl Ffs {
    /// Carries `change` out as one transaction. The caller holds all inode locks it needs. A change that fails leaves everything
    /// as it was or as it should be, unless what failed is the device or the file system itself: then nothing of it ever gets
    /// there, and no more is changed.
    pub(crate) fn transact<T>(&self, change: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        self.make_ready()?;
        conclude(self.cache.begin()?, change)
    }

    /// [`Self::transact`] for an operation on names, whose order on the device matters where the mount is synchronous.
    pub(crate) fn transact_naming<T>(&self, change: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        self.make_ready()?;
        conclude(self.cache.begin_naming()?, change)
    }

    fn make_ready(&self) -> Result<()> {
        // Space that waits for a commit is as good as none when little else is left.
        const SCARCE: u64 = 8;
        self.mark_in_use()?;
        let free = u64::try_from(self.free_frags_now()).unwrap_or(0);
        if self.cache.wants_commit() || self.pending.frags() > free / SCARCE {
            self.commit()?;
        }
        Ok(())
    }

    /// Makes every ended transaction durable.
    pub(crate) fn commit(&self) -> Result<()> {
        self.cache.commit(self.cache.group(), |tx| {
            let resume = self.free_pending(tx)?;
            if let Some(log) = &self.log {
                log.set_nameless(self.pending.nameless.lock().clone());
            }
            Ok(resume)
        })
    }

    /// Enters what the group has freed into the maps. They offer it to the next transaction, whose data would be written there.
    fn free_pending(&self, tx: &Tx<'_>) -> Result<Resume> {
        let freed = self.pending.take_freed();
        for (nth, &(at, count)) in freed.iter().enumerate() {
            // What is damaged must not keep the rest from being freed.
            if let Err(error @ Error::Device(_)) = self.note(self.free_now(tx, at, count)) {
                self.pending.put_back(&freed[nth..]);
                return Err(error);
            }
        }
        Ok(if freed.is_empty() { Resume::Taken } else { Resume::Committed })
    }

    /// Carries out an operation that changes something: again, if it found no space and there is some to be regained; and not at all
    /// once nothing can be changed any more, for what is in memory may then be half an operation.
    pub(crate) fn changing<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        self.cache.check()?;
        match attempt() {
            Err(Error::NoSpace) if self.regain_space()? => attempt(),
            result => result,
        }
    }

    /// Frees what could not be freed before, and commits what was freed; true if either was anything.
    fn regain_space(&self) -> Result<bool> {
        let unfreed = std::mem::take(&mut *self.pending.unfreed.lock());
        for &ino in &unfreed {
            match self.iget(ino) {
                Ok(inode) => self.reclaim(&inode),
                Err(Error::Stale) => {}
                Err(_) => self.pending.keep_unfreed(ino),
            }
        }
        let waits = self.pending.frags() > 0;
        if waits {
            self.commit()?;
        }
        Ok(waits || !unfreed.is_empty())
    }

    /// Gives `count` fragments from `at` back; they may span blocks and groups.
    pub(crate) fn free(&self, tx: &Tx<'_>, at: Frag, count: u64) -> Result<()> {
        if self.log.is_none() {
            return self.free_now(tx, at, count);
        }
        self.check_extent(at, count)?;
        self.pending.freed.lock().push((at, count));
        self.pending.freed_frags.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    /// [`Self::free`] for what was metadata in one buffer: that is forgotten, and never replayed over what comes there next.
    pub(crate) fn free_metadata(&self, tx: &Tx<'_>, at: Frag, count: u64) -> Result<()> {
        let byte = self.layout.byte(at);
        self.cache.forget(byte);
        self.cache.revoke(tx, byte..byte + (count << self.layout.fs_fshift));
        self.free(tx, at, count)
    }

    /// An inode loses its last name in this transaction.
    pub(crate) fn lose_name(&self, _tx: &Tx<'_>, ino: u32, mode: u16) {
        if self.log.is_some() {
            self.pending.nameless.lock().insert(ino, mode);
        }
    }

    /// A nameless inode is free with this transaction.
    pub(crate) fn end_nameless(&self, _tx: &Tx<'_>, ino: u32) {
        self.pending.nameless.lock().remove(&ino);
    }

    /// Takes up a list of nameless inodes that a recovery has found.
    pub(crate) fn inherit_nameless(&self, inodes: BTreeMap<u32, u16>) {
        *self.pending.nameless.lock() = inodes;
    }

    /// Frees what is listed as nameless: after a recovery, and what could not be freed when it lost its name. One that cannot be
    /// freed must not keep the others from it.
    pub(crate) fn free_listed(&self) -> Result<()> {
        let listed: Vec<u32> = self.pending.nameless.lock().keys().copied().collect();
        let mut result = Ok(());
        for ino in listed {
            let freed = match self.iget(ino) {
                Ok(inode) => self.free_nameless(&inode),
                Err(Error::Stale) => self.free_unmade(ino),
                Err(error) => Err(error),
            };
            match self.note(freed) {
                Err(error @ Error::Device(_)) => result = result.and(Err(error)),
                freed => {
                    self.pending.nameless.lock().remove(&ino);
                    result = result.and(freed);
                }
            }
        }
        result
    }

    /// Frees an inode that was taken and never made (NetBSD lists it before it has a mode), if it is that.
    fn free_unmade(&self, ino: u32) -> Result<()> {
        if ino <= ROOT_INO || ino >= self.layout.inodes() {
            return Err(Error::Stale);
        }
        let n = ino % self.layout.fs_ipg;
        let taken = self.view_group(self.layout.ino_to_cg(ino), |group| isset(group.inosused(), n))?;
        if !taken {
            return Ok(());
        }
        self.transact(|tx| self.free_inode(tx, ino, false))
    }

    /// Makes one file durable. With `data_only`, what is not needed to find its data may be missing after a crash.
    pub(crate) fn fsync_file(&self, ino: u32, data_only: bool) -> Result<()> {
        if data_only && self.log.is_some() {
            let inode = self.iget(ino)?;
            let state = inode.state.read();
            // A directory's data is its names, which are in buffers.
            if state.di.kind() == Some(FileKind::Regular) && self.cache.is_durable(state.mapped_in) {
                return Ok(self.cache.sync_data(&inode.stream)?);
            }
        }
        self.commit()
    }
}
