//! Kinds of inodes, and the operations that each supports.

use super::Feature;
use super::bench::*;
use spindle_vfs::{FallocateMode, FileKind, Ino, NewNode, Privilege, Rdev, Seek, SetAttr};

const ROOT: Privilege = Privilege::Root;

/// Returns the kinds that can be created here.
fn kinds(b: &Bench<'_>) -> Vec<FileKind> {
    let mut kinds = vec![FileKind::Regular, FileKind::Directory, FileKind::BlockDevice, FileKind::CharDevice];
    if b.limits().symlink_max > 0 {
        kinds.push(FileKind::Symlink);
    }
    if b.has(Feature::FifosAndSockets) {
        kinds.extend([FileKind::Fifo, FileKind::Socket]);
    }
    kinds
}

/// Promise: every kind is created with the requested owner and permissions, and is the same after a
/// remount.
pub(super) fn every_kind_survives(b: &mut Bench<'_>) {
    let root = b.root();
    let kinds = kinds(b);
    let id = |i: usize| u32::try_from(i).unwrap() + 100;
    let node = |i: usize| NewNode { perm: 0o7000 | (i as u32), uid: id(i), gid: id(i) + 1, ..node(kinds[i]) };
    for i in 0..kinds.len() {
        b.create(root, format!("k{i}").as_bytes(), &node(i), ROOT).unwrap();
    }
    for _ in 0..2 {
        for (i, kind) in kinds.iter().enumerate() {
            let attr = b.peek(b.root(), format!("k{i}")).unwrap();
            let owner = (attr.uid, attr.gid);
            assert_eq!((attr.kind, attr.perm, owner), (*kind, 0o7000 | (i as u32), (id(i), id(i) + 1)));
            assert_eq!(attr.nlink, if *kind == FileKind::Directory { 2 } else { 1 });
        }
        b.remount();
    }
    if !kinds.contains(&FileKind::Symlink) {
        refuses(b.create(b.root(), b"s", &super::bench::node(FileKind::Symlink), ROOT), &[ENOTSUP, EPERM]);
    }
}

/// Promise: device numbers are returned as they were stored; other kinds have none.
pub(super) fn device_numbers_survive(b: &mut Bench<'_>) {
    let root = b.root();
    for (i, (major, minor)) in [(0, 0), (1, 3), (8, 255), (255, 1)].into_iter().enumerate() {
        for kind in [FileKind::BlockDevice, FileKind::CharDevice] {
            let new = NewNode { rdev: Rdev { major, minor }, ..node(kind) };
            let name = format!("{i}{}", kind == FileKind::BlockDevice);
            b.create(root, name.as_bytes(), &new, ROOT).unwrap();
            b.remount();
            assert_eq!(b.peek(root, name).unwrap().rdev, Rdev { major, minor });
        }
    }
    let file = b.file(root, "file");
    b.put(file, 0, &pattern(1, 5000));
    assert_eq!(b.getattr(file).unwrap().rdev, Rdev::default());
}

/// Promise: a symbolic link stores any target up to the limit, inside the inode or not, and no
/// longer one, nor one that is empty or has a NUL in it, which could not be read.
pub(super) fn symlinks_of_every_length(b: &mut Bench<'_>) {
    let root = b.root();
    let max = b.limits().symlink_max;
    if max == 0 {
        return;
    }
    let before = b.free();
    let lengths = (1..=130).chain([255, 256, 511, 512, 513, 1000, 1023, 1024, max - 1, max]);
    let mut lengths: Vec<usize> = lengths.filter(|len| *len <= max).collect();
    lengths.sort_unstable();
    lengths.dedup();
    for &len in &lengths {
        let target = pattern(len as u64, len);
        let new = NewNode { target: &target, ..node(FileKind::Symlink) };
        let attr = b.create(root, format!("s{len}").as_bytes(), &new, ROOT).unwrap();
        assert_eq!((attr.size, attr.kind), (len as u64, FileKind::Symlink));
        assert_eq!(b.readlink(attr.ino).unwrap(), target);
    }
    b.remount();
    for &len in &lengths {
        let name = format!("s{len}");
        let ino = b.at(root, &name);
        assert_eq!(b.readlink(ino).unwrap(), pattern(len as u64, len));
        b.unlink(root, name.as_bytes()).unwrap();
    }
    let over = pattern(0, max + 1);
    let new = NewNode { target: &over, ..node(FileKind::Symlink) };
    refuses(b.create(root, b"over", &new, ROOT), &[ENAMETOOLONG, EINVAL]);
    for target in [&b""[..], b"\0", b"a\0", &[&[b'l'; 500][..], b"\0"].concat()] {
        let new = NewNode { target, ..node(FileKind::Symlink) };
        refuses(b.create(root, b"over", &new, ROOT), &[EINVAL]);
    }
    refuses(b.lookup(root, b"over"), &[ENOENT]);
    assert_eq!(b.free().1, before.1, "inodes come back");
}

/// Promise: operations of regular files or symbolic links are refused on all other kinds.
pub(super) fn operations_need_the_right_kind(b: &mut Bench<'_>) {
    let root = b.root();
    for (i, kind) in kinds(b).into_iter().enumerate() {
        let ino: Ino = b.make(root, format!("k{i}"), kind);
        if kind != FileKind::Symlink {
            refuses(b.readlink(ino), &[EINVAL]);
        }
        if kind != FileKind::Directory {
            refuses(b.readdir(ino, 0, &mut |_| std::ops::ControlFlow::Continue(())), &[ENOTDIR]);
            refuses(b.lookup(ino, b"x"), &[ENOTDIR]);
        }
        let allowed: &[i32] = match kind {
            FileKind::Regular => continue,
            FileKind::Directory => &[EISDIR],
            _ => &[EINVAL],
        };
        refuses(b.read(ino, 0, &mut [0; 8]), allowed);
        refuses(b.write(ino, 0, b"x", ROOT), allowed);
        refuses(b.setattr(ino, &SetAttr { size: Some(0), ..SetAttr::default() }, ROOT), allowed);
        refuses(b.seek(ino, 0, Seek::Data), &[EISDIR, EINVAL, ENXIO]);
        let mode = FallocateMode::Allocate { keep_size: false };
        refuses(b.fallocate(ino, mode, 0, 1, ROOT), &[allowed[0], ENOTSUP]);
    }
}
