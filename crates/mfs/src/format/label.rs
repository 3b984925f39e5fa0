//! Labels: the first and the last block of each member say which set it belongs to and where the
//! storage areas of the set are.
//!
//! Opening a set to write, and each change of it, writes labels with the next epoch, in two steps:
//! when all members have the first one, they get it again as *settled*, and only then is anything
//! else changed. So members of one moment have one epoch; those that differ because a step was
//! interrupted are not older than the epoch that was settled last. The table of the label that
//! counts (`set/moment.rs`) decides which areas are lost.

use super::areas::{has_classes, is_apart, is_complete};
use super::checksum::{is_sealed, seal};
use super::class::{CLASSES_MAX, Class, ClassName, DiskClass, Structure, check_classes, check_names, within};
use super::history::{HISTORY_BYTES, History};
use super::read_only::{READ_ONLY, ReadOnlyClass};
use spindle_ondisk::{Endian, structure};
use spindle_vfs::{Error, Result};

/// Bytes of a label.
pub const LABEL_BYTES: usize = 4096;
/// Returns the byte at which the second label of a member of so many bytes begins: its last whole
/// [`LABEL_BYTES`].
#[must_use]
pub const fn last_label_at(member_bytes: u64) -> u64 {
    let label = LABEL_BYTES as u64;
    (member_bytes / label).saturating_sub(1) * label
}

/// Least byte of a member at which an area can begin: after the label and the list of members.
pub const AREAS_FROM: u64 = 20 << 10;

/// `magic` of a label.
pub const MAGIC: [u8; 8] = *b"SpindMFS";
/// `version` of a set without read-only classes.
pub const VERSION: u32 = 2;
/// `version` of a set with read-only classes.
pub const VERSION_READ_ONLY: u32 = 3;
/// Most blocks of a cylinder.
pub const CYLINDER_BLOCKS_MAX: u32 = 3000;
/// Most areas of a set.
pub const AREAS_MAX: usize = 80;
/// Bit of `flags`: see [`Label::unequal`].
const UNEQUAL: u32 = 1;
/// Bit of `flags`: see [`Label::unlogged`].
const UNLOGGED: u32 = 2;
const TABLE: usize = 128;
/// Byte at which the table of classes begins.
const CLASSES: usize = TABLE + AREAS_MAX * DiskArea::SIZE;
/// Byte at which the history begins.
const HISTORY: usize = CLASSES + (CLASSES_MAX - 1) * DiskClass::SIZE;
const _: () = assert!(HISTORY + HISTORY_BYTES <= CHECKSUM);
pub(super) const CHECKSUM: usize = LABEL_BYTES - 4;

structure! {
    /// The head of a label.
    pub struct DiskLabel: 128 {
        /// [`MAGIC`].
        0 magic: [u8; 8],
        /// [`VERSION`] or [`VERSION_READ_ONLY`].
        8 version: u32,
        /// Number of entries in the table.
        12 areas: u32,
        /// The set.
        16 set_id: [u8; 16],
        /// This member.
        32 member_id: [u8; 16],
        /// Number of times that the set was changed or opened to write.
        48 epoch: u64,
        /// Bytes of a block of control storage.
        56 block_bytes: u32,
        /// Bytes of a cylinder of control storage.
        60 cylinder_bytes: u32,
        /// Bytes of a block of data storage: of the default class, as the two that follow.
        64 data_block_bytes: u32,
        /// Data blocks in a striped track.
        68 track_blocks: u32,
        /// Bytes of a stripe unit.
        72 stripe_bytes: u32,
        /// Kind of the checksums of data blocks: 0 for none, 1 for CRC-32C.
        76 sums: u32,
        /// Key of the hashes of names.
        80 hash_key: [u8; 16],
        /// Bytes of this member.
        96 member_bytes: u64,
        /// The last epoch that all members had.
        104 settled: u64,
        /// When the set was opened to write, in nanoseconds since 1970: signed.
        112 opened: u64,
        /// Bit 0: copies may differ in what was never flushed.
        120 flags: u32,
        /// Number of classes of data, with the default one.
        124 classes: u32,
    }
}

