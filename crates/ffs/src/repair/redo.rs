//! A change that happens as a whole, whenever it is interrupted: its sectors are written to free
//! space first, then the mark in the superblock that says so ([`Pending`]), and only then to their
//! places.
//!
//! The free blocks make a list. Each begins with a head, little-endian: magic (8 bytes), identity
//! of the change (8), byte of the next block or 0 (8), bytes of sectors that follow (4) and the
//! CRC-32C of all that and the sectors (4). A sector stands behind its address (8). The first
//! sector of the superblock, which takes the mark away, goes to its place last.

use crate::format::pending::Pending;
use crate::format::superblock::Superblock;
use crate::format::units::index;
use spindle_device::{Change, CowDevice, Device, write_sectors};
use spindle_ondisk::{Endian, Field};
use spindle_vfs::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// The first bytes of a block.
const MAGIC: &[u8; 8] = b"SpRedo\x00\x01";
/// Bytes of the head of a block.
const HEAD: usize = 32;
/// Bytes of an address.
const ADDRESS: usize = 8;
/// Largest block.
const BLOCK_MAX: u32 = 1 << 16;
const LITTLE: Endian = Endian::Little;

/// A change that is ready to be carried out.
pub(crate) struct Redo {
    /// The blocks of the list and their places.
    blocks: Vec<(u64, Vec<u8>)>,
    /// The first sector of the superblock with the mark, and its place.
    mark: (u64, Vec<u8>),
}

/// Returns how many sectors a block of `block` bytes takes.
const fn capacity(block: usize, sector: usize) -> usize {
    (block - HEAD) / (ADDRESS + sector)
}

impl Redo {
    /// Returns the number of blocks that so many sectors take.
    pub(crate) fn blocks_for(sectors: usize, block: usize, sector: usize) -> usize {
        sectors.div_ceil(capacity(block, sector).max(1)).max(1)
    }

    /// Returns the change of these sectors, with the bytes of free blocks of `block` bytes, so many
    /// as [`Self::blocks_for`] says; none if a block does not hold a sector. `first` is the first
    /// sector of the superblock as it is, and its place.
    pub(crate) fn new(
        changes: &[Change],
        places: &[u64],
        block: usize,
        first: (u64, Vec<u8>),
    ) -> Option<Self> {
        let (place, mut mark) = first;
        let each = capacity(block, mark.len());
        if each == 0 {
            return None;
        }
        let id = changes
            .iter()
            .fold(place, |id, change| id.rotate_left(7) ^ u64::from(crc32c::crc32c(&change.new)) ^ change.at);
        let mut blocks = Vec::new();
        for ((n, some), &at) in changes.chunks(each).enumerate().zip(places) {
            let next = places.get(n + 1).filter(|_| (n + 1) * each < changes.len()).copied();
            let mut bytes = vec![0; HEAD];
            for change in some {
                bytes.extend(change.at.to_le_bytes());
                bytes.extend(&change.new);
            }
            let used = u32::try_from(bytes.len() - HEAD).unwrap_or(u32::MAX);
            bytes[..8].copy_from_slice(MAGIC);
            id.put(&mut bytes[8..], LITTLE);
            next.unwrap_or(0).put(&mut bytes[16..], LITTLE);
            used.put(&mut bytes[24..], LITTLE);
            let sum = checksum(&bytes);
            sum.put(&mut bytes[28..], LITTLE);
            bytes.resize(block, 0);
            blocks.push((at, bytes));
        }
        let first = blocks.first()?.0;
        Pending { id, first, block: u32::try_from(block).ok()? }.encode(&mut mark);
        Some(Self { blocks, mark: (place, mark) })
    }

    /// Returns the blocks of the list, and their places.
    pub(crate) fn blocks(&self) -> &[(u64, Vec<u8>)] {
        &self.blocks
    }

    /// Returns the first sector of the superblock with the mark.
    pub(crate) fn mark(&self) -> &[u8] {
        &self.mark.1
    }

