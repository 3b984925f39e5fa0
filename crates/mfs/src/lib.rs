//! The multi-structured file system (Muller and Pasquale, "A High Performance Multi-Structured File
//! System Design", SOSP 1991): three storage structures, each on its own devices.
//!
//! - *Control storage* holds the file headers and the name maps, and is mirrored.
//! - *Data storage* holds the contents of files that are too long for their headers, striped. It
//!   may have several classes, each with devices and a structure of its own.
//! - *Log storage* gets every change of control storage first, in one append.
//!
//! If data has checksums, control storage has a table of them, and nothing durable is written over:
//! so a block and its checksum agree after every crash. The caller must end with `unmount`.
//!
//! The folders, from the ground up: [`format`] (structures on disk), `set` (the members as one
//! device), `log`, `volume` (space and transactions), `tree` (files and names), and beside them
//! [`check`] (check and repair of a whole set). `docs/SPEC-mfs.md` draws the structures.

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
pub use format::label::{Area, Label, Parameters, Role};
pub use format::layout::{ClassLayout, Layout};
pub use log::LogUnits;
pub use manage::{Progress, Report};
pub use set::labels::{is_member, read_label};
pub use set::members::Set;
pub use set::places::{Place, read_places};
pub use tree::class::CLASS_ATTRIBUTE;
pub use tree::mount::{Mfs, OpenOptions};
pub use usage::{Share, StorageUse};
