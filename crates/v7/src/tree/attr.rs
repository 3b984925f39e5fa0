//! The attributes of inodes.

use crate::format::dinode::{Dinode, id, storable};
use crate::tree::inode::{Inode, State};
use crate::tree::mount::V7;
use spindle_tree::{Operations, Tree};
use spindle_vfs::{Attr, Error, FileKind, Ino, Result, SetAttr, SetTime};

impl V7 {
    /// Returns the attributes of a file.
    pub(crate) fn attributes_of(&self, inode: &Inode, state: &State) -> Attr {
        let di = &state.di;
        Attr {
            ino: Ino(inode.ino.into()),
            generation: di.generation.into(),
            kind: di.kind().unwrap_or(FileKind::Regular),
            perm: u32::from(di.mode) & 0o7777,
            nlink: di.nlink.into(),
            uid: di.uid.into(),
            gid: di.gid.into(),
            rdev: di.rdev(),
            size: di.size,
            blocks512: self.volume.blocks_held(inode.ino, di) * u64::from(self.layout().format.bsize) / 512,
            blksize: self.layout().format.bsize,
            atime: state.atime_pending.lock().unwrap_or(di.atime),
            mtime: di.mtime,
            ctime: di.ctime,
            birthtime: None,
            flags: 0,
        }
    }

    /// Changes attributes: all of them, or none.
    pub(crate) fn set_attributes(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let inode = self.iget_ino(ino)?;
        let mut state = inode.state.write();
        if set.flags.is_some() {
            return Err(Error::NotSupported);
        }
        if set.size.is_some() {
            check_regular(&state.di)?;
        }
        let (uid, gid) = (set.uid.map(id).transpose()?, set.gid.map(id).transpose()?);
        let now = self.now();
        self.volume.transact(&mut *state, |tx, state| {
            let di = &mut state.di;
            if let Some(size) = set.size {
                if size < di.size {
                    self.shrink(tx, &inode, di, size)?;
                } else {
                    self.extend_file(tx, &inode, di, size)?;
                }
                di.mtime = now;
            }
            di.uid = uid.unwrap_or(di.uid);
            di.gid = gid.unwrap_or(di.gid);
            if let Some(perm) = set.perm {
                di.mode = di.mode & 0o170_000 | u16::try_from(perm & 0o7777).unwrap_or(0);
            }
            let given = |time: SetTime| match time {
                SetTime::Now => now,
                SetTime::At(time) => storable(time),
            };
            di.mtime = set.mtime.map_or(di.mtime, given);
            di.ctime = set.ctime.map_or(now, storable);
            if let Some(atime) = set.atime {
                di.atime = given(atime);
                *state.atime_pending.lock() = None;
            }
            self.volume.store(tx, inode.ino, &state.di)?;
            Ok(self.attributes_of(&inode, state))
        })
    }
}

/// Checks that an inode is a regular file.
pub(crate) fn check_regular(di: &Dinode) -> Result<()> {
    match di.kind() {
        Some(FileKind::Regular) => Ok(()),
        Some(FileKind::Directory) => Err(Error::IsDirectory),
        _ => Err(Error::Invalid),
    }
}
