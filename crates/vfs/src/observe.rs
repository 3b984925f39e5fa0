//! What a front-end tells of how its files are used.
//!
//! The one idea: [`crate::FileSystem`] sees inodes and bytes, but not who asks, which open file it
//! is, or what it is called. The front-end knows all three, so it tells an [`Observer`], after each
//! thing that succeeded and before whoever asked hears of it. Without an observer nothing is told
//! and nothing is paid.

use crate::{Attr, Ino, OpenFlags};

/// Who asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The account's number.
    pub user: u32,
    /// The process; 0 if it is the system itself, which writes late.
    pub process: u32,
}

/// Something that was done.
#[derive(Clone, Copy, Debug)]
pub enum Action<'a> {
    /// A name was found, or given.
    Named {
        /// The directory.
        dir: Ino,
        /// The name in it.
        name: &'a [u8],
        /// What it leads to.
        ino: Ino,
    },
    /// The front-end knows this inode no more: its number may come to mean another file.
    Forgotten(Ino),
    /// A regular file was opened.
    Opened {
        /// The number of the open file, until [`Action::Closed`].
        handle: u64,
        /// The file, as it is now.
        attr: &'a Attr,
        /// How.
        flags: OpenFlags,
        /// It was made by this.
        created: bool,
    },
    /// Bytes were read.
    Read {
        /// Through which open file.
        handle: u64,
        /// Of which file.
        ino: Ino,
        /// From where.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// Bytes were written.
    Written {
        /// Through which open file, as far as the front-end knows.
        handle: u64,
        /// Of which file.
        ino: Ino,
        /// From where.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// An open file was closed.
    Closed {
        /// Which.
        handle: u64,
        /// The file, if its attributes could be had.
        attr: Option<&'a Attr>,
    },
    /// A file was cut or extended to this size, in bytes.
    Resized(Ino, u64),
    /// A file was made durable.
    Synced {
        /// Through which open file.
        handle: u64,
        /// Which.
        ino: Ino,
    },
    /// A directory was made; it was named before.
    MadeDirectory(Ino),
    /// A name was removed.
    Removed {
        /// The directory.
        dir: Ino,
        /// The name in it.
        name: &'a [u8],
        /// What it led to, as it was before.
        attr: &'a Attr,
    },
    /// A name was moved.
    Renamed {
        /// From which directory.
        from_dir: Ino,
        /// The name that it had.
        from: &'a [u8],
        /// To which directory.
        to_dir: Ino,
        /// The name that it has.
        to: &'a [u8],
        /// What was moved, as it was before.
        attr: &'a Attr,
        /// What had the new name before, and has lost it; or has the old one now, if they were
        /// exchanged.
        replaced: Option<&'a Attr>,
        /// They were exchanged.
        exchanged: bool,
    },
}

/// Is told of actions, from any thread. It must not use the mount that it is told of.
pub trait Observer: Send + Sync {
    /// `by` did this.
    fn observe(&self, by: Caller, action: &Action<'_>);
}
