//! File systems that this program does not read, anywhere on a disk: where one begins and ends of
//! which a sector shows a magic number, at its usual place or in a copy of its superblock.

use super::{EXT2, EXT3, EXT4, Foreign, Magic, START_BYTES, Sort, TABLE, ZFS, recognise_start};
use spindle_device::Device;

/// Bytes of a sector, the smallest of any device.
const SECTOR: usize = 512;
/// Magic number of the superblocks of ext2 to ext4, and its place in them.
const EXT: Magic = Magic(56, b"\x53\xef");
/// First byte of the first ring of superblocks of ZFS, and the distance of its places.
const UBERBLOCKS: (usize, usize) = (128 << 10, 1 << 10);

/// What says how long a file system is, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Ext,
    Xfs,
    Btrfs,
    Squashfs,
    Ntfs,
    ExFat,
    Fat,
    /// The bytes of a page.
    Swap(u64),
    Iso,
    Lvm,
    /// Nothing that is looked at.
    Unknown,
}

/// A file system that was found on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    /// Its first byte on the disk.
    pub at: u64,
    /// Its length in bytes, where that is known.
    pub len: Option<u64>,
    /// What it is, with an article.
    pub name: &'static str,
    /// True if only a copy of its superblock was found, and not what it should begin with.
    pub is_copy: bool,
}

