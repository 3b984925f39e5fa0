//! Records: one epoch each.

use crate::format::checksum::{is_sealed, seal};
use spindle_cache::{Change, Changes};
use spindle_ondisk::{Endian, Field, structure};
use std::ops::Range;

/// Bytes of the head of a record.
pub(super) const HEAD_BYTES: usize = 64;
const MAGIC: u32 = u32::from_le_bytes(*b"MRec");
const CHECKSUM: usize = 4;
const ENTRY_BYTES: usize = 16;

structure! {
    /// The head of a record. Then come the revoked ranges (first byte, byte after the last), the
    /// changes (address, length), and the bytes of the changes in the same order.
    pub struct DiskRecord: 64 {
        /// `MRec`.
        0 magic: u32,
        /// CRC-32C of the whole record.
        4 checksum: u32,
        /// The set.
        8 set_id: [u8; 16],
        /// The number of the record.
        24 sequence: u64,
        /// Bytes of the record, whole sectors.
        32 bytes: u64,
        /// Number of revoked ranges.
        40 revoked: u32,
        /// Number of changes.
        44 changed: u32,
    }
}

/// Returns the bytes of the record of an epoch, whole sectors.
pub(super) fn bytes_of(changes: &Changes, sector: usize) -> usize {
    let entries = changes.revoked.len() + changes.changed.len();
    let data: usize = changes.changed.iter().map(|change| change.bytes.len()).sum();
    (HEAD_BYTES + entries * ENTRY_BYTES + data).next_multiple_of(sector)
}

/// Returns the record of an epoch.
pub(super) fn encode(changes: &Changes, set_id: [u8; 16], sequence: u64, sector: usize) -> Vec<u8> {
    let mut bytes = vec![0; bytes_of(changes, sector)];
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let head = DiskRecord {
        magic: MAGIC,
        checksum: 0,
        set_id,
        sequence,
        bytes: bytes.len() as u64,
        revoked: count(changes.revoked.len()),
        changed: count(changes.changed.len()),
    };
    head.encode(&mut bytes, Endian::Little);
    let mut at = HEAD_BYTES;
    let revoked = changes.revoked.iter().map(|range| (range.start, range.end));
    let changed = changes.changed.iter().map(|change| (change.at, change.bytes.len() as u64));
    for (a, b) in revoked.chain(changed) {
        a.put(&mut bytes[at..], Endian::Little);
        b.put(&mut bytes[at + 8..], Endian::Little);
        at += ENTRY_BYTES;
    }
    for change in &changes.changed {
        bytes[at..at + change.bytes.len()].copy_from_slice(&change.bytes);
        at += change.bytes.len();
    }
    seal(&mut bytes, CHECKSUM);
    bytes
}

/// Returns the bytes of the record that begins with `head`, if it can be record `sequence` of the
/// set.
pub(super) fn bytes_expected(head: &[u8], set_id: [u8; 16], sequence: u64) -> Option<u64> {
    let disk = DiskRecord::decode(head, Endian::Little);
    let ours = disk.magic == MAGIC && disk.set_id == set_id && disk.sequence == sequence;
    (ours && disk.bytes >= HEAD_BYTES as u64).then_some(disk.bytes)
}

/// Returns true if the checksum of a record is right.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    is_sealed(bytes, CHECKSUM)
}

/// Reads a record that is whole; returns none if it contradicts itself.
pub(super) fn decode(bytes: &[u8]) -> Option<Changes> {
    let head = DiskRecord::decode(bytes, Endian::Little);
    let entries = |from: usize, count: u32| -> Option<Vec<(u64, u64)>> {
        let bytes = bytes.get(from..from.checked_add(count as usize * ENTRY_BYTES)?)?;
        let pair = |entry: &[u8]| (u64::get(entry, Endian::Little), u64::get(&entry[8..], Endian::Little));
        Some(bytes.chunks_exact(ENTRY_BYTES).map(pair).collect())
    };
    let revoked = entries(HEAD_BYTES, head.revoked)?;
    let table = HEAD_BYTES + revoked.len() * ENTRY_BYTES;
    let changed = entries(table, head.changed)?;
    let mut at = table + changed.len() * ENTRY_BYTES;
    let revoked = revoked.into_iter().map(|(start, end)| Range { start, end }).collect();
    let mut changes = Changes { revoked, changed: Vec::new() };
    for (address, len) in changed {
        let end = at.checked_add(usize::try_from(len).ok()?)?;
        changes.changed.push(Change { at: address, bytes: bytes.get(at..end)?.to_vec() });
        at = end;
    }
    Some(changes)
}
