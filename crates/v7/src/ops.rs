//! The operations: [`FileSystem`] for the old file system.
//!
//! Each one takes the locks of the inodes it touches in the order of [`crate::inode`], looks, decides, begins a
//! transaction, and changes. What can fail for want of space is done before what cannot be undone. There is no reserve, so
//! it does not matter who asks.

use crate::dir::{is_name, name_of};
use crate::inode::{Dinode, Inode, State, seconds};
use crate::layout::{ROOT_INO, index};
use crate::mount::V7;
use crate::ondisk::{DIRSIZ, ENTRY_SIZE};
use spindle_cache::Tx;
use spindle_clock::{RwLockWriteGuard, Timestamp};
use spindle_vfs::{
    AtimePolicy, Attr, DirEntry, Error, FallocateMode, FileKind, FileSystem, FsStat, Ino, Limits, NewNode,
    Privilege, RenameMode, Result, Seek, SetAttr, SetTime, XattrMode,
};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

/// Seconds after which a relative access time is renewed.
const DAY: i64 = 86_400;
/// Names that `readdir` reads under the lock at a time.
const BATCH: usize = 256;

impl V7 {
    fn attr(&self, inode: &Inode, state: &State) -> Attr {
        let di = &state.di;
        Attr {
            ino: Ino(inode.ino.into()),
            generation: 0,
            kind: di.kind().unwrap_or(FileKind::Regular),
            perm: u32::from(di.mode) & 0o7777,
            nlink: di.nlink.into(),
            uid: di.uid.into(),
            gid: di.gid.into(),
            rdev: di.rdev(),
            size: di.size,
            blocks512: self.blocks_held(inode.ino, di) * u64::from(self.layout.format.bsize) / 512,
            blksize: self.layout.format.bsize,
            atime: state.atime_pending.lock().unwrap_or(di.atime),
            mtime: di.mtime,
            ctime: di.ctime,
            birthtime: None,
            flags: 0,
        }
    }

    /// Most names of one file. The inode counts to 32767, but `dcheck` counts names in a signed byte; System V stops
    /// at its `MAXLINK`.
    pub(crate) const fn link_max(&self) -> u16 {
        if self.layout.format.is_sysv() { 1000 } else { 127 }
    }

    pub(crate) fn now(&self) -> Timestamp {
        storable(self.clock.now())
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

    /// The inode behind a new name, as it will be.
    fn new_dinode(&self, node: &NewNode<'_>) -> Result<Dinode> {
        let mut di = Dinode::default();
        match node.kind {
            FileKind::Regular | FileKind::Directory => {}
            FileKind::BlockDevice | FileKind::CharDevice => {
                let byte = |n: u32| u8::try_from(n).map(u32::from).map_err(|_| Error::Overflow);
                di.addr[0] = byte(node.rdev.major)? << 8 | byte(node.rdev.minor)?;
            }
            FileKind::Fifo if self.layout.format.is_sysv() => {}
            FileKind::Fifo | FileKind::Socket | FileKind::Symlink => return Err(Error::NotSupported),
        }
        let now = self.now();
        Ok(Dinode {
            mode: u16::try_from(node.kind.mode_bits() | node.perm & 0o7777).unwrap_or(0),
            nlink: if node.kind == FileKind::Directory { 2 } else { 1 },
            uid: id(node.uid)?,
            gid: id(node.gid)?,
            atime: now,
            mtime: now,
            ctime: now,
            held: OnceLock::from(0),
            ..di
        })
    }

    /// Allocates an inode, and if it is a directory its first block. Nothing is left behind after an error.
    fn make_inode(&self, tx: &Tx<'_>, mut di: Dinode, parent: u16) -> Result<(u16, Dinode)> {
        let ino = self.alloc_inode(tx, &di)?;
        if di.is_directory()
            && let Err(error) = self.dir_init(tx, ino, &mut di, parent)
        {
            self.free_inode(tx, ino)?;
            return Err(error);
        }
        self.store(tx, ino, &di)?;
        Ok((ino, di))
    }

    fn remove(&self, dir: Ino, name: &[u8], directory: bool) -> Result<()> {
        check_name(name)?;
        let dir = self.directory(dir)?;
        let child = {
            let _two_directories = directory.then(|| self.reshaping.lock());
            let mut dir_state = dir.state.write();
            check_alive(&dir_state.di)?;
            let found = self.dir_find(dir.ino, &dir_state.di, name)?.ok_or(Error::NotFound)?;
            let child = self.iget(found.ino).map_err(|e| dangling(e, found.ino))?;
            if child.ino == dir.ino {
                return Err(Error::Invalid);
            }
            match (directory, child.is_directory) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                _ => {}
            }
            let mut state = child.state.write();
            if directory && !self.dir_is_empty(child.ino, &state.di)? {
                return Err(Error::NotEmpty);
            }
            let tx = self.begin()?;
            self.dir_point(&tx, dir.ino, &dir_state.di, found.place, 0)?;
            let now = self.now();
            (dir_state.di.mtime, dir_state.di.ctime, state.di.ctime) = (now, now, now);
            // A directory's own name, its "." and its ".." in the parent go together.
            state.di.nlink = if directory { 0 } else { state.di.nlink.saturating_sub(1) };
            dir_state.di.nlink = dir_state.di.nlink.saturating_sub(directory.into());
            self.store(&tx, dir.ino, &dir_state.di)?;
            self.store(&tx, child.ino, &state.di)?;
            drop(state);
            child
        };
        self.reclaim(&child)
    }
}

