//! The BSD disklabel, on a bare disk or in a slice, in either byte order.
//!
//! One structure with three interpretations. The offsets in the table count sectors of `d_secsize`
//! bytes: from the start of the disk in `NetBSD` and `OpenBSD`, from the offset of the raw
//! partition `c` in `FreeBSD` (whose GEOM subtracts it, `sys/geom/part/g_part_bsd.c`). `OpenBSD`
//! stores the high 16 bits of each size and offset in place of `p_fsize`, and marks this by version
//! 1 at byte 114 (`OpenBSD` `sys/sys/disklabel.h`).
//!
//! Sources: `FreeBSD` `sys/sys/disk/bsd.h`, `NetBSD` and `OpenBSD` `sys/sys/disklabel.h`.

use super::{Host, Label, Partition, Scheme, bytes_at, mark_outside, mark_overlaps};
use crate::{Device, Result};
use spindle_ondisk::{Endian, structure};

structure! {
    /// The fields of the label that locate partitions, without the table.
    struct Disklabel: 148 {
        /// [`DISKMAGIC`].
        0 d_magic: u32,
        /// Bytes per sector.
        40 d_secsize: u32,
        /// 1 if `OpenBSD` wrote the high bits too.
        114 d_version: u16,
        /// [`DISKMAGIC`] again.
        132 d_magic2: u32,
        /// Makes the exclusive or of all 16-bit words zero.
        136 d_checksum: u16,
        /// Number of partitions in the table, which follows.
        138 d_npartitions: u16,
    }
}

structure! {
    /// A partition of the table; the high bits are `OpenBSD`'s.
    struct BsdPartition: 16 {
        /// Size in sectors.
        0 p_size: u32,
        /// First sector.
        4 p_offset: u32,
        /// High bits of `p_offset`.
        8 p_offseth: u16,
        /// High bits of `p_size`.
        10 p_sizeh: u16,
        /// Type of the content.
        12 p_fstype: u8,
    }
}

const DISKMAGIC: u32 = 0x8256_4557;
/// `OpenBSD`'s maximum number of partitions, the largest, for which there are enough letters.
const MAX_PARTITIONS: usize = 52;
/// Index of the partition that is the whole slice or disk.
const RAW_PART: usize = 2;
/// Type of an entry without a file system: the raw partition, or one that others subdivide.
const FS_UNUSED: u8 = 0;
/// Offsets of the label, by machine: the second sector (i386, amd64, arm, hp300 …), within the
/// first one (64 on VAX, Alpha, MIPS; 128 on SPARC), or after larger sectors.
const PLACES: [u64; 6] = [512, 64, 128, 0, 2048, 4096];

/// The location of a label, which determines the origin of its sector numbers: the start of the
/// disk, or the first sector of its partition `c`. The shape of `c` overrides this if it is
/// unambiguous: if `c` begins at 0 and has no more sectors than the slice, the origin is the slice;
/// with more, it is the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbering {
    /// In a slice of `FreeBSD`'s type: the origin is `c`.
    Relative,
    /// In a slice of another type: the origin is the start of the disk.
    Absolute,
    /// On the bare disk: the origin is its start, unless `c` then extends beyond the end, as in a
    /// copy of a slice without its disk.
    Bare,
}

/// Returns true if the bare disk has a label.
pub(super) fn is_labelled(device: &dyn Device) -> Result<bool> {
    Ok(locate(device, 0, device.info().size_bytes)?.is_some())
}

/// A label with its byte order; `bytes` extends to the end of the table.
struct Raw {
    bytes: Vec<u8>,
    endian: Endian,
    head: Disklabel,
    places: usize,
}

/// Searches for a label at the start of the `size` bytes at `start`.
fn locate(device: &dyn Device, start: u64, size: u64) -> Result<Option<Raw>> {
    for place in PLACES {
        // Read the whole table if it fits; a label at the very end may be shorter.
        let room = usize::try_from(size.saturating_sub(place)).unwrap_or(usize::MAX);
        let len = room.min(Disklabel::SIZE + MAX_PARTITIONS * BsdPartition::SIZE);
        if len < Disklabel::SIZE {
            continue;
        }
        let Some(mut bytes) = bytes_at(device, start + place, len)? else {
            continue;
        };
        for endian in [Endian::Little, Endian::Big] {
            let head = Disklabel::decode(&bytes, endian);
            if (head.d_magic, head.d_magic2) == (DISKMAGIC, DISKMAGIC) {
                let places = (bytes.len() - Disklabel::SIZE) / BsdPartition::SIZE;
                let places = places.min(usize::from(head.d_npartitions));
                bytes.truncate(Disklabel::SIZE + places * BsdPartition::SIZE);
                return Ok(Some(Raw { bytes, endian, head, places }));
            }
        }
    }
    Ok(None)
}

