//! Whether the sizes in the super-block can be right.
//!
//! With a wrong size most pointers of a file system lead out of its data, or its names to inodes
//! that do not exist, and a repair that believed it would destroy all files. So it is compared with
//! the *witnesses*: inodes of files whose addresses fit their sizes, which chance does not make. If
//! several of them contradict it, the sizes that they agree with are better.

use super::{Checker, rebuild};
use crate::format::free_list::walk;
use crate::format::layout::{Block, BlockMap, Layout, MOST_BLOCKS};
use crate::format::salvage::{Extremes, end_of_inodes, first_data_block, plausible_inodes};
use crate::format::superblock::{Detected, Superblock};
use spindle_device::Device;
use spindle_vfs::Result;
use std::ops::Range;

/// What is wrong with a super-block whose sizes cannot be right.
pub(super) const CONTRADICTED: &str = "its super-block has sizes that its inodes contradict";
/// Fewest contradictions that count: a single pointer may be damaged.
const CONTRADICTIONS_MIN: usize = 2;
/// So many blocks of the free list are one contradiction.
const LISTED: usize = 8;

impl Detected {
    /// Returns the super-block to read with: one whose sizes contradict several inodes gets better
    /// ones, and is unusable to write with. Reads all inodes and the free list.
    #[must_use]
    pub fn with_better_sizes(mut self, device: &dyn Device) -> Self {
        if self.unusable.is_none()
            && let Ok(Some(layout)) = better(device, &self)
        {
            self.superblock.set_sizes(&layout);
            self.unusable = Some(CONTRADICTED.into());
        }
        self
    }
}

/// Returns the sizes that the file system of a super-block has, if they cannot be those that it
/// says.
///
/// # Errors
/// Device errors.
pub(super) fn better(device: &dyn Device, detected: &Detected) -> Result<Option<Layout>> {
    let Detected { superblock, .. } = detected;
    let own = superblock.layout()?;
    let blocks = u32::try_from(device.info().size_bytes / u64::from(own.format.bsize));
    let blocks = blocks.unwrap_or(MOST_BLOCKS).min(MOST_BLOCKS);
    let reaching = |s_isize: u32| Layout { s_isize, s_fsize: blocks, ..own.clone() };
    let first = first_data_block(device, &reaching(own.s_isize))?;
    let witnesses = plausible_inodes(device, &reaching(first), first.max(own.s_isize).min(blocks))?;
    // A free list that is whole with other sizes than its own speaks against those.
    let (found, whole) = free_list(device, superblock, &reaching(own.s_isize));
    let found_beyond = count(&found, own.s_fsize..blocks);
    let listed = if whole.is_ok() { found } else { BlockMap::new(&own) };
    // Behind the last inode is something else.
    let inodes_end = end_of_inodes(device, &reaching(first.max(own.s_isize).min(blocks)))?;
    let contradictions = |layout: &Layout| -> usize {
        let of_witness = |witness: &Extremes| {
            let is_outside = witness.least < layout.s_isize || witness.greatest >= layout.s_fsize;
            usize::from(witness.block >= layout.s_isize) + usize::from(is_outside)
        };
        let of_list = count(&listed, own.s_isize..layout.s_isize) + count(&listed, layout.s_fsize..blocks);
        let of_inodes = usize::from(layout.s_isize > inodes_end);
        witnesses.iter().map(of_witness).sum::<usize>() + of_list / LISTED + of_inodes
    };
    // Behind the file system may be another one, so it takes more to make this one larger: many
    // files, the free list, or some files and a part of the free list.
    let beyond = witnesses.iter().filter(|witness| witness.greatest >= own.s_fsize).count();
    let may_grow = beyond >= CONTRADICTIONS_MIN.max(witnesses.len() / 8)
        || count(&listed, own.s_fsize..blocks) >= CONTRADICTIONS_MIN * LISTED
        || beyond >= CONTRADICTIONS_MIN
            && (found_beyond >= LISTED
                || rebuild::is_linked_beyond(device, superblock, &reaching(own.s_isize), own.s_fsize)?);
    let is_short = own.s_fsize > blocks;
    let most = contradictions(&own);
    if is_short {
        // Each block at the end of a file system is in a file or in the free list.
        let (free, _) = free_list(device, superblock, &own);
        let mut checker = Checker::new(device, detected, 0)?;
        checker.check_inodes();
        let is_known = |block| free.has(block) || checker.used.has(block);
        if (blocks..own.s_fsize).map(Block).any(is_known) {
            return Ok(None);
        }
    } else if most < CONTRADICTIONS_MIN {
        return Ok(None);
    }
    let mut best = None;
    for s_isize in [own.s_isize, end_of_inodes(device, &reaching(first))?] {
        if s_isize >= blocks {
            continue;
        }
        let whole = reaching(s_isize);
        let mut end = rebuild::end(device, superblock, &whole)?;
        if let (free, Ok(())) = free_list(device, superblock, &whole) {
            let last = (s_isize..blocks).rfind(|block| free.has(Block(*block)));
            end = end.max(last.map_or(0, |last| last + 1));
        }
        for s_fsize in [own.s_fsize, end] {
            let layout = Layout { s_fsize, ..whole.clone() };
            let count = contradictions(&layout);
            let is_possible = (s_isize + 1..=blocks).contains(&s_fsize);
            if is_possible
                && (may_grow || s_fsize <= own.s_fsize)
                && best.as_ref().is_none_or(|(least, _)| count < *least)
            {
                best = Some((count, layout));
            }
        }
    }
    Ok(best.filter(|(least, layout)| *layout != own && (is_short || least * 2 <= most)).map(|(_, best)| best))
}

/// Returns the number of these blocks that are in a set.
fn count(set: &BlockMap, mut blocks: Range<u32>) -> usize {
    blocks.end = blocks.end.min(set.end());
    blocks.filter(|block| set.has(Block(*block))).count()
}

/// Returns the blocks in the free list, read with these sizes, and whether it is whole.
fn free_list(device: &dyn Device, superblock: &Superblock, layout: &Layout) -> (BlockMap, Result<()>) {
    walk(layout, &superblock.head, |block| {
        let mut bytes = vec![0; layout.bsize()];
        device.read_at(layout.byte(block), &mut bytes)?;
        Ok(layout.format.decode_link(&bytes))
    })
}