/// Returns the number of `N` bytes at byte `at` of a structure, the least significant one first.
fn le<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(N)?)?;
    Some(field.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

/// Returns the number of `N` bytes at byte `at` of a structure, the most significant one first.
fn be<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(N)?)?;
    Some(field.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

impl Layout {
    /// Returns the first byte of the structure with the length, from the beginning of the file
    /// system on.
    const fn structure(self) -> usize {
        match self {
            Self::Ext | Self::Swap(_) => 1 << 10,
            Self::Btrfs => 64 << 10,
            Self::Iso => 32 << 10,
            Self::Lvm => 512,
            _ => 0,
        }
    }

    /// Returns the length that this structure says, in bytes.
    fn len(self, bytes: &[u8]) -> Option<u64> {
        match self {
            // s_blocks_count_lo, and of 64 bits (s_feature_incompat) s_blocks_count_hi.
            Self::Ext => {
                let is_wide = le::<4>(bytes, 96)? & 0x80 != 0;
                let high = if is_wide { le::<4>(bytes, 336).unwrap_or_default() } else { 0 };
                (high << 32 | le::<4>(bytes, 4)?).checked_mul(ext_block(bytes)?)
            }
            // sb_dblocks, sb_blocksize
            Self::Xfs => be::<8>(bytes, 8)?.checked_mul(be::<4>(bytes, 4)?),
            // dev_item.total_bytes, of this device
            Self::Btrfs => le::<8>(bytes, 209),
            Self::Squashfs => le::<8>(bytes, 40),
            // The sectors of the volume, and one more with a copy of the first.
            Self::Ntfs => le::<8>(bytes, 40)?.checked_add(1)?.checked_mul(le::<2>(bytes, 11)?),
            Self::ExFat => {
                let shift = u32::from(*bytes.get(108)?);
                le::<8>(bytes, 72)?.checked_mul(1_u64.checked_shl(shift)?)
            }
            Self::Fat => {
                let sectors = le::<2>(bytes, 19).filter(|&few| few > 0).or_else(|| le::<4>(bytes, 32))?;
                sectors.checked_mul(le::<2>(bytes, 11)?)
            }
            // last_page
            Self::Swap(page) => le::<4>(bytes, 4)?.checked_add(1)?.checked_mul(page),
            // Volume space size, logical block size
            Self::Iso => le::<4>(bytes, 80)?.checked_mul(le::<2>(bytes, 128)?),
            // The header follows at offset_xl: its identity, then device_size_xl.
            Self::Lvm => le::<8>(bytes, usize::try_from(le::<4>(bytes, 20)?).ok()?.checked_add(32)?),
            Self::Unknown => None,
        }
    }

    /// Returns the first byte of the file system that the sector at byte `at` of a disk belongs to,
    /// which shows a magic number whose usual place is `usual` bytes behind the beginning.
    fn origin(self, disk: &dyn Device, at: u64, usual: u64, sector: &[u8]) -> Option<u64> {
        let before = match self {
            // s_block_group_nr, s_blocks_per_group, s_first_data_block
            Self::Ext => match le::<2>(sector, 90)? {
                0 => usual,
                group => group
                    .checked_mul(le::<4>(sector, 32)?)?
                    .checked_add(le::<4>(sector, 20)?)?
                    .checked_mul(ext_block(sector)?)?,
            },
            // agf_magicnum and agf_seqno in the next sector; sb_sectsize, sb_agblocks, sb_blocksize
            Self::Xfs => {
                let agf = usize::try_from(be::<2>(sector, 102)?).ok()?;
                match sector.get(agf..agf.checked_add(4)?) {
                    Some(b"XAGF") => be::<4>(sector, agf + 8)?
                        .checked_mul(be::<4>(sector, 84)?)?
                        .checked_mul(be::<4>(sector, 4)?)?,
                    _ => 0,
                }
            }
            // bytenr
            Self::Btrfs => le::<8>(sector, 48)?,
            // A copy stands behind the end. The table of files is only where the first one says.
            Self::Ntfs => {
                let bytes = le::<2>(sector, 11)?;
                let clusters = le::<8>(sector, 48)?;
                let table = clusters.checked_mul(u64::from(*sector.get(13)?))?.checked_mul(bytes)?;
                if has_table(disk, at.checked_add(table)?) {
                    0
                } else {
                    le::<8>(sector, 40)?.checked_mul(bytes)?
                }
            }
            _ => usual,
        };
        // A place in front of the disk is damage: what stands here begins here then.
        at.checked_sub(before).or_else(|| at.checked_sub(usual))
    }
}

/// Returns true if the table of files of NTFS may stand at byte `at` of a disk.
fn has_table(disk: &dyn Device, at: u64) -> bool {
    let mut sector = vec![0; disk.info().sector_bytes as usize];
    let is_there = at.checked_add(sector.len() as u64).is_some_and(|end| end <= disk.info().size_bytes);
    // What cannot be read may be one.
    is_there && (disk.read_at(at, &mut sector).is_err() || sector.starts_with(b"FILE"))
}

/// Returns the bytes of a block of a superblock of ext2 to ext4.
fn ext_block(superblock: &[u8]) -> Option<u64> {
    1024_u64.checked_shl(u32::try_from(le::<4>(superblock, 24)?).ok()?)
}

/// Returns which of ext2 to ext4 has this superblock; none if it is none: its magic number is too
/// short to say it.
pub(super) fn ext(superblock: &[u8]) -> Option<&'static Foreign> {
    let Magic(at, magic) = EXT;
    if !superblock.get(at..)?.starts_with(magic) {
        return None;
    }
    let is_within = |at: usize, least: u64, most: u64| {
        le::<4>(superblock, at).is_some_and(|number| (least..=most).contains(&number))
    };
    // s_rev_level, s_log_block_size, s_first_data_block, s_inodes_count, s_blocks_count_lo; the
    // inodes of a group have a bit each in one block.
    let inodes_most = ext_block(superblock).unwrap_or_default().saturating_mul(8);
    let is_possible = is_within(76, 0, 1)
        && is_within(24, 0, 6)
        && is_within(20, 0, 1)
        && is_within(0, 1, u32::MAX.into())
        && is_within(4, 1, u32::MAX.into())
        && is_within(32, 1, u32::MAX.into())
        && is_within(40, 1, inodes_most);
    // s_feature_incompat: extents, 64-bit, flexible groups; s_feature_compat: journal.
    let (compat, incompat) = (le::<4>(superblock, 92)?, le::<4>(superblock, 96)?);
    is_possible.then_some(if incompat & 0x02c0 != 0 {
        &EXT4
    } else if compat & 4 != 0 {
        &EXT3
    } else {
        &EXT2
    })
}

/// Returns true if the start of a device has a superblock of ZFS, in any place of its first ring.
pub(super) fn is_zfs(start: &[u8]) -> bool {
    let (first, step) = UBERBLOCKS;
    (first..START_BYTES).step_by(step).any(|at| start.get(at..).is_some_and(is_uberblock))
}

fn is_uberblock(bytes: &[u8]) -> bool {
    let magic = bytes.get(..8);
    magic == Some(&0x00ba_b10c_u64.to_le_bytes()) || magic == Some(&0x00ba_b10c_u64.to_be_bytes())
}

