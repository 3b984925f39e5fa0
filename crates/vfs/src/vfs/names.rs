//! Names: lookups, creation, links, removal, renames, lists.
//!
//! Existence is checked before permission, so `ENOENT` and `EEXIST` precede `EACCES`.

use super::Vfs;
use crate::access::{self, Access, Cred};
use crate::{Attr, DirEntry, Error, FileKind, Ino, NewNode, RenameMode, Result};
use std::ops::ControlFlow;

#[allow(clippy::missing_errors_doc)] // As `FileSystem` says, and `Access` or `NotPermitted` for want of permission.
impl Vfs {
    /// Finds a name; takes a reference. Needs search permission.
    pub fn lookup(&self, cred: &Cred<'_>, dir: Ino, name: &[u8]) -> Result<Attr> {
        self.search(cred, dir)?;
        self.fs.lookup(dir, name)
    }

    /// Checks that `dir` may be searched.
    fn search(&self, cred: &Cred<'_>, dir: Ino) -> Result<()> {
        if self.checks() {
            let attr = self.fs.getattr(dir)?;
            if attr.kind == FileKind::Directory {
                self.permit(&attr, cred, Access::EXECUTE)?;
            }
        }
        Ok(())
    }

    /// Returns the attributes of a name, without keeping a reference.
    fn peek(&self, dir: Ino, name: &[u8]) -> Result<Attr> {
        let attr = self.fs.lookup(dir, name)?;
        self.forget(attr.ino, 1);
        Ok(attr)
    }

    /// Checks that the name of something of `kind` can be added to `dir`, and returns the
    /// attributes of `dir`.
    pub fn permit_new_name(&self, cred: &Cred<'_>, dir: Ino, name: &[u8], kind: FileKind) -> Result<Attr> {
        self.search(cred, dir)?;
        let attr = self.fs.getattr(dir)?;
        match self.permit_adding(cred, &attr, kind) {
            Ok(()) => Ok(attr),
            // If the name exists, that is the more useful error.
            Err(Error::Access | Error::NotPermitted) if self.peek(dir, name).is_ok() => Err(Error::Exists),
            Err(error) => Err(error),
        }
    }

    /// Checks that something of `kind` can be added to the directory `attr`.
    fn permit_adding(&self, cred: &Cred<'_>, attr: &Attr, kind: FileKind) -> Result<()> {
        if attr.kind != FileKind::Directory {
            return Err(Error::NotDirectory);
        }
        if self.checks() {
            let acl = self.acl(attr, cred)?;
            access::permit_adding(attr, acl.as_ref(), cred, kind == FileKind::Directory)
        } else {
            access::permit_write_by_flags(attr.flags, true)
        }
    }

    /// Checks that the name of `attr` in `dir` can be removed.
    pub fn permit_removal(&self, cred: &Cred<'_>, dir: Ino, attr: &Attr) -> Result<()> {
        let dir = self.fs.getattr(dir)?;
        if self.checks() {
            let (of_dir, of_file) = (self.acl(&dir, cred)?, self.acl(attr, cred)?);
            access::permit_removal((&dir, of_dir.as_ref()), (attr, of_file.as_ref()), cred)?;
        }
        access::permit_removal_by_flags(&dir, attr)
    }

    /// Creates an inode of any kind with a name; takes a reference. The umask is applied and the
    /// group is chosen here; with [`super::Checking::Checked`] only the superuser creates device
    /// nodes.
    pub fn create(&self, cred: &Cred<'_>, dir: Ino, name: &[u8], node: &NewNode<'_>) -> Result<Attr> {
        let parent = self.permit_new_name(cred, dir, name, node.kind)?;
        let is_device = matches!(node.kind, FileKind::BlockDevice | FileKind::CharDevice);
        if is_device && self.checks() && !cred.is_root() {
            return Err(Error::NotPermitted);
        }
        self.fs.create(dir, name, &self.new_node(cred, &parent, node), cred.privilege())
    }

    /// Creates a regular file without a name, as for one in `dir`; takes a reference. It needs the
    /// permissions of [`Self::create`].
    pub fn create_unnamed(&self, cred: &Cred<'_>, dir: Ino, node: &NewNode<'_>) -> Result<Attr> {
        self.search(cred, dir)?;
        let parent = self.fs.getattr(dir)?;
        self.permit_adding(cred, &parent, node.kind)?;
        self.fs.create_unnamed(dir, &self.new_node(cred, &parent, node), cred.privilege())
    }

