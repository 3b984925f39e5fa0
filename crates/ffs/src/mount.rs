//! A mounted file system: opening, transactions, making durable, closing.
//!
//! The superblock says "in use" on the device before the first change is made to anything else, and
//! "clean" after the last; a file system that was not clean when it was opened, unless a log has
//! put it right, or in which damage was met, is never called clean by us. What is not safe to write
//! is opened read-only with the reasons ([`Ffs::read_only_reasons`]).

use crate::alloc::Groups;
use crate::commit::Pending;
use crate::dialect::Dialect;
use crate::dirindex::NameHash;
use crate::inode::InodeTable;
use crate::journal::{FoundLog, foreign_order};
use crate::layout::Layout;
use crate::policy::Placement;
use crate::runs::Allocation;
use crate::summary::Summaries;
use crate::superblock::{CheckHashes, Superblock};
use crate::wapbl::{Stamp, Wapbl};
use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_cache::{Buffer, Cache, Settings};
use spindle_clock::{Clock, Mutex};
use spindle_device::Device;
use spindle_vfs::{AtimePolicy, Error, Objection, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The root directory's inode.
pub const ROOT_INO: u32 = 2;

/// Whether changes go through a log, which makes them survive a crash in order and whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogUse {
    /// Through the one that is there. Without one, nothing is promised after a crash.
    #[default]
    IfThere,
    /// As [`Self::IfThere`], after making one if there is none.
    Wanted,
    /// Without, even if there is one.
    Never,
}

/// How to open a file system.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Change nothing at all.
    pub read_only: bool,
    /// Write in spite of objections that can be overridden.
    pub force: bool,
    /// Take it for this dialect, whatever it looks like.
    pub dialect: Option<Dialect>,
    /// When reading changes the access time.
    pub atime: AtimePolicy,
    /// Start value of random numbers; from the system without one.
    pub seed: Option<u64>,
    /// How much metadata to keep in memory.
    pub cache: Settings,
    /// Where files go on when the block behind their last one is taken.
    pub allocation: Allocation,
    /// Whether changes go through a log.
    pub log: LogUse,
    /// Bytes of a log that is made; a share of the file system without it.
    pub log_bytes: Option<u64>,
}

/// A mounted UFS1 or UFS2.
pub struct Ffs {
    pub(crate) layout: Layout,
    pub(crate) dialect: Dialect,
    pub(crate) hashes: CheckHashes,
    /// Its system has extended attributes.
    pub(crate) has_extattr: bool,
    pub(crate) placement: Placement,
    pub(crate) allocation: Allocation,
    pub(crate) cache: Cache,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) superblock: Mutex<Superblock>,
    pub(crate) summaries: Summaries,
    pub(crate) groups: Groups,
    pub(crate) inodes: InodeTable,
    pub(crate) random: Mutex<StdRng>,
    /// The hash of names in the indices of directories.
    pub(crate) name_hash: NameHash,
    /// Held while the tree's shape may change: a rename or removal of a directory.
    pub(crate) rename_lock: Mutex<()>,
    pub(crate) atime: AtimePolicy,
    /// The log, if changes go through one.
    pub(crate) log: Option<Arc<Wapbl>>,
    /// The inode that has the log's space, which nobody else may change.
    pub(crate) log_ino: Option<u32>,
    /// What the present epoch has done that its commit needs.
    pub(crate) pending: Pending,
    minfree: AtomicU32,
    objections: Vec<Objection>,
    read_only: AtomicBool,
    /// The device says "in use".
    marked: Mutex<bool>,
    was_clean: bool,
    damaged: AtomicBool,
}

impl Ffs {
    /// Opens the file system on `device`.
    ///
    /// # Errors
    /// When there is none that can be read ([`Superblock::open`]), or its device cannot be used for
    /// it.
    pub fn open(device: Arc<dyn Device>, clock: Arc<dyn Clock>, options: &OpenOptions) -> Result<Self> {
        let mut superblock = Superblock::open(&*device)?;
        if let Some(dialect) = options.dialect {
            superblock.dialect = dialect;
        }
        let layout = superblock.layout.clone();
        if layout.fs_fsize < device.info().sector_bytes {
            return Err(Error::unsupported(
                format!(
                    "fragments of {} bytes on sectors of {}",
                    layout.fs_fsize,
                    device.info().sector_bytes
                ),
                "copy the image to a file",
            ));
        }
        let found = FoundLog::look(&*device, &superblock)?;
        let mut objections = superblock.objections_with(&found);
        objections.extend(foreign_order(&superblock, &found, options.log));
        let forced = options.force && objections.iter().all(|o| o.overridable);
        let read_only = options.read_only || device.info().read_only || !(objections.is_empty() || forced);
        let device = match &found {
            FoundLog::Recovery(replay) if read_only => replay.view(device)?,
            FoundLog::Recovery(replay) => {
                log::info!("{}: recovering {} blocks from the log", device.info().name, replay.blocks());
                replay.replay(&*device)?;
                device
            }
            _ => device,
        };
        if let FoundLog::Recovery(_) = &found {
            // NetBSD logs the superblock too.
            let dialect = superblock.dialect;
            superblock = Superblock::open(&*device)?;
            superblock.dialect = dialect;
        }
        let cache = Cache::new(device, clock.clone(), options.cache);
        let summaries = Summaries::read(&layout, &cache)?;
        let hashes = superblock.check_hashes();
        let mut random = options.seed.map_or_else(StdRng::from_os_rng, StdRng::seed_from_u64);
        let mut ffs = Self {
            dialect: superblock.dialect,
            hashes,
            has_extattr: superblock.dialect.has_extattr(&superblock.fs, &layout),
            placement: Placement::of(&superblock.fs, &layout, superblock.dialect),
            allocation: options.allocation,
            summaries,
            groups: Groups::new(&layout, hashes.groups),
            inodes: InodeTable::new(),
            name_hash: NameHash::new(&mut random),
            random: Mutex::new(random),
            rename_lock: Mutex::new(()),
            atime: options.atime,
            log: None,
            log_ino: None,
            pending: Pending::default(),
            minfree: AtomicU32::new(superblock.fs.fs_minfree.clamp(0, 99).cast_unsigned()),
            was_clean: objections.is_empty(),
            objections,
            read_only: AtomicBool::new(read_only),
            marked: Mutex::new(false),
            damaged: AtomicBool::new(false),
            superblock: Mutex::new(superblock),
            layout,
            cache,
            clock,
        };
        let root = ffs.iget(ROOT_INO).map_err(|error| match error {
            Error::Device(_) => error,
            other => Error::corrupt(other.to_string(), "root directory"),
        })?;
        if !root.state.read().di.is_directory() {
            return Err(Error::corrupt("inode 2 is not a directory", "root directory"));
        }
        drop(root);
        // What was not clean is not to be believed after the next crash either: no log.
        if !read_only && ffs.was_clean {
            ffs.take_up_log(&found, options)?;
        }
        Ok(ffs)
    }

