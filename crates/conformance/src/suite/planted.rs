//! Proof that the suite and the random runs can fail: each of these planted bugs is found.

use super::{Harness, ModelHarness, behaviour, run};
use crate::model::{ModelFs, ModelOptions};
use crate::random::random_run;
use spindle_clock::Mutex;
use spindle_vfs::{
    Attr, DirEntry, FallocateMode, FileKind, FileSystem, FsStat, Ino, Limits, NewNode, Privilege, RenameMode,
    Result, Seek, SetAttr, XattrMode,
};
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The bug of the broken file system.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    /// Directories always have two links.
    WrongLinkCount,
    /// Truncated bytes reappear after growth.
    StaleData,
    /// Cookies count entries, so that removing one skips another.
    ReaddirSkips,
    /// `..` stays the directory in which it was created, even after a rename.
    OldDotDot,
    /// Unlinking frees the file at once.
    ForgetsReferences,
    /// Every user may use the reserve.
    NoReserve,
    /// NOREPLACE replaces.
    Replaces,
    /// A hole begins one byte early.
    EarlyHole,
    /// Writing does not set the modification time.
    OldModificationTime,
    /// Data kept by a front end sets the modification time.
    LateDataIsNew,
    /// Creating an extended attribute replaces an existing one.
    XattrCreateReplaces,
    /// The last byte of a long name is lost.
    CutsNames,
    /// One byte of each write beyond the first megabyte of a file is lost.
    LosesByte,
    /// Forgotten files are never freed.
    Leaks,
    /// All inodes have one generation.
    OneGeneration,
    /// A file without names is reached by its number as long as it is in use.
    FindsRemoved,
    /// Some creations fail for lack of space although there is some.
    ClaimsFull,
}

struct Broken {
    fs: Arc<ModelFs>,
    bug: Bug,
    /// Truncated bytes, with their offset.
    cut: Mutex<HashMap<Ino, (u64, Vec<u8>)>>,
    parents: Mutex<HashMap<Ino, Ino>>,
}

impl Broken {
    fn name<'a>(&self, name: &'a [u8]) -> &'a [u8] {
        if self.bug == Bug::CutsNames && name.len() == 13 { &name[..12] } else { name }
    }

    fn attr(&self, mut attr: Attr) -> Attr {
        if self.bug == Bug::WrongLinkCount && attr.kind == FileKind::Directory && attr.nlink > 2 {
            attr.nlink = 2;
        }
        if self.bug == Bug::OneGeneration {
            attr.generation = 1;
        }
        attr
    }
}

impl FileSystem for Broken {
    fn root(&self) -> Ino {
        self.fs.root()
    }

    fn limits(&self) -> Limits {
        self.fs.limits()
    }

    fn read_only(&self) -> bool {
        self.fs.read_only()
    }

    fn statfs(&self) -> Result<FsStat> {
        self.fs.statfs()
    }

    fn statfs_at(&self, ino: Ino) -> Result<FsStat> {
        self.fs.statfs_at(ino)
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.fs.getattr(ino).map(|attr| self.attr(attr))
    }

