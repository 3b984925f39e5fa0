//! The label of NEXTSTEP and OPENSTEP at the start of a disk or CD-ROM, always big-endian.
//!
//! Up to eight partitions, `a` to `h`, in sectors of the size that the label names, counted from
//! the end of the "front porch", which has the label and the boot program. Sources: `NetBSD`
//! `sys/sys/bootblock.h` and `sys/arch/next68k/next68k/disksubr.c`.

use super::{Label, Partition, Scheme, apple::text, bytes_at, mark_overlaps};
use crate::{Device, Result};
use spindle_ondisk::{Endian, structure};

structure! {
    /// The fields of the label that locate partitions.
    struct NextLabel: 558 {
        /// One of [`VERSIONS`].
        0 cd_version: u32,
        /// Name of the disk.
        12 cd_label: [u8; 24],
        /// Bytes in a sector.
        92 cd_secsize: i32,
        /// Sectors of the front porch.
        112 cd_front: i16,
        /// The partitions.
        190 cd_partitions: [u8; 368],
    }
}

structure! {
    /// A partition.
    struct NextPartition: 46 {
        /// First sector behind the front porch.
        0 cp_offset: i32,
        /// Number of sectors; not positive if there is none.
        4 cp_size: i32,
        /// Type of the content.
        37 cp_type: [u8; 8],
    }
}

/// The letters `NeXT`, `dlV2` and `dlV3`.
const VERSIONS: [u32; 3] = [0x4e65_5854, 0x646c_5632, VERSION_3];
const VERSION_3: u32 = 0x646c_5633;
/// Place of the checksum in version 3, and in the earlier ones, behind a table of bad blocks.
const CHECKSUM_3: usize = 558;
const CHECKSUM: usize = 7238;

/// Returns the partitions of the disk, if it has a label of NEXTSTEP.
pub(super) fn read(device: &dyn Device) -> Result<Option<Label>> {
    let Some(bytes) = bytes_at(device, 0, CHECKSUM + 2)? else {
        return Ok(None);
    };
    let next = NextLabel::decode(&bytes, Endian::Big);
    if !VERSIONS.contains(&next.cd_version) {
        return Ok(None);
    }
    let mut label = Label::default();
    let at = if next.cd_version == VERSION_3 { CHECKSUM_3 } else { CHECKSUM };
    let wanted = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let secsize = u64::try_from(next.cd_secsize).unwrap_or(0);
    if sum(&bytes[..at]) != wanted {
        label.notes.push("a NeXT label with a wrong checksum was ignored".to_owned());
        return Ok(Some(label));
    }
    if !(512..=65536).contains(&secsize) || !secsize.is_power_of_two() {
        label.notes.push(format!("a NeXT label with sectors of {} bytes was ignored", next.cd_secsize));
        return Ok(Some(label));
    }
    let name = text(&next.cd_label);
    for (bytes, letter) in next.cd_partitions.chunks_exact(NextPartition::SIZE).zip('a'..) {
        let entry = NextPartition::decode(bytes, Endian::Big);
        let Some(size) = u64::try_from(entry.cp_size).ok().filter(|&size| size > 0) else {
            continue;
        };
        let first = i64::from(next.cd_front) + i64::from(entry.cp_offset);
        let mut partition = Partition {
            name: letter.to_string(),
            scheme: Scheme::Next,
            start_bytes: u64::try_from(first).unwrap_or(0) * secsize,
            size_bytes: size * secsize,
            kind: text(&entry.cp_type),
            label: (!name.is_empty()).then(|| name.clone()),
            missing_bytes: 0,
            problem: None,
        };
        if first < 0 {
            partition.set_problem(|| "it begins before the disk".to_owned());
        }
        label.partitions.push(partition);
    }
    mark_overlaps(label.partitions.iter_mut());
    Ok(Some(label))
}

/// Returns the checksum of a label: the sum of its 16-bit words, with what is carried out of them
/// added once.
fn sum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    u16::try_from((sum + (sum >> 16)) & 0xffff).unwrap_or(0)
}
