//! NetBSD's quotas inside the file system (`sys/ufs/ufs/quota2.h`): what their file says, and
//! making one.
//!
//! The file begins with a header, the defaults of new entries and the heads of lists; every entry
//! behind it is in the list of its id or in that of free entries. Here are pure functions of the
//! bytes of a file. NetBSD's limits are the last counts that are allowed, ours the first that are
//! refused, as in quota files; adding 1 makes "no limit", all ones, 0.

use super::{Account, DEFAULT_GRACE, Grace, Kind, Quota};
use crate::format::layout::Layout;
use crate::format::ondisk::{FsNetBsd, Q2_HEAD_MAGIC, Quota2Entry, Quota2Header, Quota2Val, flags};
use crate::format::superblock::Superblock;
use crate::format::units::index;
use spindle_ondisk::{Endian, Field};
use std::collections::{BTreeMap, HashSet, VecDeque};

/// Byte of the header at which the first free entry is named.
pub(crate) const FREE_AT: usize = 104;
/// Byte of an entry at which the next one of its list is named.
pub(crate) const NEXT_AT: usize = 80;
/// Byte of the header at which the defaults stand.
pub(crate) const DEFAULT_AT: usize = 8;
/// Bytes of an entry that hold usage and limits.
pub(crate) const VALUES: usize = 2 * Quota2Val::SIZE;

/// The quotas that a superblock says are inside, with the inodes of their files (0 for none).
pub(crate) fn kinds_inside(superblock: &Superblock) -> Vec<(Kind, u64)> {
    let netbsd = FsNetBsd::decode(superblock.raw(), superblock.layout.endian);
    let on = superblock.keeps_quotas_inside() && netbsd.fs_quota_magic == Q2_HEAD_MAGIC;
    let is_on = |kind: &Kind| on && netbsd.fs_quota_flags >> *kind as u8 & 1 != 0;
    Kind::ALL.into_iter().filter(is_on).map(|kind| (kind, netbsd.fs_quotafile[kind as usize])).collect()
}

/// What is recorded of a user or a group: usage, limits, and its own grace periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) quota: Quota,
    pub(crate) grace: Grace,
}

impl Record {
    /// What is recorded by default: no limits.
    pub(crate) const UNLIMITED: Self = Self {
        quota: Quota { blocks: Account::NONE, inodes: Account::NONE },
        grace: Grace { blocks: DEFAULT_GRACE, inodes: DEFAULT_GRACE },
    };

    fn of(entry: &Quota2Entry) -> Self {
        let account = |val: &Quota2Val| {
            let (soft, hard) = (val.q2v_softlimit.wrapping_add(1), val.q2v_hardlimit.wrapping_add(1));
            let mut account = Account { used: val.q2v_cur, soft, hard, deadline: val.q2v_time };
            // A time of long ago stays there; it counts only above the limit.
            if !account.is_over_soft(account.used) {
                account.deadline = 0;
            }
            account
        };
        Self {
            quota: Quota { blocks: account(&entry.q2e_block), inodes: account(&entry.q2e_file) },
            grace: Grace { blocks: entry.q2e_block.q2v_grace, inodes: entry.q2e_file.q2v_grace },
        }
    }

    /// Returns the values of an entry, as they stand on the disk.
    pub(crate) fn values(&self, endian: Endian) -> [u8; VALUES] {
        let val = |account: &Account, grace| Quota2Val {
            q2v_hardlimit: account.hard.wrapping_sub(1),
            q2v_softlimit: account.soft.wrapping_sub(1),
            q2v_cur: account.used,
            q2v_time: account.deadline,
            q2v_grace: grace,
        };
        let mut bytes = [0; VALUES];
        val(&self.quota.blocks, self.grace.blocks).encode(&mut bytes, endian);
        val(&self.quota.inodes, self.grace.inodes).encode(&mut bytes[Quota2Val::SIZE..], endian);
        bytes
    }
}

impl Superblock {
    /// Enters the inode of the file of a quota inside the file system; 0 for none.
    pub(crate) fn set_quota_file(&mut self, kind: Kind, ino: u64) {
        let endian = self.layout.endian;
        let mut netbsd = FsNetBsd::decode(&self.raw, endian);
        netbsd.fs_quotafile[kind as usize] = ino;
        netbsd.encode(&mut self.raw, endian);
    }