    /// Why it was opened read-only although writing was asked for; also what was overridden.
    #[must_use]
    pub fn read_only_reasons(&self) -> &[Objection] {
        &self.objections
    }

    /// Returns the superblock as it is now.
    #[must_use]
    pub fn superblock(&self) -> Superblock {
        let mut superblock = self.superblock.lock().clone();
        superblock.set_totals(&self.summaries.total());
        superblock
    }

    /// Returns the checked geometry.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the reserve in percent.
    #[must_use]
    pub fn minfree(&self) -> u32 {
        self.minfree.load(Ordering::Relaxed)
    }

    /// Sets the reserve in percent, also while mounted (paper, section 3.1).
    ///
    /// # Errors
    /// [`Error::Invalid`] above 99.
    pub fn set_minfree(&self, percent: u32) -> Result<()> {
        let value = i32::try_from(percent).ok().filter(|p| (0..=99).contains(p)).ok_or(Error::Invalid)?;
        self.minfree.store(percent, Ordering::Relaxed);
        self.superblock.lock().fs.fs_minfree = value;
        Ok(())
    }

    /// Returns true if nothing can be changed.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// The device says "in use" before anything else is changed.
    pub(crate) fn mark_in_use(&self) -> Result<()> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let mut marked = self.marked.lock();
        if !*marked {
            self.write_superblock(false)?;
            *marked = true;
        }
        Ok(())
    }

    /// Returns true once the device says "in use".
    pub(crate) fn is_marked(&self) -> bool {
        *self.marked.lock()
    }

    /// Writes the superblock and makes it durable: the file system is in use, or clean. The log
    /// says first what it will be.
    fn write_superblock(&self, clean: bool) -> Result<()> {
        let mut superblock = self.superblock.lock();
        let (before, now) = (superblock.identity(), self.clock.now());
        if !clean {
            superblock.note_mount(now);
        }
        superblock.set_totals(&self.summaries.total());
        superblock.set_clean(clean, self.log.is_some(), now);
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

    /// Notes damage that an operation met, so that the file system is not called clean.
    pub(crate) fn note<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(Error::Corrupt { what, place }) = &result
            && !self.note_damage()
        {
            log::error!("{place}: {what}: run a check");
        }
        result
    }

    /// Notes that the file system is damaged; true if that was known.
    pub(crate) fn note_damage(&self) -> bool {
        self.damaged.swap(true, Ordering::Relaxed)
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&self) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        self.store_access_times()?;
        if self.is_marked() { self.commit() } else { Ok(()) }
    }

    /// Writes the access times that reading has changed.
    fn store_access_times(&self) -> Result<()> {
        for inode in self.inodes.all() {
            if inode.state.read().atime_pending.lock().is_none() {
                continue;
            }
            let mut state = inode.state.write();
            let pending = *state.atime_pending.lock();
            if let Some(atime) = pending
                && state.di.mode != 0
            {
                self.transact(&mut *state, |tx, state| {
                    state.di.atime = atime;
                    self.store(tx, inode.ino, &state.di)
                })?;
            }
            state.atime_pending.lock().take();
        }
        Ok(())
    }

    /// Writes everything, marks the file system clean, and changes nothing any more.
    pub(crate) fn close(&self) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        // One file that cannot be freed must not keep the others' changes from the device.
        let mut freed = self.free_orphans();
        for inode in self.inodes.all() {
            freed = freed.and(self.note(self.free_orphan(&inode)));
        }
        self.sync_all()?;
        self.cache.checkpoint()?;
        self.read_only.store(true, Ordering::Relaxed);
        // What could not be freed is on the log's list, for the next mount.
        let all_free = freed.is_ok() && self.pending.frags() == 0;
        let clean = self.was_clean && all_free && !self.damaged.load(Ordering::Relaxed);
        if self.is_marked() && clean {
            self.write_superblock(true)?;
        }
        freed
    }
}
