//! The operations: [`FileSystem`] for UFS.
//!
//! Each one takes the locks of the inodes it touches in the order of [`crate::inode`], looks, decides, begins a
//! transaction, and changes. What can fail for want of space is done before what cannot be undone.

use crate::dinode::Dinode;
use crate::dir::{entries, name_of};
use crate::file::Content;
use crate::inode::{Inode, State};
use crate::layout::{InodeFormat, Version};
use crate::mount::{Ffs, ROOT_INO};
use crate::ondisk::MAXNAMLEN;
use crate::units::{Lbn, index};
use spindle_cache::{GroupId, Stream, Tx};
use spindle_clock::{RwLockWriteGuard, Timestamp};
use spindle_vfs::{
    AtimePolicy, Attr, DirEntry, Error, FallocateMode, FileKind, FileSystem, FsStat, Ino, Limits, NewNode,
    Privilege, Rdev, RenameMode, Result, Seek, SetAttr, SetTime, XattrMode,
};
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Most names of one file (`UFS_LINK_MAX`).
pub(crate) const LINK_MAX: u16 = 32767;
/// Seconds after which a relative access time is renewed.
const DAY: i64 = 86_400;

impl Ffs {
    fn attr(&self, inode: &Inode, state: &State) -> Attr {
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
            rdev: if device { di.rdev(self.dialect) } else { Rdev::default() },
            size: di.size,
            blocks512: di.blocks,
            blksize: self.layout.fs_bsize,
            atime: state.atime_pending.lock().unwrap_or(di.atime),
            mtime: di.mtime,
            ctime: di.ctime,
            birthtime: (self.layout.version == Version::Ufs2).then_some(di.birthtime),
            flags: di.flags,
        }
    }

    /// A time as this format can keep it.
    fn storable(&self, time: Timestamp) -> Timestamp {
        if self.layout.version == Version::Ufs2 {
            return time;
        }
        let secs = time.secs.clamp(i32::MIN.into(), i32::MAX.into());
        let nanos = match self.layout.inode_format {
            InodeFormat::Old => 0,
            InodeFormat::Sun => time.nanos / 1000 * 1000,
            InodeFormat::New => time.nanos,
        };
        Timestamp::new(secs, if secs == time.secs { nanos } else { 0 })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.storable(self.clock.now())
    }

    fn check_id(&self, id: u32) -> Result<u32> {
        if self.layout.inode_format == InodeFormat::Old && id > 0xffff {
            Err(Error::Overflow)
        } else {
            Ok(id)
        }
    }

    /// A directory's inode.
    pub(crate) fn directory(&self, ino: Ino) -> Result<Arc<Inode>> {
        let inode = self.iget_ino(ino)?;
        if inode.is_directory { Ok(inode) } else { Err(Error::NotDirectory) }
    }

    /// Notes that a file was read.
    fn touch(&self, state: &State) {
        let now = self.now();
        let mut pending = state.atime_pending.lock();
        let last = pending.unwrap_or(state.di.atime);
        let due = match self.atime {
            AtimePolicy::Never => false,
            AtimePolicy::Always => true,
            AtimePolicy::Relative => {
                last <= state.di.mtime || last <= state.di.ctime || last.secs.saturating_add(DAY) <= now.secs
            }
        };
        if due && !self.is_read_only() {
            *pending = Some(now);
        }
    }

    /// Creates the inode behind a new name: with its block, if it is a directory, and its target, if it is a
    /// symbolic link. Nothing is left behind after an error.
    fn make_inode(
        &self,
        tx: &Tx<'_>,
        parent: (u32, &Dinode),
        node: &NewNode<'_>,
        by: Privilege,
    ) -> Result<(u32, Dinode, Arc<Stream>)> {
        let directory = node.kind == FileKind::Directory;
        let now = self.now();
        let mode = node.kind.mode_bits() | node.perm & 0o7777;
        let mut di = Dinode {
            mode: u16::try_from(mode).unwrap_or(u16::MAX),
            nlink: if directory { 2 } else { 1 },
            uid: self.check_id(node.uid)?,
            gid: self.check_id(node.gid)?,
            atime: now,
            mtime: now,
            ctime: now,
            birthtime: now,
            ..Dinode::free(self.new_generation())
        };
        if matches!(node.kind, FileKind::BlockDevice | FileKind::CharDevice) {
            di.set_rdev(self.dialect, node.rdev, self.layout.version)?;
        }
        let ino = self.alloc_inode(tx, parent.0, directory)?;
        let stream = self.new_stream();
        let filled = match node.kind {
            FileKind::Directory => {
                if self.layout.version == Version::Ufs2 {
                    di.dirdepth = parent.1.dirdepth.wrapping_add(1);
                }
                self.dir_init(tx, ino, &mut di, parent.0, by)
            }
            FileKind::Symlink => self.set_target(tx, (ino, &stream), &mut di, node.target, by),
            _ => Ok(()),
        };
        if let Err(error) = filled {
            self.free_inode(tx, ino, directory)?;
            return Err(error);
        }
        self.store(tx, ino, &di)?;
        Ok((ino, di, stream))
    }

    fn set_target(
        &self,
        tx: &Tx<'_>,
        (ino, stream): (u32, &Arc<Stream>),
        di: &mut Dinode,
        target: &[u8],
        by: Privilege,
    ) -> Result<()> {
        if target.len() < self.layout.fs_maxsymlinklen as usize {
            di.inline_target = Some(target.to_vec());
            di.size = target.len() as u64;
            return Ok(());
        }
        match self.write_file(tx, (ino, stream), di, 0, target, by)? {
            n if n == target.len() => Ok(()),
            _ => {
                self.shrink(tx, ino, di, 0, Content::Data(stream))?;
                Err(Error::NoSpace)
            }
        }
    }

    fn set_attributes(&self, ino: Ino, set: &SetAttr, by: Privilege) -> Result<Attr> {
        let inode = self.iget_ino(ino)?;
        self.check_not_log(inode.ino)?;
        let mut state = inode.state.write();
        let now = self.now();
        if let Some(size) = set.size {
            check_regular(&state.di)?;
            // Until it has succeeded, no commit is the one that made all of it durable.
            state.mapped_in = GroupId::MAX;
            if size < state.di.size {
                let result = self.shrink_in_steps(&inode, &mut state.di, size);
                self.note(result)?;
            }
        }
        self.transact(|tx| {
            if let Some(size) = set.size {
                let di = &mut state.di;
                let result = match size.cmp(&di.size) {
                    Ordering::Less => {
                        self.shrink_exactly(tx, inode.ino, di, size, Content::Data(&inode.stream))
                    }
                    Ordering::Greater => self.extend_file(tx, &inode, di, size, by),
                    Ordering::Equal => Ok(()),
                };
                self.store(tx, inode.ino, &state.di)?;
                self.note(result)?;
                state.mapped_in = self.cache.group();
            }
            let di = &mut state.di;
            if set.size.is_some() {
                di.mtime = now;
            }
            if let Some(uid) = set.uid {
                di.uid = self.check_id(uid)?;
            }
            if let Some(gid) = set.gid {
                di.gid = self.check_id(gid)?;
            }
            if let Some(perm) = set.perm {
                di.mode = di.mode & 0o170_000 | u16::try_from(perm & 0o7777).unwrap_or(0);
            }
            if let Some(flags) = set.flags {
                if self.layout.inode_format != InodeFormat::New {
                    return Err(Error::NotSupported);
                }
                di.flags = flags;
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
            if set.atime.is_some() {
                *state.atime_pending.lock() = None;
            }
            self.store(tx, inode.ino, &state.di)?;
            Ok(self.attr(&inode, &state))
        })
    }

    /// Removes a name and with it one link of what it named. Both are locked.
    fn drop_name(
        &self,
        (dir_ino, dir): (u32, &mut State),
        name: &[u8],
        place: u64,
        (child_ino, child): (u32, &mut State),
    ) -> Result<()> {
        self.transact_naming(|tx| {
            let now = self.now();
            self.dir_remove(tx, dir_ino, dir, name, place)?;
            (dir.di.mtime, dir.di.ctime) = (now, now);
            child.di.ctime = now;
            if child.di.is_directory() {
                // Its own name, its "." and its ".." in the parent go together.
                child.di.nlink = 0;
                dir.di.nlink = dir.di.nlink.saturating_sub(1);
            } else {
                child.di.nlink = child.di.nlink.saturating_sub(1);
            }
            if child.di.nlink == 0 {
                self.lose_name(tx, child_ino, child.di.mode);
            }
            self.store(tx, dir_ino, &dir.di)?;
            self.store(tx, child_ino, &child.di)
        })
    }

    fn remove(&self, dir: Ino, name: &[u8], directory: bool) -> Result<()> {
        check_name(name)?;
        let dir = self.directory(dir)?;
        let child = {
            let _two_directories = directory.then(|| self.reshaping.lock());
            let mut dir_state = dir.state.write();
            check_alive(&dir_state.di)?;
            let found = self.dir_find(dir.ino, &dir_state, name)?.ok_or(Error::NotFound)?;
            let child = self.iget(found.ino).map_err(|e| dangling(e, found.ino))?;
            if child.ino == dir.ino {
                return Err(Error::Invalid);
            }
            self.check_not_log(child.ino)?;
            match (directory, child.is_directory) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                _ => {}
            }
            let mut state = child.state.write();
            if directory && !self.dir_is_empty(child.ino, &state.di)? {
                return Err(Error::NotEmpty);
            }
            self.drop_name((dir.ino, &mut dir_state), name, found.place, (child.ino, &mut state))?;
            drop(state);
            child
        };
        self.reclaim_unnamed(&child);
        Ok(())
    }
}

