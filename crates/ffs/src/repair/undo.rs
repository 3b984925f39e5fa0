//! The undo file of a repair: what the sectors were that it changes, and how to know them.
//!
//! Little-endian: [`MAGIC`], bytes of a sector (32 bits), bytes of the device (64), number of
//! records, and of those for the superblock (64 each). A record is an address (64), the CRC-32C of
//! the sector after the repair and meanwhile (32 each), the sector as it was before, and for the
//! superblock, whose records come last, as it is meanwhile. At the end stands the CRC-32C of all
//! that.

use crate::format::superblock::Superblock;
use crate::format::units::index;
use spindle_device::{Change, Device, Info, write_sectors};
use spindle_ondisk::{Endian, Field};
use spindle_vfs::{Error, Result};

/// The first bytes of an undo file.
const MAGIC: &[u8; 8] = b"SpUndo\x00\x01";
const LITTLE: Endian = Endian::Little;
/// Bytes before the records.
const HEAD: usize = 8 + 4 + 8 + 8 + 8;
/// Bytes of a record before its sectors.
const RECORD: usize = 8 + 4 + 4;

/// A sector that a repair has changed.
struct Record {
    at: u64,
    /// Checksums of what it may be now, besides `old`.
    sums: [u32; 2],
    old: Vec<u8>,
    /// What it is during the repair, in the superblock.
    meanwhile: Option<Vec<u8>>,
}

fn push(bytes: &mut Vec<u8>, field: &impl Field, len: usize) {
    let at = bytes.len();
    bytes.resize(at + len, 0);
    field.put(&mut bytes[at..], LITTLE);
}

/// Returns the undo file of a repair that makes these changes.
pub(super) fn encode<'a>(
    (sector, size): (u32, u64),
    changes: impl Iterator<Item = &'a Change>,
    superblock: &[(Change, Vec<u8>)],
) -> Vec<u8> {
    let mut records = Vec::new();
    let mut count = 0_u64;
    let superblock_at = superblock.iter().map(|(change, meanwhile)| (change, Some(meanwhile)));
    for (change, meanwhile) in changes.map(|change| (change, None)).chain(superblock_at) {
        let new = crc32c::crc32c(&change.new);
        push(&mut records, &change.at, 8);
        push(&mut records, &new, 4);
        push(&mut records, &meanwhile.map_or(new, |bytes| crc32c::crc32c(bytes)), 4);
        records.extend_from_slice(&change.old);
        records.extend_from_slice(meanwhile.map_or(&[], |bytes| bytes));
        count += 1;
    }
    let mut bytes = MAGIC.to_vec();
    push(&mut bytes, &sector, 4);
    push(&mut bytes, &size, 8);
    push(&mut bytes, &count, 8);
    push(&mut bytes, &(superblock.len() as u64), 8);
    bytes.extend(records);
    let sum = crc32c::crc32c(&bytes);
    push(&mut bytes, &sum, 4);
    bytes
}

/// Returns the undo file of `changes` to a device, whose superblock `before` is `stands` meanwhile.
pub(crate) fn undo_bytes(info: &Info, changes: &[Change], before: &Superblock, stands: &[u8]) -> Vec<u8> {
    let sector = info.sector_bytes as usize;
    let start = before.layout.fs_sblockloc;
    let end = start + before.written_bytes(sector) as u64;
    let (superblock, others): (Vec<_>, Vec<_>) =
        changes.iter().partition(|change| (start..end).contains(&change.at));
    let superblock: Vec<_> = superblock
        .into_iter()
        .map(|change| (change.clone(), stands[index(change.at - start)..][..sector].to_vec()))
        .collect();
    encode((info.sector_bytes, info.size_bytes), others.into_iter(), &superblock)
}

fn decode(bytes: &[u8], device: &dyn Device) -> Result<Vec<Record>> {
    let damaged = || Error::corrupt("it is damaged or no undo file", "undo file");
    let (body, sum) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
    if !body.starts_with(MAGIC) || body.len() < HEAD || crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
        return Err(damaged());
    }
    let info = device.info();
    let sector = u32::get(&body[8..], LITTLE);
    let number = |at: usize| u64::get(&body[at..], LITTLE);
    let (size, count, last) = (number(12), number(20), number(28));
    if sector != info.sector_bytes || size != info.size_bytes {
        let what = format!("it is for a device of {size} bytes with sectors of {sector}");
        return Err(Error::corrupt(what, "undo file"));
    }
    let (mut rest, sector) = (&body[HEAD..], sector as usize);
    let mut take = |len: usize| -> Result<&[u8]> {
        let (taken, behind) = rest.split_at_checked(len).ok_or_else(damaged)?;
        rest = behind;
        Ok(taken)
    };
    let mut records = Vec::new();
    for n in 0..count {
        let head = take(RECORD)?;
        let sums = [u32::get(&head[8..], LITTLE), u32::get(&head[12..], LITTLE)];
        let at = u64::get(head, LITTLE);
        let old = take(sector)?.to_vec();
        let in_superblock = n + last >= count;
        let meanwhile = if in_superblock { Some(take(sector)?.to_vec()) } else { None };
        records.push(Record { at, sums, old, meanwhile });
    }
    Ok(records)
}

/// Takes a repair back whose [`Plan::undo_bytes`](super::Plan::undo_bytes) these are. Returns the
/// number of sectors that are as they were before.
///
/// # Errors
/// [`Error::Corrupt`] if they are damaged; [`Error::Unsupported`] if a sector is neither what it
/// was before the repair nor what it made of it. Then nothing is written. Errors of the device.
pub fn undo(device: &dyn Device, bytes: &[u8]) -> Result<usize> {
    let records = decode(bytes, device)?;
    for record in &records {
        let mut now = vec![0; record.old.len()];
        device.read_at(record.at, &mut now)?;
        if now != record.old && !record.sums.contains(&crc32c::crc32c(&now)) {
            return Err(Error::unsupported(
                format!("the bytes at {} are not those that the repair has left", record.at),
                "an undo file fits the image it was made for, as long as nothing else has changed that",
            ));
        }
    }
    let meanwhile = |record: &'_ Record| record.meanwhile.is_some();
    let (superblock, others): (Vec<_>, Vec<_>) = records.iter().partition(|record| meanwhile(record));
    write_sectors(device, superblock.iter().filter_map(|r| Some((r.at, r.meanwhile.as_deref()?))))?;
    write_sectors(device, others.iter().map(|r| (r.at, &r.old[..])))?;
    write_sectors(device, superblock.iter().map(|r| (r.at, &r.old[..])))?;
    Ok(records.len())
}
