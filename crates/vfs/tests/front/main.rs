//! Tests of the front, over the model.

mod paths;
mod through;

use spindle_clock::ManualClock;
use spindle_conformance::model::{ModelFs, ModelOptions};
use spindle_conformance::suite::errno;
use spindle_vfs::{
    Access, ByteRange, Checking, Cred, FallocateMode, FileKind, GroupRule, HandleId, Ino, Interrupt,
    LockKind, LockOwner, NewNode, OpenFlags, Options, Rdev, RenameMode, SetAttr, Vfs, Wait, XattrMode,
};
use std::borrow::Cow;
use std::sync::Arc;

const ROOT: Cred<'static> = Cred::root();
const ALICE: Cred<'static> = Cred::user(1, 1);
const BOB: Cred<'static> = Cred::user(2, 2);

fn front(options: Options) -> Vfs {
    let fs = ModelFs::new(ModelOptions::default(), Arc::new(ManualClock::at(1_000_000)));
    Vfs::new(Arc::new(fs), options)
}

fn node(kind: FileKind, perm: u32, cred: &Cred<'_>) -> NewNode<'static> {
    NewNode { kind, perm, uid: cred.uid, gid: cred.gid, masked: 0, rdev: Rdev::default(), target: b"t" }
}

/// Creates a directory of `cred` in the root, with the superuser's rights.
fn dir_of(vfs: &Vfs, name: &[u8], perm: u32, cred: &Cred<'_>) -> Ino {
    vfs.create(&ROOT, vfs.root(), name, &node(FileKind::Directory, perm, cred)).unwrap().ino
}

fn file_of(vfs: &Vfs, dir: Ino, name: &[u8], perm: u32, cred: &Cred<'_>) -> Ino {
    vfs.create(&ROOT, dir, name, &node(FileKind::Regular, perm, cred)).unwrap().ino
}

fn set_flags(vfs: &Vfs, ino: Ino, flags: u32) {
    vfs.setattr(&ROOT, ino, &SetAttr { flags: Some(flags), ..SetAttr::default() }, None).unwrap();
}

/// Promise: names are found, created and removed with the permissions of the directory; errors of
/// existence come first.
#[test]
fn names_need_permission() {
    let vfs = front(Options::default());
    let dir = dir_of(&vfs, b"dir", 0o755, &ALICE);
    let closed = dir_of(&vfs, b"closed", 0o700, &ALICE);
    let regular = node(FileKind::Regular, 0o644, &BOB);
    vfs.create(&ALICE, dir, b"file", &node(FileKind::Regular, 0o644, &ALICE)).unwrap();
    let file = vfs.lookup(&BOB, dir, b"file").unwrap().ino;
    assert_eq!(errno(&vfs.create(&BOB, dir, b"new", &regular)), 13);
    assert_eq!(errno(&vfs.create(&BOB, dir, b"file", &regular)), 17);
    assert_eq!(errno(&vfs.link(&BOB, file, dir, b"new")), 13);
    assert_eq!(errno(&vfs.unlink(&BOB, dir, b"file")), 13);
    assert_eq!(errno(&vfs.unlink(&BOB, dir, b"none")), 2);
    assert_eq!(errno(&vfs.rename(&BOB, (dir, b"file"), (dir, b"new"), RenameMode::Replace)), 13);
    assert_eq!(errno(&vfs.rename(&BOB, (dir, b"none"), (dir, b"new"), RenameMode::Replace)), 2);
    assert_eq!(errno(&vfs.lookup(&BOB, closed, b"x")), 13);
    assert_eq!(errno(&vfs.readdir(&BOB, closed, 0, &mut |_| std::ops::ControlFlow::Continue(()))), 13);
    assert_eq!(errno(&vfs.create(&ALICE, file, b"x", &regular)), 20);
    let device = node(FileKind::CharDevice, 0o644, &ALICE);
    assert_eq!(errno(&vfs.create(&ALICE, dir, b"dev", &device)), 1);
    vfs.create(&ROOT, dir, b"dev", &device).unwrap();
    vfs.unlink(&ALICE, dir, b"file").unwrap();
}

/// Promise: in a sticky directory the files of others stay; a directory that gets another parent
/// must itself be writable.
#[test]
fn renames_need_permission() {
    let vfs = front(Options::default());
    let sticky = dir_of(&vfs, b"tmp", 0o1777, &ROOT);
    let open = dir_of(&vfs, b"open", 0o777, &ROOT);
    for (name, cred) in [(b"a", &ALICE), (b"b", &BOB)] {
        file_of(&vfs, sticky, name, 0o666, cred);
    }
    let rename = |cred: &Cred<'_>, from: (Ino, &[u8]), to: (Ino, &[u8])| {
        errno(&vfs.rename(cred, from, to, RenameMode::Replace))
    };
    assert_eq!(rename(&BOB, (sticky, b"a"), (open, b"x")), 1, "not his to move");
    assert_eq!(rename(&BOB, (sticky, b"b"), (sticky, b"a")), 1, "not his to replace");
    assert_eq!(errno(&vfs.rename(&BOB, (sticky, b"b"), (sticky, b"a"), RenameMode::Exchange)), 1);
    assert_eq!(errno(&vfs.unlink(&BOB, sticky, b"a")), 1);
    assert_eq!(rename(&BOB, (sticky, b"b"), (sticky, b"c")), 0);
    assert_eq!(rename(&ROOT, (sticky, b"c"), (sticky, b"a")), 0);
    let locked = vfs.create(&ROOT, open, b"locked", &node(FileKind::Directory, 0o555, &ALICE)).unwrap().ino;
    assert_eq!(rename(&ALICE, (open, b"locked"), (sticky, b"l")), 13, "its .. would change");
    assert_eq!(rename(&ALICE, (open, b"locked"), (open, b"l")), 0);
    assert_eq!(vfs.getattr(locked).unwrap().nlink, 2);
}