pub(crate) fn check_regular(di: &Dinode) -> Result<()> {
    match di.kind() {
        Some(FileKind::Regular) => Ok(()),
        Some(FileKind::Directory) => Err(Error::IsDirectory),
        _ => Err(Error::Invalid),
    }
}

/// A regular file's inode, locked for change.
fn write_regular(inode: &Inode) -> Result<RwLockWriteGuard<'_, State>> {
    let state = inode.state.write();
    check_regular(&state.di)?;
    Ok(state)
}

/// A directory that was removed while somebody had it open takes no names.
pub(crate) fn check_alive(di: &Dinode) -> Result<()> {
    if di.nlink == 0 { Err(Error::NotFound) } else { Ok(()) }
}

/// A name that can be created, removed or renamed.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    match name {
        b"" => Err(Error::NotFound),
        b"." | b".." => Err(Error::Invalid),
        _ if name.len() > MAXNAMLEN => Err(Error::NameTooLong),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Error::Invalid),
        _ => Ok(()),
    }
}

/// A directory entry whose inode is not in use is damage, not a stale number of the caller's.
pub(crate) fn dangling(error: Error, ino: u32) -> Error {
    match error {
        Error::Stale => Error::corrupt("a name leads to a free inode", format!("inode {ino}")),
        other => other,
    }
}