    /// Turns a quota inside the file system on or off. One that is on needs a file.
    pub(crate) fn switch_quota(&mut self, kind: Kind, on: bool) {
        let endian = self.layout.endian;
        let mut netbsd = FsNetBsd::decode(&self.raw, endian);
        if netbsd.fs_quota_magic != Q2_HEAD_MAGIC {
            netbsd.fs_quota_flags = 0;
        }
        netbsd.fs_quota_magic = Q2_HEAD_MAGIC;
        let bit = 1 << kind as u8;
        netbsd.fs_quota_flags = if on { netbsd.fs_quota_flags | bit } else { netbsd.fs_quota_flags & !bit };
        netbsd.encode(&mut self.raw, endian);
        let any = netbsd.fs_quota_flags & FsNetBsd::Q2_ALL != 0;
        self.change(|fs| {
            let off = fs.fs_flags & !flags::NETBSD_DOQUOTA2;
            fs.fs_flags = off | if any { flags::NETBSD_DOQUOTA2 } else { 0 };
        });
    }
}

/// The shape of the files of a file system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    bsize: usize,
    pub(crate) endian: Endian,
}

impl Shape {
    pub(crate) const fn of(layout: &Layout) -> Self {
        Self { bsize: layout.fs_bsize as usize, endian: layout.endian }
    }

    /// Returns the bytes of a block.
    pub(crate) const fn bsize(&self) -> usize {
        self.bsize
    }

    /// Returns the bits of an id that say in which list it is: as many as leave half of the first
    /// block, from 8 to 15 (`fsck_ffs/setup.c` of NetBSD).
    const fn hash_shift(&self) -> u8 {
        let mut shift = 8;
        while shift < 15 && (u64::SIZE << (shift + 1)) + Quota2Header::SIZE <= self.bsize {
            shift += 1;
        }
        shift
    }

    const fn lists(&self) -> usize {
        1 << self.hash_shift()
    }

    /// Returns the byte at which the first entry of a block begins, from the block's start.
    const fn first(&self, block: u64) -> usize {
        if block == 0 { Quota2Header::SIZE + u64::SIZE * self.lists() } else { 0 }
    }

    /// Returns the list that an id is in.
    pub(crate) const fn list_of(&self, id: u32) -> usize {
        id as usize & (self.lists() - 1)
    }

    /// Returns the byte of the header at which the head of a list stands.
    pub(crate) const fn head_at(list: usize) -> usize {
        Quota2Header::SIZE + u64::SIZE * list
    }

    /// Returns the places of the entries of a block in the file, in their order.
    pub(crate) fn places(&self, block: u64) -> impl Iterator<Item = u64> + use<> {
        let (start, first) = (block * self.bsize as u64, self.first(block));
        let count = (self.bsize - first) / Quota2Entry::SIZE;
        (0..count).map(move |n| start + (first + n * Quota2Entry::SIZE) as u64)
    }

    /// Returns true if an entry of a file of `blocks` blocks can begin there.
    fn is_place(&self, at: u64, blocks: u64) -> bool {
        let (block, within) = (at / self.bsize as u64, index(at % self.bsize as u64));
        let Some(behind) = within.checked_sub(self.first(block)) else { return false };
        block < blocks && behind % Quota2Entry::SIZE == 0 && within + Quota2Entry::SIZE <= self.bsize
    }
}

/// What a file says.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    /// What a new entry gets.
    pub(crate) default: Record,
    /// Each record, with the place of its entry in the file.
    pub(crate) records: BTreeMap<u32, (u64, Record)>,
    /// The first entry of each list; 0 for none.
    pub(crate) heads: Vec<u64>,
    /// The free entries, the first of the list last.
    pub(crate) free: Vec<u64>,
}

/// What was read of a file, and the first thing that is wrong with it.
pub(crate) struct Reading {
    /// It begins as the file of this quota does.
    pub(crate) is_one: bool,
    pub(crate) contents: Contents,
    pub(crate) damage: Option<String>,
}