/// Promise: file flags protect names, bytes and attributes from every caller, with any checking of
/// permissions.
#[test]
fn flags_are_obeyed() {
    for checking in [Checking::Checked, Checking::ByKernel] {
        let vfs = front(Options { checking, ..Options::default() });
        let dir = dir_of(&vfs, b"dir", 0o755, &ROOT);
        let file = file_of(&vfs, dir, b"file", 0o644, &ROOT);
        let append = OpenFlags { append: true, ..OpenFlags::WRITE };
        set_flags(&vfs, file, 0x2);
        assert_eq!(errno(&vfs.open(&ROOT, file, OpenFlags::WRITE)), 1);
        assert_eq!(errno(&vfs.open(&ROOT, file, append)), 1);
        assert_eq!(errno(&vfs.unlink(&ROOT, dir, b"file")), 1);
        assert_eq!(errno(&vfs.link(&ROOT, file, dir, b"link")), 1);
        assert_eq!(errno(&vfs.rename(&ROOT, (dir, b"file"), (dir, b"x"), RenameMode::Replace)), 1);
        assert_eq!(
            errno(&vfs.setattr(&ROOT, file, &SetAttr { size: Some(1), ..SetAttr::default() }, None)),
            1
        );
        assert_eq!(errno(&vfs.setxattr(&ROOT, file, b"user.x", b"", XattrMode::Set)), 1);
        set_flags(&vfs, file, 0x4);
        assert_eq!(errno(&vfs.open(&ROOT, file, OpenFlags::WRITE)), 1);
        assert_eq!(errno(&vfs.open(&ROOT, file, OpenFlags { truncate: true, ..append })), 1);
        let handle = vfs.open(&ROOT, file, append).unwrap();
        assert_eq!(vfs.write(&ROOT, handle, 0, b"log").unwrap(), 3);
        vfs.close(handle).unwrap();
        set_flags(&vfs, file, 0x10);
        assert_eq!(errno(&vfs.unlink(&ROOT, dir, b"file")), 1);
        set_flags(&vfs, file, 0);
        set_flags(&vfs, dir, 0x4);
        assert_eq!(errno(&vfs.unlink(&ROOT, dir, b"file")), 1);
        file_of(&vfs, dir, b"more", 0o644, &ROOT);
        set_flags(&vfs, dir, 0x2);
        assert_eq!(errno(&vfs.create(&ROOT, dir, b"yet", &node(FileKind::Regular, 0, &ROOT))), 1);
        set_flags(&vfs, dir, 0);
        vfs.unlink(&ROOT, dir, b"file").unwrap();
    }
}

