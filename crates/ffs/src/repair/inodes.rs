//! What contradicts itself inside one inode.

use super::Round;
use super::image::is_directory_of;
use crate::check::inodes::{bad_address, impossible};
use crate::check::node::{Node, kind};
use crate::check::{Finding, RootProblem};
use crate::format::ckhash::check_hash;
use crate::format::layout::{ROOT_INO, Version};
use crate::format::ondisk::{DI_CKHASH, NDADDR, NIADDR};
use crate::format::units::{Frag, index};
use spindle_ondisk::Field;
use spindle_vfs::Result;

/// Bytes of an extended attribute before its name.
const EXTATTR_HEADER: usize = 7;

impl Round<'_> {
    /// Repairs what makes an inode impossible, or is a matter of its own fields. Nothing is lost
    /// that can still be found: a directory without its mode gets one, pointers that the size does
    /// not reach go, and only what can be no file at all is cleared.
    pub(super) fn inodes(&mut self) -> Result<bool> {
        let mut changed = false;
        for finding in self.findings() {
            changed |= match finding {
                Finding::PartialInode { ino } | Finding::BadMode { ino, .. } => {
                    self.rescue_directory(ino)? || self.image.clear_inode(ino)?
                }
                Finding::NoDevice { ino }
                | Finding::DamagedSnapshot { ino, .. }
                | Finding::LinkHasNul { ino, offset: 0, .. }
                | Finding::LinkBlockHasNul { ino, .. } => self.image.clear_inode(ino)?,
                Finding::BadSize { ino, .. } => self.guess_size(ino)?,
                Finding::SpecialFileSize { ino, .. } => {
                    self.image.change_inode(ino, |fields| fields.set_size(0))?
                }
                Finding::SnapshotFlag { ino } => {
                    self.image.change_inode(ino, super::image::Fields::clear_snapshot_flag)?
                }
                Finding::DirectoryShort { ino, expected, .. } => {
                    self.image.change_inode(ino, |fields| fields.set_size(expected))?
                }
                Finding::StrayPointer { ino, .. } => self.lengthen(ino)? || self.cut_strays(ino)?,
                Finding::ExtattrSize { ino, .. } => {
                    self.image.change_inode(ino, |fields| fields.set_attributes(0))?
                }
                Finding::ExtattrStray { ino, index, .. } => {
                    self.image.change_inode(ino, |fields| fields.set_attribute_pointer(index as usize, 0))?
                }
                Finding::ExtattrCorrupt { ino, offset } => {
                    self.image.change_inode(ino, |fields| fields.set_attributes(offset))?
                }
                Finding::ExtattrNamespace { ino, offset, .. } => self.drop_attribute(ino, offset)?,
                Finding::LinkHasNul { ino, offset, .. } => {
                    self.image.change_inode(ino, |fields| fields.set_size(offset.into()))?
                }
                Finding::InodeCheckHash { ino, .. } => self.image.change_inode(ino, |_| ())?,
                Finding::Root { problem: RootProblem::NotDirectory } => {
                    self.rescue_directory(ROOT_INO)? || self.image.clear_inode(ROOT_INO)?
                }
                _ => false,
            };
        }
        Ok(changed)
    }

    /// Puts the counts of inodes right, when their pointers are.
    pub(super) fn sizes(&mut self) -> Result<bool> {
        let mut changed = false;
        for finding in self.findings() {
            changed |= match finding {
                Finding::BlockCount { ino, expected, .. } | Finding::BlocksMissing { ino, expected, .. } => {
                    self.image.change_inode(ino, |fields| fields.set_blocks(expected))?
                }
                Finding::EndsInHole { ino, allocated, .. } => {
                    if self.node(ino)?.kind() == kind::LNK {
                        self.image.clear_inode(ino)?
                    } else {
                        self.image.change_inode(ino, |fields| fields.set_size(allocated))?
                    }
                }
                Finding::DirectoryDepth { ino, expected, .. } => {
                    self.image.change_inode(ino, |fields| fields.set_depth(expected))?
                }
                _ => false,
            };
        }
        Ok(changed)
    }

    pub(super) fn node(&self, ino: u32) -> Result<Node> {
        Ok(Node::decode(self.layout(), &self.image.inode(ino)?))
    }

    /// Makes an inode whose mode is lost a directory again, if its first block begins as that of a
    /// directory of this number.
    fn rescue_directory(&self, ino: u32) -> Result<bool> {
        let layout = self.layout();
        let node = self.node(ino)?;
        let frags = layout.numfrags(layout.dirblksiz);
        if node.size == 0 || bad_address(layout, node.db[0], frags).is_some() {
            return Ok(false);
        }
        let chunk = self.image.read(layout.byte(Frag(node.db[0])), layout.dirblksiz as usize)?;
        if !is_directory_of(&chunk, layout, ino) {
            return Ok(false);
        }
        self.image.change_inode(ino, super::image::Fields::set_directory)
    }

    /// Gives an inode with an impossible size the one that its direct pointers and the space it
    /// says it holds agree on; clears it if there is none.
    fn guess_size(&self, ino: u32) -> Result<bool> {
        let layout = self.layout();
        let node = self.node(ino)?;
        let frag = u64::from(layout.fs_frag);
        let held = node.blocks / u64::from(layout.fs_fsize / 512);
        let last = node.db.iter().rposition(|&pointer| pointer != 0);
        let others = node.db.iter().filter(|&&pointer| pointer != 0).count().saturating_sub(1) as u64;
        let tail = held.checked_sub(others * frag).filter(|tail| (1..=frag).contains(tail));
        let is_file = matches!(node.kind(), kind::REG | kind::DIR) && node.extsize == 0;
        match (last, tail) {
            (Some(last), Some(tail)) if is_file && node.ib == [0; NIADDR] => {
                let size = last as u64 * u64::from(layout.fs_bsize) + tail * u64::from(layout.fs_fsize);
                self.image.change_inode(ino, |fields| fields.set_size(size))
            }
            _ => self.image.clear_inode(ino),
        }
    }

    /// Gives a directory whose size ends before its blocks the size that these have.
    fn lengthen(&mut self, ino: u32) -> Result<bool> {
        let node = self.node(ino)?;
        let end = if node.kind() == kind::DIR { self.checker.hidden_end(&node) } else { None };
        end.map_or(Ok(false), |end| self.image.change_inode(ino, |fields| fields.set_size(end)))
    }

    /// Clears the pointers of an inode that its size does not reach.
    fn cut_strays(&self, ino: u32) -> Result<bool> {
        let mut changed = false;
        for _ in 0..NDADDR + NIADDR {
            let Some(Finding::StrayPointer { index, .. }) = impossible(self.layout(), ino, &self.node(ino)?)
            else {
                break;
            };
            changed |= self.image.change_inode(ino, |fields| fields.set_pointer(index as usize, 0))?;
        }
        Ok(changed)
    }

    /// Takes an extended attribute out of those of an inode.
    fn drop_attribute(&self, ino: u32, offset: u32) -> Result<bool> {
        let layout = self.layout();
        let node = self.node(ino)?;
        let mut parts = Vec::new();
        let mut left = node.extsize;
        for &frag in &node.extb {
            let here = left.min(layout.fs_bsize);
            if here == 0 || frag == 0 {
                break;
            }
            parts.push((layout.byte(Frag(frag)), here as usize));
            left -= here;
        }
        let mut area = Vec::new();
        for &(at, len) in &parts {
            area.extend(self.image.read(at, len)?);
        }
        let start = offset as usize;
        let length =
            area.get(start..start + EXTATTR_HEADER).map(|head| u32::get(head, layout.endian) as usize);
        let Some(length) = length.filter(|length| (1..=area.len() - start).contains(length)) else {
            return self.image.change_inode(ino, |fields| fields.set_attributes(offset));
        };
        area.drain(start..start + length);
        let size = u32::try_from(area.len()).unwrap_or(0);
        let mut rest = &area[..];
        for (at, len) in parts {
            let (here, behind) = rest.split_at(len.min(rest.len()));
            self.image.put(at, here)?;
            rest = behind;
        }
        self.image.change_inode(ino, |fields| {
            fields.set_attributes(size);
            if size <= layout.fs_bsize {
                fields.set_attribute_pointer(1, 0);
            }
        })
    }

    /// Returns true if an inode that nobody has looked at may be a file: it is possible, and its
    /// check-hash is right where there is one.
    pub(super) fn may_be_a_file(&self, ino: u32) -> Result<bool> {
        let layout = self.layout();
        let bytes = self.image.inode(ino)?;
        let node = Node::decode(layout, &bytes);
        let hashed = layout.version == Version::Ufs2 && self.image.hashes.inodes;
        Ok(node.kind() != 0
            && impossible(layout, ino, &node).is_none()
            && !(hashed && check_hash(&bytes, DI_CKHASH) != node.ckhash))
    }

    /// Returns the address of the chunk of a directory that holds byte `offset`, and the byte in
    /// it.
    pub(super) fn chunk_of(&self, dir: u32, offset: u64) -> Option<(u64, usize)> {
        let layout = self.layout();
        let state = &self.checker.state;
        let row = &state.dirs[state.dir(dir)?];
        let lbn = layout.lblkno(offset).0;
        let block = state.dir_blocks[row.blocks.clone()].iter().find(|block| block.lbn == lbn)?;
        let at = layout.byte(Frag(block.frag)) + layout.blkoff(offset) as u64;
        let within = at % u64::from(layout.dirblksiz);
        Some((at - within, index(within)))
    }
}
