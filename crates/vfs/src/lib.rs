//! What every file system gives, and what every front-end needs above it.
//!
//! [`FileSystem`] is the seam: inodes by number, names within one directory, and nothing of paths,
//! permissions, open files or locks. Those are the same for all file systems and live above the
//! seam.
//!
//! The protocol of references: `lookup`, `create` and `link` return attributes *with one reference
//! taken* on the inode, and the root always has one. While an inode has references its number means
//! that file, even after its last name is gone; the caller gives references back with
//! [`FileSystem::forget`], and the file system frees a nameless inode when its last one goes.
//! Unmounting makes all references void.
//!
//! Above the seam, each usable by itself: who may do what ([`access`]), advisory locks
//! ([`LockTable`]), and [`Vfs`], which joins both with open files and paths.
//!
//! With the feature `testing`: `model` is the file system that is obviously right, `conformance`
//! the behaviours that all have, and `random` compares a file system with the model over random
//! operations.

pub mod access;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod error;
mod fs;
mod locks;
#[cfg(any(test, feature = "testing"))]
pub mod model;
mod observe;
mod path;
#[cfg(any(test, feature = "testing"))]
pub mod random;
mod types;
mod vfs;

pub use access::{APPEND, Access, Cred, GroupRule, IMMUTABLE, without_set_id};
pub use error::{Error, Objection, Result};
pub use fs::FileSystem;
pub use locks::{ByteRange, Interrupt, LockHolder, LockKind, LockOwner, LockTable, Wait};
pub use observe::{Action, Caller, Observer};
pub use path::Node;
pub use types::{
    AtimePolicy, Attr, DirEntry, Extent, FallocateMode, FileKind, FsStat, Ino, Limits, NewNode, Privilege,
    Rdev, RenameMode, Seek, SetAttr, SetTime, XattrMode,
};
pub use vfs::{Checking, HandleId, OpenFlags, Options, Vfs};