/// A time as the disk can keep it.
fn storable(time: Timestamp) -> Timestamp {
    Timestamp::new(seconds(time).into(), 0)
}

/// An owner as the disk can keep it.
fn id(id: u32) -> Result<u16> {
    u16::try_from(id).map_err(|_| Error::Overflow)
}

fn check_regular(di: &Dinode) -> Result<()> {
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
        _ if name.len() > DIRSIZ => Err(Error::NameTooLong),
        _ if name.contains(&0) || !is_name(name) => Err(Error::Invalid),
        _ => Ok(()),
    }
}

/// A directory entry whose inode is not in use is damage, not a stale number of the caller's.
pub(crate) fn dangling(error: Error, ino: u16) -> Error {
    match error {
        Error::Stale => Error::corrupt("a name leads to a free inode", format!("inode {ino}")),
        other => other,
    }
}

impl FileSystem for V7 {
    fn root(&self) -> Ino {
        Ino(ROOT_INO.into())
    }

    fn limits(&self) -> Limits {
        Limits {
            name_max: DIRSIZ,
            symlink_max: 0,
            link_max: self.link_max().into(),
            file_size_max: self.layout.file_size_max(),
            xattrs: false,
            time_granularity_ns: 1_000_000_000,
            time_range: (i32::MIN.into(), i32::MAX.into()),
            birthtime: false,
            id_max: u16::MAX.into(),
        }
    }

    fn read_only(&self) -> bool {
        self.is_read_only()
    }

    fn statfs(&self) -> Result<FsStat> {
        let space = self.space.lock();
        Ok(FsStat {
            bsize: self.layout.format.bsize,
            frsize: self.layout.format.bsize,
            blocks: self.layout.data_blocks().into(),
            bfree: space.free_blocks.into(),
            bavail: space.free_blocks.into(),
            files: u64::from(self.layout.last_ino() - ROOT_INO),
            ffree: space.free_inodes.into(),
            name_max: u32::try_from(DIRSIZ).unwrap_or(0),
        })
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        if state.di.mode == 0 { Err(Error::Stale) } else { Ok(self.attr(&inode, &state)) }
    }

