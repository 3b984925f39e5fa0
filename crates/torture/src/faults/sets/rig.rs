//! The devices of a set in a test, one of which may inject faults.

use crate::crash::images::Mounting;
use crate::faults::device::{FaultyDevice, Unflushed};
use crate::faults::plan::Plan;
use spindle_clock::ManualClock;
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::{Label, Mfs, OpenOptions, Role, Set, read_label};
use spindle_vfs::{AtimePolicy, Result};
use std::sync::Arc;

/// What the set needs a member for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// There is another copy of all that it has.
    Expendable,
    /// It has log storage of which there is no other copy, and nothing else that is needed.
    OnlyLog,
    /// It has control or data storage of which there is no other copy.
    Needed,
}

impl Standing {
    /// Returns what a set with this label needs a member for.
    pub(super) fn of(label: &Label, member: [u8; 16]) -> Self {
        let lone = label.areas.iter().filter(|area| area.member_id == member && !area.lost).filter(|area| {
            !label.areas.iter().any(|other| {
                (other.role, other.index) == (area.role, area.index)
                    && other.member_id != member
                    && !other.lost
            })
        });
        lone.fold(Self::Expendable, |standing, area| match (standing, area.role) {
            (Self::Needed, _) | (_, Role::Control | Role::Data) => Self::Needed,
            (_, Role::Log) => Self::OnlyLog,
        })
    }

    /// Returns true if nothing of a member is lost.
    pub(super) fn is_whole(label: &Label, member: [u8; 16]) -> bool {
        label.areas.iter().all(|area| area.member_id != member || !area.lost)
    }
}

/// The devices: the members, and those that may become members.
pub(super) struct Rig {
    pub(super) members: Vec<Arc<FaultyDevice>>,
}

impl Rig {
    /// Returns devices that hold what `media` hold, of which `faulty` has the faults of `plan`.
    pub(super) fn new(media: &[MemoryDevice], faulty: usize, plan: &Plan, seed: u64) -> Self {
        let device = |(n, medium)| {
            let plan = if n == faulty { plan.clone() } else { Plan::NONE };
            Arc::new(FaultyDevice::new(medium, plan, seed.wrapping_add(n as u64)))
        };
        Self { members: media.iter().enumerate().map(device).collect() }
    }

    /// Returns devices without faults.
    pub(super) fn healthy(media: &[MemoryDevice]) -> Self {
        Self::new(media, 0, &Plan::NONE, 0)
    }

    /// Opens the set of those devices that have a label that can be read, as programs find them.
    pub(super) fn open_set(&self) -> Result<Set> {
        let is_member = |device: &&Arc<FaultyDevice>| matches!(read_label(&***device), Ok(Some(_)));
        let members = self.members.iter().filter(is_member);
        Set::open(&members.map(|device| device.clone() as Arc<dyn Device>).collect::<Vec<_>>())
    }

    /// Returns what the devices hold when they are opened next.
    pub(super) fn media(&self, unflushed: Unflushed) -> Vec<MemoryDevice> {
        self.members.iter().map(|device| device.medium(unflushed)).collect()
    }
}

/// Mounts a set.
pub(super) fn mount(set: &Set, clock: Arc<ManualClock>, mounting: Mounting) -> Result<Mfs> {
    let cache = mounting.settings();
    let options = OpenOptions { read_only: false, atime: AtimePolicy::Never, cache };
    Mfs::open(set, clock, &options)
}
