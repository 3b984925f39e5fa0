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
use spindle_mfs::{Class, Role, Set, Structure};
use spindle_vfs::{FileSystem, Limits, Privilege, Result, XattrMode};
use std::sync::Arc;

/// An area of a member: the role and class of the storage, the part of it that this is a copy of,
/// and its share of the member.
type Place = (Role, u8, u32, u32);

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
    /// True if data has checksums.
    sums: bool,
    act: Act,
    mounting: Mounting,
}

impl Shape {
    const fn new(
        name: &'static str,
        members: &'static [(u64, &'static [Place])],
        act: Act,
        mounting: Mounting,
    ) -> Self {
        Self { name, members, sums: false, act, mounting }
    }

    /// Returns the same set with checksums of data.
    const fn with_sums(self) -> Self {
        Self { sums: true, ..self }
    }
}

const CONTROL: Place = (Role::Control, 0, 0, 1);
const DATA: Place = (Role::Data, 0, 0, 1);
const SECOND: Place = (Role::Data, 1, 1, 1);
const LOG: Place = (Role::Log, 0, 0, 1);
const CONTROL_KIB: u64 = 704;
const DATA_KIB: u64 = 1152;
const LOG_KIB: u64 = 1216;

/// A member with all roles.
const ALL: (u64, &[Place]) =
    (3392, &[(Role::Control, 0, 0, 6), (Role::Data, 0, 0, 10), (Role::Log, 0, 0, 11)]);
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
    (CONTROL_KIB + LOG_KIB, &[CONTROL, (Role::Log, 0, 0, 2)]),
    (CONTROL_KIB, &[CONTROL]),
    (640, &[DATA]),
    (640, &[(Role::Data, 0, 1, 1)]),
    (640, &[(Role::Data, 0, 1, 1)]),
];
/// A second class of data, which has a copy, while the first one has none.
const CLASSES: &[(u64, &[Place])] = &[
    (CONTROL_KIB, &[CONTROL]),
    (DATA_KIB, &[DATA]),
    (DATA_KIB, &[SECOND]),
    (DATA_KIB + LOG_KIB, &[SECOND, LOG]),
];

/// The sets. One of them alone is mounted in each way that users have; see [`Mounting`].
const SHAPES: &[Shape] = &[
    Shape::new("one", &[ALL], Act::None, Mounting::Plain),
    Shape::new("one-eager", &[ALL], Act::None, Mounting::Eager),
    Shape::new("pair", &[ALL, ALL], Act::None, Mounting::Plain),
    Shape::new("pair-eager", &[ALL, ALL], Act::None, Mounting::Eager),
    Shape::new("pair-scrubbed", &[ALL, ALL], Act::Scrub, Mounting::Eager),
    Shape::new("pair-removed", &[ALL, ALL], Act::Remove(0), Mounting::Plain),
    Shape::new("pair-replaced", &[ALL, ALL], Act::Replace(1), Mounting::Plain),
    Shape::new("one-replaced", &[ALL], Act::Replace(0), Mounting::Eager),
    Shape::new("three", THREE, Act::None, Mounting::Plain),
    Shape::new("three-straight", THREE, Act::None, Mounting::Straight(1024)),
    Shape::new("three-added", THREE, Act::Add(Role::Data, 0), Mounting::Eager),
    Shape::new("three-log-replaced", THREE, Act::Replace(2), Mounting::Plain),
    Shape::new("six", SIX, Act::None, Mounting::Eager),
    Shape::new("six-removed", SIX, Act::Remove(2), Mounting::Plain),
    Shape::new("six-scrubbed", SIX, Act::Scrub, Mounting::Plain),
    Shape::new("six-added", SIX, Act::Add(Role::Control, 0), Mounting::Plain),
    Shape::new("mixed", MIXED, Act::None, Mounting::Plain),
    Shape::new("mixed-replaced", MIXED, Act::Replace(0), Mounting::Eager),
    Shape::new("pair-sums", &[ALL, ALL], Act::None, Mounting::Plain).with_sums(),
    Shape::new("three-sums", THREE, Act::None, Mounting::Eager).with_sums(),
    Shape::new("six-sums-scrubbed", SIX, Act::Scrub, Mounting::Straight(1024)).with_sums(),
    Shape::new("six-sums-removed", SIX, Act::Remove(0), Mounting::Plain).with_sums(),
    Shape::new("mixed-sums-replaced", MIXED, Act::Replace(3), Mounting::Plain).with_sums(),
    Shape::new("classes", CLASSES, Act::None, Mounting::Plain),
    Shape::new("classes-replaced", CLASSES, Act::Replace(2), Mounting::Eager),
    Shape::new("classes-sums", CLASSES, Act::Scrub, Mounting::Plain).with_sums(),
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
        let area = |&(role, class, part, share): &Place| NewArea { role, class, part: Some(part), share };
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
        wishes.parameters.checksums = shape.sums;
        let has_second = shape.members.iter().flat_map(|(_, areas)| *areas).any(|(_, class, ..)| *class == 1);
        if has_second {
            let structure = Structure { block_bytes: 8192, track_blocks: 8, stripe_bytes: 8192 };
            wishes.classes = vec![Class { name: "second".parse()?, structure }];
        }
        let mut rng = SmallRng::seed_from_u64(1);
        let set = newfs::make(&members, &wishes, &*images::clock(), &mut rng)?;
        let fs = super::rig::mount(&set, images::clock(), Mounting::Plain)?;
        images::fill_with_junk(&fs)?;
        images::plant(&fs)?;
        if has_second {
            put_new_files_into_second(&fs)?;
        }
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

/// Gives directories the second class of data, so that files have either of them: those that are
/// there already, and those that workloads create.
fn put_new_files_into_second(fs: &dyn FileSystem) -> Result<()> {
    let set = |ino| fs.setxattr(ino, b"user.spindle.class", b"second", XattrMode::Set, Privilege::Root);
    let root = fs.root();
    set(root)?;
    [&b"A"[..], b"B", b"D"].iter().try_for_each(|name| set(fs.lookup(root, name)?.ino))
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
