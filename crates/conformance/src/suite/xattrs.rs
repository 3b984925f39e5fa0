//! Extended attributes.

use super::bench::*;
use spindle_vfs::{FileKind, Privilege, XattrMode};

const ROOT: Privilege = Privilege::Root;

/// Promise: values are returned as set, in both name spaces, on files and directories, also after a
/// remount.
pub(super) fn xattrs_are_kept(b: &mut Bench<'_>) {
    if !b.limits().xattrs {
        return;
    }
    let root = b.root();
    let (file, dir) = (b.file(root, "file"), b.dir(root, "dir"));
    for ino in [file, dir] {
        assert!(b.listxattr(ino).unwrap().is_empty());
        refuses(b.getxattr(ino, b"user.none"), &[ENODATA]);
        b.setxattr(ino, b"user.a", b"alpha", XattrMode::Set, ROOT).unwrap();
        b.setxattr(ino, b"system.a", b"beta", XattrMode::Set, ROOT).unwrap();
        b.setxattr(ino, b"user.empty", b"", XattrMode::Set, ROOT).unwrap();
        b.setxattr(ino, b"user.bytes", &(0..=255).collect::<Vec<u8>>(), XattrMode::Set, ROOT).unwrap();
    }
    b.put(file, 0, &pattern(1, 40_000));
    b.remount();
    for ino in [file, dir] {
        assert_eq!(b.getxattr(ino, b"user.a").unwrap(), b"alpha");
        assert_eq!(b.getxattr(ino, b"system.a").unwrap(), b"beta");
        assert_eq!(b.getxattr(ino, b"user.empty").unwrap(), b"");
        assert_eq!(b.getxattr(ino, b"user.bytes").unwrap(), (0..=255).collect::<Vec<u8>>());
        let mut names = b.listxattr(ino).unwrap();
        names.sort();
        let expected = [&b"system.a"[..], b"user.a", b"user.bytes", b"user.empty"];
        assert_eq!(names, expected);
        b.removexattr(ino, b"user.a").unwrap();
        refuses(b.getxattr(ino, b"user.a"), &[ENODATA]);
        assert_eq!(b.getxattr(ino, b"system.a").unwrap(), b"beta");
    }
    b.holds(file, &pattern(1, 40_000));
}

/// Promise: create requires a new name; replace and remove require an existing one; set accepts
/// both.
pub(super) fn xattr_modes(b: &mut Bench<'_>) {
    if !b.limits().xattrs {
        return;
    }
    let file = b.file(b.root(), "file");
    refuses(b.setxattr(file, b"user.x", b"0", XattrMode::Replace, ROOT), &[ENODATA]);
    refuses(b.removexattr(file, b"user.x"), &[ENODATA]);
    b.setxattr(file, b"user.x", b"1", XattrMode::Create, ROOT).unwrap();
    refuses(b.setxattr(file, b"user.x", b"2", XattrMode::Create, ROOT), &[EEXIST]);
    assert_eq!(b.getxattr(file, b"user.x").unwrap(), b"1");
    b.setxattr(file, b"user.x", b"three", XattrMode::Replace, ROOT).unwrap();
    b.setxattr(file, b"user.x", b"4", XattrMode::Set, ROOT).unwrap();
    assert_eq!(b.getxattr(file, b"user.x").unwrap(), b"4");
    b.removexattr(file, b"user.x").unwrap();
    refuses(b.removexattr(file, b"user.x"), &[ENODATA]);
    assert!(b.listxattr(file).unwrap().is_empty());
    let removed = b.file(b.root(), "removed");
    b.unlink(b.root(), b"removed").unwrap();
    b.setxattr(removed, b"user.x", b"1", XattrMode::Set, ROOT).unwrap();
    b.forget(removed, 1);
    refuses(b.getxattr(removed, b"user.x"), &[ESTALE]);
}

