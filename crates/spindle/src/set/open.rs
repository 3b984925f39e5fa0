//! An open set, with where its members are.

use super::change::NewDevice;
use super::find::{FoundArea, FoundMember, find, is_same};
use crate::error::{Context, Error, Result};
use crate::image::{OpenOptions, open_with};
use crate::newfs::{Created, open_new};
use crate::text;
use spindle_clock::Mutex;
use spindle_device::{Caching, Claim, Device, Spec};
use spindle_mfs::{Area, Set, read_label};
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
}

impl OpenSet {
    /// Finds and opens all members of the set that `spec` is a member of. Warns of copies that are
    /// lost.
    pub(crate) fn open(spec: &Spec, options: &OpenOptions) -> Result<Self> {
        Self::open_as(spec, options, false)
    }

    /// Does the same; `without_log` gives up log storage that is missing.
    pub(super) fn open_as(spec: &Spec, options: &OpenOptions, without_log: bool) -> Result<Self> {
        let found = find(spec)?;
        if let Some(error) = found.refused.as_ref().filter(|_| !options.read_only) {
            let remedy = "make it available, or move it away if the set should go on without it";
            return Err(Error::new(format!("{error}; it is a member of the set: {remedy}")));
        }
        let is_needed = |id| found.newest().is_some_and(|label| !label.is_useless(id));
        for (_, path) in found.away.iter().filter(|(id, _)| found.refused.is_none() && is_needed(*id)) {
            let path = text::quoted(path.as_bytes());
            log::warn!("{spec}: a member of the set is missing; it was last at {path}");
        }
        let members = open_members(spec, found.members, options)?;
        let areas = found.read_only.iter().filter_map(open_found);
        let devices: Vec<_> = members.iter().map(|(_, device)| device.clone()).chain(areas).collect();
        let set = if without_log { Set::open_without_log(&devices) } else { Set::open(&devices) }?;
        for area in set.label.areas.iter().filter(|area| area.lost) {
            let Area { role, index, copy, .. } = area;
            log::warn!("{spec}: copy {copy} of {role} storage {index} is lost; see spindle mfs status");
        }
        Ok(Self { set, members: Mutex::new(members), created: Mutex::default() })
    }

    /// Returns the device of a new member: one that was begun before, or a new one.
    pub(super) fn new_device(&self, new: &Spec, size: Option<u64>, force: bool) -> Result<Arc<dyn Device>> {
        let mut members = self.members.lock();
        if let Some((_, device)) = members.iter().find(|(spec, _)| spec == new) {
            return Ok(device.clone());
        }
        let (device, created) = open_new(new, size, force)?;
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

    /// Returns the identity of a member by its path, or by the beginning of its identity in
    /// hexadecimal digits, as `status` shows it for a member that is missing.
    pub(super) fn member(&self, name: &str) -> Result<[u8; 16]> {
        let label = self.set.label_now();
        let spec = Spec::parse(name)?;
        if spec.path.exists() {
            let not_a_member = || Error::new(format!("{name}: not a member of this set"));
            let members = self.members.lock();
            let (_, device) =
                members.iter().find(|(other, _)| is_same(other, &spec)).ok_or_else(not_a_member)?;
            let own = read_label(&**device).context(name)?.filter(|own| own.set_id == label.set_id);
            return own.map(|own| own.member_id).ok_or_else(not_a_member);
        }
        let digits = |id: &[u8; 16]| format!("{:032x}", u128::from_be_bytes(*id));
        let of_name = |id: &[u8; 16]| name.len() >= 4 && digits(id).starts_with(name);
        let ids: Vec<_> = label.members().into_iter().filter(of_name).collect();
        match ids[..] {
            [only] => Ok(only),
            _ => Err(Error::new(format!(
                "{name}: neither the path of a member nor the identity of one, as \"spindle mfs status\" \
                 shows it"
            ))),
        }
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
