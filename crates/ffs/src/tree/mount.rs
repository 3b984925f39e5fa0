//! A mounted file system: opening, transactions, making durable, closing.
//!
//! The superblock says "in use" on the device before the first change is made to anything else, and
//! "clean" after the last; a file system that was not clean when it was opened, unless a log has
//! put it right, or in which damage was met, is never called clean by us. What is not safe to write
//! is opened read-only with the reasons ([`Ffs::read_only_reasons`]).

use super::dirindex::NameHash;
use super::quota::QuotaFiles;
use crate::format::dialect::Dialect;
use crate::format::layout::{Layout, ROOT_INO};
use crate::format::superblock::Superblock;
use crate::log::LogUse;
use crate::log::locate::{FoundLog, LogPlace, foreign_order};
use crate::log::{Replayed, replayed};
use crate::volume::runs::Allocation;
use crate::volume::{State, Volume};
use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_cache::{Cache, Settings};
use spindle_clock::{Clock, Mutex};
use spindle_device::{CowDevice, Device};
use spindle_tree::{LostRoot, Nodes, NodesOf, Operations};
use spindle_vfs::{AclKind, AtimePolicy, Error, FileKind, Objection, Result, Terminals};
use std::sync::Arc;

/// Settings for opening a file system.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "they are switches, independent of each other")]
pub struct OpenOptions {
    /// Write nothing to the device.
    pub read_only: bool,
    /// Write in spite of objections that can be overridden.
    pub force: bool,
    /// The dialect; detected if `None`.
    pub dialect: Option<Dialect>,
    /// Rule by which reads change access times.
    pub atime: AtimePolicy,
    /// Seed of the random numbers; from the system if `None`.
    pub seed: Option<u64>,
    /// Settings of the cache.
    pub cache: Settings,
    /// Allocation policy when the block behind the last one of a file is in use.
    pub allocation: Allocation,
    /// Use of the log.
    pub log: LogUse,
    /// Size of a new log in bytes; a share of the file system if `None`.
    pub log_bytes: Option<u64>,
    /// Declare space unused to the device when the commit that has freed it is durable; without
    /// effect if there is no log.
    pub discard: bool,
    /// Quotas to enforce; without effect if it is opened read-only.
    pub quotas: QuotaFiles,
    /// Where users are warned that they meet a limit, besides the log of the system.
    pub terminals: Option<Arc<dyn Terminals>>,
    /// Leave NetBSD's quotas inside the file system as they are, whatever is changed, and preserve
    /// nothing for snapshots: a repair does both at its end.
    pub for_repair: bool,
}

/// The log as it was when the file system was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogAtOpen {
    /// Its place.
    pub place: Option<LogPlace>,
    /// Number of blocks that were replayed, if the file system had not been unmounted: to the
    /// device, or in memory if it is open read-only.
    pub replayed_blocks: Option<usize>,
}

/// A mounted UFS1 or UFS2.
pub struct Ffs {
    pub(crate) volume: Volume,
    /// Its system has extended attributes.
    pub(crate) has_extattr: bool,
    /// Its superblock has switched on these access control lists.
    pub(crate) acls: AclKind,
    pub(crate) nodes: NodesOf<Self>,
    /// The hash of names in the indices of directories.
    pub(crate) name_hash: NameHash,
    /// The inode that has the log's space, which nobody else may change.
    pub(crate) log_ino: Option<u32>,
    /// What stands in for the root directory, if that is lost.
    pub(crate) lost_root: Option<LostRoot<u32>>,
    /// One snapshot is made at a time.
    pub(super) making_snapshot: Mutex<()>,
    log_at_open: LogAtOpen,
    objections: Vec<Objection>,
    pub(super) was_clean: bool,
}

impl Ffs {
    /// Opens the file system on `device`.
    ///
    /// # Errors
    /// When there is none that can be read ([`Superblock::open`]), or its device cannot be used for
    /// it.
    pub fn open(device: Arc<dyn Device>, clock: Arc<dyn Clock>, options: &OpenOptions) -> Result<Self> {
        let superblock = Superblock::open(&*device)?;
        Self::open_found(superblock, device, clock, options)
    }

