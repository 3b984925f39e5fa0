//! Names: made, linked, removed. The inode is settled before the entry that leads to it.

use crate::format::dinode::Dinode;
use crate::format::layout::Version;
use crate::format::ondisk::MAXNAMLEN;
use crate::tree::inode::{Inode, State};
use crate::tree::mount::Ffs;
use crate::volume::tx::{GivenUp, Progress, Tx};
use spindle_cache::Stream;
use spindle_vfs::{Attr, Error, FileKind, FileSystem, Ino, NewNode, Privilege, Result};
use std::sync::Arc;

/// Most names of one file (`UFS_LINK_MAX`).
pub(crate) const LINK_MAX: u16 = 32767;
impl Ffs {
    /// Returns a directory's inode.
    pub(crate) fn directory(&self, ino: Ino) -> Result<Arc<Inode>> {
        let inode = self.iget_ino(ino)?;
        if inode.is_directory { Ok(inode) } else { Err(Error::NotDirectory) }
    }

    /// Creates the inode behind a new name: with its block, if it is a directory, and its target,
    /// if it is a symbolic link.
    fn make_inode(
        &self,
        tx: &Tx<'_>,
        parent: (u32, &Dinode),
        node: &NewNode<'_>,
        by: Privilege,
    ) -> Result<(u32, Dinode, Arc<Stream>)> {
        let directory = node.kind == FileKind::Directory;
        let now = self.now();
        let mode = node.kind.mode_bits() | node.perm & 0o7777;
        let mut di = Dinode {
            mode: u16::try_from(mode).unwrap_or(u16::MAX),
            nlink: if directory { 2 } else { 1 },
            uid: self.check_id(node.uid)?,
            gid: self.check_id(node.gid)?,
            atime: now,
            mtime: now,
            ctime: now,
            birthtime: now,
            ..Dinode::free(self.volume.new_generation())
        };
        if matches!(node.kind, FileKind::BlockDevice | FileKind::CharDevice) {
            di.set_rdev(self.volume.dialect, node.rdev, self.layout().version)?;
        }
        let ino = self.volume.alloc_inode(tx, parent.0, directory)?;
        let stream = self.volume.new_stream();
        match node.kind {
            FileKind::Directory => {
                if self.layout().version == Version::Ufs2 {
                    di.dirdepth = parent.1.dirdepth.wrapping_add(1);
                }
                self.dir_init(tx, ino, &mut di, parent.0, by)?;
            }
            FileKind::Symlink => self.set_target(tx, (ino, &stream), &mut di, node.target, by)?,
            _ => {}
        }
        self.volume.store(tx, ino, &di)?;
        Ok((ino, di, stream))
    }

    fn set_target(
        &self,
        tx: &Tx<'_>,
        (ino, stream): (u32, &Arc<Stream>),
        di: &mut Dinode,
        target: &[u8],
        by: Privilege,
    ) -> Result<()> {
        if target.len() < self.layout().fs_maxsymlinklen as usize {
            di.inline_target = Some(target.to_vec());
            di.size = target.len() as u64;
            return Ok(());
        }
        // A target fits into a block, for which there is always room in the log.
        match self.write_file(tx, (ino, stream), di, 0, target, by)? {
            Progress::Done(n) if n == target.len() => Ok(()),
            _ => Err(Error::NoSpace),
        }
    }

    /// Makes what a new name leads to, and the name.
    pub(crate) fn create_entry(
        &self,
        dir: Ino,
        name: &[u8],
        node: &NewNode<'_>,
        by: Privilege,
    ) -> Result<Attr> {
        if matches!(name, b"." | b"..") {
            return Err(Error::Exists);
        }
        check_name(name)?;
        if node.kind == FileKind::Symlink && node.target.len() > self.limits().symlink_max {
            return Err(Error::NameTooLong);
        }
        let dir = self.directory(dir)?;
        let mut dir_state = dir.state.write();
        check_alive(&dir_state.di)?;
        if self.dir_find(dir.ino, &dir_state, name)?.is_some() {
            return Err(Error::Exists);
        }
        if node.kind == FileKind::Directory && dir_state.di.nlink >= LINK_MAX {
            return Err(Error::TooManyLinks);
        }
        self.volume.transact_naming(&mut *dir_state, |tx, dir_state| {
            self.dir_reserve(tx, dir.ino, dir_state, name.len(), by)?;
            let (ino, di, stream) = self.make_inode(tx, (dir.ino, &dir_state.di), node, by)?;
            self.dir_enter(tx, dir.ino, dir_state, name, (ino, node.kind))?;
            self.note_modified(&mut dir_state.di);
            if node.kind == FileKind::Directory {
                dir_state.di.nlink += 1;
            }
            self.volume.store(tx, dir.ino, &dir_state.di)?;
            let inode = self.enter_new(ino, di, stream);
            self.inodes.reference(&inode);
            let state = inode.state.read();
            Ok(self.attr(&inode, &state))
        })
    }

