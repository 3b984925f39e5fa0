//! Directories that a repair makes: the root, and `lost+found`.

use super::repair::Image;
use crate::format::dinode::Dinode;
use crate::format::entry::name_of;
use crate::format::layout::{Block, ROOT_INO};
use crate::format::ondisk::{DIRSIZ, Direct, ENTRY_SIZE, NADDR, NDIRECT, SECTOR};
use spindle_vfs::Result;

/// Permissions of `lost+found`: what is in it may have been secret.
const LOST_MODE: u16 = 0o040_700;
const ROOT_MODE: u16 = 0o040_755;
/// Greatest number of directories for lost files besides `lost+found`.
const LOST_MAX: usize = 99;

/// A place for lost files.
enum Place {
    /// In this directory.
    Directory(u16),
    /// The name of the directory is that of something else.
    Taken,
    /// There is no space for such a directory.
    None,
}

/// Returns a directory entry.
pub(super) fn entry(name: &[u8], d_ino: u16) -> Direct {
    let mut d_name = [0; DIRSIZ];
    d_name[..name.len()].copy_from_slice(name);
    Direct { d_ino, d_name }
}

impl Image<'_> {
    /// Makes inode `ino` an empty directory in the root. Returns false if there is no free block.
    fn make_directory(&mut self, ino: u16, mode: u16) -> Result<bool> {
        let Some(block) = self.new_block()? else { return Ok(false) };
        let endian = self.layout.format.endian;
        self.change(block, |bytes| {
            entry(b".", ino).encode(bytes, endian);
            entry(b"..", ROOT_INO).encode(&mut bytes[ENTRY_SIZE..], endian);
        })?;
        self.put_directory(ino, mode, block, 2 * ENTRY_SIZE as u64)
    }

    /// Makes inode `ino` a directory of one block.
    fn put_directory(&mut self, ino: u16, mode: u16, block: Block, size: u64) -> Result<bool> {
        let mut addr = [0; NADDR];
        addr[0] = block.0;
        let (now, generation) = (self.now, self.inode(ino)?.generation);
        let times = Dinode { atime: now, mtime: now, ctime: now, ..Dinode::default() };
        self.put_inode(ino, &Dinode { mode, nlink: 2, size, addr, generation, ..times })
    }

    /// Gives a file without a name one in `/lost+found`, or in `/lost+found.1` and so on where that
    /// is full or no directory. Returns false if there is no space for it.
    pub(super) fn reconnect(&mut self, ino: u16) -> Result<bool> {
        let others = (1..=LOST_MAX).map(|n| format!("lost+found.{n}"));
        for name in std::iter::once("lost+found".to_owned()).chain(others) {
            match self.lost_directory(name.as_bytes())? {
                Place::Directory(dir) => {
                    if dir != ino && self.enter(dir, format!("#{ino:05}").as_bytes(), ino)? {
                        return Ok(true);
                    }
                }
                Place::Taken => {}
                Place::None => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Returns the directory with this name in the root, which is made if the root has no such
    /// name.
    fn lost_directory(&mut self, name: &[u8]) -> Result<Place> {
        let root = self.inode(ROOT_INO)?;
        if !root.is_directory() {
            return Ok(Place::None);
        }
        let entries = self.places(&root)?.into_iter().map(|(_, _, direct)| direct);
        let mut found = entries.filter(|direct| direct.d_ino != 0 && name_of(&direct.d_name) == name);
        if let Some(Direct { d_ino, .. }) = found.next() {
            let is_directory = d_ino <= self.layout.last_ino() && self.inode(d_ino)?.is_directory();
            return Ok(if is_directory { Place::Directory(d_ino) } else { Place::Taken });
        }
        for ino in ROOT_INO + 1..=self.layout.last_ino() {
            if self.inode(ino)?.mode != 0 {
                continue;
            }
            if !self.make_directory(ino, LOST_MODE)? {
                return Ok(Place::None);
            }
            if !self.enter(ROOT_INO, name, ino)? {
                self.put_inode(ino, &self.inode(ino)?.freed())?;
                return Ok(Place::None);
            }
            let root = self.inode(ROOT_INO)?;
            self.put_inode(ROOT_INO, &Dinode { nlink: root.nlink.saturating_add(1), ..root })?;
            return Ok(Place::Directory(ino));
        }
        Ok(Place::None)
    }

    /// Returns the size of a directory with these direct blocks that ends with the last sector that
    /// has names: the entries behind its last name are zeros.
    fn size_by_names(&self, blocks: &[u32]) -> Result<u64> {
        let mut size = 0;
        for (n, raw) in blocks.iter().enumerate() {
            let Some(block) = self.layout.data_block(*raw) else { break };
            let bytes = self.read(block)?;
            let named = bytes.chunks(SECTOR).rposition(|sector| sector.iter().any(|&byte| byte != 0));
            if let Some(last) = named {
                size = n * self.layout.bsize() + (last + 1) * SECTOR;
            }
        }
        Ok(size as u64)
    }

    /// Makes inode 2 the root directory again: with its own blocks, if they begin with `.` and
    /// `..`; with a block that no file uses and that does, which has the names of a root whose
    /// inode is lost; or empty.
    pub(super) fn remake_root(&mut self) -> Result<bool> {
        let old = self.inode(ROOT_INO)?;
        let own = self.layout.data_block(old.addr[0]);
        if own.map_or(Ok(false), |block| self.begins_as_root(block))? {
            let size = self.size_by_names(&old.addr[..NDIRECT])?;
            let size = if (1..=size).contains(&old.size) { old.size } else { size };
            return self.put_inode(ROOT_INO, &Dinode { mode: ROOT_MODE, nlink: 2, size, ..old });
        }
        for block in (self.layout.s_isize..self.layout.s_fsize).map(Block) {
            if !self.used.has(block) && self.begins_as_root(block)? {
                let size = self.size_by_names(&[block.0])?;
                return self.put_directory(ROOT_INO, ROOT_MODE, block, size);
            }
        }
        self.make_directory(ROOT_INO, ROOT_MODE)
    }

    /// Returns true if a block begins with `.` and `..` of the root.
    fn begins_as_root(&self, block: Block) -> Result<bool> {
        let bytes = self.read(block)?;
        let endian = self.layout.format.endian;
        let begins = |n: usize, name: &[u8]| {
            let found = Direct::decode(&bytes[n * ENTRY_SIZE..], endian);
            found.d_ino == ROOT_INO && name_of(&found.d_name) == name
        };
        Ok(begins(0, b".") && begins(1, b".."))
    }
}
