//! The sets that the workloads run on: small ones of several shapes, and what is done to their
//! members in the midst of the workload.

use super::rig::Rig;
use super::set_test::SetTest;
use crate::crash::images::{self, Mounting};
use crate::crash::workload::Workload;
use crate::faults::campaign::Subject;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::newfs::{self, Member, NewArea, Wishes};
use spindle_mfs::{Role, Set};
use spindle_vfs::{FileSystem, Limits, Result};
use std::sync::Arc;

/// An area of a member: a copy of a part of a role's storage, and its share of the member.
type Place = (Role, u32, u32);

/// What is done to the members of a set while it is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    None,
    /// The spare device becomes another copy of a part.
    Add(Role, u32),
    /// The spare device takes the place of this member.
    Replace(usize),
    /// This member is left out.
    Remove(usize),
    /// All copies are compared.
    Scrub,
}

/// A set, and what is done to it.
struct Shape {
    name: &'static str,
    /// The size in KiB and the areas of each member.
    members: &'static [(u64, &'static [Place])],
    act: Act,
    mounting: Mounting,
}

const CONTROL: Place = (Role::Control, 0, 1);
const DATA: Place = (Role::Data, 0, 1);
const LOG: Place = (Role::Log, 0, 1);
const CONTROL_KIB: u64 = 704;
const DATA_KIB: u64 = 1152;
const LOG_KIB: u64 = 1216;

/// A member with all roles.
const ALL: (u64, &[Place]) = (3392, &[(Role::Control, 0, 6), (Role::Data, 0, 10), (Role::Log, 0, 11)]);
const THREE: &[(u64, &[Place])] = &[(CONTROL_KIB, &[CONTROL]), (DATA_KIB, &[DATA]), (LOG_KIB, &[LOG])];
const SIX: &[(u64, &[Place])] = &[
    (CONTROL_KIB, &[CONTROL]),
    (CONTROL_KIB, &[CONTROL]),
    (DATA_KIB, &[DATA]),
    (DATA_KIB, &[DATA]),
    (LOG_KIB, &[LOG]),
    (LOG_KIB, &[LOG]),
];
/// Parts with and without a copy, and members with two roles.
const MIXED: &[(u64, &[Place])] = &[
    (CONTROL_KIB + LOG_KIB, &[CONTROL, (Role::Log, 0, 2)]),
    (CONTROL_KIB, &[CONTROL]),
    (640, &[DATA]),
    (640, &[(Role::Data, 1, 1)]),
    (640, &[(Role::Data, 1, 1)]),
];

/// The sets. One of them alone is mounted in each way that users have; see [`Mounting`].
const SHAPES: &[Shape] = &[
    Shape { name: "one", members: &[ALL], act: Act::None, mounting: Mounting::Plain },
    Shape { name: "one-eager", members: &[ALL], act: Act::None, mounting: Mounting::Eager },
    Shape { name: "pair", members: &[ALL, ALL], act: Act::None, mounting: Mounting::Plain },
    Shape { name: "pair-eager", members: &[ALL, ALL], act: Act::None, mounting: Mounting::Eager },
    Shape { name: "pair-scrubbed", members: &[ALL, ALL], act: Act::Scrub, mounting: Mounting::Eager },
    Shape { name: "pair-removed", members: &[ALL, ALL], act: Act::Remove(0), mounting: Mounting::Plain },
    Shape { name: "pair-replaced", members: &[ALL, ALL], act: Act::Replace(1), mounting: Mounting::Plain },
    Shape { name: "one-replaced", members: &[ALL], act: Act::Replace(0), mounting: Mounting::Eager },
    Shape { name: "three", members: THREE, act: Act::None, mounting: Mounting::Plain },
    Shape { name: "three-straight", members: THREE, act: Act::None, mounting: Mounting::Straight(1024) },
    Shape { name: "three-added", members: THREE, act: Act::Add(Role::Data, 0), mounting: Mounting::Eager },
    Shape { name: "three-log-replaced", members: THREE, act: Act::Replace(2), mounting: Mounting::Plain },
    Shape { name: "six", members: SIX, act: Act::None, mounting: Mounting::Eager },
    Shape { name: "six-removed", members: SIX, act: Act::Remove(2), mounting: Mounting::Plain },
    Shape { name: "six-scrubbed", members: SIX, act: Act::Scrub, mounting: Mounting::Plain },
    Shape { name: "six-added", members: SIX, act: Act::Add(Role::Control, 0), mounting: Mounting::Plain },
    Shape { name: "mixed", members: MIXED, act: Act::None, mounting: Mounting::Plain },
    Shape { name: "mixed-replaced", members: MIXED, act: Act::Replace(0), mounting: Mounting::Eager },
];

