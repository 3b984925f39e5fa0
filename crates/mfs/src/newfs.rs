//! Makes a set.
//!
//! Labels are written last: before, the members are no members of a set.

use crate::format::areas::has_classes;
use crate::format::class::{Class, ClassName, check_classes};
use crate::format::cylinder::{Cylinder, Kind};
use crate::format::header::{Contents, Header, NameMap};
use crate::format::history::{History, Opening};
use crate::format::label::{AREAS_MAX, Area, LABEL_BYTES, Label, Parameters, Role, last_label_at};
use crate::format::layout::{CLASS_BYTES, ClassLayout, HEADER_BYTES, Layout, ROOT_INO, index};
use crate::format::map_page::{self, MAP_PAGE_BYTES};
use crate::format::sums::{self, SUM_PAGE_BYTES, SUM_SECTOR_BYTES};
use crate::log::{LEAST_BYTES, LogUnits, Ring, State, circle};
use crate::set::labels::write_label;
use crate::set::members::{Labelled, Set};
use rand::Rng;
use spindle_clock::Clock;
use spindle_device::Device;
use spindle_vfs::{Error, Result};
use std::sync::Arc;

/// Wishes for a new set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Sizes of blocks, cylinders, tracks and stripe units, and if data has checksums. The key of
    /// hashes is chosen anew.
    pub parameters: Parameters,
    /// Classes of data besides the default one.
    pub classes: Vec<Class>,
    /// How log storage is laid over its parts.
    pub log: LogUnits,
    /// Permissions of the root directory.
    pub root_perm: u32,
    /// Owner and group of the root directory.
    pub root_owner: (u32, u32),
}

impl Wishes {
    /// Returns the default wishes.
    #[must_use]
    pub fn new() -> Self {
        let parameters = Parameters {
            block_bytes: 4096,
            cylinder_bytes: 1 << 20,
            data_block_bytes: 4096,
            track_blocks: 256,
            stripe_bytes: 64 << 10,
            checksums: false,
            hash_key: [0; 16],
        };
        let classes = Vec::new();
        Self { parameters, classes, log: LogUnits::default(), root_perm: 0o755, root_owner: (0, 0) }
    }
}

impl Default for Wishes {
    fn default() -> Self {
        Self::new()
    }
}

/// A member of a new set.
pub struct Member {
    /// Where it is.
    pub device: Arc<dyn Device>,
    /// The areas that it gets, in their order.
    pub areas: Vec<NewArea>,
}

/// An area of a new member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewArea {
    /// Its role.
    pub role: Role,
    /// The class of the data, 0 for the default one; 0 for other roles.
    pub class: u8,
    /// The part of the role's storage that it is a copy of; a part of its own if none. All areas
    /// of control storage are copies of one part. Those of data are numbered through all classes.
    pub part: Option<u32>,
    /// Its share of the member, in proportion to those of the other areas.
    pub share: u32,
}

impl NewArea {
    /// Returns the next part of a role's storage, of data in the default class, with its usual
    /// share of a member that has others too.
    #[must_use]
    pub const fn of(role: Role) -> Self {
        let (part, share) = match role {
            Role::Control => (Some(0), 4),
            Role::Data => (None, 24),
            Role::Log => (None, 4),
        };
        Self { role, class: 0, part, share }
    }
}

impl Member {
    /// Returns a member with one role.
    #[must_use]
    pub fn of(device: Arc<dyn Device>, role: Role) -> Self {
        Self { device, areas: vec![NewArea::of(role)] }
    }

    /// Returns a member that has all three storage structures.
    #[must_use]
    pub fn with_all(device: Arc<dyn Device>) -> Self {
        Self { device, areas: [Role::Control, Role::Data, Role::Log].map(NewArea::of).to_vec() }
    }
}

/// Boundary of areas in bytes.
const ALIGN: u64 = 64 << 10;

