//! The calls that reach the file system, and their time.

use crate::common::{WRITE_MODES, big_model, can_mount};
use crate::harness::Mounted;
use spindle_clock::{Clock, Condvar, Mutex, SystemClock};
use spindle_conformance::model::ModelFs;
use spindle_fuse::MountOptions;
use spindle_vfs::{
    Attr, DirEntry, Error, FallocateMode, FileSystem, FsStat, Ino, Limits, NewNode, Privilege, RenameMode,
    Result, Seek, SetAttr, XattrMode,
};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A model file system that counts its calls by name.
pub struct Observed {
    model: Arc<ModelFs>,
    calls: Mutex<BTreeMap<&'static str, u64>>,
    called: Condvar,
    fail_sync: AtomicBool,
    held: Mutex<Held>,
    moved: Condvar,
}

/// State of a write that is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Held {
    /// No write is held.
    #[default]
    No,
    /// The next write will be held.
    Next,
    /// A write is held.
    Waits,
}

impl Observed {
    /// Holds the next write before it has any effect.
    pub fn hold_next_write(&self) {
        *self.held.lock() = Held::Next;
    }

    /// Waits until a write is held.
    pub fn wait_for_held_write(&self) {
        let mut held = self.held.lock();
        while *held != Held::Waits {
            self.moved.wait(&mut held);
        }
    }

    /// Lets the held write continue.
    pub fn release_write(&self) {
        *self.held.lock() = Held::No;
        self.moved.notify_all();
    }

    fn hold(&self) {
        let mut held = self.held.lock();
        if *held == Held::Next {
            *held = Held::Waits;
            self.moved.notify_all();
            while *held == Held::Waits {
                self.moved.wait(&mut held);
            }
        }
    }

    fn count(&self, name: &'static str) {
        *self.calls.lock().entry(name).or_default() += 1;
        self.called.notify_all();
    }

    fn calls(&self, name: &str) -> u64 {
        self.calls.lock().get(name).copied().unwrap_or(0)
    }

    fn wait_for_call(&self, name: &str, count: u64) {
        let mut calls = self.calls.lock();
        while calls.get(name).copied().unwrap_or(0) < count {
            self.called.wait(&mut calls);
        }
    }
}

macro_rules! forwarded {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        impl FileSystem for Observed {
            $(fn $name(&self, $($arg: $type),*) -> $result {
                let result = self.model.$name($($arg),*);
                self.count(stringify!($name));
                result
            })*

            fn fsync(&self, ino: Ino, data_only: bool) -> Result<()> {
                self.count("fsync");
                if data_only {
                    self.count("fsync of data");
                }
                self.model.fsync(ino, data_only)
            }

            fn write(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Result<usize> {
                self.hold();
                let written = self.model.write(ino, offset, data, by);
                self.count("write");
                written
            }

            fn sync(&self) -> Result<()> {
                let failed = self.fail_sync.load(Ordering::Relaxed);
                self.count("sync");
                if failed { Err(Error::NoSpace) } else { self.model.sync() }
            }
        }
    };
}

