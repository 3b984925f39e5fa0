//! The seam between front-ends and file systems.

use crate::{
    Attr, DirEntry, FallocateMode, FsStat, Ino, Limits, NewNode, Privilege, RenameMode, Result, Seek,
    SetAttr, XattrMode,
};
use std::ops::ControlFlow;

/// A mounted file system. Calls may come from many threads at once.
///
/// Errors common to all calls: [`crate::Error::ReadOnly`] for a change on a read-only mount,
/// [`crate::Error::Corrupt`] where the image contradicts itself, [`crate::Error::Device`] where the
/// device failed, [`crate::Error::Stale`] for an inode number without references that is not in
/// use. Names are bytes without `/` and NUL, at least one; `.` and `..` are refused where they
/// would be changed. A refused call changes nothing. Which error is told where several apply is
/// free. What the suite of behaviours in `conformance` (feature `testing`) asks for is part of this
/// contract.
#[allow(clippy::missing_errors_doc)] // Said once, above; special cases are said at their call.
pub trait FileSystem: Send + Sync {
    /// Returns the root directory.
    fn root(&self) -> Ino;

    /// Returns what the format can hold.
    fn limits(&self) -> Limits;

    /// Returns true if nothing can be changed.
    fn read_only(&self) -> bool;

    /// Returns the space and inodes.
    fn statfs(&self) -> Result<FsStat>;

    /// Returns the attributes of an inode.
    fn getattr(&self, ino: Ino) -> Result<Attr>;

    /// Changes attributes, all or none; sets the change time. A new size is `truncate`: only
    /// regular files have one ([`crate::Error::IsDirectory`], [`crate::Error::Invalid`]). Owners
    /// that the format cannot hold are refused with [`crate::Error::Overflow`], and so are times,
    /// unless they are moved to the end of the range.
    fn setattr(&self, ino: Ino, set: &SetAttr, by: Privilege) -> Result<Attr>;

    /// Finds a name (also `.` and `..`); takes a reference. In a removed directory there is nothing
    /// to be found.
    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Attr>;

    /// Gives back `count` references.
    fn forget(&self, ino: Ino, count: u64);

    /// Passes the entries, `.` and `..` among them, from cookie `from` (0 for the start, or an
    /// entry's `next`) to `sink` until it breaks. Entries that exist throughout are passed exactly
    /// once over a whole walk, whatever else changes. The sink may run under the directory's lock:
    /// it must not call the file system.
    fn readdir(
        &self,
        dir: Ino,
        from: u64,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Creates an inode of any kind with a name; takes a reference. Nothing can be made in a
    /// removed directory ([`crate::Error::NotFound`]).
    fn create(&self, dir: Ino, name: &[u8], node: &NewNode<'_>, by: Privilege) -> Result<Attr>;

    /// Gives an inode another name; takes a reference. Not a directory
    /// ([`crate::Error::NotPermitted`]), and not one that has no name left
    /// ([`crate::Error::NotFound`]).
    fn link(&self, ino: Ino, dir: Ino, name: &[u8], by: Privilege) -> Result<Attr>;

    /// Removes a name of anything but a directory.
    fn unlink(&self, dir: Ino, name: &[u8]) -> Result<()>;

    /// Removes an empty directory.
    fn rmdir(&self, dir: Ino, name: &[u8]) -> Result<()>;

    /// Renames atomically; a directory never into itself or below ([`crate::Error::Invalid`]). Two
    /// names of one inode are left as they are.
    fn rename(
        &self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        mode: RenameMode,
        by: Privilege,
    ) -> Result<()>;

    /// Returns the target of a symbolic link.
    fn readlink(&self, ino: Ino) -> Result<Vec<u8>>;

    /// Reads from a regular file ([`crate::Error::IsDirectory`], [`crate::Error::Invalid`] from
    /// others); short only at its end.
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Writes to a regular file; short only when space ran out after a part was written. What would
    /// reach beyond the largest size is refused whole ([`crate::Error::TooBig`]).
    fn write(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Result<usize>;

    /// Writes what a front-end has kept since a program wrote it: as [`write`](Self::write), but
    /// the times of the file stay. Who keeps the data keeps the times, too, shows them, and gives
    /// them to [`setattr`](Self::setattr) when they are others.
    fn write_late(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Result<usize>;

    /// Allocates, zeroes or frees a range of a regular file; an empty one is
    /// [`crate::Error::Invalid`]. Without space for all of it nothing is allocated, but a part of
    /// what was to be zeroed may be zero.
    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64, by: Privilege) -> Result<()>;

    /// Returns the next data or hole at or after `offset`; [`crate::Error::NoSuchOffset`] if there
    /// is none.
    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64>;

    /// Makes a file durable: its data, size and name; with `data_only` what reading it back needs.
    fn fsync(&self, ino: Ino, data_only: bool) -> Result<()>;

    /// Makes everything durable.
    fn sync(&self) -> Result<()>;

    /// Returns the value of an extended attribute. Names carry their name space, `user.` or
    /// `system.`.
    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>>;

    /// Sets an extended attribute.
    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode, by: Privilege) -> Result<()>;

    /// Returns the names of all extended attributes.
    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>>;

    /// Removes an extended attribute.
    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()>;

    /// Frees inodes without names, writes everything, marks the image clean and refuses further
    /// changes. Idempotent.
    fn unmount(&self) -> Result<()>;
}
