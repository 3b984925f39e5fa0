//! The parts that findings are made of: phases, places, names, counts, and why something is wrong.

use crate::format::ondisk::{Csum, CsumTotal};
use serde::Serialize;
use std::fmt;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Inode of the directory.
    pub dir: u32,
    /// Byte offset of the entry in the directory.
    pub offset: u64,
    /// The name; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// Inode that it names.
    pub ino: u32,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I={} NAME={} IN DIR I={} AT BYTE {}", self.ino, self.name, self.dir, self.offset)
    }
}

/// The counts of a group or of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Directories.
    pub ndir: i64,
    /// Free blocks.
    pub nbfree: i64,
    /// Free inodes.
    pub nifree: i64,
    /// Free fragments outside free blocks.
    pub nffree: i64,
}

impl From<Csum> for Counts {
    fn from(cs: Csum) -> Self {
        Self {
            ndir: cs.cs_ndir.into(),
            nbfree: cs.cs_nbfree.into(),
            nifree: cs.cs_nifree.into(),
            nffree: cs.cs_nffree.into(),
        }
    }
}

impl From<CsumTotal> for Counts {
    fn from(total: CsumTotal) -> Self {
        let CsumTotal { cs_ndir: ndir, cs_nbfree: nbfree, cs_nifree: nifree, cs_nffree: nffree, .. } = total;
        Self { ndir, nbfree, nifree, nffree }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ndir, nbfree, nifree, nffree } = self;
        write!(f, "{ndir} dirs, {nbfree} blks, {nifree} inodes, {nffree} frags")
    }
}

/// Where in a file a block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockPlace {
    /// Block of the file's data.
    Data {
        /// Number of the block in the file.
        lbn: u64,
    },
    /// Block of pointers.
    Indirect {
        /// 1 for pointers to data, 2 and 3 for pointers to those.
        level: u8,
        /// First block of the file that it leads to.
        lbn: u64,
    },
    /// Block of extended attributes.
    Extattr {
        /// Number of the block.
        lbn: u64,
    },
}

impl fmt::Display for BlockPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data { lbn } => write!(f, "block {lbn}"),
            Self::Indirect { level, lbn } => write!(f, "level {level} indirect block for block {lbn}"),
            Self::Extattr { lbn } => write!(f, "extended attribute block {lbn}"),
        }
    }
}

/// The reason why an address cannot be a file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BadAddress {
    /// Not in the file system.
    OutOfRange,
    /// Runs over the end of a block.
    Unaligned,
    /// In the structures of a cylinder group, the boot area or the summaries.
    Metadata,
}

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "out of range",
            Self::Unaligned => "across a block boundary",
            Self::Metadata => "in metadata",
        })
    }
}

/// The problem of the root directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RootProblem {
    /// Its inode is free.
    Unallocated,
    /// It is not a directory.
    NotDirectory,
    /// Its inode must be cleared.
    Damaged,
}

impl fmt::Display for RootProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unallocated => "UNALLOCATED",
            Self::NotDirectory => "NOT DIRECTORY",
            Self::Damaged => "DAMAGED",
        })
    }
}