impl FileSystem for Ffs {
    fn root(&self) -> Ino {
        Ino(ROOT_INO.into())
    }

    fn limits(&self) -> Limits {
        let ufs2 = self.layout.version == Version::Ufs2;
        Limits {
            name_max: MAXNAMLEN,
            symlink_max: 1023,
            link_max: LINK_MAX.into(),
            file_size_max: self.layout.fs_maxfilesize,
            xattrs: self.layout.has_extattr,
            time_granularity_ns: match self.layout.inode_format {
                InodeFormat::Old => 1_000_000_000,
                InodeFormat::Sun => 1000,
                InodeFormat::New => 1,
            },
            time_range: if ufs2 { (i64::MIN, i64::MAX) } else { (i32::MIN.into(), i32::MAX.into()) },
            birthtime: ufs2,
            id_max: if self.layout.inode_format == InodeFormat::Old { 0xffff } else { u32::MAX },
        }
    }

    fn read_only(&self) -> bool {
        self.is_read_only()
    }

    fn statfs(&self) -> Result<FsStat> {
        let total = self.summaries.total();
        let unsigned = |n: i64| u64::try_from(n).unwrap_or(0);
        Ok(FsStat {
            bsize: self.layout.fs_bsize,
            frsize: self.layout.fs_fsize,
            blocks: self.layout.fs_dsize,
            bfree: unsigned(self.free_frags_for(Privilege::Root)) + self.pending.frags(),
            bavail: unsigned(self.free_frags_for(Privilege::User) + self.pending.frags().cast_signed()),
            files: u64::from(self.layout.inodes()) - u64::from(ROOT_INO),
            ffree: unsigned(total.cs_nifree),
            name_max: u32::try_from(MAXNAMLEN).unwrap_or(0),
        })
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        if state.di.mode == 0 { Err(Error::Stale) } else { Ok(self.attr(&inode, &state)) }
    }

