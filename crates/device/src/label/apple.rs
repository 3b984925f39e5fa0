//! Apple's partition map: a descriptor of the disk in its first block, then a block for each
//! partition, always big-endian.
//!
//! Blocks have the size that the descriptor names; discs that serve two kinds of drive have a map
//! in blocks of 512 bytes as well. Sources: Linux `block/partitions/mac.c` and `mac.h`.

use super::{Label, Partition, Scheme, bytes_at, mark_overlaps};
use crate::{Device, Result};
use spindle_ondisk::{Endian, structure};

structure! {
    /// The descriptor of the disk (`mac_driver_desc`).
    struct DriverDescriptor: 8 {
        /// [`DRIVER_MAGIC`].
        0 signature: u16,
        /// Bytes in a block.
        2 block_size: u16,
    }
}

structure! {
    /// A partition (`mac_partition`).
    struct MapEntry: 80 {
        /// [`PARTITION_MAGIC`].
        0 signature: u16,
        /// Number of partitions in the map.
        4 map_count: u32,
        /// First block.
        8 start_block: u32,
        /// Length in blocks.
        12 block_count: u32,
        /// Name of the partition.
        16 name: [u8; 32],
        /// Type of the content.
        48 kind: [u8; 32],
    }
}

/// The letters `ER`.
const DRIVER_MAGIC: u16 = 0x4552;
/// The letters `PM`.
const PARTITION_MAGIC: u16 = 0x504d;
/// Most partitions that are read (`DISK_MAX_PARTS`).
const MAX_PARTITIONS: u32 = 256;
/// Block size of a disk that names none.
const SECTOR_BYTES: u64 = 512;
/// Type of space that nobody has, which may lie anywhere.
const FREE: &str = "Apple_Free";

/// Returns the partitions of the disk, if it has a map.
pub(super) fn read(device: &dyn Device) -> Result<Option<Label>> {
    let Some(bytes) = bytes_at(device, 0, DriverDescriptor::SIZE)? else {
        return Ok(None);
    };
    let descriptor = DriverDescriptor::decode(&bytes, Endian::Big);
    if descriptor.signature != DRIVER_MAGIC {
        return Ok(None);
    }
    for block in [u64::from(descriptor.block_size), SECTOR_BYTES] {
        if block >= SECTOR_BYTES
            && block.is_multiple_of(SECTOR_BYTES)
            && let Some(first) = entry(device, 1, block)?
        {
            return read_map(device, &first, block).map(Some);
        }
    }
    Ok(None)
}

/// Returns the entry in block `number`, if one is there.
fn entry(device: &dyn Device, number: u64, block: u64) -> Result<Option<MapEntry>> {
    let bytes = bytes_at(device, number * block, MapEntry::SIZE)?;
    let entry = bytes.map(|bytes| MapEntry::decode(&bytes, Endian::Big));
    Ok(entry.filter(|entry| entry.signature == PARTITION_MAGIC))
}

fn read_map(device: &dyn Device, first: &MapEntry, block: u64) -> Result<Label> {
    let mut label = Label::default();
    if first.map_count > MAX_PARTITIONS {
        let count = first.map_count;
        label
            .notes
            .push(format!("the Apple partition map claims {count} partitions; {MAX_PARTITIONS} are read"));
    }
    for number in 1..=first.map_count.min(MAX_PARTITIONS) {
        let Some(found) = entry(device, number.into(), block)? else {
            label.notes.push(format!("the Apple partition map ends before partition {number}"));
            break;
        };
        let name = text(&found.name);
        label.partitions.push(Partition {
            name: format!("p{number}"),
            scheme: Scheme::Apple,
            start_bytes: u64::from(found.start_block) * block,
            size_bytes: u64::from(found.block_count) * block,
            kind: text(&found.kind),
            label: (!name.is_empty()).then_some(name),
            missing_bytes: 0,
            problem: None,
        });
    }
    mark_overlaps(label.partitions.iter_mut().filter(|p| p.kind != FREE));
    Ok(label)
}

/// Returns the text in a field that a NUL ends, with what cannot be printed replaced.
pub(super) fn text(field: &[u8]) -> String {
    let len = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    let plain = |&byte: &u8| if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '?' };
    field[..len].iter().map(plain).collect()
}
