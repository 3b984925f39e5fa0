//! A mounted file system: opening, syncing and closing.
//!
//! The super-block says "in use" on the device before the first change is made to anything else,
//! and "clean" after the last; a file system that was not clean when it was opened, or in which
//! damage was found, is never marked clean by Spindle. A file system that is not safe to write is
//! opened read-only, with the reasons ([`V7::read_only_reasons`]). A free list that is damaged or
//! has blocks of files is such a reason, because all allocation depends on it; it is compared with
//! all files at every mount that may write ([`Detected::objections`]).

use crate::format::free_list::walk;
use crate::format::kind::Format;
use crate::format::layout::{Layout, ROOT_INO};
use crate::format::superblock::{Detected, Superblock};
use crate::volume::Volume;
use spindle_cache::{Cache, Settings};
use spindle_clock::Clock;
use spindle_device::Device;
use spindle_tree::{LostRoot, Nodes, NodesOf, Operations};
use spindle_vfs::{AtimePolicy, Error, Objection, Result};
use std::sync::Arc;

/// Options for opening a file system.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Change nothing at all.
    pub read_only: bool,
    /// Write in spite of objections that can be overridden.
    pub force: bool,
    /// Use this format, without recognising it.
    pub format: Option<Format>,
    /// When reading changes the access time.
    pub atime: AtimePolicy,
    /// How much to keep in memory.
    pub cache: Settings,
}

/// A mounted old file system.
pub struct V7 {
    pub(crate) volume: Volume,
    pub(crate) nodes: NodesOf<Self>,
    /// What stands in for the root directory, if that is lost.
    pub(crate) lost_root: Option<LostRoot<u16>>,
    objections: Vec<Objection>,
    was_clean: bool,
}

impl V7 {
    /// Opens the file system on `device`.
    ///
    /// # Errors
    /// If there is none that can be read ([`Superblock::open`]), or if its device is unsuitable.
    pub fn open(device: Arc<dyn Device>, clock: Arc<dyn Clock>, options: &OpenOptions) -> Result<Self> {
        let detected = Superblock::open(&*device, options.format)?;
        Self::open_found(detected, device, clock, options)
    }

    /// Opens the file system whose super-block has just been read from `device`.
    ///
    /// # Errors
    /// If it cannot be read, or if its device is unsuitable.
    pub fn open_found(
        detected: Detected,
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        options: &OpenOptions,
    ) -> Result<Self> {
        let device_read_only = device.info().read_only;
        let objections = if options.read_only || device_read_only {
            detected.objections_of_superblock(&*device)
        } else {
            detected.objections(&*device)
        };
        // Who wants to write shows the objections.
        let is_silent = options.read_only && detected.unusable.is_some();
        for damage in objections.iter().filter(|_| is_silent) {
            log::warn!("{}: {}; {}", device.info().name, damage.reason, damage.remedy);
        }
        let superblock = detected.superblock;
        let layout = superblock.layout()?;
        let sector_bytes = device.info().sector_bytes;
        if layout.format.bsize < sector_bytes {
            let what = format!("blocks of {} bytes on sectors of {sector_bytes}", layout.format.bsize);
            return Err(Error::unsupported(what, "copy the image to a file"));
        }
        let cache = Cache::new(device, clock.clone(), options.cache);
        // Not through the cache, which should keep other data.
        let mut bytes = vec![0; layout.bsize()];
        let (free, _) = walk(&layout, &superblock.head, |block| {
            cache.read_unbuffered(layout.byte(block), &mut bytes)?;
            Ok(layout.format.decode_link(&bytes))
        });
        let forced = options.force && objections.iter().all(|objection| objection.overridable);
        let read_only = options.read_only || device_read_only || !(objections.is_empty() || forced);
        let volume = Volume::open(layout, superblock, free, cache, clock, read_only)?;
        let mut v7 = Self {
            volume,
            nodes: Nodes::new(options.atime),
            lost_root: None,
            was_clean: objections.is_empty(),
            objections,
        };
        if let Err(error) = v7.check_root() {
            v7.lost_root = Some(v7.stand_in_for_root(Some(error))?);
        }
        Ok(v7)
    }

    fn check_root(&self) -> Result<()> {
        // Not into memory, where what stands in for a lost root would not replace it.
        let root = self.volume.read_dinode(ROOT_INO).map_err(Error::of_root)?;
        if !root.is_directory() {
            return Err(Error::corrupt(format!("inode {ROOT_INO} is not a directory"), "root directory"));
        }
        Ok(())
    }

    /// Returns the reasons why it was opened read-only although writing was requested, and
    /// objections that were overridden.
    #[must_use]
    pub fn read_only_reasons(&self) -> &[Objection] {
        &self.objections
    }

    /// Returns the checked geometry, with the format.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.volume.layout
    }

    /// Returns the current super-block.
    #[must_use]
    pub fn superblock(&self) -> Superblock {
        self.volume.space.lock().current()
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&self) -> Result<()> {
        if self.volume.is_read_only() {
            return Ok(());
        }
        self.store_access_times()?;
        if self.volume.is_marked() { self.volume.write_superblock(false) } else { Ok(()) }
    }

    /// Writes everything, marks the file system clean, and refuses all further changes.
    pub(crate) fn close(&self) -> Result<()> {
        if self.volume.is_read_only() {
            return Ok(());
        }
        let freed = self.free_unnamed();
        self.sync_all()?;
        self.volume.end_changes();
        let clean = self.was_clean && freed.is_ok() && !self.volume.is_damaged();
        if self.volume.is_marked() && clean {
            self.volume.write_superblock(true)?;
        }
        freed
    }
}
