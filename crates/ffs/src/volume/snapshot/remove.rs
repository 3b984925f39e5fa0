//! Taking a snapshot apart, before its inode is freed as any other.
//!
//! Its marks become holes, and what it has claimed goes to another snapshot that needs it
//! (`ffs_snapremove`). Each step is right by itself and stays when its transaction is rolled back;
//! the steps of a removal that was cut off are done again.

use super::{NOT_COPIED, OF_A_SNAPSHOT, Pointers, Slot, State};
use crate::format::dinode::Dinode;
use crate::format::ondisk::{NIADDR, SNAPSHOT_MARKS};
use crate::format::units::{Frag, Lbn};
use crate::volume::Volume;
use crate::volume::tx::{Progress, Tx};
use spindle_vfs::Result;

/// Sectors of the log that one pointer may need: two pointers and two inodes.
const POINTER_SECTORS: usize = 4;

impl Volume {
    /// Ends preserving changes for a snapshot. Returns true if that was done for it.
    pub(crate) fn set_apart(&self, ino: u32, di: &Dinode) -> bool {
        let state = &mut *self.snapshots.lock();
        if let Some(n) = state.live.iter().position(|pointers| pointers.ino == ino) {
            let pointers = state.live.remove(n);
            state.apart.push(pointers);
            self.snapshots.counted(state);
            return true;
        }
        if state.pointers_of(ino).is_none() {
            state.apart.push(Pointers::of(ino, di));
        }
        false
    }

    /// Gives up what a snapshot that is set apart says of the blocks from `from` on, until `end` or
    /// until there is no more room in the log. Returns the block that was reached.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn take_apart(&self, tx: &Tx<'_>, ino: u32, from: u64, end: u64) -> Result<Progress<u64>> {
        self.preserve_inode(tx, ino)?;
        let state = &mut *self.snapshots.lock();
        let Some(n) = state.apart.iter().position(|pointers| pointers.ino == ino) else {
            return Ok(Progress::Done(end));
        };
        let mut pointers = state.apart.swap_remove(n);
        let mut lbn = from;
        let mut slot = None;
        let reached = loop {
            if lbn >= end {
                break Ok(Progress::Done(end));
            }
            if !tx.has_room(self, 3 * POINTER_SECTORS) {
                break Ok(Progress::Partial(lbn));
            }
            let here = match slot {
                Some(Slot::Indirect(block, n)) if n + 1 < self.layout.fs_nindir as usize => {
                    Slot::Indirect(block, n + 1)
                }
                _ => match self.slot(&pointers, Lbn(lbn)) {
                    Ok(slot) => slot,
                    // Its indirect block has been freed by an earlier attempt.
                    Err(spindle_vfs::Error::Corrupt { .. }) => {
                        lbn += 1;
                        slot = None;
                        continue;
                    }
                    Err(error) => break Err(error),
                },
            };
            slot = Some(here);
            if let Err(error) = self.give_up_pointer(tx, state, &mut pointers, here, lbn) {
                break Err(error);
            }
            lbn += 1;
        };
        let stored = self.store_pointers(tx, &pointers);
        state.apart.push(pointers);
        reached.and_then(|reached| stored.map(|()| reached))
    }

    fn give_up_pointer(
        &self,
        tx: &Tx<'_>,
        state: &mut State,
        pointers: &mut Pointers,
        slot: Slot,
        lbn: u64,
    ) -> Result<()> {
        let raw = self.slot_pointer(pointers, slot)?;
        if raw == 0 {
            return Ok(());
        }
        if SNAPSHOT_MARKS.contains(&raw) {
            return self.put_slot(tx, pointers, slot, 0);
        }
        let Some(at) = self.pointer(raw, self.layout.fs_frag, pointers.ino)? else { return Ok(()) };
        let is_claim = lbn < self.snapshot_blocks() && at.0 == lbn * u64::from(self.layout.fs_frag);
        for other in state.live.iter_mut().filter(|_| is_claim) {
            let theirs = self.slot(other, Lbn(lbn))?;
            if self.slot_pointer(other, theirs)? == 0 {
                let _inode = self.inode_buffer(other.ino)?;
                self.put_slot(tx, other, theirs, raw)?;
                other.blocks += u64::from(self.layout.fs_bsize >> 9);
                self.store_pointers(tx, other)?;
                pointers.blocks = pointers.blocks.saturating_sub((self.layout.fs_bsize >> 9).into());
                return self.put_slot(tx, pointers, slot, 0);
            }
        }
        // It has been read as a buffer, which must not be there when another file gets the space.
        self.cache.forget(self.layout.byte(at));
        self.unmark(tx, state, at)
    }

    /// Has other snapshots treat a block as free that belonged to one.
    fn unmark(&self, tx: &Tx<'_>, state: &mut State, at: Frag) -> Result<()> {
        let block = self.block_of(at);
        for other in &mut state.live {
            let slot = self.slot(other, Lbn(block))?;
            if self.slot_pointer(other, slot)? == u64::from(OF_A_SNAPSHOT) {
                self.put_slot(tx, other, slot, NOT_COPIED.into())?;
                self.store_pointers(tx, other)?;
            }
        }
        Ok(())
    }

    /// Returns the inode of a snapshot that has been taken apart as it is now, an ordinary file,
    /// and forgets about it.
    pub(crate) fn forget_apart(&self, ino: u32, di: &mut Dinode) {
        let state = &mut *self.snapshots.lock();
        if let Some(n) = state.apart.iter().position(|pointers| pointers.ino == ino) {
            state.apart.swap_remove(n).put(di);
        }
    }

    /// Passes each block that a snapshot has as its own, indirect ones included, to `visit`.
    pub(super) fn each_block_of(&self, pointers: &Pointers, visit: &mut dyn FnMut(Frag)) -> Result<()> {
        for &raw in &pointers.db {
            self.each_below(pointers.ino, raw, 0, visit)?;
        }
        (0..NIADDR).try_for_each(|n| self.each_below(pointers.ino, pointers.ib[n], n + 1, visit))
    }

    fn each_below(&self, ino: u32, raw: u64, levels: usize, visit: &mut dyn FnMut(Frag)) -> Result<()> {
        if SNAPSHOT_MARKS.contains(&raw) {
            return Ok(());
        }
        let Some(at) = self.pointer(raw, self.layout.fs_frag, ino)? else { return Ok(()) };
        visit(at);
        if levels > 0 {
            let buffer = self.indirect(at)?;
            let bytes = buffer.read();
            for n in 0..self.layout.fs_nindir as usize {
                self.each_below(ino, self.get_pointer(&bytes, n), levels - 1, visit)?;
            }
        }
        Ok(())
    }
}