forwarded! {
    fn root() -> Ino;
    fn limits() -> Limits;
    fn read_only() -> bool;
    fn statfs() -> Result<FsStat>;
    fn statfs_at(ino: Ino) -> Result<FsStat>;
    fn getattr(ino: Ino) -> Result<Attr>;
    fn setattr(ino: Ino, set: &SetAttr, by: Privilege) -> Result<Attr>;
    fn lookup(dir: Ino, name: &[u8]) -> Result<Attr>;
    fn reference(ino: Ino) -> Result<Attr>;
    fn forget(ino: Ino, count: u64) -> ();
    fn readdir(dir: Ino, from: u64, sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>) -> Result<()>;
    fn create(dir: Ino, name: &[u8], node: &NewNode<'_>, by: Privilege) -> Result<Attr>;
    fn create_unnamed(dir: Ino, node: &NewNode<'_>, by: Privilege) -> Result<Attr>;
    fn link(ino: Ino, dir: Ino, name: &[u8], by: Privilege) -> Result<Attr>;
    fn unlink(dir: Ino, name: &[u8]) -> Result<()>;
    fn rmdir(dir: Ino, name: &[u8]) -> Result<()>;
    fn rename(
        from_dir: Ino, from: &[u8], to_dir: Ino, to: &[u8], mode: RenameMode, by: Privilege
    ) -> Result<()>;
    fn readlink(ino: Ino) -> Result<Vec<u8>>;
    fn read(ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize>;
    fn write_late(ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Result<usize>;
    fn fallocate(ino: Ino, mode: FallocateMode, offset: u64, len: u64, by: Privilege) -> Result<()>;
    fn seek(ino: Ino, offset: u64, what: Seek) -> Result<u64>;
    fn readable_after(ino: Ino, offset: u64) -> Result<u64>;
    fn held(ino: Ino, sink: &mut dyn FnMut(Range<u64>)) -> Result<()>;
    fn is_snapshot(ino: Ino) -> bool;
    fn passed_over() -> Vec<String>;
    fn getxattr(ino: Ino, name: &[u8]) -> Result<Vec<u8>>;
    fn setxattr(ino: Ino, name: &[u8], value: &[u8], mode: XattrMode, by: Privilege) -> Result<()>;
    fn listxattr(ino: Ino) -> Result<Vec<Vec<u8>>>;
    fn removexattr(ino: Ino, name: &[u8]) -> Result<()>;
    fn trim(bytes: Range<u64>, min_bytes: u64) -> Result<u64>;
    fn unmount() -> Result<()>;
}

pub fn observed(words: &str) -> Option<(Mounted, Arc<Observed>)> {
    let mut options = MountOptions::default();
    options.parse(words).unwrap();
    observed_with(options)
}

fn observed_with(options: MountOptions) -> Option<(Mounted, Arc<Observed>)> {
    let mut m = Mounted::with_options(options, big_model())?;
    let model = Arc::clone(&m.fs);
    let fs = Arc::new(Observed {
        model,
        calls: Mutex::default(),
        called: Condvar::new(),
        fail_sync: AtomicBool::new(false),
        held: Mutex::default(),
        moved: Condvar::new(),
    });
    m.replace(Arc::clone(&fs) as _);
    Some((m, fs))
}

/// Promise: changes become durable without a request after `commit=`, and with `fsync` at once.
#[test]
fn durability() {
    let Some((mut m, fs)) = observed("commit=1") else { return };
    fs::create_dir(m.path("d")).unwrap();
    fs.wait_for_call("sync", 1);
    let mut file = File::create(m.path("f")).unwrap();
    file.write_all(b"x").unwrap();
    assert_eq!(fs.calls("fsync"), 0);
    file.sync_all().unwrap();
    File::open(m.path("d")).unwrap().sync_all().unwrap();
    file.sync_data().unwrap();
    assert_eq!((fs.calls("fsync"), fs.calls("fsync of data")), (3, 1));
    drop(file);
    m.unmount();
    assert_eq!(fs.calls("unmount"), 0, "the caller unmounts the file system");
}

/// Promise: as documented, `syncfs` (and so `sync`) makes the kernel send its data, but makes
/// nothing durable; `fsync` does. If this fails, the kernel has started to pass on `syncfs`, and
/// the documentation must be changed.
#[test]
fn sync_is_not_passed_on() {
    for mode in WRITE_MODES {
        let Some((m, fs)) = observed(&format!("commit=300,{mode}")) else { return };
        let mut file = File::create(m.path("f")).unwrap();
        file.write_all(b"x").unwrap();
        nix::unistd::syncfs(&file).unwrap();
        // Linux does not wait for the data that it sends.
        fs.wait_for_call(if mode == "writeback" { "write_late" } else { "write" }, 1);
        assert_eq!((fs.calls("sync"), fs.calls("fsync")), (0, 0), "{mode}");
        File::open(m.path("")).unwrap().sync_all().unwrap();
        assert_eq!(fs.calls("fsync"), 1, "{mode}");
    }
}

/// Promise: on a block device `syncfs` returns when everything is durable, from Linux 6.18 on.
#[test]
fn sync_is_passed_on_for_block_devices() {
    let Some(device) = LoopDevice::new() else { return };
    for mode in WRITE_MODES {
        let mut options = MountOptions::default();
        options.parse(&format!("commit=300,{mode}")).unwrap();
        options.block_device = Some(device.0.clone());
        let Some((m, fs)) = observed_with(options) else { return };
        let mut file = File::create(m.path("f")).unwrap();
        file.write_all(b"x").unwrap();
        let before = fs.calls("sync");
        nix::unistd::syncfs(&file).unwrap();
        let passed_on = fs.calls("sync") > before;
        assert_eq!(passed_on, kernel_version() >= (6, 18), "{mode}");
        if passed_on {
            assert_eq!(fs.calls("write") + fs.calls("write_late"), 1, "{mode}: before the sync");
        }
    }
}

/// A loop device over an empty file; the kernel does not read its content.
struct LoopDevice(PathBuf, #[expect(dead_code, reason = "keeps the file")] tempfile::NamedTempFile);

impl LoopDevice {
    fn new() -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let shown = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output().unwrap();
        assert!(shown.status.success(), "{shown:?}");
        Some(Self(String::from_utf8(shown.stdout).unwrap().trim().into(), file))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// Returns the major and minor version of the running kernel.
fn kernel_version() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-', '\n']).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Promise: a failed commit is reported at the end of the session, even if later commits succeed.
#[test]
fn a_failed_commit_is_reported_at_the_end() {
    let Some((mut m, fs)) = observed("commit=1") else { return };
    fs.fail_sync.store(true, Ordering::Relaxed);
    fs::create_dir(m.path("d")).unwrap();
    fs.wait_for_call("sync", 1);
    fs.fail_sync.store(false, Ordering::Relaxed);
    fs::create_dir(m.path("e")).unwrap();
    fs.wait_for_call("sync", 2);
    let error = m.end().unwrap_err().to_string();
    assert!(error.contains("could not be written completely"), "{error}");
}

/// Promise: the kernel caches names, absent names, attributes and contents, and does not request
/// them again.
#[test]
fn the_kernel_caches() {
    let Some((mut m, fs)) = observed("") else { return };
    fs::write(m.path("f"), vec![1; 100_000]).unwrap();
    let remembered = |names: &[&str], look: &dyn Fn()| {
        look();
        let before: Vec<u64> = names.iter().map(|name| fs.calls(name)).collect();
        (0..10).for_each(|_| look());
        assert_eq!(names.iter().map(|name| fs.calls(name)).collect::<Vec<_>>(), before, "{names:?}");
    };
    // After a close the kernel requests the number of blocks, so reads are tested separately.
    remembered(&["lookup", "read"], &|| assert_eq!(fs::read(m.path("f")).unwrap().len(), 100_000));
    remembered(&["lookup", "getattr"], &|| {
        assert_eq!(fs::metadata(m.path("f")).unwrap().len(), 100_000);
        assert!(!m.path("absent").exists());
    });
    // After the second listing the directory is in the cache.
    let list = || assert_eq!(fs::read_dir(m.path("")).unwrap().count(), 1);
    list();
    list();
    let before = fs.calls("readdir");
    list();
    assert_eq!(fs.calls("readdir"), before);
    m.unmount();
}

/// Promise: the times that programs see are stored, even if data arrives later.
#[test]
fn late_data_does_not_change_times() {
    let Some((mut m, fs)) = observed("") else { return };
    let mut shown = Vec::new();
    for i in 0..50 {
        let name = format!("f{i}");
        let mut file = File::create(m.path(&name)).unwrap();
        file.write_all(b"now").unwrap();
        file.sync_all().unwrap();
        // Most of these writes are in the same tick of the kernel's clock, so the kernel
        // has no new time to send.
        file.write_all(b"late").unwrap();
        SystemClock.sleep(Duration::from_millis(10));
        let metadata = file.metadata().unwrap();
        shown.push((name, metadata.modified().unwrap(), metadata.ctime_nsec()));
    }
    m.unmount();
    for (name, modified, ctime_nsec) in shown {
        let attr = fs.model.lookup(fs.model.root(), name.as_bytes()).unwrap();
        assert_eq!(attr.size, 7);
        assert_eq!((attr.mtime, i64::from(attr.ctime.nanos)), (modified.into(), ctime_nsec), "{name}");
    }
}

/// Promise: files that are created and written in the same tick of the clock need no request for
/// their times.
#[test]
fn new_files_have_their_time() {
    let Some((mut m, fs)) = observed("") else { return };
    for i in 0..1000 {
        fs::write(m.path(&format!("f{i}")), b"x").unwrap();
    }
    // For some files, on a busy machine for many, a tick falls between creation and write.
    assert!(fs.calls("setattr") < 1000, "{}", fs.calls("setattr"));
    m.unmount();
}

/// Promise: at the end all references are released.
#[test]
fn references() {
    let Some((mut m, fs)) = observed("") else { return };
    for i in 0..100 {
        fs::write(m.path(&format!("f{i}")), b"x").unwrap();
    }
    for entry in fs::read_dir(m.path("")).unwrap() {
        entry.unwrap().metadata().unwrap();
    }
    fs::remove_file(m.path("f7")).unwrap();
    m.unmount();
    assert_eq!(fs.model.check(), Vec::<String>::new());
    // An unlinked inode without references no longer exists; with a leaked reference it would.
    for i in 0..100 {
        if let Ok(attr) = fs.model.lookup(fs.model.root(), format!("f{i}").as_bytes()) {
            fs.model.unlink(fs.model.root(), format!("f{i}").as_bytes()).unwrap();
            fs.model.forget(attr.ino, 1);
            assert!(fs.model.getattr(attr.ino).is_err(), "f{i}");
        }
    }
}

/// Promise: a mount without changes is not made durable again.
#[test]
fn idle_mounts_are_not_synced() {
    let Some((mut m, fs)) = observed("commit=1") else { return };
    fs::write(m.path("f"), b"x").unwrap();
    fs.wait_for_call("sync", 1);
    // A change may come between the check of the timer and its call.
    let settled = fs.calls("sync") + 1;
    SystemClock.sleep(Duration::from_secs(4));
    assert_eq!(fs::read(m.path("f")).unwrap(), b"x");
    assert!(fs.calls("sync") <= settled, "{} calls", fs.calls("sync"));
    m.unmount();
}