/// Reads a file of whole blocks. What is damaged is left out.
pub(crate) fn read(kind: Kind, shape: Shape, bytes: &[u8]) -> Reading {
    let mut reader = Reader { shape, bytes, seen: HashSet::new(), damage: None };
    let mut contents = Contents {
        default: Record::UNLIMITED,
        records: BTreeMap::new(),
        heads: vec![0; shape.lists()],
        free: Vec::new(),
    };
    if bytes.len() < shape.bsize || !bytes.len().is_multiple_of(shape.bsize) {
        reader.note(|| format!("it has {} bytes", bytes.len()));
        return Reading { is_one: false, contents, damage: reader.damage };
    }
    let header = Quota2Header::decode(bytes, shape.endian);
    let found = (header.q2h_magic_number, header.q2h_type, header.q2h_hash_shift, header.q2h_hash_size);
    let (shift, size) = (shape.hash_shift(), u16::try_from(shape.lists()).unwrap_or(u16::MAX));
    if found != (Q2_HEAD_MAGIC, kind as u8, shift, size) {
        reader.note(|| {
            format!(
                "its header has magic {:#x}, type {}, hashes of {} bits and {} lists",
                found.0, found.1, found.2, found.3
            )
        });
        return Reading { is_one: false, contents, damage: reader.damage };
    }
    contents.default = Record::of(&header.q2h_defentry);
    for list in 0..shape.lists() {
        contents.heads[list] = u64::get(&bytes[Shape::head_at(list)..], shape.endian);
        let head = contents.heads[list];
        reader.walk(head, &mut |reader, at, entry| {
            let id = entry.q2e_uid;
            if shape.list_of(id) != list {
                reader.note(|| format!("the entry of id {id} at byte {at} is in list {list}"));
            } else if contents.records.insert(id, (at, Record::of(entry))).is_some() {
                reader.note(|| format!("id {id} has a second entry at byte {at}"));
            }
        });
    }
    reader.walk(header.q2h_free, &mut |_, at, _| contents.free.push(at));
    contents.free.reverse();
    let blocks = (bytes.len() / shape.bsize) as u64;
    let entries: usize = (0..blocks).map(|block| shape.places(block).count()).sum();
    if reader.seen.len() != entries {
        let lost = entries - reader.seen.len();
        reader.note(|| format!("{lost} entries are in no list"));
    }
    Reading { is_one: true, contents, damage: reader.damage }
}

struct Reader<'a> {
    shape: Shape,
    bytes: &'a [u8],
    seen: HashSet<u64>,
    damage: Option<String>,
}

impl Reader<'_> {
    fn note(&mut self, what: impl FnOnce() -> String) {
        self.damage.get_or_insert_with(what);
    }

    /// Follows a list from its first entry to its end, or to what cannot belong to it.
    fn walk(&mut self, head: u64, visit: &mut dyn FnMut(&mut Self, u64, &Quota2Entry)) {
        let blocks = (self.bytes.len() / self.shape.bsize) as u64;
        let mut at = head;
        while at != 0 {
            if !self.shape.is_place(at, blocks) {
                return self.note(|| format!("a list leads to byte {at}, where no entry can be"));
            }
            if !self.seen.insert(at) {
                return self.note(|| format!("the entry at byte {at} is in two lists, or twice in one"));
            }
            let entry = Quota2Entry::decode(&self.bytes[index(at)..], self.shape.endian);
            visit(self, at, &entry);
            at = entry.q2e_next;
        }
    }
}

/// Gives each of these ids an entry, where `known` has none, in a file of `blocks` blocks or as
/// many more as it takes. Returns the records with their places, and the number of blocks.
pub(crate) fn arrange(
    shape: Shape,
    known: &BTreeMap<u32, (u64, Record)>,
    records: &BTreeMap<u32, Record>,
    blocks: u64,
) -> (BTreeMap<u32, (u64, Record)>, u64) {
    let taken: HashSet<u64> = known.values().map(|&(at, _)| at).collect();
    let mut count = blocks.max(1);
    let mut free: VecDeque<u64> =
        (0..count).flat_map(|block| shape.places(block)).filter(|at| !taken.contains(at)).collect();
    let mut placed = BTreeMap::new();
    for (&id, &record) in records {
        let at = known.get(&id).map_or_else(
            || {
                if free.is_empty() {
                    free.extend(shape.places(count));
                    count += 1;
                }
                free.pop_front().unwrap_or(0)
            },
            |&(at, _)| at,
        );
        placed.insert(id, (at, record));
    }
    (placed, count)
}

