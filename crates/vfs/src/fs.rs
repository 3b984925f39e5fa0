//! The interface between front ends and file systems.

use crate::{
    Attr, DirEntry, FallocateMode, FsStat, Ino, Limits, NewNode, Privilege, RenameMode, Result, Seek,
    SetAttr, XattrMode,
};
use std::ops::{ControlFlow, Range};

/// A mounted file system. Calls may come from many threads at the same time.
///
/// Errors common to all calls: [`crate::Error::ReadOnly`] for a change on a read-only mount,
/// [`crate::Error::Corrupt`] where the image contradicts itself, [`crate::Error::Device`] where the
/// device failed, [`crate::Error::Stale`] for an inode number without references that is not in
/// use. Names are bytes without `/` and NUL, at least one; `.` and `..` are refused in calls that
/// would change them. A refused call changes nothing. Where several errors apply, a file system may
/// return any of them. The behaviours in the crate `spindle_conformance` are part of this
/// contract.
///
/// No method has a default, so that what passes calls on to another file system forgets none.
#[allow(clippy::missing_errors_doc)] // Said once, above; special cases are said at their call.
pub trait FileSystem: Send + Sync {
    /// Returns the root directory.
    fn root(&self) -> Ino;

    /// Returns the limits of the format.
    fn limits(&self) -> Limits;

    /// Returns true if the mount is read-only.
    fn read_only(&self) -> bool;

    /// Returns the space and inodes.
    fn statfs(&self) -> Result<FsStat>;

    /// Returns the free space and inodes as far as a file, or a new one in a directory, can get
    /// them: of a file system whose files do not all share one space.
    fn statfs_at(&self, ino: Ino) -> Result<FsStat>;

    /// Returns the attributes of an inode.
    fn getattr(&self, ino: Ino) -> Result<Attr>;

    /// Changes attributes, all or none; sets the change time. A new size truncates or extends: only
    /// regular files have a size ([`crate::Error::IsDirectory`], [`crate::Error::Invalid`] for
    /// others). Owners that the format cannot store are refused with [`crate::Error::Overflow`]; so
    /// are times, unless the file system moves them to the end of the range.
    fn setattr(&self, ino: Ino, set: &SetAttr, by: Privilege) -> Result<Attr>;

    /// Finds a name (also `.` and `..`); takes a reference. A removed directory has no names.
    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Attr>;

    /// Takes a reference to an inode of any kind by its number, as a file handle of NFS has it. It
    /// may be any number: [`crate::Error::Stale`] if no file with a name has it. The caller
    /// compares the generation with that of the handle.
    fn reference(&self, ino: Ino) -> Result<Attr>;

    /// Releases `count` references.
    fn forget(&self, ino: Ino, count: u64);

    /// Passes the entries, including `.` and `..`, from cookie `from` (0 for the start, or an
    /// entry's `next`) to `sink` until it breaks. Entries that exist during the whole walk are
    /// passed exactly once, whatever else changes. The sink may run under the directory's lock: it
    /// must not call the file system.
    fn readdir(
        &self,
        dir: Ino,
        from: u64,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Creates an inode of any kind with a name; takes a reference. In a removed directory nothing
    /// can be created ([`crate::Error::NotFound`]).
    fn create(&self, dir: Ino, name: &[u8], node: &NewNode<'_>, by: Privilege) -> Result<Attr>;

    /// Creates a regular file without a name, as for one in `dir`; takes a reference.
    /// [`Self::link`] can give it a name; otherwise it is freed with its last reference, or by the
    /// recovery after a crash ([`crate::Error::Invalid`] for other kinds).
    fn create_unnamed(&self, dir: Ino, node: &NewNode<'_>, by: Privilege) -> Result<Attr>;

    /// Gives an inode another name; takes a reference. Refused for directories
    /// ([`crate::Error::NotPermitted`]) and for inodes that have lost their last name
    /// ([`crate::Error::NotFound`]); one that never had a name gets its first.
    fn link(&self, ino: Ino, dir: Ino, name: &[u8], by: Privilege) -> Result<Attr>;

    /// Removes a name of an inode that is no directory.
    fn unlink(&self, dir: Ino, name: &[u8]) -> Result<()>;

    /// Removes an empty directory.
    fn rmdir(&self, dir: Ino, name: &[u8]) -> Result<()>;

    /// Renames atomically; a directory never into itself or below ([`crate::Error::Invalid`]). If
    /// both names belong to one inode, both stay.
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

    /// Reads from a regular file ([`crate::Error::IsDirectory`], [`crate::Error::Invalid`] for
    /// other kinds); returns less than asked for only at the end of the file.
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Writes to a regular file; writes less than asked for only if space runs out on the way. A
    /// write that would reach beyond the largest size is refused as a whole
    /// ([`crate::Error::TooBig`]).
    fn write(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Result<usize>;

    /// Writes data that a front end has kept since a program wrote it: as [`write`](Self::write),
    /// but the times of the file stay. The front end keeps and shows the times of such files
    /// itself, and sets them with [`setattr`](Self::setattr) if they have changed.
    fn write_late(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Result<usize>;

    /// Allocates, zeroes or frees a range of a regular file; an empty range is
    /// [`crate::Error::Invalid`]. Without space for the whole range nothing is allocated, but a
    /// part of a range to be zeroed may be zero.
    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64, by: Privilege) -> Result<()>;

    /// Returns the next data or hole at or after `offset`; [`crate::Error::NoSuchOffset`] if there
    /// is none.
    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64>;

    /// Returns where it makes sense to go on in a file of which the data at `offset`, or the place
    /// of the next data behind, cannot be read: everything before depends on the same damage.
    fn readable_after(&self, ino: Ino, offset: u64) -> Result<u64>;

    /// Passes each run of bytes of the device that an inode of any kind holds to `sink`: its data,
    /// its indirect blocks and its extended attributes. Pointers that cannot be right are left out,
    /// and so is what hangs from an indirect block that cannot be read. A file system whose files
    /// do not lie on one device as they are passes nothing.
    fn held(&self, ino: Ino, sink: &mut dyn FnMut(Range<u64>)) -> Result<()>;

    /// Returns true if a file is a snapshot of the file system it is in, which lists it as such: a
    /// copy of the tree leaves it out.
    fn is_snapshot(&self, ino: Ino) -> bool;

    /// Returns the damage that reads have passed over, each place once: what is missing in what
    /// they returned.
    fn passed_over(&self) -> Vec<String>;

    /// Makes a file durable: its data, size and name; with `data_only`, only the parts that are
    /// needed to read the data.
    fn fsync(&self, ino: Ino, data_only: bool) -> Result<()>;

    /// Makes everything durable.
    fn sync(&self) -> Result<()>;

    /// Declares free space unused to the device, so that a disk image gets holes there and a flash
    /// disk has less to move (`FITRIM` of Linux): what lies within `bytes` of the device, in runs
    /// of at least `min_bytes`. Returns the bytes of that. Files that are changed meanwhile are
    /// safe; space that was freed meanwhile may be left out.
    ///
    /// # Errors
    /// [`crate::Error::NotSupported`] if file system or device cannot do this.
    fn trim(&self, bytes: Range<u64>, min_bytes: u64) -> Result<u64>;

    /// Returns the value of an extended attribute. Names begin with their name space, `user.`,
    /// `system.` or `trusted.`.
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
