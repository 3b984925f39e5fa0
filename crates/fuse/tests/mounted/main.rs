//! Tests of programs on a mounted model file system.

#[path = "../common/mod.rs"]
mod common;
mod direct;
mod flags;
mod full;
mod harness;
mod observed;
mod others;
#[path = "../common/small.rs"]
mod small;
mod transport;

use common::big_model;
use harness::{Mounted, in_both_modes};
use nix::fcntl::{FallocateFlags, RenameFlags, fallocate, renameat2};
use nix::mount::{MntFlags, umount2};
use nix::sys::stat::{SFlag, UtimensatFlags, makedev, mknod, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{Whence, lseek64};
use spindle_conformance::model::ModelOptions;
use spindle_vfs::access::IMMUTABLE;
use spindle_vfs::{APPEND, FileSystem, Limits, Privilege, SetAttr};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

fn errno(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

/// Promise: written data is read back, from the caches and without them.
#[test]
fn contents_survive() {
    in_both_modes("", |mut m| {
        let data: Vec<u8> = (0..5_000_000u32).map(|i| (i % 251) as u8).collect();
        fs::write(m.path("f"), &data).unwrap();
        assert!(fs::read(m.path("f")).unwrap() == data);
        assert!(fs::metadata(m.path("f")).unwrap().blocks() * 512 >= data.len() as u64);
        fs::create_dir_all(m.path("a/b/c")).unwrap();
        fs::write(m.path("a/b/c/deep"), b"deep").unwrap();
        m.remount();
        assert!(fs::read(m.path("f")).unwrap() == data);
        assert_eq!(fs::read(m.path("a/b/c/deep")).unwrap(), b"deep");
        assert_eq!(fs::metadata(m.path("f")).unwrap().len(), data.len() as u64);
        fs::remove_dir_all(m.path("a")).unwrap();
        assert_eq!(fs::read_dir(m.path("")).unwrap().count(), 1);
    });
}

/// Promise: appends through two handles lose nothing, and a write-only handle can overwrite parts
/// of pages.
#[test]
fn appending_and_partial_pages() {
    in_both_modes("", |mut m| {
        let open = || OpenOptions::new().append(true).create(true).open(m.path("log")).unwrap();
        let (mut one, mut two) = (open(), open());
        for i in 0..1000 {
            writeln!(if i % 3 == 0 { &mut one } else { &mut two }, "line {i:04}").unwrap();
        }
        drop((one, two));
        m.remount();
        let text = fs::read_to_string(m.path("log")).unwrap();
        assert!(text.lines().enumerate().all(|(i, line)| line == format!("line {i:04}")), "{text}");
        // The page is not cached, so the kernel must read it before the write through a
        // write-only handle.
        let file = OpenOptions::new().write(true).open(m.path("log")).unwrap();
        file.write_all_at(b"LINE", 10).unwrap();
        drop(file);
        m.remount();
        assert_eq!(&fs::read(m.path("log")).unwrap()[..20], b"line 0000\nLINE 0001\n");
    });
}

/// Promise: truncation by name, by handle and by open takes effect at once and is stored.
#[test]
fn truncation() {
    in_both_modes("", |mut m| {
        fs::write(m.path("f"), [7; 10_000]).unwrap();
        let file = OpenOptions::new().write(true).open(m.path("f")).unwrap();
        file.set_len(5000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 5000);
        file.set_len(9000).unwrap();
        drop(file);
        m.remount();
        let bytes = fs::read(m.path("f")).unwrap();
        assert!(bytes.len() == 9000 && bytes[..5000] == [7; 5000] && bytes[5000..] == [0; 4000]);
        File::create(m.path("f")).unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read(m.path("f")).unwrap(), b"new");
        m.remount();
        assert_eq!(fs::read(m.path("f")).unwrap(), b"new");
    });
}

/// Promise: rename replaces, refuses, exchanges or leaves a whiteout as requested, and the cached
/// names follow.
#[test]
fn renaming() {
    let Some(m) = Mounted::new("") else { return };
    fs::write(m.path("a"), b"a").unwrap();
    fs::write(m.path("b"), b"b").unwrap();
    let cwd = nix::fcntl::AT_FDCWD;
    let rename = |from: &str, to: &str, flags| renameat2(cwd, &m.path(from), cwd, &m.path(to), flags);
    assert_eq!(rename("a", "b", RenameFlags::RENAME_NOREPLACE), Err(nix::Error::EEXIST));
    rename("a", "b", RenameFlags::RENAME_EXCHANGE).unwrap();
    assert_eq!((fs::read(m.path("a")).unwrap(), fs::read(m.path("b")).unwrap()), (b"b".into(), b"a".into()));
    fs::rename(m.path("a"), m.path("b")).unwrap();
    assert!(!m.path("a").exists());
    assert_eq!(fs::read(m.path("b")).unwrap(), b"b");
    fs::create_dir(m.path("d")).unwrap();
    fs::create_dir(m.path("e")).unwrap();
    fs::rename(m.path("b"), m.path("d/b")).unwrap();
    fs::rename(m.path("d"), m.path("e/d")).unwrap();
    assert_eq!(fs::read(m.path("e/d/b")).unwrap(), b"b");
    assert_eq!(fs::metadata(m.path("e")).unwrap().nlink(), 3);
    assert_eq!(fs::metadata(m.path("")).unwrap().nlink(), 3);
    assert_eq!(errno(&fs::rename(m.path("e"), m.path("e/d/x")).unwrap_err()), libc::EINVAL);
    rename("e", "f", RenameFlags::RENAME_WHITEOUT).unwrap();
    assert_eq!(fs::read(m.path("f/d/b")).unwrap(), b"b");
    let left = fs::symlink_metadata(m.path("e")).unwrap();
    assert_eq!((left.mode(), left.rdev(), left.nlink()), (SFlag::S_IFCHR.bits(), 0, 1));
    fs::remove_file(m.path("e")).unwrap();
}

/// Promise: the attributes of a file are right under each of its names, after names are added and
/// removed.
#[test]
fn hard_links_and_cached_attributes() {
    let Some(m) = Mounted::new("") else { return };
    fs::write(m.path("one"), b"x").unwrap();
    let nlink = |name: &str| fs::metadata(m.path(name)).unwrap().nlink();
    assert!(!m.path("two").exists());
    fs::hard_link(m.path("one"), m.path("two")).unwrap();
    fs::hard_link(m.path("one"), m.path("three")).unwrap();
    assert_eq!([nlink("one"), nlink("two"), nlink("three")], [3; 3]);
    fs::remove_file(m.path("one")).unwrap();
    assert_eq!([nlink("two"), nlink("three")], [2; 2]);
    fs::write(m.path("other"), b"").unwrap();
    fs::rename(m.path("other"), m.path("two")).unwrap();
    assert_eq!([nlink("two"), nlink("three")], [1; 2]);
    assert!(!m.path("one").exists());
    fs::set_permissions(m.path("three"), Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(m.path("three")).unwrap().mode() & 0o7777, 0o640);
}

/// Promise: a file that is unlinked while open can be used, and is freed when it is closed or the
/// mount ends.
#[test]
fn unlinked_while_open() {
    in_both_modes("", |mut m| {
        let free = m.fs.statfs().unwrap();
        let mut file =
            OpenOptions::new().read(true).write(true).create_new(true).open(m.path("gone")).unwrap();
        file.write_all(&[1; 16_000]).unwrap();
        fs::remove_file(m.path("gone")).unwrap();
        assert!(!m.path("gone").exists());
        file.write_all(&[2; 16_000]).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert!(bytes[..16_000] == [1; 16_000] && bytes[16_000..] == [2; 16_000]);
        drop(file);
        m.unmount();
        let after = m.fs.statfs().unwrap();
        assert_eq!((free.ffree, free.bfree), (after.ffree, after.bfree));
    });
}

/// Promise: a directory of 10,000 names lists each name exactly once, with and without the cache,
/// with the right types and attributes.
#[test]
fn ten_thousand_names() {
    let Some(mut m) = Mounted::new("") else { return };
    for i in 0..10_000 {
        File::create(m.path(&format!("file number {i}"))).unwrap();
    }
    fs::create_dir(m.path("directory")).unwrap();
    m.remount();
    for _ in 0..2 {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(m.path("")).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.file_type().unwrap().is_dir(), entry.file_name() == "directory");
            let found = entry.metadata().unwrap();
            assert_eq!(std::os::unix::fs::DirEntryExt::ino(&entry), found.ino());
            assert!(names.insert(entry.file_name()), "{:?} twice", entry.file_name());
        }
        assert_eq!(names.len(), 10_001);
    }
    for entry in fs::read_dir(m.path("")).unwrap().filter(|e| e.as_ref().unwrap().path().is_file()) {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(fs::read_dir(m.path("")).unwrap().count(), 1);
}

