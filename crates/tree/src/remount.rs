//! What a front-end changes of an open file system, and what it brings to one that takes the place
//! of another.

use crate::{Operations, Tree};
use spindle_vfs::{AtimePolicy, Ino, Result};

/// An open file system that a front-end can change, or use in the place of one that it had before.
pub trait Remount: Send + Sync {
    /// Sets when reading changes access times.
    fn set_atime(&self, atime: AtimePolicy);

    /// Takes references to an inode that is in use.
    ///
    /// # Errors
    /// [`spindle_vfs::Error::Stale`] if it is not.
    fn take_references(&self, ino: Ino, count: u64) -> Result<()>;

    /// Returns true if damage was met since it was opened, or metadata could not be read and
    /// was not read later.
    fn is_damaged(&self) -> bool;
}

impl<T: Tree> Remount for T {
    fn set_atime(&self, atime: AtimePolicy) {
        self.nodes().set_atime(atime);
    }

    fn take_references(&self, ino: Ino, count: u64) -> Result<()> {
        let inode = self.iget_ino(ino)?;
        let _locked = inode.state.read();
        (0..count).for_each(|_| self.nodes().table.reference(&inode));
        Ok(())
    }

    fn is_damaged(&self) -> bool {
        self.condition().is_damaged()
    }
}