/// Returns the areas of a set whose members have these sizes in bytes and these identities.
fn divide(members: &[Member], sizes: &[u64], ids: &[[u8; 16]], classes: &[Class]) -> Result<Vec<Area>> {
    let mut areas: Vec<Area> = Vec::new();
    for ((member, &size), &member_id) in members.iter().zip(sizes).zip(ids) {
        let end = last_label_at(size);
        let shares: u64 = member.areas.iter().map(|area| u64::from(area.share)).sum();
        let mut offset = ALIGN;
        let whole = end.saturating_sub(offset);
        for (n, &NewArea { role, class, part, share }) in member.areas.iter().enumerate() {
            let last = n + 1 == member.areas.len();
            let len =
                if last { end.saturating_sub(offset) } else { whole / shares.max(1) * u64::from(share) };
            let len = len / ALIGN * ALIGN;
            if len == 0 {
                let what = format!("{}: {size} bytes are too few", member.device.info().name);
                return Err(Error::unsupported(what, "make it larger"));
            }
            let others = || areas.iter().filter(|area| area.role == role);
            let next = others().map(|area| area.index + 1).max().unwrap_or(0);
            let index = part.unwrap_or(next);
            if index > next {
                let what = format!("part {index} of {role} storage without part {next}");
                return Err(Error::unsupported(what, "name the parts in their order"));
            }
            let copy = others().filter(|area| area.index == index).count();
            let copy = u32::try_from(copy).unwrap_or(u32::MAX);
            areas.push(Area { role, class, index, copy, member_id, offset, len, lost: false, filling: None });
            offset += len;
        }
    }
    let lens: Vec<_> = areas.iter().map(|area| (area.role, area.index, area.len)).collect();
    for area in &mut areas {
        let copies = lens.iter().filter(|(role, index, _)| (*role, *index) == (area.role, area.index));
        area.len = copies.map(|(_, _, len)| *len).min().unwrap_or(area.len);
    }
    for role in [Role::Control, Role::Data, Role::Log] {
        if areas.iter().all(|area| area.role != role) {
            return Err(Error::unsupported(format!("a set without {role} storage"), "name a member for it"));
        }
    }
    for (n, class) in (0..).zip(std::iter::once(None).chain(classes.iter().map(Some))) {
        let is_of = |area: &&Area| area.role == Role::Data && area.class == n;
        if !areas.iter().any(|area| is_of(&area)) {
            let name = class.map_or_else(ClassName::default_class, |class| class.name.clone());
            let what = format!("the class {name} of data without storage");
            return Err(Error::unsupported(what, "name a member for it"));
        }
    }
    if !has_classes(&areas, classes.len() + 1) {
        let what = "a part of data storage of two classes, or of an unknown one";
        return Err(Error::unsupported(what, "number the parts through all classes"));
    }
    if areas.len() > AREAS_MAX {
        let what = format!("{} areas", areas.len());
        return Err(Error::unsupported(what, format!("a set has at most {AREAS_MAX}")));
    }
    Ok(areas)
}

/// Returns the labels of a set whose members have these sizes in bytes.
///
/// # Errors
/// As [`make`], but for those of devices.
fn plan(members: &[Member], sizes: &[u64], ids: Ids<'_>, wishes: &Wishes) -> Result<Vec<Label>> {
    let areas = divide(members, sizes, ids.members, &wishes.classes)?;
    let of = |(&member_id, &member_bytes): (&[u8; 16], &u64)| Label {
        set_id: ids.set,
        member_id,
        member_bytes,
        epoch: 1,
        settled: 1,
        opened: 0,
        history: History::begun_by(ids.opening),
        unequal: false,
        unlogged: false,
        parameters: Parameters { hash_key: ids.hash_key, ..wishes.parameters },
        classes: wishes.classes.clone(),
        read_only: Vec::new(),
        areas: areas.clone(),
    };
    let labels: Vec<Label> = ids.members.iter().zip(sizes).map(of).collect();
    if let Some(label) = labels.first() {
        Layout::of(label)?;
        let log_bytes: u64 = label.part_bytes(Role::Log).into_iter().sum();
        if log_bytes < LEAST_BYTES {
            let what = format!("{log_bytes} bytes of log storage");
            return Err(Error::unsupported(what, format!("it takes at least {LEAST_BYTES} bytes")));
        }
    }
    Ok(labels)
}

/// The random numbers of a new set.
#[derive(Clone, Copy)]
struct Ids<'a> {
    set: [u8; 16],
    members: &'a [[u8; 16]],
    hash_key: [u8; 16],
    opening: Opening,
}

