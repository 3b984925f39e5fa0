//! Files and names.

mod attr;
pub mod class;
mod file;
mod inode;
pub mod mount;
mod names;
mod ops;
mod place;
mod truncate;
mod xattr;
