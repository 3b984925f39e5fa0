//! The Berkeley fast file system: UFS1 and UFS2 as the BSDs and Solaris write them.
//!
//! The one idea: a superblock becomes a [`Layout`] by checks that leave nothing to doubt, and all
//! addresses come from there; policies decide where things go as pure functions of the summaries;
//! every change is made to buffers inside a transaction, with the counts of its group and of the
//! whole kept exact in the same one.
//!
//! [`Ffs::open`] gives a [`spindle_vfs::FileSystem`]; [`newfs`] makes one, [`check`] checks one.
//! The caller asks [`Ffs::read_only_reasons`] why it could not write, gives back the references it
//! was given, and calls `unmount` in the end: without it the file system stays marked as in use.
//!
//! A newcomer reads [`ondisk`] (the structures), [`Layout`] (where everything is) and
//! [`Superblock`] first, then `alloc`, `file`, `dir` and `ops`. The order of locks is told in
//! `inode`.

mod alloc;
mod attr;
mod bmap;
pub mod check;
mod ckhash;
mod commit;
mod dialect;
mod dinode;
mod dir;
mod dirindex;
mod extattr;
mod extents;
mod file;
mod group;
mod inode;
mod intervals;
mod journal;
mod layout;
mod makelog;
mod mount;
mod names;
pub mod newfs;
pub mod ondisk;
mod ops;
mod policy;
mod removelog;
mod rename;
mod rotation;
mod runs;
mod search;
mod summary;
mod superblock;
mod truncate;
pub mod tunefs;
mod tx;
mod units;
mod wapbl;

pub use ckhash::check_hash;
pub use dialect::Dialect;
pub use group::{CG_CKHASH, Group, GroupMap, GroupMut, Patch, clrbit, find_bit, isset, setbit};
pub use journal::{FoundLog, LogPlace};
pub use layout::{InodeFormat, Layout, MAXBSIZE, MINBSIZE, Version};
pub use makelog::{LOG_NAME, log_bytes};
pub use mount::{Ffs, LogUse, OpenOptions, ROOT_INO};
pub use removelog::remove_log;
pub use rotation::Rotation;
pub use runs::Allocation;
pub use superblock::{CheckHashes, Superblock};
pub use units::{Frag, Lbn};
pub use wapbl::{Identity, Replay, Stamp, Standing};