/// Promise: holes are found by seek (also if the kernel has not written back data), created by
/// punching, and take no space.
#[test]
fn sparse_files() {
    in_both_modes("", |mut m| {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(m.path("s"));
        let file = file.unwrap();
        file.write_all_at(&[1; 4096], 1 << 20).unwrap();
        let seek = |file: &File, from, whence| lseek64(file, from, whence);
        assert_eq!(seek(&file, 1 << 20, Whence::SeekData).unwrap(), 1 << 20, "data that is not written back");
        assert!(seek(&file, 0, Whence::SeekData).unwrap() <= 1 << 20);
        file.sync_all().unwrap();
        drop(file);
        m.remount();
        let file = OpenOptions::new().read(true).write(true).open(m.path("s")).unwrap();
        assert_eq!(seek(&file, 0, Whence::SeekData).unwrap(), 1 << 20);
        assert_eq!(seek(&file, 0, Whence::SeekHole).unwrap(), 0);
        assert_eq!(seek(&file, 1 << 20, Whence::SeekHole).unwrap(), (1 << 20) + 4096);
        assert_eq!(seek(&file, (1 << 20) + 4096, Whence::SeekData), Err(nix::Error::ENXIO));
        assert_eq!(file.metadata().unwrap().blocks(), 8);
        fallocate(&file, FallocateFlags::empty(), 0, 8192).unwrap();
        assert_eq!(file.metadata().unwrap().blocks(), 24);
        file.write_all_at(&[9; 8192], 0).unwrap();
        let punch = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        fallocate(&file, punch, 0, 4096).unwrap();
        fallocate(&file, FallocateFlags::FALLOC_FL_ZERO_RANGE, 4096, 100).unwrap();
        fallocate(&file, FallocateFlags::FALLOC_FL_KEEP_SIZE, 4 << 20, 4096).unwrap();
        assert_eq!(file.metadata().unwrap().len(), (1 << 20) + 4096);
        let mut bytes = [5; 8192];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes[..4196] == [0; 4196] && bytes[4196..] == [9; 3996]);
    });
}

