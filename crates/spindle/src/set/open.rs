//! An open set, with where its members are.

use super::find::{FoundArea, FoundMember, find};
use crate::error::{Context, Error, Result};
use crate::image::{OpenOptions, open_with};
use crate::newfs::open_new;
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
        let members = open_members(spec, found.members, options)?;
        let areas = found.read_only.iter().filter_map(open_found);
        let devices: Vec<_> = members.iter().map(|(_, device)| device.clone()).chain(areas).collect();
        let set = if without_log { Set::open_without_log(&devices) } else { Set::open(&devices) }?;
        for area in set.label.areas.iter().filter(|area| area.lost) {
            let Area { role, index, copy, .. } = area;
            log::warn!("{spec}: copy {copy} of {role} storage {index} is lost; see spindle mfs status");
        }
        Ok(Self { set, members: Mutex::new(members) })
    }

    /// Returns the device of a new member: one that was begun before, or a new one.
    pub(super) fn new_device(&self, new: &Spec, size: Option<u64>, force: bool) -> Result<Arc<dyn Device>> {
        let mut members = self.members.lock();
        if let Some((_, device)) = members.iter().find(|(spec, _)| spec == new) {
            return Ok(device.clone());
        }
        let device = open_new(new, size, force)?.0;
        members.push((new.clone(), device.clone()));
        Ok(device)
    }

    /// Closes the devices that are not members, or not any more.
    pub(super) fn close_others(&self) {
        let set_id = self.set.label.set_id;
        let is_member =
            |device: &dyn Device| matches!(read_label(device), Ok(Some(label)) if label.set_id == set_id);
        self.members.lock().retain(|(_, device)| is_member(&**device));
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
            let (_, device) = members.iter().find(|(other, _)| *other == spec).ok_or_else(not_a_member)?;
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

/// Opens the members of a set as the options say. Several partitions of a disk share its claim. A
/// mount claims only the device of `spec`, so the others are claimed here.
fn open_members(
    spec: &Spec,
    found: Vec<FoundMember>,
    options: &OpenOptions,
) -> Result<Vec<(Spec, Arc<dyn Device>)>> {
    let named = spec.path.canonicalize().unwrap_or_else(|_| spec.path.clone());
    let mut claimed: Vec<PathBuf> = Vec::new();
    let mut members = Vec::new();
    for FoundMember { spec, .. } in found {
        let claim = if claimed.contains(&spec.path) {
            Claim::Elsewhere
        } else if spec.path == named {
            options.claim
        } else {
            Claim::Kept
        };
        let device = open_with(&spec, &OpenOptions { claim, ..options.clone() })?;
        claimed.push(spec.path.clone());
        members.push((spec, device));
    }
    Ok(members)
}