/// Returns what may have the sector that these bytes begin with, from its magic number, and the
/// usual place of the sector behind the beginning.
fn candidate(sector: &[u8]) -> Option<(&'static Foreign, usize)> {
    let shows =
        |&Magic(at, bytes): &Magic| sector.get(at % SECTOR..).is_some_and(|rest| rest.starts_with(bytes));
    let row = |(magics, foreign): &'static super::Row| {
        let Magic(first, _) = magics.first()?;
        let is_volume = matches!(foreign.sort, Sort::Volume(_));
        (is_volume && magics.iter().all(shows)).then_some((foreign, first / SECTOR * SECTOR))
    };
    TABLE
        .iter()
        .find_map(row)
        .or_else(|| ext(sector).map(|found| (found, Layout::Ext.structure())))
        .or_else(|| is_uberblock(sector).then_some((&ZFS, UBERBLOCKS.0)))
}

/// Returns the file system that a sector of a disk belongs to, if it shows a magic number of one.
/// `bytes` begin with the sector, which is at byte `at` of the disk.
pub(crate) fn volume_with(disk: &dyn Device, at: u64, bytes: &[u8]) -> Option<Volume> {
    let (foreign, usual) = candidate(bytes)?;
    let Sort::Volume(layout) = foreign.sort else { return None };
    let start = layout.origin(disk, at, usual as u64, bytes)?;
    let found = found_at(disk, start).filter(|(found, _)| *found == layout).map(|(_, found)| found);
    found.or_else(|| {
        let has_copies = matches!(layout, Layout::Ext | Layout::Xfs | Layout::Btrfs | Layout::Ntfs);
        let copy = || Volume { at: start, len: layout.len(bytes), name: foreign.name, is_copy: true };
        has_copies.then(copy)
    })
}

/// Returns the file system that begins at byte `at` of a disk, if it is one that this program does
/// not read.
pub(crate) fn volume_at(disk: &dyn Device, at: u64) -> Option<Volume> {
    found_at(disk, at).map(|(_, found)| found)
}