/// Promise: times are stored to the nanosecond, before and after 1970, and each change sets the
/// right times.
#[test]
fn times() {
    in_both_modes("", |mut m| {
        fs::write(m.path("f"), b"x").unwrap();
        fs::create_dir(m.path("d")).unwrap();
        let cases =
            [(-1, 999_999_999), (-1, 0), (-2, 1), (-86400 * 3650, 500_000_000), (0, 0), (0, 1), (1 << 33, 7)];
        for name in ["f", "d"] {
            for (secs, nanos) in cases {
                let time = TimeSpec::new(secs, nanos);
                let path = m.path(name);
                utimensat(nix::fcntl::AT_FDCWD, &path, &time, &time, UtimensatFlags::NoFollowSymlink)
                    .unwrap();
                for _ in 0..2 {
                    let found = fs::metadata(m.path(name)).unwrap();
                    assert_eq!((found.mtime(), found.mtime_nsec()), (secs, nanos), "{name}");
                    assert_eq!((found.atime(), found.atime_nsec()), (secs, nanos), "{name}");
                    m.remount();
                }
            }
        }
        let old = fs::metadata(m.path("f")).unwrap();
        fs::set_permissions(m.path("f"), Permissions::from_mode(0o600)).unwrap();
        let new = fs::metadata(m.path("f")).unwrap();
        assert_eq!(old.mtime(), new.mtime());
        assert!((new.ctime(), new.ctime_nsec()) > (old.ctime(), old.ctime_nsec()));
        OpenOptions::new().append(true).open(m.path("f")).unwrap().write_all(b"y").unwrap();
        let written = fs::metadata(m.path("f")).unwrap();
        assert_ne!(written.mtime(), new.mtime());
        m.remount();
        let kept = fs::metadata(m.path("f")).unwrap();
        assert_eq!((kept.mtime(), kept.mtime_nsec()), (written.mtime(), written.mtime_nsec()));
        assert_eq!((kept.ctime(), kept.ctime_nsec()), (written.ctime(), written.ctime_nsec()));
    });
}

