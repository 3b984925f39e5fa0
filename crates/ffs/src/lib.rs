//! The Berkeley fast file system: UFS1 and UFS2 as the BSDs and Solaris write them.
//!
//! The one idea: a superblock becomes a [`Layout`] by checks that leave nothing to doubt, and all
//! addresses come from there; policies decide where things go as pure functions of the summaries;
//! every change is made to buffers inside a transaction, with the counts of its group and of the
//! whole kept exact in the same one.
//!
//! [`Ffs::open`] gives a [`spindle_vfs::FileSystem`]; [`newfs`] makes one, [`check`] checks one,
//! and [`repair`] repairs one. The caller asks [`Ffs::read_only_reasons`] why it could not write,
//! gives back the references it was given, and calls `unmount` in the end: without it the file
//! system stays marked as in use.
//!
//! The folders stand on each other, and a test holds them to it: `format` (what is on the device),
//! `log` (the write-ahead log), `volume` (space and inodes, changed in transactions), `tree`
//! (files, names and the operations); `volume` charges the tables of [`quota`], whose files the
//! check and the repair read, too. Beside them stand [`newfs`], [`check`] and [`tunefs`], which
//! need no mount; [`repair`] stands on the check and the tree, [`growfs`] on newfs and the repair,
//! and [`inspect`] on the check and the repair. A newcomer reads [`ondisk`] (the structures),
//! [`Layout`] (where everything is) and [`Superblock`] first, then `volume::alloc`, `tree::file`,
//! `tree::dir` and `tree::ops`. The crate `spindle_tree` gives the order of the locks.

pub mod check;
mod format;
pub mod growfs;
pub mod inspect;
mod log;
pub mod newfs;
pub mod quota;
pub mod repair;
mod tree;
pub mod tunefs;
mod volume;

pub use self::log::locate::{FoundLog, LogPlace, MAX_LOG_BYTES};
pub use self::log::wapbl::{Identity, Replay, Stamp, SuperblockState};
pub use self::log::{JournalKind, LogUse, Replayed, gjournal, replayed};
pub use format::acl;
pub use format::ckhash::check_hash;
pub use format::dialect::Dialect;
pub use format::extattr;
pub use format::group::{CG_CKHASH, Group, GroupMap, GroupMut, Patch, clrbit, find_bit, isset, setbit};
pub use format::layout::{Extent, InodeFormat, Layout, MAXBSIZE, MINBSIZE, ROOT_INO, Version};
pub use format::ondisk;
pub use format::rdev;
pub use format::rotation::Rotation;
pub use format::salvage::Salvaged;
pub use format::superblock::{CheckHashes, Superblock};
pub use format::units::{Frag, Lbn};
pub use tree::log_file::{LOG_NAME, log_bytes};
pub use tree::mount::{Ffs, LogAtOpen, OpenOptions};
pub use tree::quota::{Progress as QuotaProgress, QuotaFiles};
pub use tree::remove_log::{recover, remove_log};
pub use volume::runs::Allocation;
