//! Labels: the first and the last block of each member say which set it belongs to and where the
//! storage areas of the set are.
//!
//! Opening a set to write, and each change of it, writes labels with the next epoch, in two steps:
//! when all members have the first one, they get it again as *settled*, and only then is anything
//! else changed. So members of one moment have one epoch; those that differ because a step was
//! interrupted are not older than the epoch that was settled last. The table of the greatest epoch
//! decides which areas are lost.

use super::checksum::{is_sealed, seal};
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
/// `version` of a set without checksums of data.
pub const VERSION: u32 = 1;
/// `version` of a set with them.
pub const VERSION_SUMS: u32 = 2;
/// Most blocks of a cylinder.
pub const CYLINDER_BLOCKS_MAX: u32 = 3000;
/// Most areas of a set.
pub const AREAS_MAX: usize = 80;
/// Bit of `flags`: see [`Label::unequal`].
const UNEQUAL: u32 = 1;
/// Bit of `flags`: see [`Label::unlogged`].
const UNLOGGED: u32 = 2;
const TABLE: usize = 128;
const CHECKSUM: usize = LABEL_BYTES - 4;

structure! {
    /// The head of a label.
    pub struct DiskLabel: 128 {
        /// [`MAGIC`].
        0 magic: [u8; 8],
        /// [`VERSION`] or [`VERSION_SUMS`].
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
        /// Bytes of a block of data storage.
        64 data_block_bytes: u32,
        /// Data blocks in a striped track.
        68 track_blocks: u32,
        /// Bytes of a stripe unit.
        72 stripe_bytes: u32,
        /// 1 if data blocks have checksums (CRC-32C), else 0.
        76 sums: u32,
        /// Key of the hashes of names.
        80 hash_key: [u8; 16],
        /// Bytes of this member.
        96 member_bytes: u64,
        /// The last epoch that all members had.
        104 settled: u64,
        /// When the set was opened to write, in nanoseconds since 1970: signed.
        112 opened: u64,
        /// Bit 0: copies of data storage may differ in what was never flushed.
        120 flags: u32,
    }
}

structure! {
    /// An area in the table of a label.
    pub struct DiskArea: 48 {
        /// 1 control, 2 data, 3 log.
        0 role: u32,
        /// The part of its role's storage.
        4 index: u32,
        /// The member that has it.
        8 member_id: [u8; 16],
        /// Byte of the member at which it begins.
        24 offset: u64,
        /// Its length in bytes.
        32 len: u64,
        /// 0 if it is whole, 1 if it is lost: its contents are out of date. From 2 on: it is a new
        /// copy that is being filled, and has two megabytes less than that.
        40 state: u32,
        /// Position among the copies of the same part.
        44 copy: u32,
    }
}

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
    const ALL: [Self; 3] = [Self::Control, Self::Data, Self::Log];

    const fn number(self) -> u32 {
        self as u32 + 1
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
    /// The part of its role's storage that it has: 0 for control storage, else the position in
    /// the stripe.
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
    const fn state(&self) -> u32 {
        match (self.lost, self.filling) {
            (false, _) => 0,
            (true, None) => 1,
            (true, Some(megabytes)) => megabytes.saturating_add(2),
        }
    }
}

/// The parameters that a set was made with, in bytes and blocks.
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

