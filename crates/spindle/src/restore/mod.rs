//! Restoring dumps, as restore(8) does: a stream, or a chain of them, into any sink of a transfer.
//!
//! A stream has all directories before the other files, so one reading suffices: the directories of
//! all streams are read first and put together into the last tree ([`Restore`]), and then the files
//! of each stream go to the names that they have in it. In memory are the directories. So a chain
//! needs no table of what an earlier restore has done, each file is restored once, and nothing is
//! made that a later stream removes.
//!
//! A stream may be damaged or hostile. What is damaged is reported, and all else is restored. After
//! a whole restore without a report every inode that a stream says it has was there, and was named
//! by a directory that was reached from the root.

mod compare;
mod content;
mod extract;
mod names;
mod stream;
mod tree;

pub use compare::{Compared, Discarded, OnlyDirectories, Place};
pub use extract::{Destination, Restored};
pub use names::Names;
pub use stream::{MoreVolumes, Report, Stream};
pub use tree::{Listed, Restore};
