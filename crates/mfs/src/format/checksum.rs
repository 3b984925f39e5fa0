//! Checksums: CRC-32C over a structure whose checksum field is zero.

use std::ops::Range;

/// Computes the checksum of `bytes`, whose bytes at `field` count as zeros.
fn compute(bytes: &[u8], field: Range<usize>) -> u32 {
    let crc = crc32c::crc32c(&bytes[..field.start]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &bytes[field.end..])
}

/// Stores the checksum of `bytes` at byte `at` of them.
pub(crate) fn seal(bytes: &mut [u8], at: usize) {
    let crc = compute(bytes, at..at + 4);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Returns true if the checksum at byte `at` of `bytes` is right.
pub(crate) fn is_sealed(bytes: &[u8], at: usize) -> bool {
    bytes[at..at + 4] == compute(bytes, at..at + 4).to_le_bytes()
}
