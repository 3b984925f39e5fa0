//! A repair that was planned: what it writes, and in which order.

use super::superblock::forget_log;
use super::undo;
use crate::check::Report;
use crate::check::state::BlockMap;
use crate::format::superblock::Superblock;
use spindle_clock::Timestamp;
use spindle_device::{Change, CowDevice, Device};
use spindle_vfs::Result;

/// Bytes written at once.
const RUN_BYTES: usize = 1 << 20;

/// A planned repair.
pub struct Plan {
    /// The report of the check before the repair.
    pub before: Report,
    /// The report of the check after it; the same as before if nothing is repaired.
    pub after: Report,
    /// The reason why there is no repair, though there is damage.
    pub refusal: Option<String>,
    /// Changes of space that was free.
    fresh: Vec<Change>,
    /// All other changes, without the superblock.
    others: Vec<Change>,
    /// The superblock: sectors before and after the repair, and what they are meanwhile.
    superblock: Vec<(Change, Vec<u8>)>,
    /// Bytes of a sector, and of the device.
    geometry: (u32, u64),
}

impl Plan {
    /// Returns the plan that changes nothing.
    pub(super) fn nothing(before: Report) -> Self {
        Self {
            after: before.clone(),
            before,
            refusal: None,
            fresh: Vec::new(),
            others: Vec::new(),
            superblock: Vec::new(),
            geometry: (0, 0),
        }
    }

    /// Returns the plan that changes nothing for this reason.
    pub(super) fn refused(before: Report, refusal: String) -> Self {
        Self { refusal: Some(refusal), ..Self::nothing(before) }
    }

    /// Returns the plan that brings the planned state of `overlay` to the device under it, of which
    /// the fragments in `used` were in use.
    pub(super) fn of(
        before: Report,
        after: Report,
        overlay: &CowDevice,
        used: &BlockMap,
        now: Timestamp,
    ) -> Result<Self> {
        let superblock = Superblock::open(overlay)?;
        let layout = &superblock.layout;
        let sector = overlay.info().sector_bytes as usize;
        let start = layout.fs_sblockloc;
        let mut meanwhile = superblock.clone();
        meanwhile.set_clean(false, false, now);
        forget_log(&mut meanwhile);
        let mut bytes = meanwhile.encode(start);
        bytes.truncate(superblock.written_bytes(sector));
        let end = start + bytes.len() as u64;

        let mut changes = overlay.changes()?;
        let mut sectors = Vec::new();
        for (at, meanwhile) in (start..).step_by(sector).zip(bytes.chunks(sector)) {
            let change = if let Some(change) = changes.iter().find(|change| change.at == at) {
                change.clone()
            } else {
                let mut old = vec![0; sector];
                overlay.read_at(at, &mut old)?;
                Change { at, new: old.clone(), old }
            };
            sectors.push((change, meanwhile.to_vec()));
        }
        changes.retain(|change| !(start..end).contains(&change.at));
        let is_free = |change: &Change| {
            let frag = change.at >> layout.fs_fshift;
            frag < layout.fs_size && !used.get(frag)
        };
        let (fresh, others) = changes.into_iter().partition(is_free);
        let info = overlay.info();
        let geometry = (info.sector_bytes, info.size_bytes);
        Ok(Self { before, after, refusal: None, fresh, others, superblock: sectors, geometry })
    }

    /// Returns true if there is something to write.
    #[must_use]
    pub fn changes_anything(&self) -> bool {
        !self.superblock.is_empty()
    }

    /// Returns the bytes that [`undo`](super::undo) needs to take the repair back.
    #[must_use]
    pub fn undo_bytes(&self) -> Vec<u8> {
        let changes = self.fresh.iter().chain(&self.others);
        undo::encode(self.geometry, changes, &self.superblock)
    }

    /// Writes the repair to the device, durably.
    ///
    /// # Errors
    /// Errors of the device, after which another repair is needed.
    pub fn apply(&self, device: &dyn Device) -> Result<()> {
        if !self.changes_anything() {
            return Ok(());
        }
        let superblock = |after: bool| {
            self.superblock.iter().map(move |(change, meanwhile)| {
                (change.at, if after { &change.new[..] } else { &meanwhile[..] })
            })
        };
        write(device, superblock(false))?;
        for changes in [&self.fresh, &self.others] {
            write(device, changes.iter().map(|change| (change.at, &change.new[..])))?;
        }
        write(device, superblock(true))
    }
}

/// Writes sectors, which are in order, and makes them durable.
pub(super) fn write<'a>(device: &dyn Device, sectors: impl Iterator<Item = (u64, &'a [u8])>) -> Result<()> {
    let (mut start, mut run) = (0, Vec::new());
    for (at, bytes) in sectors {
        if at != start + run.len() as u64 || run.len() >= RUN_BYTES {
            if !run.is_empty() {
                device.write_at(start, &run)?;
            }
            (start, run) = (at, Vec::new());
        }
        run.extend_from_slice(bytes);
    }
    if !run.is_empty() {
        device.write_at(start, &run)?;
    }
    Ok(device.flush()?)
}
