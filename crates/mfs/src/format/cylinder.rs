//! The description of a cylinder of control storage: what it holds, and which of its blocks have a
//! free entry (paper, section 4.2). It takes the first sector of the cylinder.

use super::checksum::{is_sealed, seal};
use super::label::CYLINDER_BLOCKS_MAX;
use spindle_ondisk::{Endian, structure};
use spindle_vfs::{Error, Result};
use std::fmt;

/// Bytes of a description.
pub const CYLINDER_BYTES: usize = 512;
const MAGIC: u32 = u32::from_le_bytes(*b"MCyl");
const MAP: usize = 32;
const CHECKSUM: usize = CYLINDER_BYTES - 4;
const MAP_BYTES: usize = CHECKSUM - MAP;
const _: () = assert!(MAP_BYTES * 8 >= CYLINDER_BLOCKS_MAX as usize, "a bit for each block");

structure! {
    /// The head of a description; the bit map follows.
    pub struct DiskCylinder: 32 {
        /// `MCyl`.
        0 magic: u32,
        /// 0 nothing, 1 file headers, 2 nodes of name maps.
        4 kind: u32,
        /// Position of the cylinder.
        8 number: u64,
        /// Free entries: headers, or blocks.
        16 free: u32,
        /// Headers of files in use that have no name.
        20 orphans: u32,
        /// Blocks at the end that have never been used: they may hold anything.
        24 fresh: u32,
    }
}

/// What a cylinder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing yet.
    Unused,
    /// File headers.
    Headers,
    /// Nodes of name maps.
    Names,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unused => "NOTHING",
            Self::Headers => "FILE HEADERS",
            Self::Names => "NAMES",
        })
    }
}

/// A description in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cylinder {
    /// Position of the cylinder.
    pub number: u64,
    /// What it holds.
    pub kind: Kind,
    /// Free entries: headers, or blocks.
    pub free: u32,
    /// Headers of files in use that have no name.
    pub orphans: u32,
    /// Blocks at the end that have never been used: they may hold anything.
    pub fresh: u32,
    /// A bit for each block after the first: set if the block has a free entry.
    pub map: Vec<u8>,
}

impl Cylinder {
    /// Returns the description of an unused cylinder of so many blocks.
    #[must_use]
    pub fn unused(number: u64, blocks: u32) -> Self {
        Self { number, kind: Kind::Unused, free: 0, orphans: 0, fresh: blocks, map: vec![0; MAP_BYTES] }
    }

    /// Reads the description of a cylinder of so many blocks.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn decode(bytes: &[u8], number: u64, blocks: u32) -> Result<Self> {
        let disk = DiskCylinder::decode(bytes, Endian::Little);
        let damaged = |what: String| Err(Error::corrupt(what, format!("cylinder {number}")));
        if disk.magic != MAGIC || !is_sealed(&bytes[..CYLINDER_BYTES], CHECKSUM) {
            return damaged("its description is damaged".into());
        }
        if disk.number != number {
            return damaged(format!("its description is that of cylinder {}", disk.number));
        }
        let kind = match disk.kind {
            0 => Kind::Unused,
            1 => Kind::Headers,
            2 => Kind::Names,
            other => return damaged(format!("it holds {other}")),
        };
        if disk.fresh > blocks {
            return damaged(format!("{} of {blocks} blocks were never used", disk.fresh));
        }
        let map = bytes[MAP..CHECKSUM].to_vec();
        Ok(Self { number, kind, free: disk.free, orphans: disk.orphans, fresh: disk.fresh, map })
    }

    /// Writes the description to its [`CYLINDER_BYTES`] bytes.
    pub fn encode(&self, bytes: &mut [u8]) {
        let kind = match self.kind {
            Kind::Unused => 0,
            Kind::Headers => 1,
            Kind::Names => 2,
        };
        let Self { number, free, orphans, fresh, .. } = *self;
        DiskCylinder { magic: MAGIC, kind, number, free, orphans, fresh }.encode(bytes, Endian::Little);
        bytes[MAP..CHECKSUM].copy_from_slice(&self.map);
        seal(&mut bytes[..CYLINDER_BYTES], CHECKSUM);
    }

    /// Returns true if a block has a free entry. Blocks are counted from 1.
    #[must_use]
    pub fn has_free(&self, block: u32) -> bool {
        let bit = (block - 1) as usize;
        self.map.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    }

    /// Sets whether a block has a free entry.
    pub fn set_free(&mut self, block: u32, free: bool) {
        let bit = (block - 1) as usize;
        if free {
            self.map[bit / 8] |= 1 << (bit % 8);
        } else {
            self.map[bit / 8] &= !(1 << (bit % 8));
        }
    }

    /// Returns the first of `blocks` blocks that has a free entry.
    #[must_use]
    pub fn first_free(&self, blocks: u32) -> Option<u32> {
        let byte = self.map.iter().position(|&byte| byte != 0)?;
        let bit = u32::try_from(byte * 8).ok()? + self.map[byte].trailing_zeros();
        (bit < blocks).then_some(bit + 1)
    }
}
