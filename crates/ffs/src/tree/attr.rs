//! Attributes: what an inode says of its file, as front-ends have it, and changing it.

use crate::format::dinode::Dinode;
use crate::format::layout::{InodeFormat, Version};
use crate::format::ondisk::SF_SNAPSHOT;
use crate::tree::file::Content;
use crate::tree::inode::{Inode, State};
use crate::tree::mount::Ffs;
use crate::volume::tx::{Progress, Tx};
use spindle_cache::Epoch;
use spindle_clock::Timestamp;
use spindle_tree::{Operations, Tree};
use spindle_vfs::{Attr, Error, FileKind, Ino, Privilege, Rdev, Result, SetAttr, SetTime};
use std::cmp::Ordering;

impl Ffs {
    /// Returns the attributes of a file.
    pub(crate) fn attributes_of(&self, inode: &Inode, state: &State) -> Attr {
        let di = &state.di;
        let kind = di.kind().unwrap_or(FileKind::Regular);
        let device = matches!(kind, FileKind::BlockDevice | FileKind::CharDevice);
        Attr {
            ino: Ino(inode.ino.into()),
            generation: di.r#gen.into(),
            kind,
            perm: u32::from(di.mode) & 0o7777,
            nlink: di.nlink.into(),
            uid: di.uid,
            gid: di.gid,
            rdev: if device { di.rdev(self.volume.dialect) } else { Rdev::default() },
            size: di.size,
            blocks512: self.volume.blocks_counted(inode.ino, di),
            blksize: self.layout().fs_bsize,
            atime: state.atime_pending.lock().unwrap_or(di.atime),
            mtime: di.mtime,
            ctime: di.ctime,
            birthtime: (self.layout().version == Version::Ufs2).then_some(di.birthtime),
            flags: di.flags,
        }
    }

    /// Returns a time as this format can keep it.
    pub(crate) fn storable(&self, time: Timestamp) -> Timestamp {
        if self.layout().version == Version::Ufs2 {
            return time;
        }
        let secs = time.secs.clamp(i32::MIN.into(), i32::MAX.into());
        let nanos = match self.layout().inode_format {
            InodeFormat::Old => 0,
            InodeFormat::Sun => time.nanos / 1000 * 1000,
            InodeFormat::New => time.nanos,
        };
        Timestamp::new(secs, if secs == time.secs { nanos } else { 0 })
    }

    pub(crate) fn check_id(&self, id: u32) -> Result<u32> {
        if self.layout().inode_format == InodeFormat::Old && id > 0xffff {
            Err(Error::Overflow)
        } else {
            Ok(id)
        }
    }

    pub(crate) fn set_attributes(&self, ino: Ino, set: &SetAttr, by: Privilege) -> Result<Attr> {
        let inode = self.iget_ino(ino)?;
        self.check_not_kept(inode.ino)?;
        for id in [set.uid, set.gid].into_iter().flatten() {
            self.check_id(id)?;
        }
        if set.flags.is_some() && self.layout().inode_format != InodeFormat::New {
            return Err(Error::NotSupported);
        }
        if set.uid.is_some() || set.gid.is_some() {
            self.make_room_for_quotas()?;
        }
        let mut state = inode.state.write();
        self.check_no_snapshot(&state.di)?;
        if set.flags.is_some_and(|flags| flags & SF_SNAPSHOT != 0) {
            return Err(Error::NotPermitted);
        }
        let Some(size) = set.size else {
            return self
                .volume
                .transact(&mut *state, |tx, state| self.set_fields(tx, &inode, state, set, by));
        };
        check_regular(&state.di)?;
        loop {
            // Until it has succeeded, no commit is the one that made all of it durable.
            state.derived.mapped_in = Epoch::MAX;
            let changed = self.volume.transact_in_parts(&mut *state, |tx, state| {
                let resized = self.volume.note(self.resize(tx, &inode, &mut state.di, size, by))?;
                if let Progress::Partial(()) = resized {
                    self.volume.store(tx, inode.ino, &state.di)?;
                    return Ok(Progress::Partial(self.attributes_of(&inode, state)));
                }
                state.derived.mapped_in = self.volume.cache.epoch();
                self.set_fields(tx, &inode, state, set, by).map(Progress::Done)
            })?;
            if let Progress::Done(attr) = changed {
                return Ok(attr);
            }
        }
    }

    /// Gives a file another size.
    fn resize(
        &self,
        tx: &Tx<'_>,
        inode: &Inode,
        di: &mut Dinode,
        size: u64,
        by: Privilege,
    ) -> Result<Progress<()>> {
        match size.cmp(&di.size) {
            Ordering::Less => self.shrink_exactly(tx, inode.ino, di, size, Content::Data(&inode.stream), by),
            Ordering::Greater => self.extend_file(tx, inode, di, size, by).map(Progress::Done),
            Ordering::Equal => Ok(Progress::Done(())),
        }
    }

    /// Sets all attributes but the size. What a file uses goes over to its new owner and group.
    fn set_fields(
        &self,
        tx: &Tx<'_>,
        inode: &Inode,
        state: &mut State,
        set: &SetAttr,
        by: Privilege,
    ) -> Result<Attr> {
        let now = self.now();
        let di = &mut state.di;
        let bill = self.volume.bill(inode.ino, di);
        if set.size.is_some() {
            di.mtime = now;
        }
        if let Some(uid) = set.uid {
            di.uid = uid;
        }
        if let Some(gid) = set.gid {
            di.gid = gid;
        }
        let old_mode = di.mode;
        if let Some(perm) = set.perm {
            di.mode = di.mode & 0o170_000 | u16::try_from(perm & 0o7777).unwrap_or(0);
        }
        if let Some(flags) = set.flags {
            di.flags = flags;
        }
        self.volume.charge_change(tx, bill, self.volume.bill(inode.ino, di), by)?;
        if (old_mode ^ di.mode) & 0o777 != 0 {
            self.acl_follows_chmod(tx, inode.ino, di, by)?;
        }
        let given = |time: SetTime| match time {
            SetTime::Now => now,
            SetTime::At(time) => self.storable(time),
        };
        if let Some(atime) = set.atime {
            di.atime = given(atime);
        }
        if let Some(mtime) = set.mtime {
            di.mtime = given(mtime);
        }
        if let Some(birthtime) = set.birthtime {
            di.birthtime = birthtime;
        }
        di.ctime = set.ctime.map_or(now, |ctime| self.storable(ctime));
        self.volume.store(tx, inode.ino, &state.di)?;
        if set.atime.is_some() {
            *state.atime_pending.lock() = None;
        }
        Ok(self.attributes_of(inode, state))
    }
}

pub(crate) fn check_regular(di: &Dinode) -> Result<()> {
    match di.kind() {
        Some(FileKind::Regular) => Ok(()),
        Some(FileKind::Directory) => Err(Error::IsDirectory),
        _ => Err(Error::Invalid),
    }
}
