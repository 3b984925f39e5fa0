//! The front of a file system: the functions that all front ends share.
//!
//! A [`Vfs`] adds access rights, open files, appending and advisory locks to a [`FileSystem`].
//! During a call to the file system it holds no lock, except the lock for appending to one file.
//! With [`Checking::ByKernel`] it does not check permission bits (a FUSE mount with
//! `default_permissions` does). It always applies BSD's file flags, which no Linux kernel knows,
//! and the rule for the group of new files.
//!
//! References: as in the file system below, `lookup`, `create` and `link` take one and
//! [`Vfs::forget`] releases them. An open file keeps its inode: references released in the meantime
//! are passed on when the last handle is closed.

mod attributes;
mod files;
mod names;

use crate::access::{self, Access, Cred, GroupRule};
use crate::acl::{ACCESS_ACL, NFS4_ACL};
use crate::{
    AccessList, Acl, AclKind, Attr, Error, FileKind, FileSystem, FsStat, Ino, LockTable, Nfs4Acl, Result,
};
use files::OpenFiles;
pub use files::{HandleId, OpenFlags};
use std::sync::Arc;

/// The layer that checks permission bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checking {
    /// This front.
    #[default]
    Checked,
    /// The caller has checked them already.
    ByKernel,
}

/// Options of a [`Vfs`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The layer that checks permission bits.
    pub checking: Checking,
    /// Rule for the group of new files.
    pub group: GroupRule,
}

/// A file system with permissions, open files and locks.
pub struct Vfs {
    fs: Arc<dyn FileSystem>,
    options: Options,
    files: OpenFiles,
    locks: LockTable,
}

impl std::fmt::Debug for Vfs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vfs").field("options", &self.options).finish_non_exhaustive()
    }
}

#[allow(clippy::missing_errors_doc)] // As `FileSystem` says, and `Access` or `NotPermitted` for want of permission.
impl Vfs {
    /// Returns a front of `fs`.
    #[must_use]
    pub fn new(fs: Arc<dyn FileSystem>, options: Options) -> Self {
        Self { fs, options, files: OpenFiles::default(), locks: LockTable::new() }
    }

    /// Returns the file system below.
    #[must_use]
    pub fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// Returns the advisory locks. [`Vfs::close`] releases an open file's whole-file lock, whose
    /// owner is [`HandleId::lock_owner`]; [`Vfs::release_owner`] releases byte ranges.
    #[must_use]
    pub fn locks(&self) -> &LockTable {
        &self.locks
    }

    /// Returns the root directory.
    #[must_use]
    pub fn root(&self) -> Ino {
        self.fs.root()
    }

    /// Returns the space and inodes.
    pub fn statfs(&self) -> Result<FsStat> {
        self.fs.statfs()
    }

    /// Makes everything durable.
    pub fn sync(&self) -> Result<()> {
        self.fs.sync()
    }

    /// Returns attributes; everybody may see them.
    pub fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.fs.getattr(ino)
    }

    /// Releases `count` references, now or when the inode's last open file is closed.
    pub fn forget(&self, ino: Ino, count: u64) {
        let count = self.files.defer_forget(ino, count);
        if count > 0 {
            self.fs.forget(ino, count);
        }
    }

    /// Checks `want` as `access(2)` does, also with [`Checking::ByKernel`].
    pub fn access(&self, cred: &Cred<'_>, ino: Ino, want: Access) -> Result<()> {
        if want.includes(Access::WRITE) && self.fs.read_only() {
            return Err(Error::ReadOnly);
        }
        let attr = self.fs.getattr(ino)?;
        access::permit(&attr, self.acl(&attr, cred)?.as_ref(), cred, want)
    }

    fn checks(&self) -> bool {
        self.options.checking == Checking::Checked
    }

    /// Returns the access control list of a file, if it decides about the access of `cred`.
    fn acl(&self, attr: &Attr, cred: &Cred<'_>) -> Result<Option<AccessList>> {
        if cred.is_root() || attr.kind == FileKind::Symlink {
            return Ok(None);
        }
        let name = match self.fs.limits().acls {
            AclKind::Nfs4 => NFS4_ACL,
            AclKind::Posix if cred.uid != attr.uid => ACCESS_ACL,
            AclKind::Posix | AclKind::None => return Ok(None),
        };
        match self.fs.getxattr(attr.ino, name) {
            Ok(value) if name == NFS4_ACL => Ok(Some(AccessList::Nfs4(Nfs4Acl::from_linux(&value)?))),
            Ok(value) => Ok(Acl::from_linux(&value)?.map(AccessList::Posix)),
            Err(Error::NoAttribute) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks permission bits and lists, if this front is responsible for them.
    fn permit(&self, attr: &Attr, cred: &Cred<'_>, want: Access) -> Result<()> {
        if self.checks() { access::permit(attr, self.acl(attr, cred)?.as_ref(), cred, want) } else { Ok(()) }
    }
}
