//! The operations: [`FileSystem`] for the multi-structured file system.
//!
//! Each one takes the locks of the files it touches in the order of [`spindle_tree`], reads what it
//! needs, begins a transaction, and makes its changes; if any of it fails, nothing has changed
//! ([`crate::volume::tx`]).

use crate::format::header::{Header, SYMLINK_MAX};
use crate::format::layout::{ClassLayout, ROOT_INO};
use crate::format::node::NAME_MAX;
use crate::tree::attr::check_regular;
use crate::tree::class::CLASS_ATTRIBUTE;
use crate::tree::inode::{Inode, State};
use crate::tree::mount::Mfs;
use crate::tree::names::{DOT, DOT_DOT};
use crate::volume::tx::OPERATION_BYTES;
use spindle_clock::RwLockWriteGuard;
use spindle_tree::{Listing, Operations, Tree};
use spindle_vfs::{
    AclKind, Attr, DirEntry, Error, FallocateMode, FileKind, FileSystem, FsStat, Ino, Limits, NewNode,
    Privilege, RenameMode, Result, Seek, SetAttr, XattrMode,
};
use std::cell::RefCell;
use std::ops::{ControlFlow, Range};

/// The bit of a cookie that says that names before it are lost: keys have 63 bits.
const BEHIND_DAMAGE: u64 = 1 << 63;
/// Number of names that `readdir` reads under the lock at a time.
const BATCH: usize = 256;

/// Returns a regular file, locked for change.
fn write_regular(inode: &Inode) -> Result<RwLockWriteGuard<'_, State>> {
    let state = inode.state.write();
    check_regular(&state.di)?;
    Ok(state)
}

impl FileSystem for Mfs {
    fn root(&self) -> Ino {
        Ino(ROOT_INO)
    }

    fn limits(&self) -> Limits {
        let classes = self.layout().classes.iter();
        Limits {
            name_max: NAME_MAX,
            symlink_max: SYMLINK_MAX,
            link_max: self.link_max().into(),
            file_size_max: classes.map(ClassLayout::file_size_max).max().unwrap_or(0),
            xattrs: true,
            acls: AclKind::None,
            time_granularity_ns: 1,
            time_range: (i64::MIN, i64::MAX),
            birthtime: true,
            file_flags: u32::MAX,
            id_max: u32::MAX,
            log: None,
        }
    }

    fn read_only(&self) -> bool {
        self.volume.is_read_only()
    }

    fn statfs(&self) -> Result<FsStat> {
        self.statfs_at(self.root())
    }

