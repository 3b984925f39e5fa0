//! The tree: files, directories and names, and the operations on them.

mod acl;
pub(crate) mod attr;
pub(crate) mod dir;
pub(crate) mod dirindex;
pub(crate) mod extattr;
mod extents;
pub(crate) mod file;
mod holes;
pub(crate) mod inode;
pub(crate) mod inside;
pub(crate) mod log_file;
pub(crate) mod lost_root;
pub(crate) mod mount;
mod ops;
mod orphans;
pub(crate) mod quota;
pub(crate) mod remove_log;
mod snapshot;
mod truncate;
