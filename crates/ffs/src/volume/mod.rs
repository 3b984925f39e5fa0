//! The volume: space and inodes of a UFS, changed in transactions.
//!
//! The one idea: whatever is changed on the device is changed here, inside a transaction ([`tx`])
//! that is wholly done or not at all, and with the counts of its cylinder group and of the whole
//! file system kept exact. Names, files and who uses them are the tree's business.
//!
//! The superblock says "in use" on the device before the first change is made to anything else
//! ([`Volume::mark_in_use`], which every transaction calls), and "clean" only when the tree says so
//! ([`Volume::write_superblock`]).

pub(crate) mod alloc;
pub(crate) mod bmap;
pub(crate) mod commit;
mod inodes;
pub(crate) mod intervals;
pub(crate) mod policy;
pub(crate) mod quota;
pub(crate) mod runs;
mod search;
pub(crate) mod snapshot;
mod summary;
mod trim;
pub(crate) mod tx;

use crate::format::dialect::Dialect;
use crate::format::layout::Layout;
use crate::format::superblock::{CheckHashes, Superblock};
use crate::log::wapbl::{Stamp, Wapbl};
use crate::quota::table::Quotas;
use alloc::Groups;
use commit::PendingCommit;
use policy::Placement;
use rand::rngs::StdRng;
use runs::Allocation;
use snapshot::Snapshots;
use spindle_cache::{Buffer, Cache};
use spindle_clock::{Clock, Mutex};
use spindle_tree::Condition;
use spindle_vfs::{Error, Result, Terminals};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use summary::Summaries;
use trim::Discards;

/// What the superblock says of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It is in use: after a crash its log, if it has one, puts it right.
    InUse,
    /// It was unmounted, and is whole.
    Clean,
    /// It was unmounted, but damage was met, or metadata could not be read: it needs a check, which
    /// no log replaces.
    Damaged,
}

/// The space and the inodes of a file system.
pub(crate) struct Volume {
    pub(crate) layout: Layout,
    pub(crate) dialect: Dialect,
    pub(crate) hashes: CheckHashes,
    /// The settings of placement, apart from the rotational delay.
    placement: Placement,
    /// [`Placement::delay_frags`], which can change while the volume is in use.
    delay_frags: AtomicU32,
    allocation: Allocation,
    pub(crate) cache: Cache,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) superblock: Mutex<Superblock>,
    pub(crate) summaries: Summaries,
    groups: Groups,
    random: Mutex<StdRng>,
    /// The log, if changes go through one.
    pub(crate) log: Option<Arc<Wapbl>>,
    /// Frees and orphans of the present epoch.
    pub(crate) pending: PendingCommit,
    /// What commits have freed, for the device.
    pub(crate) discards: Discards,
    /// How often space was freed without a log.
    pub(crate) frees: AtomicU64,
    /// The snapshots that changes are preserved for.
    pub(crate) snapshots: Snapshots,
    /// The quotas that are on, if any.
    pub(crate) quotas: Option<Quotas>,
    /// Where users are warned that they meet a limit.
    pub(crate) terminals: Option<Arc<dyn Terminals>>,
    minfree: AtomicU32,
    condition: Condition,
}

impl Deref for Volume {
    type Target = Condition;
    fn deref(&self) -> &Condition {
        &self.condition
    }
}