/// Promise: if the kernel checks permissions, this layer does not; it still chooses the groups of
/// new files.
#[test]
fn the_kernel_checks() {
    let vfs = front(Options { checking: Checking::ByKernel, group: GroupRule::SysV });
    let dir = dir_of(&vfs, b"dir", 0o2700, &ALICE);
    let made = vfs.create(&BOB, dir, b"file", &node(FileKind::Regular, 0o600, &BOB)).unwrap();
    assert_eq!((made.uid, made.gid), (2, 1));
    let handle = vfs.open(&ALICE, made.ino, OpenFlags::WRITE).unwrap();
    vfs.read(handle, 0, &mut [0; 4]).unwrap();
    assert_eq!(errno(&vfs.access(&ALICE, made.ino, Access::READ)), 13, "asked for, it is checked");
    let sub = vfs.create(&BOB, dir, b"sub", &node(FileKind::Directory, 0o700, &BOB)).unwrap();
    assert_eq!((sub.gid, sub.perm), (1, 0o2700));
}

/// Promise: a handle keeps the rights of its open even if permissions change, and has none after it
/// is closed.
#[test]
fn handles_keep_what_was_allowed() {
    let vfs = front(Options::default());
    let file = file_of(&vfs, vfs.root(), b"file", 0o644, &ALICE);
    assert_eq!(errno(&vfs.open(&BOB, file, OpenFlags::WRITE)), 13);
    assert_eq!(errno(&vfs.open(&ALICE, vfs.root(), OpenFlags::READ_WRITE)), 21);
    let (read, write) =
        (vfs.open(&BOB, file, OpenFlags::READ).unwrap(), vfs.open(&ALICE, file, OpenFlags::WRITE).unwrap());
    vfs.setattr(&ALICE, file, &SetAttr { perm: Some(0), ..SetAttr::default() }, None).unwrap();
    assert_eq!(vfs.write(&ALICE, write, 0, b"data").unwrap(), 4);
    assert_eq!(vfs.read(read, 1, &mut [0; 8]).unwrap(), 3);
    assert_eq!(errno(&vfs.write(&BOB, read, 0, b"x")), 9);
    assert_eq!(errno(&vfs.read(write, 0, &mut [0; 4])), 9);
    assert_eq!(errno(&vfs.fallocate(read, FallocateMode::PunchHole, 0, 1)), 9);
    let cut = SetAttr { size: Some(2), ..SetAttr::default() };
    assert_eq!(errno(&vfs.setattr(&BOB, file, &cut, Some(read))), 13);
    assert_eq!(vfs.setattr(&BOB, file, &cut, Some(write)).unwrap().size, 2, "ftruncate");
    vfs.fsync(read, false).unwrap();
    vfs.close(read).unwrap();
    assert_eq!(errno(&vfs.read(read, 0, &mut [0; 4])), 9);
    assert_eq!(errno(&vfs.close(read)), 9);
    let flags = OpenFlags::READ_WRITE;
    let (attr, handle) = vfs.create_open(&ROOT, vfs.root(), b"none", 0, flags).unwrap();
    vfs.write(&ALICE, handle, 0, b"x").unwrap();
    assert_eq!(attr.perm, 0);
    let truncating = vfs.open(&ROOT, file, OpenFlags { truncate: true, ..OpenFlags::READ }).unwrap();
    assert_eq!(vfs.getattr(file).unwrap().size, 0);
    vfs.close(truncating).unwrap();
}

