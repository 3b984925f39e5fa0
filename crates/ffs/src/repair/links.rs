//! Counts of names, and inodes that have none.

use super::Round;
use crate::check::Finding;
use crate::check::node::kind;
use crate::format::dialect::Dialect;
use crate::format::entries::Entries;
use crate::format::layout::Version;
use crate::format::units::Frag;
use spindle_ondisk::Field;
use spindle_vfs::Result;

/// Most names of a file, in all systems.
const LINK_MAX: u32 = 32_767;
/// Most names of a file in UFS2 of FreeBSD.
const LINK_MAX_FREEBSD: u32 = 65_530;

impl Round<'_> {
    /// Cuts loops of directories, sets counts of names, and frees the inodes that were removed and
    /// not freed.
    pub(super) fn links(&mut self) -> Result<bool> {
        let mut changed = false;
        let superblock = self.checker.superblock;
        let wide = superblock.dialect == Dialect::FreeBsd && self.layout().version == Version::Ufs2;
        let most = if wide { LINK_MAX_FREEBSD } else { LINK_MAX };
        for finding in self.findings() {
            changed |= match finding {
                Finding::DirectoryLoop { ino } => self.cut_loop(ino)?,
                Finding::LinkCount { ino, expected, .. } if expected <= most => {
                    let names = u16::try_from(expected).unwrap_or(u16::MAX);
                    self.image.change_inode(ino, |fields| fields.set_nlink(names))?
                }
                Finding::UnreferencedFile { ino, .. } if self.is_unwanted(ino) => {
                    self.image.clear_inode(ino)?
                }
                Finding::UnreferencedDirectory { ino, .. } if self.is_removed_directory(ino)? => {
                    self.image.clear_inode(ino)?
                }
                _ => false,
            };
        }
        Ok(changed)
    }

    /// Returns true if a file without a name was removed, or has no use without one: an access
    /// control list of Solaris.
    pub(super) fn is_unwanted(&self, ino: u32) -> bool {
        let state = self.checker.state.inode(self.layout(), ino);
        state.nlink == 0 || state.kind == kind::SHAD || self.removed.contains(&ino)
    }

    /// Returns true if a directory was removed: it has no names, and holds none, or is known to
    /// have been.
    pub(super) fn is_removed_directory(&self, ino: u32) -> Result<bool> {
        let layout = self.layout();
        let state = &self.checker.state;
        let Some(row) = state.dir(ino) else { return Ok(false) };
        if self.removed.contains(&ino) {
            return Ok(true);
        }
        if state.inode(layout, ino).nlink != 0 {
            return Ok(false);
        }
        for block in &state.dir_blocks[state.dirs[row].blocks.clone()] {
            let start = block.lbn << layout.fs_bshift;
            let len = (state.dirs[row].size - start).min(layout.fs_bsize.into());
            let bytes = self.image.read(layout.byte(Frag(block.frag)), usize::try_from(len).unwrap_or(0))?;
            let name = |entry: &crate::format::entries::DirEntry<'_>| {
                entry.ino != 0 && !matches!(entry.name, b"." | b"..")
            };
            if Entries::new(layout, &bytes).flatten().any(|entry| name(&entry)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes the name of a directory that is part of a loop out of the directory that has it.
    fn cut_loop(&self, ino: u32) -> Result<bool> {
        let layout = self.layout();
        let state = &self.checker.state;
        let Some(row) = state.dir(ino) else { return Ok(false) };
        let (parent, offset) = (state.dirs[row].parent, state.dirs[row].entry_at);
        let Some((at, within)) = self.chunk_of(parent, offset) else { return Ok(false) };
        self.image.change(at, layout.dirblksiz as usize, |bytes| {
            if u32::get(&bytes[within..], layout.endian) == ino {
                super::chunk::remove(layout, bytes, within);
            }
        })
    }
}
