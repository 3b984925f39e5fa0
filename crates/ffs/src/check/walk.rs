//! The blocks of an inode in order: direct ones, then what hangs from the indirect ones.
//!
//! The caller sees each pointer that is not a hole and decides whether to go on below it. As long
//! as the caller enters each indirect block once only, all walks together take time in proportion
//! to the file system.

use super::node::Node;
use super::reader::Reader;
use super::terms::BlockPlace;
use crate::format::layout::Layout;
use crate::format::ondisk::NDADDR;
use crate::format::units::{Frag, Lbn};
use spindle_device::Error;
use spindle_ondisk::Field;

/// A step of the walk.
pub(crate) enum Step<'a> {
    /// A pointer.
    Block(Piece),
    /// Pointers in an indirect block that the size does not reach.
    Stray { frag: u64, index: u32, pointers: u32 },
    /// An indirect block that cannot be read.
    Unreadable { frag: u64, error: &'a Error },
}

/// A pointer and what it claims.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) place: BlockPlace,
    pub(crate) frag: u64,
    pub(crate) frags: u32,
}

/// The answer of the caller to a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Continue,
    /// Not what is below this indirect block.
    Skip,
    Stop,
}

/// Returns the pointer at the start of `bytes`; one with a sign becomes an address out of range.
pub(crate) fn pointer_at(layout: &Layout, bytes: &[u8]) -> u64 {
    if layout.pointer_size() == 8 {
        i64::get(bytes, layout.endian).cast_unsigned()
    } else {
        i64::from(i32::get(bytes, layout.endian)).cast_unsigned()
    }
}

/// Buffers for one indirect block on each level, kept from walk to walk.
#[derive(Default)]
pub(crate) struct Walker {
    levels: [Vec<u8>; 3],
}

impl Walker {
    /// Visits everything that the inode holds; `true` if nothing was skipped.
    pub(crate) fn walk(
        &mut self,
        layout: &Layout,
        reader: &mut Reader<'_>,
        node: &Node,
        visit: &mut dyn FnMut(Step<'_>) -> Next,
    ) -> bool {
        let mut walk =
            Walk { layout, reader, visit, levels: &mut self.levels, whole: true, stopped: false, node };
        if node.has_blocks(layout) {
            walk.data();
        }
        if node.extsize > 0 && !walk.stopped {
            walk.extattr();
        }
        walk.whole
    }
}

struct Walk<'w, 'd> {
    layout: &'w Layout,
    reader: &'w mut Reader<'d>,
    visit: &'w mut dyn FnMut(Step<'_>) -> Next,
    levels: &'w mut [Vec<u8>; 3],
    /// Nothing was skipped.
    whole: bool,
    stopped: bool,
    node: &'w Node,
}

impl Walk<'_, '_> {
    /// Shows a pointer to the caller and notes what it wants.
    fn block(&mut self, place: BlockPlace, frag: u64, frags: u32) -> Next {
        let next = (self.visit)(Step::Block(Piece { place, frag, frags }));
        self.stopped |= next == Next::Stop;
        if self.stopped || (next == Next::Skip && matches!(place, BlockPlace::Indirect { .. })) {
            self.whole = false;
        }
        next
    }

    fn data(&mut self) {
        let (layout, node) = (self.layout, self.node);
        let blocks = node.size.div_ceil(layout.fs_bsize.into());
        for (lbn, &frag) in (0..blocks).zip(&node.db) {
            if self.node.is_hole(frag) {
                continue;
            }
            let frags = layout.numfrags(layout.blksize(node.size, Lbn(lbn)));
            if self.block(BlockPlace::Data { lbn }, frag, frags) == Next::Stop {
                return;
            }
        }
        let mut lbn = NDADDR as u64;
        let mut span = 1_u64;
        for (level, &frag) in (1_u8..).zip(&node.ib) {
            span = span.saturating_mul(layout.fs_nindir.into());
            if lbn >= blocks {
                return;
            }
            if !self.node.is_hole(frag) && self.indirect(level, frag, lbn, blocks) == Next::Stop {
                return;
            }
            lbn = lbn.saturating_add(span);
        }
    }

    /// Visits the indirect block and what hangs from it; the file has `blocks` blocks.
    fn indirect(&mut self, level: u8, frag: u64, lbn: u64, blocks: u64) -> Next {
        let layout = self.layout;
        match self.block(BlockPlace::Indirect { level, lbn }, frag, layout.fs_frag) {
            Next::Continue => {}
            Next::Skip => return Next::Continue,
            Next::Stop => return Next::Stop,
        }
        let bsize = layout.fs_bsize as usize;
        let depth = usize::from(level) - 1;
        let mut block = std::mem::take(&mut self.levels[depth]);
        match self.reader.read(layout.byte(Frag(frag)), bsize, 0) {
            Ok(bytes) => {
                block.clear();
                block.extend_from_slice(bytes);
            }
            Err(error) => {
                self.whole = false;
                return (self.visit)(Step::Unreadable { frag, error: &error });
            }
        }
        let next = self.pointers(level, frag, lbn, blocks, &block);
        self.levels[depth] = block;
        next
    }

    fn pointers(&mut self, level: u8, frag: u64, lbn: u64, blocks: u64, block: &[u8]) -> Next {
        let layout = self.layout;
        let span = u64::from(layout.fs_nindir).saturating_pow(u32::from(level) - 1);
        let reached = (blocks - lbn).div_ceil(span).min(layout.fs_nindir.into());
        let mut stray = None;
        for (index, bytes) in (0_u32..).zip(block.chunks_exact(layout.pointer_size())) {
            let pointer = pointer_at(layout, bytes);
            if self.node.is_hole(pointer) {
                continue;
            }
            if u64::from(index) >= reached {
                let (_, pointers) = stray.get_or_insert((index, 0));
                *pointers += 1;
                continue;
            }
            let at = lbn + u64::from(index) * span;
            let next = if level == 1 {
                self.block(BlockPlace::Data { lbn: at }, pointer, layout.fs_frag)
            } else {
                self.indirect(level - 1, pointer, at, blocks)
            };
            if next == Next::Stop {
                return next;
            }
        }
        match stray {
            Some((index, pointers)) => (self.visit)(Step::Stray { frag, index, pointers }),
            None => Next::Continue,
        }
    }

    fn extattr(&mut self) {
        let size = u64::from(self.node.extsize);
        for (lbn, &frag) in (0..).zip(&self.node.extb) {
            if frag == 0 || lbn * u64::from(self.layout.fs_bsize) >= size {
                continue;
            }
            let frags = self.layout.numfrags(self.layout.blksize(size, Lbn(lbn)));
            if self.block(BlockPlace::Extattr { lbn }, frag, frags) == Next::Stop {
                return;
            }
        }
    }
}
