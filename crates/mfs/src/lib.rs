//! The multi-structured file system (Muller and Pasquale, "A High Performance Multi-Structured File
//! System Design", SOSP 1991): three storage structures, each on its own devices.
//!
//! - *Control storage* holds the file headers and the name maps, and is mirrored.
//! - *Data storage* holds the contents of files that are too long for their headers, striped. It
//!   may have several classes, each with devices and a structure of its own.
//! - *Log storage* gets every change of control storage first, in one append.
//!
//! A read-only class is a device that is not written: the files on it are in the name space, and
//! what is written over them goes to another class.
//!
//! If data has checksums, control storage has a table of them, and nothing durable is written over:
//! so a block and its checksum agree after every crash. The caller must end with `unmount`.
//!
//! The folders, from the ground up: [`format`] (structures on disk), `set` (the members as one
//! device), `log`, `volume` (space and transactions), `tree` (files and names), and beside them
//! [`check`] (check and repair of a whole set). `docs/SPEC-mfs.md` draws the structures.

mod attach;
pub mod check;
mod format;
mod log;
mod manage;
pub mod newfs;
mod set;
mod tree;
mod usage;
mod volume;

pub use format::class::{Class, ClassName, Structure};
pub use format::history::{Former, History, Opening};
pub use format::label::{Area, LABEL_BYTES, Label, Parameters, Role};
pub use format::layout::{ClassLayout, Layout};
pub use format::read_only::{BytesRead, Fingerprint, ReadOnlyClass};
pub use log::LogUnits;
pub use manage::{Progress, Report};
pub use set::labels::{FoundLabel, is_member, label_at, read_label};
pub use set::members::Set;
pub use set::moment::newest;
pub use set::places::{Place, read_places};
pub use tree::class::CLASS_ATTRIBUTE;
pub use tree::mount::{Mfs, OpenOptions};
pub use volume::usage::{Share, StorageUse};
