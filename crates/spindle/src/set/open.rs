//! An open set, with where its members are.

use super::change::NewDevice;
use super::find::{FoundArea, FoundMember, find, is_same, label_of};
use super::named::{MemberName, MountedSet};
use crate::error::{Error, Result};
use crate::image::{OpenOptions, open_with};
use crate::newfs::{Created, open_new};
use crate::text;
use spindle_clock::Mutex;
use spindle_device::{Caching, Claim, Device, Spec};
use spindle_mfs::{Area, Label, Place, Role, Set, read_label};
use std::path::PathBuf;
use std::sync::Arc;

/// An open set.
pub(crate) struct OpenSet {
    pub(crate) set: Set,
    /// The devices that are open, with where they are: those of the members, and those that became
    /// members since.
    members: Mutex<Vec<(Spec, Arc<dyn Device>)>>,
    /// Files that were made for new members.
    created: Mutex<Vec<(Spec, Created)>>,
    /// Where members were that the set did not have any more when it was opened.
    former: Vec<Place>,
    /// What is missing or left out, for people.
    losses: Vec<String>,
}

impl OpenSet {
    /// Finds and opens all members of the set that `spec` is a member of. Warns of copies that are
    /// lost.
    pub(crate) fn open(spec: &Spec, options: &OpenOptions) -> Result<Self> {
        let open = Self::open_as(spec, options, false)?;
        open.warn();
        Ok(open)
    }

    /// Does the same without a warning; `without_log` gives up log storage that is missing.
    pub(super) fn open_as(spec: &Spec, options: &OpenOptions, without_log: bool) -> Result<Self> {
        let found = find(spec)?;
        let mut losses = Vec::new();
        if let Some(error) = found.refused.as_ref().filter(|_| !options.read_only) {
            let remedy = "make it available, or move it away if the set should go on without it";
            return Err(Error::new(format!("{error}; it is a member of the set: {remedy}")));
        }
        losses.extend(
            found.refused.as_ref().map(|error| format!("{error}: this member of the set is left out")),
        );
        let is_needed = |id| found.refused.is_none() && !found.label.is_useless(id);
        for (_, path) in found.away.iter().filter(|(id, _)| is_needed(*id)) {
            let path = text::quoted(path.as_bytes());
            losses.push(format!("{spec}: a member of the set is missing; it was last at {path}"));
        }
        let members = open_members(spec, found.members, options)?;
        let areas = found.read_only.iter().filter_map(open_found);
        let devices: Vec<_> = members.iter().map(|(_, device)| device.clone()).chain(areas).collect();
        let set = if without_log { Set::open_without_log(&devices) } else { Set::open(&devices) }?;
        losses.extend(set.left_out.iter().cloned());
        for area in set.label.areas.iter().filter(|area| area.is_lost()) {
            let Area { role, index, copy, .. } = area;
            losses.push(format!(
                "{spec}: copy {copy} of {role} storage {index} is lost; see spindle mfs status"
            ));
        }
        let (members, created) = (Mutex::new(members), Mutex::default());
        Ok(Self { set, members, created, former: found.former, losses })
    }

    /// Returns what a mount says of the set.
    pub(crate) fn says(&self) -> MountedSet {
        MountedSet { label: self.set.label_now().encode(), places: self.set.places() }
    }

    /// Warns of what is missing or left out.
    pub(super) fn warn(&self) {
        self.losses.iter().for_each(|loss| log::warn!("{loss}"));
    }

    /// Returns a specification by which the set is found: `spec`, or another member if that is none
    /// any more.
    pub(crate) fn place(&self, spec: &Spec) -> Spec {
        let set_id = self.set.label.set_id;
        let is_member = |spec: &&Spec| label_of(spec).is_some_and(|label| label.set_id == set_id);
        let members = self.members.lock();
        let mut others = members.iter().map(|(spec, _)| spec);
        Some(spec).filter(is_member).or_else(|| others.find(is_member)).unwrap_or(spec).clone()
    }