    /// Opens the file system whose superblock has just been read from `device`.
    ///
    /// # Errors
    /// When it cannot be read, or its device cannot be used for it.
    pub fn open_found(
        mut superblock: Superblock,
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        options: &OpenOptions,
    ) -> Result<Self> {
        if let Some(dialect) = options.dialect {
            superblock.set_dialect(dialect);
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
        for damage in superblock.salvaged.iter().flat_map(|salvaged| salvaged.objections()) {
            log::warn!("{}: {}; {}", device.info().name, damage.reason, damage.remedy);
        }
        let found = match FoundLog::look(&*device, &superblock) {
            Err(error) if superblock.salvaged.is_some() => {
                FoundLog::Useless(format!("its log cannot be read: {error}"))
            }
            found => found?,
        };
        let mut log_at_open = LogAtOpen {
            place: superblock.log_place(),
            replayed_blocks: if let FoundLog::Recovery(replay) = &found {
                Some(replay.blocks())
            } else {
                None
            },
        };
        let mut objections = superblock.objections_of_mount(&found);
        objections.extend(foreign_order(&superblock, &found, options.log));
        let forced = options.force && objections.iter().all(|o| o.overridable);
        let read_only = options.read_only || device.info().read_only || !(objections.is_empty() || forced);
        if !read_only && !options.quotas.is_empty() {
            // Quotas that cannot be turned on refuse the mount before anything is written.
            let reading = OpenOptions { read_only: true, quotas: QuotaFiles::default(), ..options.clone() };
            let look = Self::open_found(superblock.clone(), device.clone(), clock.clone(), &reading)?;
            if look.lost_root.is_none() {
                look.refuse_quotas(&options.quotas)?;
            }
        }
        let foreign = replayed(&device, &superblock)?;
        let device = match (&found, &foreign) {
            // Nothing writes to it as long as it has that journal.
            (_, Some(Replayed { view, .. })) => view.clone(),
            (FoundLog::Recovery(replay), None) if read_only => replay.view(device)?,
            (FoundLog::Recovery(replay), None) => {
                log::info!("{}: recovering {} blocks from the log", device.info().name, replay.blocks());
                replay.replay(&*device)?;
                device
            }
            _ => device,
        };
        if let Some(Replayed { records, .. }) = foreign {
            log_at_open.replayed_blocks = Some(records).filter(|&records| records > 0);
        }
        if foreign.is_some() || matches!(found, FoundLog::Recovery(_)) {
            // All of these log the superblock too.
            let dialect = superblock.dialect;
            superblock = Superblock::salvage(&*device)?;
            superblock.set_dialect(dialect);
        }
        let mut random = options.seed.map_or_else(StdRng::from_os_rng, StdRng::seed_from_u64);
        let name_hash = NameHash::new(&mut random);
        let cache = Cache::new(device, clock.clone(), options.cache);
        let mut volume = Volume::open(superblock, cache, clock, options.allocation, random, read_only)?;
        volume.terminals.clone_from(&options.terminals);
        let (has_extattr, acls) = {
            let superblock = volume.superblock.lock();
            let (dialect, fs, layout) = (superblock.dialect, &superblock.fs, &superblock.layout);
            (dialect.has_extattr(fs, layout), superblock.acls())
        };
        let mut ffs = Self {
            has_extattr,
            acls,
            volume,
            nodes: Nodes::new(options.atime),
            name_hash,
            log_ino: None,
            lost_root: None,
            making_snapshot: Mutex::default(),
            log_at_open,
            was_clean: objections.is_empty(),
            objections,
        };
        if read_only {
            // What cannot be read of a log does not keep anybody from the rest.
            ffs.log_ino = ffs.own_log().ok().flatten().and_then(|place| place.ino);
            if let Err(error) = ffs.check_root() {
                ffs.lost_root = Some(ffs.stand_in_for_root(Some(error))?);
            }
            return Ok(ffs);
        }
        match ffs.prepare_to_write(&found, options) {
            Err(error @ Error::Corrupt { .. }) => {
                let remedy = "copy away its files, or repair it (fsck -y)".to_owned();
                Self::open_refused(
                    Objection { reason: error.to_string(), remedy, overridable: false },
                    &ffs,
                    options,
                )
            }
            Err(error) => Err(error),
            Ok(Some(objection)) => Self::open_refused(objection, &ffs, options),
            Ok(None) => Ok(ffs),
        }
    }

    /// Returns what speaks against a mount that writes: what the superblock says, and what such a
    /// mount meets, which is tried in memory. Nothing is written.
    ///
    /// # Errors
    /// Device errors while a log is looked at.
    pub fn objections_to_writing(
        superblock: &Superblock,
        device: &Arc<dyn Device>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Vec<Objection>> {
        let objections = superblock.objections_to_mounting(&**device)?;
        if !objections.is_empty() {
            return Ok(objections);
        }
        let overlay = Arc::new(CowDevice::new(device.clone()));
        let options = OpenOptions { log: LogUse::Wanted, ..OpenOptions::default() };
        Ok(match Self::open_found(superblock.clone(), overlay, clock.clone(), &options) {
            Ok(ffs) => ffs.objections,
            Err(error) => {
                let remedy = "check it (fsck)".to_owned();
                vec![Objection { reason: error.to_string(), remedy, overridable: false }]
            }
        })
    }

    /// Takes up what writing needs. Returns what speaks against it, in which case nothing has been
    /// written, or only replayed.
    fn prepare_to_write(&mut self, found: &FoundLog, options: &OpenOptions) -> Result<Option<Objection>> {
        self.check_root()?;
        if !options.for_repair
            && let Some(objection) = self.take_up_snapshots()?
        {
            return Ok(Some(objection));
        }
        if !options.for_repair {
            self.take_up_quotas_inside()?;
        }
        // What was not clean is not to be believed after the next crash either: no log.
        if self.was_clean && !self.take_up_log(found, options)? {
            return Ok(Some(Objection {
                reason:
                    "it has snapshots, for which changes are preserved only with a log that is large enough"
                        .to_owned(),
                remedy: "mount it with a log, make a larger one, or remove the snapshots on its own system"
                    .to_owned(),
                overridable: false,
            }));
        }
        self.volume.discards.set(options.discard && self.volume.log.is_some());
        let quotas = self.take_up_quotas(&options.quotas);
        if quotas.is_err() {
            self.close()?;
        }
        quotas.map(|()| None)
    }

    /// Opens read-only what cannot be written, instead of `failed`.
    fn open_refused(objection: Objection, failed: &Self, options: &OpenOptions) -> Result<Self> {
        let (device, clock) = (failed.volume.cache.device().clone(), failed.volume.clock.clone());
        let options = OpenOptions { read_only: true, ..options.clone() };
        let mut ffs = Self::open(device, clock, &options)?;
        ffs.objections.push(objection);
        ffs.was_clean = false;
        Ok(ffs)
    }

    fn check_root(&self) -> Result<()> {
        // Not into memory, where what stands in for a lost root would not replace it.
        let root = self.volume.read_inode(ROOT_INO).map_err(Error::of_root)?;
        if !root.is_directory() {
            return Err(Error::corrupt("inode 2 is not a directory", "root directory"));
        }
        Ok(())
    }

    /// Returns the reasons why it was opened read-only although writing was asked for; also those
    /// that were overridden.
    #[must_use]
    pub fn read_only_reasons(&self) -> &[Objection] {
        &self.objections
    }

    /// Returns the log as it was when the file system was opened.
    #[must_use]
    pub const fn log_at_open(&self) -> LogAtOpen {
        self.log_at_open
    }

    /// Returns the superblock as it is now.
    #[must_use]
    pub fn superblock(&self) -> Superblock {
        self.volume.current_superblock()
    }

    /// Changes the superblock while the file system is in use; it is durable afterwards. Only the
    /// reserve, the optimisation and the rotational delay have an effect at once.
    ///
    /// # Errors
    /// Those of `change`, which then has changed nothing; [`Error::ReadOnly`]; device errors.
    pub fn change_superblock<T>(&self, change: impl FnOnce(&mut Superblock) -> Result<T>) -> Result<T> {
        self.volume.change_superblock(change)
    }

    /// Returns the reserve in percent.
    #[must_use]
    pub fn minfree(&self) -> u32 {
        self.volume.minfree()
    }

    /// Sets the reserve in percent, also while mounted (paper, section 3.1).
    ///
    /// # Errors
    /// [`Error::Invalid`] above 99.
    pub fn set_minfree(&self, percent: u32) -> Result<()> {
        self.volume.set_minfree(percent)
    }

    /// Returns the checked geometry.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.volume.layout
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&self) -> Result<()> {
        if self.volume.is_read_only() {
            return Ok(());
        }
        self.store_access_times()?;
        self.write_quotas();
        if self.volume.is_marked() { self.volume.commit() } else { Ok(()) }
    }

    /// Makes one file durable. With `data_only`, what is not needed to find its data may be missing
    /// after a crash.
    pub(crate) fn fsync_file(&self, ino: u32, data_only: bool) -> Result<()> {
        if data_only && self.volume.log.is_some() {
            let inode = self.iget(ino)?;
            let state = inode.state.read();
            // A directory's data is its names, which are in buffers.
            if state.di.kind() == Some(FileKind::Regular)
                && self.volume.cache.is_durable(state.derived.mapped_in)
            {
                return Ok(self.volume.cache.sync_data(&inode.stream)?);
            }
        }
        self.volume.commit()
    }

    /// Writes everything, marks the file system clean, and changes nothing any more.
    pub(crate) fn close(&self) -> Result<()> {
        if self.volume.is_read_only() {
            return Ok(());
        }
        // One file that cannot be freed must not keep the others' changes from the device.
        let listed = self.free_orphans();
        let freed = listed.and(self.free_unnamed());
        self.sync_all()?;
        self.volume.cache.checkpoint()?;
        self.volume.end_changes();
        // What could not be freed is on the log's list, for the next mount.
        let all_free = freed.is_ok() && self.volume.pending.frags() == 0;
        if self.volume.is_marked() && self.was_clean {
            // Under snapshots that mount frees it, for which the log must be replayed.
            let waits_for_mount = !all_free && self.volume.snapshots.count() > 0;
            if self.volume.is_damaged() && !waits_for_mount {
                self.volume.write_superblock(State::Damaged)?;
            } else if all_free {
                self.volume.write_superblock(State::Clean)?;
            }
        }
        freed
    }
}
