//! The operations of the model, each with the shortest code that meets the contract of
//! [`FileSystem`].

use super::tree::{Body, Tree};
use super::{ModelFs, ROOT, XATTR_VALUE_MAX};
use spindle_vfs::{
    Attr, DirEntry, Error, FallocateMode, FileKind, FileSystem, FsStat, Ino, Limits, NewNode, Privilege,
    RenameMode, Result, Seek, SetAttr, XattrMode,
};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering;

/// Returns true for `.` and `..`.
fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

impl FileSystem for ModelFs {
    fn root(&self) -> Ino {
        ROOT
    }

    fn limits(&self) -> Limits {
        self.options.limits.clone()
    }

    fn read_only(&self) -> bool {
        self.options.read_only || self.unmounted.load(Ordering::Acquire)
    }

    fn statfs(&self) -> Result<FsStat> {
        let tree = self.tree.lock();
        Ok(FsStat {
            bsize: self.options.block_bytes,
            frsize: self.options.block_bytes,
            blocks: self.options.blocks,
            bfree: self.available(&tree, Privilege::Root),
            bavail: self.available(&tree, Privilege::User),
            reserve: self.options.reserve_blocks,
            files: self.options.files,
            ffree: self.options.files - tree.inodes.len() as u64,
            name_max: u32::try_from(self.options.limits.name_max).unwrap_or(u32::MAX),
        })
    }

    fn statfs_at(&self, _ino: Ino) -> Result<FsStat> {
        self.statfs()
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        Ok(self.attr(self.tree.lock().get(ino)?))
    }