    fn setattr(&self, ino: Ino, set: &SetAttr, by: Privilege) -> Result<Attr> {
        self.changing(|| self.set_attributes(ino, set, by))
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Attr> {
        let dir = self.directory(dir)?;
        if name.len() > MAXNAMLEN {
            return Err(Error::NameTooLong);
        }
        let dir_state = dir.state.read();
        if name == b"." {
            self.inodes.reference(&dir);
            return Ok(self.attr(&dir, &dir_state));
        }
        let found = self.note(self.dir_find(dir.ino, &dir_state, name))?.ok_or(Error::NotFound)?;
        let child = self.note(self.iget(found.ino).map_err(|e| dangling(e, found.ino)))?;
        self.inodes.reference(&child);
        // The reference keeps it from being freed.
        drop(dir_state);
        let state = child.state.read();
        Ok(self.attr(&child, &state))
    }

    fn forget(&self, ino: Ino, count: u64) {
        let Ok(number) = u32::try_from(ino.0) else { return };
        if let Some(inode) = self.inodes.release(number, count)
            && let Err(error) = self.note(self.reclaim(&inode))
        {
            log::error!("inode {number} could not be freed: {error}");
        }
    }

    fn readdir(
        &self,
        dir: Ino,
        from: u64,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let dir = self.directory(dir)?;
        let chunk_bytes = self.layout.dirblksiz as usize;
        let mut at = from;
        loop {
            // A block is copied and the lock released: the sink may call back.
            let (block, range) = {
                let state = dir.state.read();
                if at >= state.di.size {
                    self.touch(&state);
                    return Ok(());
                }
                let lbn: Lbn = self.layout.lblkno(at);
                let (buffer, range) = self.note(self.dir_block(dir.ino, &state.di, lbn))?;
                let bytes = buffer.read()[..index(range.end - range.start)].to_vec();
                (bytes, range)
            };
            let first = index(at - range.start) / chunk_bytes;
            for (n, chunk) in block.chunks_exact(chunk_bytes).enumerate().skip(first) {
                let base = range.start + (n * chunk_bytes) as u64;
                for entry in entries(&self.layout, dir.ino, base, chunk) {
                    let entry = self.note(entry)?;
                    if entry.ino == 0 || entry.place < at {
                        continue;
                    }
                    let next = entry.place + entry.reclen as u64;
                    let name = name_of(chunk, base, &entry);
                    let shown = DirEntry { name, ino: Ino(entry.ino.into()), kind: entry.kind, next };
                    if sink(&shown).is_break() {
                        return Ok(());
                    }
                }
            }
            at = range.end;
        }
    }

    fn create(&self, dir: Ino, name: &[u8], node: &NewNode<'_>, by: Privilege) -> Result<Attr> {
        self.changing(|| {
            if matches!(name, b"." | b"..") {
                return Err(Error::Exists);
            }
            check_name(name)?;
            if node.kind == FileKind::Symlink && node.target.len() > self.limits().symlink_max {
                return Err(Error::NameTooLong);
            }
            let dir = self.directory(dir)?;
            let mut dir_state = dir.state.write();
            check_alive(&dir_state.di)?;
            if self.dir_find(dir.ino, &dir_state, name)?.is_some() {
                return Err(Error::Exists);
            }
            if node.kind == FileKind::Directory && dir_state.di.nlink >= LINK_MAX {
                return Err(Error::TooManyLinks);
            }
            self.transact_naming(|tx| {
                self.dir_reserve(tx, dir.ino, &mut dir_state, name.len(), by)?;
                let (ino, di, stream) = self.make_inode(tx, (dir.ino, &dir_state.di), node, by)?;
                self.dir_enter(tx, dir.ino, &mut dir_state, name, (ino, node.kind))?;
                let now = self.now();
                (dir_state.di.mtime, dir_state.di.ctime) = (now, now);
                if node.kind == FileKind::Directory {
                    dir_state.di.nlink += 1;
                }
                self.store(tx, dir.ino, &dir_state.di)?;
                let inode = self.enter_new(ino, di, stream);
                self.inodes.reference(&inode);
                let state = inode.state.read();
                Ok(self.attr(&inode, &state))
            })
        })
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8], by: Privilege) -> Result<Attr> {
        self.changing(|| {
            if matches!(name, b"." | b"..") {
                return Err(Error::Exists);
            }
            check_name(name)?;
            let inode = self.iget_ino(ino)?;
            let dir = self.directory(dir)?;
            if inode.is_directory {
                return Err(Error::NotPermitted);
            }
            let mut dir_state = dir.state.write();
            let mut state = inode.state.write();
            check_alive(&dir_state.di)?;
            self.check_not_log(inode.ino)?;
            if state.di.nlink == 0 {
                return Err(Error::NotFound);
            }
            if self.dir_find(dir.ino, &dir_state, name)?.is_some() {
                return Err(Error::Exists);
            }
            if state.di.nlink >= LINK_MAX {
                return Err(Error::TooManyLinks);
            }
            self.transact_naming(|tx| {
                self.dir_reserve(tx, dir.ino, &mut dir_state, name.len(), by)?;
                let kind = state.di.kind().unwrap_or(FileKind::Regular);
                self.dir_enter(tx, dir.ino, &mut dir_state, name, (inode.ino, kind))?;
                let now = self.now();
                (dir_state.di.mtime, dir_state.di.ctime) = (now, now);
                state.di.nlink += 1;
                state.di.ctime = now;
                self.store(tx, dir.ino, &dir_state.di)?;
                self.store(tx, inode.ino, &state.di)?;
                self.inodes.reference(&inode);
                Ok(self.attr(&inode, &state))
            })
        })
    }

