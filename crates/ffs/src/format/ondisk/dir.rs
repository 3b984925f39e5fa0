//! Directory entries (`struct direct`): a head of eight bytes, the name, a NUL, padding to four
//! bytes.

use spindle_ondisk::structure;

/// Longest name in bytes.
pub const MAXNAMLEN: usize = 255;
/// Bytes of an entry before its name.
pub const DIRECT_HEADER: usize = 8;

structure! {
    /// The head of a directory entry. In the old format the last two bytes are one 16-bit
    /// `d_namlen`.
    pub struct DirectHeader: 8 {
        /// Inode, 0 in an unused entry at the start of a chunk.
        0 d_ino: u32,
        /// Bytes from this entry to the next.
        4 d_reclen: u16,
        /// Kind: the `S_IFMT` bits shifted down by 12.
        6 d_type: u8,
        /// Bytes of the name.
        7 d_namlen: u8,
    }
}

/// Returns the bytes that an entry with a name of `namlen` bytes needs (`DIRSIZ`).
#[must_use]
pub const fn dirsiz(namlen: usize) -> usize {
    (DIRECT_HEADER + namlen + 1).next_multiple_of(4)
}
