//! The operations: [`FileSystem`] for the old file system.
//!
//! Each one takes the locks of the inodes it touches in the order of [`spindle_tree`], reads what
//! it needs, begins a transaction, and makes its changes; if any of it fails, nothing has changed
//! ([`crate::volume::tx`]). There is no reserve of space, so privileges do not matter for it.

use crate::format::dinode::Dinode;
use crate::format::entry::is_name;
use crate::format::layout::{ROOT_INO, index};
use crate::format::ondisk::{DIRSIZ, ENTRY_SIZE};
use crate::tree::attr::check_regular;
use crate::tree::inode::{Inode, State};
use crate::tree::mount::V7;
use spindle_clock::RwLockWriteGuard;
use spindle_tree::{Listing, Operations, Tree};
use spindle_vfs::{
    AclKind, Attr, DirEntry, Error, FallocateMode, FileKind, FileSystem, FsStat, Ino, Limits, NewNode,
    Privilege, RenameMode, Result, Seek, SetAttr, XattrMode,
};
use std::cell::RefCell;
use std::ops::{ControlFlow, Range};

/// The bit of a cookie that says that names before it are lost.
const BEHIND_DAMAGE: u64 = 1 << 62;
/// Number of names that `readdir` reads under the lock at a time.
const BATCH: usize = 256;

/// Returns a regular file's inode, locked for change.
fn write_regular(inode: &Inode) -> Result<RwLockWriteGuard<'_, State>> {
    let state = inode.state.write();
    check_regular(&state.di)?;
    Ok(state)
}

impl FileSystem for V7 {
    fn root(&self) -> Ino {
        Ino(ROOT_INO.into())
    }

    fn limits(&self) -> Limits {
        Limits {
            name_max: DIRSIZ,
            symlink_max: 0,
            link_max: self.link_max().into(),
            file_size_max: self.layout().file_size_max(),
            xattrs: false,
            acls: AclKind::None,
            time_granularity_ns: 1_000_000_000,
            time_range: (i32::MIN.into(), i32::MAX.into()),
            birthtime: false,
            file_flags: 0,
            id_max: u16::MAX.into(),
            log: None,
        }
    }

    fn read_only(&self) -> bool {
        self.volume.is_read_only()
    }

    fn statfs(&self) -> Result<FsStat> {
        let space = self.volume.space.lock();
        Ok(FsStat {
            bsize: self.layout().format.bsize,
            frsize: self.layout().format.bsize,
            blocks: self.layout().data_blocks().into(),
            bfree: space.free_blocks.into(),
            bavail: space.free_blocks.into(),
            reserve: 0,
            files: u64::from(self.layout().last_ino() - ROOT_INO) + 1,
            ffree: space.free_inodes.into(),
            name_max: u32::try_from(DIRSIZ).unwrap_or(0),
        })
    }

    fn statfs_at(&self, _ino: Ino) -> Result<FsStat> {
        self.statfs()
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.attributes(ino)
    }

    fn setattr(&self, ino: Ino, set: &SetAttr, _by: Privilege) -> Result<Attr> {
        let result = self.changing(|| self.set_attributes(ino, set));
        self.volume.note(result)
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Attr> {
        self.look_up(dir, name)
    }

    fn reference(&self, ino: Ino) -> Result<Attr> {
        self.reference_number(ino)
    }

    fn forget(&self, ino: Ino, count: u64) {
        self.forget_references(ino, count);
    }

    fn readdir(
        &self,
        dir: Ino,
        from: u64,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let dir = self.directory(dir)?;
        if let Some(lost) = self.lost_root.as_ref().filter(|_| dir.ino == ROOT_INO) {
            return lost.list(from, sink);
        }
        let (mut at, listing) = Listing::resume(from, BEHIND_DAMAGE);
        let listing = RefCell::new(listing);
        let pass_over = |error: Error| {
            self.volume.pass_over(&error);
            listing.borrow_mut().pass(error)
        };
        let unusable = |place| {
            let place = format!("directory inode {}, offset {place}", dir.ino);
            pass_over(Error::corrupt("a name with a slash, or none", place))
        };
        if at == 0 {
            self.check_dots(dir.ino, &dir.state.read().di).or_else(pass_over)?;
        }
        loop {
            // Copy some and release the lock: the sink may call back.
            let mut batch = Vec::new();
            let mut passed = Ok(());
            let more = {
                let state = dir.state.read();
                self.touch(&state);
                let walked = self.each_entry(dir.ino, &state.di, at, &mut &pass_over, |place, entry| {
                    let name = entry.name();
                    if entry.ino() != 0 && is_name(name) {
                        let next = listing.borrow().cookie(place + ENTRY_SIZE as u64);
                        batch.push((next, entry.ino(), name.to_vec()));
                    } else if entry.ino() != 0 {
                        passed = unusable(place);
                    }
                    if batch.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                });
                self.volume.note(walked)?.is_some()
            };
            passed?;
            for (next, ino, name) in batch {
                if sink(&DirEntry { name: &name, ino: Ino(ino.into()), kind: None, next }).is_break() {
                    return Ok(());
                }
                at = Listing::resume(next, BEHIND_DAMAGE).0;
            }
            if !more {
                return listing.into_inner().end(dir.ino);
            }
        }
    }

    fn create(&self, dir: Ino, name: &[u8], node: &NewNode<'_>, by: Privilege) -> Result<Attr> {
        let result = self.changing(|| self.create_name(dir, name, node, by));
        self.volume.note(result)
    }

    fn create_unnamed(&self, dir: Ino, node: &NewNode<'_>, by: Privilege) -> Result<Attr> {
        let result = self.changing(|| self.create_without_name(dir, node, by));
        self.volume.note(result)
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8], by: Privilege) -> Result<Attr> {
        let result = self.changing(|| self.link_name(ino, dir, name, by));
        self.volume.note(result)
    }

