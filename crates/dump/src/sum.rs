//! The checksum of headers: all 256 words of a header, with its own, add up to [`CHECKSUM`].

use crate::header::RECORD;
use spindle_ondisk::{Endian, Field};

/// What the words of a header add up to.
const CHECKSUM: u32 = 84_446;
/// Byte of `c_checksum` in a header.
const AT: usize = 28;

/// Returns the sum of the words of a record.
fn sum(record: &[u8; RECORD], endian: Endian) -> u32 {
    record.chunks_exact(4).map(|word| u32::get(word, endian)).fold(0, u32::wrapping_add)
}

/// Returns true if the sum is that of a header.
pub(crate) fn is_right(record: &[u8; RECORD], endian: Endian) -> bool {
    sum(record, endian) == CHECKSUM
}

/// Puts the checksum into a header.
pub(crate) fn put(record: &mut [u8; RECORD], endian: Endian) {
    0_u32.put(&mut record[AT..], endian);
    CHECKSUM.wrapping_sub(sum(record, endian)).put(&mut record[AT..], endian);
}
