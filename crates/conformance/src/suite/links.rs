//! Link counts, references, and the life of an inode.

use super::bench::*;
use spindle_vfs::{FileKind, Privilege};

const ROOT: Privilege = Privilege::Root;

/// Promise: the links of a directory are its name, its `.`, and the `..` of each subdirectory.
pub(super) fn directory_link_counts(b: &mut Bench<'_>) {
    let root = b.root();
    assert_eq!(b.nlink(root), 2);
    let dir = b.dir(root, "dir");
    assert_eq!((b.nlink(root), b.nlink(dir)), (3, 2));
    for i in 0..10 {
        b.dir(dir, format!("d{i}"));
        b.file(dir, format!("f{i}"));
        assert_eq!(b.nlink(dir), 3 + i);
    }
    b.remount();
    let dir = b.at(b.root(), "dir");
    assert_eq!(b.nlink(dir), 12);
    for i in 0..10 {
        b.rmdir(dir, format!("d{i}").as_bytes()).unwrap();
        assert_eq!(b.nlink(dir), 11 - i);
    }
}

/// Promise: hard links are names of one file, which is freed after the last of them.
pub(super) fn hard_links_share_one_inode(b: &mut Bench<'_>) {
    let root = b.root();
    let dir = b.dir(root, "dir");
    let file = b.file(root, "one");
    let attr = b.link(file, dir, b"two", ROOT).unwrap();
    assert_eq!((attr.ino, attr.nlink), (file, 2));
    b.link(file, root, b"three", ROOT).unwrap();
    b.put(file, 0, b"shared");
    b.unlink(root, b"one").unwrap();
    assert_eq!(b.nlink(file), 2);
    b.remount();
    let dir = b.at(b.root(), "dir");
    assert_eq!((b.at(dir, "two"), b.at(b.root(), "three")), (file, file));
    b.holds(file, b"shared");
    if b.limits().symlink_max > 0 {
        let link = b.make(dir, "sym", FileKind::Symlink);
        b.link(link, dir, b"sym2", ROOT).unwrap();
        assert_eq!(b.nlink(link), 2);
    }
    b.unlink(dir, b"two").unwrap();
    b.unlink(b.root(), b"three").unwrap();
}

/// Promise: `link` makes no second name of a directory, replaces nothing, and gives no new name to
/// a file that has lost its last one.
pub(super) fn link_refuses(b: &mut Bench<'_>) {
    let root = b.root();
    let dir = b.dir(root, "dir");
    let file = b.file(root, "file");
    refuses(b.link(dir, root, b"again", ROOT), &[EPERM]);
    refuses(b.link(file, root, b"dir", ROOT), &[EEXIST]);
    refuses(b.link(file, root, b"file", ROOT), &[EEXIST]);
    refuses(b.link(file, file, b"x", ROOT), &[ENOTDIR]);
    b.unlink(root, b"file").unwrap();
    refuses(b.link(file, root, b"back", ROOT), &[ENOENT]);
    assert_eq!((b.nlink(root), b.nlink(dir), b.nlink(file)), (3, 2, 0));
}

/// Promise: a file has at most `link_max` names; removing one permits another.
pub(super) fn link_count_limit(b: &mut Bench<'_>) {
    let max = b.limits().link_max;
    if max > 70_000 {
        return;
    }
    let root = b.root();
    let dir = b.dir(root, "dir");
    let file = b.file(dir, "0");
    for i in 1..max {
        match b.link(file, dir, i.to_string().as_bytes(), ROOT) {
            Ok(_) => b.forget(file, 1),
            Err(error) => panic!("link {i} of {max}: {error}"),
        }
    }
    assert_eq!(b.nlink(file), max);
    refuses(b.link(file, dir, b"over", ROOT), &[EMLINK]);
    b.unlink(dir, b"0").unwrap();
    b.link(file, dir, b"room", ROOT).unwrap();
    assert_eq!(b.nlink(file), max);
}

