//! The master boot record and its chain of extended partitions.
//!
//! Four slots in the disk's first sector define the primary slices `s1` to `s4`. One of them may be
//! a container: its first sector has a table of the same form, whose first slot is a logical slice
//! (relative to that sector) and whose second one links to the next such sector (relative to the
//! container's start).

use super::bsd::Numbering;
use super::{Host, Label, Nested, Partition, Scheme, bsd, bytes_at, mark_outside, mark_overlaps};
use crate::{Device, Result};
use spindle_ondisk::{Endian, structure};
use std::collections::HashSet;

structure! {
    /// A slot (FreeBSD `sys/disk/mbr.h`); the addresses by cylinder, head and sector are obsolete.
    struct DosPartition: 16 {
        /// 0x80 for the bootable slice.
        0 dp_flag: u8,
        /// Type.
        4 dp_typ: u8,
        /// First sector.
        8 dp_start: u32,
        /// Number of sectors.
        12 dp_size: u32,
    }
}

const DOSPARTOFF: usize = 446;
const DOSMAGICOFFSET: usize = 510;
const DOSMAGIC: [u8; 2] = [0x55, 0xaa];
/// Type of the slot that covers a GPT.
pub(super) const DOSPTYP_PMBR: u8 = 0xee;
/// Maximum number of logical slices; a longer chain counts as damage.
const MAX_LOGICAL: usize = 128;

/// A slice with its type.
type Slice = (Partition, u8);

/// Returns whether the first sector is a boot record with a slot for a GPT, or `None` if it is no
/// boot record in use.
pub(super) fn protects_gpt(device: &dyn Device) -> Result<Option<bool>> {
    let slots = slots_at(device, 0)?.filter(|slots| slots.iter().any(in_use));
    Ok(slots.map(|slots| slots.iter().any(|slot| slot.dp_typ == DOSPTYP_PMBR)))
}

/// Returns the slices of the disk, if it has a master boot record.
pub(super) fn read(device: &dyn Device) -> Result<Option<Label>> {
    let Some(slots) = slots_at(device, 0)?.filter(|slots| slots.iter().any(in_use)) else {
        return Ok(None);
    };
    let info = device.info();
    let sector = u64::from(info.sector_bytes);
    let mut primary: Vec<Slice> = (1..)
        .zip(&slots)
        .filter(|(_, slot)| in_use(slot))
        .map(|(number, slot)| slice(number, 0, slot, sector))
        .collect();
    // A bootable BSD disk without slices has a dummy boot record, with a slot that begins at the
    // record itself.
    if primary.iter().any(|(p, _)| p.start_bytes == 0) && bsd::is_labelled(device)? {
        return Ok(None);
    }
    mark_overlaps(primary.iter_mut().map(|(p, _)| p));
    let mut label = Label::default();
    let mut logical: Vec<Slice> = Vec::new();
    for (container, _) in primary.iter().filter(|(p, typ)| is_container(*typ) && p.problem.is_none()) {
        let first = logical.len();
        if let Some(odd) = read_logical(device, container, &mut logical)? {
            label.notes.push(format!("the chain of logical slices in {} {odd}", container.name));
        }
        let inside = &mut logical[first..];
        let (start, end) = (container.start_bytes, container.end());
        mark_outside(inside.iter_mut().map(|(p, _)| p), start, end, &container.name);
        mark_overlaps(inside.iter_mut().map(|(p, _)| p));
    }
    for (partition, typ) in primary.into_iter().chain(logical) {
        label.hosts.push(host(&partition, typ));
        label.partitions.push(partition);
    }
    Ok(Some(label))
}

