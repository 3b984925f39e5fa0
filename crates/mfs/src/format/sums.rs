//! Sectors of the table of checksums: a CRC-32C for each block of data storage.
//!
//! The classes of data follow each other; each begins with a sector of its own. The table lies
//! behind the cylinders of control storage. What a free block has there means nothing. Each sector
//! has a checksum of its own, so that a damaged one is not taken for damage of all the blocks that
//! it describes.

use super::checksum::{is_sealed, seal};
use super::layout::{DataBlock, index};
use spindle_ondisk::{Endian, structure};
use spindle_vfs::Result;

/// Bytes of a sector.
pub const SUM_SECTOR_BYTES: usize = 512;
/// Data blocks that a sector describes.
pub const SUMS_IN_SECTOR: u64 = 124;
/// Bytes of a page, in which the table is read: whole sectors of any device.
pub const SUM_PAGE_BYTES: usize = 4096;
const MAGIC: u32 = u32::from_le_bytes(*b"MSum");
const CHECKSUM: usize = 4;
const SUMS: usize = 16;

structure! {
    /// The head of a sector. The checksums follow at byte 16, 4 bytes each.
    pub struct DiskSums: 16 {
        /// `MSum`.
        0 magic: u32,
        /// CRC-32C of the sector.
        4 checksum: u32,
        /// Position of the sector in the table.
        8 number: u64,
    }
}

/// The structures as they are now, which say what data blocks should hold.
pub(crate) trait Source: Send + Sync {
    /// Returns the page of 4096 bytes at an address: of the table, or of the allocation map.
    fn page(&self, at: u64) -> Result<Vec<u8>>;

    /// Returns true if what the device has of a block may not be what it should have yet.
    fn is_on_its_way(&self, block: DataBlock) -> bool;
}

/// Returns the checksum of a block.
#[must_use]
pub fn sum_of(block: &[u8]) -> u32 {
    crc32c::crc32c(block)
}

/// Makes sector `number`, whose checksums are all 0.
pub fn make(sector: &mut [u8], number: u64) {
    sector.fill(0);
    DiskSums { magic: MAGIC, checksum: 0, number }.encode(sector, Endian::Little);
    seal(sector, CHECKSUM);
}

/// Returns true if `sector` is whole, and is sector `number`.
#[must_use]
pub fn is_whole(sector: &[u8], number: u64) -> bool {
    let disk = DiskSums::decode(sector, Endian::Little);
    disk.magic == MAGIC && disk.number == number && is_sealed(sector, CHECKSUM)
}

/// Returns the checksum of the `n`th block of a sector.
#[must_use]
pub fn get(sector: &[u8], n: u64) -> u32 {
    let at = SUMS + index(n) * 4;
    u32::from_le_bytes([sector[at], sector[at + 1], sector[at + 2], sector[at + 3]])
}

/// Sets the checksums of blocks from the `n`th of a sector on.
pub fn set(sector: &mut [u8], n: u64, sums: &[u32]) {
    for (place, sum) in sector[SUMS + index(n) * 4..].chunks_exact_mut(4).zip(sums) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
    seal(sector, CHECKSUM);
}
