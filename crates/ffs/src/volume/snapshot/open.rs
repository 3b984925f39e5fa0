//! Taking up the snapshots of a file system that is going to be written to.

use super::{Pointers, Snapshots, State};
use crate::format::dialect::Dialect;
use crate::format::units::{Frag, Lbn};
use crate::volume::Volume;
use spindle_clock::{Mutex, RmLock, RwLock};
use spindle_vfs::{Error, Objection, Result};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;

/// NetBSD: a snapshot that was never finished (`SF_SNAPINVAL`).
const SF_SNAPINVAL: u32 = 0x0080_0000;

const REMEDY: &str = "remove the snapshots on its own system";

impl Volume {
    /// Takes up the snapshots that the superblock lists, so that changes are preserved for them.
    /// Entries that are none, as a kernel would find when it mounts, are passed over. `log` is the
    /// space of the log, whose blocks are written without being preserved.
    ///
    /// # Errors
    /// What speaks against writing; nothing has been written. Device errors.
    pub(crate) fn take_up_snapshots(
        &mut self,
        log: Option<(Frag, u64)>,
    ) -> Result<std::result::Result<(), Objection>> {
        let mut live = Vec::new();
        let listed = self.superblock.lock().snapshots();
        for ino in listed {
            let di = match self.read_inode(ino) {
                Err(Error::Stale) => continue,
                di => di?,
            };
            // One without a name waits for being freed.
            if !di.is_snapshot() || di.nlink == 0 {
                continue;
            }
            let refuse = |why: &str| {
                let reason = format!("the snapshot in inode {ino} {why}");
                Ok(Err(Objection { reason, remedy: REMEDY.to_owned(), overridable: false }))
            };
            if !matches!(self.dialect, Dialect::FreeBsd | Dialect::NetBsd) {
                return refuse("is of a system whose snapshots are only read");
            }
            if di.flags & SF_SNAPINVAL != 0 || di.size <= self.snapshot_blocks() << self.layout.fs_bshift {
                return refuse("is not finished, or of an old format");
            }
            let pointers = Pointers::of(ino, &di);
            for block in self.blocks_from_the_beginning() {
                match self.needs(&pointers, block) {
                    Ok(false) => {}
                    Ok(true) => {
                        return refuse(&format!("has no copy of block {block}, which is never preserved"));
                    }
                    Err(error) => return refuse(&format!("cannot be used ({error})")),
                }
            }
            // Every indirect block must be there: preserving makes none.
            for lbn in (0..self.snapshot_blocks()).step_by(self.layout.fs_nindir as usize) {
                if let Err(error) = self.slot(&pointers, Lbn(lbn)) {
                    return refuse(&format!("cannot be used ({error})"));
                }
            }
            if let Some((at, count)) = log {
                for block in self.whole_blocks(at, count) {
                    if self.needs(&pointers, block)? {
                        return refuse("needs blocks of the log");
                    }
                }
            }
            live.push(pointers);
        }
        self.snapshots = Snapshots {
            live: AtomicUsize::new(live.len()),
            state: Mutex::new(State { live, ..State::default() }),
            changes: RmLock::default(),
            long: RwLock::default(),
        };
        Ok(Ok(()))
    }

    /// Returns the blocks of which a snapshot has a copy from the beginning, because they change
    /// with whatever else changes: the superblock, the summaries, the groups; and the last block.
    pub(super) fn blocks_from_the_beginning(&self) -> BTreeSet<u64> {
        let layout = &self.layout;
        let mut blocks = BTreeSet::new();
        let sector = self.sector();
        let mut add = |byte: u64, bytes: u64| {
            let first = byte >> layout.fs_bshift;
            blocks.extend(first..=(byte + bytes - 1) >> layout.fs_bshift);
        };
        let superblock = self.superblock.lock().written_bytes(sector);
        add(layout.fs_sblockloc, superblock as u64);
        let summaries = u64::from(layout.fs_cssize).next_multiple_of(layout.fs_fsize.into());
        add(layout.byte(layout.fs_csaddr), summaries);
        for cgx in 0..layout.fs_ncg {
            add(layout.byte(layout.cgtod(cgx)), layout.fs_cgsize.into());
        }
        blocks.insert(self.snapshot_blocks() - 1);
        blocks
    }
}
