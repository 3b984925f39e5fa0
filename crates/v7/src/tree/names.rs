//! Names: made, linked, removed. The inode is settled before the entry that leads to it.

use crate::format::dinode::Dinode;
use crate::format::entry::is_name;
use crate::format::ondisk::DIRSIZ;
use crate::tree::attr::id;
use crate::tree::inode::Inode;
use crate::tree::mount::V7;
use crate::volume::tx::Tx;
use spindle_vfs::{Attr, Error, FileKind, Ino, NewNode, Result};
use std::sync::{Arc, OnceLock};

impl V7 {
    /// Most names of one file. The inode counts to 32767, but `dcheck` counts names in a signed
    /// byte; System V stops at its `MAXLINK`.
    pub(crate) const fn link_max(&self) -> u16 {
        if self.layout().format.is_sysv() { 1000 } else { 127 }
    }

    /// Returns a directory's inode.
    pub(crate) fn directory(&self, ino: Ino) -> Result<Arc<Inode>> {
        let inode = self.iget_ino(ino)?;
        if inode.is_directory { Ok(inode) } else { Err(Error::NotDirectory) }
    }

    /// Returns the inode behind a new name, as it will be.
    fn new_dinode(&self, node: &NewNode<'_>) -> Result<Dinode> {
        let mut di = Dinode::default();
        match node.kind {
            FileKind::Regular | FileKind::Directory => {}
            FileKind::BlockDevice | FileKind::CharDevice => {
                let byte = |n: u32| u8::try_from(n).map(u32::from).map_err(|_| Error::Overflow);
                di.addr[0] = byte(node.rdev.major)? << 8 | byte(node.rdev.minor)?;
            }
            FileKind::Fifo if self.layout().format.is_sysv() => {}
            FileKind::Fifo | FileKind::Socket | FileKind::Symlink => return Err(Error::NotSupported),
        }
        let now = self.now();
        Ok(Dinode {
            mode: u16::try_from(node.kind.mode_bits() | node.perm & 0o7777).unwrap_or(0),
            nlink: if node.kind == FileKind::Directory { 2 } else { 1 },
            uid: id(node.uid)?,
            gid: id(node.gid)?,
            atime: now,
            mtime: now,
            ctime: now,
            held: OnceLock::from(0),
            ..di
        })
    }

    /// Allocates an inode, and if it is a directory its first block.
    fn make_inode(&self, tx: &Tx<'_>, mut di: Dinode, parent: u16) -> Result<(u16, Dinode)> {
        let ino = self.volume.alloc_inode(tx, &di)?;
        if di.is_directory() {
            self.dir_init(tx, ino, &mut di, parent)?;
        }
        self.volume.store(tx, ino, &di)?;
        Ok((ino, di))
    }

    /// Makes a file of any kind with a name, and takes a reference.
    pub(crate) fn create_name(&self, dir: Ino, name: &[u8], node: &NewNode<'_>) -> Result<Attr> {
        if matches!(name, b"." | b"..") {
            return Err(Error::Exists);
        }
        check_name(name)?;
        let di = self.new_dinode(node)?;
        let directory = node.kind == FileKind::Directory;
        let dir = self.directory(dir)?;
        let mut dir_state = dir.state.write();
        check_alive(&dir_state.di)?;
        if self.dir_find(dir.ino, &dir_state.di, name)?.is_some() {
            return Err(Error::Exists);
        }
        if directory && dir_state.di.nlink >= self.link_max() {
            return Err(Error::TooManyLinks);
        }
        self.volume.transact(&mut *dir_state, |tx, dir_state| {
            let place = self.dir_reserve(tx, dir.ino, &mut dir_state.di)?;
            let (ino, di) = self.make_inode(tx, di, dir.ino)?;
            self.dir_enter(tx, dir.ino, &dir_state.di, place, name, ino)?;
            self.note_modified(&mut dir_state.di);
            dir_state.di.nlink += u16::from(directory);
            self.volume.store(tx, dir.ino, &dir_state.di)?;
            let inode = self.enter_new(ino, di);
            self.inodes.reference(&inode);
            let state = inode.state.read();
            Ok(self.attr(&inode, &state))
        })
    }

