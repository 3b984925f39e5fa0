//! An image that is mounted: its file system can be opened again with other settings while a
//! front-end uses it.
//!
//! A remount closes the file system as an unmount does and opens it as a mount does, so that the
//! same checks, locks and recovery apply. The front-end keeps its inodes: it brings its references.
//! While it is closed it can be made larger.

use crate::control::Name;
use crate::error::{Context, Error, Result};
use crate::growfs::{Growing, Resize};
use crate::image::{Image, OpenOptions, Opened, reasons};
use crate::quota::{Sheet, Task};
use crate::set::{Change, MountedSet, Outcome, Progress, Report};
use crate::snapshot::{Snapshot, list};
use serde::{Deserialize, Serialize};
use spindle_clock::RwLock;
use spindle_device::{Claim, Spec};
use spindle_ffs::tunefs::{Tuned, Tuning};
use spindle_mfs::StorageUse;
use spindle_vfs::{
    AtimePolicy, Attr, DirEntry, FallocateMode, FileSystem, FsStat, Ino, Limits, NewNode, Privilege,
    RenameMode, Seek, SetAttr, XattrMode,
};
use std::ops::{ControlFlow, Range};
use std::path::Path;

/// What a mount says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Description {
    /// What is mounted: a specification, see [`Spec::parse`], with an absolute path. Of a set, a
    /// member that is still there.
    pub image: String,
    /// The directory on which it is mounted.
    pub dir: String,
    /// The device number of the mount, `major:minor`.
    #[serde(default)]
    pub device: String,
    /// Nothing can be changed.
    pub read_only: bool,
    /// It is not on the directory any more, but still in use (`umount -l`).
    #[serde(default)]
    pub detached: bool,
    /// Of a set: what of its storage is used.
    pub storage: Option<StorageUse>,
    /// Of a set: its label, and where its members are.
    #[serde(default)]
    pub set: Option<MountedSet>,
}

/// A mounted image.
pub struct MountedImage {
    spec: Spec,
    root: Ino,
    limits: Limits,
    /// None if it could not be opened again; then nothing works but an unmount.
    image: RwLock<Option<Image>>,
    /// Held while the members of the set change; a remount needs it alone.
    changing: RwLock<()>,
    unmounted: RwLock<bool>,
}

impl MountedImage {
    /// Returns the image in `spec`, which a front-end is about to serve.
    #[must_use]
    pub fn new(spec: Spec, image: Image) -> Self {
        let (root, limits) = (image.fs().root(), image.fs().limits());
        Self {
            spec,
            root,
            limits,
            image: RwLock::new(Some(image)),
            changing: RwLock::default(),
            unmounted: RwLock::default(),
        }
    }

    /// Returns true if the front-end has one of these references to a file that was removed: it
    /// would lose its contents if the file system was closed.
    pub fn has_removed(&self, references: &[(Ino, u64)]) -> bool {
        self.image.read().as_ref().is_some_and(|image| has_removed(&**image.fs(), references))
    }

    /// Opens the file system again as `options` say. The front-end does not use it meanwhile, and
    /// has these references. If that is refused, everything is as it was.
    ///
    /// # Errors
    /// If it is not safe to write, or is used by others; if files that were removed are still open;
    /// if something cannot be written; or if its set is being changed.
    pub fn reopen(&self, options: &OpenOptions, references: &[(Ino, u64)]) -> Result<()> {
        self.while_closed(options, references, |_| Ok(()))
    }

    /// Returns what the file system becomes if it grows, as [`Growing::plan`].
    ///
    /// # Errors
    /// As [`Growing::plan`].
    pub fn plan_growth(&self, size: Option<u64>, force: bool) -> Result<Growing> {
        self.look(|image| Growing::plan(&self.place(image), size, force))
    }

    /// Makes the file system larger and opens it again, as [`Self::reopen`].
    ///
    /// # Errors
    /// As [`Self::reopen`], and [`Growing::grow`].
    pub fn grow(
        &self,
        growing: &Growing,
        options: &OpenOptions,
        references: &[(Ino, u64)],
        report: &mut Report<'_>,
    ) -> Result<Resize> {
        let mut each_group =
            |done: u32, total: u32| report(Progress { done: done.into(), total: total.into() });
        self.while_closed(options, references, |claim| Ok(growing.grow(claim, &mut each_group)?.growth))
    }

