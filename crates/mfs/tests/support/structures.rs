//! The structures of a set that have checksums.

/// Each structure: its magic, its length (0: it says it itself) and the place of its checksum.
pub const STRUCTURES: [(&[u8], usize, usize); 9] = [
    (b"SpindMFS", 4096, 4092),
    (b"MCyl", 512, 508),
    (b"MH", 512, 508),
    (b"MO", 512, 508),
    (b"MA", 512, 508),
    (b"MMap", 4096, 4),
    (b"MNam", 1024, 20),
    (b"MLog", 512, 4),
    (b"MRec", 0, 4),
];

/// Puts the checksum of a structure right, which stands at byte `checksum` of it.
pub fn seal(structure: &mut [u8], checksum: usize) {
    structure[checksum..checksum + 4].fill(0);
    let crc = crc32c::crc32c(structure);
    structure[checksum..checksum + 4].copy_from_slice(&crc.to_le_bytes());
}
