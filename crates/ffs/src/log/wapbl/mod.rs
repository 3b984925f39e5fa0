//! The log of `ffs`, in NetBSD's format (WAPBL, `sys/kern/vfs_wapbl.c` and
//! `sys/sys/wapbl_replay.h`).
//!
//! The one idea: a commit writes its records behind those of the commits before, waits until
//! everything is durable (file data too), and then writes a header, in one block, that says how far
//! the records now go. So an epoch counts from the moment its header is durable, and wholly.
//! Recovery replays what the newest header covers.
//!
//! `format` has the structures, `ring` the place, `replay` reads, `writer` writes. Nothing here
//! knows what the blocks mean.

mod format;
mod replay;
mod ring;
mod writer;

pub(crate) use format::DEV_BSIZE;
pub use format::{Identity, Stamp, SuperblockState};
pub use replay::Replay;
pub use ring::Ring;
pub(crate) use writer::{OrphanChanges, Wapbl};

#[cfg(test)]
mod tests;
