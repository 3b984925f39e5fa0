//! Rotational positions (paper, section 3.2): where on its track a block comes under the head.
//!
//! A UFS1 superblock lists, for each cylinder of a cycle and each rotational position, the blocks
//! at that position: `fs_postbl` gives the first, `fs_rotbl` the distance from each block to the
//! next one. The groups count free blocks per cylinder and per position. Systems after 4.4BSD
//! dropped all of it; a file system they have written is no longer maintained
//! ([`crate::Layout::rotation`] is `None`).

use crate::format::ondisk::Fs;
use spindle_ondisk::{Endian, Field};
use spindle_vfs::{Error, Result};

/// Byte offset in the superblock of the fixed `fs_opostbl`, and of the table that follows the
/// structure.
const OPOSTBL: usize = 860;
const FS_SPACE: usize = 1376;

/// The checked disk geometry of a UFS1 file system with its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Sectors in a fragment.
    pub fs_old_nspf: u32,
    /// Sectors on a track.
    pub fs_old_nsect: u32,
    /// Sectors on a track with spares.
    pub fs_old_npsect: u32,
    /// Hardware interleave.
    pub fs_old_interleave: u32,
    /// Skew from track to track in sectors.
    pub fs_old_trackskew: u32,
    /// Sectors in a cylinder.
    pub fs_old_spc: u32,
    /// Cylinders in a group.
    pub fs_old_cpg: u32,
    /// Number of rotational positions that are distinguished.
    pub fs_old_nrpos: u32,
    /// Cylinders in a cycle of the tables; 0 without tables.
    pub fs_old_cpc: u32,
    /// First block of each position, `fs_old_cpc` × `fs_old_nrpos`; negative for none.
    pub postbl: Vec<i16>,
    /// Distance in blocks to the next one at the same position; 0 for none.
    pub rotbl: Vec<u8>,
}

impl Rotation {
    /// Reads and checks the geometry and the tables. `None` where the disk has no geometry at all.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the numbers cannot be computed with.
    pub fn check(fs: &Fs, raw: &[u8], endian: Endian, old_tables: bool) -> Result<Option<Self>> {
        let bad = |field: &str, value: i32| {
            Error::corrupt(format!("{field} is {value}, which no disk has"), "superblock, disk geometry")
        };
        let positive = |field: &str, value: i32| {
            u32::try_from(value).ok().filter(|&v| v > 0 && v < 1 << 24).ok_or_else(|| bad(field, value))
        };
        if fs.fs_old_spc == 0 {
            return Ok(None);
        }
        let fs_old_nrpos = if old_tables { 8 } else { positive("fs_old_nrpos", fs.fs_old_nrpos)? };
        let fs_old_cpc = u32::try_from(fs.fs_old_cpc).map_err(|_| bad("fs_old_cpc", fs.fs_old_cpc))?;
        let or_default = |value: i32, default: i32| if value <= 0 { default } else { value };
        let nsect = fs.fs_old_nsect;
        let mut rotation = Self {
            fs_old_nspf: positive("fs_old_nspf", fs.fs_old_nspf)?,
            fs_old_nsect: positive("fs_old_nsect", nsect)?,
            // 4.2BSD had neither spares nor interleave; 4.4BSD takes these values for them.
            fs_old_npsect: positive("fs_old_npsect", or_default(fs.fs_old_npsect, nsect))?,
            fs_old_interleave: positive("fs_old_interleave", or_default(fs.fs_old_interleave, 1))?,
            fs_old_trackskew: u32::try_from(fs.fs_old_trackskew).unwrap_or(0),
            fs_old_spc: positive("fs_old_spc", fs.fs_old_spc)?,
            fs_old_cpg: positive("fs_old_cpg", fs.fs_old_cpg)?,
            fs_old_nrpos,
            fs_old_cpc,
            postbl: Vec::new(),
            rotbl: Vec::new(),
        };
        if rotation.fs_old_npsect < rotation.fs_old_nsect || fs_old_nrpos > 64 || fs_old_cpc > 1024 {
            return Err(bad("fs_old_npsect", fs.fs_old_npsect));
        }
        let (postbl_at, rotbl_at) = if old_tables {
            (OPOSTBL, FS_SPACE)
        } else {
            let offset = |field, value: i32| usize::try_from(value).map_err(|_| bad(field, value));
            (offset("fs_postbloff", fs.fs_postbloff())?, offset("fs_rotbloff", fs.fs_rotbloff())?)
        };
        let blocks = rotation.blocks_per_cycle(fs.fs_frag.cast_unsigned());
        let entries = (fs_old_cpc * fs_old_nrpos) as usize;
        if fs_old_cpc > 0 {
            let postbl = raw.get(postbl_at..postbl_at.saturating_add(entries * 2));
            let rotbl = raw.get(rotbl_at..rotbl_at.saturating_add(blocks));
            let (Some(postbl), Some(rotbl)) = (postbl, rotbl) else {
                return Err(bad("fs_old_cpc", fs.fs_old_cpc));
            };
            rotation.postbl = postbl.chunks_exact(2).map(|b| i16::get(b, endian)).collect();
            rotation.rotbl = rotbl.to_vec();
        }
        Ok(Some(rotation))
    }

    /// Returns the blocks in a cycle of the tables.
    #[must_use]
    pub fn blocks_per_cycle(&self, fs_frag: u32) -> usize {
        let sectors = u64::from(self.fs_old_spc) * u64::from(self.fs_old_cpc);
        usize::try_from(sectors / u64::from(self.fs_old_nspf * fs_frag.max(1))).unwrap_or(usize::MAX)
    }

    /// Returns the cylinder, from the start of its group, of fragment `bno` of the group
    /// (`cbtocylno`).
    #[must_use]
    pub fn cylinder(&self, bno: u32) -> u32 {
        u32::try_from(u64::from(bno) * u64::from(self.fs_old_nspf) / u64::from(self.fs_old_spc))
            .unwrap_or(u32::MAX)
    }

    /// Returns the rotational position of fragment `bno` of its group (`cbtorpos`).
    #[must_use]
    pub fn position(&self, bno: u32) -> u32 {
        let sector = u64::from(bno) * u64::from(self.fs_old_nspf) % u64::from(self.fs_old_spc);
        let nsect = u64::from(self.fs_old_nsect);
        let angle = (sector / nsect * u64::from(self.fs_old_trackskew)
            + sector % nsect * u64::from(self.fs_old_interleave))
            % nsect;
        u32::try_from(angle * u64::from(self.fs_old_nrpos) / u64::from(self.fs_old_npsect)).unwrap_or(0)
    }

    /// Returns the blocks (in blocks from the start of a cycle) at position `rpos` of cylinder
    /// `cyl` of a cycle, as the tables chain them. Stops at the end of the tables whatever they
    /// say.
    pub fn blocks_at(&self, cyl: u32, rpos: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.postbl.get((cyl * self.fs_old_nrpos + rpos) as usize).copied().unwrap_or(-1);
        let mut next = u32::try_from(first).ok();
        std::iter::from_fn(move || {
            let block = next?;
            let step = *self.rotbl.get(block as usize)?;
            next = (step > 0).then(|| block + u32::from(step));
            Some(block)
        })
    }
}
