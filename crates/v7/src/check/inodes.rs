//! Phase 1: every inode, and every block that one leads to. Phase 1b: who else has the blocks that
//! several files claim.

use super::{Checker, Directory, Duplicate, Finding, InodeState, Pointer};
use crate::format::dinode::Dinode;
use crate::format::layout::{Block, BlockMap, ROOT_INO, index};
use crate::format::ondisk::{ENTRY_SIZE, INODE_SIZE, NDIRECT};
use spindle_ondisk::Field;
use spindle_vfs::FileKind;
use std::cell::RefCell;
use std::collections::HashMap;

/// A pointer that is not 0, on the way through the blocks of a file.
#[derive(Clone, Copy)]
struct Step {
    pointer: Pointer,
    raw: u32,
    /// Levels of indirect blocks from it to the data.
    levels: usize,
    /// The first block of the file to which it leads.
    first: u64,
}

/// The blocks counted for one inode.
#[derive(Default)]
struct Claimed {
    /// Blocks of data, with their numbers in the file, if it is a directory.
    blocks: Vec<(u64, Block)>,
    directory: bool,
    /// The first block that the size does not reach.
    end: u64,
    beyond: u64,
}

impl Checker<'_> {
    pub(super) fn check_inodes(&mut self) {
        let per_block = u16::try_from(self.layout.bsize() / INODE_SIZE).unwrap_or(u16::MAX);
        let last = self.layout.last_ino();
        for first in (1..=last).step_by(usize::from(per_block)) {
            let bytes = self.block(self.layout.inode_at(first).0);
            for (ino, inode) in (first..=last).zip(bytes.chunks_exact(INODE_SIZE)) {
                let di = Self::dinode(inode, &self.layout);
                self.check_inode(ino, &di);
            }
        }
        self.report_duplicates();
        if !self.dirs.contains_key(&ROOT_INO) {
            self.findings.push(Finding::NoRoot {});
        }
    }

    fn check_inode(&mut self, ino: u16, di: &Dinode) {
        if di.mode == 0 {
            self.free_inodes += u32::from(ino > ROOT_INO);
            return;
        }
        // Inode 1 was meant for a file of bad blocks.
        let is_kind_there = |kind: &FileKind| ino >= ROOT_INO || *kind == FileKind::Regular;
        let Some(kind) = di.kind_in(self.layout.format).filter(is_kind_there) else {
            self.findings.push(Finding::BadMode { ino, mode: di.mode });
            return;
        };
        let directory = kind == FileKind::Directory;
        let layout = self.layout.clone();
        // An error is a finding. What is wrong with a directory is found with its names.
        let least = di.least_size(&layout, &mut |block| Ok(self.block(block))).unwrap_or_default();
        let counts = kind == FileKind::Regular || di.size > di.size_max(&layout).min(layout.size_bytes());
        if let Some(most) = least.filter(|_| counts) {
            self.findings.push(Finding::BadSize { ino, size: di.size, most });
            self.check_blocks(ino, &Dinode { size: most, ..di.clone() }, kind);
            return;
        }
        let most = di.size_max(&layout);
        if di.has_blocks() && di.size > most {
            self.findings.push(Finding::BadSize { ino, size: di.size, most });
            return;
        }
        let is_full_pipe = kind == FileKind::Fifo && di.addr.iter().any(|&raw| raw != 0);
        if di.size > most || is_full_pipe {
            self.findings.push(Finding::NodeWithContents { ino, size: di.size });
        }
        if directory && !di.size.is_multiple_of(ENTRY_SIZE as u64) {
            self.findings.push(Finding::OddDirectory { ino, size: di.size });
        }
        if let Some(expected) = self.names_end(di) {
            self.findings.push(Finding::ShortDirectory { ino, size: di.size, expected });
            self.check_blocks(ino, &Dinode { size: expected, ..di.clone() }, kind);
            return;
        }
        self.check_blocks(ino, di, kind);
    }

    /// Returns where the names of a directory end, if that is behind its size.
    fn names_end(&mut self, di: &Dinode) -> Option<u64> {
        let layout = self.layout.clone();
        let checker = RefCell::new(self);
        let mut read = |block| Ok(checker.borrow_mut().block(block));
        let mut is_in_use = |ino| {
            let (block, offset) = layout.inode_at(ino);
            let bytes = checker.borrow_mut().block(block);
            Ok(Self::dinode(&bytes[offset..], &layout).mode != 0)
        };
        // An error is a finding.
        di.names_end(&layout, &mut read, &mut is_in_use).unwrap_or_default()
    }

    /// Checks the blocks of an inode of this kind, which has a possible size.
    fn check_blocks(&mut self, ino: u16, di: &Dinode, kind: FileKind) {
        let directory = kind == FileKind::Directory;
        let bsize = u64::from(self.layout.format.bsize);
        let mut claimed = Claimed { directory, end: di.size.div_ceil(bsize), ..Claimed::default() };
        self.each_pointer(di, &mut |checker, step| checker.claim(ino, step, &mut claimed));
        if kind == FileKind::Symlink && !self.has_target(di) {
            self.findings.push(Finding::BadLink { ino });
            return;
        }
        if claimed.beyond > 0 {
            self.findings.push(Finding::BeyondSize { ino, blocks: claimed.beyond });
        }
        if directory {
            self.dirs.insert(ino, Directory { blocks: claimed.blocks, ..Directory::default() });
        }
        self.inodes[usize::from(ino)] =
            InodeState { kind: Some(kind), nlink: di.nlink, size: di.size, ..InodeState::default() };
    }

    /// Returns true if a symbolic link has a target without zeros.
    fn has_target(&mut self, di: &Dinode) -> bool {
        let mut target = Vec::new();
        for raw in &di.addr[..index(di.size).div_ceil(self.layout.bsize())] {
            let Some(block) = self.layout.data_block(*raw) else { return false };
            target.extend(self.block(block));
        }
        target.truncate(index(di.size));
        !target.is_empty() && !target.contains(&0)
    }

    /// Calls `visit` with every pointer of an inode that is not 0, and goes on below those for
    /// which it returns true.
    fn each_pointer(&mut self, di: &Dinode, visit: &mut dyn FnMut(&mut Self, Step) -> bool) {
        if !di.has_blocks() {
            return;
        }
        for (index, &raw) in di.addr.iter().enumerate() {
            let levels = (index + 1).saturating_sub(NDIRECT);
            let first = if levels == 0 { index as u64 } else { self.layout.first_behind(levels).0 };
            self.each_below(Step { pointer: Pointer::Inode { index }, raw, levels, first }, visit);
        }
    }

    fn each_below(&mut self, step: Step, visit: &mut dyn FnMut(&mut Self, Step) -> bool) {
        let Step { raw, levels, first, .. } = step;
        if raw == 0 || !visit(self, step) {
            return;
        }
        let bytes = self.block(Block(raw));
        let span = self.layout.span(levels - 1);
        for index in 0..self.layout.nindir() {
            let below = Step {
                pointer: Pointer::Indirect { block: raw, index },
                raw: u32::get(&bytes[index * 4..], self.layout.format.endian),
                levels: levels - 1,
                first: first + index as u64 * span,
            };
            self.each_below(below, visit);
        }
    }

    /// Claims the block of a pointer. Returns true if nobody has seen what it leads to.
    fn claim(&mut self, ino: u16, step: Step, claimed: &mut Claimed) -> bool {
        let Step { pointer, raw, levels, first } = step;
        let Some(block) = self.layout.data_block(raw) else {
            self.findings.push(Finding::BadBlock { ino, pointer, block: raw });
            return false;
        };
        if !self.used.enter(block) {
            self.duplicates.note(Duplicate { ino, pointer, block: raw });
            return self.enter(block, levels);
        }
        if levels > 0 && self.block(block).iter().all(|&byte| byte == 0) {
            self.findings.push(Finding::EmptyIndirect { ino, pointer, block: raw });
        }
        if levels == 0 {
            claimed.beyond += u64::from(first >= claimed.end);
            if claimed.directory && first < claimed.end {
                claimed.blocks.push((first, block));
            }
        }
        self.enter(block, levels)
    }

    /// Enters an indirect block with `levels` levels. Returns false if that was done before, or if
    /// it is data.
    fn enter(&mut self, block: Block, levels: usize) -> bool {
        levels.checked_sub(1).and_then(|n| self.entered.get_mut(n)).is_some_and(|seen| seen.enter(block))
    }

    /// Carries out phase 1b: reports the blocks that were claimed again, each with the inode that
    /// has claimed it first, and whether there is space to copy them.
    fn report_duplicates(&mut self) {
        let duplicates = std::mem::take(&mut self.duplicates);
        if duplicates.all == 0 {
            return;
        }
        let owners = self.first_owners(&duplicates.list);
        for Duplicate { ino, pointer, block } in &duplicates.list {
            let (ino, pointer, block, owner) = (*ino, *pointer, *block, owners[block]);
            self.findings.push(Finding::DupBlock { ino, pointer, block, owner });
        }
        let unlisted = duplicates.all - duplicates.list.len() as u64;
        if let Some(&Duplicate { ino, pointer, block }) = duplicates.list.last() {
            // The list is full by now, so these are only counted.
            for _ in 0..unlisted {
                self.findings.push(Finding::DupBlock { ino, pointer, block, owner: owners[&block] });
            }
        }
        let free = self.layout.data_blocks() - self.used.len();
        if u64::from(free) < duplicates.all {
            self.findings.push(Finding::NoRoomForCopies { blocks: duplicates.all, free });
        }
    }

    /// Returns the inode that claims each of these blocks first.
    fn first_owners(&mut self, duplicates: &[Duplicate]) -> HashMap<u32, u16> {
        let mut owners: HashMap<u32, u16> = duplicates.iter().map(|dup| (dup.block, 0)).collect();
        let mut seen = BlockMap::new(&self.layout);
        self.entered.fill(BlockMap::new(&self.layout));
        for ino in 1..=self.layout.last_ino() {
            let (block, offset) = self.layout.inode_at(ino);
            let di = Self::dinode(&self.block(block)[offset..], &self.layout);
            if !di.claims_blocks(&self.layout) {
                continue;
            }
            self.each_pointer(&di, &mut |checker, step| {
                let Some(block) = checker.layout.data_block(step.raw) else { return false };
                if seen.enter(block)
                    && let Some(owner) = owners.get_mut(&step.raw)
                {
                    *owner = ino;
                }
                checker.enter(block, step.levels)
            });
        }
        owners
    }
}
