//! Super-blocks that are good enough to read with, where [`Superblock::open`] finds none.
//!
//! The old file system has no copy of its super-block, but reading needs only the format and where
//! the inodes end and the data begin. The format shows in the root directory. The data begin at the
//! first block that inodes have, or before it; in that case inodes are imagined behind the last
//! one, but no name leads there. Nothing is ever written through such a super-block.

use crate::format::dinode::Dinode;
use crate::format::kind::{Family, Format};
use crate::format::layout::{Block, FIRST_INODE_BLOCK, Layout, MOST_BLOCKS};
use crate::format::ondisk::{Filsys, INODE_SIZE, NDIRECT};
use crate::format::superblock::{Detected, SIZE, Superblock};
use spindle_device::Device;
use spindle_ondisk::Endian;
use spindle_vfs::{Error, FileKind, Result};

impl Superblock {
    /// Finds the super-block as [`Superblock::open`] does; failing that, guesses one to read with:
    /// of the given format, or of each in which the device has a root directory.
    ///
    /// # Errors
    /// Those of [`Superblock::open`]; device errors.
    pub fn salvage(device: &dyn Device, format: Option<Format>) -> Result<Detected> {
        let complaint = match Self::open(device, format) {
            Err(error) if !matches!(error, Error::Device(_)) => error,
            found => return found,
        };
        let mut guesses = Vec::new();
        for tried in format.map_or_else(readable_formats, |format| vec![format]) {
            if let Some(found) = Self::of_sizes(device, tried, FIRST_INODE_BLOCK + 1)
                && (format.is_some() || found.has_root(device)?)
                && let Some(found) =
                    Self::of_sizes(device, tried, first_data_block(device, &found.layout()?)?)
            {
                guesses.push(found);
            }
        }
        if guesses.is_empty() {
            return Err(complaint);
        }
        let superblock = guesses.remove(0);
        let mut others = Vec::new();
        if format.is_none() {
            others = alike(superblock.format);
            others
                .extend(guesses.iter().flat_map(|guess| [vec![guess.format], alike(guess.format)].concat()));
        }
        let unusable = match complaint {
            Error::Corrupt { what, .. } => format!("its super-block cannot be used ({what})"),
            _ => "its super-block is lost".into(),
        };
        Ok(Detected { superblock, others, unusable: Some(unusable) })
    }

    /// Returns a super-block of a file system whose data begin at block `s_isize` and that fills
    /// the device; none if there can be none.
    fn of_sizes(device: &dyn Device, format: Format, s_isize: u32) -> Option<Self> {
        let blocks = device.info().size_bytes / u64::from(format.bsize);
        let mut found = Self::decode(format, &[0; SIZE]);
        found.head = Filsys {
            s_isize: u16::try_from(s_isize).ok()?,
            s_fsize: u32::try_from(blocks).unwrap_or(MOST_BLOCKS).min(MOST_BLOCKS),
            ..found.head
        };
        found.layout().is_ok().then_some(found)
    }
}

/// Returns all formats.
fn formats() -> Vec<Format> {
    let mut formats = Format::UNMARKED.to_vec();
    for endian in [Endian::Little, Endian::Big, Endian::Pdp] {
        for bsize in [512, 1024, 2048] {
            for family in [Family::SysV, Family::SysV16] {
                formats.push(Format { family, bsize, endian });
            }
        }
    }
    formats.retain(|format| format.is_possible());
    formats
}

/// Returns the other formats that differ from this one in the super-block only.
fn alike(format: Format) -> Vec<Format> {
    let is_alike = |other: &Format| (other.bsize, other.endian) == (format.bsize, format.endian);
    formats().into_iter().filter(|other| is_alike(other) && *other != format).collect()
}

/// Returns a format for each way in which inodes and directories can be read: families differ in
/// their super-blocks only.
fn readable_formats() -> Vec<Format> {
    let (mut formats, mut seen) = (formats(), Vec::new());
    formats.retain(|format| {
        let new = !seen.contains(&(format.bsize, format.endian));
        seen.push((format.bsize, format.endian));
        new
    });
    formats
}

