//! What every UNIX file system does alike above its volume: inodes in memory with their locks and
//! references, names in directories, and rename.
//!
//! The one idea: a file system says how its inodes and directory entries are read and written
//! ([`Tree`]), and gets the operations on names for it ([`Operations`]). Each operation takes the
//! locks that it needs, looks, decides, and makes all changes in one transaction.
//!
//! Order of locks: a directory before the file in it; among other files the lower number first.
//! Only the holder of the rename lock waits for a second directory: a damaged tree may have a
//! directory below itself, where there is no order among directories. A transaction begins after
//! all inode locks are held, never before one.
//!
//! The caller gives back the references that `lookup`, `create` and `link` take, with `forget`.

pub mod check;
mod condition;
mod inode;
mod listing;
mod lost_root;
mod names;
mod operations;
mod remount;
mod rename;
pub mod xattr;

pub use condition::{Condition, Unreadable};
pub use inode::{Inode, InodeTable, Missing, Nodes, State};
pub use listing::{Listing, lost_names};
pub use lost_root::LostRoot;
pub use operations::Operations;
pub use remount::Remount;

use spindle_cache::{Restore, Stream};
use spindle_clock::Timestamp;
use spindle_vfs::{Attr, FileKind, NewNode, Privilege, Result};
use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;

/// The number of an inode.
pub trait Number: Copy + Ord + Hash + Display + Send + Sync + TryFrom<u64> + Into<u64> {}
impl<N: Copy + Ord + Hash + Display + Send + Sync + TryFrom<u64> + Into<u64>> Number for N {}

/// What the operations need to know of an inode, and change in it.
pub trait Dinode: Clone + Send + Sync {
    /// Returns the kind of file; none if the mode is that of no file.
    fn kind(&self) -> Option<FileKind>;
    /// Returns true if the inode is free.
    fn is_free(&self) -> bool;
    /// Returns the number of names.
    fn nlink(&self) -> u16;
    /// Sets the number of names.
    fn set_nlink(&mut self, nlink: u16);
    /// Returns the times of the last access, modification and change.
    fn times(&self) -> [Timestamp; 3];
    /// Sets the time of the last access.
    fn set_atime(&mut self, atime: Timestamp);
    /// Sets the times of the last modification and change.
    fn set_modified(&mut self, now: Timestamp);
    /// Sets the time of the last change.
    fn set_changed(&mut self, now: Timestamp);

    /// Returns true for a directory.
    fn is_directory(&self) -> bool {
        self.kind() == Some(FileKind::Directory)
    }
}

/// An entry that was found in a directory.
#[derive(Clone, Copy, Debug)]
pub struct Found<N> {
    /// Byte offset of the entry in the directory.
    pub place: u64,
    /// The inode that it names.
    pub ino: N,
}

/// A new inode that is in no table yet.
pub struct NewInode<T: Tree + ?Sized> {
    /// Its number.
    pub ino: T::Number,
    /// The inode as it was stored.
    pub di: T::Dinode,
    /// Memory for its data.
    pub stream: Arc<Stream>,
}

/// The state of an inode of `T`, which its lock protects.
pub type StateOf<T> = State<<T as Tree>::Dinode, <T as Tree>::Derived>;
/// An inode of `T` in memory.
pub type InodeOf<T> = Inode<<T as Tree>::Number, <T as Tree>::Dinode, <T as Tree>::Derived>;
/// All inodes of `T` in memory.
pub type NodesOf<T> = Nodes<<T as Tree>::Number, <T as Tree>::Dinode, <T as Tree>::Derived>;

/// A file system whose names and inodes are kept by [`Operations`].
pub trait Tree: Send + Sync {
    /// The number of an inode.
    type Number: Number;
    /// An inode as the disk has it.
    type Dinode: Dinode;
    /// What is derived from an inode and kept with it: an index of its names, for example.
    type Derived: Restore + Send + Sync;
    /// A transaction.
    type Tx<'a>
    where
        Self: 'a;
    /// Room for a name in a directory, which a transaction has reserved.
    type EntrySpace;

    /// The root directory's inode.
    const ROOT: Self::Number;

    /// Returns the inodes in memory.
    fn nodes(&self) -> &NodesOf<Self>;

    /// Returns the bytes of the longest name.
    fn name_max(&self) -> usize;

    /// Returns the most names that a file can have.
    fn link_max(&self) -> u16;

    /// Returns whether it can be changed, and whether it is damaged.
    fn condition(&self) -> &Condition;

    /// Returns true if nothing can be changed.
    fn is_read_only(&self) -> bool {
        self.condition().is_read_only()
    }

    /// Refuses to change anything after a failure of the device.
    ///
    /// # Errors
    /// The failure.
    fn check_changes(&self) -> Result<()>;

    /// Returns the present time as the disk can keep it.
    fn now(&self) -> Timestamp;

    /// Notes damage that an operation has met, and returns the result.
    ///
    /// # Errors
    /// Those of the result.
    fn note<R>(&self, result: Result<R>) -> Result<R> {
        self.condition().note(result)
    }