    fn unlink(&self, dir: Ino, name: &[u8]) -> Result<()> {
        let result = self.changing(|| self.remove(dir, name, false));
        self.note(result)
    }

    fn rmdir(&self, dir: Ino, name: &[u8]) -> Result<()> {
        let result = match name {
            b".." => Err(Error::NotEmpty),
            _ => self.changing(|| self.remove(dir, name, true)),
        };
        self.note(result)
    }

    fn rename(
        &self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        mode: RenameMode,
        by: Privilege,
    ) -> Result<()> {
        self.changing(|| {
            let result = self.rename_entry((from_dir, from), (to_dir, to), mode, by);
            self.note(result)
        })
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        if state.di.kind() != Some(FileKind::Symlink) {
            return Err(Error::Invalid);
        }
        self.touch(&state);
        if let Some(target) = &state.di.inline_target {
            return Ok(target.clone());
        }
        if state.di.size > u64::from(self.layout.fs_bsize) {
            return Err(Error::corrupt(
                format!("a target of {} bytes", state.di.size),
                format!("inode {ino:?}"),
            ));
        }
        let mut target = vec![0; index(state.di.size)];
        self.note(self.read_file(inode.ino, &inode.stream, &state.di, 0, &mut target))?;
        Ok(target)
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        check_regular(&state.di)?;
        self.touch(&state);
        self.note(self.read_file(inode.ino, &inode.stream, &state.di, offset, buf))
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Result<usize> {
        self.changing(|| {
            let inode = self.iget_ino(ino)?;
            let mut state = write_regular(&inode)?;
            if data.is_empty() {
                return Ok(0);
            }
            self.check_not_log(inode.ino)?;
            self.transact(|tx| {
                let before = (state.di.size, state.di.blocks);
                let result = self.write_file(tx, (inode.ino, &inode.stream), &mut state.di, offset, data, by);
                if before != (state.di.size, state.di.blocks) {
                    state.mapped_in = self.cache.group();
                }
                if result.is_ok() {
                    let now = self.now();
                    (state.di.mtime, state.di.ctime) = (now, now);
                }
                self.store(tx, inode.ino, &state.di)?;
                self.note(result)
            })
        })
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64, by: Privilege) -> Result<()> {
        self.changing(|| {
            let end = offset.checked_add(len).ok_or(Error::TooBig)?;
            if len == 0 {
                return Err(Error::Invalid);
            }
            let inode = self.iget_ino(ino)?;
            self.check_not_log(inode.ino)?;
            let mut state = write_regular(&inode)?;
            // Until it has succeeded, no commit is the one that made all of it durable.
            state.mapped_in = GroupId::MAX;
            let result = self.fallocate_file(&inode, &mut state.di, mode, offset..end, by);
            self.note(result)?;
            self.transact(|tx| {
                state.mapped_in = self.cache.group();
                let now = self.now();
                (state.di.mtime, state.di.ctime) = (now, now);
                self.store(tx, inode.ino, &state.di)
            })
        })
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        check_regular(&state.di)?;
        self.note(self.seek_file(inode.ino, &state.di, offset, what))
    }

    fn fsync(&self, ino: Ino, data_only: bool) -> Result<()> {
        self.fsync_file(u32::try_from(ino.0).map_err(|_| Error::Stale)?, data_only)
    }

    fn sync(&self) -> Result<()> {
        self.sync_all()
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.check_has_extattr()?;
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        self.note(self.extattr_get(inode.ino, &state.di, name))
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode, by: Privilege) -> Result<()> {
        self.changing(|| self.change_xattr(ino, name, Some((value, mode)), by))
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.check_has_extattr()?;
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        self.note(self.extattr_list(inode.ino, &state.di))
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.changing(|| self.change_xattr(ino, name, None, Privilege::Root))
    }

    fn unmount(&self) -> Result<()> {
        self.close()
    }
}

impl Ffs {
    fn check_has_extattr(&self) -> Result<()> {
        if self.layout.has_extattr { Ok(()) } else { Err(Error::NotSupported) }
    }

    fn change_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: Option<(&[u8], XattrMode)>,
        by: Privilege,
    ) -> Result<()> {
        self.check_has_extattr()?;
        let inode = self.iget_ino(ino)?;
        self.check_not_log(inode.ino)?;
        let mut state = inode.state.write();
        self.transact(|tx| {
            let result = self.extattr_put(tx, inode.ino, &mut state.di, name, value, by);
            if result.is_ok() {
                state.di.ctime = self.now();
                self.store(tx, inode.ino, &state.di)?;
            }
            self.note(result)
        })
    }
}
