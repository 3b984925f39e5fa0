//! Taking the log off a file system that is not mounted.
//!
//! The log is brought to its end first. Then the superblock, which says "clean", forgets it; only
//! then its file goes. A crash in between leaves an ordinary file that nobody may remove, or with
//! NetBSD's dialect one without a name for its check to find.

use crate::format::dialect::Dialect;
use crate::format::layout::ROOT_INO;
use crate::log::LogUse;
use crate::log::locate::LogPlace;
use crate::tree::log_file::LOG_NAME;
use crate::tree::mount::{Ffs, OpenOptions};
use spindle_clock::Clock;
use spindle_device::Device;
use spindle_tree::Operations;
use spindle_vfs::{Error, FileSystem, Ino, Privilege, Result, SetAttr};
use std::sync::Arc;

/// Takes the log off, with `force` in spite of objections that can be overridden; gives where it
/// was, if there was one. The caller locks the device, and has not mounted what is on it.
///
/// # Errors
/// [`Error::ReadOnly`] when something speaks against writing; as [`Ffs::open`]; device errors.
pub fn remove_log(device: &Arc<dyn Device>, clock: &Arc<dyn Clock>, force: bool) -> Result<Option<LogPlace>> {
    recover(device, clock, force)?;
    let mut ffs = open(device, clock, force, LogUse::Never)?;
    let Some(place) = ffs.superblock().log_place() else { return Ok(None) };
    {
        let mut superblock = ffs.volume.superblock.lock();
        superblock.set_log_place(None);
        superblock.write(&**device)?;
        device.flush()?;
    }
    // Unset if the space belongs to somebody else by now.
    let removed = ffs.log_ino.take().map_or(Ok(()), |ino| ffs.remove_log_file(ino));
    ffs.unmount()?;
    removed.map(|()| Some(place))
}

/// Replays the log of a file system that was not unmounted, if it has one, and leaves it clean. The
/// caller locks the device, and has not mounted what is on it.
///
/// # Errors
/// As [`remove_log`].
pub fn recover(device: &Arc<dyn Device>, clock: &Arc<dyn Clock>, force: bool) -> Result<()> {
    open(device, clock, force, LogUse::IfThere)?.unmount()
}

fn open(device: &Arc<dyn Device>, clock: &Arc<dyn Clock>, force: bool, log: LogUse) -> Result<Ffs> {
    let options = OpenOptions { force, log, ..OpenOptions::default() };
    let ffs = Ffs::open(device.clone(), clock.clone(), &options)?;
    if ffs.read_only() { Err(Error::ReadOnly) } else { Ok(ffs) }
}

impl Ffs {
    fn remove_log_file(&self, ino: u32) -> Result<()> {
        if self.volume.dialect == Dialect::NetBsd {
            let inode = self.iget(ino)?;
            {
                let mut state = inode.state.write();
                self.volume.transact_naming(&mut *state, |tx, state| {
                    state.di.nlink = 0;
                    self.volume.store(tx, ino, &state.di)
                })?;
            }
            return self.free_if_orphan(&inode);
        }
        let (root, ino) = (Ino(ROOT_INO.into()), Ino(ino.into()));
        let found = self.lookup(root, LOG_NAME)?;
        self.forget(found.ino, 1);
        if found.ino != ino {
            return Err(Error::NotFound);
        }
        if found.flags != 0 {
            self.setattr(ino, &SetAttr { flags: Some(0), ..SetAttr::default() }, Privilege::Root)?;
        }
        self.unlink(root, LOG_NAME)
    }
}
