//! A new super-block where the old one is lost.
//!
//! A super-block of [`Superblock::salvage`] reaches to the end of the device, where something else
//! may be: other file systems of the disk. Nothing there must be written. So the new one ends where
//! the last block is that a file or the free list has. The beginning of the free list is lost, but
//! each of its links is in a free block and holds the addresses of others.

use super::Checker;
use crate::format::kind::Format;
use crate::format::layout::{Block, BlockMap, Layout};
use crate::format::ondisk::NICFREE;
use crate::format::salvage::end_of_inodes;
use crate::format::superblock::{Detected, Superblock};
use spindle_device::Device;
use spindle_vfs::Result;

/// Returns a new super-block for a file system of this format, without a free list.
///
/// # Errors
/// Those of [`Superblock::salvage`].
pub(super) fn superblock(device: &dyn Device, format: Format) -> Result<Detected> {
    let mut detected = Superblock::salvage(device, Some(format))?;
    let s_isize = end_of_inodes(device, &detected.superblock.layout()?)?;
    let layout = Layout { s_isize, ..detected.superblock.layout()? };
    let s_fsize = end(device, &detected.superblock, &layout)?;
    detected.superblock.set_sizes(&Layout { s_fsize, ..layout });
    Ok(detected)
}

/// Returns the block after the last one that a file uses or a link of the free list names, in a
/// file system with the sizes of `layout`.
///
/// # Errors
/// [`spindle_vfs::Error::Corrupt`] if the sizes are impossible; device errors.
pub(super) fn end(device: &dyn Device, superblock: &Superblock, layout: &Layout) -> Result<u32> {
    let used = used(device, superblock, layout)?;
    let mut blocks = (layout.s_isize..layout.s_fsize).map(Block);
    let last = blocks.rfind(|block| used.has(*block));
    let mut end = last.map_or(layout.s_isize + 1, |last| last.0 + 1);
    let mut at = layout.s_isize;
    while at < end {
        let last = last_linked(device, layout, &used, Block(at))?;
        end = end.max(last.map_or(end, |last| last + 1));
        at += 1;
    }
    Ok(end)
}

/// Returns true if a link of the free list that is before block `end` names a block behind it, in a
/// file system with the sizes of `layout`.
///
/// # Errors
/// As [`end`].
pub(super) fn is_linked_beyond(
    device: &dyn Device,
    superblock: &Superblock,
    layout: &Layout,
    end: u32,
) -> Result<bool> {
    let used = used(device, superblock, layout)?;
    for at in (layout.s_isize..end).map(Block) {
        if last_linked(device, layout, &used, at)?.is_some_and(|last| last >= end) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the blocks that the files of a file system with the sizes of `layout` have.
fn used(device: &dyn Device, superblock: &Superblock, layout: &Layout) -> Result<BlockMap> {
    let mut superblock = superblock.clone();
    superblock.set_sizes(layout);
    let detected = Detected { superblock, others: Vec::new(), unusable: None };
    let mut checker = Checker::new(device, &detected, 0)?;
    checker.check_inodes();
    Ok(checker.used)
}

/// Returns the greatest address in a block, if no file has it and it is a full link of the free
/// list.
fn last_linked(device: &dyn Device, layout: &Layout, used: &BlockMap, block: Block) -> Result<Option<u32>> {
    if used.has(block) {
        return Ok(None);
    }
    let mut bytes = vec![0; layout.bsize()];
    device.read_at(layout.byte(block), &mut bytes)?;
    Ok(last_in_link(layout, used, &bytes))
}

/// Returns the greatest address in a block that is a full link of the free list: it holds distinct
/// free blocks, or a zero that ends the list in the first place.
fn last_in_link(layout: &Layout, used: &BlockMap, bytes: &[u8]) -> Option<u32> {
    let (count, addresses) = layout.format.decode_link(bytes);
    if usize::try_from(count) != Ok(NICFREE) {
        return None;
    }
    let mut seen = BlockMap::new(layout);
    let is_link = addresses.iter().enumerate().all(|(n, &raw)| match layout.data_block(raw) {
        Some(block) => !used.has(block) && seen.enter(block),
        None => n == 0 && raw == 0,
    });
    addresses.into_iter().max().filter(|_| is_link)
}
