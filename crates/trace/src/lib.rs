//! Traces of what programs do with files: their events, their file format, other programs' formats.
//!
//! The one idea is that of the 1985 study (Ousterhout et al., "A Trace-Driven Analysis of the UNIX
//! 4.2 BSD File System"): reads and writes need not be recorded one by one. Within an open file
//! access is sequential until something moves the position, so an [`Event`] at each open, seek and
//! close, with the bytes of the *run* that it ends, says exactly which bytes were read and written,
//! in a fraction of the volume.
//!
//! Every module provides a [`Source`] of events or processes [`Batch`]es of them one after the
//! other, in memory that does not grow with the number of events. [`format`] is Spindle's own file
//! (Parquet, so that other programs can read it), [`open`] reads it and the formats of others,
//! [`filter`] and [`merge`] make traces of traces, [`follow`] combines events into accesses, and
//! [`traced`] records the use of a mount. The crates above analyse traces, simulate caches with
//! them, and make them.
//!
//! Invariants of every trace: times do not decrease by more than the recorder's buffers explain (a
//! reader need not sort, but must not assume order between processes to the nanosecond); an open
//! number identifies one open file, from its [`Kind::Open`] or [`Kind::Create`] to its
//! [`Kind::Close`]; a file id identifies one file until an [`Kind::Unlink`] with [`Flags::LAST`].

mod error;
mod event;
pub mod export;
pub mod filter;
mod fold;
pub mod follow;
pub mod format;
mod import;
#[cfg(test)]
mod invented;
pub mod iolog;
pub mod latency;
pub mod merge;
mod source;
pub mod traced;

pub use error::{Error, Result};
pub use event::{Batch, Event, FileId, Flags, Kind, Names, Symbol};
pub use format::Columns;
pub use import::{FORMATS, Format};
pub use source::{Info, Source, open, open_as};
