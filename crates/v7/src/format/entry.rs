//! The entries of directories: 16 bytes each, an inode number and a name.

use spindle_ondisk::{Endian, Field};

/// Returns the name of an entry: all 14 bytes, or those before the first zero.
pub(crate) fn name_of(d_name: &[u8]) -> &[u8] {
    d_name.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// An entry as it stands in its block, not decoded because a search skips most of them.
pub(crate) struct Entry<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) endian: Endian,
}

impl<'a> Entry<'a> {
    pub(crate) fn ino(&self) -> u16 {
        u16::get(self.bytes, self.endian)
    }

    pub(crate) fn name(&self) -> &'a [u8] {
        name_of(&self.bytes[2..])
    }

    /// Returns true if it is in use and has this name.
    pub(crate) fn is(&self, name: &[u8]) -> bool {
        let d_name = &self.bytes[2..];
        d_name.starts_with(name) && d_name.get(name.len()).is_none_or(|&byte| byte == 0) && self.ino() != 0
    }
}

/// Returns true if `name` is possible as a name.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&b'/')
}