/// Promise: a write by a user clears set-id bits; a write by the superuser does not.
#[test]
fn writing_drops_set_id() {
    let vfs = front(Options::default());
    for (cred, expected) in [(&ROOT, 0o6777), (&BOB, 0o777)] {
        let file = file_of(&vfs, vfs.root(), format!("f{}", cred.uid).as_bytes(), 0o6777, &ALICE);
        let handle = vfs.open(cred, file, OpenFlags::WRITE).unwrap();
        vfs.write(cred, handle, 0, b"x").unwrap();
        assert_eq!(vfs.getattr(file).unwrap().perm, expected);
        vfs.close(handle).unwrap();
    }
}

/// Promise: an open file stays until it is closed, even if its names are removed and its references
/// forgotten.
#[test]
fn open_files_live() {
    let vfs = front(Options::default());
    let before = vfs.statfs().unwrap();
    let file = file_of(&vfs, vfs.root(), b"file", 0o644, &ROOT);
    let (one, two) = (
        vfs.open(&ROOT, file, OpenFlags::READ_WRITE).unwrap(),
        vfs.open(&ROOT, file, OpenFlags::READ).unwrap(),
    );
    vfs.unlink(&ROOT, vfs.root(), b"file").unwrap();
    vfs.forget(file, 1);
    vfs.write(&ROOT, one, 0, b"still here").unwrap();
    vfs.close(one).unwrap();
    assert_eq!(vfs.read(two, 0, &mut [0; 20]).unwrap(), 10);
    vfs.close(two).unwrap();
    assert_eq!(errno(&vfs.getattr(file)), 116);
    assert_eq!(vfs.statfs().unwrap(), before);
}

/// Promise: a handle that is closed during calls does not free the file under them: reads and
/// writes access its bytes or fail because the handle is closed, and never access another file.
#[test]
fn closing_under_calls() {
    let vfs = front(Options::default());
    let before = vfs.statfs().unwrap();
    for round in 0..50u32 {
        let name = format!("f{round}").into_bytes();
        let file = file_of(&vfs, vfs.root(), &name, 0o644, &ROOT);
        let handle = vfs.open(&ROOT, file, OpenFlags::READ_WRITE).unwrap();
        vfs.write(&ROOT, handle, 0, &[7; 100]).unwrap();
        vfs.unlink(&ROOT, vfs.root(), &name).unwrap();
        vfs.forget(file, 1);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut buf = [0; 100];
                    while let Ok(n) = vfs.read(handle, 0, &mut buf) {
                        assert_eq!((n, buf), (100, [7; 100]));
                    }
                    assert_eq!(errno(&vfs.read(handle, 0, &mut buf)), 9);
                });
            }
            scope.spawn(|| vfs.close(handle).unwrap());
        });
    }
    assert_eq!(vfs.statfs().unwrap(), before);
}

/// Promise: when several threads append through their own handles, no record is lost or torn.
#[test]
fn appends_are_atomic() {
    let vfs = front(Options::default());
    let file = file_of(&vfs, vfs.root(), b"log", 0o666, &ROOT);
    let append = OpenFlags { append: true, ..OpenFlags::WRITE };
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let vfs = &vfs;
            scope.spawn(move || {
                let handle = vfs.open(&ROOT, file, append).unwrap();
                for _ in 0..200 {
                    // The given offset is ignored.
                    assert_eq!(vfs.write(&ROOT, handle, 0, &[thread + 1; 50]).unwrap(), 50);
                }
                vfs.close(handle).unwrap();
            });
        }
    });
    let mut data = vec![0; 50_000];
    assert_eq!(vfs.fs().read(file, 0, &mut data).unwrap(), 40_000);
    let mut counts = [0; 5];
    for record in data[..40_000].chunks(50) {
        assert!(record.iter().all(|byte| *byte == record[0]), "a torn record");
        counts[record[0] as usize] += 1;
    }
    assert_eq!(counts, [0, 200, 200, 200, 200]);
}