/// Promise: nodes of every type, links, owners and modes are stored.
#[test]
fn every_kind_of_node() {
    let Some(mut m) = Mounted::new("") else { return };
    let mode = nix::sys::stat::Mode::from_bits_truncate(0o644);
    mknod(&m.path("null"), SFlag::S_IFCHR, mode, makedev(1, 3)).unwrap();
    mknod(&m.path("disk"), SFlag::S_IFBLK, mode, makedev(259, 70_000)).unwrap();
    mknod(&m.path("fifo"), SFlag::S_IFIFO, mode, 0).unwrap();
    mknod(&m.path("sock"), SFlag::S_IFSOCK, mode, 0).unwrap();
    mknod(&m.path("file"), SFlag::S_IFREG, mode, 0).unwrap();
    symlink("some/where", m.path("link")).unwrap();
    chown(m.path("file"), Some(1000), Some(2000)).unwrap();
    fs::set_permissions(m.path("file"), Permissions::from_mode(0o4755)).unwrap();
    m.remount();
    let stat = |name: &str| fs::symlink_metadata(m.path(name)).unwrap();
    assert_eq!((stat("null").mode(), stat("null").rdev()), (0o020_644, makedev(1, 3)));
    assert_eq!((stat("disk").mode(), stat("disk").rdev()), (0o060_644, makedev(259, 70_000)));
    assert_eq!((stat("fifo").mode(), stat("sock").mode()), (0o010_644, 0o140_644));
    assert_eq!((stat("file").uid(), stat("file").gid(), stat("file").mode()), (1000, 2000, 0o104_755));
    assert_eq!(fs::read_link(m.path("link")).unwrap().to_str(), Some("some/where"));
    // A change of owner clears the set-id bits.
    chown(m.path("file"), Some(1001), None).unwrap();
    assert_eq!(stat("file").mode(), 0o100_755);
    assert_eq!(fs::metadata(m.path("")).unwrap().ino(), 2, "the root keeps its own number");
    // Mounts are nodev by default.
    assert_eq!(errno(&File::open(m.path("null")).unwrap_err()), libc::EACCES);
}

/// Promise: new files take their group from a set-group-id directory, and with `grpid` from any
/// directory.
#[test]
fn groups_of_new_files() {
    for (words, expected, sub_mode) in [("", [0, 50], 0o2755), ("grpid", [60, 50], 0o755)] {
        let Some(m) = Mounted::new(words) else { return };
        for (dir, gid, mode) in [("plain", 60, 0o755), ("sgid", 50, 0o2755)] {
            fs::create_dir(m.path(dir)).unwrap();
            chown(m.path(dir), None, Some(gid)).unwrap();
            fs::set_permissions(m.path(dir), Permissions::from_mode(mode)).unwrap();
            fs::write(m.path(dir).join("file"), b"").unwrap();
            fs::create_dir(m.path(dir).join("sub")).unwrap();
        }
        let stat = |name: &str| fs::metadata(m.path(name)).unwrap();
        assert_eq!([stat("plain/file").gid(), stat("sgid/file").gid()], expected);
        assert_eq!((stat("sgid/sub").gid(), stat("sgid/sub").mode() & 0o7777), (50, sub_mode));
        assert_eq!(stat("plain/sub").mode() & 0o7777, 0o755);
    }
}

/// Promise: extended attributes are stored, and with `nouser_xattr` every call fails with
/// EOPNOTSUPP.
#[test]
fn extended_attributes() {
    use xattrs::{get, list, remove, set};
    let Some(mut m) = Mounted::new("") else { return };
    fs::write(m.path("f"), b"").unwrap();
    set(&m.path("f"), "user.color", b"green").unwrap();
    set(&m.path("f"), "user.empty", b"").unwrap();
    assert_eq!(set(&m.path("f"), "security.x", b""), Err(libc::EOPNOTSUPP));
    m.remount();
    assert_eq!(get(&m.path("f"), "user.color").unwrap(), b"green");
    assert_eq!(get(&m.path("f"), "user.empty").unwrap(), b"");
    assert_eq!(list(&m.path("f")).unwrap(), b"user.color\0user.empty\0");
    remove(&m.path("f"), "user.color").unwrap();
    assert_eq!(get(&m.path("f"), "user.color"), Err(libc::ENODATA));
    let Some(m) = Mounted::new("nouser_xattr") else { return };
    fs::write(m.path("f"), b"").unwrap();
    assert_eq!(set(&m.path("f"), "user.color", b"green"), Err(libc::EOPNOTSUPP));
    assert_eq!(get(&m.path("f"), "user.color"), Err(libc::EOPNOTSUPP));
}

