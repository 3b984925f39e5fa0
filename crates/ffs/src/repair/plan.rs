//! A repair that was planned: what it writes, and in which order.

use super::superblock::forget_log;
use super::{Redo, snapshots, undo};
use crate::check::state::BlockMap;
use crate::check::{Checker, Findings, Report};
use crate::format::layout::Layout;
use crate::format::superblock::Superblock;
use crate::format::units::Frag;
use spindle_clock::Timestamp;
use spindle_device::{Change, CowDevice, Device, write_sectors};
use spindle_vfs::{Error, Result};
use std::collections::BTreeMap;

/// What the superblock says until everything else is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meanwhile<'a> {
    /// What it says in the end, but that it is not clean, and that nothing may be replayed.
    NotClean,
    /// The same, of this one, whose file system is smaller.
    Smaller(&'a Superblock),
    /// What it says now: that a journal is to be replayed, which comes to the same end.
    Unchanged,
}

/// A planned repair.
pub struct Plan {
    /// The report of the check before the repair.
    pub before: Report,
    /// The report of the check after it; the same as before if nothing is repaired.
    pub after: Report,
    /// The reason why there is no repair, though there is damage.
    pub refusal: Option<String>,
    /// What comes before the superblock says anything else: the replay of a log, which can be made
    /// again from the beginning as long as the superblock names the log.
    replayed: Vec<Change>,
    /// All changes but those of the superblock and its copies, in the order in which they become
    /// durable.
    stages: Vec<Vec<Change>>,
    /// Changes of the copies of the superblock.
    copies: Vec<Change>,
    /// The superblock: sectors before and after the repair, and what they are meanwhile.
    superblock: Vec<(Change, Vec<u8>)>,
    /// Where the sizes change: the sectors of the new superblock, not yet marked clean. It stands
    /// before its copies do, so that these never speak against the old one.
    resized: Option<Vec<Vec<u8>>>,
    /// If it is to happen as a whole: how, and the sectors of free space that this takes.
    whole: Option<(Redo, Vec<Change>)>,
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
            replayed: Vec::new(),
            stages: Vec::new(),
            copies: Vec::new(),
            superblock: Vec::new(),
            resized: None,
            whole: None,
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
        meanwhile: Meanwhile<'_>,
        now: Timestamp,
    ) -> Result<Self> {
        let superblock = Superblock::open(overlay)?;
        let layout = &superblock.layout;
        let sector = overlay.info().sector_bytes as usize;
        let start = layout.fs_sblockloc;
        let mut stands = match meanwhile {
            Meanwhile::NotClean | Meanwhile::Unchanged => superblock.clone(),
            Meanwhile::Smaller(smaller) => smaller.clone(),
        };
        stands.set_clean(false, false, now);
        forget_log(&mut stands);
        let mut bytes = stands.encode(start);
        bytes.truncate(superblock.written_bytes(sector));
        let end = start + bytes.len() as u64;

        let mut changes = overlay.changes()?;
        let mut sectors = Vec::new();
        for (at, stands) in (start..).step_by(sector).zip(bytes.chunks(sector)) {
            let change = if let Some(change) = changes.iter().find(|change| change.at == at) {
                change.clone()
            } else {
                let mut old = vec![0; sector];
                overlay.read_at(at, &mut old)?;
                Change { at, new: old.clone(), old }
            };
            let is_same = matches!(meanwhile, Meanwhile::Unchanged);
            let stands = if is_same { change.old.clone() } else { stands.to_vec() };
            sectors.push((change, stands));
        }
        changes.retain(|change| !(start..end).contains(&change.at));
        let is_free = |change: &Change| {
            let frag = change.at >> layout.fs_fshift;
            frag < layout.fs_size && !used.get(frag)
        };
        let is_copy = |change: &Change| {
            let frag = Frag(change.at >> layout.fs_fshift);
            let copy = layout.byte(layout.cgsblock(layout.dtog(frag)));
            frag.0 < layout.fs_size && (copy..copy + u64::from(layout.fs_sbsize)).contains(&change.at)
        };
        let (copies, changes): (Vec<_>, Vec<_>) = changes.into_iter().partition(is_copy);
        let stages = match meanwhile {
            Meanwhile::NotClean | Meanwhile::Smaller(_) => {
                let (fresh, others) = changes.into_iter().partition(is_free);
                vec![fresh, others]
            }
            Meanwhile::Unchanged => maps_to_inodes(layout, changes),
        };
        let info = overlay.info();
        let geometry = (info.sector_bytes, info.size_bytes);
        let resized = matches!(meanwhile, Meanwhile::Smaller(_)).then(|| {
            let mut resized = superblock.clone();
            resized.set_clean(false, false, now);
            forget_log(&mut resized);
            let bytes = resized.encode(start);
            bytes.chunks(sector).take(sectors.len()).map(<[u8]>::to_vec).collect()
        });
        let superblock = sectors;
        let (refusal, replayed, whole) = (None, Vec::new(), None);
        Ok(Self { before, after, refusal, replayed, stages, copies, superblock, resized, whole, geometry })
    }

    /// Returns the plan as one that happens as a whole, whenever it is interrupted: with a list of
    /// all changes in space that is free in the planned state of `overlay`, and not `taken`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is none; device errors.
    pub(super) fn into_whole(mut self, overlay: &CowDevice, taken: [&BlockMap; 2]) -> Result<Self> {
        let Some((first, stands)) = self.superblock.first().cloned() else { return Ok(self) };
        let planned = Superblock::open(overlay)?;
        let layout = &planned.layout;
        let mut quiet = |_| ();
        let checker = Checker::run(overlay, &planned, None, Findings::new(0), &mut quiet)?;
        let mut used = checker.state.used.clone();
        used.join(&snapshots::changed(overlay, layout)?);
        for taken in taken {
            used.join(taken);
        }
        let mut changes: Vec<Change> = self.stages.iter().flatten().chain(&self.copies).cloned().collect();
        changes.extend(self.superblock.iter().map(|(change, _)| change.clone()));
        let block = layout.fs_bsize as usize;
        let blocks = Redo::blocks_for(changes.len(), block, first.new.len());
        let places = snapshots::places(layout, used, blocks)?;
        let redo = Redo::new(&changes, &places, block, (first.at, stands));
        let redo = redo.ok_or_else(|| Error::unsupported("a block holds no sector", super::COPY))?;
        let mut listed = Vec::new();
        for (at, bytes) in redo.blocks() {
            for (at, new) in (*at..).step_by(first.new.len()).zip(bytes.chunks(first.new.len())) {
                let mut old = vec![0; new.len()];
                overlay.under().read_at(at, &mut old)?;
                listed.push(Change { at, old, new: new.to_vec() });
            }
        }
        self.superblock[0].1 = redo.mark().to_vec();
        self.whole = Some((redo, listed));
        Ok(self)
    }

    /// Returns the plan for the device without the replay of a log, which changes that.
    pub(super) fn after_replay(self, replayed: Vec<Change>) -> Self {
        Self { replayed, ..self }
    }

    /// Returns true if there is something to write.
    #[must_use]
    pub fn changes_anything(&self) -> bool {
        !self.superblock.is_empty()
    }

    /// Returns the bytes that [`undo`](super::undo) needs to take the repair back.
    #[must_use]
    pub fn undo_bytes(&self) -> Vec<u8> {
        let mut replayed: BTreeMap<u64, &Change> =
            self.replayed.iter().map(|change| (change.at, change)).collect();
        let mut whole = |change: &Change| {
            let first = replayed.remove(&change.at).unwrap_or(change);
            Change { old: first.old.clone(), ..change.clone() }
        };
        let superblock: Vec<_> =
            self.superblock.iter().map(|(change, meanwhile)| (whole(change), meanwhile.clone())).collect();
        let listed = self.whole.iter().flat_map(|(_, listed)| listed);
        let all = self.stages.iter().flatten().chain(&self.copies).chain(listed);
        let mut changes: Vec<_> = all.map(&mut whole).collect();
        changes.extend(replayed.into_values().cloned());
        undo::encode(self.geometry, changes.iter(), &superblock)
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
        let all = |changes: &[Change]| {
            write_sectors(device, changes.iter().map(|change| (change.at, &change.new[..])))
        };
        if !self.replayed.is_empty() {
            all(&self.replayed)?;
        }
        if let Some((redo, _)) = &self.whole {
            if Superblock::open(device).is_err() {
                // The first sector says what is to be done, if the others make it a superblock.
                write_sectors(device, superblock(false).skip(1))?;
            }
            return redo.apply(device);
        }
        write_sectors(device, superblock(false))?;
        for stage in &self.stages {
            all(stage)?;
        }
        if let Some(resized) = &self.resized {
            let places = self.superblock.iter().map(|(change, _)| change.at);
            write_sectors(device, places.zip(resized.iter().map(Vec::as_slice)))?;
        }
        all(&self.copies)?;
        Ok(write_sectors(device, superblock(true))?)
    }
}

/// Returns changes in the order of FreeBSD's recovery: maps, everything else, inodes. What is to be
/// freed can be found again as long as its inode is as it was.
fn maps_to_inodes(layout: &Layout, changes: Vec<Change>) -> Vec<Vec<Change>> {
    let mut stages = vec![Vec::new(); 3];
    for change in changes {
        let frag = Frag(change.at >> layout.fs_fshift);
        let cgx = layout.dtog(frag).min(layout.fs_ncg - 1);
        let group = layout.cgtod(cgx)..layout.cgimin(cgx);
        let inodes = layout.cgimin(cgx)..layout.cgdmin(cgx);
        let stage = if group.contains(&frag) {
            0
        } else if inodes.contains(&frag) {
            2
        } else {
            1
        };
        stages[stage].push(change);
    }
    stages
}
