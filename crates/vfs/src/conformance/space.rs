//! Space: counted exactly, refused cleanly when it runs out, all of it back afterwards.

use super::bench::*;
use crate::{Ino, Privilege};

const CHUNK: usize = 256 * 1024;

/// Writes to new files until there is no space; the files, each with its size.
fn fill(b: &Bench<'_>, dir: Ino, by: Privilege) -> Vec<(Vec<u8>, Ino, u64)> {
    let chunk = pattern(0, CHUNK);
    let mut files = Vec::new();
    let mut unit = CHUNK;
    'files: for i in 0.. {
        let name = format!("{by:?}{i}").into_bytes();
        let file = match b.create(dir, &name, &node(crate::FileKind::Regular), by) {
            Ok(attr) => attr.ino,
            Err(error) => {
                refuses::<()>(Err(error), &[ENOSPC]);
                break;
            }
        };
        let mut size = 0;
        let limit = b.limits().file_size_max.min(16 << 20);
        while size + CHUNK as u64 <= limit {
            match b.write(file, size, &chunk[..unit], by) {
                Ok(n) => {
                    assert!(n > 0 && n <= unit);
                    size += n as u64;
                }
                Err(error) => {
                    refuses::<()>(Err(error), &[ENOSPC]);
                    assert_eq!(b.size(file), size, "a refused write adds nothing");
                    if unit == 1 {
                        files.push((name, file, size));
                        break 'files;
                    }
                    // Smaller pieces may still fit.
                    unit = (unit / 8).max(1);
                }
            }
        }
        files.push((name, file, size));
    }
    files
}

/// Promise: `statfs` counts: what a file takes is gone, what it gives back is there, and its parts add up.
pub(super) fn statfs_is_exact(b: &mut Bench<'_>) {
    let root = b.root();
    let stat = b.statfs().unwrap();
    assert!(stat.bavail <= stat.bfree && stat.bfree <= stat.blocks && stat.ffree <= stat.files);
    assert!(stat.frsize > 0 && stat.bsize >= stat.frsize);
    b.file(root, "keep");
    let before = b.free();
    let file = b.file(root, "file");
    b.put(file, 0, &pattern(1, 1 << 20));
    let during = b.free();
    assert_eq!(during.1, before.1 - 1);
    assert_eq!(before.0 - during.0, b.getattr(file).unwrap().blocks512 * 512);
    b.remount();
    assert_eq!(b.free(), during, "counts survive a remount");
    b.unlink(root, b"file").unwrap();
    assert_eq!(b.free(), before);
}

/// Promise: writers get ENOSPC when the disk is full, the superuser later than others; nothing is damaged, everything can
/// be removed, and all space comes back.
pub(super) fn a_full_disk_refuses_and_recovers(b: &mut Bench<'_>) {
    let root = b.root();
    let before = b.free();
    let empty = b.statfs().unwrap();
    let dir = b.dir(root, "dir");
    let mut files = fill(b, dir, Privilege::User);
    let reserve = b.statfs().unwrap();
    // A last block may be taken out of it.
    assert!(reserve.bfree >= (empty.bfree - empty.bavail) / 2, "the reserve is kept: {reserve:?}");
    assert!(reserve.bavail * u64::from(reserve.frsize) < CHUNK as u64, "{reserve:?}");
    files.extend(fill(b, dir, Privilege::Root));
    let full = b.statfs().unwrap();
    assert!(full.bfree * u64::from(full.frsize) < CHUNK as u64, "{full:?}");
    assert!(full.bfree <= reserve.bfree);
    for (_, file, size) in &files {
        assert_eq!(b.size(*file), *size);
    }
    b.check();
    for (name, file, size) in &files {
        let dir = b.at(root, "dir");
        assert_eq!(b.at(dir, name), *file);
        let tail = (*size).min(1000);
        let data = b.get(*file, size - tail, 1000);
        assert!(
            data.len() as u64 == tail && data.iter().all(|byte| *byte != 0),
            "the end of what was written"
        );
        b.unlink(dir, name).unwrap();
    }
    b.rmdir(root, b"dir").unwrap();
    assert_eq!(b.free(), before);
    let file = b.file(root, "after");
    b.put(file, 0, &pattern(1, 100_000));
    b.holds(file, &pattern(1, 100_000));
}