/// System calls that the standard library does not have.
mod xattrs {
    #![allow(unsafe_code)] // Plain calls with pointers to live buffers of the length given.
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    type Result<T> = std::result::Result<T, i32>;

    fn c(path: &Path, name: &str) -> (CString, CString) {
        (CString::new(path.as_os_str().as_bytes()).unwrap(), CString::new(name).unwrap())
    }

    fn checked(result: isize) -> Result<usize> {
        usize::try_from(result).map_err(|_| nix::errno::Errno::last_raw())
    }

    pub fn set(path: &Path, name: &str, value: &[u8]) -> Result<()> {
        let (path, name) = c(path, name);
        let data = value.as_ptr().cast();
        let result = unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), data, value.len(), 0) };
        checked(result as isize).map(drop)
    }

    pub fn get(path: &Path, name: &str) -> Result<Vec<u8>> {
        let (path, name) = c(path, name);
        let mut value = vec![0u8; 4096];
        let data = value.as_mut_ptr().cast();
        let len = checked(unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), data, value.len()) })?;
        value.truncate(len);
        Ok(value)
    }

    pub fn list(path: &Path) -> Result<Vec<u8>> {
        let (path, _) = c(path, "");
        let size = checked(unsafe { libc::listxattr(path.as_ptr(), std::ptr::null_mut(), 0) })?;
        let mut names = vec![0u8; size];
        checked(unsafe { libc::listxattr(path.as_ptr(), names.as_mut_ptr().cast(), size) })?;
        Ok(names)
    }

    pub fn remove(path: &Path, name: &str) -> Result<()> {
        let (path, name) = c(path, name);
        checked(unsafe { libc::removexattr(path.as_ptr(), name.as_ptr()) } as isize).map(drop)
    }
}

/// Promise: `statfs` returns the numbers of the file system, and a full file system fails with
/// ENOSPC and loses no data.
#[test]
fn space() {
    let model = ModelOptions { blocks: 300, reserve_blocks: 20, files: 20, ..big_model() };
    let Some(mut m) = Mounted::with_model("", model) else { return };
    let found = nix::sys::statvfs::statvfs(&m.path("")).unwrap();
    let expected = m.fs.statfs().unwrap();
    assert_eq!((found.blocks(), found.blocks_free()), (expected.blocks, expected.bfree));
    assert_eq!((found.blocks_available(), found.files_free()), (expected.bavail, expected.ffree));
    assert_eq!(found.name_max(), 255);
    let mut file = File::create(m.path("f")).unwrap();
    let result = file.write_all(&vec![3; 4096 * 400]).and_then(|()| file.sync_all());
    assert_eq!(errno(&result.unwrap_err()), libc::ENOSPC);
    drop(file);
    fs::remove_file(m.path("f")).unwrap();
    // The space of a removed file is free for the next one, many times.
    for i in 0..20 {
        let mut file = File::create(m.path("g")).unwrap();
        file.write_all(&vec![i; 4096 * 200]).and_then(|()| file.sync_all()).unwrap();
        drop(file);
        fs::remove_file(m.path("g")).unwrap();
    }
    fs::write(m.path("g"), vec![4; 4096 * 100]).unwrap();
    m.remount();
    assert!(fs::read(m.path("g")).unwrap() == vec![4; 4096 * 100]);
}