/// Returns the block at which the inodes end: after the last inode in use and the blocks of free
/// inodes that follow it, and where the data of `layout` begin, at the latest.
///
/// # Errors
/// Device errors.
pub(crate) fn end_of_inodes(device: &dyn Device, layout: &Layout) -> Result<u32> {
    let mut end = FIRST_INODE_BLOCK + 1;
    let mut bytes = vec![0; layout.bsize()];
    let mut only_free = true;
    for block in FIRST_INODE_BLOCK..layout.s_isize {
        device.read_at(u64::from(block) * u64::from(layout.format.bsize), &mut bytes)?;
        let mut inodes = bytes.chunks_exact(INODE_SIZE).map(|di| Dinode::decode(di, layout.format.endian));
        if inodes.clone().any(|di| is_plausible(&di, layout) || is_node(&di)) {
            only_free = true;
        } else {
            only_free &= inodes.all(|di| di.mode == 0 && di.nlink == 0 && di.size == 0);
        }
        if only_free {
            end = block + 1;
        }
    }
    Ok(end)
}

/// The extremes of the addresses in a plausible inode.
pub(crate) struct Extremes {
    /// The block of the inode.
    pub(crate) block: u32,
    /// Its least address.
    pub(crate) least: u32,
    /// Its greatest address.
    pub(crate) greatest: u32,
}

/// Returns the plausible inodes with addresses that are in blocks before `end`.
///
/// # Errors
/// Device errors.
pub(crate) fn plausible_inodes(device: &dyn Device, layout: &Layout, end: u32) -> Result<Vec<Extremes>> {
    let mut found = Vec::new();
    let mut bytes = vec![0; layout.bsize()];
    for block in FIRST_INODE_BLOCK..end {
        device.read_at(layout.byte(Block(block)), &mut bytes)?;
        for inode in bytes.chunks_exact(INODE_SIZE) {
            let di = Dinode::decode(inode, layout.format.endian);
            let addresses = di.addr.iter().copied().filter(|&addr| addr != 0);
            if let (Some(least), Some(greatest)) = (addresses.clone().min(), addresses.max())
                && is_plausible(&di, layout)
            {
                found.push(Extremes { block, least, greatest });
            }
        }
    }
    Ok(found)
}

/// Returns the block at which the data begin, or one behind it: each plausible inode lies before
/// the data and has no address before them. Of damaged ones that say something else there are few,
/// so it is the block on which the most agree.
///
/// # Errors
/// Device errors.
pub(crate) fn first_data_block(device: &dyn Device, layout: &Layout) -> Result<u32> {
    let inopb = layout.format.inopb();
    let end = layout.s_fsize.min(FIRST_INODE_BLOCK + u32::from(u16::MAX).div_ceil(inopb)) - 1;
    let mut found = plausible_inodes(device, layout, end)?;
    found.retain(|inode| inode.block < inode.least);
    let mut blocks: Vec<u32> = found.iter().map(|inode| inode.block).collect();
    let mut least: Vec<u32> = found.iter().map(|inode| inode.least.min(end)).collect();
    blocks.sort_unstable();
    least.sort_unstable();
    let agreeing = |first: u32| {
        blocks.partition_point(|block| *block < first) - least.partition_point(|least| *least < first)
    };
    // Of equals, the last in this order is returned, which is the first on the disk.
    Ok(least.iter().rev().copied().max_by_key(|first| agreeing(*first)).unwrap_or(end))
}

/// Returns true if an inode is one of a device or a pipe.
fn is_node(di: &Dinode) -> bool {
    let is_node = matches!(di.kind(), Some(FileKind::BlockDevice | FileKind::CharDevice | FileKind::Fifo));
    is_node && di.nlink > 0 && di.size == 0 && di.addr[1..].iter().all(|&addr| addr == 0)
}

/// Returns true if an inode is one of a file whose addresses fit its size.
fn is_plausible(di: &Dinode, layout: &Layout) -> bool {
    let has_data = matches!(di.kind(), Some(FileKind::Regular | FileKind::Directory));
    let blocks = di.size.div_ceil(layout.format.bsize.into());
    let fits = |(n, &addr): (usize, &u32)| {
        let reached = if n < NDIRECT { n as u64 } else { NDIRECT as u64 };
        addr == 0 || (reached < blocks && addr < layout.s_fsize)
    };
    has_data && di.nlink > 0 && di.size <= layout.file_size_max() && di.addr.iter().enumerate().all(fits)
}
