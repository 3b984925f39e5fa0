//! The partition table of Ultrix: the last 72 bytes of the first superblock of the disk.
//!
//! Eight partitions, `a` to `h`, of which `c` is the disk. The usual tables divide the same space
//! in several ways, so partitions may overlap. Source: Linux `block/partitions/ultrix.c`.

use super::{Label, Partition, Scheme, bytes_at};
use crate::{Device, Result};
use spindle_ondisk::{Endian, structure};

structure! {
    /// The table.
    struct UltrixLabel: 72 {
        /// [`PT_MAGIC`].
        0 pt_magic: u32,
        /// [`PT_VALID`].
        4 pt_valid: u32,
        /// Length and first sector of each partition.
        8 pt_part: [u32; 16],
    }
}

const PT_MAGIC: u32 = 0x03_2957;
const PT_VALID: u32 = 1;
/// Byte of the disk behind the table.
const END: u64 = 16384;
/// Sector size in bytes.
const SECTOR_BYTES: u64 = 512;

/// Returns the partitions of the disk, if it has a table of Ultrix.
pub(super) fn read(device: &dyn Device) -> Result<Option<Label>> {
    let Some(bytes) = bytes_at(device, END - UltrixLabel::SIZE as u64, UltrixLabel::SIZE)? else {
        return Ok(None);
    };
    let table = UltrixLabel::decode(&bytes, Endian::Little);
    if (table.pt_magic, table.pt_valid) != (PT_MAGIC, PT_VALID) {
        return Ok(None);
    }
    let mut label = Label::default();
    for (entry, letter) in table.pt_part.chunks_exact(2).zip('a'..) {
        let (nblocks, blkoff) = (u64::from(entry[0]), u64::from(entry[1]));
        if nblocks == 0 {
            continue;
        }
        label.partitions.push(Partition {
            name: letter.to_string(),
            scheme: Scheme::Ultrix,
            start_bytes: blkoff * SECTOR_BYTES,
            size_bytes: nblocks * SECTOR_BYTES,
            kind: "untagged".to_owned(),
            label: None,
            missing_bytes: 0,
            problem: None,
        });
    }
    Ok(Some(label))
}
