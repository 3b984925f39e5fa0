//! Names in directories: lookups and refusals.

use super::bench::*;
use spindle_vfs::{FileKind, Privilege, RenameMode};

const ROOT: Privilege = Privilege::Root;

/// Promise: a created name is found with the attributes that `create` returned, also after a
/// remount.
pub(super) fn created_names_are_found(b: &mut Bench<'_>) {
    let root = b.root();
    let dir = b.dir(root, "dir");
    let made = b.create(dir, b"file", &node(FileKind::Regular), ROOT).unwrap();
    assert_eq!((made.kind, made.perm, made.nlink, made.size), (FileKind::Regular, 0o644, 1, 0));
    assert_eq!(b.peek(dir, "file").unwrap(), made);
    assert_eq!(b.getattr(made.ino).unwrap(), made);
    refuses(b.peek(root, "file"), &[ENOENT]);
    b.remount();
    let found = b.peek(b.at(b.root(), "dir"), "file").unwrap();
    assert_eq!((found.kind, found.perm, found.nlink), (made.kind, made.perm, made.nlink));
    assert_eq!((found.ino, found.generation), (made.ino, made.generation), "identity survives a remount");
}

/// Promise: a name can be created only once, only in a directory, and only if it is valid.
pub(super) fn create_refuses(b: &mut Bench<'_>) {
    let root = b.root();
    let file = b.file(root, "file");
    b.dir(root, "dir");
    for kind in [FileKind::Regular, FileKind::Directory] {
        for name in ["file", "dir"] {
            refuses(b.create(root, name.as_bytes(), &node(kind), ROOT), &[EEXIST]);
        }
        refuses(b.create(file, b"x", &node(kind), ROOT), &[ENOTDIR]);
        for name in [&b"a/b"[..], b"/", b"a\0b", b""] {
            refuses(b.create(root, name, &node(kind), ROOT), &[EINVAL, ENOENT]);
        }
    }
    assert_eq!(b.sorted(root), [b"dir".to_vec(), b"file".to_vec()]);
    assert_eq!(b.nlink(root), 3);
}

/// Promise: `lookup` reports which of the two is wrong, the name or the directory; names are case
/// sensitive.
pub(super) fn lookup_refuses(b: &mut Bench<'_>) {
    let root = b.root();
    let file = b.file(root, "File");
    refuses(b.lookup(root, b"file"), &[ENOENT]);
    refuses(b.lookup(root, b"Fil"), &[ENOENT]);
    refuses(b.lookup(root, b"Filee"), &[ENOENT]);
    refuses(b.lookup(file, b"x"), &[ENOTDIR]);
    refuses(b.lookup(file, b".."), &[ENOTDIR]);
    b.unlink(root, b"File").unwrap();
    refuses(b.lookup(root, b"File"), &[ENOENT]);
}

/// Promise: `unlink` removes no directory; `rmdir` removes only empty directories.
pub(super) fn unlink_and_rmdir_refuse(b: &mut Bench<'_>) {
    let root = b.root();
    let dir = b.dir(root, "dir");
    let file = b.file(dir, "file");
    refuses(b.unlink(root, b"dir"), &[EISDIR, EPERM]);
    refuses(b.unlink(root, b"none"), &[ENOENT]);
    refuses(b.unlink(file, b"x"), &[ENOTDIR]);
    refuses(b.rmdir(dir, b"file"), &[ENOTDIR]);
    refuses(b.rmdir(root, b"none"), &[ENOENT]);
    refuses(b.rmdir(file, b"x"), &[ENOTDIR]);
    refuses(b.rmdir(root, b"dir"), &[ENOTEMPTY]);
    assert_eq!(b.sorted(dir), [b"file".to_vec()]);
    b.unlink(dir, b"file").unwrap();
    b.rmdir(root, b"dir").unwrap();
    assert!(b.sorted(root).is_empty());
}