    /// Gives a file another name, and takes a reference.
    pub(crate) fn link_name(&self, ino: Ino, dir: Ino, name: &[u8]) -> Result<Attr> {
        if matches!(name, b"." | b"..") {
            return Err(Error::Exists);
        }
        check_name(name)?;
        let inode = self.iget_ino(ino)?;
        let dir = self.directory(dir)?;
        if inode.is_directory {
            return Err(Error::NotPermitted);
        }
        let mut dir_state = dir.state.write();
        let mut state = inode.state.write();
        check_alive(&dir_state.di)?;
        check_alive(&state.di)?;
        if self.dir_find(dir.ino, &dir_state.di, name)?.is_some() {
            return Err(Error::Exists);
        }
        if state.di.nlink >= self.link_max() {
            return Err(Error::TooManyLinks);
        }
        self.volume.transact((&mut *dir_state, &mut *state), |tx, (dir_state, state)| {
            let place = self.dir_reserve(tx, dir.ino, &mut dir_state.di)?;
            self.dir_enter(tx, dir.ino, &dir_state.di, place, name, inode.ino)?;
            let now = self.now();
            (dir_state.di.mtime, dir_state.di.ctime, state.di.ctime) = (now, now, now);
            state.di.nlink += 1;
            self.volume.store(tx, dir.ino, &dir_state.di)?;
            self.volume.store(tx, inode.ino, &state.di)?;
            self.inodes.reference(&inode);
            Ok(self.attr(&inode, state))
        })
    }

    /// Removes a name, which has to be a directory's or has not to be.
    pub(crate) fn remove_name(&self, dir: Ino, name: &[u8], directory: bool) -> Result<()> {
        check_name(name)?;
        let dir = self.directory(dir)?;
        let child = {
            let _two_directories = directory.then(|| self.rename_lock.lock());
            let mut dir_state = dir.state.write();
            check_alive(&dir_state.di)?;
            let found = self.dir_find(dir.ino, &dir_state.di, name)?.ok_or(Error::NotFound)?;
            let child = self.iget(found.ino).map_err(|e| dangling(e, found.ino))?;
            if child.ino == dir.ino {
                return Err(Error::Invalid);
            }
            match (directory, child.is_directory) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                _ => {}
            }
            let mut state = child.state.write();
            if directory && !self.dir_is_empty(child.ino, &state.di)? {
                return Err(Error::NotEmpty);
            }
            self.volume.transact((&mut *dir_state, &mut *state), |tx, (dir_state, state)| {
                self.dir_point(tx, dir.ino, &dir_state.di, found.place, 0)?;
                let now = self.now();
                (dir_state.di.mtime, dir_state.di.ctime, state.di.ctime) = (now, now, now);
                // A directory's own name, its "." and its ".." in the parent go together.
                state.di.nlink = if directory { 0 } else { state.di.nlink.saturating_sub(1) };
                dir_state.di.nlink = dir_state.di.nlink.saturating_sub(directory.into());
                self.volume.store(tx, dir.ino, &dir_state.di)?;
                self.volume.store(tx, child.ino, &state.di)
            })?;
            drop(state);
            child
        };
        self.reclaim(&child)
    }
}

/// A directory that was removed while somebody had it open takes no names.
pub(crate) fn check_alive(di: &Dinode) -> Result<()> {
    if di.nlink == 0 { Err(Error::NotFound) } else { Ok(()) }
}

/// A name that can be created, removed or renamed.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    match name {
        b"" => Err(Error::NotFound),
        b"." | b".." => Err(Error::Invalid),
        _ if name.len() > DIRSIZ => Err(Error::NameTooLong),
        _ if name.contains(&0) || !is_name(name) => Err(Error::Invalid),
        _ => Ok(()),
    }
}

/// Returns a directory entry whose inode is not in use is damage, not a stale number of the
/// caller's.
pub(crate) fn dangling(error: Error, ino: u16) -> Error {
    match error {
        Error::Stale => Error::corrupt("a name leads to a free inode", format!("inode {ino}")),
        other => other,
    }
}
