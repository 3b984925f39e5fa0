//! The repair of a set.
//!
//! File headers and name maps are the truth. What contradicts itself in them is put right with the
//! least loss; everything else is computed from them, as in the check. All changes are decided in
//! memory first, over a copy-on-write device, in rounds: each walks through the set as the check
//! does, and does the first of these stages that has anything to do:
//!
//! 1. descriptions of cylinders that are damaged, or name the wrong kind;
//! 2. damaged sectors of the table of checksums: they are made anew of the data as it is;
//! 3. headers: damaged ones and stray overflow headers are cleared, orphans are freed, and of data
//!    blocks that two files claim the second file gets copies (holes if there is no space);
//! 4. name maps: those with damage are built again without the names that lead nowhere, and what
//!    has lost its name gets one in `lost+found`;
//! 5. counts and `..` in headers;
//! 6. counts and bit maps of cylinders, and the allocation map.
//!
//! # Crashes
//!
//! The changes are an ordered list of sectors. Batches of them go through the log: a record is
//! durable before the first of its sectors is written to its place, so both copies of control
//! storage get the same. From the first change to the last the log says "in use" and "damaged":
//! mounts refuse to write, and a second repair replays the records first. So it finds what the
//! first one has done up to some batch. There the first repair could have stopped:
//!
//! - New nodes and new overflow headers go to places that nothing refers to, before the one header
//!   (one sector, so never in two batches) that leads to them. Until then they are free blocks, or
//!   stray overflow headers. Copies of data go to free blocks before all batches.
//!   Where there are no free blocks, the name map is written over the old one in a single record,
//!   with its header.
//! - A header that is cleared was damaged, or no file's; its names are dropped afterwards.
//! - A file or directory gets its new name before anything says that it has it. Two names of a
//!   directory at such a moment are what stage 4 decides about anyway, in favour of the one to
//!   which the root leads.
//! - Descriptions, maps and counts are computed from the rest; a `lost+found` that has no name yet
//!   is an orphan.
//!
//! Before anything is decided, the copies of control storage are made equal, so that what is
//! repaired does not depend on which is read.
//!
//! What is left in the end, for want of space, stays as damage, and so does the mark.

mod files;
mod image;
mod names;
mod space;

use super::{Checker, Finding, OpenedLog, Phase, Report, check_with};
use crate::format::layout::{DataBlock, index};
use crate::format::sums;
use crate::log::{Ring, State, replay_to_set};
use crate::set::members::Set;
use image::Image;
use space::FreeControl;
use spindle_cache::Log;
use spindle_clock::Clock;
use spindle_device::Device;
use spindle_vfs::{Error, Result};
use std::sync::Arc;

/// Most rounds; an ordinary repair takes less than ten.
const ROUNDS_MAX: usize = 64;

/// The outcome of a repair. Labels and the number of times that the header of the log was written
/// do not count as changes.
pub type Repaired = spindle_tree::check::Repaired<Report>;

/// Repairs a set that is not mounted. With `harmless_only` nothing is changed if there is damage
/// whose repair may lose something, and data is not verified. The reports list at most `limit`
/// findings each. Calls `progress` when a phase of a check begins.
///
/// # Errors
/// Device errors: also of reads, for what cannot be read cannot be repaired. As [`super::check`].
pub fn repair(
    set: &Set,
    clock: &dyn Clock,
    harmless_only: bool,
    limit: usize,
    progress: &mut dyn FnMut(Phase),
) -> Result<Repaired> {
    // What runs at each start does not take the time to read all data.
    let before = check_with(set, !harmless_only, limit, progress)?;
    let nothing_to_do = before.is_clean() && before.marked_clean && before.orphans == 0;
    if nothing_to_do || harmless_only && before.serious > 0 {
        return Ok(Repaired { after: before.clone(), before, changed: false });
    }
    if set.label_now().log_is_lost() {
        let remedy = "give its log storage to another device first, with \"spindle mfs replace\"";
        return Err(Error::unsupported("repairing a set without a log", remedy));
    }
    set.begin_writing(clock.now(), !before.marked_clean)?;
    let (ring, replayed) = begin(set, clock)?;
    let equal = set.equalise_control()?;
    let mut repair = Repair { set, clock, image: Image::new(set.space.clone(), ring.limit_bytes()) };
    let whole = repair.plan()?;
    repair.image.apply(&ring, &*set.space)?;
    ring.empty();
    ring.set_state(State { in_use: false, damaged: !whole })?;
    let after = check_with(set, !harmless_only, limit, progress)?;
    let changed =
        replayed || !equal || repair.image.is_changed() || before.marked_clean != after.marked_clean;
    Ok(Repaired { before, after, changed })
}

