//! The operations: [`FileSystem`] for UFS.
//!
//! Each one takes the locks of the inodes it touches in the order of [`spindle_tree`], looks,
//! decides, begins a transaction, and changes; if any of it fails, everything is as it was
//! ([`crate::volume::tx`]).

use crate::format::dialect::Dialect;
use crate::format::dinode::Dinode;
use crate::format::layout::ROOT_INO;
use crate::format::layout::{InodeFormat, Version};
use crate::format::ondisk::{MAXNAMLEN, SF_SNAPSHOT};
use crate::format::units::{Lbn, index};
use crate::tree::attr::check_regular;
use crate::tree::dir::{entries, name_of};
use crate::tree::inode::{Inode, LINK_MAX, State};
use crate::tree::mount::Ffs;
use crate::volume::bmap::Run;
use spindle_clock::RwLockWriteGuard;
use spindle_tree::{Listing, Operations, Tree};
use spindle_vfs::{
    Attr, DirEntry, Error, FallocateMode, FileKind, FileSystem, FsStat, Ino, Limits, NewNode, Privilege,
    RenameMode, Result, Seek, SetAttr, XattrMode,
};
use std::ops::{ControlFlow, Range};

/// Returns a regular file's inode, locked for change.
fn write_regular(inode: &Inode) -> Result<RwLockWriteGuard<'_, State>> {
    let state = inode.state.write();
    check_regular(&state.di)?;
    Ok(state)
}

/// The bit of a cookie that says that names before it are lost: directories have at most 8 GiB.
const BEHIND_DAMAGE: u64 = 1 << 62;

/// Holes that [`FileSystem::readable_after`] passes over at most.
const MOST_HOLES: usize = 1000;

impl FileSystem for Ffs {
    fn root(&self) -> Ino {
        Ino(ROOT_INO.into())
    }

    fn limits(&self) -> Limits {
        let ufs2 = self.layout().version == Version::Ufs2;
        Limits {
            name_max: MAXNAMLEN,
            symlink_max: 1023,
            link_max: LINK_MAX.into(),
            file_size_max: self.layout().fs_maxfilesize,
            xattrs: self.has_extattr,
            acls: self.acls,
            time_granularity_ns: match self.layout().inode_format {
                InodeFormat::Old => 1_000_000_000,
                InodeFormat::Sun => 1000,
                InodeFormat::New => 1,
            },
            time_range: if ufs2 { (i64::MIN, i64::MAX) } else { (i32::MIN.into(), i32::MAX.into()) },
            birthtime: ufs2,
            file_flags: if self.layout().inode_format == InodeFormat::New { u32::MAX } else { 0 },
            id_max: if self.layout().inode_format == InodeFormat::Old { 0xffff } else { u32::MAX },
            log: self.log_ino.map(|ino| Ino(ino.into())),
        }
    }

    fn read_only(&self) -> bool {
        self.volume.is_read_only()
    }

    fn statfs(&self) -> Result<FsStat> {
        let total = self.volume.summaries.total();
        let unsigned = |n: i64| u64::try_from(n).unwrap_or(0);
        Ok(FsStat {
            bsize: self.layout().fs_bsize,
            frsize: self.layout().fs_fsize,
            blocks: self.layout().fs_dsize,
            bfree: unsigned(self.volume.free_frags_for(Privilege::Root)) + self.volume.pending.frags(),
            bavail: unsigned(
                self.volume.free_frags_for(Privilege::User) + self.volume.pending.frags().cast_signed(),
            ),
            reserve: unsigned(self.volume.reserve()),
            files: u64::from(self.layout().inodes()) - u64::from(ROOT_INO),
            ffree: unsigned(total.cs_nifree),
            name_max: u32::try_from(MAXNAMLEN).unwrap_or(0),
        })
    }

    fn statfs_at(&self, _ino: Ino) -> Result<FsStat> {
        self.statfs()
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.attributes(ino)
    }