/// Adds the logical slices of a container; returns the problem of their chain, if any.
fn read_logical(
    device: &dyn Device,
    container: &Partition,
    logical: &mut Vec<Slice>,
) -> Result<Option<&'static str>> {
    let sector = u64::from(device.info().sector_bytes);
    let mut seen = HashSet::new();
    let mut link = container.start_bytes;
    while seen.len() < MAX_LOGICAL {
        if link < container.start_bytes || link >= container.end() {
            return Ok(Some("leaves it"));
        }
        if !seen.insert(link) {
            return Ok(Some("runs in a circle"));
        }
        let Some([slot, next, ..]) = slots_at(device, link)? else {
            return Ok(Some("leads to a sector without a table"));
        };
        if in_use(&slot) && !is_container(slot.dp_typ) {
            logical.push(slice(5 + logical.len(), link, &slot, sector));
        }
        if !in_use(&next) || !is_container(next.dp_typ) {
            return Ok(None);
        }
        link = container.start_bytes + u64::from(next.dp_start) * sector;
    }
    Ok(Some("is too long"))
}

/// Returns the slots of a boot sector, if there is one at `offset`.
fn slots_at(device: &dyn Device, offset: u64) -> Result<Option<[DosPartition; 4]>> {
    let Some(bytes) = bytes_at(device, offset, 512)? else {
        return Ok(None);
    };
    if bytes[DOSMAGICOFFSET..] != DOSMAGIC {
        return Ok(None);
    }
    let slots: [DosPartition; 4] =
        std::array::from_fn(|i| DosPartition::decode(&bytes[DOSPARTOFF + 16 * i..], Endian::Little));
    // A file system's boot sector has the same magic, but code where the flags are.
    Ok(slots.iter().all(|slot| matches!(slot.dp_flag, 0 | 0x80)).then_some(slots))
}

fn in_use(slot: &DosPartition) -> bool {
    slot.dp_typ != 0 && slot.dp_size != 0
}

fn is_container(typ: u8) -> bool {
    matches!(typ, 0x05 | 0x0f | 0x85)
}

/// Returns the slice of a slot whose sectors count from `base`.
fn slice(number: usize, base: u64, slot: &DosPartition, sector: u64) -> Slice {
    let partition = Partition {
        name: format!("s{number}"),
        scheme: Scheme::Mbr,
        start_bytes: base + u64::from(slot.dp_start) * sector,
        size_bytes: u64::from(slot.dp_size) * sector,
        kind: kind(slot.dp_typ),
        label: None,
        missing_bytes: 0,
        problem: None,
    };
    (partition, slot.dp_typ)
}

/// Returns the kind of label that a slice of this type may contain.
fn host(partition: &Partition, typ: u8) -> Option<Host> {
    let nested = match typ {
        // Also the first type of NetBSD and OpenBSD, whose labels count from the disk's start.
        0xa5 => Nested::Bsd(Numbering::Relative),
        0xa6 | 0xa9 => Nested::Bsd(Numbering::Absolute),
        0x82 | 0xbf => Nested::Vtoc,
        _ => return None,
    };
    Some(Host { start: partition.start_bytes, size: partition.size_bytes, nested })
}

/// What [`Partition::kind`] is of a partition that has logical partitions in it.
pub const EXTENDED: &str = "extended";

fn kind(typ: u8) -> String {
    match typ {
        0x01 | 0x04 | 0x06 | 0x0b | 0x0c | 0x0e => "FAT",
        0x05 | 0x0f | 0x85 => EXTENDED,
        0x07 => "NTFS or exFAT",
        0x63 => "System V",
        0x82 => "Linux swap or Solaris",
        0x83 => "Linux",
        0x8e => "Linux LVM",
        0x9f => "BSD/OS",
        0xa5 => "FreeBSD",
        0xa6 => "OpenBSD",
        0xa8 => "Darwin UFS",
        0xa9 => "NetBSD",
        0xab => "Darwin boot",
        0xaf => "HFS",
        0xb7 => "BSDI",
        0xbe => "Solaris boot",
        0xbf => "Solaris",
        DOSPTYP_PMBR => "GPT",
        0xef => "EFI system",
        _ => return format!("type {typ:#04x}"),
    }
    .to_owned()
}