/// Promise: when no inode is left, creating says ENOSPC and leaves no trace; a removed file makes room for the next.
pub(super) fn inodes_run_out_cleanly(b: &mut Bench<'_>) {
    if b.statfs().unwrap().ffree > 20_000 {
        return;
    }
    let dir = b.dir(b.root(), "dir");
    let mut made = 0u64;
    loop {
        match b.create(dir, made.to_string().as_bytes(), &node(crate::FileKind::Regular), Privilege::Root) {
            Ok(attr) => b.forget(attr.ino, 1),
            Err(error) => break refuses::<()>(Err(error), &[ENOSPC]),
        }
        made += 1;
    }
    for kind in [crate::FileKind::Regular, crate::FileKind::Directory] {
        refuses(b.create(dir, b"over", &node(kind), Privilege::Root), &[ENOSPC]);
    }
    refuses(b.lookup(dir, b"over"), &[ENOENT]);
    assert_eq!((b.list(dir).len() as u64, b.nlink(dir)), (made, 2));
    b.unlink(dir, b"0").unwrap();
    b.file(dir, "over");
}

/// Promise: on a full disk what was there stays as it was, can be overwritten in place, read, and cut.
pub(super) fn a_full_disk_keeps_old_data(b: &mut Bench<'_>) {
    let root = b.root();
    let old = b.file(root, "old");
    b.put(old, 0, &pattern(1, 100_000));
    let dir = b.dir(root, "dir");
    fill(b, dir, Privilege::Root);
    b.put(old, 50_000, &pattern(2, 1000));
    let mut expected = pattern(1, 100_000);
    expected[50_000..51_000].copy_from_slice(&pattern(2, 1000));
    b.holds(old, &expected);
    refuses(
        b.write(old, 200_000, &pattern(1, 70_000), Privilege::Root)
            .and_then(|written| if written < 70_000 { Err(crate::Error::NoSpace) } else { Ok(written) }),
        &[ENOSPC],
    );
    assert_eq!(b.get(old, 0, 100_000), expected);
    b.resize(old, 10);
    b.holds(old, &expected[..10]);
}

/// Promise: on a full disk a name is made whole or not at all, whatever kind it has and however large its directory grows.
pub(super) fn a_full_disk_makes_whole_names_or_none(b: &mut Bench<'_>) {
    let root = b.root();
    let before = b.free();
    let (data, dir) = (b.dir(root, "data"), b.dir(root, "dir"));
    fill(b, data, Privilege::Root);
    let target = pattern(1, b.limits().symlink_max);
    let mut made = Vec::new();
    let mut refused = 0;
    for i in 0..600 {
        let kind = match i % 8 {
            0 => crate::FileKind::Directory,
            1..4 if !target.is_empty() => crate::FileKind::Symlink,
            _ => crate::FileKind::Regular,
        };
        let mut name = format!("{i:03}").into_bytes();
        name.resize(b.limits().name_max, b'-');
        let new = crate::NewNode { target: &target, ..node(kind) };
        match b.create(dir, &name, &new, Privilege::Root) {
            Ok(_) => made.push(name),
            Err(error) => {
                refuses::<()>(Err(error), &[ENOSPC]);
                refuses(b.lookup(dir, &name), &[ENOENT]);
                refused += 1;
            }
        }
    }
    assert_eq!((b.sorted(dir), made.len() + refused), (made.clone(), 600));
    b.check();
    for part in ["dir", "data"] {
        let dir = b.at(root, part);
        for (name, ino, _) in b.list(dir) {
            if b.getattr(ino).unwrap().kind == crate::FileKind::Directory {
                b.rmdir(dir, &name).unwrap();
            } else {
                b.unlink(dir, &name).unwrap();
            }
        }
        b.rmdir(root, part.as_bytes()).unwrap();
    }
    assert_eq!(b.free(), before);
}
