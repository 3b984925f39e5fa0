//! Open files: handles, reading, writing, appending.
//!
//! A handle keeps the rights from the time of its open. All handles of an inode share a [`Shared`]:
//! an append holds its lock exclusively, other writes hold it shared, so the end of the file does
//! not move during an append. Invariant: an inode has a [`Shared`] exactly while it has handles or
//! calls in progress, and references that are forgotten in the meantime are counted there: a handle
//! closed during a call does not free the file under the call.

use super::Vfs;
use crate::access::{self, Access, Cred, S_ISGID, S_ISUID};
use crate::{
    Attr, Error, FallocateMode, FileKind, Ino, LockOwner, NewNode, Privilege, Rdev, Result, Seek, SetAttr,
};
use spindle_clock::{Mutex, RwLock};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

/// Identifier of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandleId(pub u64);

impl HandleId {
    /// Returns the owner of this open file's whole-file lock.
    #[must_use]
    pub const fn lock_owner(self) -> LockOwner {
        LockOwner(self.0)
    }
}

/// Mode of an open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // As independent as the bits of `open(2)`.
pub struct OpenFlags {
    /// Opens for reading.
    pub read: bool,
    /// Opens for writing.
    pub write: bool,
    /// Every write goes to the end of the file.
    pub append: bool,
    /// The file is truncated to 0 bytes first.
    pub truncate: bool,
}

impl OpenFlags {
    /// Opens for reading.
    pub const READ: Self = Self { read: true, write: false, append: false, truncate: false };
    /// Opens for writing.
    pub const WRITE: Self = Self { read: false, write: true, append: false, truncate: false };
    /// Opens for both.
    pub const READ_WRITE: Self = Self { read: true, write: true, append: false, truncate: false };

    const fn access(self) -> Access {
        let read = if self.read { Access::READ } else { Access::EXISTS };
        if self.write || self.truncate { read.and(Access::WRITE) } else { read }
    }
}

/// State shared by all handles of an inode.
#[derive(Debug, Default)]
struct Shared {
    append: Arc<RwLock<()>>,
    /// Number of handles and calls in progress.
    users: u64,
    /// Number of references to release when the last user ends.
    deferred: u64,
}

#[derive(Clone, Debug)]
struct OpenFile {
    ino: Ino,
    flags: OpenFlags,
    by: Privilege,
    append: Arc<RwLock<()>>,
}

#[derive(Debug, Default)]
struct Open {
    handles: HashMap<HandleId, OpenFile>,
    inodes: HashMap<Ino, Shared>,
    last: u64,
}

/// All open files.
#[derive(Debug, Default)]
pub(super) struct OpenFiles(Mutex<Open>);

impl OpenFiles {
    /// Returns the number of these references to release now; the rest are released later.
    pub(super) fn defer_forget(&self, ino: Ino, count: u64) -> u64 {
        match self.0.lock().inodes.get_mut(&ino) {
            Some(shared) => {
                shared.deferred += count;
                0
            }
            None => count,
        }
    }

    /// Returns the lock that guards the end of an open file.
    pub(super) fn append_lock(&self, ino: Ino) -> Option<Arc<RwLock<()>>> {
        self.0.lock().inodes.get(&ino).map(|shared| shared.append.clone())
    }

    /// Returns true if `handle` is open for writing on `ino`.
    pub(super) fn may_write(&self, handle: HandleId, ino: Ino) -> bool {
        self.0.lock().handles.get(&handle).is_some_and(|file| file.ino == ino && file.flags.write)
    }

    fn insert(&self, ino: Ino, flags: OpenFlags, by: Privilege) -> HandleId {
        let mut open = self.0.lock();
        open.last += 1;
        let handle = HandleId(open.last);
        let shared = open.inodes.entry(ino).or_default();
        shared.users += 1;
        let append = shared.append.clone();
        open.handles.insert(handle, OpenFile { ino, flags, by, append });
        handle
    }

    /// Returns an open file, which stays in use until [`Self::release`].
    fn enter(&self, handle: HandleId) -> Result<OpenFile> {
        let mut open = self.0.lock();
        let file = open.handles.get(&handle).cloned().ok_or(Error::BadHandle)?;
        if let Some(shared) = open.inodes.get_mut(&file.ino) {
            shared.users += 1;
        }
        Ok(file)
    }

    /// Removes a handle; [`Self::release`] must follow.
    fn remove(&self, handle: HandleId) -> Result<Ino> {
        Ok(self.0.lock().handles.remove(&handle).ok_or(Error::BadHandle)?.ino)
    }

    /// Removes one user of an inode. Returns the number of references to release now.
    fn release(&self, ino: Ino) -> u64 {
        let mut open = self.0.lock();
        let Some(shared) = open.inodes.get_mut(&ino) else { return 0 };
        shared.users -= 1;
        let deferred = shared.deferred;
        if shared.users > 0 {
            return 0;
        }
        open.inodes.remove(&ino);
        deferred
    }
}

/// An open file during a call.
struct FileInUse<'a> {
    vfs: &'a Vfs,
    file: OpenFile,
}

impl Deref for FileInUse<'_> {
    type Target = OpenFile;

    fn deref(&self) -> &OpenFile {
        &self.file
    }
}

impl Drop for FileInUse<'_> {
    fn drop(&mut self) {
        self.vfs.release_file(self.file.ino);
    }
}