structure! {
    /// An area in the table of a label.
    pub struct DiskArea: 44 {
        /// 1 control, 2 data, 3 log, 4 a read-only area.
        0 role: u8,
        /// Of data storage, and of a read-only area: the class, 0 for the default one.
        1 class: u8,
        /// Position among the copies of the same part.
        2 copy: u16,
        /// The part of its role's storage.
        4 index: u32,
        /// The member that has it; of a read-only area, its fingerprint.
        8 member_id: [u8; 16],
        /// Byte of the member at which it begins.
        24 offset: u64,
        /// Its length in bytes.
        32 len: u64,
        /// 0 if it is whole, 1 if it is lost: its contents are out of date. From 2 on: it is a new
        /// copy that is being filled, and has two megabytes less than that.
        40 state: u32,
    }
}

/// `role` of a read-only area, which no member has.
pub(super) const READ_ONLY_ROLE: u8 = 4;

/// The role of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A copy of control storage.
    Control,
    /// A part of data storage.
    Data,
    /// A part of log storage.
    Log,
}

impl Role {
    pub(super) const ALL: [Self; 3] = [Self::Control, Self::Data, Self::Log];

    const fn number(self) -> u8 {
        self as u8 + 1
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Control => "control",
            Self::Data => "data",
            Self::Log => "log",
        })
    }
}

/// An area of storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// Its role.
    pub role: Role,
    /// The class of the data; 0, the default one, for control and log storage.
    pub class: u8,
    /// The part of its role's storage that it has: 0 for control storage, else the position in
    /// the stripe. Those of data storage are numbered through all classes.
    pub index: u32,
    /// Position among the copies of the same part.
    pub copy: u32,
    /// The member that has it.
    pub member_id: [u8; 16],
    /// Byte of the member at which it begins.
    pub offset: u64,
    /// Its length in bytes, the same for all copies of a part.
    pub len: u64,
    /// True if its contents are out of date, or not all there yet.
    pub lost: bool,
    /// The megabytes that a new copy has that is being filled. Its number is the last one of its
    /// part.
    pub filling: Option<u32>,
}

impl Area {
    /// Returns true if it was a copy, and is none any more. A new one that is not finished is not
    /// lost.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.lost && self.filling.is_none()
    }

    const fn state(&self) -> u32 {
        match (self.lost, self.filling) {
            (false, _) => 0,
            (true, None) => 1,
            (true, Some(megabytes)) => megabytes.saturating_add(2),
        }
    }
}

/// The parameters that a set was made with, in bytes and blocks; those of data storage are of its
/// default class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes of a block of control storage: a power of two from 1024 to 65536.
    pub block_bytes: u32,
    /// Bytes of a cylinder of control storage: from 8 to 3000 blocks.
    pub cylinder_bytes: u32,
    /// Bytes of a block of data storage: a power of two from 512 to 1 MiB.
    pub data_block_bytes: u32,
    /// Data blocks in a striped track, from 8 to 8192, a multiple of 8.
    pub track_blocks: u32,
    /// Bytes of a stripe unit: whole sectors.
    pub stripe_bytes: u32,
    /// True if every data block in use has a checksum.
    pub checksums: bool,
    /// Key of the hashes of names.
    pub hash_key: [u8; 16],
}

#[cfg(test)]
impl Parameters {
    /// Returns the parameters of the small sets in tests.
    pub(crate) const fn small() -> Self {
        Self {
            block_bytes: 1024,
            cylinder_bytes: 16 << 10,
            data_block_bytes: 4096,
            track_blocks: 8,
            stripe_bytes: 4096,
            checksums: false,
            hash_key: [3; 16],
        }
    }
}

impl Parameters {
    /// Returns what is wrong with the parameters.
    ///
    /// # Errors
    /// [`Error::Unsupported`], with the parameter.
    pub fn check(&self) -> Result<()> {
        let block = self.block_bytes;
        within("block size", block, 1024, 65_536, block.is_power_of_two())?;
        let (least, most) = (block.saturating_mul(8), block.saturating_mul(CYLINDER_BLOCKS_MAX));
        let whole = self.cylinder_bytes.is_multiple_of(block);
        within("cylinder size", self.cylinder_bytes, least, most, whole)?;
        self.structure().check()
    }

    /// Returns the structure of the default class of data.
    #[must_use]
    pub const fn structure(&self) -> Structure {
        let Self { data_block_bytes: block_bytes, track_blocks, stripe_bytes, .. } = *self;
        Structure { block_bytes, track_blocks, stripe_bytes }
    }
}