/// Promise: closing an open file releases its whole-file lock; byte ranges are released by owner.
#[test]
fn closing_releases_locks() {
    let vfs = front(Options::default());
    let file = file_of(&vfs, vfs.root(), b"file", 0o666, &ROOT);
    let (one, two) =
        (vfs.open(&ROOT, file, OpenFlags::READ).unwrap(), vfs.open(&ROOT, file, OpenFlags::READ).unwrap());
    let lock = |handle: HandleId, wait: Wait<'_>| {
        errno(&vfs.locks().lock_whole(file, handle.lock_owner(), LockKind::Exclusive, wait))
    };
    assert_eq!(lock(one, Wait::No), 0);
    assert_eq!(lock(two, Wait::No), 11);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| lock(two, Wait::Until(&Interrupt::new())));
        vfs.close(one).unwrap();
        assert_eq!(waiter.join().unwrap(), 0);
    });
    let owner = LockOwner(99);
    let range = ByteRange::from_len(10, 5);
    vfs.locks().lock_range(file, owner, 1, range, LockKind::Shared, Wait::No).unwrap();
    vfs.close(two).unwrap();
    assert!(!vfs.locks().is_free(file));
    vfs.release_owner(file, owner);
    assert!(vfs.locks().is_free(file));
}

/// Promise: extended attributes of users have the permissions of the file's bytes; the system's are
/// accessible only to the superuser, also if the kernel checks permissions, and invisible to
/// others.
#[test]
fn xattrs_need_permission() {
    for checking in [Checking::Checked, Checking::ByKernel] {
        let vfs = front(Options { checking, ..Options::default() });
        let file = file_of(&vfs, vfs.root(), b"file", 0o666, &ALICE);
        let set = |cred: &Cred<'_>| errno(&vfs.setxattr(cred, file, b"system.a", b"v", XattrMode::Set));
        assert_eq!((set(&ROOT), set(&ALICE), set(&BOB)), (0, 1, 1));
        vfs.setxattr(&ALICE, file, b"user.a", b"v", XattrMode::Set).unwrap();
        assert_eq!(vfs.getxattr(&ROOT, file, b"system.a").unwrap(), b"v");
        assert_eq!(errno(&vfs.getxattr(&ALICE, file, b"system.a")), 61);
        assert_eq!(errno(&vfs.removexattr(&ALICE, file, b"system.a")), 1);
        assert_eq!(vfs.listxattr(&ALICE, file).unwrap(), [b"user.a".to_vec()]);
        assert_eq!(vfs.listxattr(&ROOT, file).unwrap().len(), 2);
        vfs.removexattr(&ROOT, file, b"system.a").unwrap();
    }
    let vfs = front(Options::default());
    let file = file_of(&vfs, vfs.root(), b"file", 0o640, &ALICE);
    let device =
        vfs.create(&ROOT, vfs.root(), b"dev", &node(FileKind::CharDevice, 0o666, &ALICE)).unwrap().ino;
    let set = |cred: &Cred<'_>, ino, name: &[u8]| errno(&vfs.setxattr(cred, ino, name, b"v", XattrMode::Set));
    let member = Cred { groups: Cow::Borrowed(&[1]), ..BOB };
    assert_eq!(set(&ALICE, file, b"user.a"), 0);
    assert_eq!(set(&member, file, b"user.a"), 13);
    assert_eq!(vfs.getxattr(&member, file, b"user.a").unwrap(), b"v");
    assert_eq!(errno(&vfs.getxattr(&BOB, file, b"user.a")), 13);
    assert_eq!(set(&ALICE, device, b"user.a"), 1);
    assert_eq!(errno(&vfs.getxattr(&ALICE, device, b"user.a")), 61);
    vfs.removexattr(&ALICE, file, b"user.a").unwrap();
    assert!(vfs.listxattr(&BOB, file).unwrap().is_empty());
}
