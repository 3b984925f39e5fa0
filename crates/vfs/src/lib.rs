//! The interface of every file system, and the layer above it that every front end needs.
//!
//! [`FileSystem`] is the interface: inodes by number, names within one directory; it has no paths,
//! permissions, open files or locks. These are the same for all file systems and belong to the
//! layer above.
//!
//! References: `lookup`, `create` and `link` return attributes *and take one reference* on the
//! inode; the root always has one. While an inode has references, its number refers to this file,
//! even after its last name is removed. The caller releases references with [`FileSystem::forget`];
//! the file system frees an inode without names when its last reference is released. Unmounting
//! makes all references void.
//!
//! Above the interface, each usable by itself: access rights ([`access`]), access control lists
//! ([`acl`]), advisory locks ([`LockTable`]), and [`Vfs`], which combines them with open files and
//! paths.
//!
//! The crate `spindle_conformance` tests every file system through this interface.

pub mod access;
pub mod acl;
mod error;
mod fs;
mod locks;
pub mod nfs4;
mod observe;
mod path;
mod terminals;
mod types;
mod vfs;

pub use access::{APPEND, Access, Cred, GroupRule, permit_write_by_flags, without_set_id};
pub use acl::{AccessList, Acl, AclKind};
pub use error::{Error, Objection, Result};
pub use fs::FileSystem;
pub use locks::{ByteRange, Interrupt, LockHolder, LockKind, LockOwner, LockTable, Wait};
pub use nfs4::Nfs4Acl;
pub use observe::{Action, Caller, Observer};
pub use path::Node;
pub use terminals::Terminals;
pub use types::{
    AtimePolicy, Attr, DirEntry, Extent, FallocateMode, FileKind, FsStat, Ino, Limits, NewNode, Privilege,
    Rdev, RenameMode, Seek, SetAttr, SetTime, XattrMode,
};
pub use vfs::{Checking, HandleId, OpenFlags, Options, Vfs};