    fn setattr(&self, ino: Ino, set: &SetAttr, by: Privilege) -> Result<Attr> {
        let old = self.fs.getattr(ino)?.size;
        if let Some(size) = set.size.filter(|size| *size < old && old - size < 1 << 20) {
            let mut tail = vec![0; usize::try_from(old - size).unwrap_or(0)];
            if self.fs.read(ino, size, &mut tail).is_ok() {
                self.cut.lock().insert(ino, (size, tail));
            }
        }
        self.fs.setattr(ino, set, by).map(|attr| self.attr(attr))
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Attr> {
        if name == b".."
            && self.bug == Bug::OldDotDot
            && let Some(parent) = self.parents.lock().get(&dir)
        {
            return self.fs.lookup(*parent, b".");
        }
        self.fs.lookup(dir, self.name(name)).map(|attr| self.attr(attr))
    }

    fn reference(&self, ino: Ino) -> Result<Attr> {
        match self.fs.reference(ino) {
            Err(_) if self.bug == Bug::FindsRemoved => self.getattr(ino),
            found => found.map(|attr| self.attr(attr)),
        }
    }

    fn forget(&self, ino: Ino, count: u64) {
        if self.bug != Bug::Leaks {
            self.fs.forget(ino, count);
        }
    }

    fn readdir(
        &self,
        dir: Ino,
        from: u64,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.bug != Bug::ReaddirSkips {
            return self.fs.readdir(dir, from, sink);
        }
        let mut place = 0;
        self.fs.readdir(dir, 0, &mut |entry| {
            place += 1;
            if place <= from { ControlFlow::Continue(()) } else { sink(&DirEntry { next: place, ..*entry }) }
        })
    }

    fn create(&self, dir: Ino, name: &[u8], node: &NewNode<'_>, by: Privilege) -> Result<Attr> {
        if self.bug == Bug::ClaimsFull && name.len() == 11 {
            return Err(spindle_vfs::Error::NoSpace);
        }
        let attr = self.fs.create(dir, self.name(name), node, by)?;
        self.parents.lock().insert(attr.ino, dir);
        Ok(self.attr(attr))
    }

    fn create_unnamed(&self, dir: Ino, node: &NewNode<'_>, by: Privilege) -> Result<Attr> {
        self.fs.create_unnamed(dir, node, by)
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8], by: Privilege) -> Result<Attr> {
        self.fs.link(ino, dir, self.name(name), by)
    }

    fn unlink(&self, dir: Ino, name: &[u8]) -> Result<()> {
        let found = self.fs.lookup(dir, self.name(name));
        let done = self.fs.unlink(dir, self.name(name));
        if let Ok(found) = found {
            let all = self.bug == Bug::ForgetsReferences && done.is_ok();
            self.fs.forget(found.ino, if all { 1 << 20 } else { 1 });
        }
        done
    }

