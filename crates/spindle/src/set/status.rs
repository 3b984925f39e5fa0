//! What a set consists of, what of it is there, and who uses it.
//!
//! Labels are read from the members. What is used of their storage is asked of the process that
//! serves the mount, if the set is mounted: much of it is only in its memory.

use super::find::{FoundArea, FoundMember, FoundSet};
use super::named::Named;
use crate::control::{Name, Request, request};
use crate::error::Result;
use crate::image::open_device_unlocked;
use crate::mounted::Description;
use serde::Serialize;
use spindle_device::{Spec, writers};
use spindle_mfs::{ClassLayout, Label, Layout, ReadOnlyClass, Role, Set, Share, StorageUse};

/// The state of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AreaState {
    /// It is there and has everything.
    Whole,
    /// It was lost, and has not been filled again.
    Lost,
    /// It is a new copy, which is being filled, or whose filling was interrupted or has failed. The
    /// set does not need it.
    Unfinished,
    /// Its member was not found.
    Missing,
    /// Its member has an earlier state of the set.
    OutOfDate,
    /// Its member has become too short for its areas.
    TooShort,
}

/// An area of a set.
#[derive(Clone, Debug, Serialize)]
pub struct AreaStatus {
    /// `control`, `data` or `log`; `read-only` for the area of a read-only class.
    pub role: String,
    /// The part of the role's storage.
    pub index: u32,
    /// Of data storage and of a read-only area: the name of its class.
    pub class: Option<String>,
    /// The number of the copy.
    pub copy: u32,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its state.
    pub state: AreaState,
    /// Of one that is not finished: how many bytes it has that an interrupted filling goes on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filled_bytes: Option<u64>,
}

/// A member of a set.
#[derive(Clone, Debug, Serialize)]
pub struct MemberStatus {
    /// Where it is, if it was found.
    pub path: Option<String>,
    /// Where one that was not found was when the set was last opened to write, if another member
    /// knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_path: Option<String>,
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
    /// True if nothing of it is written: then it has neither tracks nor stripe units of its own.
    pub read_only: bool,
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
            read_only: class.read_only,
            block_bytes: class.structure.block_bytes,
            track_bytes: class.structure.track_bytes(),
            stripe_bytes: class.structure.stripe_bytes,
            bytes: class.blocks() * class.block_bytes(),
            share,
        }
    }
}

/// Whether a set is used, and how it was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nobody uses it, and it was unmounted.
    Unmounted,
    /// It is mounted.
    Mounted,
    /// A process has it open for writing that serves no mount.
    Open,
    /// Nobody uses it, and it was not unmounted: its log has to be replayed.
    NotUnmounted,
}

/// Where a set is mounted.
#[derive(Clone, Debug, Serialize)]
pub struct MountedAt {
    /// The directory.
    pub dir: String,
    /// Nothing can be changed.
    pub read_only: bool,
    /// It is not on the directory any more, but still in use (`umount -l`).
    pub detached: bool,
}

/// A set.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Its identity, in hexadecimal digits.
    pub set_id: String,
    /// Whether it is used.
    pub state: State,
    /// Where it is mounted; none if it is not, or belongs to another user who is not to be asked.
    pub mount: Option<MountedAt>,
    /// The figures of `storage` are not those of this moment, but what was written last: it is in
    /// use, and that process does not say more.
    pub stale: bool,
    /// Number of times that it was changed or opened to write.
    pub epoch: u64,
    /// When that was, in nanoseconds since 1970; 0 before the first time.
    pub opened: i64,
    /// Bytes of a block of control storage.
    pub block_bytes: u32,
    /// True if data blocks have checksums.
    pub checksums: bool,
    /// The classes of data; the first one is the default one, and read-only ones come last.
    pub classes: Vec<ClassStatus>,
    /// Bytes of data storage of all classes that can be written.
    pub data_bytes: u64,
    /// File headers that there can be, if control storage holds nothing else.
    pub headers: u64,
    /// Cylinders of control storage.
    pub cylinders: u64,
    /// What of its storage is used, by role; none if that cannot be read.
    pub storage: Option<StorageUse>,
    /// Why it cannot be read: also if the members do not belong together.
    pub unreadable: Option<String>,
    /// The members, in the order of the table, and then the read-only areas.
    pub members: Vec<MemberStatus>,
    /// The set was left in use: copies may differ in what was never durable,
    /// until a scrub.
    pub unequal: bool,
}