impl Parameters {
    /// Returns what is wrong with the parameters.
    ///
    /// # Errors
    /// [`Error::Unsupported`], with the parameter.
    pub fn check(&self) -> Result<()> {
        let limits = [
            ("block size", self.block_bytes, 1024, 65_536, self.block_bytes.is_power_of_two()),
            (
                "cylinder size",
                self.cylinder_bytes,
                self.block_bytes.saturating_mul(8),
                self.block_bytes.saturating_mul(CYLINDER_BLOCKS_MAX),
                self.block_bytes > 0 && self.cylinder_bytes.is_multiple_of(self.block_bytes),
            ),
            ("data block size", self.data_block_bytes, 512, 1 << 20, self.data_block_bytes.is_power_of_two()),
            ("blocks of a track", self.track_blocks, 8, 8192, self.track_blocks.is_multiple_of(8)),
            ("stripe unit", self.stripe_bytes, 512, 1 << 30, self.stripe_bytes.is_multiple_of(512)),
        ];
        for (name, value, least, most, whole) in limits {
            if !(least..=most).contains(&value) || !whole {
                let what = format!("a {name} of {value}");
                return Err(Error::unsupported(what, format!("it is from {least} to {most}")));
            }
        }
        // Each copy of a block is read, judged and mended as a whole.
        if self.checksums && !self.stripe_bytes.is_multiple_of(self.data_block_bytes) {
            let what = format!("checksums of blocks that lie on several devices ({})", self.stripe_bytes);
            return Err(Error::unsupported(what, "make the stripe unit a multiple of the data block"));
        }
        Ok(())
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
    /// Copies of data storage may differ in what was never flushed.
    pub unequal: bool,
    /// Log storage was lost while the set was in use, and control storage may have a part of an
    /// operation.
    pub unlogged: bool,
    /// The parameters of the set.
    pub parameters: Parameters,
    /// All areas of the set.
    pub areas: Vec<Area>,
}

impl Label {
    /// Reads a label; returns none if there is none.
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
        if disk.version != if disk.sums == 0 { VERSION } else { VERSION_SUMS } || disk.sums > 1 {
            let what = format!("a set of version {}", disk.version);
            return Err(Error::unsupported(what, "use a newer version of Spindle"));
        }
        let count = disk.areas as usize;
        if count == 0 || count > AREAS_MAX {
            return damaged(format!("a set of {count} areas"));
        }
        let mut areas = Vec::with_capacity(count);
        for n in 0..count {
            let area = DiskArea::decode(&bytes[TABLE + n * DiskArea::SIZE..], Endian::Little);
            let Some(&role) = Role::ALL.iter().find(|role| role.number() == area.role) else {
                return damaged(format!("area {n} has role {}", area.role));
            };
            areas.push(Area {
                role,
                index: area.index,
                member_id: area.member_id,
                offset: area.offset,
                len: area.len,
                lost: area.state != 0,
                filling: area.state.checked_sub(2),
                copy: area.copy,
            });
        }
        if !is_complete(&areas) {
            return damaged("its table has gaps, or copies of different lengths".into());
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
        parameters.check().map_err(|error| Error::corrupt(error.to_string(), place))?;
        Ok(Some(Self {
            set_id: disk.set_id,
            member_id: disk.member_id,
            member_bytes: disk.member_bytes,
            epoch: disk.epoch,
            settled: disk.settled,
            opened: disk.opened.cast_signed(),
            unequal: disk.flags & UNEQUAL != 0,
            unlogged: disk.flags & UNLOGGED != 0,
            parameters,
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
            version: if checksums { VERSION_SUMS } else { VERSION },
            areas: u32::try_from(self.areas.len()).unwrap_or(0),
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
        };
        disk.encode(&mut bytes, Endian::Little);
        for (n, area) in self.areas.iter().enumerate() {
            let disk = DiskArea {
                role: area.role.number(),
                index: area.index,
                member_id: area.member_id,
                offset: area.offset,
                len: area.len,
                state: area.state(),
                copy: area.copy,
            };
            disk.encode(&mut bytes[TABLE + n * DiskArea::SIZE..], Endian::Little);
        }
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

    /// Returns true if the other label of the same set is not newer than this one.
    #[must_use]
    pub fn is_as_new_as(&self, other: &Self) -> bool {
        (self.epoch, self.settled) >= (other.epoch, other.settled)
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

/// Returns true if no area overlaps another one of its member, the labels, or the list of members.
fn is_apart(areas: &[Area], own: [u8; 16], own_bytes: u64) -> bool {
    let mut ends: Vec<_> =
        areas.iter().map(|a| (a.member_id, a.offset, a.offset.checked_add(a.len))).collect();
    ends.sort_unstable();
    let is_inside = |&(member, offset, end): &([u8; 16], u64, Option<u64>)| {
        offset >= AREAS_FROM && end.is_some_and(|end| member != own || end <= last_label_at(own_bytes))
    };
    let follows =
        |pair: &[([u8; 16], u64, Option<u64>)]| pair[0].0 != pair[1].0 || pair[0].2 <= Some(pair[1].1);
    ends.iter().all(is_inside) && ends.windows(2).all(follows)
}

/// Returns true if the parts of each role, and the copies of each part, are numbered from 0, and
/// the copies of a part are equally long.
fn is_complete(areas: &[Area]) -> bool {
    Role::ALL.iter().all(|role| {
        let mut places: Vec<_> =
            areas.iter().filter(|a| a.role == *role).map(|a| (a.index, a.copy, a.len)).collect();
        places.sort_unstable();
        let follows = |pair: &[(u32, u32, u64)]| {
            let ((index, copy, len), next) = (pair[0], pair[1]);
            next == (index, copy.saturating_add(1), len) || (next.0, next.1) == (index.saturating_add(1), 0)
        };
        places.first().is_some_and(|first| (first.0, first.1) == (0, 0)) && places.windows(2).all(follows)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a label whose areas lie on each other, on a label or outside its member is refused.
    #[test]
    fn areas_that_overlap_are_refused() {
        let member_bytes = 4 << 20;
        let area = |role, offset, len| Area {
            role,
            index: 0,
            copy: 0,
            member_id: [1; 16],
            offset,
            len,
            lost: false,
            filling: None,
        };
        let parameters = Parameters {
            block_bytes: 1024,
            cylinder_bytes: 16 << 10,
            data_block_bytes: 4096,
            track_blocks: 8,
            stripe_bytes: 4096,
            checksums: true,
            hash_key: [3; 16],
        };
        let decode = |control: u64, log_bytes: u64| {
            let areas = vec![
                area(Role::Control, control, 1 << 20),
                area(Role::Data, 2 << 20, 1 << 20),
                area(Role::Log, 3 << 20, log_bytes),
            ];
            let (set_id, member_id) = ([9; 16], [1; 16]);
            let (epoch, settled, opened) = (1, 1, 0);
            let (unequal, unlogged) = (false, false);
            let label = Label {
                set_id,
                member_id,
                member_bytes,
                epoch,
                settled,
                opened,
                unequal,
                unlogged,
                parameters,
                areas,
            };
            Label::decode(&label.encode(), "label").map(|found| assert_eq!(found, Some(label)))
        };
        let end = (1 << 20) - LABEL_BYTES as u64;
        decode(AREAS_FROM, end).unwrap();
        decode(1 << 20, end).unwrap();
        for (control, log_bytes) in
            [(0, end), (AREAS_FROM - 1, end), ((1 << 20) + 1, end), (1 << 20, end + 1)]
        {
            assert!(decode(control, log_bytes).is_err(), "{control} {log_bytes}");
        }
        assert!(decode(u64::MAX, end).is_err());
    }
}
