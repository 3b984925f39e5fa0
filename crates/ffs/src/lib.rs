//! The Berkeley fast file system: UFS1 and UFS2 as the BSDs and Solaris write them.
//!
//! A newcomer reads [`ondisk`] (the structures), [`Layout`] (where everything is) and [`Superblock`] first.

mod alloc;
mod bmap;
pub mod check;
mod ckhash;
mod dialect;
mod dinode;
mod dir;
mod dirindex;
mod extattr;
mod file;
mod group;
mod inode;
mod layout;
mod mount;
pub mod newfs;
pub mod ondisk;
mod ops;
mod policy;
mod rename;
mod rotation;
mod search;
mod summary;
mod superblock;
mod truncate;
mod units;

pub use ckhash::check_hash;
pub use dialect::{Dialect, Objection};
pub use group::{CG_CKHASH, Group, GroupMap, GroupMut, clrbit, find_bit, isset, setbit};
pub use layout::{InodeFormat, Layout, MAXBSIZE, MINBSIZE, Version};
pub use mount::{Ffs, OpenOptions, ROOT_INO};
pub use rotation::Rotation;
pub use superblock::{CheckHashes, Superblock};
pub use units::{Frag, Lbn};