    fn rmdir(&self, dir: Ino, name: &[u8]) -> Result<()> {
        self.fs.rmdir(dir, self.name(name))
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
        let replaces = self.bug == Bug::Replaces && mode == RenameMode::NoReplace;
        let mode = if replaces { RenameMode::Replace } else { mode };
        self.fs.rename(from_dir, self.name(from), to_dir, self.name(to), mode, by)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.fs.readlink(ino)
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let n = self.fs.read(ino, offset, buf)?;
        if let (Bug::StaleData, Some((start, tail))) = (self.bug, self.cut.lock().get(&ino)) {
            for (at, byte) in (offset..).zip(&mut buf[..n]) {
                let old = at.checked_sub(*start).and_then(|at| tail.get(usize::try_from(at).ok()?));
                if let (0, Some(old)) = (*byte, old) {
                    *byte = *old;
                }
            }
        }
        Ok(n)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Result<usize> {
        let before = self.fs.getattr(ino)?.mtime;
        let by = if self.bug == Bug::NoReserve { Privilege::Root } else { by };
        let mut data = data.to_vec();
        if let (Bug::LosesByte, true, Some(last)) = (self.bug, offset > 1 << 20, data.last_mut()) {
            *last = 0;
        }
        let n = self.fs.write(ino, offset, &data, by)?;
        if self.bug == Bug::OldModificationTime {
            let mtime = Some(spindle_vfs::SetTime::At(before));
            self.fs.setattr(ino, &SetAttr { mtime, ..SetAttr::default() }, by)?;
        }
        Ok(n)
    }

    fn write_late(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Result<usize> {
        if self.bug == Bug::LateDataIsNew {
            return self.fs.write(ino, offset, data, by);
        }
        self.fs.write_late(ino, offset, data, by)
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64, by: Privilege) -> Result<()> {
        self.fs.fallocate(ino, mode, offset, len, by)
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        let found = self.fs.seek(ino, offset, what)?;
        let early = self.bug == Bug::EarlyHole && what == Seek::Hole && found > offset + 1;
        Ok(if early { found - 1 } else { found })
    }

    fn readable_after(&self, ino: Ino, offset: u64) -> Result<u64> {
        self.fs.readable_after(ino, offset)
    }

    fn held(&self, ino: Ino, sink: &mut dyn FnMut(Range<u64>)) -> Result<()> {
        self.fs.held(ino, sink)
    }

    fn is_snapshot(&self, ino: Ino) -> bool {
        self.fs.is_snapshot(ino)
    }

    fn passed_over(&self) -> Vec<String> {
        self.fs.passed_over()
    }

    fn fsync(&self, ino: Ino, data_only: bool) -> Result<()> {
        self.fs.fsync(ino, data_only)
    }

    fn sync(&self) -> Result<()> {
        self.fs.sync()
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.fs.getxattr(ino, name)
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode, by: Privilege) -> Result<()> {
        let replaces = self.bug == Bug::XattrCreateReplaces && mode == XattrMode::Create;
        self.fs.setxattr(ino, name, value, if replaces { XattrMode::Set } else { mode }, by)
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.fs.listxattr(ino)
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.fs.removexattr(ino, name)
    }

    fn trim(&self, bytes: Range<u64>, min_bytes: u64) -> Result<u64> {
        self.fs.trim(bytes, min_bytes)
    }

    fn unmount(&self) -> Result<()> {
        self.fs.unmount()
    }
}

/// A model with a bug, in the model's harness.
struct BrokenHarness {
    inner: ModelHarness,
    broken: Arc<Broken>,
}

impl BrokenHarness {
    fn new(bug: Bug) -> Self {
        let inner = ModelHarness::new(ModelOptions::default(), &[]);
        let (cut, parents) = (Mutex::default(), Mutex::default());
        let broken = Arc::new(Broken { fs: Arc::clone(inner.model()), bug, cut, parents });
        Self { inner, broken }
    }
}

impl Harness for BrokenHarness {
    fn fs(&self) -> Arc<dyn FileSystem> {
        self.broken.clone()
    }

    fn remount(&mut self) {
        self.inner.remount();
    }

    fn check(&mut self) -> Vec<String> {
        self.inner.check()
    }

    fn tick(&mut self) -> bool {
        self.inner.tick()
    }
}

/// Promise: each bug fails the behaviour that concerns it.
#[test]
fn the_suite_catches_each_bug() {
    let caught = [
        (Bug::WrongLinkCount, "directory_link_counts"),
        (Bug::WrongLinkCount, "rename_moves_directories"),
        (Bug::StaleData, "truncate_both_ways"),
        (Bug::StaleData, "truncated_bytes_never_reappear"),
        (Bug::ReaddirSkips, "readdir_is_stable_while_names_change"),
        (Bug::OldDotDot, "dots_are_resolved"),
        (Bug::OldDotDot, "exchange_swaps_anything"),
        (Bug::ForgetsReferences, "unlinked_file_stays_until_forgotten"),
        (Bug::NoReserve, "a_full_disk_refuses_and_recovers"),
        (Bug::Replaces, "rename_noreplace"),
        (Bug::EarlyHole, "seek_finds_data_and_holes"),
        (Bug::OldModificationTime, "changes_set_times"),
        (Bug::LateDataIsNew, "late_writes_keep_times"),
        (Bug::XattrCreateReplaces, "xattr_modes"),
        (Bug::CutsNames, "names_up_to_the_limit"),
        (Bug::LosesByte, "far_offsets"),
        (Bug::ClaimsFull, "names_up_to_the_limit"),
        (Bug::OneGeneration, "handles_of_reused_numbers_differ"),
        (Bug::FindsRemoved, "handles_of_removed_files_are_stale"),
        (Bug::Leaks, "references_are_counted"),
        (Bug::Leaks, "unlinked_file_stays_until_forgotten"),
    ];
    for (bug, name) in caught {
        let mut harness = BrokenHarness::new(bug);
        let result = catch_unwind(AssertUnwindSafe(|| run(&mut harness, behaviour(name))));
        assert!(result.is_err(), "{name} passes with {bug:?}");
    }
}

/// Promise: a random run finds each bug that affects results, bytes, link counts or space.
#[test]
fn random_runs_catch_each_bug() {
    let bugs = [
        Bug::WrongLinkCount,
        Bug::StaleData,
        Bug::ForgetsReferences,
        Bug::Replaces,
        Bug::XattrCreateReplaces,
        Bug::LosesByte,
        Bug::Leaks,
        Bug::ClaimsFull,
    ];
    for bug in bugs {
        let mut harness = BrokenHarness::new(bug);
        let result = catch_unwind(AssertUnwindSafe(|| random_run(&mut harness, 1, 6000)));
        assert!(result.is_err(), "the random run passes with {bug:?}");
    }
}
