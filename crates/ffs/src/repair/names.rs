//! Directories: their size, their structure, and what their entries name.

use super::Round;
use super::chunk;
use super::image::is_directory_of;
use super::space::Space;
use crate::check::inodes::bad_address;
use crate::check::node::kind;
use crate::check::{Entry, Finding, RootProblem};
use crate::format::layout::ROOT_INO;
use crate::format::ondisk::NDADDR;
use crate::format::units::Frag;
use spindle_ondisk::Field;
use spindle_vfs::Result;
use std::collections::HashSet;

/// The inode that whiteouts name.
const WINO: u32 = 1;

impl<'a> Round<'a> {
    /// Returns the space that nothing holds.
    fn space(&mut self) -> &mut Space<'a> {
        let (layout, used) = (self.checker.layout, &self.checker.state.used);
        self.space.get_or_insert_with(|| Space::new(layout, used.clone()))
    }

    /// Makes a root directory where there is none.
    pub(super) fn root(&mut self) -> Result<bool> {
        let lost = Finding::Root { problem: RootProblem::Unallocated };
        if !self.checker.findings.list().contains(&lost) {
            return Ok(false);
        }
        let now = self.now;
        let Some(frag) = self.new_directory_block(ROOT_INO, ROOT_INO)? else { return Ok(false) };
        let (size, blocks) = self.small_directory();
        self.image.change_inode(ROOT_INO, |fields| {
            fields.set_directory();
            fields.set_nlink(2);
            fields.set_size(size);
            fields.set_blocks(blocks);
            fields.set_direct(&[frag]);
            fields.set_times(now);
        })
    }

    /// Returns the size of a directory of one chunk in bytes, and its space in units of 512 bytes.
    fn small_directory(&self) -> (u64, u64) {
        let layout = self.layout();
        let chunk = layout.dirblksiz;
        (chunk.into(), u64::from(layout.numfrags(chunk)) * u64::from(layout.fs_fsize / 512))
    }

    /// Writes the first chunk of a directory to free space and returns where; none if there is no
    /// space.
    fn new_directory_block(&mut self, ino: u32, parent: u32) -> Result<Option<u64>> {
        let layout = self.checker.layout;
        let (image, frags) = (self.image, layout.numfrags(layout.dirblksiz));
        let Some(frag) = self.space().take(frags) else { return Ok(None) };
        image.change(layout.byte(Frag(frag)), (frags << layout.fs_fshift) as usize, |bytes| {
            bytes.fill(0);
            for bytes in bytes.chunks_mut(layout.dirblksiz as usize) {
                chunk::empty(layout, bytes);
            }
            chunk::begin(layout, &mut bytes[..layout.dirblksiz as usize], ino, parent);
        })?;
        Ok(Some(frag))
    }

    /// Repairs the sizes and the blocks of directories.
    pub(super) fn directories(&mut self) -> Result<bool> {
        let mut changed = false;
        let mut done = HashSet::new();
        for finding in self.findings() {
            let (Finding::DirectoryTooShort { ino, .. }
            | Finding::DirectorySize { ino, .. }
            | Finding::DirectoryHole { ino, .. }) = finding
            else {
                continue;
            };
            if done.insert(ino) {
                changed |= self.reshape(ino)?;
            }
        }
        Ok(changed)
    }

    /// Gives a directory a size of whole chunks, and blocks without holes: those behind a hole move
    /// up. Where they hang from indirect blocks, holes before those are filled, and the directory
    /// ends at the first other one.
    fn reshape(&mut self, ino: u32) -> Result<bool> {
        let layout = self.checker.layout;
        let Some(row) = self.checker.state.dir(ino) else { return Ok(false) };
        let dir = &self.checker.state.dirs[row];
        let (size, parent) = (dir.size, dir.parent.max(ROOT_INO));
        let blocks = self.checker.state.dir_blocks[dir.blocks.clone()].to_vec();
        let (bsize, chunk) = (u64::from(layout.fs_bsize), u64::from(layout.dirblksiz));
        let Some(last) = blocks.last() else {
            let Some(frag) = self.new_directory_block(ino, parent)? else { return Ok(false) };
            let size = self.small_directory().0;
            return self.image.change_inode(ino, |fields| {
                fields.set_size(size);
                fields.set_direct(&[frag]);
            });
        };
        let end = (last.lbn + 1) * bsize;
        let whole = size.max(1).next_multiple_of(chunk).min(end);
        let in_last = whole - last.lbn * bsize;
        let frags: Vec<u64> = blocks.iter().map(|block| block.frag).collect();
        if frags.len() <= NDADDR {
            let size = (frags.len() as u64 - 1) * bsize + in_last;
            return self.image.change_inode(ino, |fields| {
                fields.set_size(size);
                if last.lbn + 1 != frags.len() as u64 {
                    fields.set_direct(&frags);
                }
            });
        }
        let there: HashSet<u64> = blocks.iter().map(|block| block.lbn).collect();
        let mut changed = false;
        for lbn in (0..NDADDR as u64).filter(|lbn| !there.contains(lbn)) {
            let Some(frag) = self.space().take(layout.fs_frag) else { return Ok(changed) };
            self.image.change(layout.byte(Frag(frag)), layout.fs_bsize as usize, |bytes| {
                bytes.fill(0);
                bytes.chunks_mut(layout.dirblksiz as usize).for_each(|bytes| chunk::empty(layout, bytes));
            })?;
            changed |= self.image.change_inode(ino, |fields| {
                fields.set_pointer(usize::try_from(lbn).unwrap_or(0), frag);
            })?;
        }
        let hole = (NDADDR as u64..=last.lbn).find(|lbn| !there.contains(lbn));
        let size = hole.map_or(whole, |lbn| lbn * bsize);
        Ok(changed | self.image.change_inode(ino, |fields| fields.set_size(size))?)
    }

    /// Repairs chunks, `.` and `..`, and takes out the names that lead nowhere.
    pub(super) fn names(&mut self) -> Result<bool> {
        let layout = self.checker.layout;
        let size = layout.dirblksiz as usize;
        let mut changed = false;
        // Entries of their first chunks have moved.
        let mut begun = HashSet::new();
        for finding in self.findings() {
            changed |= match finding {
                Finding::DirectoryCorrupt { ino, offset, .. } => match self.chunk_of(ino, offset) {
                    Some((at, _)) => self.image.change(at, size, |bytes| chunk::mend(layout, bytes))?,
                    None => false,
                },
                Finding::MissingDot { ino } | Finding::MissingDotdot { ino, .. } => {
                    match self.chunk_of(ino, 0) {
                        Some((at, _)) if begun.insert(ino) => {
                            let dir = self.checker.state.dir(ino).map(|row| &self.checker.state.dirs[row]);
                            let parent =
                                dir.map_or(0, |dir| if dir.parent == 0 { dir.dotdot } else { dir.parent });
                            let parent = if parent == 0 { ROOT_INO } else { parent };
                            self.image.change(at, size, |bytes| chunk::begin(layout, bytes, ino, parent))?
                        }
                        _ => false,
                    }
                }
                Finding::BadDot { ino, .. } => self.point(ino, b".", ino)?,
                Finding::BadDotdot { ino, parent, .. } => self.point(ino, b"..", parent)?,
                Finding::BadWhiteout { entry } if entry.ino != WINO && self.kind_of(entry.ino) != 0 => {
                    let kind = self.kind_of(entry.ino);
                    self.with_entry(&entry, &begun, |bytes, at| bytes[at + 6] = kind)?
                }
                Finding::EntryType { entry, found, expected } => {
                    if found == kind::DIR && expected == kind::REG && self.begins_as_directory(entry.ino)? {
                        self.image.change_inode(entry.ino, super::image::Fields::set_directory)?
                    } else {
                        self.with_entry(&entry, &begun, |bytes, at| bytes[at + 6] = expected)?
                    }
                }
                Finding::ExtraDot { entry }
                | Finding::EntryOutOfRange { entry }
                | Finding::EntryUnallocated { entry }
                | Finding::EntryDamaged { entry }
                | Finding::BadWhiteout { entry }
                | Finding::DuplicateName { entry }
                | Finding::ExtraParent { entry, .. } => {
                    self.with_entry(&entry, &begun, |bytes, at| chunk::remove(layout, bytes, at))?
                }
                _ => false,
            };
        }
        Ok(changed)
    }

    fn kind_of(&self, ino: u32) -> u8 {
        self.checker.state.inode(self.checker.layout, ino).kind
    }

    fn begins_as_directory(&self, ino: u32) -> Result<bool> {
        let layout = self.layout();
        let node = self.node(ino)?;
        if bad_address(layout, node.db[0], layout.numfrags(layout.dirblksiz)).is_some() {
            return Ok(false);
        }
        let bytes = self.image.read(layout.byte(Frag(node.db[0])), layout.dirblksiz as usize)?;
        Ok(is_directory_of(&bytes, layout, ino))
    }

    /// Changes an entry, given its chunk and the byte in it, if it is still where it was found.
    fn with_entry(
        &self,
        entry: &Entry,
        moved: &HashSet<u32>,
        change: impl FnOnce(&mut [u8], usize),
    ) -> Result<bool> {
        let layout = self.layout();
        if moved.contains(&entry.dir) {
            return Ok(false);
        }
        let Some((at, within)) = self.chunk_of(entry.dir, entry.offset) else { return Ok(false) };
        self.image.change(at, layout.dirblksiz as usize, |bytes| {
            if u32::get(&bytes[within..], layout.endian) == entry.ino {
                change(bytes, within);
            }
        })
    }

    /// Makes `.` or `..`, one of the first two entries of a directory, mean another inode.
    fn point(&self, dir: u32, name: &[u8], ino: u32) -> Result<bool> {
        let layout = self.layout();
        let Some((at, _)) = self.chunk_of(dir, 0) else { return Ok(false) };
        self.image.change(at, layout.dirblksiz as usize, |bytes| {
            let mut place = 0;
            for _ in 0..2 {
                let Ok((entry, reclen)) = crate::format::entries::parse(layout, &bytes[place..], place)
                else {
                    return;
                };
                if entry.ino != 0 && entry.name == name {
                    return ino.put(&mut bytes[place..], layout.endian);
                }
                place += reclen;
                if place >= bytes.len() {
                    return;
                }
            }
        })
    }
}
