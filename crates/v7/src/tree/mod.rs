//! The tree: files, directories and names, and the operations on them.

mod attr;
mod dir;
mod extents;
mod file;
mod inode;
pub(crate) mod lost_root;
pub(crate) mod mount;
mod ops;
mod truncate;