    fn setattr(&self, ino: Ino, set: &SetAttr, _by: Privilege) -> Result<Attr> {
        let mut tree = self.change()?;
        tree.get(ino)?;
        if let Some(size) = set.size {
            tree.blocks(ino)?;
            if size > self.options.limits.file_size_max {
                return Err(Error::TooBig);
            }
        }
        let id_max = self.options.limits.id_max;
        if set.uid.is_some_and(|id| id > id_max) || set.gid.is_some_and(|id| id > id_max) {
            return Err(Error::Overflow);
        }
        let atime = set.atime.map(|time| self.set_time(time)).transpose()?;
        let mtime = set.mtime.map(|time| self.set_time(time)).transpose()?;
        let ctime = set.ctime.map(|time| self.given_time(time)).transpose()?;
        let birthtime = set.birthtime.map(|time| self.given_time(time)).transpose()?;
        if let Some(size) = set.size {
            tree.change_blocks(ino, |blocks| blocks.truncate(size))?;
            tree.get_mut(ino)?.attr.size = size;
            self.touch(&mut tree, ino)?;
        }
        let now = self.now();
        let attr = &mut tree.get_mut(ino)?.attr;
        attr.perm = set.perm.map_or(attr.perm, |perm| perm & 0o7777);
        attr.uid = set.uid.unwrap_or(attr.uid);
        attr.gid = set.gid.unwrap_or(attr.gid);
        attr.flags = set.flags.unwrap_or(attr.flags);
        attr.atime = atime.unwrap_or(attr.atime);
        attr.mtime = mtime.unwrap_or(attr.mtime);
        attr.ctime = ctime.unwrap_or(now);
        if let (Some(held), Some(given)) = (&mut attr.birthtime, birthtime) {
            *held = given;
        }
        Ok(self.attr(tree.get(ino)?))
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Attr> {
        let mut tree = self.tree.lock();
        let names = self.living(&tree, dir, name)?;
        let ino = match name {
            b"." => dir,
            b".." => names.parent,
            _ => names.get(name).ok_or(Error::NotFound)?,
        };
        tree.get_mut(ino)?.references += 1;
        Ok(self.attr(tree.get(ino)?))
    }

    fn reference(&self, ino: Ino) -> Result<Attr> {
        let mut tree = self.tree.lock();
        let inode = tree.get_mut(ino)?;
        if inode.attr.nlink == 0 {
            return Err(Error::Stale);
        }
        inode.references += 1;
        Ok(self.attr(tree.get(ino)?))
    }

    fn forget(&self, ino: Ino, count: u64) {
        let mut tree = self.tree.lock();
        if let Ok(inode) = tree.get_mut(ino) {
            inode.references = inode.references.saturating_sub(count).max(u64::from(ino == ROOT));
            tree.free_if_dead(ino);
        }
    }

    fn readdir(
        &self,
        dir: Ino,
        from: u64,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut tree = self.tree.lock();
        let parent = tree.names(dir)?.parent;
        let inode = tree.get_mut(dir)?;
        self.accessed(inode);
        if inode.attr.nlink == 0 {
            return Ok(());
        }
        let dots = [(0, b".".as_slice(), dir), (1, b"..".as_slice(), parent)];
        let dots = dots.into_iter().filter(|dot| dot.0 >= from);
        for (cookie, name, ino) in dots.chain(tree.names(dir)?.from(from)) {
            let kind = Some(tree.get(ino)?.attr.kind);
            if sink(&DirEntry { name, ino, kind, next: cookie + 1 }).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn create(&self, dir: Ino, name: &[u8], node: &NewNode<'_>, _by: Privilege) -> Result<Attr> {
        let mut tree = self.change()?;
        let limits = &self.options.limits;
        if is_dots(name) || self.living(&tree, dir, name)?.get(name).is_some() {
            return Err(Error::Exists);
        }
        if node.kind == FileKind::Symlink {
            match node.target.len() {
                _ if limits.symlink_max == 0 => return Err(Error::NotSupported),
                0 => return Err(Error::Invalid),
                len if len > limits.symlink_max => return Err(Error::NameTooLong),
                _ if node.target.contains(&0) => return Err(Error::Invalid),
                _ => {}
            }
        }
        if node.uid > limits.id_max || node.gid > limits.id_max {
            return Err(Error::Overflow);
        }
        if node.kind == FileKind::Directory && tree.get(dir)?.attr.nlink >= limits.link_max {
            return Err(Error::TooManyLinks);
        }
        if tree.inodes.len() as u64 >= self.options.files {
            return Err(Error::NoSpace);
        }
        let ino = tree.new_ino();
        let mut inode = self.new_inode(&mut tree, ino, node);
        if let Body::Directory(names) = &mut inode.body {
            names.parent = dir;
            tree.get_mut(dir)?.attr.nlink += 1;
        }
        tree.inodes.insert(ino, inode);
        tree.names_mut(dir)?.set(name, ino);
        self.touch(&mut tree, dir)?;
        Ok(self.attr(tree.get(ino)?))
    }

    fn create_unnamed(&self, dir: Ino, node: &NewNode<'_>, _by: Privilege) -> Result<Attr> {
        let mut tree = self.change()?;
        self.living(&tree, dir, b"any")?;
        if node.kind != FileKind::Regular {
            return Err(Error::Invalid);
        }
        if node.uid > self.options.limits.id_max || node.gid > self.options.limits.id_max {
            return Err(Error::Overflow);
        }
        if tree.inodes.len() as u64 >= self.options.files {
            return Err(Error::NoSpace);
        }
        let ino = tree.new_ino();
        let mut inode = self.new_inode(&mut tree, ino, node);
        inode.attr.nlink = 0;
        inode.nameable = true;
        tree.inodes.insert(ino, inode);
        Ok(self.attr(tree.get(ino)?))
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8], _by: Privilege) -> Result<Attr> {
        let mut tree = self.change()?;
        tree.get(ino)?;
        if is_dots(name) || self.living(&tree, dir, name)?.get(name).is_some() {
            return Err(Error::Exists);
        }
        let now = self.now();
        let inode = tree.get_mut(ino)?;
        if inode.attr.kind == FileKind::Directory {
            return Err(Error::NotPermitted);
        }
        if inode.attr.nlink == 0 && !inode.nameable {
            return Err(Error::NotFound);
        }
        if inode.attr.nlink >= self.options.limits.link_max {
            return Err(Error::TooManyLinks);
        }
        inode.attr.nlink += 1;
        inode.nameable = false;
        inode.attr.ctime = now;
        inode.references += 1;
        tree.names_mut(dir)?.set(name, ino);
        self.touch(&mut tree, dir)?;
        Ok(self.attr(tree.get(ino)?))
    }

    fn unlink(&self, dir: Ino, name: &[u8]) -> Result<()> {
        let mut tree = self.change()?;
        if is_dots(name) {
            return Err(Error::IsDirectory);
        }
        let ino = self.living(&tree, dir, name)?.get(name).ok_or(Error::NotFound)?;
        if Self::is_dir(&tree, ino)? {
            return Err(Error::IsDirectory);
        }
        tree.names_mut(dir)?.remove(name);
        self.touch(&mut tree, dir)?;
        self.drop_name(&mut tree, ino)
    }

    fn rmdir(&self, dir: Ino, name: &[u8]) -> Result<()> {
        let mut tree = self.change()?;
        match name {
            b"." => return Err(Error::Invalid),
            b".." => return Err(Error::NotEmpty),
            _ => {}
        }
        let ino = self.living(&tree, dir, name)?.get(name).ok_or(Error::NotFound)?;
        if !tree.names(ino)?.is_empty() {
            return Err(Error::NotEmpty);
        }
        tree.names_mut(dir)?.remove(name);
        tree.get_mut(dir)?.attr.nlink -= 1;
        self.touch(&mut tree, dir)?;
        self.drop_name(&mut tree, ino)
    }

    fn rename(
        &self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        mode: RenameMode,
        _by: Privilege,
    ) -> Result<()> {
        let mut tree = self.change()?;
        if is_dots(from) || is_dots(to) {
            return Err(Error::Invalid);
        }
        tree.names(from_dir)?;
        tree.names(to_dir)?;
        self.check_name(from)?;
        self.check_name(to)?;
        let moved = self.living(&tree, from_dir, from)?.get(from).ok_or(Error::NotFound)?;
        let target = self.living(&tree, to_dir, to)?.get(to);
        match (mode, target) {
            (RenameMode::NoReplace, Some(_)) => return Err(Error::Exists),
            (RenameMode::Exchange, None) => return Err(Error::NotFound),
            _ => {}
        }
        let moves_dir = Self::is_dir(&tree, moved)?;
        if moves_dir && tree.is_within(to_dir, moved)? {
            return Err(Error::Invalid);
        }
        if target == Some(moved) {
            return Ok(());
        }
        if let Some(target) = target {
            let target_dir = Self::is_dir(&tree, target)?;
            if mode == RenameMode::Exchange {
                if target_dir && tree.is_within(from_dir, target)? {
                    return Err(Error::Invalid);
                }
                return self.exchange(&mut tree, (from_dir, from, moved), (to_dir, to, target));
            }
            match (moves_dir, target_dir) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                (true, true) if !tree.names(target)?.is_empty() => return Err(Error::NotEmpty),
                _ => {}
            }
        }
        let replaces_dir = moves_dir && target.is_some();
        if moves_dir
            && !replaces_dir
            && from_dir != to_dir
            && tree.get(to_dir)?.attr.nlink >= self.options.limits.link_max
        {
            return Err(Error::TooManyLinks);
        }
        if let Some(node) = mode.whiteout() {
            if node.uid > self.options.limits.id_max || node.gid > self.options.limits.id_max {
                return Err(Error::Overflow);
            }
            if tree.inodes.len() as u64 >= self.options.files {
                return Err(Error::NoSpace);
            }
            let ino = tree.new_ino();
            let inode = self.new_inode(&mut tree, ino, &node);
            tree.inodes.insert(ino, inode);
            tree.get_mut(ino)?.references = 0;
            tree.names_mut(from_dir)?.set(from, ino);
        } else {
            tree.names_mut(from_dir)?.remove(from);
        }
        tree.names_mut(to_dir)?.set(to, moved);
        if replaces_dir {
            tree.get_mut(to_dir)?.attr.nlink -= 1;
        }
        if moves_dir {
            Self::reparent(&mut tree, moved, from_dir, to_dir)?;
        }
        self.touch(&mut tree, from_dir)?;
        self.touch(&mut tree, to_dir)?;
        tree.get_mut(moved)?.attr.ctime = self.now();
        target.map_or(Ok(()), |target| self.drop_name(&mut tree, target))
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let mut tree = self.tree.lock();
        let inode = tree.get_mut(ino)?;
        self.accessed(inode);
        match &inode.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Error::Invalid),
        }
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut tree = self.tree.lock();
        tree.blocks(ino)?;
        let size = tree.get(ino)?.attr.size;
        let len = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX).min(buf.len());
        if len > 0 {
            tree.blocks(ino)?.read(offset, &mut buf[..len]);
            self.accessed(tree.get_mut(ino)?);
        }
        Ok(len)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Result<usize> {
        let mut tree = self.change()?;
        let len = self.write_bytes(&mut tree, ino, offset, data, by)?;
        if len > 0 {
            self.touch(&mut tree, ino)?;
        }
        Ok(len)
    }

    fn write_late(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Result<usize> {
        self.write_bytes(&mut *self.change()?, ino, offset, data, by)
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64, by: Privilege) -> Result<()> {
        let mut tree = self.change()?;
        tree.blocks(ino)?;
        if len == 0 {
            return Err(Error::Invalid);
        }
        let end = offset.checked_add(len).ok_or(Error::TooBig)?;
        if end > self.options.limits.file_size_max {
            return Err(Error::TooBig);
        }
        let range = offset..end;
        let keeps_size = match mode {
            FallocateMode::PunchHole => {
                tree.change_blocks(ino, |blocks| blocks.punch(&range))?;
                true
            }
            FallocateMode::Allocate { keep_size } | FallocateMode::ZeroRange { keep_size } => {
                if tree.blocks(ino)?.missing(&range) > self.available(&tree, by) {
                    return Err(Error::NoSpace);
                }
                tree.change_blocks(ino, |blocks| {
                    blocks.allocate(&range);
                    if matches!(mode, FallocateMode::ZeroRange { .. }) {
                        blocks.zero(&range);
                    }
                })?;
                keep_size
            }
        };
        let attr = &mut tree.get_mut(ino)?.attr;
        if !keeps_size {
            attr.size = attr.size.max(end);
        }
        self.touch(&mut tree, ino)
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        let tree = self.tree.lock();
        let blocks = tree.blocks(ino)?;
        let size = tree.get(ino)?.attr.size;
        if offset >= size {
            return Err(Error::NoSuchOffset);
        }
        blocks.seek(offset, size, what).ok_or(Error::NoSuchOffset)
    }

    fn readable_after(&self, ino: Ino, offset: u64) -> Result<u64> {
        Ok(self.statfs_at(ino)?.next_unit(offset))
    }

    fn held(&self, ino: Ino, _sink: &mut dyn FnMut(Range<u64>)) -> Result<()> {
        self.getattr(ino).map(|_| ())
    }

    fn is_snapshot(&self, _ino: Ino) -> bool {
        false
    }

    fn passed_over(&self) -> Vec<String> {
        Vec::new()
    }

    fn fsync(&self, ino: Ino, _data_only: bool) -> Result<()> {
        self.tree.lock().get(ino).map(|_| ())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let tree = self.tree.lock();
        let inode = tree.get(ino)?;
        self.check_xattr(name)?;
        inode.xattrs.get(name).cloned().ok_or(Error::NoAttribute)
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode, _by: Privilege) -> Result<()> {
        let mut tree = self.change()?;
        let now = self.now();
        let inode = tree.get_mut(ino)?;
        self.check_xattr(name)?;
        if value.len() > XATTR_VALUE_MAX {
            return Err(Error::NoSpace);
        }
        match (mode, inode.xattrs.contains_key(name)) {
            (XattrMode::Create, true) => return Err(Error::Exists),
            (XattrMode::Replace, false) => return Err(Error::NoAttribute),
            _ => {}
        }
        inode.xattrs.insert(name.to_vec(), value.to_vec());
        inode.attr.ctime = now;
        Ok(())
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        if !self.options.limits.xattrs {
            return Err(Error::NotSupported);
        }
        Ok(self.tree.lock().get(ino)?.xattrs.keys().cloned().collect())
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        let mut tree = self.change()?;
        let now = self.now();
        let inode = tree.get_mut(ino)?;
        self.check_xattr(name)?;
        inode.xattrs.remove(name).ok_or(Error::NoAttribute)?;
        inode.attr.ctime = now;
        Ok(())
    }

    /// Returns 0: there is no device.
    fn trim(&self, _: Range<u64>, _: u64) -> Result<u64> {
        Ok(0)
    }

    fn unmount(&self) -> Result<()> {
        self.unmounted.store(true, Ordering::Release);
        self.void_references();
        Ok(())
    }
}