/// Returns the bytes of a file of so many blocks with these records at their places.
pub(crate) fn make(
    kind: Kind,
    shape: Shape,
    default: &Record,
    records: &BTreeMap<u32, (u64, Record)>,
    blocks: u64,
) -> Vec<u8> {
    let endian = shape.endian;
    let mut bytes = vec![0; index(blocks) * shape.bsize];
    let mut taken = HashSet::new();
    for (&id, &(place, record)) in records {
        taken.insert(place);
        let at = index(place);
        bytes[at..at + VALUES].copy_from_slice(&record.values(endian));
        let head = Shape::head_at(shape.list_of(id));
        let next = u64::get(&bytes[head..], endian);
        next.put(&mut bytes[at + NEXT_AT..], endian);
        id.put(&mut bytes[at + NEXT_AT + u64::SIZE..], endian);
        place.put(&mut bytes[head..], endian);
    }
    let mut q2h_free = 0_u64;
    for at in (0..blocks).flat_map(|block| shape.places(block)).filter(|at| !taken.contains(at)) {
        q2h_free.put(&mut bytes[index(at) + NEXT_AT..], endian);
        q2h_free = at;
    }
    let values = default.values(endian);
    let q2h_defentry = Quota2Entry {
        q2e_block: Quota2Val::get(&values, endian),
        q2e_file: Quota2Val::get(&values[Quota2Val::SIZE..], endian),
        ..Quota2Entry::default()
    };
    Quota2Header {
        q2h_magic_number: Q2_HEAD_MAGIC,
        q2h_type: kind as u8,
        q2h_hash_shift: shape.hash_shift(),
        q2h_hash_size: u16::try_from(shape.lists()).unwrap_or(u16::MAX),
        q2h_defentry,
        q2h_free,
    }
    .encode(&mut bytes, endian);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(endian: Endian) -> Shape {
        Shape { bsize: 4096, endian }
    }

    /// Promise: a header of NetBSD's newfs has hashes of as many bits as its fsck wants for each
    /// block size, 20 entries behind them in a block of 4 KiB, and 42 in the next.
    #[test]
    fn headers_are_as_netbsd_makes_them() {
        let bits =
            [4096, 8192, 16384, 32768, 65536].map(|bsize| Shape { bsize, endian: Endian::Big }.hash_shift());
        assert_eq!(bits, [8, 9, 10, 11, 12]);
        let shape = shape(Endian::Little);
        assert_eq!((shape.places(0).count(), shape.places(1).count()), (20, 42));
        assert_eq!(shape.places(0).next(), Some(2160));
        let bytes = make(Kind::Group, shape, &Record::UNLIMITED, &BTreeMap::new(), 1);
        assert_eq!(bytes[..8], [0x5e, 0x91, 0x46, 0xb7, 1, 8, 0, 1]);
        assert_eq!((bytes[8..24].iter().all(|&b| b == 0xff), bytes.len()), (true, 4096));
    }

    /// Promise: what was written is read again in both byte orders, also beyond the first block; of
    /// each damage of the lists the file says what it is, and the reading comes to an end.
    #[test]
    fn files_are_read_again_and_damage_is_seen() {
        for endian in [Endian::Little, Endian::Big] {
            let shape = shape(endian);
            let mut record = Record::UNLIMITED;
            record.quota.blocks = Account { used: 7, soft: 5, hard: 9, deadline: 33 };
            let records: BTreeMap<u32, Record> = (0..50).map(|n| (n * 256 + n % 3, record)).collect();
            let (placed, blocks) = arrange(shape, &BTreeMap::new(), &records, 1);
            let bytes = make(Kind::User, shape, &Record::UNLIMITED, &placed, blocks);
            assert_eq!(bytes.len(), 2 * 4096);
            let Reading { contents, damage, .. } = read(Kind::User, shape, &bytes);
            assert_eq!(damage, None);
            assert_eq!((&contents.records, contents.free.len()), (&placed, 12));
            let (first, last): (usize, u64) = (2160, 2160 + 96);
            for (at, value, words) in [
                (0, 1_u64, "magic"),
                (FREE_AT, 2161, "no entry can be"),
                (FREE_AT, first as u64, "two lists"),
                (FREE_AT, 0, "12 entries are in no list"),
                (Shape::head_at(0), 1 << 60, "no entry can be"),
                (Shape::head_at(0), last, "is in list 0"),
                (first + NEXT_AT, first as u64, "twice in one"),
            ] {
                let mut damaged = bytes.clone();
                value.put(&mut damaged[at..], endian);
                let damage = read(Kind::User, shape, &damaged).damage.unwrap();
                assert!(damage.contains(words), "{damage}");
            }
            assert!(read(Kind::Group, shape, &bytes).damage.is_some());
            assert!(read(Kind::User, shape, &bytes[..100]).damage.is_some());
        }
    }
}
