//! What a set consists of, and what of it is there.

use super::find::{FoundMember, find};
use crate::error::Result;
use crate::image::open_device_unlocked;
use serde::Serialize;
use spindle_device::Spec;
use spindle_mfs::{ClassLayout, Label, Layout, Role, Set, Share, StorageUse};

/// The state of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AreaState {
    /// It is there and has everything.
    Whole,
    /// It was lost, and has not been filled again.
    Lost,
    /// Its member was not found.
    Missing,
    /// Its member has an earlier state of the set.
    OutOfDate,
}

/// An area of a set.
#[derive(Clone, Debug, Serialize)]
pub struct AreaStatus {
    /// `control`, `data` or `log`.
    pub role: String,
    /// The part of the role's storage.
    pub index: u32,
    /// Of data storage: the name of its class.
    pub class: Option<String>,
    /// The number of the copy.
    pub copy: u32,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its state.
    pub state: AreaState,
}

/// A member of a set.
#[derive(Clone, Debug, Serialize)]
pub struct MemberStatus {
    /// Where it is, if it was found.
    pub path: Option<String>,
    /// Its identity, in hexadecimal digits.
    pub member_id: String,
    /// Its areas.
    pub areas: Vec<AreaStatus>,
}

/// A class of data.
#[derive(Clone, Debug, Serialize)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bytes of a striped track.
    pub track_bytes: u64,
    /// Bytes of a stripe unit.
    pub stripe_bytes: u32,
    /// Bytes of all its blocks.
    pub bytes: u64,
    /// How much is used, in bytes; none if that cannot be read.
    pub share: Option<Share>,
}

impl ClassStatus {
    fn of(class: &ClassLayout, share: Option<Share>) -> Self {
        Self {
            name: class.name.to_string(),
            block_bytes: class.structure.block_bytes,
            track_bytes: class.structure.track_bytes(),
            stripe_bytes: class.structure.stripe_bytes,
            bytes: class.blocks() * class.block_bytes(),
            share,
        }
    }
}

/// A set.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Its identity, in hexadecimal digits.
    pub set_id: String,
    /// Number of times that it was changed or opened to write.
    pub epoch: u64,
    /// When that was, in nanoseconds since 1970; 0 before the first time.
    pub opened: i64,
    /// Bytes of a block of control storage.
    pub block_bytes: u32,
    /// True if data blocks have checksums.
    pub checksums: bool,
    /// The classes of data; the first one is the default one.
    pub classes: Vec<ClassStatus>,
    /// Bytes of data storage of all classes.
    pub data_bytes: u64,
    /// File headers that there can be, if control storage holds nothing else.
    pub headers: u64,
    /// Cylinders of control storage.
    pub cylinders: u64,
    /// What of its storage is used, by role; none if that cannot be read.
    pub storage: Option<StorageUse>,
    /// Why it cannot be read: also if the members do not belong together.
    pub unreadable: Option<String>,
    /// The members, in the order of the table.
    pub members: Vec<MemberStatus>,
    /// Copies of data storage may differ in what was never flushed, until a scrub.
    pub unequal: bool,
}

impl Status {
    /// Returns true if every area is whole.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.members.iter().flat_map(|member| &member.areas).all(|area| area.state == AreaState::Whole)
    }

    /// Describes a set by its newest label and the members that were found.
    ///
    /// # Errors
    /// If the label's sizes are impossible.
    pub fn of(found: &[FoundMember]) -> Result<Self> {
        let newest = found.iter().map(|member| &member.label);
        let Some(label) = newest.max_by_key(|label| (label.epoch, label.settled)) else {
            return Err(crate::Error::new("no members"));
        };
        let layout = Layout::of(label)?;
        let members =
            label.members().into_iter().map(|id| member_status((label, &layout), found, id)).collect();
        let (storage, unreadable) = match storage_use(found) {
            Ok(storage) => (Some(storage), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let share = |n: usize| storage.as_ref().and_then(|storage| storage.classes.get(n).copied());
        let classes = layout.classes.iter().enumerate().map(|(n, class)| ClassStatus::of(class, share(n)));
        Ok(Self {
            set_id: hexadecimal(label.set_id),
            epoch: label.epoch,
            opened: label.opened,
            block_bytes: label.parameters.block_bytes,
            checksums: label.parameters.checksums,
            classes: classes.collect(),
            data_bytes: layout.data_bytes(),
            headers: layout.cylinders * layout.headers_in_cylinder(),
            cylinders: layout.cylinders,
            storage,
            unreadable,
            members,
            unequal: label.unequal,
        })
    }
}

/// Finds the members of the set that `spec` is a member of, and describes the set.
///
/// # Errors
/// As [`find`].
pub fn status(spec: &Spec) -> Result<Status> {
    Status::of(&find(spec)?)
}

/// Reads what of the storage of a set is used, without a lock.
fn storage_use(found: &[FoundMember]) -> Result<StorageUse> {
    let devices: Vec<_> =
        found.iter().map(|member| open_device_unlocked(&member.spec)).collect::<Result<_>>()?;
    Ok(Set::open(&devices)?.storage_use()?)
}

fn member_status((label, layout): (&Label, &Layout), found: &[FoundMember], id: [u8; 16]) -> MemberStatus {
    let member = found.iter().find(|member| member.label.member_id == id);
    let areas = label.areas.iter().filter(|area| area.member_id == id).map(|area| AreaStatus {
        role: area.role.to_string(),
        index: area.index,
        class: (area.role == Role::Data).then(|| layout.class(area.class.into()).name.to_string()),
        copy: area.copy,
        bytes: area.len,
        state: match member {
            None => AreaState::Missing,
            Some(_) if area.lost => AreaState::Lost,
            Some(member) if member.label.epoch < label.settled => AreaState::OutOfDate,
            Some(_) => AreaState::Whole,
        },
    });
    MemberStatus {
        path: member.map(|member| member.spec.to_string()),
        member_id: hexadecimal(id),
        areas: areas.collect(),
    }
}

fn hexadecimal(id: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(id))
}