    fn setattr(&self, ino: Ino, set: &SetAttr, by: Privilege) -> Result<Attr> {
        self.changing(|| self.set_attributes(ino, set, by))
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Attr> {
        self.look_up(dir, name)
    }

    fn reference(&self, ino: Ino) -> Result<Attr> {
        // NetBSD's log counts as a file with a name, and has none.
        let is_log = self.log_ino.is_some_and(|log| Ino(log.into()) == ino);
        if is_log && self.volume.dialect == Dialect::NetBsd {
            return Err(Error::Stale);
        }
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
        let chunk_bytes = self.layout().dirblksiz as usize;
        let (mut at, mut listing) = Listing::resume(from, BEHIND_DAMAGE);
        loop {
            // A block is copied and the lock released: the sink may call back.
            let (block, range) = {
                let state = dir.state.read();
                if at >= state.di.size {
                    self.touch(&state);
                    self.pass_over(&mut listing, self.check_directory(dir.ino, &state.di))?;
                    return listing.end(dir.ino);
                }
                let lbn: Lbn = self.layout().lblkno(at);
                let block = self.dir_block(dir.ino, &state.di, lbn);
                let Some((buffer, range)) = self.pass_over(&mut listing, block)? else {
                    at = (lbn.0 + 1) << self.layout().fs_bshift;
                    continue;
                };
                let bytes = buffer.read()[..index(range.end - range.start)].to_vec();
                (bytes, range)
            };
            let first = index(at - range.start) / chunk_bytes;
            for (n, chunk) in block.chunks_exact(chunk_bytes).enumerate().skip(first) {
                let base = range.start + (n * chunk_bytes) as u64;
                if base == 0 {
                    self.pass_over(&mut listing, self.check_dot(dir.ino, chunk))?;
                }
                for entry in entries(self.layout(), dir.ino, base, chunk) {
                    let usable = entry.and_then(|entry| entry.usable(dir.ino));
                    let Some(entry) = self.pass_over(&mut listing, usable)? else { continue };
                    if entry.ino == 0 || entry.place < at {
                        continue;
                    }
                    let next = listing.cookie(entry.place + entry.reclen as u64);
                    let name = name_of(chunk, base, &entry);
                    let shown = DirEntry { name, ino: Ino(entry.ino.into()), kind: entry.kind, next };
                    if sink(&shown).is_break() {
                        return Ok(());
                    }
                }
            }
            at = range.end;
        }
    }

    fn create(&self, dir: Ino, name: &[u8], node: &NewNode<'_>, by: Privilege) -> Result<Attr> {
        self.changing(|| self.create_name(dir, name, node, by))
    }

    fn create_unnamed(&self, dir: Ino, node: &NewNode<'_>, by: Privilege) -> Result<Attr> {
        self.changing(|| self.create_without_name(dir, node, by))
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8], by: Privilege) -> Result<Attr> {
        self.changing(|| self.link_name(ino, dir, name, by))
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
        self.changing(|| {
            let result = self.rename_name((from_dir, from), (to_dir, to), mode, by);
            self.volume.note(result)
        })
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        if state.di.kind() != Some(FileKind::Symlink) {
            return Err(Error::Invalid);
        }
        self.touch(&state);
        let whole = |target: Vec<u8>| {
            let damaged = || Error::corrupt("a target with a NUL in it", format!("inode {}", ino.0));
            if target.contains(&0) { self.volume.note(Err(damaged())) } else { Ok(target) }
        };
        if let Some(target) = &state.di.inline_target {
            return whole(target.clone());
        }
        if state.di.size > u64::from(self.layout().fs_bsize) {
            return Err(Error::corrupt(
                format!("a target of {} bytes", state.di.size),
                format!("inode {}", ino.0),
            ));
        }
        let mut target = vec![0; index(state.di.size)];
        self.volume.note(self.read_file(inode.ino, &inode.stream, &state.di, 0, &mut target, || Ok(())))?;
        whole(target)
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        check_regular(&state.di)?;
        self.touch(&state);
        let at_hole = || self.check_holes(inode.ino, &state);
        self.volume.note(self.read_file(inode.ino, &inode.stream, &state.di, offset, buf, at_hole))
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Result<usize> {
        self.write_and(ino, offset, data, by, |di| self.note_modified(di))
    }

    fn write_late(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Result<usize> {
        self.write_and(ino, offset, data, by, |_| ())
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64, by: Privilege) -> Result<()> {
        self.changing(|| {
            let end = offset.checked_add(len).ok_or(Error::TooBig)?;
            if len == 0 {
                return Err(Error::Invalid);
            }
            let inode = self.iget_ino(ino)?;
            self.check_not_kept(inode.ino)?;
            let mut state = write_regular(&inode)?;
            self.check_no_snapshot(&state.di)?;
            let result = self.fallocate_file(&inode, &mut state, mode, offset..end, by);
            self.volume.note(result)
        })
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        check_regular(&state.di)?;
        let at_hole = || self.check_holes(inode.ino, &state);
        self.volume.note(self.seek_file(inode.ino, &state.di, (offset, what), at_hole))
    }

    fn readable_after(&self, ino: Ino, offset: u64) -> Result<u64> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        let end = state.di.size.div_ceil(self.layout().fs_bsize.into());
        let mut lbn = self.layout().lblkno(offset);
        if let Ok(Run { at: None, blocks }) =
            self.volume.bmap(inode.ino, &state.di, lbn, end.saturating_sub(lbn.0))
            && self.check_holes(inode.ino, &state).is_err()
        {
            return Ok((lbn + blocks).0.saturating_mul(self.layout().fs_bsize.into()));
        }
        // The damage may be behind a hole. In a file whose indirect blocks lead in circles there
        // are more of them than anybody can go through; there, reading goes on behind the last one.
        for _ in 0..MOST_HOLES {
            if lbn.0 >= end {
                break;
            }
            match self.volume.bmap(inode.ino, &state.di, lbn, end - lbn.0) {
                Ok(Run { at: None, blocks }) => lbn = lbn + blocks,
                _ => break,
            }
        }
        lbn = lbn + self.volume.blocks_unmapped(inode.ino, &state.di, lbn);
        Ok(lbn.0.saturating_mul(self.layout().fs_bsize.into()))
    }

    fn held(&self, ino: Ino, sink: &mut dyn FnMut(Range<u64>)) -> Result<()> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        let di = &state.di;
        let has_blocks =
            matches!(di.kind(), Some(FileKind::Regular | FileKind::Directory | FileKind::Symlink));
        // The pointers of a snapshot are marks, too.
        if !has_blocks || di.inline_target.is_some() || di.flags & SF_SNAPSHOT != 0 {
            return Ok(());
        }
        self.volume.each_held(inode.ino, di, &mut |found| {
            if let Ok((at, frags)) = found {
                let at = self.layout().byte(at);
                sink(at..at + (u64::from(frags) << self.layout().fs_fshift));
            }
            ControlFlow::Continue(())
        });
        Ok(())
    }