    /// Closes the file system, does `work` on its device, and opens it again.
    fn while_closed<T>(
        &self,
        options: &OpenOptions,
        references: &[(Ino, u64)],
        work: impl FnOnce(Claim) -> Result<T>,
    ) -> Result<T> {
        let Some(_alone) = self.changing.try_write() else {
            return Err(Error::new("the members of the set are being changed"));
        };
        let unmounted = self.unmounted.read();
        let mut now = self.image.write();
        let Some(image) = now.as_ref().filter(|_| !*unmounted) else { return Err(self.gone().into()) };
        let overridden = options.force && image.objections().iter().all(|objection| objection.overridable);
        if !(options.read_only || image.objections().is_empty() || overridden) {
            return Err(Error::new(reasons(image.objections())));
        }
        if has_removed(&**image.fs(), references) {
            return Err(Error::new("files that were removed are still open; close them first"));
        }
        if !options.read_only && image.tree.is_damaged() {
            return Err(Error::new(
                "damage was met since it was mounted, or metadata that could not be read; unmount it, and \
                 check it with spindle fsck",
            ));
        }
        let spec = self.place(image);
        image.fs().unmount()?;
        *now = None;
        let claim = match options.claim {
            // The mount has it.
            Claim::Checked if spec == self.spec => Claim::Elsewhere,
            Claim::Checked => Claim::Kept,
            claim => claim,
        };
        let done = work(claim);
        let open = |read_only| -> Result<Image> {
            let image = Image::open(&spec, &OpenOptions { read_only, claim, ..options.clone() })?;
            if !read_only {
                image.check_writable()?;
            }
            for &(ino, count) in references {
                image.tree.take_references(ino, count).context(format_args!("inode {}", ino.0))?;
            }
            Ok(image)
        };
        let opened = open(options.read_only);
        let refused = opened.as_ref().err().cloned();
        let image = match opened {
            Err(error) if !options.read_only => open(true).map_err(|again| {
                Error::new(format!("{error}; and it cannot be opened to read again: {again}; unmount it"))
            }),
            opened => opened,
        };
        *now = Some(image?);
        refused.map_or(done, Err)
    }

    /// Sets when reading changes access times.
    pub fn set_atime(&self, atime: AtimePolicy) {
        if let Some(image) = &*self.image.read() {
            image.tree.set_atime(atime);
        }
    }

    /// Tunes the file system.
    ///
    /// # Errors
    /// As [`Tuning::apply_mounted`]; if it is mounted read-only, or has nothing to tune.
    pub fn tune(&self, tuning: &Tuning) -> Result<Tuned> {
        self.look(|image| match &image.kind {
            Opened::Ffs(ffs) if ffs.read_only() => {
                Err(Error::new("it is mounted read-only; unmount it, or remount it with rw"))
            }
            Opened::Ffs(ffs) => Ok(ffs.change_superblock(|superblock| tuning.apply_mounted(superblock))?),
            Opened::Old(_) | Opened::Mfs(..) => {
                Err(Error::new("a file system of this kind has nothing to tune"))
            }
        })
    }

    /// Does what is asked about quotas.
    ///
    /// # Errors
    /// As [`Image::quota`].
    pub fn quota(&self, task: &Task, report: &mut Report<'_>) -> Result<Vec<Sheet>> {
        self.look(|image| image.quota(task, report))
    }

    /// Makes a snapshot under a path in the file system. Returns its directory, of which a
    /// front-end may know that the name is not there.
    ///
    /// # Errors
    /// As [`Image::make_snapshot`].
    pub fn make_snapshot(&self, path: &[u8]) -> Result<Ino> {
        self.look(|image| image.make_snapshot(path))
    }

    /// Removes a snapshot by its path in the file system. Returns its directory, of which a
    /// front-end may know that the name is there.
    ///
    /// # Errors
    /// As [`Image::remove_snapshot`].
    pub fn remove_snapshot(&self, path: &[u8]) -> Result<Ino> {
        self.look(|image| image.remove_snapshot(path))
    }

    /// Returns the snapshots of the file system. `report` hears of nothing, but may end the work.
    ///
    /// # Errors
    /// As [`list`].
    pub fn snapshots(&self, report: &mut Report<'_>) -> Result<Vec<Snapshot>> {
        self.look(|image| list(image, &mut || report(Progress::default())))
    }

    /// Returns what is mounted on the directory `dir` with this device number, or was until it was
    /// `detached`. Of a set, a member that somebody has written over is not used from now on.
    ///
    /// # Errors
    /// If it could not be opened again at a remount.
    pub fn describe(&self, dir: &Path, device: &str, detached: bool) -> Result<Description> {
        self.look(|image| {
            if let Opened::Mfs(_, set) = &image.kind {
                set.set.look_for_strangers();
            }
            Ok(Description {
                image: self.place(image).to_string(),
                dir: dir.to_string_lossy().into_owned(),
                device: device.to_owned(),
                read_only: image.fs().read_only(),
                detached,
                storage: match &image.kind {
                    Opened::Mfs(mfs, _) => Some(mfs.storage_use()),
                    Opened::Ffs(_) | Opened::Old(_) => None,
                },
                set: match &image.kind {
                    Opened::Mfs(_, set) => Some(set.says()),
                    Opened::Ffs(_) | Opened::Old(_) => None,
                },
            })
        })
    }

