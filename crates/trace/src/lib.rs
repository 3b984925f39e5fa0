//! The trace laboratory: what programs do with files, and what storage that asks for.
//!
//! The one idea is that of the 1985 study (Ousterhout et al., "A Trace-Driven Analysis of the UNIX
//! 4.2 BSD File System"): reads and writes need not be recorded one by one. Within an open file
//! access is sequential until something moves the position, so an [`Event`] at each open, seek and
//! close, with the bytes of the *run* that it ends, says exactly which bytes were read and written,
//! in a fraction of the volume.
//!
//! Everything here is a [`Source`] of events, or takes [`Batch`]es of them one after the other, in
//! memory that does not grow with the number of events: [`format`] is our own file (Parquet, so
//! that others read it, too). What a trace asks of a cache are [`requests`]; [`policy`] tells what
//! policies make of them, and [`curve`] what every size of cache would. How files are used is told
//! by [`analyze`], over the accesses that [`follow`] puts together.
//!
//! Invariants of every trace: times do not go back by more than the recorder's buffers explain (a
//! reader need not sort, but must not assume order between processes to the nanosecond); an open id
//! names one open file only, from its [`Kind::Open`] or [`Kind::Create`] to its [`Kind::Close`]; a
//! file id names one file until an [`Kind::Unlink`] with [`Flags::LAST`].

pub mod analyze;
pub mod cachesim;
pub mod compare;
pub mod curve;
mod error;
mod event;
pub mod export;
mod fold;
pub mod follow;
pub mod format;
mod import;
pub mod policy;
pub mod replay;
pub mod requests;
mod source;
pub mod synth;
pub mod traced;

pub use error::{Error, Result};
pub use event::{Batch, Event, FileId, Flags, Kind, Names, Symbol};
pub use format::Columns;
pub use import::{FORMATS, Format};
pub use source::{Info, Source, open, open_as};
