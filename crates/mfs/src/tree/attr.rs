//! The attributes of files.

use crate::format::header::{Contents, Header};
use crate::tree::inode::{Inode, State};
use crate::tree::mount::Mfs;
use crate::volume::tx::OPERATION_BYTES;
use spindle_tree::{Operations, Tree};
use spindle_vfs::{Attr, Error, FileKind, Ino, Rdev, Result, SetAttr, SetTime};

impl Mfs {
    /// Returns the attributes of a file.
    pub(crate) fn attributes_of(&self, inode: &Inode, state: &State) -> Attr {
        let di = &state.di;
        let stored = match &di.contents {
            Contents::Extents(extents) => extents.blocks() * self.bsize(di),
            Contents::Names(map) => map.blocks * self.layout().block_bytes() as u64,
            Contents::Immediate(_) | Contents::Node(_) => 0,
        };
        Attr {
            ino: Ino(inode.ino),
            generation: di.generation.into(),
            kind: di.kind().unwrap_or(FileKind::Regular),
            perm: u32::from(di.mode) & 0o7777,
            nlink: di.nlink.into(),
            uid: di.uid,
            gid: di.gid,
            rdev: if let Contents::Node(rdev) = di.contents { rdev } else { Rdev::default() },
            size: di.size,
            blocks512: stored / 512,
            blksize: self.layout().class(di.class.into()).structure.block_bytes,
            atime: state.atime_pending.lock().unwrap_or(di.times[0]),
            mtime: di.times[1],
            ctime: di.times[2],
            birthtime: Some(di.times[3]),
            flags: di.flags,
        }
    }

    /// Changes attributes: all of them, or none.
    pub(crate) fn set_attributes(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let inode = self.iget_ino(ino)?;
        let mut state = inode.state.write();
        if set.size.is_some() {
            check_regular(&state.di)?;
        }
        let most = self.layout().class(state.di.class.into()).file_size_max();
        if set.size.is_some_and(|size| size > most) {
            return Err(Error::TooBig);
        }
        let now = self.now();
        loop {
            // A file of very many extents is shortened in several transactions.
            let done = self.volume.transact(OPERATION_BYTES, &mut *state, |tx, state| {
                let di = &mut state.di;
                if let Some(size) = set.size {
                    let whole = if size < di.size {
                        self.shrink_some(tx, &inode, di, size)?
                    } else {
                        self.extend_file(tx, (inode.ino, &inode.stream), di, size)?;
                        true
                    };
                    di.times[1] = now;
                    if !whole {
                        self.volume.store(tx, inode.ino, di)?;
                        return Ok(None);
                    }
                }
                di.uid = set.uid.unwrap_or(di.uid);
                di.gid = set.gid.unwrap_or(di.gid);
                di.flags = set.flags.unwrap_or(di.flags);
                if let Some(perm) = set.perm {
                    di.mode = di.mode & 0o170_000 | u16::try_from(perm & 0o7777).unwrap_or(0);
                }
                let given = |time: SetTime| match time {
                    SetTime::Now => now,
                    SetTime::At(time) => time,
                };
                di.times[1] = set.mtime.map_or(di.times[1], given);
                di.times[2] = set.ctime.unwrap_or(now);
                di.times[3] = set.birthtime.unwrap_or(di.times[3]);
                if let Some(atime) = set.atime {
                    di.times[0] = given(atime);
                    *state.atime_pending.lock() = None;
                }
                self.volume.store(tx, inode.ino, &state.di)?;
                Ok(Some(self.attributes_of(&inode, state)))
            })?;
            if let Some(attr) = done {
                return Ok(attr);
            }
        }
    }
}

/// Checks that a file is a regular one.
pub(crate) fn check_regular(di: &Header) -> Result<()> {
    match di.kind() {
        Some(FileKind::Regular) => Ok(()),
        Some(FileKind::Directory) => Err(Error::IsDirectory),
        _ => Err(Error::Invalid),
    }
}