impl Status {
    /// Returns true if every area is whole but those that are not needed yet, and the set can be
    /// read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let mut areas = self.members.iter().flat_map(|member| &member.areas);
        let is_fine = |area: &AreaStatus| matches!(area.state, AreaState::Whole | AreaState::Unfinished);
        self.unreadable.is_none() && areas.all(is_fine)
    }

    /// Describes a set by its newest label and the members that were found. Warns of a member that
    /// cannot be opened.
    ///
    /// # Errors
    /// If the label's sizes are impossible.
    pub fn of(set: &FoundSet) -> Result<Self> {
        Self::with(set, ask_mount(&set.label, &set.members)?)
    }

    /// Does the same with what is known of the mount.
    fn with(set: &FoundSet, mount: Mount) -> Result<Self> {
        let FoundSet { label, members: found, read_only, away, refused, .. } = set;
        if let Some(error) = refused {
            log::warn!("{error}: this member of the set is left out");
        }
        let layout = Layout::of(label)?;
        let last_path = |id| away.iter().find(|(of, _)| *of == id).map(|(_, path)| path.clone());
        let members = label.members().into_iter().map(|id| MemberStatus {
            last_path: last_path(id),
            ..member_status((label, &layout), found, id)
        });
        let members = members.chain(area_statuses(label, read_only)).collect();
        let (storage, in_use, unreadable) = match look(found, read_only) {
            Ok((storage, in_use)) => (Some(storage), in_use, None),
            Err(error) => (None, false, Some(error.to_string())),
        };
        let state = match &mount {
            Mount::None if !in_use => State::Unmounted,
            Mount::None if found.iter().any(|member| has_writers(&member.spec)) => State::Open,
            Mount::None => State::NotUnmounted,
            Mount::Silent | Mount::Described(_) => State::Mounted,
        };
        let (mount, storage, stale) = match mount {
            Mount::Described(description) => {
                let Description { dir, read_only, detached, storage: now, .. } = *description;
                (Some(MountedAt { dir, read_only, detached }), now.or(storage), false)
            }
            Mount::Silent | Mount::None => (None, storage, matches!(state, State::Mounted | State::Open)),
        };
        let was_left_in_use = match (state, &mount) {
            (State::NotUnmounted, _) => true,
            (State::Mounted, Some(mount)) => in_use && mount.read_only,
            _ => false,
        };
        let has_copies = label.areas.iter().any(|area| area.copy > 0);
        let share = |n: usize| storage.as_ref().and_then(|storage| storage.classes.get(n).copied());
        let is_there = |class: &&(usize, &ClassLayout)| class.1.blocks() > 0;
        let classes = layout.classes.iter().enumerate().filter(|class| is_there(&class));
        let classes = classes.map(|(n, class)| ClassStatus::of(class, share(n)));
        Ok(Self {
            set_id: hexadecimal(label.set_id),
            state,
            mount,
            stale,
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
            unequal: label.unequal || (was_left_in_use && has_copies),
        })
    }
}

/// Finds the members of a set, and describes it.
///
/// # Errors
/// As [`Named::find`].
pub fn status(set: &Named) -> Result<Status> {
    let found = set.find()?;
    match set {
        Named::Member(_) => Status::of(&found),
        Named::Mount(mount) => Status::with(&found, Mount::Described(Box::new(mount.says.clone()))),
    }
}

/// What is known of the mount of a set.
enum Mount {
    /// It is not mounted.
    None,
    /// It is mounted, and says no more to this user.
    Silent,
    /// What the process says that serves it.
    Described(Box<Description>),
}

/// Asks the process that serves the mount of a set.
fn ask_mount(label: &Label, found: &[FoundMember]) -> Result<Mount> {
    let is_used = |member: &&FoundMember| !label.is_useless(member.label.member_id);
    let Some(member) = found.iter().find(is_used) else { return Ok(Mount::None) };
    let name = Name::of_set(label.set_id, &member.spec)?;
    Ok(match request(&name, &Request::Describe, &mut |_| Ok(())) {
        Ok(Some(description)) => Mount::Described(Box::new(description)),
        Err(_) => Mount::Silent,
        Ok(None) => Mount::None,
    })
}

/// Returns true if a process uses a member for writing.
fn has_writers(member: &Spec) -> bool {
    member.place().is_ok_and(|place| !writers(&place.path).is_empty())
}

/// Reads what of the storage of a set is used, without a lock, and whether its log has to be
/// replayed.
fn look(found: &[FoundMember], read_only: &[FoundArea]) -> Result<(StorageUse, bool)> {
    let specs = found.iter().map(|member| &member.spec).chain(read_only.iter().map(|area| &area.spec));
    let devices: Vec<_> = specs.map(open_device_unlocked).collect::<Result<_>>()?;
    let set = Set::open(&devices)?;
    Ok((set.storage_use()?, set.needs_replay()?))
}

/// Returns the read-only areas, as members with one area.
fn area_statuses(label: &Label, found: &[FoundArea]) -> Vec<MemberStatus> {
    let status = |class: &ReadOnlyClass| {
        let print = class.area?;
        let place = found.iter().find(|area| area.fingerprint == print);
        let area = AreaStatus {
            role: "read-only".into(),
            index: 0,
            class: Some(class.name.to_string()),
            copy: 0,
            bytes: print.bytes,
            state: if place.is_some() { AreaState::Whole } else { AreaState::Missing },
            filled_bytes: None,
        };
        let path = place.map(|area| area.spec.to_string());
        Some(MemberStatus { path, last_path: None, member_id: hexadecimal(print.id()), areas: vec![area] })
    };
    label.read_only.iter().filter_map(status).collect()
}

fn member_status((label, layout): (&Label, &Layout), found: &[FoundMember], id: [u8; 16]) -> MemberStatus {
    let member = found.iter().find(|member| member.label.member_id == id);
    let size = member.and_then(|member| open_device_unlocked(&member.spec).ok()).map(|d| d.info().size_bytes);
    let ends = label.areas.iter().filter(|area| area.member_id == id).map(|area| area.offset + area.len);
    let is_short = size < ends.max();
    let areas = label.areas.iter().filter(|area| area.member_id == id).map(|area| AreaStatus {
        role: area.role.to_string(),
        index: area.index,
        class: (area.role == Role::Data).then(|| layout.class(area.class.into()).name.to_string()),
        copy: area.copy,
        bytes: area.len,
        filled_bytes: area.filling.map(|megabytes| u64::from(megabytes) << 20),
        state: match member {
            _ if area.filling.is_some() => AreaState::Unfinished,
            None => AreaState::Missing,
            Some(_) if area.lost => AreaState::Lost,
            Some(member) if member.label.epoch < label.settled => AreaState::OutOfDate,
            Some(_) if is_short => AreaState::TooShort,
            Some(_) => AreaState::Whole,
        },
    });
    MemberStatus {
        path: member.map(|member| member.spec.to_string()),
        last_path: None,
        member_id: hexadecimal(id),
        areas: areas.collect(),
    }
}

fn hexadecimal(id: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(id))
}
