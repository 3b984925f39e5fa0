//! Changing the members of a set: adding and removing copies, replacing members, and comparing
//! copies.
//!
//! A new copy enters the table of the label as lost, with the number of megabytes that it has, so
//! that an interrupted filling goes on where it stopped. It gets whole, and the one that it
//! replaces leaves the table, with one change of the label. A mount that writes forgets how far
//! unfinished copies were filled, because they miss what is written then.
//!
//! All of this can be done while the set is mounted. How far a copy was filled is not recorded
//! then: an interrupted filling goes on in the same mount, where the copy goes on to get what is
//! written, and begins again after it.

use crate::format::label::{AREAS_MAX, Area, LABEL_BYTES, Label, Role, last_label_at};
use crate::log::{Ring, State};
use crate::set::labels::{check_member, read_label};
use crate::set::members::{Part, Set, missing};
use crate::set::places::Place;
use spindle_clock::{MutexGuard, Timestamp};
use spindle_device::{Device, Scrubbed, Window};
use spindle_vfs::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most megabytes that are filled between two changes of the label.
const CHECKPOINT: u64 = 256;
/// Byte of a new member at which its first area begins.
const FIRST_AREA: u64 = 64 << 10;

/// How far a change of a set has come, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are done.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Receives the progress; its error ends the work, which can be taken up again.
pub type Report<'a> = dyn FnMut(Progress) -> spindle_device::Result<()> + 'a;

impl Set {
    /// Returns the label as it is now.
    #[must_use]
    pub fn label_now(&self) -> Label {
        self.labels.now()
    }

