//! The conformance suite through the front: for the superuser it behaves like the file system
//! below.

use spindle_conformance::model::ModelOptions;
use spindle_conformance::suite::{Harness, ModelHarness};
use spindle_vfs::{
    Attr, Cred, DirEntry, FallocateMode, FileKind, FileSystem, FsStat, Ino, Limits, NewNode, Privilege,
    RenameMode, Result, Seek, SetAttr, XattrMode,
};
use spindle_vfs::{Checking, OpenFlags, Options, Vfs};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

struct Through(Vfs);

/// Returns the caller with this privilege.
fn cred(by: Privilege) -> Cred<'static> {
    if by.is_root() { Cred::root() } else { Cred::user(1, 1) }
}

const ROOT: Cred<'static> = Cred::root();

impl Through {
    fn is_regular(&self, ino: Ino) -> bool {
        self.0.getattr(ino).is_ok_and(|attr| attr.kind == FileKind::Regular)
    }
}

impl FileSystem for Through {
    fn root(&self) -> Ino {
        self.0.root()
    }

    fn limits(&self) -> Limits {
        self.0.fs().limits()
    }

    fn read_only(&self) -> bool {
        self.0.fs().read_only()
    }

    fn statfs(&self) -> Result<FsStat> {
        self.0.statfs()
    }

    fn statfs_at(&self, ino: Ino) -> Result<FsStat> {
        self.0.fs().statfs_at(ino)
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.0.getattr(ino)
    }

    fn setattr(&self, ino: Ino, set: &SetAttr, by: Privilege) -> Result<Attr> {
        self.0.setattr(&cred(by), ino, set, None)
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Attr> {
        self.0.lookup(&ROOT, dir, name)
    }

    fn reference(&self, ino: Ino) -> Result<Attr> {
        self.0.fs().reference(ino)
    }

    fn forget(&self, ino: Ino, count: u64) {
        self.0.forget(ino, count);
    }

    fn readdir(
        &self,
        dir: Ino,
        from: u64,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.0.readdir(&ROOT, dir, from, sink)
    }

    fn create(&self, dir: Ino, name: &[u8], node: &NewNode<'_>, by: Privilege) -> Result<Attr> {
        self.0.create(&cred(by), dir, name, node)
    }

    fn create_unnamed(&self, dir: Ino, node: &NewNode<'_>, by: Privilege) -> Result<Attr> {
        self.0.create_unnamed(&cred(by), dir, node)
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8], by: Privilege) -> Result<Attr> {
        self.0.link(&cred(by), ino, dir, name)
    }

    fn unlink(&self, dir: Ino, name: &[u8]) -> Result<()> {
        self.0.unlink(&ROOT, dir, name)
    }

    fn rmdir(&self, dir: Ino, name: &[u8]) -> Result<()> {
        self.0.rmdir(&ROOT, dir, name)
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
        self.0.rename(&cred(by), (from_dir, from), (to_dir, to), mode)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.0.readlink(ino)
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if !self.is_regular(ino) {
            return self.0.fs().read(ino, offset, buf);
        }
        let handle = self.0.open(&ROOT, ino, OpenFlags::READ)?;
        let n = self.0.read(handle, offset, buf);
        self.0.close(handle)?;
        n
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Result<usize> {
        if !self.is_regular(ino) {
            return self.0.fs().write(ino, offset, data, by);
        }
        // Of a file with the flag of appending the front opens only what appends.
        let append = offset == self.0.getattr(ino)?.size;
        let handle = self.0.open(&cred(by), ino, OpenFlags { append, ..OpenFlags::WRITE })?;
        let n = self.0.write(&cred(by), handle, offset, data);
        self.0.close(handle)?;
        n
    }

    fn write_late(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Result<usize> {
        self.0.fs().write_late(ino, offset, data, by)
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64, by: Privilege) -> Result<()> {
        if !self.is_regular(ino) {
            return self.0.fs().fallocate(ino, mode, offset, len, by);
        }
        let handle = self.0.open(&cred(by), ino, OpenFlags { append: true, ..OpenFlags::WRITE })?;
        let done = self.0.fallocate(handle, mode, offset, len);
        self.0.close(handle)?;
        done
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        if !self.is_regular(ino) {
            return self.0.fs().seek(ino, offset, what);
        }
        let handle = self.0.open(&ROOT, ino, OpenFlags::READ)?;
        let found = self.0.seek(handle, offset, what);
        self.0.close(handle)?;
        found
    }

    fn readable_after(&self, ino: Ino, offset: u64) -> Result<u64> {
        self.0.fs().readable_after(ino, offset)
    }

    fn held(&self, ino: Ino, sink: &mut dyn FnMut(Range<u64>)) -> Result<()> {
        self.0.fs().held(ino, sink)
    }

    fn is_snapshot(&self, ino: Ino) -> bool {
        self.0.fs().is_snapshot(ino)
    }

    fn passed_over(&self) -> Vec<String> {
        self.0.fs().passed_over()
    }

    fn fsync(&self, ino: Ino, data_only: bool) -> Result<()> {
        let handle = self.0.open(&ROOT, ino, OpenFlags::READ)?;
        let done = self.0.fsync(handle, data_only);
        self.0.close(handle)?;
        done
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.0.getxattr(&ROOT, ino, name)
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode, by: Privilege) -> Result<()> {
        self.0.setxattr(&cred(by), ino, name, value, mode)
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.0.listxattr(&ROOT, ino)
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.0.removexattr(&ROOT, ino, name)
    }

    fn trim(&self, bytes: Range<u64>, min_bytes: u64) -> Result<u64> {
        self.0.fs().trim(bytes, min_bytes)
    }

    fn unmount(&self) -> Result<()> {
        self.0.fs().unmount()
    }
}

struct ThroughHarness {
    inner: ModelHarness,
    through: Arc<Through>,
}

impl ThroughHarness {
    fn boxed() -> Box<dyn Harness> {
        let inner = ModelHarness::new(ModelOptions::default(), &[]);
        let options = Options { checking: Checking::ByKernel, ..Options::default() };
        let through = Arc::new(Through(Vfs::new(inner.fs(), options)));
        Box::new(Self { inner, through })
    }
}

impl Harness for ThroughHarness {
    fn fs(&self) -> Arc<dyn FileSystem> {
        self.through.clone()
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

spindle_conformance::conformance_tests!(suite, ThroughHarness::boxed);
