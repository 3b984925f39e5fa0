//! Observation of the use of files, by front ends.
//!
//! The one idea: [`crate::FileSystem`] sees inodes and bytes, but not the caller, the open file or
//! the name. The front end knows all three, so it reports each successful action to an
//! [`Observer`], before the caller gets the result. Without an observer there is no cost.

use crate::{Attr, Ino, OpenFlags};

/// The caller of an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// User number.
    pub user: u32,
    /// Process; 0 for the system itself, which writes data late.
    pub process: u32,
}

/// A successful action.
#[derive(Clone, Copy, Debug)]
pub enum Action<'a> {
    /// A name was looked up or created.
    Named {
        /// Directory.
        dir: Ino,
        /// Name in it.
        name: &'a [u8],
        /// Inode that it names.
        ino: Ino,
    },
    /// The front end dropped this inode: its number may be used for another file later.
    Forgotten(Ino),
    /// A regular file was opened.
    Opened {
        /// Number of the open file, until [`Action::Closed`].
        handle: u64,
        /// File in its present state.
        attr: &'a Attr,
        /// Mode of the open.
        flags: OpenFlags,
        /// True if this open created the file.
        created: bool,
    },
    /// Bytes were read.
    Read {
        /// Open file.
        handle: u64,
        /// File.
        ino: Ino,
        /// Offset in bytes.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Bytes were written.
    Written {
        /// Open file, if the front end knows it.
        handle: u64,
        /// File.
        ino: Ino,
        /// Offset in bytes.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// An open file was closed.
    Closed {
        /// Open file.
        handle: u64,
        /// File, if its attributes are available.
        attr: Option<&'a Attr>,
    },
    /// A file was truncated or extended to this size in bytes.
    Resized(Ino, u64),
    /// A file was made durable.
    Synced {
        /// Open file.
        handle: u64,
        /// File.
        ino: Ino,
    },
    /// A directory was created; [`Action::Named`] came before.
    MadeDirectory(Ino),
    /// A name was removed.
    Removed {
        /// Directory.
        dir: Ino,
        /// Name in it.
        name: &'a [u8],
        /// Inode that it named, in its state before.
        attr: &'a Attr,
    },
    /// A name was renamed.
    Renamed {
        /// Old directory.
        from_dir: Ino,
        /// Old name.
        from: &'a [u8],
        /// New directory.
        to_dir: Ino,
        /// New name.
        to: &'a [u8],
        /// Inode that was renamed, in its state before.
        attr: &'a Attr,
        /// Inode that had the new name before. It has lost that name, or has the old name now if
        /// the two were exchanged.
        replaced: Option<&'a Attr>,
        /// True if the two were exchanged.
        exchanged: bool,
    },
}

/// Receives actions, from any thread. It must not use the mount that it observes.
pub trait Observer: Send + Sync {
    /// Receives an action of `by`.
    fn observe(&self, by: Caller, action: &Action<'_>);
}
