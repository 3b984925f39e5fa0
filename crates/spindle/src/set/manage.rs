//! Changing the members of a set that is not mounted, with the log replayed first.

use super::find::{FoundMember, find};
use crate::check::{Checked, MfsReport, Options, check};
use crate::error::{Context, Error, Result};
use crate::image::{Image, OpenOptions, open_members};
use crate::newfs::{open_new, rng};
use rand::Rng;
use spindle_clock::{Clock, TickClock};
use spindle_device::{Device, Scrubbed, Spec};
use spindle_mfs::{Progress, Role, Set};
use std::fmt;
use std::sync::Arc;

/// Settings of the changes that need a new device.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewDevice {
    /// The size of a new file in bytes.
    pub size: Option<u64>,
    /// Overwrite what is there.
    pub force: bool,
}

/// Receives the progress; its error ends the work, which can be taken up again.
pub type Report<'a> = dyn FnMut(Progress) -> Result<()> + 'a;

/// A set that is open for a change, with where its members are.
struct Open {
    set: Set,
    members: Vec<(FoundMember, Arc<dyn Device>)>,
}

/// Replays the log of the set that `spec` is a member of, and opens it for a change.
fn open(spec: &Spec) -> Result<Open> {
    // A mount replays the log, and an unmount empties it.
    let image = Image::open(spec, &OpenOptions::read_write())?;
    if let Err(error) = image.check_writable() {
        let _ = image.unmount();
        return Err(error).context(spec);
    }
    image.unmount().context(spec)?;
    let options = OpenOptions::read_write();
    let members = open_members(spec, find(spec)?, &options)?;
    let devices: Vec<_> = members.iter().map(|(_, device)| device.clone()).collect();
    let set = Set::open(&devices).context(spec)?;
    set.begin_change(TickClock.now()).context(spec)?;
    Ok(Open { set, members })
}

impl Open {
    /// Returns the device of a new member: one that was begun before, or a new one.
    fn new_device(&self, new: &Spec, settings: NewDevice) -> Result<Arc<dyn Device>> {
        let path = std::path::absolute(&new.path).context(new)?;
        let new = Spec { path: path.canonicalize().unwrap_or(path), ..new.clone() };
        let begun = self.members.iter().find(|(member, _)| member.spec == new);
        match begun {
            Some((_, device)) => Ok(device.clone()),
            None => Ok(open_new(&new, settings.size, settings.force)?.0),
        }
    }

    /// Returns the identity of a member by its path, or by the beginning of its identity in
    /// hexadecimal digits, as `status` shows it for a member that is missing.
    fn member(&self, name: &str) -> Result<[u8; 16]> {
        let spec = Spec::parse(name)?;
        let same = |other: &Spec| {
            other.part == spec.part && other.path.canonicalize().ok() == spec.path.canonicalize().ok()
        };
        if spec.path.exists() {
            let found = self.members.iter().find(|(member, _)| same(&member.spec));
            let found = found.map(|(member, _)| member.label.member_id);
            return found.ok_or_else(|| Error::new(format!("{name}: not a member of this set")));
        }
        let label = self.set.label_now();
        let digits = |id: &[u8; 16]| format!("{:032x}", u128::from_be_bytes(*id));
        let of_name: Vec<_> = label
            .members()
            .into_iter()
            .filter(|id| name.len() >= 4 && digits(id).starts_with(name))
            .collect();
        match of_name[..] {
            [only] => Ok(only),
            _ => Err(Error::new(format!(
                "{name}: neither the path of a member nor the identity of one, as \"spindle mfs status\" \
                 shows it"
            ))),
        }
    }

    fn find_status(&self) -> impl Iterator<Item = &Spec> {
        self.members.iter().map(|(member, _)| &member.spec)
    }
}

/// Wraps a progress function for the layer below.
fn reporting<'a>(report: &'a mut Report<'_>) -> impl FnMut(Progress) -> spindle_device::Result<()> + 'a {
    |progress| {
        report(progress).map_err(|error| {
            spindle_device::Error::io("the change", "going on", std::io::Error::other(error.to_string()))
        })
    }
}

fn identity() -> [u8; 16] {
    rng(None).random()
}

/// Gives what the member called `old` has to the device `new`, on the set that `spec` is a member
/// of. `old` is a path, or an identity as [`Status`](super::Status) shows it. If this was
/// interrupted, calling it again goes on.
///
/// # Errors
/// If the set is in use or not whole enough, `new` cannot be used, or a device fails.
pub fn replace(
    spec: &Spec,
    old: &str,
    new: &Spec,
    settings: NewDevice,
    report: &mut Report<'_>,
) -> Result<()> {
    let open = open(spec)?;
    let id = open.member(old)?;
    let device = open.new_device(new, settings)?;
    open.set.replace(id, &device, identity(), &mut reporting(report)).context(new)
}

/// Adds a copy of part `index` of a role's storage on the device `new`.
///
/// # Errors
/// As [`replace`].
pub fn add(
    spec: &Spec,
    (role, index): (Role, u32),
    new: &Spec,
    settings: NewDevice,
    report: &mut Report<'_>,
) -> Result<()> {
    let open = open(spec)?;
    let device = open.new_device(new, settings)?;
    open.set.add(role, index, &device, identity(), &mut reporting(report)).context(new)
}

/// Leaves out the member called `old`, if there are other copies of all that it has.
///
/// # Errors
/// As [`replace`].
pub fn remove(spec: &Spec, old: &str) -> Result<()> {
    let open = open(spec)?;
    let id = open.member(old)?;
    // The set must be found through another member afterwards.
    let others = open.find_status().count();
    if others < 2 {
        return Err(Error::new("the last member of the set").within(old));
    }
    open.set.remove(id).context(old)
}

/// What a scrub has found.
#[derive(Clone, Debug)]
pub struct ScrubReport {
    /// What differed between copies.
    pub copies: Scrubbed,
    /// The check of the structures after it.
    pub check: MfsReport,
}

/// Compares all copies, mends what differs, and checks the structures.
///
/// # Errors
/// As [`replace`].
pub fn scrub(
    spec: &Spec,
    report: &mut Report<'_>,
    phase: &mut dyn FnMut(&dyn fmt::Display),
) -> Result<ScrubReport> {
    let open = open(spec)?;
    let copies = open.set.scrub(&mut reporting(report)).context(spec)?;
    drop(open);
    match check(spec, &Options::default(), phase)? {
        Checked::Mfs(checked) => Ok(ScrubReport { copies, check: checked.after }),
        _ => Err(Error::new("it is no longer a member of a set").within(spec)),
    }
}