/// Promise: values of every size up to 2,000 bytes, and larger ones if they fit, are stored
/// together; one that does not fit is refused and changes nothing.
pub(super) fn xattr_sizes(b: &mut Bench<'_>) {
    if !b.limits().xattrs {
        return;
    }
    let file = b.file(b.root(), "file");
    for len in (0..40).chain([63, 64, 65, 100, 255, 256, 257, 500, 511, 512, 513, 1000, 1500, 2000]) {
        let value = pattern(len as u64, len);
        b.setxattr(file, b"user.grow", &value, XattrMode::Set, ROOT).unwrap();
        b.setxattr(file, b"user.next", &value[..len / 8], XattrMode::Set, ROOT).unwrap();
        assert_eq!(b.getxattr(file, b"user.grow").unwrap(), value);
        assert_eq!(b.getxattr(file, b"user.next").unwrap(), value[..len / 8]);
    }
    let mut kept = b.getxattr(file, b"user.grow").unwrap();
    for len in [3000, 4000, 8000, 16_000, 32_000, 65_536, 70_000, 200_000] {
        let value = pattern(len as u64, len);
        match b.setxattr(file, b"user.grow", &value, XattrMode::Set, ROOT) {
            Ok(()) => kept = value,
            Err(error) => refuses::<()>(Err(error), &[ENOSPC, EFBIG, ERANGE, EOVERFLOW]),
        }
        assert_eq!(b.getxattr(file, b"user.grow").unwrap(), kept);
    }
    for len in [1000, 0] {
        b.setxattr(file, b"user.grow", &kept[..len], XattrMode::Set, ROOT).unwrap();
    }
    b.remount();
    assert_eq!(b.getxattr(file, b"user.grow").unwrap(), b"");
    assert_eq!(b.getxattr(file, b"user.next").unwrap().len(), 250);
}

/// Promise: names have one of the two name spaces and up to 255 bytes, all significant; other name
/// spaces do not exist.
pub(super) fn xattr_names(b: &mut Bench<'_>) {
    if !b.limits().xattrs {
        return;
    }
    let file = b.file(b.root(), "file");
    for len in [1, 2, 3, 4, 5, 6, 7, 8, 100, 250] {
        let name = [&b"user."[..], &vec![b'n'; len]].concat();
        b.setxattr(file, &name, &[len as u8], XattrMode::Create, ROOT).unwrap();
    }
    for len in [1, 2, 3, 4, 5, 6, 7, 8, 100, 250] {
        let name = [&b"user."[..], &vec![b'n'; len]].concat();
        assert_eq!(b.getxattr(file, &name).unwrap(), [len as u8]);
    }
    let over = [&b"user."[..], &[b'n'; 300]].concat();
    refuses(b.setxattr(file, &over, b"x", XattrMode::Set, ROOT), &[ERANGE, ENAMETOOLONG, EINVAL]);
    refuses(b.setxattr(file, b"user.", b"x", XattrMode::Set, ROOT), &[EINVAL, ENOTSUP]);
    for name in [&b"other.x"[..], b"nodot", b"userx"] {
        refuses(b.setxattr(file, name, b"x", XattrMode::Set, ROOT), &[ENOTSUP, EINVAL]);
        refuses(b.getxattr(file, name), &[ENOTSUP, ENODATA, EINVAL]);
    }
    assert_eq!(b.listxattr(file).unwrap().len(), 10);
    let spaces = [&b"user.same"[..], b"system.same", b"trusted.same", b"user.trusted.same"];
    for name in spaces {
        b.setxattr(file, name, name, XattrMode::Create, ROOT).unwrap();
    }
    b.remount();
    let listed = b.listxattr(file).unwrap();
    for name in spaces {
        assert_eq!(b.getxattr(file, name).unwrap(), name);
        assert!(listed.iter().any(|listed| listed == name), "{}", name.escape_ascii());
        b.removexattr(file, name).unwrap();
    }
    assert_eq!(b.listxattr(file).unwrap().len(), 10);
}

/// Promise: the space of extended attributes is freed with the file.
pub(super) fn xattrs_are_freed_with_the_file(b: &mut Bench<'_>) {
    if !b.limits().xattrs {
        return;
    }
    let root = b.root();
    let before = b.free();
    for kind in [FileKind::Regular, FileKind::Directory] {
        let ino = b.make(root, "node", kind);
        b.setxattr(ino, b"user.x", &pattern(1, 1000), XattrMode::Set, ROOT).unwrap();
        if kind == FileKind::Directory {
            b.rmdir(root, b"node").unwrap();
        } else {
            b.put(ino, 0, b"data");
            b.resize(ino, 0);
            assert_eq!(b.getxattr(ino, b"user.x").unwrap(), pattern(1, 1000), "truncation is of data");
            b.unlink(root, b"node").unwrap();
        }
        b.forget(ino, 1);
    }
    assert_eq!(b.free(), before);
}

/// Promise: if the format has none, every call is refused.
pub(super) fn xattrs_absent(b: &mut Bench<'_>) {
    if b.limits().xattrs {
        return;
    }
    let file = b.file(b.root(), "file");
    refuses(b.getxattr(file, b"user.x"), &[ENOTSUP]);
    refuses(b.setxattr(file, b"user.x", b"x", XattrMode::Set, ROOT), &[ENOTSUP]);
    refuses(b.removexattr(file, b"user.x"), &[ENOTSUP]);
    refuses(b.listxattr(file), &[ENOTSUP]);
}
