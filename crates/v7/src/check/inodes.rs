//! Phase 1: every inode, and every block that one leads to.

use super::directories::size_by_blocks;
use super::{Checker, Directory, Finding, InodeState, Pointer};
use crate::format::dinode::Dinode;
use crate::format::layout::{Block, ROOT_INO, index};
use crate::format::ondisk::{ENTRY_SIZE, INODE_SIZE, NDIRECT};
use spindle_ondisk::Field;
use spindle_vfs::FileKind;

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
        if !self.dirs.contains_key(&ROOT_INO) {
            self.findings.push(Finding::NoRoot {});
        }
    }

    fn check_inode(&mut self, ino: u16, di: &Dinode) {
        if di.mode == 0 {
            self.free_inodes += u32::from(ino > ROOT_INO);
            return;
        }
        let Some(kind) = di.kind_in(self.layout.format) else {
            self.findings.push(Finding::BadMode { ino, mode: di.mode });
            return;
        };
        let directory = kind == FileKind::Directory;
        let most = di.size_max(&self.layout);
        if di.has_blocks() && di.size > most {
            self.findings.push(Finding::BadSize { ino, size: di.size, most });
            if directory {
                let size = size_by_blocks(&self.layout, di);
                self.check_blocks(ino, &Dinode { size, ..di.clone() }, kind);
            }
            return;
        }
        let is_full_pipe = kind == FileKind::Fifo && di.addr.iter().any(|&raw| raw != 0);
        if di.size > most || is_full_pipe {
            self.findings.push(Finding::NodeWithContents { ino, size: di.size });
        }
        if directory && !di.size.is_multiple_of(ENTRY_SIZE as u64) {
            self.findings.push(Finding::OddDirectory { ino, size: di.size });
        }
        self.check_blocks(ino, di, kind);
    }

    /// Checks the blocks of an inode of this kind, which has a possible size.
    fn check_blocks(&mut self, ino: u16, di: &Dinode, kind: FileKind) {
        let directory = kind == FileKind::Directory;
        let bsize = u64::from(self.layout.format.bsize);
        let mut claimed = Claimed { directory, end: di.size.div_ceil(bsize), ..Claimed::default() };
        if di.has_blocks() {
            for (index, &raw) in di.addr.iter().enumerate() {
                let levels = (index + 1).saturating_sub(NDIRECT);
                let first = if levels == 0 { index as u64 } else { self.layout.first_behind(levels).0 };
                self.claim(ino, (Pointer::Inode { index }, raw), levels, first, &mut claimed);
            }
        }
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

    /// Claims the blocks below a pointer with `levels` levels of indirect blocks; the first of them
    /// is block `first` of the file.
    fn claim(
        &mut self,
        ino: u16,
        (pointer, raw): (Pointer, u32),
        levels: usize,
        first: u64,
        claimed: &mut Claimed,
    ) {
        if raw == 0 {
            return;
        }
        let Some(block) = self.layout.data_block(raw) else {
            self.findings.push(Finding::BadBlock { ino, pointer, block: raw });
            return;
        };
        if !self.used.enter(block) {
            self.findings.push(Finding::DupBlock { ino, pointer, block: raw });
            return;
        }
        if levels == 0 {
            claimed.beyond += u64::from(first >= claimed.end);
            if claimed.directory && first < claimed.end {
                claimed.blocks.push((first, block));
            }
            return;
        }
        let bytes = self.block(block);
        let span = self.layout.span(levels - 1);
        for index in 0..self.layout.nindir() {
            let below = u32::get(&bytes[index * 4..], self.layout.format.endian);
            let pointer = Pointer::Indirect { block: raw, index };
            self.claim(ino, (pointer, below), levels - 1, first + index as u64 * span, claimed);
        }
    }
}
