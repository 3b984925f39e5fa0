//! The header of log storage, in two slots at the beginning of its first part.

use super::units::SLOT_BYTES;
use crate::format::checksum::{is_sealed, seal};
use spindle_device::Device;
use spindle_ondisk::{Endian, structure};

pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"MLog");
const CHECKSUM: usize = 4;

structure! {
    /// The header of log storage. The slot with the greater version counts.
    pub struct DiskLogHeader: 512 {
        /// `MLog`.
        0 magic: u32,
        /// CRC-32C of the header.
        4 checksum: u32,
        /// The set.
        8 set_id: [u8; 16],
        /// Number of times that the header was written.
        24 version: u64,
        /// Byte of the circle at which the oldest record begins.
        32 tail: u64,
        /// The number of that record.
        40 sequence: u64,
        /// Bit 0: the set is in use. Bit 1: it is damaged.
        48 state: u32,
        /// See [`LogUnits`].
        52 unit_bytes: u32,
        /// See [`LogUnits`].
        56 record_bytes: u32,
    }
}

/// Returns the header in a slot, if it is a whole one of the set.
pub(super) fn header_in(bytes: &[u8], set_id: [u8; 16]) -> Option<DiskLogHeader> {
    let header = DiskLogHeader::decode(bytes, Endian::Little);
    let ours = header.magic == MAGIC && header.set_id == set_id;
    (ours && is_sealed(&bytes[..DiskLogHeader::SIZE], CHECKSUM)).then_some(header)
}

/// Returns true if the sector at byte `at` of the first part of log storage is a whole header of
/// the set; none if it is not the place of a header.
pub(crate) fn is_header_slot(at: u64, sector: &[u8], set_id: [u8; 16]) -> Option<bool> {
    [0, SLOT_BYTES].contains(&at).then(|| header_in(sector, set_id).is_some())
}

impl DiskLogHeader {
    /// Returns what is written to a slot on `device`.
    pub(super) fn slot(&self, device: &dyn Device) -> Vec<u8> {
        let mut bytes = vec![0; slot_bytes(device)];
        self.encode(&mut bytes, Endian::Little);
        seal(&mut bytes[..Self::SIZE], CHECKSUM);
        bytes
    }
}

/// Returns the bytes that are written of a slot: whole sectors.
pub(super) fn slot_bytes(device: &dyn Device) -> usize {
    (device.info().sector_bytes as usize).max(DiskLogHeader::SIZE)
}
