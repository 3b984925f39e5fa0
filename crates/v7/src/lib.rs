//! The old UNIX file system: the Seventh Edition, 32V to 4.1BSD, and System V.
//!
//! A super-block of a few hundred bytes describes the file system, and the inodes follow it in one
//! table. An inode has the addresses of the blocks of its file, and a directory is a file of names.
//! A file gets the block that is on top of the free list next (`volume::free_list`). This is the
//! file system that the fast file system was measured against.
//!
//! [`V7::open`] returns a [`spindle_vfs::FileSystem`]; [`newfs`] makes one, [`check`] checks and
//! repairs one. The caller asks [`V7::read_only_reasons`] why it cannot write, releases the
//! references that it got, and calls `unmount` at the end.
//!
//! Read in this order: `format` ([`ondisk`], the structures; `kind` and `superblock`, which of them
//! it is; `layout`, where everything is), `volume` (`free_list` and `ilist`, what is free; `bmap`,
//! `inodes`, `tx`), `tree` (`file`, `truncate`, `dir`, `attr`, `ops`, `mount`), and the crate
//! `spindle_tree` for names and rename.

pub mod check;
mod format;
pub mod inspect;
pub mod newfs;
mod tree;
mod volume;

pub use format::kind::{Family, Format};
pub use format::layout::{Block, Layout, Lbn, ROOT_INO};
pub use format::ondisk;
pub use format::superblock::{Detected, Superblock};
pub use tree::mount::{OpenOptions, V7};
