//! Whose bytes of a disk are: what every command asks that is going to write over them.
//!
//! What a label names, and what begins with the disk, is known. Where no label says whose the space
//! is, file systems are looked for, as by [`crate::search`]: in the bytes that would be written,
//! where their superblocks and the copies of these also show those that begin before, and then in
//! what lies before.

use crate::detect::{contents, detect};
use crate::error::Result;
use crate::foreign::{Volume, volume_at};
use crate::search::{Event, Place, walk};
use spindle_device::{Device, Window, partitions};
use spindle_ffs::ondisk::{SBLOCKSEARCH, SBLOCKSIZE};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Bytes of data that are read to find out whether something would be written over: so much that
/// old disks without a label are searched as a whole, and no user waits for minutes.
const SEARCH_BYTES: u64 = 1 << 30;
/// Bytes of a step of the search through what lies before.
const STEP_BYTES: u64 = 64 << 20;
/// Most bytes from the beginning of a file system to the end of its first superblock.
const FIRST_BYTES: u64 = {
    let mut most = 0;
    let mut n = 0;
    while n < SBLOCKSEARCH.len() {
        most = if SBLOCKSEARCH[n] > most { SBLOCKSEARCH[n] } else { most };
        n += 1;
    }
    most + SBLOCKSIZE as u64
};

/// Bytes of a disk that are going to be written.
#[derive(Clone, Debug)]
pub(crate) enum Space {
    /// Those of a new file system. What begins exactly there is asked for elsewhere.
    New(Range<u64>),
    /// Those that a file system grows by, which follow its own.
    Added {
        /// Its own bytes. What has some of them has lost them long ago, or is the content of a
        /// file.
        own: Range<u64>,
        /// The bytes that it gets.
        new: Range<u64>,
    },
}

impl Space {
    const fn bytes(&self) -> &Range<u64> {
        match self {
            Self::New(bytes) | Self::Added { new: bytes, .. } => bytes,
        }
    }

