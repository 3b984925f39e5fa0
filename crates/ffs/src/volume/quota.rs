//! Charging the quotas that are on: what a file costs, and who pays for it.

use super::Volume;
use super::tx::Tx;
use crate::format::dinode::Dinode;
use crate::format::ondisk::SF_SNAPSHOT;
use crate::quota::store::Pen;
use crate::quota::table::{Bill, Charge, Warning};
use crate::quota::{Kind, MAX_ID, Usage};
use spindle_vfs::{FileKind, Privilege, Result};

impl Volume {
    /// Returns who pays for an inode, and how much; none if no quota is on, or nobody pays. Nobody
    /// pays for quota files, NetBSD's log, snapshots, and where an id is too large, as for
    /// `quotacheck`.
    pub(crate) fn bill(&self, ino: u32, di: &Dinode) -> Option<Bill> {
        let quotas = self.quotas.as_ref()?;
        bill_of(di, quotas.is_inside()).filter(|_| !quotas.is_unpaid(ino))
    }

    /// [`Self::bill`] for an inode that has no number yet.
    pub(crate) fn bill_of_new(&self, di: &Dinode) -> Option<Bill> {
        self.quotas.as_ref().and_then(|quotas| bill_of(di, quotas.is_inside()))
    }

    /// Charges what a file costs `after` a change instead of what it cost `before`.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`](spindle_vfs::Error::QuotaExceeded); of quotas inside the file
    /// system [`Error::NoSpace`](spindle_vfs::Error::NoSpace) and device errors; the caller rolls
    /// back.
    pub(crate) fn charge_change(
        &self,
        tx: &Tx<'_>,
        before: Option<Bill>,
        after: Option<Bill>,
        by: Privilege,
    ) -> Result<()> {
        let Some(quotas) = self.quotas.as_ref().filter(|_| before != after) else { return Ok(()) };
        let now = self.clock.now().secs;
        let pen = Pen { cache: &self.cache, tx };
        let charge = |charge: Charge| -> Result<()> {
            if (charge.blocks, charge.inodes) == (0, 0) {
                return Ok(());
            }
            let mut warnings = Vec::new();
            let charged = quotas.charge(charge, now, by, &pen, &mut warnings);
            tx.note_warnings(warnings);
            if let Some(charged) = charged? {
                if charged.impossible && !self.note_damage() {
                    let (kind, id) = (charge.kind.word(), charge.id);
                    log::error!("{kind} {id} gives back more than its quota says is in use; run a check");
                }
                tx.note_charged(charged);
            }
            Ok(())
        };
        for kind in Kind::ALL {
            let new = after.map(|bill| bill.charge(kind, 1));
            let old = before.map(|bill| bill.charge(kind, -1));
            match (new, old) {
                (Some(new), Some(old)) if new.id == old.id => charge(Charge {
                    blocks: new.blocks + old.blocks,
                    inodes: new.inodes + old.inodes,
                    ..new
                })?,
                _ => new.into_iter().chain(old).try_for_each(&charge)?,
            }
        }
        Ok(())
    }

    /// Refuses what could not be charged for `frags` more fragments of a file.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`](spindle_vfs::Error::QuotaExceeded).
    pub(crate) fn check_quota(&self, ino: u32, di: &Dinode, frags: u64, by: Privilege) -> Result<()> {
        let (Some(quotas), Some(bill)) = (&self.quotas, self.bill(ino, di)) else { return Ok(()) };
        let more = Bill { usage: Usage { blocks: frags << self.layout.fs_fshift >> 9, inodes: 0 }, ..bill };
        let now = self.clock.now().secs;
        let mut warnings = Vec::new();
        let mut check = |kind| quotas.check(more.charge(kind, 1), now, by, &mut warnings);
        let checked = Kind::ALL.into_iter().try_for_each(&mut check);
        self.warn(&warnings);
        checked
    }

    /// Gives warnings about quotas: in the log of the system, and on the terminals of users.
    pub(crate) fn warn(&self, warnings: &[Warning]) {
        for warning in warnings {
            if let Some(line) = warning.log_line(&self.cache.device().info().name) {
                log::warn!("{line}");
            }
            if let (Some(terminals), Some(process)) = (&self.terminals, warning.process()) {
                terminals.show(process, &warning.terminal_line());
            }
        }
    }
}

/// Returns who pays for an inode that is neither a quota file nor free, and how much: as
/// `quotacheck` counts for quota files, or as NetBSD's `fsck_ffs` does for quotas `inside`.
pub(crate) fn bill_of(di: &Dinode, inside: bool) -> Option<Bill> {
    let counts = di.mode != 0 && di.flags & SF_SNAPSHOT == 0;
    let is_id = inside || (di.uid <= MAX_ID && di.gid <= MAX_ID);
    let has_blocks =
        inside || matches!(di.kind(), Some(FileKind::Regular | FileKind::Directory | FileKind::Symlink));
    let usage = Usage { blocks: if has_blocks { di.blocks } else { 0 }, inodes: 1 };
    (counts && is_id).then_some(Bill { uid: di.uid, gid: di.gid, usage })
}