    /// Gives a file one more name.
    pub(crate) fn link_entry(&self, ino: Ino, dir: Ino, name: &[u8], by: Privilege) -> Result<Attr> {
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
        self.check_not_log(inode.ino)?;
        if state.di.nlink == 0 {
            return Err(Error::NotFound);
        }
        if self.dir_find(dir.ino, &dir_state, name)?.is_some() {
            return Err(Error::Exists);
        }
        if state.di.nlink >= LINK_MAX {
            return Err(Error::TooManyLinks);
        }
        self.volume.transact_naming((&mut *dir_state, &mut *state), |tx, (dir_state, state)| {
            self.dir_reserve(tx, dir.ino, dir_state, name.len(), by)?;
            let kind = state.di.kind().unwrap_or(FileKind::Regular);
            self.dir_enter(tx, dir.ino, dir_state, name, (inode.ino, kind))?;
            let now = self.now();
            (dir_state.di.mtime, dir_state.di.ctime) = (now, now);
            state.di.nlink += 1;
            state.di.ctime = now;
            self.volume.store(tx, dir.ino, &dir_state.di)?;
            self.volume.store(tx, inode.ino, &state.di)?;
            self.inodes.reference(&inode);
            Ok(self.attr(&inode, state))
        })
    }

    /// Removes a name and with it one link of what it named. Both are locked.
    fn drop_name(
        &self,
        (dir_ino, dir): (u32, &mut State),
        name: &[u8],
        place: u64,
        (child_ino, child): (u32, &mut State),
    ) -> Result<()> {
        self.volume.check_orphans()?;
        self.volume.transact_naming((dir, child), |tx, (dir, child)| {
            let now = self.now();
            self.dir_remove(tx, dir_ino, dir, name, place)?;
            (dir.di.mtime, dir.di.ctime) = (now, now);
            child.di.ctime = now;
            if child.di.is_directory() {
                // Its own name, its "." and its ".." in the parent go together.
                child.di.nlink = 0;
                dir.di.nlink = dir.di.nlink.saturating_sub(1);
            } else {
                child.di.nlink = child.di.nlink.saturating_sub(1);
            }
            if child.di.nlink == 0 {
                tx.give_up(GivenUp::LastName(child_ino, child.di.mode));
            }
            self.volume.store(tx, dir_ino, &dir.di)?;
            self.volume.store(tx, child_ino, &child.di)
        })
    }

    pub(crate) fn remove(&self, dir: Ino, name: &[u8], directory: bool) -> Result<()> {
        check_name(name)?;
        let dir = self.directory(dir)?;
        let child = {
            let _two_directories = directory.then(|| self.rename_lock.lock());
            let mut dir_state = dir.state.write();
            check_alive(&dir_state.di)?;
            let found = self.dir_find(dir.ino, &dir_state, name)?.ok_or(Error::NotFound)?;
            let child = self.iget(found.ino).map_err(|e| dangling(e, found.ino))?;
            if child.ino == dir.ino {
                return Err(Error::Invalid);
            }
            self.check_not_log(child.ino)?;
            match (directory, child.is_directory) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                _ => {}
            }
            let mut state = child.state.write();
            if directory && !self.dir_is_empty(child.ino, &state.di)? {
                return Err(Error::NotEmpty);
            }
            self.drop_name((dir.ino, &mut dir_state), name, found.place, (child.ino, &mut state))?;
            drop(state);
            child
        };
        self.reclaim(&child);
        Ok(())
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
        _ if name.len() > MAXNAMLEN => Err(Error::NameTooLong),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Error::Invalid),
        _ => Ok(()),
    }
}

/// Returns a directory entry whose inode is not in use is damage, not a stale number of the
/// caller's.
pub(crate) fn dangling(error: Error, ino: u32) -> Error {
    match error {
        Error::Stale => Error::corrupt("a name leads to a free inode", format!("inode {ino}")),
        other => other,
    }
}