/// Returns the error of a set that cannot be made over members of these sizes: if one that has
/// several areas has to be larger, with the least size of it, because nobody chooses the sizes of
/// its areas.
fn refusal(error: Error, members: &[Member], sizes: &[u64], ids: Ids<'_>, wishes: &Wishes) -> Error {
    const UNIT: u64 = 512;
    for (n, member) in members.iter().enumerate().filter(|(_, member)| member.areas.len() > 1) {
        let fits = |size| {
            let sizes: Vec<u64> =
                sizes.iter().enumerate().map(|(m, &of)| if m == n { size } else { of }).collect();
            plan(members, &sizes, ids, wishes).is_ok()
        };
        let mut few = sizes[n];
        let larger = std::iter::successors(Some(few.max(ALIGN)), |size| Some(size * 2)).skip(1);
        let Some(mut enough) = larger.take_while(|&size| size < CLASS_BYTES).find(|&size| fits(size)) else {
            continue;
        };
        while enough - few > UNIT {
            let middle = (few + (enough - few) / 2).next_multiple_of(UNIT);
            *(if fits(middle) { &mut enough } else { &mut few }) = middle;
        }
        let name = member.device.info().name.clone() + ": ";
        let name = if members.len() > 1 { name } else { String::new() };
        let what = format!("{name}{} bytes are too few", sizes[n]);
        return Error::unsupported(what, format!("it takes at least {enough} bytes"));
    }
    error
}

/// Makes a set over new members, with identities from `random`, and returns it. Everything on them
/// is lost.
///
/// # Errors
/// [`Error::Unsupported`] if a role is missing, there are too many areas, or one is too small;
/// device errors.
pub fn make(members: &[Member], wishes: &Wishes, clock: &dyn Clock, random: &mut impl Rng) -> Result<Set> {
    check_classes(&wishes.classes)?;
    let set_id: [u8; 16] = random.random();
    let member_ids: Vec<[u8; 16]> = members.iter().map(|_| random.random()).collect();
    let (hash_key, opening) = (random.random(), random.random());
    let ids = Ids { set: set_id, members: &member_ids, hash_key, opening };
    let sizes: Vec<u64> = members.iter().map(|member| member.device.info().size_bytes).collect();
    let labels =
        plan(members, &sizes, ids, wishes).map_err(|error| refusal(error, members, &sizes, ids, wishes))?;
    let devices: Vec<_> = members.iter().map(|member| member.device.clone()).collect();
    // What there was before must not be found if this does not end.
    let nothing = vec![0; usize::try_from(ALIGN).unwrap_or(LABEL_BYTES)];
    for device in &devices {
        device.write_at(0, &nothing)?;
        device.write_at(last_label_at(device.info().size_bytes), &nothing[..LABEL_BYTES])?;
        device.flush()?;
    }
    let found = Labelled { members: devices.clone(), labels: labels.clone(), ..Labelled::default() };
    let set = Set::assemble(found, false)?;
    circle(&set.log, wishes.log)?;
    write_control(&set.layout, &*set.space, wishes, clock)?;
    for class in &set.layout.classes {
        write_map(class, &*set.space)?;
    }
    write_sums(&set.layout, &*set.space)?;
    set.space.flush()?;
    Ring::make(&*set.log[0], set_id, 1, State::default(), wishes.log)?;
    set.labels.expect_none();
    set.labels.write_places();
    for (device, label) in devices.iter().zip(&labels) {
        write_label(&**device, label)?;
    }
    Ok(set)
}

/// Writes the descriptions of all cylinders, and the root directory.
fn write_control(layout: &Layout, device: &dyn Device, wishes: &Wishes, clock: &dyn Clock) -> Result<()> {
    let (blocks, each) = (layout.cylinder_blocks(), layout.headers_in_block());
    let mut bytes = vec![0; layout.block_bytes()];
    for number in 1..layout.cylinders {
        Cylinder::unused(number, blocks).encode(&mut bytes);
        device.write_at(layout.cylinder_at(number), &bytes)?;
    }
    // The root directory has the last header that is not free.
    let used = u32::try_from(ROOT_INO + 1).unwrap_or(0);
    let used_blocks = used.div_ceil(each);
    let mut first = Cylinder {
        kind: Kind::Headers,
        free: blocks * each - used,
        fresh: blocks - used_blocks,
        ..Cylinder::unused(0, blocks)
    };
    (1..=blocks).for_each(|block| first.set_free(block, block * each > used));
    first.encode(&mut bytes);
    device.write_at(layout.cylinder_at(0), &bytes)?;
    let root = Header {
        mode: u16::try_from(0o040_000 | wishes.root_perm & 0o7777).unwrap_or(0),
        nlink: 2,
        uid: wishes.root_owner.0,
        gid: wishes.root_owner.1,
        times: [clock.now(); 4],
        parent: ROOT_INO,
        contents: Contents::Names(NameMap::default()),
        ..Header::free(0)
    };
    bytes.fill(0);
    for block in 1..used_blocks {
        device.write_at(layout.control_byte(layout.block_of(0, block)), &bytes)?;
    }
    let impossible = || Error::corrupt("the root directory has no place", "newfs");
    let (at, within) = layout.header_at(ROOT_INO).ok_or_else(impossible)?;
    root.encode(&mut bytes[within..within + HEADER_BYTES], ROOT_INO);
    Ok(device.write_at(at, &bytes)?)
}

