//! A mounted set: opening, syncing and closing.
//!
//! If the log says that the set is in use, its records are replayed first: to the set, or to a copy
//! in memory if nothing may be written. Then files without names are freed.

use crate::format::layout::{Layout, ROOT_INO};
use crate::log::{State, replay_to_copy, replay_to_set};
use crate::set::members::Set;
use crate::set::sums::Verification;
use crate::volume::Volume;
use siphasher::sip::SipHasher13;
use spindle_cache::{Cache, Settings};
use spindle_clock::Clock;
use spindle_device::{CowDevice, Device, Tracked};
use spindle_tree::{Dinode, Nodes, NodesOf, Operations};
use spindle_vfs::{AtimePolicy, Error, Objection, Result};
use std::sync::Arc;

/// Options for opening a set.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Change nothing at all.
    pub read_only: bool,
    /// When reading changes the access time.
    pub atime: AtimePolicy,
    /// How much to keep in memory.
    pub cache: Settings,
}

/// A mounted multi-structured file system.
pub struct Mfs {
    pub(crate) volume: Volume,
    pub(crate) nodes: NodesOf<Self>,
    pub(crate) hash: SipHasher13,
    objections: Vec<Objection>,
    replayed: Option<usize>,
    /// Data is verified as long as it is there.
    _verification: Option<Verification>,
}

impl Mfs {
    /// Opens a set.
    ///
    /// # Errors
    /// If a structure that everything depends on is damaged; device errors.
    pub fn open(set: &Set, clock: Arc<dyn Clock>, options: &OpenOptions) -> Result<Self> {
        let Set { label, layout, .. } = set;
        let space: Arc<dyn Device> = Arc::new(Tracked::new(set.space.clone()));
        let (ring, state) = set.open_log(space.clone())?;
        let mut objections = Vec::new();
        if state.damaged {
            objections.push(Objection {
                reason: "the file system is damaged".into(),
                remedy: "copy what you need from it, or repair it (fsck -p, fsck -y)".into(),
                overridable: false,
            });
        }
        if ring.is_none() {
            objections.push(Objection {
                reason: "its log storage is lost".into(),
                remedy: "give it to another device with \"spindle mfs replace\"".into(),
                overridable: false,
            });
        }
        if !set.unavailable.is_empty() {
            objections.push(Objection {
                reason: format!("{} is not available", set.unavailable.join(" and ")),
                remedy: "make the member available; what lies on others can be read".into(),
                overridable: false,
            });
        }
        let device_read_only = space.info().read_only || set.log.iter().any(|part| part.info().read_only);
        let read_only = options.read_only || device_read_only || !objections.is_empty();
        let mut replayed = None;
        let device: Arc<dyn Device> = match (&ring, read_only) {
            (Some(ring), true) if state.in_use => {
                set.prefer_first();
                let copy = Arc::new(CowDevice::new(space));
                replayed = Some(replay_to_copy(ring, &*copy)?);
                copy
            }
            (Some(ring), false) if state.in_use => {
                set.begin_writing(clock.now(), true)?;
                replayed = Some(replay_to_set(ring, &*space)?);
                ring.restart(State::default())?;
                space
            }
            _ => space,
        };
        if !read_only && !state.in_use {
            set.begin_writing(clock.now(), false)?;
        }
        let ring = ring.filter(|_| !read_only).map(|ring| Arc::new(ring.recovered()));
        if let Some(ring) = &ring {
            ring.allow_loss();
        }
        let cache = match &ring {
            Some(ring) => Cache::with_log(device, clock.clone(), options.cache, ring.clone()),
            None => Cache::new(device, clock.clone(), options.cache),
        };
        let volume = Volume::open(layout.clone(), cache, ring, clock)?;
        let hash = SipHasher13::new_with_key(&label.parameters.hash_key);
        let verification = volume.has_sums().then(|| set.verify(volume.sum_source(), !read_only));
        let nodes = Nodes::new(options.atime);
        let mfs = Self { volume, nodes, hash, objections, replayed, _verification: verification };
        let root = mfs.iget(ROOT_INO).map_err(Error::of_root)?;
        if !root.is_directory {
            return Err(Error::corrupt("it is not a directory", "root directory"));
        }
        if !read_only {
            mfs.free_orphans();
        }
        Ok(mfs)
    }

    /// Frees the files that lost their last name before a crash.
    fn free_orphans(&self) {
        for cylinder in self.volume.cylinders_with_orphans() {
            for slot in 0..u32::try_from(self.layout().headers_in_cylinder()).unwrap_or(u32::MAX) {
                let inode = match self.iget(self.layout().ino_of(cylinder, slot)) {
                    Ok(inode) => inode,
                    Err(Error::Stale) => continue,
                    Err(error) => {
                        log::warn!("a file that may have no name: {error}");
                        let _: Result<()> = self.volume.note(Err(error));
                        continue;
                    }
                };
                if inode.state.read().di.nlink() == 0 {
                    self.reclaim(&inode);
                }
            }
        }
    }

    /// Returns the reasons why it was opened read-only although writing was requested.
    #[must_use]
    pub fn read_only_reasons(&self) -> &[Objection] {
        &self.objections
    }

    /// Returns the sectors of 512 bytes that were replayed from the log when it was opened; none if
    /// it had been unmounted.
    #[must_use]
    pub const fn replayed_sectors(&self) -> Option<usize> {
        self.replayed
    }

    /// Returns the checked geometry.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.volume.layout
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&self) -> Result<()> {
        if !self.volume.is_read_only() {
            self.store_access_times()?;
        }
        self.volume.commit()
    }

    /// Writes everything, marks the set clean, and refuses all further changes.
    pub(crate) fn close(&self) -> Result<()> {
        if self.volume.is_read_only() {
            return self.volume.commit();
        }
        let freed = self.free_unnamed();
        self.sync_all()?;
        self.volume.end_changes();
        self.volume.close()?;
        freed
    }
}
