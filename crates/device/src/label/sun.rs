//! The Sun label: sector 0 of SPARC and 68000 disks, always big-endian.
//!
//! Up to eight partitions, `a` to `h`, begin on whole cylinders; `c` is the disk. Newer labels have
//! a table of tags (part of a VTOC) with the content of each. Sources: `FreeBSD`
//! `sys/sys/sun_disklabel.h`, `NetBSD` `sys/dev/sun/disklabel.h`.

use super::{Label, Partition, Scheme, bytes_at, mark_overlaps};
use crate::{Device, Result};
use spindle_ondisk::{Endian, structure};

structure! {
    /// The fields of the label that locate partitions.
    struct SunDisklabel: 512 {
        /// Description of the disk as text.
        0 sl_text: [u8; 128],
        /// 1 if there are tags.
        128 sl_vtoc_vers: u32,
        /// Number of tags.
        140 sl_vtoc_nparts: u16,
        /// Tag and flags of each partition.
        142 sl_vtoc_map: [u16; 16],
        /// [`VTOC_SANITY`].
        188 sl_vtoc_sane: u32,
        /// Tracks per cylinder.
        436 sl_ntracks: u16,
        /// Sectors per track.
        438 sl_nsectors: u16,
        /// First cylinder and number of sectors of each partition.
        444 sl_part: [u32; 16],
        /// [`SUN_DKMAGIC`].
        508 sl_magic: u16,
        /// Makes the exclusive or of all 16-bit words zero.
        510 sl_cksum: u16,
    }
}

const SUN_DKMAGIC: u16 = 0xdabe;
pub(super) const VTOC_SANITY: u32 = 0x600d_deee;
/// Tag of the partition that is the whole disk.
pub(super) const VTOC_BACKUP: u16 = 5;
/// Sector size in bytes, on every machine that has this label.
pub(super) const SECTOR_BYTES: u64 = 512;
/// Index of the partition that is the disk by convention.
const RAW_PART: usize = 2;

/// Returns the partitions of the disk, if it has a Sun label.
pub(super) fn read(device: &dyn Device) -> Result<Option<Label>> {
    let Some(bytes) = bytes_at(device, 0, SunDisklabel::SIZE)? else {
        return Ok(None);
    };
    let sun = SunDisklabel::decode(&bytes, Endian::Big);
    let sum = bytes.chunks_exact(2).fold(0, |sum, word| sum ^ u16::from_be_bytes([word[0], word[1]]));
    if sun.sl_magic != SUN_DKMAGIC {
        return Ok(None);
    }
    let mut label = Label::default();
    if sum != 0 {
        label.notes.push("a Sun label with a wrong checksum was ignored".to_owned());
        return Ok(Some(label));
    }
    let cylinder = u64::from(sun.sl_ntracks) * u64::from(sun.sl_nsectors) * SECTOR_BYTES;
    let tagged = sun.sl_vtoc_sane == VTOC_SANITY && sun.sl_vtoc_vers == 1;
    let mut whole = Vec::new();
    for (i, letter) in ('a'..='h').enumerate() {
        let (cylno, nblk) = (sun.sl_part[2 * i], sun.sl_part[2 * i + 1]);
        if nblk == 0 {
            continue;
        }
        let tag = (tagged && i < usize::from(sun.sl_vtoc_nparts)).then(|| sun.sl_vtoc_map[2 * i]);
        let mut partition = Partition {
            name: letter.to_string(),
            scheme: Scheme::Sun,
            start_bytes: u64::from(cylno).saturating_mul(cylinder),
            size_bytes: u64::from(nblk) * SECTOR_BYTES,
            kind: tag.map_or_else(|| "untagged".to_owned(), kind),
            label: None,
            missing_bytes: 0,
            problem: None,
        };
        if cylinder == 0 && cylno != 0 {
            partition.set_problem(|| "its label has cylinders without sectors".to_owned());
        }
        whole.push(tag == Some(VTOC_BACKUP) || (i == RAW_PART && cylno == 0));
        label.partitions.push(partition);
    }
    mark_overlaps(label.partitions.iter_mut().zip(whole).filter(|(_, whole)| !whole).map(|(p, _)| p));
    Ok(Some(label))
}

/// Returns the name of a tag.
pub(super) fn kind(tag: u16) -> String {
    match tag {
        0 => "unassigned",
        1 => "boot",
        2 => "root",
        3 => "swap",
        4 => "usr",
        VTOC_BACKUP => "whole disk",
        6 => "stand",
        7 => "var",
        8 => "home",
        9 => "alternate sectors",
        _ => return format!("tag {tag:#x}"),
    }
    .to_owned()
}
