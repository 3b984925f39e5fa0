//! The journal of FreeBSD's gjournal (`sys/geom/journal`): finding it, and reading what is not in
//! its place.
//!
//! gjournal lies below the file system: it keeps all that is written to a provider in a journal
//! first. Data and journal may have a provider together; then the file system ends where the
//! journal begins, and the last sector says where that is. The journal is a row of *journals*, each
//! a header and records: a sector that says where the bytes belong that follow it. The header of
//! the next journal ends one. What is behind the last header has not happened.

use crate::format::dialect::Dialect;
use crate::format::ondisk::flags;
use crate::format::superblock::Superblock;
use crate::format::units::index;
use spindle_device::{CowDevice, Device};
use spindle_ondisk::{Endian, Field, structure};
use spindle_vfs::{Error, Result};
use std::sync::Arc;

structure! {
    /// What the last sector of a provider says (`struct g_journal_metadata`), always little-endian.
    pub struct GjournalMetadata: 101 {
        /// [`GjournalMetadata::MAGIC`].
        0 md_magic: [u8; 16],
        /// 0.
        16 md_version: u32,
        /// The number of the journal.
        20 md_id: u32,
        /// What is on the provider: 1 for data, 2 for a journal.
        24 md_type: u8,
        /// First byte of the journal.
        25 md_jstart: u64,
        /// The end of the journal.
        33 md_jend: u64,
        /// Byte of the header of the first journal that may not be in its place.
        41 md_joffset: u64,
        /// The number in that header.
        49 md_jid: u32,
        /// [`GjournalMetadata::CLEAN`].
        53 md_flags: u64,
        /// Name of the provider, if it is to have that one.
        61 md_provider: [u8; 16],
        /// Bytes of the provider.
        77 md_provsize: u64,
        /// MD5 of all before it.
        85 md_hash: [u8; 16],
    }
}

impl GjournalMetadata {
    /// `md_magic`, filled up with zeros.
    pub const MAGIC: &[u8; 13] = b"GEOM::JOURNAL";
    /// `md_type`: data and journal.
    pub const COMPLETE: u8 = 3;
    /// A flag: everything is in its place.
    pub const CLEAN: u64 = 1;
    /// Offset of `md_hash`.
    const HASH: usize = 85;
}

structure! {
    /// The header of a journal (`struct g_journal_header`).
    pub struct GjournalHeader: 14 {
        /// `GJHDR` and a zero.
        0 jh_magic: [u8; 6],
        /// Its number.
        6 jh_journal_id: u32,
        /// The number of the next one.
        10 jh_journal_next_id: u32,
    }
}

structure! {
    /// The header of a record (`struct g_journal_record_header`), without its entries.
    pub struct GjournalRecord: 25 {
        /// `GJRHDR` and a zero.
        0 jrh_magic: [u8; 7],
        /// The number of its journal. `g_journal_record_header_encode` leaves out four bytes
        /// behind it, which the packed structure does not have.
        7 jrh_journal_id: u32,
        /// Entries, at most [`GjournalRecord::MOST`].
        15 jrh_nentries: u16,
        /// Begin of the MD5 of what follows, if checksums are switched on.
        17 jrh_sum: [u8; 8],
    }
}

impl GjournalRecord {
    /// Most entries of a record.
    pub const MOST: usize = 20;
}

structure! {
    /// An entry of a record (`struct g_journal_entry`).
    pub struct GjournalEntry: 24 {
        /// Where its bytes are on the provider of the journal.
        0 je_joffset: u64,
        /// Where they belong.
        8 je_offset: u64,
        /// Their number.
        16 je_length: u64,
    }
}

const HEADER_MAGIC: [u8; 6] = *b"GJHDR\0";
const RECORD_MAGIC: [u8; 7] = *b"GJRHDR\0";
/// Sizes of sectors that a provider may have.
const SECTORS: [usize; 4] = [512, 1024, 2048, 4096];
/// Most bytes of an entry (`MAXPHYS`): of older systems and machines of 32 bits, and of FreeBSD 13
/// and later. A record is only begun where the largest one has room.
const MAXPHYS: [u64; 2] = [128 << 10, 1 << 20];
/// Most bytes that are replayed: they are kept in memory.
const REPLAYED_MAX: u64 = 1 << 30;

/// A journal on the provider of its file system.
struct Journal<'a> {
    device: &'a dyn Device,
    metadata: GjournalMetadata,
    sector: usize,
}

/// Returns that the journal is not believed.
fn useless(why: impl Into<String>) -> Error {
    Error::corrupt(why, "gjournal")
}