    /// Returns the space of the class of data of a file, as that is what it can get.
    fn statfs_at(&self, ino: Ino) -> Result<FsStat> {
        let number = usize::from(self.iget_ino(ino)?.state.read().di.class);
        let class = self.layout().class(number);
        let spare = self.layout().spare_blocks(number);
        let free = self.volume.free_data_blocks(number).saturating_sub(spare);
        let (ffree, used) = self.volume.header_counts();
        Ok(FsStat {
            bsize: class.structure.block_bytes,
            frsize: class.structure.block_bytes,
            blocks: class.blocks() - spare,
            bfree: free,
            bavail: free,
            reserve: 0,
            files: ffree + used,
            ffree,
            name_max: u32::try_from(NAME_MAX).unwrap_or(0),
        })
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
        let kind = Some(FileKind::Directory);
        let (mut at, listing) = Listing::resume(from, BEHIND_DAMAGE);
        let listing = RefCell::new(listing);
        if at < DOT {
            let ino = Ino(dir.ino);
            if sink(&DirEntry { name: b".", ino, kind, next: DOT }).is_break() {
                return Ok(());
            }
            at = DOT;
        }
        if at < DOT_DOT {
            let parent = if dir.ino == ROOT_INO { ROOT_INO } else { dir.state.read().di.parent };
            if sink(&DirEntry { name: b"..", ino: Ino(parent), kind, next: DOT_DOT }).is_break() {
                return Ok(());
            }
            at = DOT_DOT;
        }
        // After the greatest position there is nothing.
        while let Some(least) = at.checked_add(1) {
            // Copy some and release the lock: the sink may call back.
            let mut batch = Vec::new();
            let more = {
                let state = dir.state.read();
                self.touch(&state);
                let mut lost = |error: Error| {
                    let _ = self.volume.note(Err::<(), _>(error.clone()));
                    listing.borrow_mut().pass(error)
                };
                let walked = self.each_name(dir.ino, &state.di, least, &mut lost, |entry| {
                    batch.push((entry.clone(), listing.borrow().cookie(entry.key)));
                    if batch.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                });
                self.volume.note(walked)?.is_some()
            };
            for (entry, next) in batch {
                let kind = Some(entry.kind);
                if sink(&DirEntry { name: &entry.name, ino: Ino(entry.ino), kind, next }).is_break() {
                    return Ok(());
                }
                at = entry.key;
            }
            if !more {
                break;
            }
        }
        listing.into_inner().end(dir.ino)
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
        if state.di.kind() != Some(FileKind::Symlink) {
            return Err(Error::Invalid);
        }
        self.touch(&state);
        let size = usize::try_from(state.di.size).unwrap_or(usize::MAX);
        if size > SYMLINK_MAX {
            let damaged = Error::corrupt(format!("a target of {size} bytes"), format!("file {}", ino.0));
            return self.volume.note(Err(damaged));
        }
        let mut target = vec![0; size];
        self.volume.note(self.read_file(&inode.stream, &state.di, 0, &mut target))?;
        if target.contains(&0) {
            let damaged = Error::corrupt("a target with a NUL in it", format!("file {}", ino.0));
            return self.volume.note(Err(damaged));
        }
        Ok(target)
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        check_regular(&state.di)?;
        self.touch(&state);
        let read = self.read_file(&inode.stream, &state.di, offset, buf);
        self.volume.note(read.inspect_err(|error| {
            log::error!("file {}, {} bytes at {offset}: {error}", ino.0, buf.len());
        }))
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
            let bytes = (self.volume.log_limit() / 4).max(OPERATION_BYTES);
            // A hole over very many extents is made in several transactions.
            while !self.volume.transact(bytes, &mut *state, |tx, state| {
                let done = self.fallocate_file(tx, &inode, &mut state.di, mode, offset..end);
                let done = self.volume.note(done)?;
                self.note_modified(&mut state.di);
                self.volume.store(tx, inode.ino, &state.di)?;
                Ok(done)
            })? {}
            Ok(())
        })
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        check_regular(&state.di)?;
        self.seek_file(&state.di, offset, what)
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

    fn fsync(&self, _ino: Ino, _data_only: bool) -> Result<()> {
        self.volume.commit()
    }

    fn sync(&self) -> Result<()> {
        self.sync_all()
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.volume.note(match name {
            CLASS_ATTRIBUTE => self.class_name(ino),
            _ => self.attribute(ino, name),
        })
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode, _by: Privilege) -> Result<()> {
        let result = self.changing(|| match (name, mode) {
            (CLASS_ATTRIBUTE, XattrMode::Create) => Err(Error::Exists),
            (CLASS_ATTRIBUTE, _) => self.set_class(ino, value),
            _ => self.change_attribute(ino, name, Some((value, mode))),
        });
        self.volume.note(result)
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.volume.note(self.attribute_names(ino))
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        let result = self.changing(|| match name {
            CLASS_ATTRIBUTE => self.set_class(ino, self.layout().class(0).name.to_string().as_bytes()),
            _ => self.change_attribute(ino, name, None),
        });
        self.volume.note(result)
    }

    fn trim(&self, _: Range<u64>, _: u64) -> Result<u64> {
        Err(Error::NotSupported)
    }

    fn unmount(&self) -> Result<()> {
        self.close()
    }
}

impl Mfs {
    /// Writes to a regular file, and sets its times with `date`.
    fn write_and(&self, ino: Ino, offset: u64, data: &[u8], date: impl Fn(&mut Header)) -> Result<usize> {
        let mut done = 0;
        loop {
            let written = self.changing(|| {
                let inode = self.iget_ino(ino)?;
                let mut state = write_regular(&inode)?;
                if data.is_empty() {
                    return Ok(0);
                }
                self.volume.transact(OPERATION_BYTES, &mut *state, |tx, state| {
                    let file = (inode.ino, &inode.stream);
                    let at = offset.checked_add(done as u64).ok_or(Error::TooBig)?;
                    let written = self.write_file(tx, file, &mut state.di, at, &data[done..]);
                    let written = self.volume.note(written)?;
                    date(&mut state.di);
                    self.volume.store(tx, inode.ino, &state.di)?;
                    Ok(written)
                })
            });
            match written {
                // A write of many extents goes on in another transaction.
                Ok(written) => done += written,
                Err(Error::NoSpace) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
            }
            if done == data.len() {
                return Ok(done);
            }
        }
    }
}
