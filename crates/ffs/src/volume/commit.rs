//! Commits of `ffs`: what is durable when, and what a crash must find.
//!
//! With a log, three things wait for the commit of the epoch that they belong to:
//! - *freed space* goes into the maps only as part of the commit (as NetBSD does,
//!   `ffs_wapbl_sync_metadata`), and the cache writes nothing to it before the commit is durable,
//!   so that what a crash would bring back is still there;
//! - *orphans*, inodes without names that are in use or not wholly freed, are listed in the log, so
//!   that recovery frees them;
//! - *freed metadata* is revoked, so that no older record of it is replayed over what the space
//!   holds later.
//!
//! Without a log none of this is kept, and what survives a crash is for a checker to find out.

use super::Volume;
use super::alloc::Part;
use super::intervals::Intervals;
use super::tx::MapSectors;
use crate::format::units::Frag;
use crate::log::wapbl::OrphanChanges;
use spindle_clock::Mutex;
use spindle_vfs::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Frees and orphans of the present epoch, which its commit enters.
#[derive(Default)]
pub(crate) struct PendingCommit {
    freed: Mutex<Freed>,
    freed_frags: AtomicU64,
    orphans: Mutex<Orphans>,
}

/// Space that was freed and is not entered into the maps yet.
#[derive(Default)]
struct Freed {
    runs: Intervals,
    /// The sectors of the maps that will change, for which room in the log is claimed.
    sectors: MapSectors,
}

/// Inodes without names.
#[derive(Default)]
struct Orphans {
    /// All of them, with their modes.
    all: BTreeMap<u32, u16>,
    /// Changes since the last commit.
    changes: OrphanChanges,
}

impl PendingCommit {
    /// Returns the fragments that are free once the epoch is committed.
    pub(crate) fn frags(&self) -> u64 {
        self.freed_frags.load(Ordering::Relaxed)
    }

    /// Returns true if one of these fragments was freed in this epoch.
    pub(crate) fn is_freed(&self, at: Frag, count: u64) -> bool {
        self.freed.lock().runs.overlaps(at, count)
    }

    /// Notes that an inode has lost its last name, or was made without one.
    pub(crate) fn add_orphan(&self, ino: u32, mode: u16) {
        let mut orphans = self.orphans.lock();
        orphans.all.insert(ino, mode);
        orphans.changes.added.insert(ino, mode);
    }

    /// Notes that an inode is free, or has got a name.
    pub(crate) fn forget_orphan(&self, ino: u32) {
        let mut orphans = self.orphans.lock();
        if orphans.all.remove(&ino).is_some() && orphans.changes.added.remove(&ino).is_none() {
            orphans.changes.removed.push(ino);
        }
    }

    /// Returns the numbers of all orphans.
    pub(crate) fn orphans(&self) -> Vec<u32> {
        self.orphans.lock().all.keys().copied().collect()
    }

    fn take_freed(&self) -> Vec<(Frag, u64)> {
        self.freed_frags.store(0, Ordering::Relaxed);
        let mut freed = self.freed.lock();
        freed.sectors.clear();
        freed.runs.take()
    }

    fn put_back(&self, at: Frag, count: u64) {
        self.freed.lock().runs.insert(at, count);
        self.freed_frags.fetch_add(count, Ordering::Relaxed);
    }
}

impl Volume {
    /// Makes every ended transaction durable, and discards what they have freed on mounts that do
    /// that, for which it begins transactions.
    pub(crate) fn commit(&self) -> Result<()> {
        let freed = self.commit_alone()?;
        self.discard_freed(freed);
        Ok(())
    }

    /// Makes every ended transaction durable. Returns the bytes of the device that the caller
    /// passes to [`Self::discard_freed`] as soon as transactions can begin.
    pub(super) fn commit_alone(&self) -> Result<Vec<Range<u64>>> {
        let mut to_discard = Vec::new();
        self.cache.commit(self.cache.epoch(), |tx| -> Result<_> {
            // Before anything is changed: if this cannot be read now, the next commit tries again.
            let superblock = self.superblock_to_log()?;
            let freed = self.free_pending(tx)?;
            if self.discards.is_on() {
                to_discard.clone_from(&freed);
            }
            if let Some(log) = &self.log {
                log.note_orphans(std::mem::take(&mut self.pending.orphans.lock().changes));
                if let Some(buffer) = superblock {
                    self.log_superblock(tx, log, &buffer);
                }
            }
            Ok(freed)
        })?;
        Ok(to_discard)
    }

    /// Enters what the epoch has freed into the maps, and returns its bytes. What cannot be
    /// entered, because its map cannot be read, waits on.
    fn free_pending(&self, tx: &spindle_cache::Tx<'_>) -> Result<Vec<Range<u64>>> {
        let freed = self.pending.take_freed();
        let byte = |at: Frag| at.0 << self.layout.fs_fshift;
        let bytes = freed.iter().map(|&(at, count)| byte(at)..byte(at + count)).collect();
        for (at, count) in freed {
            for part in self.by_groups(at, count) {
                match self.free_part(tx, part) {
                    Err(error @ Error::Device(_)) => {
                        self.cache.check()?;
                        let Part { at, first, last, .. } = part;
                        self.pending.put_back(at, (last - first).into());
                        log::error!("{} fragments from {at} cannot be freed yet: {error}", last - first);
                    }
                    freed => self.note_lost(freed, || format!("a part of {count} fragments from {at}")),
                }
            }
        }
        Ok(bytes)
    }

    /// Frees fragments for good: with the commit of the epoch, or without a log at once.
    pub(crate) fn free_with(&self, tx: &spindle_cache::Tx<'_>, at: Frag, count: u64) {
        for (at, count) in self.unclaimed(tx, at, count) {
            self.free_unclaimed(tx, at, count);
        }
    }

    fn free_unclaimed(&self, tx: &spindle_cache::Tx<'_>, at: Frag, count: u64) {
        if self.log.is_none() {
            self.frees.fetch_add(1, Ordering::AcqRel);
            for part in self.by_groups(at, count) {
                let freed = self.free_part(tx, part);
                self.note_lost(freed, || format!("a part of {count} fragments from {at}"));
            }
            return;
        }
        // The groups have been looked at when the fragments were given up.
        let sectors = self.sectors_to_free(at, count).unwrap_or_default();
        let mut freed = self.pending.freed.lock();
        freed.runs.insert(at, count);
        self.pending.freed_frags.fetch_add(count, Ordering::Relaxed);
        let new = sectors.into_iter().filter(|sector| freed.sectors.insert(*sector)).count();
        tx.spend(new * self.sector());
    }

    /// Refuses to make one more orphan than the log can list.
    pub(crate) fn check_orphans(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let orphans = self.pending.orphans.lock().all.len();
        if orphans < log.most_orphans() {
            return Ok(());
        }
        log::warn!(
            "{orphans} files are unlinked and in use, more than a log of {} bytes can list; \
             close some, or make a larger log (tunefs)",
            log.ring().len
        );
        Err(Error::NoSpace)
    }

    /// Takes up a list of orphans that a recovery has found.
    pub(crate) fn inherit_orphans(&self, inodes: BTreeMap<u32, u16>) {
        self.pending.orphans.lock().all = inodes;
    }
}