/// A label that was found, or is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The set.
    pub set_id: [u8; 16],
    /// The member that has this label.
    pub member_id: [u8; 16],
    /// Bytes of the member.
    pub member_bytes: u64,
    /// Number of times that the set was changed or opened to write.
    pub epoch: u64,
    /// The last epoch that all members had.
    pub settled: u64,
    /// When the set was opened to write, in nanoseconds since 1970.
    pub opened: i64,
    /// The openings that the set has gone through.
    pub history: History,
    /// The set was left in use: copies may differ in what was never flushed.
    pub unequal: bool,
    /// Log storage was lost while the set was in use, and control storage may have a part of an
    /// operation.
    pub unlogged: bool,
    /// The parameters of the set.
    pub parameters: Parameters,
    /// The classes of data besides the default one.
    pub classes: Vec<Class>,
    /// The read-only classes of data, whose numbers follow those of the others.
    pub read_only: Vec<ReadOnlyClass>,
    /// All areas of the members.
    pub areas: Vec<Area>,
}

impl Label {
    /// Returns true if these bytes begin with what has the magic number of a label.
    #[must_use]
    pub fn is_likely(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Reads a label of [`LABEL_BYTES`]; returns none if there is none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is damaged, [`Error::Unsupported`] if its version is not known.
    pub fn decode(bytes: &[u8], place: &str) -> Result<Option<Self>> {
        let disk = DiskLabel::decode(bytes, Endian::Little);
        if disk.magic != MAGIC {
            return Ok(None);
        }
        let damaged = |what: String| Err(Error::corrupt(what, place));
        if !is_sealed(&bytes[..LABEL_BYTES], CHECKSUM) {
            return damaged("the label's checksum is wrong".into());
        }
        if !(VERSION..=VERSION_READ_ONLY).contains(&disk.version) {
            let what = format!("a set of version {}", disk.version);
            let remedy = match disk.version {
                1 => "copy it with the version of Spindle that made it, and make it again",
                _ => "use a newer version of Spindle",
            };
            return Err(Error::unsupported(what, remedy));
        }
        if disk.sums > 1 {
            let what = format!("checksums of data of kind {}", disk.sums);
            return Err(Error::unsupported(what, "use a newer version of Spindle"));
        }
        let count = disk.areas as usize;
        if count == 0 || count > AREAS_MAX {
            return damaged(format!("a set of {count} areas"));
        }
        let mut areas = Vec::with_capacity(count);
        let mut read_only_areas: Vec<DiskArea> = Vec::new();
        for n in 0..count {
            let area = DiskArea::decode(&bytes[TABLE + n * DiskArea::SIZE..], Endian::Little);
            if area.role == READ_ONLY_ROLE && disk.version == VERSION_READ_ONLY {
                read_only_areas.push(area);
                continue;
            }
            let Some(&role) = Role::ALL.iter().find(|role| role.number() == area.role) else {
                return damaged(format!("area {n} has role {}", area.role));
            };
            areas.push(Area {
                role,
                class: area.class,
                index: area.index,
                member_id: area.member_id,
                offset: area.offset,
                len: area.len,
                lost: area.state != 0,
                filling: area.state.checked_sub(2),
                copy: area.copy.into(),
            });
        }
        let count = disk.classes as usize;
        if !(1..=CLASSES_MAX).contains(&count) {
            return damaged(format!("{count} classes of data"));
        }
        let impossible = |error: Error| Error::corrupt(error.to_string(), place);
        let table = bytes[CLASSES..].chunks_exact(DiskClass::SIZE).take(count - 1);
        let table: Vec<_> = table.map(|entry| DiskClass::decode(entry, Endian::Little)).collect();
        let is_read_only =
            |class: &DiskClass| disk.version == VERSION_READ_ONLY && class.flags & READ_ONLY != 0;
        let first = table.iter().position(is_read_only).unwrap_or(table.len());
        let (others, entries) = table.split_at(first);
        let classes = others.iter().map(Class::decode).collect::<Result<Vec<_>>>().map_err(impossible)?;
        check_classes(&classes).map_err(impossible)?;
        let mut read_only = Vec::new();
        for (number, entry) in (first + 1..).zip(entries) {
            let own = |area: &DiskArea| usize::from(area.class) == number;
            let area = read_only_areas.iter().position(own).map(|n| read_only_areas.swap_remove(n));
            if !is_read_only(entry) {
                return damaged(format!("class {number} of data follows a read-only one"));
            }
            read_only.push(ReadOnlyClass::decode(entry, area.as_ref()).map_err(impossible)?);
        }
        if let Some(area) = read_only_areas.first() {
            return damaged(format!("a read-only area of class {}, which is none or has one", area.class));
        }
        let names = classes.iter().map(|class| &class.name);
        check_names(names.chain(read_only.iter().map(|class| &class.name))).map_err(impossible)?;
        if !is_complete(&areas) {
            return damaged("its table has gaps, or copies of different lengths".into());
        }
        if !has_classes(&areas, classes.len() + 1) {
            return damaged("areas in its table do not agree with the classes of data".into());
        }
        if !is_apart(&areas, disk.member_id, disk.member_bytes) {
            return damaged("areas in its table overlap each other or a label".into());
        }
        let parameters = Parameters {
            block_bytes: disk.block_bytes,
            cylinder_bytes: disk.cylinder_bytes,
            data_block_bytes: disk.data_block_bytes,
            track_blocks: disk.track_blocks,
            stripe_bytes: disk.stripe_bytes,
            checksums: disk.sums == 1,
            hash_key: disk.hash_key,
        };
        parameters.check().map_err(impossible)?;
        Ok(Some(Self {
            set_id: disk.set_id,
            member_id: disk.member_id,
            member_bytes: disk.member_bytes,
            epoch: disk.epoch,
            settled: disk.settled,
            opened: disk.opened.cast_signed(),
            history: History::decode(&bytes[HISTORY..]),
            unequal: disk.flags & UNEQUAL != 0,
            unlogged: disk.flags & UNLOGGED != 0,
            parameters,
            classes,
            read_only,
            areas,
        }))
    }

    /// Returns the bytes of the label, [`LABEL_BYTES`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; LABEL_BYTES];
        let Parameters {
            block_bytes,
            cylinder_bytes,
            data_block_bytes,
            track_blocks,
            stripe_bytes,
            checksums,
            hash_key,
        } = self.parameters;
        let disk = DiskLabel {
            magic: MAGIC,
            version: if self.read_only.is_empty() { VERSION } else { VERSION_READ_ONLY },
            areas: u32::try_from(self.entries()).unwrap_or(0),
            set_id: self.set_id,
            member_id: self.member_id,
            epoch: self.epoch,
            block_bytes,
            cylinder_bytes,
            data_block_bytes,
            track_blocks,
            stripe_bytes,
            sums: checksums.into(),
            hash_key,
            member_bytes: self.member_bytes,
            settled: self.settled,
            opened: self.opened.cast_unsigned(),
            flags: [(self.unequal, UNEQUAL), (self.unlogged, UNLOGGED)]
                .map(|(is_set, bit)| if is_set { bit } else { 0 })
                .into_iter()
                .sum(),
            classes: u32::try_from(1 + self.classes.len() + self.read_only.len()).unwrap_or(0),
        };
        disk.encode(&mut bytes, Endian::Little);
        for (n, area) in self.areas.iter().enumerate() {
            let disk = DiskArea {
                role: area.role.number(),
                class: area.class,
                index: area.index,
                member_id: area.member_id,
                offset: area.offset,
                len: area.len,
                state: area.state(),
                copy: u16::try_from(area.copy).unwrap_or(u16::MAX),
            };
            disk.encode(&mut bytes[TABLE + n * DiskArea::SIZE..], Endian::Little);
        }
        let read_only = (self.first_read_only()..).zip(&self.read_only);
        let areas = read_only.filter_map(|(number, class)| class.disk_area(number));
        for (n, area) in (self.areas.len()..).zip(areas) {
            area.encode(&mut bytes[TABLE + n * DiskArea::SIZE..], Endian::Little);
        }
        let mut entries = bytes[CLASSES..].chunks_exact_mut(DiskClass::SIZE);
        self.classes.iter().zip(&mut entries).for_each(|(class, out)| class.encode(out));
        self.read_only.iter().zip(entries).for_each(|(class, out)| class.encode(out));
        self.history.encode(&mut bytes[HISTORY..CHECKSUM]);
        seal(&mut bytes, CHECKSUM);
        bytes
    }