    /// Returns true if writing there would destroy what has these bytes.
    fn is_taken_by(&self, other: &Range<u64>) -> bool {
        overlap(self.bytes(), other)
            && match self {
                Self::New(bytes) => other.start != bytes.start,
                Self::Added { own, .. } => !overlap(own, other),
            }
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// A file system that was found, or what is left of one.
struct Owner {
    bytes: Range<u64>,
    what: String,
    /// The byte of what it was found by.
    by: u64,
    /// True if only a copy of its superblock was found, and not what it should begin with.
    is_copy: bool,
}

impl Owner {
    fn new(at: u64, len: Option<u64>, what: &str, by: u64, is_copy: bool) -> Self {
        let end = len.map_or(u64::MAX, |len| at.saturating_add(len));
        let left = if is_copy { ", of which only copies of its superblock are left" } else { "" };
        Self { bytes: at..end, what: format!("{what} at byte {at}{left}"), by, is_copy }
    }

    fn of(place: &Place, by: u64) -> Self {
        let len = Some(place.found.size_bytes());
        Self::new(place.at, len, &place.found.to_string(), by, place.copy_at.is_some())
    }

    fn foreign(volume: &Volume, by: u64) -> Self {
        Self::new(volume.at, volume.len, volume.name, by, volume.is_copy)
    }

    /// Returns true if it is the content of that other one, which is whole, or was written over by
    /// it.
    fn is_within(&self, other: &Self) -> bool {
        let is_content = other.bytes.start < self.bytes.start && other.bytes.contains(&self.by);
        let is_lost = self.is_copy && other.bytes.contains(&self.bytes.start);
        !other.is_copy && (is_content || is_lost)
    }
}

/// Returns a description of a file system at the beginning of a disk, or in one of its partitions,
/// that has some of the bytes of a new one, but does not begin with them.
///
/// # Errors
/// Those of the device.
pub(crate) fn known_in(disk: &Arc<dyn Device>, bytes: &Range<u64>) -> Result<Option<String>> {
    let space = Space::New(bytes.clone());
    Ok(known(disk)?.into_iter().find(|owner| space.is_taken_by(&owner.bytes)).map(|owner| owner.what))
}

/// Returns the file systems at the beginning of a disk and in its partitions.
fn known(disk: &Arc<dyn Device>) -> Result<Vec<Owner>> {
    let whole = disk.info().size_bytes;
    let table = partitions(&**disk)?;
    let has_table = table.scheme.is_some();
    let parts = table.partitions.into_iter().map(|part| (part.start_bytes, part.size_bytes, true));
    let mut owners = Vec::new();
    for (start, len, is_part) in std::iter::once((0, whole, !has_table)).chain(parts) {
        let len = len.min(whole.saturating_sub(start));
        if len == 0 {
            continue;
        }
        let window = Window::new(Arc::clone(disk), start, len, disk.info().name.clone())?;
        // Behind a table of partitions lies what was there before it.
        let found = match detect(&window) {
            Ok(found) => Some((Some(found.size_bytes()), found.to_string())),
            Err(_) if is_part => foreign_in(&window)?,
            Err(_) => None,
        };
        let owner = |(found, what): (Option<u64>, String)| {
            Owner::new(start, Some(found.unwrap_or(len)), &what, start, false)
        };
        owners.extend(found.map(owner));
    }
    Ok(owners)
}

/// Returns what this program does not read and begins a device, with its length, as far as that is
/// known.
fn foreign_in(device: &Window) -> Result<Option<(Option<u64>, String)>> {
    let len = volume_at(device, 0).and_then(|volume| volume.len);
    Ok(contents(device)?.filter(|what| !what.contains("partition table")).map(|what| (len, what)))
}

/// Returns a description of a file system that writing these bytes of a disk would destroy, where
/// no label says whose they are. So much is read: the bytes and, for a new file system, those
/// before them, up to a gigabyte of data altogether.
///
/// # Errors
/// Those of the device.
pub(crate) fn found_in(disk: &Arc<dyn Device>, space: &Space) -> Result<Option<String>> {
    let bytes = space.bytes();
    if bytes.is_empty() {
        return Ok(None);
    }
    let (mut owners, mut end) = match space {
        Space::New(bytes) => (known(disk)?, bytes.start),
        Space::Added { .. } => (Vec::new(), 0),
    };
    let mut left = SEARCH_BYTES;
    // What is whole there is in the way, whatever else is found.
    let is_certain = |owner: &Owner| !owner.is_copy && space.is_taken_by(&owner.bytes);
    let own = bytes.start..bytes.end.saturating_add(FIRST_BYTES);
    if let Some(found) = look(disk, own, &mut left, &mut owners, &is_certain)? {
        return Ok(Some(found.what));
    }
    while end > 0 && left > 0 {
        let start = end.saturating_sub(STEP_BYTES);
        look(disk, start..end, &mut left, &mut owners, &|_| false)?;
        end = start;
    }
    let is_in_the_way = |owner: &&Owner| {
        space.is_taken_by(&owner.bytes) && !owners.iter().any(|other| owner.is_within(other))
    };
    Ok(owners.iter().find(is_in_the_way).map(|owner| owner.what.clone()))
}

/// Looks for file systems in these bytes, with at most `left` bytes of data, from which those that
/// were read are taken away. Returns the first one that `is_enough`; the others go to `owners`.
fn look(
    disk: &Arc<dyn Device>,
    bytes: Range<u64>,
    left: &mut u64,
    owners: &mut Vec<Owner>,
    is_enough: &dyn Fn(&Owner) -> bool,
) -> Result<Option<Owner>> {
    let (mut enough, mut read) = (None, 0);
    let mut each = |event: Event| {
        let owner = match event {
            Event::Found { place, .. } if place.copy_at.is_some() && is_replaced(disk, place.at) => None,
            Event::Found { place, by } => Some(Owner::of(&place, by)),
            Event::Foreign { volume, .. } if begins_with_ours(disk, volume.at) => None,
            Event::Foreign { volume, .. } if volume.is_copy && is_replaced(disk, volume.at) => None,
            Event::Foreign { volume, by } => Some(Owner::foreign(&volume, by)),
            Event::Damaged(at) => {
                let len = spindle_mfs::LABEL_BYTES as u64;
                Some(Owner::new(at, Some(len), "the label of a member of a set", at, false))
            }
            Event::Stray(_) => None,
            Event::Read { data, .. } => {
                read = data;
                if read >= *left {
                    return Ok(ControlFlow::Break(()));
                }
                None
            }
        };
        match owner {
            Some(owner) if is_enough(&owner) => {
                enough = Some(owner);
                return Ok(ControlFlow::Break(()));
            }
            owner => owners.extend(owner),
        }
        Ok(ControlFlow::Continue(()))
    };
    walk(disk, bytes, &mut each)?;
    *left = left.saturating_sub(read);
    Ok(enough)
}

/// Returns true if a file system that this program reads begins at byte `at`: whatever else has
/// begun there is overwritten.
fn begins_with_ours(disk: &Arc<dyn Device>, at: u64) -> bool {
    let len = disk.info().size_bytes.saturating_sub(at);
    let window = Window::new(Arc::clone(disk), at, len, disk.info().name.clone());
    window.is_ok_and(|window| detect(&window).is_ok())
}

/// Returns true if a file system begins at byte `at` that is not the one of which a copy of the
/// superblock was found.
fn is_replaced(disk: &Arc<dyn Device>, at: u64) -> bool {
    begins_with_ours(disk, at) || volume_at(&**disk, at).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::newfs::{clock, old, rng};
    use spindle_device::MemoryDevice;
    use spindle_ffs::newfs::{Format, Parameters, Plan};
    use spindle_mfs::newfs::{Member, Wishes, make};

    const MIB: u64 = 1 << 20;

    fn empty(mib: u64) -> Arc<dyn Device> {
        Arc::new(MemoryDevice::new(mib * MIB))
    }

    fn window(disk: &Arc<dyn Device>, at: u64, len: u64) -> Arc<dyn Device> {
        Arc::new(Window::new(Arc::clone(disk), at, len, "part".into()).unwrap())
    }

    fn put_ufs(disk: &Arc<dyn Device>, format: Format, at: u64, len: u64) {
        let plan = Plan::new(&Parameters { format, ..Parameters::new(len) }).unwrap();
        crate::newfs::write(&plan, &*window(disk, at, len), Some(1_000_000_000), &mut || ()).unwrap();
    }

    fn put_old(disk: &Arc<dyn Device>, at: u64, len: u64) {
        let plan = old::Plan::new(&old::Parameters::new(spindle_v7::Format::V7, len)).unwrap();
        old::write(&plan, &*window(disk, at, len), &*clock(Some(1_000_000_000))).unwrap();
    }

    fn put_member(disk: &Arc<dyn Device>, at: u64, len: u64) {
        let members = [Member::with_all(window(disk, at, len))];
        make(&members, &Wishes::new(), &*clock(Some(1)), &mut rng(Some(1))).unwrap();
    }

    /// Makes an ext4 of which there is nothing but the superblock, and one copy in group 3.
    fn put_ext(disk: &Arc<dyn Device>, at: u64, len: u64) {
        let mut superblock = [0; 1024];
        let blocks = u32::try_from(len / 1024).unwrap();
        for (place, number) in [(0, 4096), (4, blocks), (20, 1), (32, 8192), (40, 512), (76, 1), (96, 0x40)] {
            superblock[place..place + 4].copy_from_slice(&u32::to_le_bytes(number));
        }
        superblock[56..58].copy_from_slice(b"\x53\xef");
        disk.write_at(at + 1024, &superblock).unwrap();
        superblock[90] = 3;
        disk.write_at(at + (3 * 8192 + 1) * 1024, &superblock).unwrap();
    }

    type Put = (&'static str, fn(&Arc<dyn Device>, u64, u64));

    const KINDS: [Put; 6] = [
        ("UFS2", |disk, at, len| put_ufs(disk, Format::Ufs2, at, len)),
        ("UFS1", |disk, at, len| put_ufs(disk, Format::Ufs1, at, len)),
        ("UFS1 (old inodes)", |disk, at, len| put_ufs(disk, Format::Old, at, len)),
        ("v7-512-pdp", put_old),
        ("a member of a multi-structured file system", put_member),
        ("an ext4 file system", put_ext),
    ];

    fn added(disk: &Arc<dyn Device>, own: Range<u64>, end: u64) -> Option<String> {
        found_in(disk, &Space::Added { new: own.end..end, own }).unwrap()
    }

    fn new(disk: &Arc<dyn Device>, bytes: Range<u64>) -> Option<String> {
        found_in(disk, &Space::New(bytes)).unwrap()
    }

    /// Promise: bytes that a file system of any kind has, which begins at an odd place of a disk
    /// without a label, are not free for another one, however few they are and wherever in it; the
    /// bytes before and behind it are, and so is what begins exactly there.
    #[test]
    fn all_bytes_of_a_file_system_are_found() {
        for (kind, put) in KINDS {
            let disk = empty(64);
            let (start, len) = (777 * 512 + 16 * MIB, 30 * MIB);
            put(&disk, start, len);
            let small = 64 << 10;
            let mut at = start + 512;
            while at + small < start + len {
                let found = new(&disk, at..at + small);
                let found = found.unwrap_or_else(|| panic!("{kind}: {} bytes from its start", at - start));
                assert!(
                    found.contains(kind) && found.contains(&format!("at byte {start}")),
                    "{kind}: {found}"
                );
                at += 3 * MIB + 512;
            }
            assert!(new(&disk, MIB..64 * MIB).is_some_and(|found| found.contains(kind)), "{kind}");
            for free in [0..start, start + len..64 * MIB, start..start + MIB] {
                assert_eq!(new(&disk, free.clone()), None, "{kind}: {free:?}");
            }
            // One that grows up to it, or to its first byte.
            assert_eq!(added(&disk, 0..MIB, start), None, "{kind}");
            let found = added(&disk, 0..MIB, start + 512);
            assert!(found.is_some_and(|found| found.contains(kind)), "{kind}");
        }
    }

    /// Promise: copies of a superblock show a file system whose beginning is lost, also in bytes
    /// that none of them is in; but not one in whose place another has begun.
    #[test]
    fn copies_show_what_has_lost_its_beginning() {
        for (kind, put) in KINDS.into_iter().filter(|(kind, _)| kind.contains("UFS") || kind.contains("ext4"))
        {
            let disk = empty(64);
            put(&disk, 16 * MIB, 40 * MIB);
            disk.write_at(16 * MIB, &vec![0; 300 << 10]).unwrap();
            let found = new(&disk, 20 * MIB..63 * MIB).unwrap();
            assert!(found.contains("at byte 16777216, of which only copies"), "{kind}: {found}");
            put_ufs(&disk, Format::Ufs2, 16 * MIB, 10 * MIB);
            assert_eq!(new(&disk, 30 * MIB..63 * MIB), None, "{kind}: replaced");
        }
        // The last label of a member, whose first one is overwritten.
        let disk = empty(64);
        put_member(&disk, 16 * MIB, 40 * MIB);
        put_ufs(&disk, Format::Ufs2, 16 * MIB, 10 * MIB);
        assert_eq!(new(&disk, 30 * MIB..63 * MIB), None);
        assert_eq!(added(&disk, 16 * MIB..26 * MIB, 63 * MIB), None);
        // One of which only the first label is left.
        let disk = empty(128);
        put_member(&disk, 60 * MIB, 40 * MIB);
        disk.write_at(100 * MIB - 4096, &[0; 4096]).unwrap();
        assert!(added(&disk, 0..30 * MIB, 128 * MIB).is_some());
    }

    /// Promise: a file system grows over what earlier states of it, what it has replaced, and its
    /// own files have left behind its end.
    #[test]
    fn what_it_has_left_itself_is_not_in_the_way() {
        for (kind, put) in KINDS {
            let disk = empty(64);
            put(&disk, 0, 60 * MIB);
            put_ufs(&disk, Format::Ufs2, 0, 20 * MIB);
            assert_eq!(added(&disk, 0..20 * MIB, 64 * MIB), None, "replaced: {kind}");
            assert_eq!(new(&disk, 30 * MIB..40 * MIB), None, "replaced: {kind}");
            // It has an image as a file, which went on behind its end when it was larger.
            let disk = empty(64);
            put_ufs(&disk, Format::Ufs2, 0, 20 * MIB);
            put(&disk, 10 * MIB, 40 * MIB);
            assert_eq!(added(&disk, 0..20 * MIB, 64 * MIB), None, "its own file: {kind}");
        }
    }

    /// Promise: an image that lies as a file in a file system before is not taken for one that goes
    /// on behind the end of that; what has left traces behind it is one.
    #[test]
    fn contents_of_others_are_not_in_the_way() {
        for (kind, put) in KINDS {
            let disk = empty(96);
            put_ufs(&disk, Format::Ufs2, 512, 20 * MIB);
            put(&disk, 10 * MIB, 60 * MIB);
            if !kind.contains("v7") {
                assert!(new(&disk, 30 * MIB..90 * MIB).is_some(), "{kind}");
            }
            let end = 20 * MIB + 512;
            disk.write_at(end, &vec![0; usize::try_from(96 * MIB - end).unwrap()]).unwrap();
            assert_eq!(new(&disk, 30 * MIB..90 * MIB), None, "{kind}");
        }
    }

    /// Promise: the content of a file system that begins too far before to be searched is none of
    /// its own either.
    #[test]
    fn contents_of_far_ones_are_not_in_the_way() {
        let disk = empty(96);
        put_ext(&disk, 0, 60 * MIB);
        put_ufs(&disk, Format::Ufs2, 50 * MIB + 512, 20 * MIB);
        disk.write_at(60 * MIB, &vec![0; 36 << 20]).unwrap();
        // Only what is known of the beginning says so: the search begins behind it.
        let owners = known(&disk).unwrap();
        assert_eq!(owners.len(), 1);
        let image = Owner::new(50 * MIB + 512, Some(20 * MIB), "a UFS2", 50 * MIB + 512 + (64 << 10), false);
        assert!(image.is_within(&owners[0]));
        assert_eq!(new(&disk, 61 * MIB..90 * MIB), None);
    }

    /// Promise: in front of a disk without a label, and in each partition, also what this program
    /// does not read is found; what lies before the partitions of a table is not.
    #[test]
    fn what_begins_at_known_places_is_found() {
        let disk = empty(64);
        put_ext(&disk, 0, 60 * MIB);
        let found = known_in(&disk, &(40 * MIB..50 * MIB)).unwrap();
        assert_eq!(found.as_deref(), Some("an ext4 file system at byte 0"));
        assert_eq!(known_in(&disk, &(61 * MIB..64 * MIB)).unwrap(), None);
        // A table with a partition of 30 MiB at 1 MiB.
        let mut table = [0; 512];
        table[446 + 4] = 0x83;
        table[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
        table[446 + 12..446 + 16].copy_from_slice(&61_440_u32.to_le_bytes());
        table[510..].copy_from_slice(&[0x55, 0xaa]);
        disk.write_at(0, &table).unwrap();
        assert_eq!(known_in(&disk, &(40 * MIB..50 * MIB)).unwrap(), None);
        put_ext(&disk, MIB, 30 * MIB);
        let found = known_in(&disk, &(20 * MIB..50 * MIB)).unwrap();
        assert_eq!(found.as_deref(), Some("an ext4 file system at byte 1048576"));
    }
}
