//! Holes that are none: parts of a file whose blocks are lost.
//!
//! A pointer of 0 is a hole, so an indirect block that was overwritten with zeros turns the data
//! behind it into holes. Two things say that they are none: the block with the last byte of a file
//! always exists, and `di_blocks` counts the blocks that there must be. Both are looked at when a
//! read comes to a hole, the second once for each inode in memory.

use super::inode::State;
use super::mount::Ffs;
use crate::format::dinode::Dinode;
use crate::format::ondisk::SF_SNAPSHOT;
use crate::format::units::Lbn;
use spindle_vfs::{Error, FileKind, Result};

impl Ffs {
    /// Checks that the holes of a file, which has one, are not lost blocks.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if blocks are missing; device errors.
    pub(crate) fn check_holes(&self, ino: u32, state: &State) -> Result<()> {
        let di = &state.di;
        if di.kind() != Some(FileKind::Regular) || di.flags & SF_SNAPSHOT != 0 || di.size == 0 {
            return Ok(());
        }
        let lost = |what: String| Err(Error::corrupt(what, format!("inode {ino}")));
        let last = Lbn((di.size - 1) >> self.layout().fs_bshift);
        if self.volume.bmap(ino, di, last, 1)?.at.is_none() {
            return lost(format!("its size is {}, and the block with the last byte is missing", di.size));
        }
        let missing = match state.derived.blocks_missing.get() {
            Some(missing) => *missing,
            None => *state.derived.blocks_missing.get_or_init(|| self.blocks_missing(ino, di)),
        };
        if missing > 0 {
            return lost(format!("{missing} of the {} blocks that di_blocks counts are missing", di.blocks));
        }
        Ok(())
    }

    /// Returns how many units of 512 bytes `di_blocks` counts that no pointer leads to; none if the
    /// pointers are damaged, which reading them says.
    fn blocks_missing(&self, ino: u32, di: &Dinode) -> u64 {
        let found = self.volume.frags_held(ino, di, di.blocks >> (self.layout().fs_fshift - 9));
        found.map_or(0, |frags| di.blocks.saturating_sub(frags << (self.layout().fs_fshift - 9)))
    }
}