/// Replays the log to the set, and marks the set as in use and damaged in an empty log. Returns the
/// log, without which a repair does not go on, and true if the set may have changed.
fn begin(set: &Set, clock: &dyn Clock) -> Result<(Ring, bool)> {
    let marked = State { in_use: true, damaged: true };
    let log = OpenedLog::open(set, &set.space, replay_to_set)?;
    set.space.flush()?;
    if let Some(ring) = log.ring {
        let ring = ring.needed();
        ring.restart(marked)?;
        return Ok((ring, log.findings.contains(&Finding::InUse {})));
    }
    Ring::renew(&*set.log[0], set.label.set_id, clock.now(), marked)?;
    let (ring, _) = set.open_log(set.space.clone())?;
    Ok((ring.ok_or_else(|| Error::corrupt("it was lost meanwhile", "log"))?.needed(), true))
}

/// A repair that is being planned.
struct Repair<'a> {
    set: &'a Set,
    clock: &'a dyn Clock,
    image: Image,
}

/// A round of a repair.
struct Round<'a> {
    image: &'a mut Image,
    clock: &'a dyn Clock,
    checker: Checker,
    free: FreeControl,
    /// True if a round did not find the space that it needed.
    full: &'a mut bool,
}

impl Repair<'_> {
    /// Decides all changes. Returns true if nothing is left to be repaired.
    fn plan(&mut self) -> Result<bool> {
        let (mut rounds, mut full) = (0, false);
        loop {
            let device: Arc<dyn Device> = self.image.device();
            let checker = Checker::run(self.set, &device, &[], 0, &mut |_| ())?;
            let whole = checker.findings.damages() == 0;
            if rounds == ROUNDS_MAX {
                return Ok(whole);
            }
            rounds += 1;
            let free = FreeControl::default();
            let mut round =
                Round { image: &mut self.image, clock: self.clock, checker, free, full: &mut full };
            let changed = round
                .describe(|checker, number| checker.cylinders[index(number)].wrong.is_some())?
                || round.sums()?
                || round.headers()?
                || round.name_maps()?
                || round.counts()?
                || round.describe(|_, _| true)? | round.allocation_map()?;
            if !changed {
                return Ok(whole);
            }
        }
    }
}

impl Round<'_> {
    /// Notes that there is no space for a change, which is left out. Returns false.
    fn is_full(&mut self) -> bool {
        *self.full = true;
        false
    }

    /// Writes the descriptions of the cylinders that are `wanted`, as they should be. Returns true
    /// if this changes anything, as all stages do.
    fn describe(&mut self, wanted: impl Fn(&Checker, u64) -> bool) -> Result<bool> {
        let mut changed = false;
        for number in 0..self.checker.layout.cylinders {
            if wanted(&self.checker, number) {
                changed |= self.image.put_cylinder(&self.checker, &self.checker.expected_cylinder(number))?;
            }
        }
        Ok(changed)
    }

    /// Writes the allocation maps.
    fn allocation_map(&mut self) -> Result<bool> {
        let mut changed = false;
        for number in 0..self.checker.layout.classes.len() {
            for page in 0..self.checker.layout.class(number).map_pages {
                let bytes = self.checker.expected_page(number, page);
                changed |= self.image.put(self.checker.layout.class(number).map_page_at(page), &bytes)?;
            }
        }
        Ok(changed)
    }

    /// Gives data blocks that get a copy of others their checksums.
    fn copy_sums(&mut self, from: u64, to: u64, blocks: u64) -> Result<()> {
        if !self.checker.layout.parameters.checksums {
            return Ok(());
        }
        for n in 0..blocks {
            let (source, nth) = self.checker.sum_sector(from + n)?;
            let sum = sums::get(&source, nth);
            let (mut sector, nth) = self.checker.sum_sector(to + n)?;
            sums::set(&mut sector, nth, &[sum]);
            let (number, _) = self.checker.layout.sum_place(DataBlock(to + n));
            let (at, within) = self.checker.layout.sum_sector_at(number);
            self.image.put(at + within as u64, &sector)?;
        }
        Ok(())
    }

    /// Makes damaged sectors of the table of checksums anew.
    fn sums(&mut self) -> Result<bool> {
        let mut changed = false;
        for &sector in &self.checker.damaged_sums {
            let (at, within) = self.checker.layout.sum_sector_at(sector);
            changed |= self.image.put(at + within as u64, &self.checker.new_sums(sector)?)?;
        }
        Ok(changed)
    }
}
