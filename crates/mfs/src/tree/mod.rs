//! Files and names.

mod attr;
mod file;
mod inode;
pub mod mount;
mod names;
mod ops;
mod truncate;
mod xattr;