    /// Returns where what is mounted is found: of a set, by a member that is still there.
    fn place(&self, image: &Image) -> Spec {
        match &image.kind {
            Opened::Mfs(_, set) => set.place(&self.spec),
            Opened::Ffs(_) | Opened::Old(_) => self.spec.clone(),
        }
    }

    /// Changes the members of the set.
    ///
    /// # Errors
    /// If it is not a set, is mounted read-only, or cannot be changed so.
    pub fn change_members(&self, change: &Change, report: &mut Report<'_>) -> Result<Outcome> {
        let _changing = self.changing.read();
        let set = self.look(|image| match &image.kind {
            Opened::Mfs(..) if image.fs().read_only() => Err(Error::new("the set is mounted read-only")),
            Opened::Mfs(_, set) => Ok(set.clone()),
            Opened::Ffs(_) | Opened::Old(_) => Err(Error::new("it is not a set")),
        })?;
        Ok(Outcome { mounted: true, ..set.apply(change, report)? })
    }

    /// Returns the name under which what is mounted is asked for: that of the set, or of the image.
    ///
    /// # Errors
    /// As [`Name::of_image`].
    pub fn name(&self) -> Result<Name> {
        self.look(|image| match &image.kind {
            Opened::Mfs(_, set) => Name::of_set(set.set.label.set_id, &self.spec),
            Opened::Ffs(_) | Opened::Old(_) => Name::of_image(&self.spec),
        })
    }

    /// Does something beside the front-end. The unmount waits for it; nothing is begun afterwards,
    /// which could leave the image marked as in use.
    fn look<T>(&self, work: impl FnOnce(&Image) -> Result<T>) -> Result<T> {
        let unmounted = self.unmounted.read();
        if *unmounted {
            return Err(Error::new(format!("{}: is being unmounted; try again", self.spec)));
        }
        self.image.read().as_ref().map_or_else(|| Err(self.gone().into()), work)
    }

    fn with<T>(
        &self,
        call: impl FnOnce(&dyn FileSystem) -> spindle_vfs::Result<T>,
    ) -> spindle_vfs::Result<T> {
        self.image.read().as_ref().map_or_else(|| Err(self.gone()), |image| call(&**image.fs()))
    }

    /// Returns the error of everything that is done when the image is not open.
    fn gone(&self) -> spindle_vfs::Error {
        let reason = "it could not be opened again at a remount; unmount it".to_owned();
        spindle_device::Error::Unusable { device: self.spec.to_string(), reason }.into()
    }
}

fn has_removed(fs: &dyn FileSystem, references: &[(Ino, u64)]) -> bool {
    references.iter().any(|&(ino, _)| fs.getattr(ino).is_ok_and(|attr| attr.nlink == 0))
}

impl FileSystem for MountedImage {
    fn root(&self) -> Ino {
        self.root
    }

    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn read_only(&self) -> bool {
        self.image.read().as_ref().is_none_or(|image| image.fs().read_only())
    }

    fn forget(&self, ino: Ino, count: u64) {
        if let Some(image) = &*self.image.read() {
            image.fs().forget(ino, count);
        }
    }

    fn held(&self, ino: Ino, sink: &mut dyn FnMut(Range<u64>)) -> spindle_vfs::Result<()> {
        self.with(|fs| fs.held(ino, sink))
    }

    fn is_snapshot(&self, ino: Ino) -> bool {
        self.image.read().as_ref().is_some_and(|image| image.fs().is_snapshot(ino))
    }

    fn passed_over(&self) -> Vec<String> {
        self.image.read().as_ref().map(|image| image.fs().passed_over()).unwrap_or_default()
    }

    /// Fails too if damage was met while it could be changed, or metadata could not be read: it is
    /// not marked clean then.
    fn unmount(&self) -> spindle_vfs::Result<()> {
        *self.unmounted.write() = true;
        let could_change = !self.read_only();
        let unmounted = self.with(|fs| fs.unmount()).and_then(|()| {
            let is_damaged = self.image.read().as_ref().is_some_and(|image| image.tree.is_damaged());
            if could_change && is_damaged {
                let what = "damage was met while it was mounted, or metadata that could not be read; \
                            check it with spindle fsck";
                return Err(spindle_vfs::Error::corrupt(what, self.spec.to_string()));
            }
            Ok(())
        });
        // Its devices are free when this returns.
        *self.image.write() = None;
        unmounted
    }

