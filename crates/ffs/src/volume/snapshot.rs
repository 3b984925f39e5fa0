//! Snapshots: files that hold the file system as it was.
//!
//! Block `n` of a snapshot is block `n` of the file system at the time of the snapshot. A block has
//! a copy in the snapshot once the file system has changed it; until then, the pointer is 0 and the
//! block is read where it is. Two marks stand for blocks of zeros: what was free
//! ([`BLK_NOCOPY`](SNAPSHOT_MARKS)), and what belonged to another snapshot (`BLK_SNAP`). Behind the
//! last block of the file system stands a list of the blocks that have copies, for the system
//! that writes.
//!
//! Invariant: nothing is written to a file system with snapshots, as every change would first need
//! a copy of what it replaces.
//!
//! Source: FreeBSD `sys/ufs/ffs/ffs_snapshot.c` and `ufs_bmaparray` in `sys/ufs/ufs/ufs_bmap.c`.

use super::Volume;
use super::bmap::Run;
use crate::format::dinode::Dinode;
use crate::format::ondisk::{SF_SNAPSHOT, SNAPSHOT_MARKS};
use crate::format::units::{Frag, Lbn};
use spindle_vfs::{FileKind, Result};

impl Volume {
    /// Returns true if a file is read as a snapshot. Where anything can be written, there is none.
    pub(super) fn is_snapshot(&self, di: &Dinode) -> bool {
        di.flags & SF_SNAPSHOT != 0 && di.kind() == Some(FileKind::Regular) && self.is_read_only()
    }

    /// Returns the run at the start of an array of at least `most` pointers of a snapshot, the
    /// first of them that of block `lbn`.
    pub(super) fn run_of_snapshot(
        &self,
        ino: u32,
        lbn: Lbn,
        most: u64,
        pointer: impl Fn(u64) -> u64,
    ) -> Result<Run> {
        let place = |i: u64| match pointer(i) {
            0 => Ok(self.not_copied(lbn + i, 1).at),
            raw if SNAPSHOT_MARKS.contains(&raw) => Ok(None),
            raw => self.pointer(raw, self.layout.fs_frag, ino),
        };
        let at = place(0)?;
        let mut blocks = 1;
        while blocks < most && place(blocks)? == at.map(|at| at + blocks * u64::from(self.layout.fs_frag)) {
            blocks += 1;
        }
        Ok(Run { at, blocks })
    }

    /// Returns the run of at most `most` blocks from `lbn` on that a snapshot has not copied: where
    /// they are on the device. Behind the last whole block of the file system it is a hole.
    pub(super) fn not_copied(&self, lbn: Lbn, most: u64) -> Run {
        match (self.layout.fs_size / u64::from(self.layout.fs_frag)).checked_sub(lbn.0) {
            None | Some(0) => Run { at: None, blocks: most },
            Some(left) => {
                Run { at: Some(Frag(lbn.0 * u64::from(self.layout.fs_frag))), blocks: left.min(most) }
            }
        }
    }
}