impl Volume {
    /// Takes up the volume that `superblock` describes, without a log.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn open(
        superblock: Superblock,
        cache: Cache,
        clock: Arc<dyn Clock>,
        allocation: Allocation,
        random: StdRng,
        read_only: bool,
    ) -> Result<Self> {
        let layout = superblock.layout.clone();
        let hashes = superblock.check_hashes();
        let placement = Placement::of(&superblock.fs, &layout, superblock.dialect);
        Ok(Self {
            dialect: superblock.dialect,
            hashes,
            placement,
            delay_frags: placement.delay_frags.into(),
            allocation,
            summaries: Summaries::read(&layout, &cache, read_only)?,
            groups: Groups::new(&layout, hashes.groups),
            random: Mutex::new(random),
            log: None,
            pending: PendingCommit::default(),
            discards: Discards::default(),
            frees: AtomicU64::new(0),
            snapshots: Snapshots::default(),
            quotas: None,
            terminals: None,
            minfree: AtomicU32::new(superblock.fs.fs_minfree.clamp(0, 99).cast_unsigned()),
            condition: Condition::new(read_only, cache.read_failures()),
            superblock: Mutex::new(superblock),
            layout,
            cache,
            clock,
        })
    }

    /// Returns the superblock as it is now.
    pub(crate) fn current_superblock(&self) -> Superblock {
        let mut superblock = self.superblock.lock().clone();
        superblock.set_totals(&self.summaries.total());
        superblock
    }

    /// Returns the settings of placement as they are now.
    pub(crate) fn placement(&self) -> Placement {
        Placement { delay_frags: self.delay_frags.load(Ordering::Relaxed), ..self.placement }
    }

    /// Changes the superblock by `change`, has the allocator obey it, and makes it durable. An
    /// older superblock in the log (NetBSD) must not come back by a replay, so the log is emptied.
    ///
    /// # Errors
    /// Those of `change`, which then has changed nothing; [`Error::ReadOnly`]; device errors.
    pub(crate) fn change_superblock<T>(
        &self,
        change: impl FnOnce(&mut Superblock) -> Result<T>,
    ) -> Result<T> {
        self.mark_in_use()?;
        let changed = {
            let mut superblock = self.superblock.lock();
            superblock.set_totals(&self.summaries.total());
            let changed = change(&mut superblock)?;
            let fs = &superblock.fs;
            self.minfree.store(fs.fs_minfree.clamp(0, 99).cast_unsigned(), Ordering::Relaxed);
            let placement = Placement::of(fs, &self.layout, self.dialect);
            self.delay_frags.store(placement.delay_frags, Ordering::Relaxed);
            changed
        };
        self.commit()?;
        self.cache.checkpoint()?;
        self.write_superblock(State::InUse)?;
        Ok(changed)
    }

    /// Returns the reserve in percent.
    pub(crate) fn minfree(&self) -> u32 {
        self.minfree.load(Ordering::Relaxed)
    }

    /// Sets the reserve in percent, also while mounted (paper, section 3.1).
    ///
    /// # Errors
    /// [`Error::Invalid`] above 99.
    pub(crate) fn set_minfree(&self, percent: u32) -> Result<()> {
        let value = i32::try_from(percent).ok().filter(|p| (0..=99).contains(p)).ok_or(Error::Invalid)?;
        self.minfree.store(percent, Ordering::Relaxed);
        self.superblock.lock().fs.fs_minfree = value;
        Ok(())
    }

    /// Marks the file system as in use on the device, before anything else is changed.
    pub(crate) fn mark_in_use(&self) -> Result<()> {
        self.condition.mark_with(|| self.write_superblock(State::InUse))
    }

    /// Writes the superblock and makes it durable. The log says first what it will be.
    pub(crate) fn write_superblock(&self, state: State) -> Result<()> {
        let mut superblock = self.superblock.lock();
        let (before, now) = (superblock.identity(), self.clock.now());
        if state == State::InUse {
            superblock.note_mount(now);
        }
        superblock.set_totals(&self.summaries.total());
        let replays = self.log.is_some() && state != State::Damaged;
        superblock.set_clean(state == State::Clean, replays, now);
        if replays {
            superblock.begin_log();
        } else {
            superblock.end_log();
        }
        Ok(self.cache.directly(|device| {
            if let Some(log) = &self.log {
                superblock.seal();
                log.restamp(Stamp { before, after: superblock.identity() })?;
            }
            superblock.write(device)?;
            device.flush()?;
            if let Some(log) = &self.log {
                log.superblock_written();
            }
            Ok(())
        })?)
    }

    /// Returns the buffer of the superblock, if commits log it. NetBSD wants it so: it believes the
    /// counts that a replay leaves.
    pub(crate) fn superblock_to_log(&self) -> Result<Option<Buffer<'_>>> {
        // Until it says "in use" it is written past the log.
        if self.log.is_none() || self.dialect != Dialect::NetBsd || !self.is_marked() {
            return Ok(None);
        }
        let len = self.superblock.lock().written_bytes(self.sector());
        Ok(Some(self.cache.get(self.layout.fs_sblockloc, len, None)?))
    }

    /// Makes the superblock, with its counts, part of an epoch that is being committed.
    pub(crate) fn log_superblock(&self, tx: &spindle_cache::Tx<'_>, log: &Wapbl, buffer: &Buffer<'_>) {
        let mut superblock = self.superblock.lock();
        superblock.set_totals(&self.summaries.total());
        superblock.set_time(self.clock.now());
        superblock.seal();
        let len = superblock.written_bytes(self.sector());
        buffer.write_shared(tx).bytes_mut(0..len).copy_from_slice(&superblock.raw()[..len]);
        log.note_superblock(superblock.identity());
    }
}