    /// Returns where the members and the read-only areas are, by their identities; of those that
    /// are not there, where they were, as far as the others know.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        self.labels.places()
    }

    /// Returns true if the log has to be replayed, because the set was not unmounted.
    ///
    /// # Errors
    /// As [`Self::begin_change`].
    pub fn needs_replay(&self) -> Result<bool> {
        Ok(self.open_log(self.space.clone())?.1.in_use)
    }

    /// Begins a change of the members at the time `now`; the set must not be in use.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if its log has to be replayed first, or a part of data storage is not
    /// there; device errors.
    pub fn begin_change(&self, now: Timestamp) -> Result<()> {
        if self.needs_replay()? {
            return Err(Error::unsupported("a set that was not unmounted", "mount and unmount it first"));
        }
        self.begin(now, false, false)
    }

    /// Returns the lock under which the members are changed. Members that are no more what they
    /// were when they were opened are lost from now on, so that nothing is copied from them.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is another change; device errors if such a member has the
    /// only copy of something.
    pub(crate) fn only_change(&self) -> Result<MutexGuard<'_, ()>> {
        let remedy = "wait until it has ended";
        let only = self.change.try_lock();
        let only = only.ok_or_else(|| Error::unsupported("another change at the same time", remedy))?;
        self.lose_strangers()?;
        Ok(only)
    }

    fn lose_strangers(&self) -> Result<()> {
        for (member_id, error) in self.labels.strangers() {
            self.labels.lose(member_id, &error)?;
        }
        Ok(())
    }

    /// Looks whether all members are what they were when they were opened. One that somebody has
    /// written over is not read from now on, and recorded as lost if the set is mounted to write;
    /// unless it has the only copy of something. A change that is going on has looked before.
    pub fn look_for_strangers(&self) {
        let Some(_only) = self.change.try_lock() else { return };
        self.labels.set_only_read(!self.is_mounted.load(Ordering::Acquire));
        if let Err(error) = self.lose_strangers() {
            log::warn!("{error}: there is no other copy");
        }
    }

    /// Returns the part that an area is a copy of.
    fn part(&self, area: &Area) -> Result<&Part> {
        let is_it = |part: &&Part| (part.role, part.index) == (area.role, area.index);
        self.parts.iter().find(is_it).ok_or_else(|| missing(area.role, area.index))
    }

    /// Gives all areas of the member `old` to `device`, which becomes the member `new`, and leaves
    /// out `old`. If `device` is a member already because this was interrupted, it goes on.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if `device` is too small or belongs to the set, or what `old` has
    /// can be read nowhere and is not log storage that is lost, or it is that and the set is
    /// mounted; device errors.
    pub fn replace(
        &self,
        old: [u8; 16],
        device: &Arc<dyn Device>,
        new: [u8; 16],
        report: &mut Report<'_>,
    ) -> Result<()> {
        let _change = self.only_change()?;
        let of_old = |label: &Label| -> Vec<Area> {
            label.areas.iter().filter(|area| area.member_id == old).cloned().collect()
        };
        let areas = of_old(&self.labels.now());
        let (new, device) = self.admit(device, new, &areas)?;
        let total = areas.iter().map(|area| area.len.saturating_mul(2)).fold(0, u64::saturating_add);
        let mut before = 0;
        for area in areas {
            let mut report = |done| report(Progress { done: before + done, total });
            // The number of the copy may have changed with the area before.
            let of_part = |other: &&Area| (other.role, other.index) == (area.role, area.index);
            let Some(now) = of_old(&self.labels.now()).iter().find(of_part).cloned() else { continue };
            if area.role == Role::Log && self.labels.now().log_is_lost() {
                if self.is_mounted.load(Ordering::Acquire) {
                    let what = "replacing log storage that was lost, while the set is mounted";
                    return Err(Error::unsupported(what, "unmount the set and do it again"));
                }
                self.renew_log(new, &now)?;
                continue;
            }
            self.fill(&device, new, &now, Some(now.copy), &mut report)?;
            before = before.saturating_add(area.len.saturating_mul(2));
        }
        self.forget(old);
        Ok(())
    }

    /// Checks that there is such a part of a role's storage.
    ///
    /// # Errors
    /// [`Error::Unsupported`], with those that there are.
    pub fn check_part(&self, role: Role, index: u32) -> Result<()> {
        let parts = self.labels.now().parts(role).len();
        if (index as usize) < parts {
            return Ok(());
        }
        let all: Vec<_> = (0..parts).map(|n| n.to_string()).collect();
        let remedy = format!("the set has {role} storage {}", all.join(", "));
        Err(Error::unsupported(format!("a copy of {role} storage {index}, which does not exist"), remedy))
    }

    /// Adds a copy of a part of a role's storage on `device`, which becomes the member `new`.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn add(
        &self,
        role: Role,
        index: u32,
        device: &Arc<dyn Device>,
        new: [u8; 16],
        report: &mut Report<'_>,
    ) -> Result<()> {
        let _change = self.only_change()?;
        let label = self.labels.now();
        let of_part = |area: &&Area| (area.role, area.index) == (role, index);
        self.check_part(role, index)?;
        let least = label.areas.iter().filter(of_part).min_by_key(|area| area.len);
        let area = Area { offset: FIRST_AREA, ..least.cloned().ok_or_else(|| missing(role, index))? };
        let (new, device) = self.admit(device, new, std::slice::from_ref(&area))?;
        let total = area.len.saturating_mul(2);
        self.fill(&device, new, &area, None, &mut |done| report(Progress { done, total }))
    }

    /// Leaves out a member, all of whose areas have other copies.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no other copy of something; device errors.
    pub fn remove(&self, member_id: [u8; 16]) -> Result<()> {
        let _change = self.only_change()?;
        let label = self.labels.now();
        if !label.can_lose(member_id) {
            let remedy = "replace it, or add a copy elsewhere first";
            return Err(Error::unsupported("the only copy of what the member has", remedy));
        }
        while let Some(area) =
            self.labels.now().areas.iter().find(|area| area.member_id == member_id).cloned()
        {
            let recorded = || self.labels.change(|label| label.drop_area(&area));
            match &self.part(&area)?.mirror {
                Some(mirror) if area.filling.is_some() => {
                    mirror.give_up();
                    *self.part(&area)?.begun.lock() = None;
                    recorded()?;
                }
                Some(mirror) => mirror.remove(area.copy as usize, recorded)?,
                None => return Err(missing(area.role, area.index)),
            }
        }
        self.forget(member_id);
        Ok(())
    }

    /// Reads all copies of everything and compares them, except a log that is lost, which nothing
    /// needs any more. Where they differ, or one cannot be read,
    /// it gets what the checksums say is right, and of what has none, what the first one has. The
    /// records of a log in use are only compared: recovery finds those that are whole in any copy.
    ///
    /// If the set was in use when it was last left, copies may differ in what was never made
    /// durable. That is no fault, and is counted apart. What is not used does not count at all.
    ///
    /// # Errors
    /// Device errors, if something can be read nowhere.
    pub fn scrub(&self, report: &mut Report<'_>) -> Result<Scrubbed> {
        let _change = self.only_change()?;
        let label = self.labels.now();
        let bytes = |role| label.part_bytes(role).into_iter().sum::<u64>();
        let total = bytes(Role::Control) + bytes(Role::Data) + bytes(Role::Log);
        let _verification = self.verify_change()?;
        let (mut all, mut before) = (Scrubbed::default(), 0);
        for part in &self.parts {
            if part.role == Role::Log && self.labels.now().log_is_lost() {
                continue;
            }
            let Some(mirror) = &part.mirror else { return Err(missing(part.role, part.index)) };
            let first_counts = part.role != Role::Log || !self.is_mounted.load(Ordering::Acquire);
            let mut report = |done| report(Progress { done: before + done, total });
            let found = mirror.scrub(first_counts, label.unequal, &mut report)?;
            all.bytes += found.bytes;
            all.differed += found.differed;
            all.unreadable += found.unreadable;
            all.undecided += found.undecided;
            all.unclean += found.unclean;
            all.kept += found.kept;
            all.wrong.extend(found.wrong);
            before += mirror.info().size_bytes;
        }
        if label.unequal && all.kept == 0 {
            self.labels.change(|label| label.unequal = false)?;
            let data = self.parts.iter().filter(|part| part.role == Role::Data);
            data.filter_map(|part| part.mirror.as_ref()).for_each(|mirror| mirror.set_unequal(false));
        }
        Ok(all)
    }

    /// Makes the copies of control storage equal, as a scrub does. Returns true if they were, but
    /// for what the last unclean end explains.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn equalise_control(&self) -> Result<bool> {
        let mut equal = true;
        let parts = self.parts.iter().filter(|part| part.role == Role::Control);
        for mirror in parts.filter_map(|part| part.mirror.as_ref()).filter(|m| m.copies().len() > 1) {
            let found = mirror.scrub(true, self.labels.now().unequal, &mut |_| Ok(()))?;
            equal &= found.differed + found.unreadable == 0;
        }
        Ok(equal)
    }

    /// Makes `device` a member that areas can be given to, unless it is one. Returns its identity,
    /// and the device by which all of the set use it.
    fn admit(
        &self,
        device: &Arc<dyn Device>,
        new: [u8; 16],
        areas: &[Area],
    ) -> Result<([u8; 16], Arc<dyn Device>)> {
        let name = &device.info().name;
        let label = self.labels.now();
        let needed =
            areas.iter().map(|area| area.offset.saturating_add(area.len)).max().unwrap_or(FIRST_AREA);
        if last_label_at(device.info().size_bytes) < needed {
            let needed = needed.saturating_add(LABEL_BYTES as u64);
            return Err(Error::unsupported(format!("{name}: too small"), format!("it takes {needed} bytes")));
        }
        if let Some(own) = read_label(&**device)?
            && own.set_id == label.set_id
        {
            let has = |area: &&Area| area.member_id == own.member_id;
            let begun: Vec<_> = label.areas.iter().filter(has).collect();
            let end = |area: &Area| area.offset.saturating_add(area.len);
            let overlap = |a: &Area, b: &Area| a.offset < end(b) && b.offset < end(a);
            // One that was begun for the same part goes on, or begins again.
            let is_begun = |a: &Area, b: &Area| a.filling.is_some() && (a.role, a.index) == (b.role, b.index);
            let in_use = |a: &&&Area| areas.iter().any(|b| overlap(a, b) && !is_begun(a, b));
            if begun.iter().any(|area| in_use(&area)) || begun.iter().any(|area| areas.contains(area)) {
                let what = format!("{name}: a member of this set");
                let remedy = "name another device; to use one again whose copy was lost, leave it out with \
                              \"spindle mfs remove\" and add it";
                return Err(Error::unsupported(what, remedy));
            }
            if !begun.is_empty()
                && own.epoch >= label.settled
                && let Some(shared) = self.labels.member(own.member_id)
            {
                return Ok((own.member_id, shared));
            }
        }
        Ok((new, self.labels.add_member(new, device.clone())))
    }

    /// Enters a copy of the part of `area` at its place on the member `new` into the table, as one
    /// that has nothing yet, unless it was begun before. Returns it.
    fn begin_copy(&self, new: [u8; 16], area: &Area) -> Result<Area> {
        let of_part = |other: &&Area| (other.role, other.index) == (area.role, area.index);
        let label = self.labels.now();
        let mut begun = label.areas.iter().filter(of_part);
        if let Some(begun) = begun.find(|other| other.member_id == new && other.filling.is_some()) {
            return Ok(begun.clone());
        }
        // Another one that was begun is given up.
        if let Some(other) = label.areas.iter().filter(of_part).find(|other| other.filling.is_some()) {
            self.labels.change(|label| label.drop_area(other))?;
        }
        let label = self.labels.now();
        if label.entries() >= AREAS_MAX {
            let remedy = format!("a set has at most {AREAS_MAX}");
            return Err(Error::unsupported("one more area", remedy));
        }
        let copy = u32::try_from(label.areas.iter().filter(of_part).count()).unwrap_or(u32::MAX);
        let area = Area { copy, member_id: new, lost: true, filling: Some(0), ..area.clone() };
        self.labels.change(|label| label.areas.push(area.clone()))?;
        self.labels.write_places();
        Ok(area)
    }

    /// Gives the place of `area` in log storage that is lost to a member. If no part is missing
    /// then, there is a new log. If not everything may be in its place, it says that the file
    /// system is damaged, until a repair.
    fn renew_log(&self, new: [u8; 16], area: &Area) -> Result<()> {
        // The device has a label before anything else, by which it is known after an interruption.
        let begun = self.begin_copy(new, area)?;
        let mut label = self.labels.now();
        label.drop_area(&begun);
        for other in label.areas.iter_mut().filter(|other| *other == area) {
            (other.member_id, other.offset) = (new, begun.offset);
        }
        let is_here = |area: &Area| area.filling.is_none() && self.labels.member(area.member_id).is_some();
        if label.parts(Role::Log).iter().all(|copies| copies.iter().any(|area| is_here(area))) {
            let state = State { in_use: false, damaged: label.unlogged };
            let now = Timestamp::new(label.opened / 1_000_000_000, 0);
            for area in label.areas.iter_mut().filter(|area| area.role == Role::Log && is_here(area)) {
                let Some(device) = self.labels.member(area.member_id) else { continue };
                area.lost = false;
                if area.index == 0 {
                    // The headers of the log are at its beginning.
                    let window = Window::new(device, area.offset, area.len, "log".into())?;
                    Ring::renew(&window, label.set_id, now, state)?;
                }
            }
            // It was left in use, but the new log does not say so.
            label.unequal |= label.unlogged && self.has_copies();
            label.unlogged = false;
        }
        let Label { areas, unlogged, unequal, .. } = label;
        self.labels.change(|label| {
            (label.areas, label.unlogged, label.unequal) = (areas, unlogged, unequal);
        })?;
        Ok(())
    }

    /// Fills a copy of the part of `area` at its place on `device`; then leaves out the copy
    /// `replaced`.
    fn fill(
        &self,
        device: &Arc<dyn Device>,
        new: [u8; 16],
        area: &Area,
        replaced: Option<u32>,
        report: &mut dyn FnMut(u64) -> spindle_device::Result<()>,
    ) -> Result<()> {
        let Area { role, index, .. } = *area;
        let part = self.part(area)?;
        let Some(mirror) = &part.mirror else { return Err(missing(role, index)) };
        let _verification = self.verify_change()?;
        let is_new = move |other: &Area| (other.role, other.index, other.member_id) == (role, index, new);
        // One that was begun before stays at its place.
        let begun = self.begin_copy(new, area)?;
        let is_mounted = self.is_mounted.load(Ordering::Acquire);
        let done = begun.filling.map_or(0, |megabytes| u64::from(megabytes) << 20);
        let size = mirror.info().size_bytes;
        let mut last = part.begun.lock();
        let window = match &*last {
            Some((member, window)) if *member == new => window.clone(),
            _ => {
                let name = format!("{} ({role} {index})", device.info().name);
                let window = Window::new(device.clone(), begun.offset, begun.len, name)?;
                last.insert((new, Arc::new(window))).1.clone()
            }
        };
        drop(last);
        let step = (size >> 24).clamp(1, CHECKPOINT);
        let mut progress = |at: u64| {
            let megabytes = at >> 20;
            if at < size && megabytes.is_multiple_of(step) && !is_mounted {
                window.flush()?;
                let megabytes = u32::try_from(megabytes).unwrap_or(0);
                self.labels.change(|label| {
                    let new = label.areas.iter_mut().find(|area| is_new(area));
                    if let Some(area) = new {
                        area.filling = Some(megabytes);
                    }
                })?;
            }
            report(at)
        };
        let restored = || {
            self.labels.change(|label| {
                let restored = label.areas.iter_mut().find(|area| is_new(area));
                if let Some(area) = restored {
                    (area.lost, area.filling) = (false, None);
                }
                let is_old =
                    |area: &Area| (area.role, area.index) == (role, index) && Some(area.copy) == replaced;
                let old = label.areas.iter().find(|area| is_old(area)).cloned();
                if let Some(old) = old {
                    label.drop_area(&old);
                }
            })
        };
        let replaced = replaced.map(|copy| copy as usize);
        mirror.rebuild(&window, replaced, done, &mut progress, restored)?;
        *part.begun.lock() = None;
        Ok(())
    }

    /// Erases the labels of a member that the set no longer has, if it is there.
    fn forget(&self, member_id: [u8; 16]) {
        if let Some(device) = self.labels.remove_member(member_id) {
            self.erase_labels(&*device, member_id);
        }
    }

    /// Erases the labels of a member that was left out by a change which was interrupted before it
    /// did that; nothing if the set has it, or somebody else has written over it.
    pub fn erase_labels(&self, device: &dyn Device, member_id: [u8; 16]) {
        let label = self.labels.now();
        if label.members().contains(&member_id) {
            return;
        }
        if let Err(error) = check_member(device, label.set_id, member_id) {
            log::info!("{error}: nothing is erased");
            return;
        }
        let erased = [0, last_label_at(device.info().size_bytes)]
            .into_iter()
            .try_for_each(|at| device.write_at(at, &[0; LABEL_BYTES]))
            .and_then(|()| device.flush());
        if let Err(error) = erased {
            log::info!("the label of the member that was left out was not erased: {error}");
        }
    }
}