    /// Returns the device of a new member: one that was begun before, or a new one. One that was
    /// begun for this set, and holds nothing of it yet, may be overwritten.
    pub(super) fn new_device(&self, new: &Spec, size: Option<u64>, force: bool) -> Result<Arc<dyn Device>> {
        let mut members = self.members.lock();
        if let Some((_, device)) = members.iter().find(|(spec, _)| is_same(spec, new)) {
            return Ok(device.clone());
        }
        let label = self.set.label_now();
        let is_begun = label_of(new).is_some_and(|own| {
            let unused = |area: &Area| area.member_id != own.member_id || area.filling.is_some();
            own.set_id == label.set_id && own.is_only_begun() && label.areas.iter().all(unused)
        });
        let (device, created) = open_new(new, size, force || is_begun)?;
        members.push((new.clone(), device.clone()));
        self.created.lock().push((new.clone(), created));
        Ok(device)
    }

    /// Removes the file that was made for a new member, if that has failed before it became one.
    pub(super) fn undo(&self, new: &NewDevice) {
        let set_id = self.set.label.set_id;
        let members = self.members.lock();
        let is_new = |spec: &Spec| Spec::parse(&new.path).is_ok_and(|new| new == *spec);
        let is_member = members.iter().any(|(spec, device)| {
            is_new(spec) && read_label(&**device).is_ok_and(|own| own.is_some_and(|own| own.set_id == set_id))
        });
        if !is_member {
            self.created.lock().iter().filter(|(spec, _)| is_new(spec)).for_each(|(_, file)| file.undo());
        }
    }

    /// Closes the devices that are not members, or not any more.
    pub(super) fn close_others(&self) {
        let set_id = self.set.label.set_id;
        let is_member =
            |device: &dyn Device| matches!(read_label(device), Ok(Some(label)) if label.set_id == set_id);
        self.members.lock().retain(|(_, device)| is_member(&**device));
        self.created.lock().clear();
    }

    /// Returns the number of members that are open.
    pub(super) fn count(&self) -> usize {
        self.members.lock().len()
    }

    /// Returns the open device that is at this place.
    fn device_at(&self, spec: &Spec) -> Option<Arc<dyn Device>> {
        let members = self.members.lock();
        members.iter().find(|(other, _)| is_same(other, spec)).map(|(_, device)| device.clone())
    }

    /// Returns the identity of the member that is at this place.
    fn member_at(&self, spec: &Spec) -> Option<[u8; 16]> {
        let own = read_label(&*self.device_at(spec)?).ok().flatten()?;
        (own.set_id == self.set.label.set_id).then_some(own.member_id)
    }

    /// Returns the identity of a member by its path, that where it was last, or the beginning of
    /// its identity in hexadecimal digits: what `status` shows.
    pub(super) fn member(&self, name: &MemberName) -> Result<[u8; 16]> {
        let label = self.set.label_now();
        let here = name.place().and_then(|spec| self.member_at(&spec));
        let places = self.set.places().into_iter();
        let last = places.filter(|(_, path)| name.is_place(path)).map(|(id, _)| id);
        let of_name = label.members().into_iter().filter(|id| name.begins(*id));
        let mut ids: Vec<_> = here.into_iter().chain(last).chain(of_name).collect();
        ids.retain(|id| label.members().contains(id));
        ids.sort_unstable();
        ids.dedup();
        let given = &name.given;
        match ids[..] {
            [only] => Ok(only),
            [] => Err(Error::new(format!(
                "{given}: neither the path of a member of this set nor the identity of one, as \"spindle mfs \
                 status\" shows it"
            ))),
            _ => Err(Error::new(format!(
                "{given}: may be several members of this set; give the identity of one, as \"spindle mfs \
                 status\" shows it"
            ))),
        }
    }

