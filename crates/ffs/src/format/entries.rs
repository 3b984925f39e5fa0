//! The entries in a block of a directory, each checked before it is believed.
//!
//! A directory is made of chunks that an entry never crosses, so a broken entry costs the rest of
//! its chunk and no more.

use crate::format::layout::{InodeFormat, Layout};
use crate::format::ondisk::{DIRECT_HEADER, MAXNAMLEN, dirsiz};
use serde::Serialize;
use spindle_ondisk::Field;
use std::fmt;

/// The problem of the structure of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryDamage {
    /// `d_reclen` is not a multiple of four, or zero.
    ReclenUnaligned,
    /// `d_reclen` leads out of the chunk.
    ReclenTooLong,
    /// `d_reclen` has no room for the name.
    ReclenTooShort,
    /// A name without characters.
    NameEmpty,
    /// A name of more than 255 bytes.
    NameTooLong,
    /// A name with a NUL in it.
    NameHasNul,
    /// A name with a slash in it.
    NameHasSlash,
    /// No NUL after the name.
    NotTerminated,
    /// `d_type` is none at all.
    TypeInvalid,
}

impl fmt::Display for EntryDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReclenUnaligned => "length not a multiple of 4",
            Self::ReclenTooLong => "length beyond the end of its chunk",
            Self::ReclenTooShort => "length too short for its name",
            Self::NameEmpty => "empty name",
            Self::NameTooLong => "name too long",
            Self::NameHasNul => "NUL in name",
            Self::NameHasSlash => "slash in name",
            Self::NotTerminated => "name not terminated",
            Self::TypeInvalid => "invalid type",
        })
    }
}

/// An entry whose structure is sound.
pub(crate) struct DirEntry<'a> {
    /// Byte offset in the block.
    pub(crate) at: usize,
    /// 0 for an unused one.
    pub(crate) ino: u32,
    /// `d_type`, where the format has it.
    pub(crate) kind: Option<u8>,
    pub(crate) name: &'a [u8],
}

/// An entry that cannot be read, and how many bytes are lost with it.
pub(crate) struct Broken {
    pub(crate) at: usize,
    pub(crate) bytes: usize,
    pub(crate) why: EntryDamage,
}

/// The entries of `block`, which is whole chunks.
pub(crate) struct Entries<'a> {
    layout: &'a Layout,
    block: &'a [u8],
    at: usize,
}

impl<'a> Entries<'a> {
    pub(crate) const fn new(layout: &'a Layout, block: &'a [u8]) -> Self {
        Self { layout, block, at: 0 }
    }
}

/// Reads the entry at the start of `bytes`, which end with its chunk and begin at byte `at` of the
/// block; also gives its length.
pub(crate) fn parse<'a>(
    layout: &Layout,
    bytes: &'a [u8],
    at: usize,
) -> Result<(DirEntry<'a>, usize), EntryDamage> {
    if bytes.len() < DIRECT_HEADER {
        return Err(EntryDamage::ReclenTooLong);
    }
    let endian = layout.endian;
    let ino = u32::get(bytes, endian);
    let reclen = usize::from(u16::get(&bytes[4..], endian));
    let (kind, namlen) = match layout.inode_format {
        InodeFormat::New => (Some(bytes[6]), usize::from(bytes[7])),
        InodeFormat::Old | InodeFormat::Sun => (None, usize::from(u16::get(&bytes[6..], endian))),
    };
    if reclen == 0 || !reclen.is_multiple_of(4) {
        return Err(EntryDamage::ReclenUnaligned);
    }
    if reclen > bytes.len() {
        return Err(EntryDamage::ReclenTooLong);
    }
    if namlen > MAXNAMLEN {
        return Err(EntryDamage::NameTooLong);
    }
    if reclen < dirsiz(namlen) {
        return Err(EntryDamage::ReclenTooShort);
    }
    let name = &bytes[DIRECT_HEADER..DIRECT_HEADER + namlen];
    if ino != 0 {
        if namlen == 0 {
            return Err(EntryDamage::NameEmpty);
        }
        if name.contains(&0) {
            return Err(EntryDamage::NameHasNul);
        }
        if name.contains(&b'/') {
            return Err(EntryDamage::NameHasSlash);
        }
        if bytes[DIRECT_HEADER + namlen] != 0 {
            return Err(EntryDamage::NotTerminated);
        }
        if kind.is_some_and(|kind| kind > 15) {
            return Err(EntryDamage::TypeInvalid);
        }
    }
    Ok((DirEntry { at, ino, kind, name }, reclen))
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<DirEntry<'a>, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = self.layout.dirblksiz as usize;
        if self.at >= self.block.len() {
            return None;
        }
        let end = ((self.at / chunk + 1) * chunk).min(self.block.len());
        let at = self.at;
        Some(match parse(self.layout, &self.block[at..end], at) {
            Ok((entry, reclen)) => {
                self.at = at + reclen;
                Ok(entry)
            }
            Err(why) => {
                self.at = end;
                Err(Broken { at, bytes: end - at, why })
            }
        })
    }
}