/// Promise: `ro` refuses every change; `uid`, `gid` and the masks change only the shown attributes.
#[test]
fn read_only_and_shown_attributes() {
    let Some(m) = Mounted::new("ro") else { return };
    assert_eq!(errno(&fs::write(m.path("f"), b"").unwrap_err()), libc::EROFS);
    assert_eq!(fs::read_dir(m.path("")).unwrap().count(), 0);
    let Some(m) = Mounted::new("uid=12,gid=34,fmask=137,dmask=027") else { return };
    fs::write(m.path("f"), b"").unwrap();
    fs::create_dir(m.path("d")).unwrap();
    let stat = |name: &str| fs::metadata(m.path(name)).unwrap();
    assert_eq!((stat("f").uid(), stat("f").gid(), stat("f").mode()), (12, 34, 0o100_640));
    assert_eq!((stat("d").uid(), stat("d").mode()), (12, 0o040_750));
    chown(m.path("f"), Some(12), Some(34)).unwrap();
    assert_eq!(errno(&chown(m.path("f"), Some(13), None).unwrap_err()), libc::EPERM);
    assert_eq!(m.fs.lookup(m.fs.root(), b"f").unwrap().uid, 0);
}

/// Promise: a format of 1979, with short names, whole seconds and no symbolic links, can be
/// mounted.
#[test]
fn an_old_format() {
    let old = ModelOptions::old();
    let model = ModelOptions { limits: Limits { symlink_max: 0, ..old.limits.clone() }, ..old };
    let Some(mut m) = Mounted::with_model("", model) else { return };
    fs::write(m.path("f"), b"old").unwrap();
    assert_eq!(errno(&fs::write(m.path("a name that is too long"), b"").unwrap_err()), libc::ENAMETOOLONG);
    assert!(symlink("f", m.path("l")).is_err());
    let before = fs::metadata(m.path("f")).unwrap();
    m.remount();
    let after = fs::metadata(m.path("f")).unwrap();
    assert_eq!((before.mtime(), 0), (after.mtime(), after.mtime_nsec()));
    assert_eq!(fs::read(m.path("f")).unwrap(), b"old");
}

/// Promise: from the moment when the kernel has unmounted it, a mount knows that it has ended: its
/// device number may be that of another. While it is only detached it has not.
#[test]
fn an_ended_mount_knows_it() {
    let Some(mut m) = Mounted::new("") else { return };
    let file = File::create(m.path("file")).unwrap();
    let remounter = m.session().remounter();
    umount2(&m.path(""), MntFlags::MNT_DETACH).unwrap();
    assert!(!remounter.has_ended());
    drop(file);
    m.unmount();
    assert!(remounter.has_ended());
    m.remount_ended();
    let remounter = m.session().remounter();
    assert!(!remounter.has_ended());
    m.unmount();
    assert!(remounter.has_ended());
}

/// Promise: a mount that is in use is not unmounted, and continues to work.
#[test]
fn busy_is_not_unmounted() {
    let Some(m) = Mounted::new("") else { return };
    let file = File::create(m.path("f")).unwrap();
    let error = m.session().unmount().unwrap_err().to_string();
    assert!(error.contains("cannot unmount") && error.contains("busy"), "{error}");
    drop(file);
    fs::write(m.path("g"), b"still here").unwrap();
}

/// Promise: BSD's file flags are enforced, although the kernel does not know them.
#[test]
fn file_flags() {
    // A refused late write is reported again at the end.
    let again = |m: &mut Mounted| {
        if let Err(error) = m.end() {
            assert!(error.to_string().contains("(operation not permitted)"), "{error}");
        }
        m.remount_ended();
    };
    in_both_modes("", |mut m| {
        for (name, flags) in [("immutable", IMMUTABLE), ("log", APPEND), ("free", 0)] {
            fs::write(m.path(name), b"contents").unwrap();
            again(&mut m);
            let ino = m.fs.lookup(m.fs.root(), name.as_bytes()).unwrap().ino;
            let set = SetAttr { flags: Some(flags), ..SetAttr::default() };
            m.fs.setattr(ino, &set, Privilege::Root).unwrap();
            m.fs.forget(ino, 1);
            again(&mut m);
            let allowed = |result: std::io::Result<()>, if_append: bool| match result {
                Ok(()) => assert!(flags == 0 || (if_append && flags == APPEND), "{name}"),
                Err(error) => assert!(errno(&error) == libc::EPERM && flags != 0, "{name}: {error}"),
            };
            let write = |path, offset, text: &[u8]| {
                let file = OpenOptions::new().write(true).open(path)?;
                file.write_all_at(text, offset)?;
                file.sync_all()
            };
            allowed(write(m.path(name), 0, b"C"), false);
            again(&mut m);
            allowed(write(m.path(name), 8, b", more"), true);
            allowed(OpenOptions::new().write(true).open(m.path(name)).and_then(|f| f.set_len(3)), false);
            allowed(fs::set_permissions(m.path(name), Permissions::from_mode(0o600)), false);
            allowed(fs::hard_link(m.path(name), m.path("link")), false);
            allowed(fs::rename(m.path(name), m.path("elsewhere")), false);
            let there = if flags == 0 { "elsewhere" } else { name };
            allowed(fs::remove_file(m.path(there)), false);
        }
        again(&mut m);
        assert_eq!(fs::read(m.path("immutable")).unwrap(), b"contents");
        assert_eq!(fs::read(m.path("log")).unwrap(), b"contents, more");
    });
}

