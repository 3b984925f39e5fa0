//! Inodes without names: freeing them, now or when space is wanted.
//!
//! An inode that has lost its last name is freed when its last reference goes. If that fails, or
//! power is lost before, it stays on the list of orphans, and is freed when space is wanted, at the
//! unmount, or by the recovery of the next mount.

use super::inode::{Inode, content};
use super::mount::Ffs;
use crate::format::dinode::Dinode;
use crate::format::group::isset;
use crate::format::layout::ROOT_INO;
use crate::format::ondisk::SF_SNAPSHOT;
use crate::volume::tx::Progress;
use spindle_tree::Operations;
use spindle_vfs::{Error, FileKind, Privilege, Result};
use std::sync::Arc;

impl Ffs {
    /// Frees an inode if it has no names: its blocks, its attributes, itself. All references to it
    /// become void.
    pub(crate) fn free_if_orphan(&self, inode: &Arc<Inode>) -> Result<()> {
        let mut state = inode.state.write();
        if state.di.nlink > 0 || state.di.mode == 0 || self.volume.is_read_only() {
            return Ok(());
        }
        let directory = state.di.is_directory();
        let has_blocks =
            matches!(state.di.kind(), Some(FileKind::Regular | FileKind::Directory | FileKind::Symlink));
        let has_blocks = has_blocks && state.di.inline_target.is_none();
        if state.di.flags & SF_SNAPSHOT != 0 && state.di.kind() == Some(FileKind::Regular) {
            self.give_up_snapshot(inode.ino, &mut state)?;
        }
        loop {
            let freed = self.volume.transact_naming_in_parts(&mut *state, |tx, state| {
                if has_blocks {
                    let content = content(inode, &state.di);
                    let cut = self.shrink(tx, inode.ino, &mut state.di, 0, content)?;
                    if let Progress::Partial(()) = cut {
                        self.volume.store(tx, inode.ino, &state.di)?;
                        return Ok(cut);
                    }
                }
                self.free_extattr(tx, inode.ino, &mut state.di)?;
                let bill = self.volume.bill(inode.ino, &state.di);
                self.volume.charge_change(tx, bill, None, Privilege::Root)?;
                state.di = Dinode::free(state.di.r#gen);
                self.volume.store(tx, inode.ino, &state.di)?;
                self.volume.free_inode(tx, inode.ino, directory)?;
                Ok(Progress::Done(()))
            })?;
            if let Progress::Done(()) = freed {
                self.nodes.table.drop_freed(inode);
                return Ok(());
            }
        }
    }

    /// Frees the orphans that nobody uses: after a recovery, and what could not be freed when it
    /// lost its name. One that cannot be freed must not keep the others from it.
    pub(crate) fn free_orphans(&self) -> Result<()> {
        let mut result = Ok(());
        for ino in self.volume.pending.orphans() {
            let freed = match self.iget(ino) {
                Ok(inode) => self.free_if_orphan(&inode),
                Err(Error::Stale) => self.free_unmade(ino),
                Err(error) => Err(error),
            };
            match self.volume.note(freed) {
                Err(error @ Error::Device(_)) => result = result.and(Err(error)),
                freed => {
                    self.volume.pending.forget_orphan(ino);
                    result = result.and(freed);
                }
            }
        }
        result
    }

    /// Frees an inode that was taken and never made (NetBSD lists it before it has a mode), if it
    /// is that.
    fn free_unmade(&self, ino: u32) -> Result<()> {
        if ino <= ROOT_INO || ino >= self.layout().inodes() {
            return Err(Error::Stale);
        }
        let layout = self.layout();
        let n = ino % layout.fs_ipg;
        let taken = self.volume.view_group(layout.ino_to_cg(ino), |group| isset(group.inosused(), n))?;
        if !taken {
            return Ok(());
        }
        self.volume.transact((), |tx, ()| self.volume.free_inode(tx, ino, false))
    }
}