    /// Carries `change` out as one transaction, which changes the inodes in `touched`. The caller
    /// holds all inode locks that it needs. If it fails, everything is as it was.
    ///
    /// # Errors
    /// Those of `change`; device errors.
    fn transact<R: Restore, V>(
        &self,
        touched: R,
        change: impl FnOnce(&Self::Tx<'_>, &mut R) -> Result<V>,
    ) -> Result<V>;

    /// [`Self::transact`] for an operation on names, whose order on the device may matter.
    ///
    /// # Errors
    /// Those of `change`; device errors.
    fn transact_naming<R: Restore, V>(
        &self,
        touched: R,
        change: impl FnOnce(&Self::Tx<'_>, &mut R) -> Result<V>,
    ) -> Result<V> {
        self.transact(touched, change)
    }

    /// Reads an inode that is in use.
    ///
    /// # Errors
    /// [`spindle_vfs::Error::Stale`] if it is not; [`spindle_vfs::Error::Corrupt`] if it cannot be
    /// one.
    fn read_inode(&self, ino: Self::Number) -> Result<Self::Dinode>;

    /// Returns what is derived from an inode that has just come into memory.
    fn derive(&self) -> Self::Derived;

    /// Returns memory for the data of a file with this inode.
    fn new_stream(&self, di: &Self::Dinode) -> Arc<Stream>;

    /// Writes an inode into its block.
    ///
    /// # Errors
    /// Device errors.
    fn store(&self, tx: &Self::Tx<'_>, ino: Self::Number, di: &Self::Dinode) -> Result<()>;

    /// Makes the inode for a new name in the directory `parent`, with the block of a directory or
    /// the target of a symbolic link, and stores it.
    ///
    /// # Errors
    /// [`spindle_vfs::Error::NoSpace`], or a property that the format cannot keep.
    fn make_inode(
        &self,
        tx: &Self::Tx<'_>,
        parent: (Self::Number, &Self::Dinode),
        node: &NewNode<'_>,
        by: Privilege,
    ) -> Result<NewInode<Self>>;

    /// Refuses a node that cannot be created, before anything is locked.
    ///
    /// # Errors
    /// What speaks against it.
    fn check_node(&self, node: &NewNode<'_>) -> Result<()> {
        let _ = node;
        Ok(())
    }

    /// Frees an inode if it has no names: its blocks, then itself. Its references are void.
    ///
    /// # Errors
    /// Device errors; damage.
    fn free_orphan(&self, inode: &Arc<InodeOf<Self>>) -> Result<()>;

    /// Makes freed space available that waits for a commit; returns true if there was any.
    ///
    /// # Errors
    /// Device errors.
    fn commit_freed(&self) -> Result<bool> {
        Ok(false)
    }

    /// Returns the attributes of a file.
    fn attr(&self, inode: &InodeOf<Self>, state: &StateOf<Self>) -> Attr;

    /// Refuses to change an inode that belongs to the file system itself.
    ///
    /// # Errors
    /// [`spindle_vfs::Error::NotPermitted`].
    fn check_changeable(&self, ino: Self::Number) -> Result<()> {
        let _ = ino;
        Ok(())
    }

    /// Refuses to make one more orphan than can be kept track of.
    ///
    /// # Errors
    /// [`spindle_vfs::Error::NoSpace`].
    fn check_orphans(&self) -> Result<()> {
        Ok(())
    }

    /// Notes in a transaction that an inode that was made without a name gets one.
    ///
    /// # Errors
    /// Device errors.
    fn note_first_name(
        &self,
        tx: &Self::Tx<'_>,
        ino: Self::Number,
        derived: &mut Self::Derived,
    ) -> Result<()> {
        let _ = (tx, ino, derived);
        Ok(())
    }

    /// Notes in a transaction that an inode has no name: it has lost its last one, or is made so.
    fn note_orphan(&self, tx: &Self::Tx<'_>, ino: Self::Number, di: &Self::Dinode) {
        let _ = (tx, ino, di);
    }

    /// Changes a directory that moves into `parent`, apart from its `..`.
    fn note_new_parent(&self, di: &mut Self::Dinode, parent: &Self::Dinode) {
        let _ = (di, parent);
    }

    /// Finds a name in a directory.
    ///
    /// # Errors
    /// Device errors; damage, also if the name is not among those that can be read of a damaged
    /// directory: it may be one of the others.
    fn dir_find(
        &self,
        ino: Self::Number,
        state: &StateOf<Self>,
        name: &[u8],
    ) -> Result<Option<Found<Self::Number>>>;

    /// Returns true if a directory shows files that no directory names ([`LostRoot`]).
    fn shows_unnamed(&self, ino: Self::Number) -> bool {
        let _ = ino;
        false
    }

    /// Makes room in a directory for a name.
    ///
    /// # Errors
    /// [`spindle_vfs::Error::NoSpace`].
    fn dir_reserve(
        &self,
        tx: &Self::Tx<'_>,
        ino: Self::Number,
        state: &mut StateOf<Self>,
        name: &[u8],
        by: Privilege,
    ) -> Result<Self::EntrySpace>;

    /// Enters a name into the room that [`Self::dir_reserve`] has made.
    ///
    /// # Errors
    /// Device errors; damage.
    fn dir_enter(
        &self,
        tx: &Self::Tx<'_>,
        ino: Self::Number,
        state: &mut StateOf<Self>,
        room: Self::EntrySpace,
        name: &[u8],
        target: (Self::Number, FileKind),
    ) -> Result<()>;

    /// Removes the name at byte `place` of a directory.
    ///
    /// # Errors
    /// Device errors; damage.
    fn dir_remove(
        &self,
        tx: &Self::Tx<'_>,
        ino: Self::Number,
        state: &mut StateOf<Self>,
        name: &[u8],
        place: u64,
    ) -> Result<()>;

    /// Makes the name at byte `place` of a directory refer to another inode.
    ///
    /// # Errors
    /// Device errors; damage.
    fn dir_rewrite(
        &self,
        tx: &Self::Tx<'_>,
        ino: Self::Number,
        state: &mut StateOf<Self>,
        place: u64,
        target: (Self::Number, FileKind),
    ) -> Result<()>;

    /// Returns true if a directory has no names but `.` and `..`.
    ///
    /// # Errors
    /// Device errors; damage.
    fn dir_is_empty(&self, ino: Self::Number, di: &Self::Dinode) -> Result<bool>;
}