impl ModelFs {
    /// Exchanges two names, each given as a directory, a name in it, and its inode.
    fn exchange(&self, tree: &mut Tree, a: (Ino, &[u8], Ino), b: (Ino, &[u8], Ino)) -> Result<()> {
        let (a_is_dir, b_is_dir) = (Self::is_dir(tree, a.2)?, Self::is_dir(tree, b.2)?);
        let gains = match (a_is_dir, b_is_dir) {
            (true, false) => Some(b.0),
            (false, true) => Some(a.0),
            _ => None,
        };
        if let Some(gains) = gains.filter(|_| a.0 != b.0)
            && tree.get(gains)?.attr.nlink >= self.options.limits.link_max
        {
            return Err(Error::TooManyLinks);
        }
        tree.names_mut(a.0)?.set(a.1, b.2);
        tree.names_mut(b.0)?.set(b.1, a.2);
        if a_is_dir {
            Self::reparent(tree, a.2, a.0, b.0)?;
        }
        if b_is_dir {
            Self::reparent(tree, b.2, b.0, a.0)?;
        }
        self.touch(tree, a.0)?;
        self.touch(tree, b.0)?;
        let now = self.now();
        tree.get_mut(a.2)?.attr.ctime = now;
        tree.get_mut(b.2)?.attr.ctime = now;
        Ok(())
    }
}