/// Promise: a directory has at most as many subdirectories as its link count permits, whichever
/// operation creates them. (Tested where the limit is low enough.)
pub(super) fn directory_link_limit(b: &mut Bench<'_>) {
    let max = b.limits().link_max;
    if max > 1000 {
        return;
    }
    let root = b.root();
    let dir = b.dir(root, "dir");
    for i in 2..max {
        b.dir(dir, i.to_string());
    }
    assert_eq!(b.nlink(dir), max);
    refuses(b.create(dir, b"over", &node(FileKind::Directory), ROOT), &[EMLINK]);
    b.dir(root, "other");
    b.file(root, "file");
    let replace = spindle_vfs::RenameMode::Replace;
    refuses(b.mv((root, b"other"), (dir, b"over"), replace), &[EMLINK]);
    b.mv((root, b"other"), (dir, b"2"), replace).unwrap();
    b.mv((dir, b"3"), (dir, b"within"), replace).unwrap();
    b.file(dir, "file");
    assert_eq!(b.nlink(dir), max);
    if b.has(super::Feature::Exchange) {
        refuses(b.mv((dir, b"file"), (root, b"dir"), spindle_vfs::RenameMode::Exchange), &[EINVAL]);
        let sub = b.dir(root, "sub");
        refuses(b.mv((root, b"sub"), (dir, b"file"), spindle_vfs::RenameMode::Exchange), &[EMLINK]);
        b.mv((root, b"sub"), (dir, b"2"), spindle_vfs::RenameMode::Exchange).unwrap();
        assert_eq!((b.at(dir, "2"), b.nlink(dir)), (sub, max));
    }
}

/// Promise: a file without names can be read and written while it has references; all its space is
/// freed when the last is released.
pub(super) fn unlinked_file_stays_until_forgotten(b: &mut Bench<'_>) {
    let root = b.root();
    b.file(root, "keep");
    let before = b.free();
    let file = b.file(root, "file");
    let data = pattern(1, 300_000);
    b.put(file, 0, &data);
    b.lookup(root, b"file").unwrap();
    b.unlink(root, b"file").unwrap();
    refuses(b.lookup(root, b"file"), &[ENOENT]);
    assert_eq!(b.nlink(file), 0);
    b.holds(file, &data);
    b.put(file, 300_000, b"more");
    assert_eq!(b.get(file, 299_999, 10), [&data[299_999..], b"more"].concat());
    b.forget(file, 1);
    assert_eq!(b.size(file), 300_004, "one reference is left");
    b.forget(file, 1);
    assert_eq!(b.free(), before);
}

/// Promise: files that had references but no name at an unmount are freed.
pub(super) fn remount_frees_files_without_names(b: &mut Bench<'_>) {
    let root = b.root();
    let before = b.free();
    for i in 0..20 {
        let name = format!("f{i}");
        let file = b.file(root, &name);
        b.put(file, 0, &pattern(i, 20_000));
        b.unlink(root, name.as_bytes()).unwrap();
    }
    b.dir(root, "dir");
    b.rmdir(root, b"dir").unwrap();
    b.remount();
    assert_eq!(b.free(), before);
}

/// Promise: the number of a freed file is stale, and a new file with it has another generation.
pub(super) fn freed_numbers_are_stale(b: &mut Bench<'_>) {
    let root = b.root();
    let old = b.create(root, b"file", &node(FileKind::Regular), ROOT).unwrap();
    b.unlink(root, b"file").unwrap();
    b.forget(old.ino, 1);
    refuses(b.getattr(old.ino), &[ESTALE]);
    refuses(b.read(old.ino, 0, &mut [0; 4]), &[ESTALE]);
    refuses(b.write(old.ino, 0, b"x", ROOT), &[ESTALE]);
    refuses(b.link(old.ino, root, b"x", ROOT), &[ESTALE]);
    for i in 0..50 {
        let new = b.create(root, format!("n{i}").as_bytes(), &node(FileKind::Regular), ROOT).unwrap();
        let same = (new.ino, new.generation) == (old.ino, old.generation);
        assert!(!same, "{new:?} is taken for {old:?}");
    }
}