/// Writes the allocation map of a class: all blocks are free.
fn write_map(class: &ClassLayout, device: &dyn Device) -> Result<()> {
    let track_blocks = class.structure.track_blocks;
    let mut left = class.blocks();
    let mut bytes = vec![0; MAP_PAGE_BYTES];
    for page in 0..class.map_pages {
        let blocks = left.min(class.blocks_in_page());
        left -= blocks;
        map_page::make(&mut bytes, page, track_blocks, u32::try_from(blocks).unwrap_or(u32::MAX));
        device.write_at(class.map_page_at(page), &bytes)?;
    }
    Ok(())
}

/// Writes the table of checksums, in which no block has one.
fn write_sums(layout: &Layout, device: &dyn Device) -> Result<()> {
    const AT_ONCE: u64 = 256;
    for first in (0..layout.sum_pages).step_by(index(AT_ONCE)) {
        let pages = AT_ONCE.min(layout.sum_pages - first);
        let mut bytes = vec![0; index(pages) * SUM_PAGE_BYTES];
        let numbers = first * (SUM_PAGE_BYTES / SUM_SECTOR_BYTES) as u64..;
        bytes.chunks_exact_mut(SUM_SECTOR_BYTES).zip(numbers).for_each(|(sector, n)| sums::make(sector, n));
        device.write_at(layout.sum_page_at(first), &bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use spindle_clock::ManualClock;
    use spindle_device::MemoryDevice;

    fn make_over(members: &[Member], checksums: bool) -> Result<Set> {
        let usual = Wishes::new();
        let wishes = Wishes { parameters: Parameters { checksums, ..usual.parameters }, ..usual };
        make(members, &wishes, &ManualClock::at(1_700_000_000), &mut StdRng::seed_from_u64(1))
    }

    /// Returns why a set over `members` is refused.
    fn refused(members: &[Member], checksums: bool) -> Error {
        make_over(members, checksums).map(drop).expect_err("a set was made")
    }

    /// Returns the size that a refusal says to be the least.
    fn least(error: &Error) -> u64 {
        let text = error.to_string();
        let (_, rest) = text.split_once("it takes at least ").unwrap_or_else(|| panic!("{text}"));
        rest.split_once(" bytes").unwrap().0.parse().unwrap()
    }

    /// Promise: a member with several areas that is too small is refused with the least size of
    /// it that is enough, and nothing on it is changed.
    #[test]
    fn a_small_member_is_refused_with_its_least_size() {
        for (checksums, bytes) in [(false, 16 << 20), (true, 16 << 20), (false, 512), (false, 128 << 10)] {
            let of = |bytes| Arc::new(MemoryDevice::new(bytes));
            let small = of(bytes);
            small.write_at(0, &[7; 512]).unwrap();
            let before = small.to_bytes();
            let error = refused(&[Member::with_all(small.clone())], checksums);
            assert!(small.to_bytes() == before, "{bytes}: a refused member is changed");
            let least = least(&error);
            assert!(make_over(&[Member::with_all(of(least))], checksums).is_ok(), "{least}");
            assert!(
                make_over(&[Member::with_all(of(least - 512))], checksums).is_err(),
                "{least} is not least"
            );
        }
    }

    /// Promise: of members with one area each the refusal names the storage that is too small, and
    /// what no size of a member mends is named as it is.
    #[test]
    fn other_refusals_name_their_reason() {
        let of = |role, bytes| Member::of(Arc::new(MemoryDevice::new(bytes)), role);
        let small = [of(Role::Control, 1 << 20), of(Role::Data, 4 << 20), of(Role::Log, 4 << 20)];
        let text = refused(&small, false).to_string();
        assert!(text.contains("control storage") && text.contains("at least 2097152"), "{text}");
        let areas = [Role::Control, Role::Data].map(NewArea::of).to_vec();
        let none = [Member { device: Arc::new(MemoryDevice::new(64 << 20)), areas }];
        let text = refused(&none, false).to_string();
        assert!(text.contains("without log storage"), "{text}");
    }
}