    fn unlink(&self, dir: Ino, name: &[u8]) -> Result<()> {
        let result = self.changing(|| self.remove_name(dir, name, false));
        self.volume.note(result)
    }

    fn rmdir(&self, dir: Ino, name: &[u8]) -> Result<()> {
        let result = match name {
            b".." => Err(Error::NotEmpty),
            _ => self.changing(|| self.remove_name(dir, name, true)),
        };
        self.volume.note(result)
    }

    fn rename(
        &self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        mode: RenameMode,
        by: Privilege,
    ) -> Result<()> {
        let result = self.changing(|| self.rename_name((from_dir, from), (to_dir, to), mode, by));
        self.volume.note(result)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        // The last release of System V has symbolic links; they can be read, but not made.
        if state.di.kind() != Some(FileKind::Symlink) {
            return Err(Error::Invalid);
        }
        let mut target = vec![0; index(state.di.size)];
        self.volume.note(self.read_file(&inode, &state.di, 0, &mut target))?;
        if target.is_empty() || target.contains(&0) {
            let damaged = Error::corrupt("a symbolic link without a target", format!("inode {}", inode.ino));
            return self.volume.note(Err(damaged));
        }
        Ok(target)
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        check_regular(&state.di)?;
        self.touch(&state);
        self.volume.note(self.read_file(&inode, &state.di, offset, buf))
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], _by: Privilege) -> Result<usize> {
        self.write_and(ino, offset, data, |di| self.note_modified(di))
    }

    fn write_late(&self, ino: Ino, offset: u64, data: &[u8], _by: Privilege) -> Result<usize> {
        self.write_and(ino, offset, data, |_| ())
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64, _by: Privilege) -> Result<()> {
        let end = offset.checked_add(len).ok_or(Error::TooBig)?;
        if len == 0 {
            return Err(Error::Invalid);
        }
        self.changing(|| {
            let inode = self.iget_ino(ino)?;
            let mut state = write_regular(&inode)?;
            self.volume.transact(&mut *state, |tx, state| {
                self.volume.note(self.fallocate_file(tx, &inode, &mut state.di, mode, offset..end))?;
                self.note_modified(&mut state.di);
                self.volume.store(tx, inode.ino, &state.di)
            })
        })
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        check_regular(&state.di)?;
        self.volume.note(self.seek_file(inode.ino, &state.di, offset, what))
    }

    fn readable_after(&self, ino: Ino, offset: u64) -> Result<u64> {
        Ok(self.statfs_at(ino)?.next_unit(offset))
    }

    fn held(&self, ino: Ino, sink: &mut dyn FnMut(Range<u64>)) -> Result<()> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        self.volume.each_held(inode.ino, &state.di, &mut |block| {
            let at = self.layout().byte(block);
            sink(at..at + u64::from(self.layout().format.bsize));
        });
        Ok(())
    }

    fn is_snapshot(&self, _ino: Ino) -> bool {
        false
    }

    fn passed_over(&self) -> Vec<String> {
        self.volume.passed_over()
    }

    fn fsync(&self, _ino: Ino, _data_only: bool) -> Result<()> {
        // One flush is enough for all files: only whole transactions are ordered.
        Ok(self.volume.cache.sync()?)
    }

    fn sync(&self) -> Result<()> {
        self.sync_all()
    }

    fn getxattr(&self, _ino: Ino, _name: &[u8]) -> Result<Vec<u8>> {
        Err(Error::NotSupported)
    }

    fn setxattr(
        &self,
        _ino: Ino,
        _name: &[u8],
        _value: &[u8],
        _mode: XattrMode,
        _by: Privilege,
    ) -> Result<()> {
        Err(Error::NotSupported)
    }

    fn listxattr(&self, _ino: Ino) -> Result<Vec<Vec<u8>>> {
        Err(Error::NotSupported)
    }

    fn removexattr(&self, _ino: Ino, _name: &[u8]) -> Result<()> {
        Err(Error::NotSupported)
    }

    fn trim(&self, _: Range<u64>, _: u64) -> Result<u64> {
        Err(Error::NotSupported)
    }

    fn unmount(&self) -> Result<()> {
        self.close()
    }
}

impl V7 {
    /// Writes to a regular file, and sets its times with `date`.
    fn write_and(&self, ino: Ino, offset: u64, data: &[u8], date: impl Fn(&mut Dinode)) -> Result<usize> {
        self.changing(|| {
            let inode = self.iget_ino(ino)?;
            let mut state = write_regular(&inode)?;
            if data.is_empty() {
                return Ok(0);
            }
            self.volume.transact(&mut *state, |tx, state| {
                let written = self.volume.note(self.write_file(tx, &inode, &mut state.di, offset, data))?;
                date(&mut state.di);
                self.volume.store(tx, inode.ino, &state.di)?;
                Ok(written)
            })
        })
    }
}