fn found_at(disk: &dyn Device, at: u64) -> Option<(Layout, Volume)> {
    let left = disk.info().size_bytes.checked_sub(at)?;
    let whole = usize::try_from(left).unwrap_or(START_BYTES).min(START_BYTES);
    let mut start = vec![0; whole / disk.info().sector_bytes as usize * disk.info().sector_bytes as usize];
    disk.read_at(at, &mut start).ok()?;
    let foreign = recognise_start(&start)?;
    let Sort::Volume(layout) = foreign.sort else { return None };
    let len = start.get(layout.structure()..).and_then(|bytes| layout.len(bytes));
    Some((layout, Volume { at, len, name: foreign.name, is_copy: false }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_device::MemoryDevice;

    const MIB: u64 = 1 << 20;

    /// Bytes at a place behind the beginning of a file system.
    type Piece<'a> = (usize, &'a [u8]);

    /// Returns a disk that has these bytes, each at its place, behind its first mebibyte.
    fn disk(pieces: &[Piece<'_>]) -> MemoryDevice {
        let disk = MemoryDevice::new(8 * MIB);
        for (at, bytes) in pieces {
            let sector = at / SECTOR * SECTOR;
            let mut held = vec![0; (at - sector + bytes.len()).next_multiple_of(SECTOR)];
            disk.read_at(MIB + sector as u64, &mut held).unwrap();
            held[at - sector..at - sector + bytes.len()].copy_from_slice(bytes);
            disk.write_at(MIB + sector as u64, &held).unwrap();
        }
        disk
    }

    fn at(disk: &MemoryDevice, at: u64) -> Option<Volume> {
        let mut bytes = vec![0; 8192];
        disk.read_at(MIB + at, &mut bytes).unwrap();
        volume_with(disk, MIB + at, &bytes)
    }

    /// Promise: of each file system with a length in it, the sector with its magic number shows
    /// where it begins and how long it is.
    #[test]
    fn lengths_are_known() {
        let boot: Piece<'_> = (510, b"\x55\xaa");
        let bytes = (11, &[0, 2][..]);
        let cases: [(u64, u64, &[Piece<'_>]); 10] = [
            (0, 1000 * 4096, &[(0, b"XFSB\0\0\x10\0"), (8, &[0, 0, 0, 0, 0, 0, 3, 0xe8])]),
            (
                65536,
                0x0050_0000,
                &[(65584, &65536_u64.to_le_bytes()), (65600, b"_BHRfS_M"), (65536 + 209, b"\0\0\x50")],
            ),
            (0, 0x0012_3456, &[(0, b"hsqs"), (40, b"\x56\x34\x12")]),
            (
                0,
                1001 * 512,
                &[(3, b"NTFS    "), bytes, (13, &[8]), (48, &[4]), (40, &[0xe8, 3]), (16384, b"FILE")],
            ),
            (0, 1000 << 9, &[(3, b"EXFAT   "), (72, &[0xe8, 3]), (108, &[9])]),
            (0, 1000 * 512, &[(82, b"FAT32   "), bytes, (32, &[0xe8, 3]), boot]),
            (0, 1000 * 512, &[(54, b"FAT16   "), bytes, (19, &[0xe8, 3]), boot]),
            (3584, 1000 * 4096, &[(4086, b"SWAPSPACE2"), (1028, &[0xe7, 3])]),
            (32768, 1000 * 2048, &[(32769, b"CD001"), (32768 + 80, &[0xe8, 3]), (32768 + 128, &[0, 8])]),
            (
                512,
                4 * MIB,
                &[(512, b"LABELONE"), (532, &[32]), (536, b"LVM2 001"), (512 + 64, &[0, 0, 0x40])],
            ),
        ];
        for (sector, len, pieces) in cases {
            let disk = disk(pieces);
            let found = at(&disk, sector).unwrap_or_else(|| panic!("{pieces:x?}"));
            assert_eq!((found.at, found.len, found.is_copy), (MIB, Some(len), false), "{}", found.name);
            assert_eq!(volume_at(&disk, MIB), Some(found));
        }
        let luks = disk(&[(0, b"LUKS\xba\xbe")]);
        assert_eq!(at(&luks, 0).map(|found| (found.at, found.len)), Some((MIB, None)));
        let pool = disk(&[((128 << 10) + 2048, &0x00ba_b10c_u64.to_le_bytes())]);
        assert_eq!(at(&pool, 130 << 10).map(|found| found.name), Some(ZFS.name));
    }

    /// Promise: a copy of a superblock shows where its file system begins, with that and without.
    #[test]
    fn copies_know_their_beginning() {
        let group = 3 * MIB;
        let ag = usize::try_from(group).unwrap();
        let xfs: [u8; 16] = [*b"XFSB", [0, 0, 16, 0], [0; 4], [0, 0, 3, 0xe8]].concat().try_into().unwrap();
        let blocks = [0, 0, 1, 0];
        // Group 3 of allocation groups of 256 blocks of 4 KiB.
        let copy: [Piece<'_>; 5] = [
            (ag, &xfs),
            (ag + 84, &blocks),
            (ag + 102, &[2, 0]),
            (ag + 512, b"XAGF"),
            (ag + 520, &[0, 0, 0, 3]),
        ];
        let found =
            |disk: &MemoryDevice, place| at(disk, place).map(|found| (found.at, found.len, found.is_copy));
        assert_eq!(found(&disk(&copy), group), Some((MIB, Some(1000 * 4096), true)));
        let whole = disk(&[&copy[..], &[(0, &xfs)]].concat());
        assert_eq!(found(&whole, group), Some((MIB, Some(1000 * 4096), false)));
        // The last sector of NTFS, of 1000 and one, whose first is lost: no table of files is where
        // one behind it would say.
        let last = 1000 * SECTOR;
        let ntfs: [Piece<'_>; 5] = [
            (last + 3, b"NTFS    "),
            (last + 11, &[0, 2]),
            (last + 13, &[8]),
            (last + 48, &[4]),
            (last + 40, &[0xe8, 3]),
        ];
        assert_eq!(found(&disk(&ntfs), last as u64), Some((MIB, Some(1001 * 512), true)));
        // A first one that has lost its table of files, on a disk with no room before it.
        let mut first = ntfs.map(|(at, bytes)| (at - last, bytes));
        first[4].1 = &[0, 0, 0, 1];
        assert_eq!(found(&disk(&first), 0), Some((MIB, Some(((1 << 24) + 1) * 512), false)));
    }

    /// Promise: what only has the two bytes of the magic number of ext2 is none.
    #[test]
    fn two_bytes_are_no_ext2() {
        let mut superblock = vec![0xa5; 1024];
        superblock[56..58].copy_from_slice(b"\x53\xef");
        superblock[76..80].fill(0);
        assert_eq!(ext(&superblock), None);
    }
}