    fn is_snapshot(&self, ino: Ino) -> bool {
        let is_one = |ino| self.iget_ino(ino).is_ok_and(|inode| inode.state.read().di.is_snapshot());
        let listed = self.volume.superblock.lock().snapshots();
        u32::try_from(ino.0).is_ok_and(|number| listed.contains(&number)) && is_one(ino)
    }

    fn passed_over(&self) -> Vec<String> {
        self.volume.passed_over()
    }

    fn fsync(&self, ino: Ino, data_only: bool) -> Result<()> {
        self.fsync_file(u32::try_from(ino.0).map_err(|_| Error::Stale)?, data_only)
    }

    fn sync(&self) -> Result<()> {
        self.sync_all()
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.check_has_extattr()?;
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        self.volume.note(self.extattr_get(inode.ino, &state.di, name))
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode, by: Privilege) -> Result<()> {
        self.changing(|| self.change_xattr(ino, name, Some((value, mode)), by))
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.check_has_extattr()?;
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        self.volume.note(self.extattr_list(inode.ino, &state.di))
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.changing(|| self.change_xattr(ino, name, None, Privilege::Root))
    }

    fn trim(&self, bytes: Range<u64>, min_bytes: u64) -> Result<u64> {
        if self.read_only() {
            return Err(Error::ReadOnly);
        }
        self.volume.trim(bytes, min_bytes)
    }

    fn unmount(&self) -> Result<()> {
        self.close()
    }
}

impl Ffs {
    /// Writes to a regular file, and has `date` set its times.
    fn write_and(
        &self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        by: Privilege,
        date: impl Fn(&mut Dinode),
    ) -> Result<usize> {
        self.changing(|| {
            let inode = self.iget_ino(ino)?;
            let mut state = write_regular(&inode)?;
            self.check_no_snapshot(&state.di)?;
            if data.is_empty() {
                return Ok(0);
            }
            self.check_not_kept(inode.ino)?;
            self.write_locked(&inode, &mut state, offset, data, by, &date)
        })
    }

    /// Does the same to a file that is locked for change.
    pub(crate) fn write_locked(
        &self,
        inode: &Inode,
        state: &mut State,
        offset: u64,
        data: &[u8],
        by: Privilege,
        date: &impl Fn(&mut Dinode),
    ) -> Result<usize> {
        let written = self.volume.transact_in_parts(state, |tx, state| {
            let before = (state.di.size, state.di.blocks);
            let file = (inode.ino, &inode.stream);
            let written = self.volume.note(self.write_file(tx, file, &mut state.di, offset, data, by))?;
            if before != (state.di.size, state.di.blocks) || tx.has_moved() {
                state.derived.mapped_in = self.volume.cache.epoch();
            }
            date(&mut state.di);
            self.volume.store(tx, inode.ino, &state.di)?;
            Ok(written)
        })?;
        Ok(written.split().0)
    }

    fn check_has_extattr(&self) -> Result<()> {
        if self.has_extattr { Ok(()) } else { Err(Error::NotSupported) }
    }

    fn change_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: Option<(&[u8], XattrMode)>,
        by: Privilege,
    ) -> Result<()> {
        self.check_has_extattr()?;
        let inode = self.iget_ino(ino)?;
        self.check_not_kept(inode.ino)?;
        let mut state = inode.state.write();
        self.check_no_snapshot(&state.di)?;
        self.volume.transact(&mut *state, |tx, state| {
            self.volume.note(self.extattr_put(tx, inode.ino, &mut state.di, name, value, by))?;
            state.di.ctime = self.now();
            self.volume.store(tx, inode.ino, &state.di)
        })
    }
}
