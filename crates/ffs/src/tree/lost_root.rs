//! What stands in for a root directory that is lost: see [`LostRoot`].

use super::dir::name_of;
use super::mount::Ffs;
use crate::format::dinode::Dinode;
use crate::format::layout::ROOT_INO;
use spindle_tree::{Dinode as _, LostRoot, Unreadable};
use spindle_vfs::{Error, Result};
use std::ops::ControlFlow;

/// Returns the inode of the directory that stands in.
pub(crate) fn inode() -> Dinode {
    Dinode { mode: 0o040_755, nlink: 2, ..Dinode::free(0) }
}

impl Ffs {
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
    pub(crate) fn stand_in_for_root(&self, error: Option<Error>) -> Result<LostRoot<u32>> {
        let inodes = ROOT_INO + 1..self.inodes_on_device();
        let in_use = |ino| self.volume.read_inode(ino).ok().filter(|di| !di.is_free());
        LostRoot::search(&self.volume, error, ROOT_INO, inodes, in_use, |ino, named| {
            let Some(di) = in_use(ino) else { return Ok(()) };
            let mut lost = false;
            self.each_chunk(ino, &di, Unreadable::PassedOver, |base, chunk| {
                for entry in self.usable_entries(ino, base, chunk, &mut lost) {
                    if !matches!(name_of(chunk, base, &entry), b"." | b"..") {
                        named(entry.ino);
                    }
                }
                Ok(ControlFlow::Continue(()))
            })?;
            Ok(())
        })
    }

    /// Returns the number behind the last inode that can be on the device, which may end before the
    /// file system does.
    fn inodes_on_device(&self) -> u32 {
        let (layout, bytes) = (self.layout(), self.volume.cache.device().info().size_bytes);
        let groups = (0..layout.fs_ncg).take_while(|&cgx| layout.byte(layout.cgbase(cgx)) < bytes);
        u32::try_from(groups.count()).unwrap_or(layout.fs_ncg) * layout.fs_ipg
    }
}