/// Promise: `chattr` sets and clears the flags that both systems have, with the rights of BSD, and
/// `lsattr` shows them; a format without flags refuses both.
#[test]
fn flags_through_chattr() {
    fn run(program: &str, arguments: &[&str], on: &Path, uid: u32) -> Result<String, String> {
        let output = Command::new(program).args(arguments).arg(on).uid(uid).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }
    let shown = |path: &Path| {
        let line = run("lsattr", &["-d"], path, 0).unwrap();
        line.split_once(' ').unwrap().0.replace('-', "")
    };
    in_both_modes("allow_other", |m| {
        fs::write(m.path("file"), b"contents").unwrap();
        fs::create_dir(m.path("dir")).unwrap();
        for name in ["file", "dir"] {
            let path = m.path(name);
            chown(&path, Some(1001), None).unwrap();
            let flags =
                || m.fs.getattr(m.fs.lookup(m.fs.root(), name.as_bytes()).unwrap().ino).unwrap().flags;
            let changed = |change, uid| run("chattr", &[change], &path, uid);
            let ctime = || {
                let metadata = fs::metadata(&path).unwrap();
                (metadata.ctime(), metadata.ctime_nsec())
            };
            let before = ctime();
            // More than a tick of the clock.
            std::thread::sleep(Duration::from_millis(20));
            changed("+d", 1001).unwrap();
            assert_eq!((shown(&path), flags()), ("d".to_owned(), 1));
            // With `writeback` the kernel keeps its own of regular files.
            assert!(name == "file" || ctime() != before);
            assert!(changed("-d", 1002).is_err());
            assert!(changed("+i", 1001).is_err());
            changed("+i", 0).unwrap();
            assert_eq!((shown(&path), flags()), ("id".to_owned(), 0x2_0001));
            assert!(changed("-d", 1001).is_err());
            assert_eq!(errno(&fs::rename(&path, m.path("elsewhere")).unwrap_err()), libc::EPERM);
            changed("-i", 0).unwrap();
            changed("+a", 0).unwrap();
            assert_eq!((shown(&path), flags()), ("ad".to_owned(), 0x4_0001));
            assert!(changed("+A", 0).unwrap_err().contains("not supported"));
            changed("-ad", 0).unwrap();
            assert_eq!((shown(&path), flags()), (String::new(), 0));
            fs::rename(&path, m.path(&name.to_uppercase())).unwrap();
        }
    });
    let Some(m) = Mounted::with_model("", ModelOptions::old()) else { return };
    fs::write(m.path("file"), b"").unwrap();
    for (program, arguments) in [("lsattr", &["-d"][..]), ("chattr", &["+i"])] {
        assert!(run(program, arguments, &m.path("file"), 0).is_err());
    }
}

/// Promise: the kernel gets the time of creation where the format has it.
#[test]
fn time_of_creation() {
    let Some(mut m) = Mounted::new("") else { return };
    fs::write(m.path("file"), b"contents").unwrap();
    let made = m.fs.lookup(m.fs.root(), b"file").unwrap().birthtime.unwrap();
    let created = |m: &Mounted| fs::metadata(m.path("file")).unwrap().created();
    for _ in 0..2 {
        let since = created(&m).unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!((since.as_secs().cast_signed(), since.subsec_nanos()), (made.secs, made.nanos));
        assert_eq!(fs::metadata(m.path("file")).unwrap().len(), 8);
        fs::write(m.path("file"), b"other contents").unwrap();
        fs::write(m.path("file"), b"contents").unwrap();
        m.remount();
    }
    let Some(m) = Mounted::with_model("", ModelOptions::old()) else { return };
    fs::write(m.path("file"), b"").unwrap();
    assert!(created(&m).is_err());
}