/// Promise: a name has at most `name_max` bytes, in every operation that takes one.
pub(super) fn names_up_to_the_limit(b: &mut Bench<'_>) {
    let root = b.root();
    let max = b.limits().name_max;
    assert_eq!(b.statfs().unwrap().name_max as usize, max);
    let longest = vec![b'n'; max];
    let other = vec![b'o'; max];
    let over = vec![b'n'; max + 1];
    for kind in [FileKind::Regular, FileKind::Directory] {
        refuses(b.create(root, &over, &node(kind), ROOT), &[ENAMETOOLONG]);
    }
    refuses(b.lookup(root, &over), &[ENAMETOOLONG]);
    refuses(b.unlink(root, &over), &[ENAMETOOLONG]);
    refuses(b.rmdir(root, &over), &[ENAMETOOLONG]);
    let file = b.file(root, &longest);
    refuses(b.link(file, root, &over, ROOT), &[ENAMETOOLONG]);
    refuses(b.mv((root, &longest), (root, &over), RenameMode::Replace), &[ENAMETOOLONG]);
    refuses(b.mv((root, &over), (root, &longest), RenameMode::Replace), &[ENAMETOOLONG]);
    b.mv((root, &longest), (root, &other), RenameMode::Replace).unwrap();
    b.link(file, root, &longest, ROOT).unwrap();
    assert_eq!(b.sorted(root), [longest.clone(), other.clone()]);
    b.unlink(root, &other).unwrap();
    b.remount();
    assert_eq!(b.at(b.root(), &longest), file);
    // Every length, so that entries of every size are created and removed.
    let dir = b.dir(b.root(), "lengths");
    for len in 1..=max {
        b.file(dir, vec![b'l'; len]);
    }
    for len in (1..=max).step_by(2) {
        b.unlink(dir, &vec![b'l'; len]).unwrap();
    }
    let left: Vec<_> = (2..=max).step_by(2).map(|len| vec![b'l'; len]).collect();
    assert_eq!(b.sorted(dir), left);
}

/// Promise: every byte except `/` and NUL can be in a name, and is stored unchanged.
pub(super) fn names_hold_every_byte(b: &mut Bench<'_>) {
    let dir = b.dir(b.root(), "bytes");
    let mut names: Vec<Vec<u8>> = Vec::new();
    for byte in (1..=255).filter(|byte| *byte != b'/') {
        names.push(vec![byte, b'x']);
        if byte != b'.' {
            names.push(vec![byte]);
        }
    }
    names.push(b"...".to_vec());
    names.push(vec![0xff; 14.min(b.limits().name_max)]);
    names.sort();
    for name in &names {
        b.file(dir, name);
    }
    b.remount();
    let dir = b.at(b.root(), "bytes");
    assert_eq!(b.sorted(dir), names);
    for name in &names {
        b.unlink(dir, name).unwrap();
    }
}

/// Promise: `.` is the directory itself, `..` its parent, and the root is its own parent.
pub(super) fn dots_are_resolved(b: &mut Bench<'_>) {
    let root = b.root();
    let outer = b.dir(root, "outer");
    let inner = b.dir(outer, "inner");
    for (dir, parent) in [(root, root), (outer, root), (inner, outer)] {
        assert_eq!(b.at(dir, "."), dir);
        assert_eq!(b.at(dir, ".."), parent);
    }
    b.mv((outer, b"inner"), (root, b"moved"), RenameMode::Replace).unwrap();
    assert_eq!(b.at(inner, ".."), root);
    b.remount();
    assert_eq!(b.at(b.at(b.root(), "moved"), ".."), b.root());
}

/// Promise: `.` and `..` can be neither created, removed nor renamed.
pub(super) fn dots_cannot_be_changed(b: &mut Bench<'_>) {
    let root = b.root();
    let dir = b.dir(root, "dir");
    let file = b.file(dir, "file");
    for dots in [&b"."[..], b".."] {
        for kind in [FileKind::Regular, FileKind::Directory] {
            refuses(b.create(dir, dots, &node(kind), ROOT), &[EEXIST, EINVAL]);
        }
        refuses(b.link(file, dir, dots, ROOT), &[EEXIST, EINVAL]);
        refuses(b.unlink(dir, dots), &[EISDIR, EPERM, EINVAL]);
        refuses(b.rmdir(dir, dots), &[EINVAL, ENOTEMPTY, EBUSY]);
        refuses(b.mv((dir, dots), (root, b"x"), RenameMode::Replace), &[EINVAL, EBUSY]);
        refuses(b.mv((dir, b"file"), (root, dots), RenameMode::Replace), &[EINVAL, EBUSY, EEXIST]);
        refuses(b.mv((dir, b"file"), (dir, dots), RenameMode::Exchange), &[EINVAL, EBUSY, ENOTSUP]);
    }
    assert_eq!(b.at(dir, ".."), root);
    assert_eq!((b.nlink(dir), b.nlink(root), b.nlink(file)), (2, 3, 1));
}