    fn trim(&self, bytes: Range<u64>, min_bytes: u64) -> spindle_vfs::Result<u64> {
        self.with(|fs| fs.trim(bytes, min_bytes))
    }

    fn statfs(&self) -> spindle_vfs::Result<FsStat> {
        self.with(|fs| fs.statfs())
    }

    fn statfs_at(&self, ino: Ino) -> spindle_vfs::Result<FsStat> {
        self.with(|fs| fs.statfs_at(ino))
    }

    fn getattr(&self, ino: Ino) -> spindle_vfs::Result<Attr> {
        self.with(|fs| fs.getattr(ino))
    }

    fn setattr(&self, ino: Ino, set: &SetAttr, by: Privilege) -> spindle_vfs::Result<Attr> {
        self.with(|fs| fs.setattr(ino, set, by))
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> spindle_vfs::Result<Attr> {
        self.with(|fs| fs.lookup(dir, name))
    }

    fn reference(&self, ino: Ino) -> spindle_vfs::Result<Attr> {
        self.with(|fs| fs.reference(ino))
    }

    fn readdir(
        &self,
        dir: Ino,
        from: u64,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> spindle_vfs::Result<()> {
        self.with(|fs| fs.readdir(dir, from, sink))
    }

    fn create(&self, dir: Ino, name: &[u8], node: &NewNode<'_>, by: Privilege) -> spindle_vfs::Result<Attr> {
        self.with(|fs| fs.create(dir, name, node, by))
    }

    fn create_unnamed(&self, dir: Ino, node: &NewNode<'_>, by: Privilege) -> spindle_vfs::Result<Attr> {
        self.with(|fs| fs.create_unnamed(dir, node, by))
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8], by: Privilege) -> spindle_vfs::Result<Attr> {
        self.with(|fs| fs.link(ino, dir, name, by))
    }

    fn unlink(&self, dir: Ino, name: &[u8]) -> spindle_vfs::Result<()> {
        self.with(|fs| fs.unlink(dir, name))
    }

    fn rmdir(&self, dir: Ino, name: &[u8]) -> spindle_vfs::Result<()> {
        self.with(|fs| fs.rmdir(dir, name))
    }

    fn rename(
        &self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        mode: RenameMode,
        by: Privilege,
    ) -> spindle_vfs::Result<()> {
        self.with(|fs| fs.rename(from_dir, from, to_dir, to, mode, by))
    }

    fn readlink(&self, ino: Ino) -> spindle_vfs::Result<Vec<u8>> {
        self.with(|fs| fs.readlink(ino))
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> spindle_vfs::Result<usize> {
        self.with(|fs| fs.read(ino, offset, buf))
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> spindle_vfs::Result<usize> {
        self.with(|fs| fs.write(ino, offset, data, by))
    }

    fn write_late(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> spindle_vfs::Result<usize> {
        self.with(|fs| fs.write_late(ino, offset, data, by))
    }

    fn fallocate(
        &self,
        ino: Ino,
        mode: FallocateMode,
        offset: u64,
        len: u64,
        by: Privilege,
    ) -> spindle_vfs::Result<()> {
        self.with(|fs| fs.fallocate(ino, mode, offset, len, by))
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> spindle_vfs::Result<u64> {
        self.with(|fs| fs.seek(ino, offset, what))
    }

    fn readable_after(&self, ino: Ino, offset: u64) -> spindle_vfs::Result<u64> {
        self.with(|fs| fs.readable_after(ino, offset))
    }

    fn fsync(&self, ino: Ino, data_only: bool) -> spindle_vfs::Result<()> {
        self.with(|fs| fs.fsync(ino, data_only))
    }

    fn sync(&self) -> spindle_vfs::Result<()> {
        self.with(|fs| fs.sync())
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> spindle_vfs::Result<Vec<u8>> {
        self.with(|fs| fs.getxattr(ino, name))
    }

    fn setxattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        by: Privilege,
    ) -> spindle_vfs::Result<()> {
        self.with(|fs| fs.setxattr(ino, name, value, mode, by))
    }

    fn listxattr(&self, ino: Ino) -> spindle_vfs::Result<Vec<Vec<u8>>> {
        self.with(|fs| fs.listxattr(ino))
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> spindle_vfs::Result<()> {
        self.with(|fs| fs.removexattr(ino, name))
    }
}