/// Returns what a device holds after a replay of the journal of gjournal, and the number of entries
/// that are not in their places; `None` if there are none, or if the journal cannot be used, which
/// is logged. Nothing is written.
///
/// # Errors
/// Device errors.
pub(super) fn view(
    device: &Arc<dyn Device>,
    superblock: &Superblock,
) -> Result<Option<(Arc<dyn Device>, usize)>> {
    let marked = superblock.dialect == Dialect::FreeBsd && superblock.flags() & flags::FS_GJOURNAL != 0;
    if superblock.salvaged.is_some() || !marked {
        return Ok(None);
    }
    let read = || {
        let Some(journal) = Journal::find(&**device, superblock)? else { return Ok(Vec::new()) };
        journal.entries()
    };
    match read() {
        Ok(entries) if entries.is_empty() => Ok(None),
        Ok(entries) => {
            let trial = CowDevice::new(device.clone());
            for entry in &entries {
                let mut bytes = vec![0; index(entry.je_length)];
                device.read_at(entry.je_joffset, &mut bytes)?;
                trial.write_at(entry.je_offset, &bytes)?;
            }
            Ok(Some((Arc::new(trial.read_only()), entries.len())))
        }
        Err(Error::Corrupt { what, .. }) => {
            log::warn!("{}: the journal of gjournal cannot be used: {what}", device.info().name);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl<'a> Journal<'a> {
    /// Finds a journal that may hold something; `None` if there is none, or it is clean.
    fn find(device: &'a dyn Device, superblock: &Superblock) -> Result<Option<Self>> {
        let size = device.info().size_bytes;
        for sector in SECTORS.into_iter().filter(|&sector| sector >= device.info().sector_bytes as usize) {
            let Some(at) = size.checked_sub(sector as u64) else { continue };
            let mut bytes = vec![0; sector];
            device.read_at(at, &mut bytes)?;
            let metadata = GjournalMetadata::decode(&bytes, Endian::Little);
            if !metadata.md_magic.starts_with(GjournalMetadata::MAGIC) {
                continue;
            }
            if metadata.md_version != 0 || md5(&bytes[..GjournalMetadata::HASH]) != metadata.md_hash {
                return Err(useless("its version is unknown, or its checksum is wrong"));
            }
            if metadata.md_flags & GjournalMetadata::CLEAN != 0 {
                return Ok(None);
            }
            if metadata.md_type != GjournalMetadata::COMPLETE {
                return Err(useless(
                    "it is on another device, which FreeBSD has to put together with this one",
                ));
            }
            let (start, end) = (metadata.md_jstart, metadata.md_jend);
            let fs_end = superblock.layout.fs_size << superblock.layout.fs_fshift;
            let whole = |at: u64| at.is_multiple_of(sector as u64);
            let fits = fs_end <= start && start < end && end <= at && whole(start) && whole(end);
            if !fits || !(start..end).contains(&metadata.md_joffset) || !whole(metadata.md_joffset) {
                return Err(useless(format!("it cannot be at bytes {start} to {end}")));
            }
            return Ok(Some(Self { device, metadata, sector }));
        }
        Ok(None)
    }

    /// Returns the entries of all journals that are complete, in order.
    fn entries(&self) -> Result<Vec<GjournalEntry>> {
        let read: Vec<_> = MAXPHYS.into_iter().map(|most| self.follow(most)).collect::<Result<_>>()?;
        // The wrong one leaves something out.
        let more = |(found, entries): &(usize, Vec<_>)| (*found, entries.len());
        let (found, entries) = read.into_iter().max_by_key(more).unwrap_or_default();
        if found == 0 {
            return Err(useless("its first journal has no end, so FreeBSD does not use it either"));
        }
        if entries.iter().map(|entry| entry.je_length).sum::<u64>() > REPLAYED_MAX {
            return Err(useless("it has more bytes than can be replayed in memory"));
        }
        Ok(entries)
    }

    /// Follows the journals of a system whose largest entry has `most` bytes. Returns the number of
    /// journals that are complete, and their entries.
    fn follow(&self, most: u64) -> Result<(usize, Vec<GjournalEntry>)> {
        let (start, end) = (self.metadata.md_jstart, self.metadata.md_jend);
        let sector = self.sector as u64;
        let largest = sector + GjournalRecord::MOST as u64 * most;
        let mut at = self.metadata.md_joffset;
        let mut bytes = self.read(at)?;
        let (mut found, mut entries, mut pending) = (0, Vec::new(), Vec::new());
        let first = header(&bytes).filter(|header| header.jh_journal_id == self.metadata.md_jid);
        let Some(mut last) = first else { return Ok((0, entries)) };
        at += sector;
        // What was followed may be as long as the journal, and no longer.
        let mut left = (end - start).saturating_sub(sector);
        loop {
            if at + largest >= end {
                left = left.saturating_sub(end.saturating_sub(at));
                at = start;
            }
            if left < sector {
                break;
            }
            bytes = self.read(at)?;
            if let Some(next) = header(&bytes) {
                if next.jh_journal_id != last.jh_journal_next_id {
                    break;
                }
                found += 1;
                last = next;
                entries.append(&mut pending);
                (at, left) = (at + sector, left - sector);
                continue;
            }
            let Some(record) = self.record(&bytes, last.jh_journal_id, at + sector) else { break };
            let len = sector + record.iter().map(|entry| entry.je_length).sum::<u64>();
            if len > left {
                break;
            }
            (at, left) = (at + len, left - len);
            pending.extend(record);
        }
        Ok((found, entries))
    }

    fn read(&self, at: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.sector];
        self.device.read_at(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the entries of a record of the journal `id` whose bytes begin at `from`; `None` if
    /// it is not one that FreeBSD can have written.
    fn record(&self, bytes: &[u8], id: u32, from: u64) -> Option<Vec<GjournalEntry>> {
        let head = GjournalRecord::decode(bytes, Endian::Little);
        let count = usize::from(head.jrh_nentries);
        let ours = head.jrh_magic == RECORD_MAGIC && head.jrh_journal_id == id;
        if !ours || !(1..=GjournalRecord::MOST).contains(&count) {
            return None;
        }
        let (start, end) = (self.metadata.md_jstart, self.metadata.md_jend);
        let (mut entries, mut from) = (Vec::new(), from);
        for bytes in bytes[GjournalRecord::SIZE..].chunks_exact(GjournalEntry::SIZE).take(count) {
            let entry = GjournalEntry::decode(bytes, Endian::Little);
            let ends_by = |at: u64, end| at.checked_add(entry.je_length).is_some_and(|at| at <= end);
            let whole =
                [entry.je_offset, entry.je_length].iter().all(|at| at.is_multiple_of(self.sector as u64));
            let fits = entry.je_joffset == from && ends_by(from, end) && ends_by(entry.je_offset, start);
            if !whole || !fits {
                return None;
            }
            from += entry.je_length;
            entries.push(entry);
        }
        Some(entries)
    }
}

/// Returns the header of a journal, if the sector is one.
fn header(bytes: &[u8]) -> Option<GjournalHeader> {
    let header = GjournalHeader::decode(bytes, Endian::Little);
    (header.jh_magic == HEADER_MAGIC).then_some(header)
}

/// Returns the MD5 of bytes (RFC 1321).
#[must_use]
pub fn md5(bytes: &[u8]) -> [u8; 16] {
    /// How far each of the four steps of a round rotates.
    const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let mut number = 0.0_f64;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Below 2^32, and not negative.
    let sines: [u32; 64] = std::array::from_fn(|_| {
        number += 1.0;
        (number.sin().abs() * 4_294_967_296.0) as u32
    });
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((bytes.len() as u64 * 8).to_le_bytes());
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for chunk in padded.chunks_exact(64) {
        let word = |n: usize| u32::get(&chunk[4 * n..], Endian::Little);
        let mut now = state;
        for step in 0..64 {
            let [first, x, y, z] = now;
            let (mixed, place) = match step / 16 {
                0 => (x & y | !x & z, step),
                1 => (z & x | !z & y, (5 * step + 1) % 16),
                2 => (x ^ y ^ z, (3 * step + 5) % 16),
                _ => (y ^ (x | !z), 7 * step % 16),
            };
            let sum = first.wrapping_add(mixed).wrapping_add(sines[step]).wrapping_add(word(place));
            now = [z, x.wrapping_add(sum.rotate_left(SHIFTS[step / 16][step % 4])), x, y];
        }
        for (sum, value) in state.iter_mut().zip(now) {
            *sum = sum.wrapping_add(value);
        }
    }
    let mut digest = [0; 16];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: MD5 as RFC 1321 has it in its appendix.
    #[test]
    fn md5_of_the_standard() {
        let hex = |text: &str| md5(text.as_bytes()).map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(hex(""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        assert_eq!(hex(&"1234567890".repeat(8)), "57edf4a22be3c955ac49da2e2107b67a");
    }
}
