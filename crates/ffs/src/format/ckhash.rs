//! FreeBSD's check-hashes: CRC-32C without the final inversion, over the bytes as they stand on the
//! disk with the hash field zero (`ffs_subr.c`, `ffs_ckdtoc`-style helpers). Start value and
//! inversion of the common CRC-32C are undone here, so that the crate's hardware code serves.

/// Returns the check-hash of `bytes`, taking the four bytes at `field` as zero.
#[must_use]
pub fn check_hash(bytes: &[u8], field: usize) -> u32 {
    let before = crc32c::crc32c(&bytes[..field]);
    let zeros = crc32c::crc32c_append(before, &[0; 4]);
    !crc32c::crc32c_append(zeros, &bytes[field + 4..])
}

#[cfg(test)]
mod tests {
    use super::check_hash;

    /// Promise: the hash is CRC-32C started with all ones and not inverted at the end (the standard
    /// check value of "123456789" is 0xe3069283), with the field's bytes counted as zeros.
    #[test]
    fn is_the_uninverted_crc() {
        let mut bytes = b"123456789....".to_vec();
        let hash = check_hash(&bytes, 9);
        bytes[9..].fill(0xff);
        assert_eq!(check_hash(&bytes, 9), hash);
        bytes[9..].fill(0);
        assert_eq!(hash, !crc32c::crc32c(&bytes));
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
    }
}