    /// Carries the change out, durably.
    ///
    /// # Errors
    /// Errors of the device, after which either nothing has changed, or [`resume`] does the rest.
    pub(crate) fn apply(&self, device: &dyn Device) -> Result<()> {
        for (at, bytes) in &self.blocks {
            device.write_at(*at, bytes)?;
        }
        device.flush()?;
        device.write_at(self.mark.0, &self.mark.1)?;
        device.flush()?;
        resume(device).map(drop)
    }
}

/// Returns the checksum of a block, whose own place counts as zero.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..28]), &bytes[HEAD..])
}

/// Finishes a change that was interrupted, if there is one: of the size of the file system, which
/// then has the new one, or a repair. Returns the number of sectors written. It can be interrupted
/// again.
///
/// # Errors
/// [`Error::Corrupt`] if what is left to do cannot be read, and then nothing is written; errors of
/// the device.
pub fn resume(device: &dyn Device) -> Result<Option<usize>> {
    let Some((superblock, pending)) = Superblock::find_pending(device)? else { return Ok(None) };
    let mut sectors = read(device, &pending)?;
    let last = sectors.remove(&superblock).ok_or_else(|| damaged(superblock))?;
    write_sectors(device, sectors.iter().map(|(&at, bytes)| (at, &bytes[..])))?;
    write_sectors(device, std::iter::once((superblock, &last[..])))?;
    Ok(Some(sectors.len() + 1))
}

/// Returns the device as it is after [`resume`], without a write, if there is anything to finish.
///
/// # Errors
/// As [`resume`].
pub fn resumed(device: &std::sync::Arc<dyn Device>) -> Result<Option<(std::sync::Arc<dyn Device>, usize)>> {
    let view = CowDevice::new(device.clone());
    let sectors = resume(&view)?;
    Ok(sectors.map(|sectors| (std::sync::Arc::new(view.read_only()) as _, sectors)))
}

fn damaged(at: u64) -> Error {
    let what = "what is left to do of a change of its size, or of a repair, cannot be read";
    Error::corrupt(what, format!("byte {at}"))
}

/// Reads the sectors of a change.
fn read(device: &dyn Device, pending: &Pending) -> Result<BTreeMap<u64, Vec<u8>>> {
    let info = device.info();
    let (sector, block) = (info.sector_bytes as usize, pending.block as usize);
    let mut sectors = BTreeMap::new();
    if pending.block > BLOCK_MAX || !block.is_multiple_of(sector) || block < HEAD {
        return Err(damaged(pending.first));
    }
    let (mut at, mut seen) = (pending.first, BTreeSet::new());
    let mut bytes = vec![0; block];
    while at != 0 {
        let end = at.checked_add(block as u64);
        if !at.is_multiple_of(sector as u64)
            || end.is_none_or(|end| end > info.size_bytes)
            || !seen.insert(at)
        {
            return Err(damaged(at));
        }
        device.read_at(at, &mut bytes)?;
        let used = index(u32::get(&bytes[24..], LITTLE).into());
        let is_ours = bytes.starts_with(MAGIC) && u64::get(&bytes[8..], LITTLE) == pending.id;
        if !is_ours || used > block - HEAD || !used.is_multiple_of(ADDRESS + sector) {
            return Err(damaged(at));
        }
        if checksum(&bytes[..HEAD + used]) != u32::get(&bytes[28..], LITTLE) {
            return Err(damaged(at));
        }
        for record in bytes[HEAD..HEAD + used].chunks_exact(ADDRESS + sector) {
            let place = u64::get(record, LITTLE);
            let end = place.checked_add(sector as u64);
            if !place.is_multiple_of(sector as u64) || end.is_none_or(|end| end > info.size_bytes) {
                return Err(damaged(at));
            }
            sectors.insert(place, record[ADDRESS..].to_vec());
        }
        at = u64::get(&bytes[16..], LITTLE);
    }
    Ok(sectors)
}