    /// Returns a node to create in `parent`, with its group, and with the umask applied.
    fn new_node<'a>(&self, cred: &Cred<'_>, parent: &Attr, node: &NewNode<'a>) -> NewNode<'a> {
        let new = |cred| access::new_file(self.options.group, parent, cred, node.kind, node.perm, node.gid);
        let (perm, gid) = new(cred);
        let masked = node.masked | new(&Cred { umask: 0, ..cred.clone() }).0 & !perm;
        NewNode { perm, masked, gid, ..*node }
    }

    /// Gives an inode another name; takes a reference.
    pub fn link(&self, cred: &Cred<'_>, ino: Ino, dir: Ino, name: &[u8]) -> Result<Attr> {
        let attr = self.fs.getattr(ino)?;
        self.permit_new_name(cred, dir, name, attr.kind)?;
        access::permit_write_by_flags(attr.flags, false)?;
        self.fs.link(ino, dir, name, cred.privilege())
    }

    /// Removes a name of an inode that is no directory.
    pub fn unlink(&self, cred: &Cred<'_>, dir: Ino, name: &[u8]) -> Result<()> {
        self.search(cred, dir)?;
        // If the lookup fails, the file system returns its own error.
        if let Ok(attr) = self.peek(dir, name) {
            self.permit_removal(cred, dir, &attr)?;
        }
        self.fs.unlink(dir, name)
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, cred: &Cred<'_>, dir: Ino, name: &[u8]) -> Result<()> {
        self.search(cred, dir)?;
        if name != b"."
            && name != b".."
            && let Ok(attr) = self.peek(dir, name)
        {
            self.permit_removal(cred, dir, &attr)?;
        }
        self.fs.rmdir(dir, name)
    }

    /// Renames; see [`crate::FileSystem::rename`].
    pub fn rename(
        &self,
        cred: &Cred<'_>,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        self.search(cred, from.0)?;
        self.search(cred, to.0)?;
        if let Ok(moved) = self.peek(from.0, from.1) {
            match self.peek(to.0, to.1) {
                Ok(_) if mode == RenameMode::NoReplace => return Err(Error::Exists),
                Ok(replaced) => {
                    self.permit_removal(cred, from.0, &moved)?;
                    self.permit_removal(cred, to.0, &replaced)?;
                    self.permit_adding(cred, &self.fs.getattr(to.0)?, moved.kind)?;
                    if mode == RenameMode::Exchange {
                        self.permit_adding(cred, &self.fs.getattr(from.0)?, replaced.kind)?;
                        self.permit_new_parent(cred, &replaced, to.0, from.0)?;
                    }
                }
                Err(_) => {
                    self.permit_removal(cred, from.0, &moved)?;
                    self.permit_new_name(cred, to.0, to.1, moved.kind)?;
                }
            }
            self.permit_new_parent(cred, &moved, from.0, to.0)?;
        }
        let mode = match mode.whiteout() {
            Some(node) => {
                let NewNode { uid, gid, .. } = self.new_node(cred, &self.fs.getattr(from.0)?, &node);
                RenameMode::Whiteout { uid, gid }
            }
            None => mode,
        };
        self.fs.rename(from.0, from.1, to.0, to.1, mode, cred.privilege())
    }

    /// Checks the permission to write a directory that gets another parent, because its `..`
    /// changes.
    fn permit_new_parent(&self, cred: &Cred<'_>, moved: &Attr, from: Ino, to: Ino) -> Result<()> {
        if moved.kind == FileKind::Directory && from != to {
            self.permit(moved, cred, Access::WRITE)
        } else {
            Ok(())
        }
    }

    /// Returns the target of a symbolic link, without a check of permissions.
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.fs.readlink(ino)
    }

    /// Lists a directory; see [`crate::FileSystem::readdir`].
    pub fn readdir(
        &self,
        cred: &Cred<'_>,
        dir: Ino,
        from: u64,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.checks() {
            self.permit(&self.fs.getattr(dir)?, cred, Access::READ)?;
        }
        self.fs.readdir(dir, from, sink)
    }
}
