//! All inodes of a group, block by block, read in long runs.

use super::inodes::impossible;
use super::node::Node;
use super::reader::Reader;
use crate::format::group::{Group, GroupMap};
use crate::format::layout::{Layout, Version};
use spindle_device::Error;

/// Bytes read at once.
const RUN_BYTES: usize = 1 << 20;

/// Returns how many inodes of a group were ever initialised; `None` if the group cannot say.
pub(crate) fn initialised(layout: &Layout, reader: &mut Reader<'_>, cgx: u32) -> Option<u32> {
    if layout.version == Version::Ufs1 {
        return Some(layout.fs_ipg);
    }
    let block = reader.read(layout.byte(layout.cgtod(cgx)), layout.fs_cgsize as usize, 0).ok()?;
    let map = GroupMap::check(layout, block, cgx).ok()?;
    Some(Group::new(layout, &map, block).initediblk().min(layout.fs_ipg))
}

/// The blocks of inodes of a group that were initialised. Where the group does not say how many
/// were, they end with the last block that looks like inodes.
pub(crate) struct InodeBlocks<'a> {
    layout: &'a Layout,
    cgx: u32,
    is_certain: bool,
    next: u32,
    blocks: u32,
    block: Vec<u8>,
}

/// A block of inodes that cannot be read: its first byte, and why.
pub(crate) struct Unread {
    pub(crate) at: u64,
    pub(crate) error: Error,
}

impl<'a> InodeBlocks<'a> {
    pub(crate) fn new(layout: &'a Layout, cgx: u32, initialised: Option<u32>) -> Self {
        let blocks = initialised.unwrap_or(layout.fs_ipg).div_ceil(layout.fs_inopb);
        let block = vec![0; layout.fs_bsize as usize];
        Self { layout, cgx, is_certain: initialised.is_some(), next: 0, blocks, block }
    }

    /// Returns the next block as its first inode and the bytes of its inodes.
    pub(crate) fn next(&mut self, reader: &mut Reader<'_>) -> Option<Result<(u32, &[u8]), Unread>> {
        let layout = self.layout;
        if self.next == self.blocks {
            return None;
        }
        let n = self.next;
        self.next += 1;
        let at = layout.byte(layout.cgimin(self.cgx) + u64::from(n * layout.fs_frag));
        let bsize = layout.fs_bsize as usize;
        let ahead = ((self.blocks - n) as usize * bsize).min(RUN_BYTES);
        match reader.read(at, bsize, ahead) {
            Ok(bytes) => self.block.copy_from_slice(bytes),
            Err(error) => return Some(Err(Unread { at, error })),
        }
        if !self.is_certain && !plausible(layout, &self.block) {
            self.next = self.blocks;
            return None;
        }
        let inodes = (layout.fs_ipg - n * layout.fs_inopb).min(layout.fs_inopb) as usize;
        let first = self.cgx * layout.fs_ipg + n * layout.fs_inopb;
        Some(Ok((first, &self.block[..inodes * layout.inode_size()])))
    }
}

/// Returns true if a block looks like inodes: all free and blank, or of known kinds with sizes in
/// range.
fn plausible(layout: &Layout, block: &[u8]) -> bool {
    block.chunks_exact(layout.inode_size()).all(|bytes| {
        let node = Node::decode(layout, bytes);
        if node.kind() == 0 { node.is_blank() } else { impossible(layout, 0, &node).is_none() }
    })
}
