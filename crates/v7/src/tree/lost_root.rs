//! What stands in for a root directory that is lost: see [`LostRoot`].

use super::mount::V7;
use crate::format::dinode::Dinode;
use crate::format::layout::ROOT_INO;
use spindle_tree::{Dinode as _, LostRoot};
use spindle_vfs::{Error, Result};
use std::ops::ControlFlow;

/// Returns the inode of the directory that stands in.
pub(crate) fn inode() -> Dinode {
    Dinode { mode: 0o040_755, nlink: 2, ..Dinode::default() }
}

impl V7 {
    /// Shows the files and directories that no directory names any more, as `#` and the numbers of
    /// their inodes, in place of the root directory. Reads all inodes and directories.
    ///
    /// # Errors
    /// EROFS if the file system is not open read-only; those of reading.
    pub fn show_unnamed(&mut self) -> Result<()> {
        if self.lost_root.is_none() {
            self.lost_root = Some(self.stand_in_for_root(None)?);
        }
        Ok(())
    }

    /// Returns what stands in for the root directory, which fails with this error if there is one.
    /// Reads all inodes and directories.
    ///
    /// # Errors
    /// As for [`LostRoot::search`].
    pub(crate) fn stand_in_for_root(&self, error: Option<Error>) -> Result<LostRoot<u16>> {
        let in_use = |ino| self.volume.read_dinode(ino).ok().filter(|di| !di.is_free());
        LostRoot::search(
            &self.volume,
            error,
            ROOT_INO,
            ROOT_INO + 1..self.layout().last_ino().saturating_add(1),
            in_use,
            |ino, named| {
                let Some(di) = in_use(ino) else { return Ok(()) };
                self.each_entry(ino, &di, 0, &mut |error| self.pass_over(error), |_, entry| {
                    if entry.ino() != 0 && !matches!(entry.name(), b"." | b"..") {
                        named(entry.ino());
                    }
                    ControlFlow::<()>::Continue(())
                })?;
                Ok(())
            },
        )
    }
}
