//! Free headers and blocks of control storage, found by the walk of a round: what no file and no
//! directory has, whatever the bit maps say, and what nothing leads to by mistake: a damaged tree
//! would find new nodes in it before the header of the directory leads to a new tree.

use super::Round;
use crate::format::cylinder::{Cylinder, Kind};
use crate::format::header::is_used;
use crate::format::layout::{ControlBlock, HEADER_BYTES, ROOT_INO, index};
use spindle_vfs::Result;
use std::collections::VecDeque;

/// What is free and not taken in this round.
#[derive(Default)]
pub(super) struct FreeControl {
    headers: VecDeque<u64>,
    blocks: VecDeque<ControlBlock>,
    /// The cylinder, and the position in its map, from which more headers come.
    next_header: (u64, usize),
    /// The cylinder from which more blocks come.
    next_block: u64,
    /// No cylinder before it is unused.
    next_unused: u64,
}

impl Round<'_> {
    /// Takes so many free headers; none if there are fewer.
    pub(super) fn take_headers(&mut self, count: usize) -> Result<Option<Vec<u64>>> {
        while self.free.headers.len() < count {
            if !self.more_headers()? && !self.begin_cylinder(Kind::Headers)? {
                return Ok(None);
            }
        }
        Ok(Some(self.free.headers.drain(..count).collect()))
    }

    /// Takes so many free blocks for nodes; none if there are fewer.
    pub(super) fn take_blocks(&mut self, count: usize) -> Result<Option<Vec<ControlBlock>>> {
        while self.free.blocks.len() < count {
            if !self.more_blocks() && !self.begin_cylinder(Kind::Names)? {
                return Ok(None);
            }
        }
        Ok(Some(self.free.blocks.drain(..count).collect()))
    }

    /// Collects the free headers of the next block that has any. Returns false after the last one.
    fn more_headers(&mut self) -> Result<bool> {
        let (number, n) = self.free.next_header;
        let Some(state) = self.checker.cylinders.get(index(number)) else { return Ok(false) };
        let block = match state.map.get(n) {
            Some(&block) if state.kind == Kind::Headers => block,
            _ => {
                self.free.next_header = (number + 1, 0);
                return Ok(true);
            }
        };
        self.free.next_header = (number, n + 1);
        let layout = &self.checker.layout;
        let at = layout.control_byte(layout.block_of(number, block));
        if block > layout.cylinder_blocks() - state.fresh {
            // The block may hold anything; it counts only after this.
            let fresh = layout.cylinder_blocks() - block;
            self.image.put(at, &vec![0; layout.block_bytes()])?;
            self.checker.cylinders[index(number)].fresh = fresh;
            let mut cylinder = self.checker.expected_cylinder(number);
            cylinder.fresh = fresh;
            self.image.put_cylinder(&self.checker, &cylinder)?;
        }
        let layout = &self.checker.layout;
        let device = self.image.device();
        let mut bytes = vec![0; layout.block_bytes()];
        spindle_device::Device::read_at(&*device, at, &mut bytes)?;
        let first = (block - 1) * layout.headers_in_block();
        let slots = (first..).zip(bytes.chunks_exact(HEADER_BYTES));
        let free = slots.filter(|(_, header)| !is_used(header)).map(|(slot, _)| layout.ino_of(number, slot));
        let tied = &self.checker.tied_headers;
        self.free.headers.extend(free.filter(|ino| *ino > ROOT_INO && !tied.contains(ino)));
        Ok(true)
    }

    /// Collects the free blocks of the next cylinder. Returns false after the last one.
    fn more_blocks(&mut self) -> bool {
        let number = self.free.next_block;
        let Some(state) = self.checker.cylinders.get(index(number)) else { return false };
        self.free.next_block += 1;
        if state.kind == Kind::Names {
            let layout = &self.checker.layout;
            let all = (1..=layout.cylinder_blocks()).map(|block| layout.block_of(number, block));
            let checker = &self.checker;
            let held = |at: &ControlBlock| checker.nodes.contains(at) || checker.tied_blocks.contains(at);
            self.free.blocks.extend(all.filter(|at| !held(at)));
        }
        true
    }

    /// Gives an unused cylinder a kind, and collects what it holds. Returns false if there is none.
    fn begin_cylinder(&mut self, kind: Kind) -> Result<bool> {
        let unused = |number: &u64| self.checker.cylinders[index(*number)].kind == Kind::Unused;
        let Some(number) = (self.free.next_unused..self.checker.layout.cylinders).find(unused) else {
            return Ok(false);
        };
        self.free.next_unused = number + 1;
        let layout = &self.checker.layout;
        let blocks = layout.cylinder_blocks();
        let state = &mut self.checker.cylinders[index(number)];
        (state.kind, state.fresh, state.map) = (kind, blocks, (1..=blocks).collect());
        let mut cylinder = Cylinder { kind, ..Cylinder::unused(number, blocks) };
        (1..=blocks).for_each(|block| cylinder.set_free(block, true));
        self.image.put_cylinder(&self.checker, &cylinder)?;
        match kind {
            Kind::Headers => self.free.next_header = (number, 0),
            _ => self.free.next_block = number,
        }
        Ok(true)
    }
}