/// Bytes of the device that is no member at first; it has room for the areas of any member.
const SPARE_BYTES: u64 = 3520 << 10;
/// The identity that the spare device gets.
pub(super) const SPARE_ID: [u8; 16] = [7; 16];

/// A set with the tree in it, cleanly unmounted, and a spare device.
pub struct SetImage {
    name: &'static str,
    pub(super) limits: Limits,
    /// The members, and the spare device, which is the last.
    pub(super) media: Vec<MemoryDevice>,
    /// The identities of the members.
    pub(super) ids: Vec<[u8; 16]>,
    pub(super) act: Act,
    pub(super) mounting: Mounting,
}

impl SetImage {
    /// Makes all sets.
    ///
    /// # Panics
    /// If one cannot be made.
    #[must_use]
    pub fn all() -> Vec<Arc<Self>> {
        let make = |shape| Self::make(shape).map_or_else(|e| panic!("a set: {e}"), Arc::new);
        SHAPES.iter().map(make).collect()
    }

    fn make(shape: &'static Shape) -> Result<Self> {
        let media: Vec<_> = shape.members.iter().map(|(kib, _)| MemoryDevice::new(kib << 10)).collect();
        let rig = Rig::healthy(&media);
        let area = |&(role, part, share): &Place| NewArea { part: Some(part), share, ..NewArea::of(role) };
        let members: Vec<_> = rig
            .members
            .iter()
            .zip(shape.members)
            .map(|(device, (_, areas))| Member {
                device: device.clone() as Arc<dyn Device>,
                areas: areas.iter().map(area).collect(),
            })
            .collect();
        let mut wishes = Wishes::new();
        wishes.parameters.block_bytes = 1024;
        wishes.parameters.cylinder_bytes = 16 << 10;
        wishes.parameters.track_blocks = 8;
        wishes.parameters.stripe_bytes = 4096;
        let mut rng = SmallRng::seed_from_u64(1);
        let set = newfs::make(&members, &wishes, &*images::clock(), &mut rng)?;
        let fs = super::rig::mount(&set, images::clock(), Mounting::Plain)?;
        images::fill_with_junk(&fs)?;
        images::plant(&fs)?;
        let limits = fs.limits();
        fs.unmount()?;
        drop((fs, set));
        let mut media = rig.media(crate::faults::device::Unflushed::Lost);
        let devices: Vec<_> =
            media.iter().map(|medium| Arc::new(medium.branch()) as Arc<dyn Device>).collect();
        let ids = devices.iter().filter_map(|device| spindle_mfs::read_label(&**device).ok().flatten());
        let ids: Vec<_> = ids.map(|label| label.member_id).collect();
        assert!(Set::open(&devices)?.label.areas.iter().all(|area| !area.lost) && ids.len() == media.len());
        media.push(MemoryDevice::new(SPARE_BYTES));
        let Shape { name, act, mounting, .. } = *shape;
        Ok(Self { name, limits, media, ids, act, mounting })
    }

    /// Returns the number of devices that may have a fault: the members, and the spare device if it
    /// is used.
    pub(super) fn devices(&self) -> usize {
        self.ids.len() + usize::from(matches!(self.act, Act::Add(..) | Act::Replace(_)))
    }

    /// Returns the identity of a device, as a member.
    pub(super) fn id(&self, device: usize) -> [u8; 16] {
        self.ids.get(device).copied().unwrap_or(SPARE_ID)
    }
}

impl Subject for Arc<SetImage> {
    type Test = SetTest;
    const TEST: &'static str = "set_faults";
    fn name(&self) -> &str {
        self.name
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn prepare(&self, workload: Workload) -> std::result::Result<SetTest, String> {
        SetTest::new(self.clone(), workload)
    }
}