/// Returns the partitions of the label in `host`, named `prefix` and a letter.
pub(super) fn read(
    device: &dyn Device,
    host: Host,
    numbering: Numbering,
    prefix: &str,
) -> Result<Option<Label>> {
    let Some(Raw { bytes, endian, head, places }) = locate(device, host.start, host.size)? else {
        return Ok(None);
    };
    let mut label = Label::default();
    let whose = if prefix.is_empty() { "of the disk".to_owned() } else { format!("in {prefix}") };
    let secsize = u64::from(head.d_secsize);
    if !(512..=65536).contains(&secsize) || !secsize.is_power_of_two() {
        label.notes.push(format!("the BSD disklabel {whose} has sectors of {secsize} bytes and was ignored"));
        return Ok(Some(label));
    }
    if places < usize::from(head.d_npartitions) {
        label.notes.push(format!(
            "the BSD disklabel {whose} claims {} partitions, more than fit",
            head.d_npartitions
        ));
    }
    let sum = bytes.chunks_exact(2).fold(0, |sum, word| sum ^ u16::from_ne_bytes([word[0], word[1]]));
    let entries: Vec<BsdPartition> = bytes[Disklabel::SIZE..]
        .chunks_exact(BsdPartition::SIZE)
        .map(|entry| BsdPartition::decode(entry, endian))
        .collect();
    let high = |bits: u16| if head.d_version == 1 { u64::from(bits) << 32 } else { 0 };
    let extent = |entry: &BsdPartition| {
        (high(entry.p_offseth) | u64::from(entry.p_offset), high(entry.p_sizeh) | u64::from(entry.p_size))
    };
    let raw = entries.get(RAW_PART).map_or((0, 0), extent);
    let sectors = host.size / secsize;
    let relative = match (numbering, raw) {
        (Numbering::Bare, (offset, size)) => offset + size > sectors,
        (_, (0, size @ 1..)) => size <= sectors,
        (numbering, _) => numbering == Numbering::Relative,
    };
    // Sector `origin` of the label is byte `base` of the disk.
    let (origin, base) = if relative { (raw.0, host.start) } else { (0, 0) };
    let is_inside = relative && !prefix.is_empty();
    let container = if is_inside { prefix } else { "the disk" };
    let mut unused = Vec::new();
    for (entry, letter) in entries.iter().zip(('a'..='z').chain('A'..='Z')) {
        let (offset, size) = extent(entry);
        if size == 0 {
            continue;
        }
        let mut partition = Partition {
            name: format!("{prefix}{letter}"),
            scheme: Scheme::Bsd,
            start_bytes: offset.saturating_sub(origin).saturating_mul(secsize).saturating_add(base),
            size_bytes: size.saturating_mul(secsize),
            kind: kind(entry.p_fstype),
            label: None,
            missing_bytes: 0,
            problem: None,
        };
        if sum != 0 {
            partition.set_problem(|| "the checksum of its disklabel is wrong".to_owned());
        }
        if offset < origin {
            partition.set_problem(|| format!("it begins before {container}"));
        }
        unused.push(entry.p_fstype == FS_UNUSED);
        label.partitions.push(partition);
    }
    if is_inside {
        mark_outside(label.partitions.iter_mut(), host.start, host.start + host.size, container);
    }
    let used = label.partitions.iter_mut().zip(unused).filter(|(_, unused)| !unused).map(|(p, _)| p);
    mark_overlaps(used);
    Ok(Some(label))
}

/// Returns the name of a partition's type; above 13 the systems agree on few.
fn kind(fstype: u8) -> String {
    match fstype {
        FS_UNUSED => "unused",
        1 => "swap",
        2 => "Sixth Edition",
        3 => "Seventh Edition",
        4 => "System V",
        5 => "4.1BSD",
        6 => "Eighth Edition",
        7 => "4.2BSD",
        8 => "FAT",
        9 => "4.4LFS",
        10 => "other",
        11 => "HPFS",
        12 => "ISO 9660",
        13 => "boot",
        17 => "ext2",
        18 => "NTFS",
        27 => "ZFS",
        _ => return format!("type {fstype}"),
    }
    .to_owned()
}