#[allow(clippy::missing_errors_doc)] // As `FileSystem` says; `BadHandle` for a handle that is not open, or not for this.
impl Vfs {
    /// Opens a regular file or a directory (only for reading) on which the caller has a reference.
    pub fn open(&self, cred: &Cred<'_>, ino: Ino, flags: OpenFlags) -> Result<HandleId> {
        let attr = self.fs.getattr(ino)?;
        let writes = flags.write || flags.truncate;
        match attr.kind {
            FileKind::Directory if writes => return Err(Error::IsDirectory),
            FileKind::Regular | FileKind::Directory => {}
            FileKind::Symlink => return Err(Error::Loop),
            _ => return Err(Error::NotSupported),
        }
        if writes && self.fs.read_only() {
            return Err(Error::ReadOnly);
        }
        if writes {
            access::permit_write_by_flags(attr.flags, flags.append && !flags.truncate)?;
        }
        self.permit(&attr, cred, flags.access())?;
        let handle = self.files.insert(ino, flags, cred.privilege());
        if flags.truncate {
            let cut = SetAttr { size: Some(0), ..SetAttr::default() };
            if let Err(error) = self.setattr(cred, ino, &cut, Some(handle)) {
                self.close(handle)?;
                return Err(error);
            }
        }
        Ok(handle)
    }

    /// Creates a regular file and opens it, whatever its permissions; takes a reference.
    pub fn create_open(
        &self,
        cred: &Cred<'_>,
        dir: Ino,
        name: &[u8],
        perm: u32,
        flags: OpenFlags,
    ) -> Result<(Attr, HandleId)> {
        let kind = FileKind::Regular;
        let (uid, gid) = (cred.uid, cred.gid);
        let node = NewNode { kind, perm, uid, gid, masked: 0, rdev: Rdev::default(), target: b"" };
        let attr = self.create(cred, dir, name, &node)?;
        let handle = self.files.insert(attr.ino, flags, cred.privilege());
        Ok((attr, handle))
    }

    /// Closes an open file and releases its whole-file lock.
    pub fn close(&self, handle: HandleId) -> Result<()> {
        let ino = self.files.remove(handle)?;
        self.locks.unlock_whole(ino, handle.lock_owner());
        self.release_file(ino);
        Ok(())
    }

    fn release_file(&self, ino: Ino) {
        let deferred = self.files.release(ino);
        if deferred > 0 {
            self.forget(ino, deferred);
        }
    }

    fn file(&self, handle: HandleId) -> Result<FileInUse<'_>> {
        Ok(FileInUse { vfs: self, file: self.files.enter(handle)? })
    }

    /// Releases all byte-range locks of `owner` on a file, as when a process closes any handle of
    /// it.
    pub fn release_owner(&self, ino: Ino, owner: LockOwner) {
        self.locks.unlock_range(ino, owner, crate::ByteRange::ALL);
    }

    /// Returns the inode of an open file.
    pub fn handle_ino(&self, handle: HandleId) -> Result<Ino> {
        Ok(self.file(handle)?.ino)
    }

    /// Returns an open file for writing. A kernel that caches writes may read and write with any
    /// handle.
    fn writable(&self, handle: HandleId) -> Result<FileInUse<'_>> {
        let file = self.file(handle)?;
        if file.flags.write || !self.checks() { Ok(file) } else { Err(Error::BadHandle) }
    }

    /// Reads bytes; returns less than asked for only at the end of the file.
    pub fn read(&self, handle: HandleId, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let file = self.file(handle)?;
        if !file.flags.read && self.checks() {
            return Err(Error::BadHandle);
        }
        self.fs.read(file.ino, offset, buf)
    }

    /// Writes at `offset`, or at the end if the file is open for appending; a write by a user
    /// clears the set-id bits.
    pub fn write(&self, cred: &Cred<'_>, handle: HandleId, offset: u64, data: &[u8]) -> Result<usize> {
        let file = self.writable(handle)?;
        if self.checks() && !cred.is_root() {
            self.drop_set_id(cred, file.ino, file.by)?;
        }
        if file.flags.append {
            let _alone = file.append.write();
            let end = self.fs.getattr(file.ino)?.size;
            self.fs.write(file.ino, end, data, file.by)
        } else {
            let _steady = file.append.read();
            self.fs.write(file.ino, offset, data, file.by)
        }
    }

    fn drop_set_id(&self, cred: &Cred<'_>, ino: Ino, by: Privilege) -> Result<()> {
        let attr = self.fs.getattr(ino)?;
        let perm = access::without_set_id(attr.perm, || cred.in_group(attr.gid));
        if attr.perm & (S_ISUID | S_ISGID) != 0 && perm != attr.perm {
            self.fs.setattr(ino, &SetAttr { perm: Some(perm), ..SetAttr::default() }, by)?;
        }
        Ok(())
    }

    /// Allocates, zeroes or frees a range of an open file.
    pub fn fallocate(&self, handle: HandleId, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        let file = self.writable(handle)?;
        access::permit_fallocate_by_flags(self.fs.getattr(file.ino)?.flags, mode)?;
        let _steady = file.append.read();
        self.fs.fallocate(file.ino, mode, offset, len, file.by)
    }

    /// Returns the next data or hole of an open file.
    pub fn seek(&self, handle: HandleId, offset: u64, what: Seek) -> Result<u64> {
        self.fs.seek(self.file(handle)?.ino, offset, what)
    }

    /// Makes an open file durable.
    pub fn fsync(&self, handle: HandleId, data_only: bool) -> Result<()> {
        self.fs.fsync(self.file(handle)?.ino, data_only)
    }
}