    fn setattr(&self, ino: Ino, set: &SetAttr, _by: Privilege) -> Result<Attr> {
        let inode = self.iget_ino(ino)?;
        let mut state = inode.state.write();
        if set.flags.is_some() {
            return Err(Error::NotSupported);
        }
        let (uid, gid) = (set.uid.map(id).transpose()?, set.gid.map(id).transpose()?);
        let now = self.now();
        let tx = self.begin()?;
        let di = &mut state.di;
        if let Some(size) = set.size {
            check_regular(di)?;
            let resized = if size < di.size {
                self.shrink(&tx, &inode, di, size)
            } else {
                self.extend_file(&tx, &inode, di, size)
            };
            self.store(&tx, inode.ino, di)?;
            self.note(resized)?;
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
        self.store(&tx, inode.ino, &state.di)?;
        Ok(self.attr(&inode, &state))
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Attr> {
        let dir = self.directory(dir)?;
        if name.len() > DIRSIZ {
            return Err(Error::NameTooLong);
        }
        let dir_state = dir.state.read();
        if name == b"." {
            self.inodes.reference(&dir);
            return Ok(self.attr(&dir, &dir_state));
        }
        check_alive(&dir_state.di)?;
        let found = self.note(self.dir_find(dir.ino, &dir_state.di, name))?.ok_or(Error::NotFound)?;
        let child = self.note(self.iget(found.ino).map_err(|e| dangling(e, found.ino)))?;
        self.inodes.reference(&child);
        // The reference keeps it from being freed.
        drop(dir_state);
        let state = child.state.read();
        Ok(self.attr(&child, &state))
    }

    fn forget(&self, ino: Ino, count: u64) {
        let Ok(number) = u16::try_from(ino.0) else { return };
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
        let mut at = from;
        loop {
            // Some are copied and the lock released: the sink may call back.
            let mut batch = Vec::new();
            let more = {
                let state = dir.state.read();
                self.touch(&state);
                let walked = self.each_entry(dir.ino, &state.di, at, |place, entry| {
                    if entry.d_ino != 0 && is_name(name_of(&entry.d_name)) {
                        batch.push((place + ENTRY_SIZE as u64, *entry));
                    }
                    if batch.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                });
                self.note(walked)?.is_some()
            };
            for (next, entry) in &batch {
                let (name, ino) = (name_of(&entry.d_name), Ino(entry.d_ino.into()));
                if sink(&DirEntry { name, ino, kind: None, next: *next }).is_break() {
                    return Ok(());
                }
                at = *next;
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn create(&self, dir: Ino, name: &[u8], node: &NewNode<'_>, _by: Privilege) -> Result<Attr> {
        if matches!(name, b"." | b"..") {
            return Err(Error::Exists);
        }
        check_name(name)?;
        let di = self.new_dinode(node)?;
        let directory = node.kind == FileKind::Directory;
        let dir = self.directory(dir)?;
        let mut dir_state = dir.state.write();
        check_alive(&dir_state.di)?;
        if self.dir_find(dir.ino, &dir_state.di, name)?.is_some() {
            return Err(Error::Exists);
        }
        if directory && dir_state.di.nlink >= self.link_max() {
            return Err(Error::TooManyLinks);
        }
        let tx = self.begin()?;
        let place = self.dir_reserve(&tx, dir.ino, &mut dir_state.di)?;
        let (ino, di) = self.make_inode(&tx, di, dir.ino)?;
        self.dir_enter(&tx, dir.ino, &dir_state.di, place, name, ino)?;
        let now = self.now();
        (dir_state.di.mtime, dir_state.di.ctime) = (now, now);
        dir_state.di.nlink += u16::from(directory);
        self.store(&tx, dir.ino, &dir_state.di)?;
        let inode = self.enter_new(ino, di);
        self.inodes.reference(&inode);
        let state = inode.state.read();
        Ok(self.attr(&inode, &state))
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8], _by: Privilege) -> Result<Attr> {
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
        check_alive(&state.di)?;
        if self.dir_find(dir.ino, &dir_state.di, name)?.is_some() {
            return Err(Error::Exists);
        }
        if state.di.nlink >= self.link_max() {
            return Err(Error::TooManyLinks);
        }
        let tx = self.begin()?;
        let place = self.dir_reserve(&tx, dir.ino, &mut dir_state.di)?;
        self.dir_enter(&tx, dir.ino, &dir_state.di, place, name, inode.ino)?;
        let now = self.now();
        (dir_state.di.mtime, dir_state.di.ctime, state.di.ctime) = (now, now, now);
        state.di.nlink += 1;
        self.store(&tx, dir.ino, &dir_state.di)?;
        self.store(&tx, inode.ino, &state.di)?;
        self.inodes.reference(&inode);
        Ok(self.attr(&inode, &state))
    }

    fn unlink(&self, dir: Ino, name: &[u8]) -> Result<()> {
        let result = self.remove(dir, name, false);
        self.note(result)
    }

    fn rmdir(&self, dir: Ino, name: &[u8]) -> Result<()> {
        let result = match name {
            b".." => Err(Error::NotEmpty),
            _ => self.remove(dir, name, true),
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
        _by: Privilege,
    ) -> Result<()> {
        let result = self.rename_entry((from_dir, from), (to_dir, to), mode);
        self.note(result)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        // The last System V has symbolic links; they can be read, but not made.
        if state.di.kind() != Some(FileKind::Symlink) {
            return Err(Error::Invalid);
        }
        let mut target = vec![0; index(state.di.size.min(self.layout.bsize() as u64))];
        self.note(self.read_file(&inode, &state.di, 0, &mut target))?;
        Ok(target)
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        check_regular(&state.di)?;
        self.touch(&state);
        self.note(self.read_file(&inode, &state.di, offset, buf))
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], _by: Privilege) -> Result<usize> {
        let inode = self.iget_ino(ino)?;
        let mut state = write_regular(&inode)?;
        if data.is_empty() {
            return Ok(0);
        }
        let tx = self.begin()?;
        let result = self.write_file(&tx, &inode, &mut state.di, offset, data);
        if result.is_ok() {
            let now = self.now();
            (state.di.mtime, state.di.ctime) = (now, now);
        }
        self.store(&tx, inode.ino, &state.di)?;
        self.note(result)
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64, _by: Privilege) -> Result<()> {
        let end = offset.checked_add(len).ok_or(Error::TooBig)?;
        if len == 0 {
            return Err(Error::Invalid);
        }
        let inode = self.iget_ino(ino)?;
        let mut state = write_regular(&inode)?;
        let tx = self.begin()?;
        let result = self.fallocate_file(&tx, &inode, &mut state.di, mode, offset..end);
        if result.is_ok() {
            let now = self.now();
            (state.di.mtime, state.di.ctime) = (now, now);
        }
        self.store(&tx, inode.ino, &state.di)?;
        self.note(result)
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        check_regular(&state.di)?;
        self.note(self.seek_file(inode.ino, &state.di, offset, what))
    }

    fn fsync(&self, _ino: Ino, _data_only: bool) -> Result<()> {
        // One flush serves all: there is no order among changes but that of whole transactions.
        Ok(self.cache.sync()?)
    }

    fn sync(&self) -> Result<()> {
        self.sync_all()
    }

    fn getxattr(&self, _ino: Ino, _name: &[u8]) -> Result<Vec<u8>> {
        Err(Error::NotSupported)
    }

    fn setxattr(
        &self,
        _ino: Ino,
        _name: &[u8],
        _value: &[u8],
        _mode: XattrMode,
        _by: Privilege,
    ) -> Result<()> {
        Err(Error::NotSupported)
    }

    fn listxattr(&self, _ino: Ino) -> Result<Vec<Vec<u8>>> {
        Err(Error::NotSupported)
    }

    fn removexattr(&self, _ino: Ino, _name: &[u8]) -> Result<()> {
        Err(Error::NotSupported)
    }

    fn unmount(&self) -> Result<()> {
        self.close()
    }
}