    /// Returns the parts of a role's storage in their order, each with its copies.
    #[must_use]
    pub fn parts(&self, role: Role) -> Vec<Vec<&Area>> {
        let mut areas: Vec<_> = self.areas.iter().filter(|area| area.role == role).collect();
        areas.sort_by_key(|area| (area.index, area.copy));
        areas.chunk_by(|a, b| a.index == b.index).map(<[_]>::to_vec).collect()
    }

    /// Returns the bytes of each part of a role's storage. They never change, as places depend on
    /// them.
    #[must_use]
    pub fn part_bytes(&self, role: Role) -> Vec<u64> {
        self.parts(role).into_iter().map(|copies| copies[0].len).collect()
    }

    /// Returns the bytes of each part of a class of data.
    #[must_use]
    pub fn class_bytes(&self, class: usize) -> Vec<u64> {
        let parts = self.parts(Role::Data).into_iter().map(|copies| copies[0]);
        parts.filter(|area| usize::from(area.class) == class).map(|area| area.len).collect()
    }

    /// Returns the number of entries in the table of areas.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.areas.len() + self.read_only.iter().filter(|class| class.area.is_some()).count()
    }

    /// Returns the number of the first read-only class, if there is one.
    #[must_use]
    pub fn first_read_only(&self) -> u8 {
        u8::try_from(self.classes.len() + 1).unwrap_or(u8::MAX)
    }

    /// Returns all classes of data that can be written; the first one is the default one.
    #[must_use]
    pub fn all_classes(&self) -> Vec<Class> {
        let first = Class { name: ClassName::default_class(), structure: self.parameters.structure() };
        std::iter::once(first).chain(self.classes.iter().cloned()).collect()
    }

    /// Returns true if the other label of the same set is not newer than this one. Of two of one
    /// moment, that of a member counts which was not only begun.
    #[must_use]
    pub fn is_as_new_as(&self, other: &Self) -> bool {
        let age = |label: &Self| (label.epoch, label.settled, !label.is_only_begun());
        age(self) >= age(other)
    }

    /// Returns true if the member of this label was never more than a new one that is being filled:
    /// it holds nothing that the set needs.
    #[must_use]
    pub fn is_only_begun(&self) -> bool {
        let mut own = self.areas.iter().filter(|area| area.member_id == self.member_id).peekable();
        own.peek().is_some() && own.all(|area| area.filling.is_some())
    }

    /// Returns true if a member is of no use: all its areas are lost.
    #[must_use]
    pub fn is_useless(&self, member_id: [u8; 16]) -> bool {
        self.areas.iter().filter(|area| area.member_id == member_id).all(|area| area.lost)
    }

    /// Returns true if log storage is lost: no copy of one of its parts is whole.
    #[must_use]
    pub fn log_is_lost(&self) -> bool {
        self.parts(Role::Log).iter().any(|copies| copies.iter().all(|area| area.lost))
    }

    /// Returns the label when log storage is lost; `unlogged` says whether control storage may have
    /// a part of an operation.
    pub(crate) fn without_log(&self, unlogged: bool) -> Self {
        let mut label = Self { unlogged, ..self.clone() };
        label.areas.iter_mut().filter(|area| area.role == Role::Log).for_each(|area| area.lost = true);
        label
    }

    /// Takes an area out of the table; the copies of its part behind it move up.
    pub(crate) fn drop_area(&mut self, area: &Area) {
        let of_part = |other: &Area| (other.role, other.index) == (area.role, area.index);
        self.areas.retain(|other| !(of_part(other) && other.copy == area.copy));
        let behind = self.areas.iter_mut().filter(|other| of_part(other) && other.copy > area.copy);
        behind.for_each(|other| other.copy -= 1);
    }

    /// Returns true if there is another copy of everything that a member has.
    #[must_use]
    pub fn can_lose(&self, member_id: [u8; 16]) -> bool {
        let has_copy = |lost: &&Area| {
            self.areas.iter().any(|area| {
                (area.role, area.index) == (lost.role, lost.index)
                    && area.member_id != member_id
                    && !area.lost
            })
        };
        let has = |area: &&Area| area.member_id == member_id && !area.lost;
        self.areas.iter().filter(has).all(|area| has_copy(&area))
    }

    /// Returns the members, in the order of the table.
    #[must_use]
    pub fn members(&self) -> Vec<[u8; 16]> {
        let mut members = Vec::new();
        for area in &self.areas {
            if !members.contains(&area.member_id) {
                members.push(area.member_id);
            }
        }
        members
    }
}