/// Promise: nothing can be created in a directory that was removed while in use.
pub(super) fn removed_directory_takes_no_names(b: &mut Bench<'_>) {
    let root = b.root();
    let before = b.free();
    let dir = b.dir(root, "dir");
    let file = b.file(root, "file");
    b.rmdir(root, b"dir").unwrap();
    assert_eq!((b.nlink(root), b.nlink(dir)), (2, 0));
    for kind in [FileKind::Regular, FileKind::Directory] {
        refuses(b.create(dir, b"x", &node(kind), ROOT), &[ENOENT]);
    }
    refuses(b.link(file, dir, b"x", ROOT), &[ENOENT]);
    refuses(b.mv((root, b"file"), (dir, b"x"), spindle_vfs::RenameMode::Replace), &[ENOENT]);
    refuses(b.lookup(dir, b"x"), &[ENOENT]);
    b.unlink(root, b"file").unwrap();
    b.forget(file, 1);
    b.forget(dir, 1);
    refuses(b.getattr(dir), &[ESTALE]);
    assert_eq!(b.free().1, before.1);
}

/// Promise: every `lookup`, `create` and `link` takes one reference, and `forget` releases the
/// given number of them.
pub(super) fn references_are_counted(b: &mut Bench<'_>) {
    let root = b.root();
    let file = b.file(root, "file");
    for _ in 0..9 {
        b.lookup(root, b"file").unwrap();
    }
    b.link(file, root, b"link", ROOT).unwrap();
    b.unlink(root, b"file").unwrap();
    b.unlink(root, b"link").unwrap();
    b.forget(file, 10);
    assert_eq!(b.nlink(file), 0, "one of eleven references is left");
    b.forget(file, 1);
    refuses(b.getattr(file), &[ESTALE]);
    b.forget(root, 1000);
    assert_eq!(b.nlink(root), 2, "the root stays");
}

/// Promise: a file without a name belongs to its maker, holds data, is in no directory, and can get
/// a name once, after which it is a file like others; only regular files are made so.
pub(super) fn unnamed_files_get_a_name(b: &mut Bench<'_>) {
    let root = b.root();
    let (dir, gone) = (b.dir(root, "dir"), b.dir(root, "gone"));
    b.file(dir, "file");
    b.rmdir(root, b"gone").unwrap();
    refuses(b.create_unnamed(gone, &node(FileKind::Regular), ROOT), &[ENOENT]);
    let other = b.at(dir, "file");
    refuses(b.create_unnamed(other, &node(FileKind::Regular), ROOT), &[ENOTDIR]);
    refuses(b.create_unnamed(dir, &node(FileKind::Directory), ROOT), &[EINVAL]);
    let new = spindle_vfs::NewNode { perm: 0o640, uid: 3, gid: 4, ..node(FileKind::Regular) };
    let made = b.create_unnamed(dir, &new, ROOT).unwrap();
    assert_eq!((made.nlink, made.perm, made.uid, made.gid), (0, 0o640, 3, 4));
    assert_eq!(b.sorted(dir), [b"file"]);
    let data = pattern(7, 70_000);
    b.put(made.ino, 0, &data);
    b.fsync(made.ino, false).unwrap();
    refuses(b.link(made.ino, dir, b"file", ROOT), &[EEXIST]);
    let linked = b.link(made.ino, root, b"named", ROOT).unwrap();
    assert_eq!((linked.ino, linked.nlink), (made.ino, 1));
    b.link(made.ino, dir, b"second", ROOT).unwrap();
    b.forget(made.ino, 3);
    b.remount();
    let root = b.root();
    let file = b.at(root, "named");
    assert_eq!((b.at(b.at(root, "dir"), "second"), b.nlink(file)), (file, 2));
    b.holds(file, &data);
    let dir = b.at(root, "dir");
    b.lookup(root, b"named").unwrap();
    b.unlink(dir, b"second").unwrap();
    b.unlink(root, b"named").unwrap();
    refuses(b.link(file, root, b"again", ROOT), &[ENOENT]);
}

/// Promise: a file that gets no name is freed with all its space when its last reference is
/// released, or at the unmount.
pub(super) fn unnamed_files_go_with_their_last_reference(b: &mut Bench<'_>) {
    let root = b.root();
    b.file(root, "keep");
    let before = b.free();
    let made = b.create_unnamed(root, &node(FileKind::Regular), ROOT).unwrap();
    b.put(made.ino, 0, &pattern(8, 300_000));
    assert_eq!(b.size(made.ino), 300_000);
    b.forget(made.ino, 1);
    assert_eq!(b.free(), before);
    let left = b.create_unnamed(root, &node(FileKind::Regular), ROOT).unwrap();
    b.put(left.ino, 0, &pattern(9, 50_000));
    b.remount();
    assert_eq!(b.free(), before);
}