    /// Returns true if the device `new` has everything that a member had which the set no longer
    /// has: a replacement was interrupted after that. Takes the label off the old one, if it still
    /// has it.
    pub(super) fn has_replaced(&self, old: &MemberName, new: &NewDevice) -> bool {
        let label = self.set.label_now();
        let Some(id) = Spec::parse(&new.path).ok().and_then(|new| self.member_at(&new)) else { return false };
        let mut areas = label.areas.iter().filter(|area| area.member_id == id).peekable();
        if areas.peek().is_none() || areas.any(|area| area.lost) {
            return false;
        }
        let is_gone = |id: &[u8; 16]| !label.members().contains(id);
        let open = |spec: Spec| {
            let anew = || spec.open(&spindle_device::OpenOptions::read_write()).ok();
            self.device_at(&spec).or_else(anew)
        };
        let device = old.place().and_then(open);
        let own = device.as_ref().and_then(|device| read_label(&**device).ok().flatten());
        // It was written by the same change, or not since.
        let is_of_then = |own: &Label| (own.set_id, own.opened) == (label.set_id, self.set.label.opened);
        if let Some((device, own)) = device.zip(own.filter(is_of_then))
            && is_gone(&own.member_id)
        {
            self.set.erase_labels(&*device, own.member_id);
            return true;
        }
        self.former.iter().any(|(id, path)| is_gone(id) && (old.is_place(path) || old.begins(*id)))
    }

    /// Returns true if the device `new` is a whole copy of a part of a role's storage beside
    /// another one.
    pub(super) fn has_copy(&self, (role, index): (Role, u32), new: &NewDevice) -> bool {
        let id = Spec::parse(&new.path).ok().and_then(|new| self.member_at(&new));
        let areas = self.set.label_now().areas;
        let is_whole = |area: &&Area| (area.role, area.index) == (role, index) && !area.lost;
        let whole = || areas.iter().filter(is_whole);
        whole().count() > 1 && whole().any(|area| Some(area.member_id) == id)
    }
}

/// Opens a device that is not written: the area of a read-only class. Its sectors are those of a
/// file.
///
/// # Errors
/// If it cannot be opened, or another program is writing it.
pub(super) fn open_area(spec: &Spec) -> Result<Arc<dyn Device>> {
    let options = spindle_device::OpenOptions {
        caching: Caching::Buffered,
        ..spindle_device::OpenOptions::read_only()
    };
    Ok(spec.open(&options)?)
}

/// Opens an area that was found; none if that fails: the set is used without it.
fn open_found(area: &FoundArea) -> Option<Arc<dyn Device>> {
    open_area(&area.spec).inspect_err(|error| log::warn!("{error}: it is left out")).ok()
}

/// Opens the members of a set as the options say. Partitions that only we know share the claim of
/// their disk. A mount claims only the device of `spec`, so the others are claimed here.
fn open_members(
    spec: &Spec,
    found: Vec<FoundMember>,
    options: &OpenOptions,
) -> Result<Vec<(Spec, Arc<dyn Device>)>> {
    let path = spec.path.canonicalize().unwrap_or_else(|_| spec.path.clone());
    let named = Spec { path, ..spec.clone() }.place()?.path;
    // What is claimed, and the disk that it belongs to.
    let mut claimed: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut members = Vec::new();
    for FoundMember { spec, .. } in found {
        let path = spec.place()?.path;
        // A disk and its partitions exclude each other's claims, ours too.
        let excluded =
            |(other, disk): &(PathBuf, PathBuf)| *other == path || *other == spec.path || *disk == path;
        let claim = if claimed.iter().any(excluded) {
            Claim::Elsewhere
        } else if path == named {
            options.claim
        } else {
            Claim::Kept
        };
        let device = open_with(&spec, &OpenOptions { claim, ..options.clone() })?;
        claimed.push((path, spec.path.clone()));
        members.push((spec, device));
    }
    Ok(members)
}
