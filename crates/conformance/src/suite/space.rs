//! Space: counted exactly, refused cleanly when it runs out, all of it free again afterwards.

use super::bench::*;
use spindle_vfs::{FallocateMode, FileKind, Ino, Privilege, RenameMode, SetAttr, XattrMode};

const REPLACE: RenameMode = RenameMode::Replace;

const CHUNK: usize = 256 * 1024;

/// Writes to new files until there is no space. Returns the files, each with its size.
fn fill(b: &Bench<'_>, dir: Ino, by: Privilege) -> Vec<(Vec<u8>, Ino, u64)> {
    let chunk = pattern(0, CHUNK);
    let mut files = Vec::new();
    let mut unit = CHUNK;
    'files: for i in 0.. {
        let name = format!("{by:?}{i}").into_bytes();
        let file = match b.create(dir, &name, &node(FileKind::Regular), by) {
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
                    // A smaller write may still succeed.
                    unit = (unit / 8).max(1);
                }
            }
        }
        files.push((name, file, size));
    }
    files
}

/// Promise: `statfs` is exact: a file's space is subtracted, freed space is added, and the counts
/// are consistent.
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

/// Promise: writers get ENOSPC when the disk is full, the superuser later than others; nothing is
/// damaged, everything can be removed, and all space is free again.
pub(super) fn a_full_disk_refuses_and_recovers(b: &mut Bench<'_>) {
    let root = b.root();
    let before = b.free();
    let empty = b.statfs().unwrap();
    let dir = b.dir(root, "dir");
    let mut files = fill(b, dir, Privilege::User);
    let reserve = b.statfs().unwrap();
    // Metadata may take one block of it.
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

/// Promise: when no inode is left, creation fails with ENOSPC without side effects; removing a file
/// makes it possible again.
pub(super) fn inodes_run_out_cleanly(b: &mut Bench<'_>) {
    if b.statfs().unwrap().ffree > 20_000 {
        return;
    }
    let dir = b.dir(b.root(), "dir");
    let mut made = 0u64;
    loop {
        match b.create(dir, made.to_string().as_bytes(), &node(FileKind::Regular), Privilege::Root) {
            Ok(attr) => b.forget(attr.ino, 1),
            Err(error) => break refuses::<()>(Err(error), &[ENOSPC]),
        }
        made += 1;
    }
    for kind in [FileKind::Regular, FileKind::Directory] {
        refuses(b.create(dir, b"over", &node(kind), Privilege::Root), &[ENOSPC]);
    }
    refuses(b.lookup(dir, b"over"), &[ENOENT]);
    assert_eq!((b.list(dir).len() as u64, b.nlink(dir)), (made, 2));
    b.unlink(dir, b"0").unwrap();
    b.file(dir, "over");
}

/// Promise: on a full disk existing data is unchanged and can be read, overwritten in place and
/// truncated.
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
        b.write(old, 200_000, &pattern(1, 70_000), Privilege::Root).and_then(|written| {
            if written < 70_000 { Err(spindle_vfs::Error::NoSpace) } else { Ok(written) }
        }),
        &[ENOSPC],
    );
    assert_eq!(b.get(old, 0, 100_000), expected);
    b.resize(old, 10);
    b.holds(old, &expected[..10]);
}

/// Promise: on a full disk a name is created completely or not at all, whatever its kind and the
/// size of its directory.
pub(super) fn a_full_disk_creates_names_completely_or_not(b: &mut Bench<'_>) {
    let root = b.root();
    let before = b.free();
    let (data, dir) = (b.dir(root, "data"), b.dir(root, "dir"));
    fill(b, data, Privilege::Root);
    let target = pattern(1, b.limits().symlink_max);
    let mut made = Vec::new();
    let mut refused = 0;
    for i in 0..600 {
        let kind = match i % 8 {
            0 => FileKind::Directory,
            1..4 if !target.is_empty() => FileKind::Symlink,
            _ => FileKind::Regular,
        };
        let mut name = format!("{i:03}").into_bytes();
        name.resize(b.limits().name_max, b'-');
        let new = spindle_vfs::NewNode { target: &target, ..node(kind) };
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
            if b.getattr(ino).unwrap().kind == FileKind::Directory {
                b.rmdir(dir, &name).unwrap();
            } else {
                b.unlink(dir, &name).unwrap();
            }
        }
        b.rmdir(root, part.as_bytes()).unwrap();
    }
    assert_eq!(b.free(), before);
}

/// Returns the visible state of the file system except access times: each object with its path,
/// attributes, names, bytes, target and extended attributes, and the free space.
fn snapshot(b: &Bench<'_>) -> Vec<String> {
    let mut seen = vec![format!("{:?}", b.free())];
    let mut below = vec![(String::new(), b.root())];
    while let Some((path, ino)) = below.pop() {
        let attr = b.getattr(ino).unwrap();
        let attr = spindle_vfs::Attr { atime: attr.mtime, ..attr };
        seen.push(format!("{path}: {attr:?}"));
        match attr.kind {
            FileKind::Directory => {
                let mut names = b.list(ino);
                names.sort();
                for (name, ino, _) in names {
                    below.push((format!("{path}/{}", String::from_utf8_lossy(&name)), ino));
                }
            }
            // The filler has the same bytes everywhere.
            FileKind::Regular if attr.size < 1 << 20 => {
                let len = usize::try_from(attr.size).unwrap();
                let bytes = b.get(ino, 0, len);
                let sum = bytes.iter().fold(0_u64, |sum, &byte| sum.rotate_left(5) ^ u64::from(byte));
                seen.push(format!("{path}: {sum:x}"));
            }
            FileKind::Symlink => seen.push(format!("{path}: {:?}", b.readlink(ino).unwrap())),
            _ => {}
        }
        for name in b.limits().xattrs.then(|| b.listxattr(ino).unwrap()).into_iter().flatten() {
            seen.push(format!("{path}: {name:?} {:?}", b.getxattr(ino, &name).unwrap()));
        }
    }
    seen
}

/// An operation that needs space, on the tree of [`test_tree`].
type SpaceOperation = (&'static str, fn(&Bench<'_>, Ino) -> spindle_vfs::Result<()>);

/// The operations; each reaches the allocator in another way.
const SPACE_OPERATIONS: [SpaceOperation; 17] = [
    ("create in a full directory", |b, dir| {
        b.create(b.at(dir, "full"), b"more", &node(FileKind::Regular), Privilege::Root).map(drop)
    }),
    ("mkdir", |b, dir| b.create(dir, b"newdir", &node(FileKind::Directory), Privilege::Root).map(drop)),
    ("mkdir in a full directory", |b, dir| {
        b.create(b.at(dir, "full"), b"more", &node(FileKind::Directory), Privilege::Root).map(drop)
    }),
    ("symlink of any length in a full directory", |b, dir| {
        let target = pattern(1, b.limits().symlink_max);
        let node = spindle_vfs::NewNode { target: &target, ..node(FileKind::Symlink) };
        b.create(b.at(dir, "full"), b"more", &node, Privilege::Root).map(drop)
    }),
    ("link into a full directory", |b, dir| {
        b.link(b.at(dir, "small"), b.at(dir, "full"), b"more", Privilege::Root).map(drop)
    }),
    ("rename into a full directory", |b, dir| b.mv((dir, b"small"), (b.at(dir, "full"), b"more"), REPLACE)),
    ("rename a directory into a full one", |b, dir| {
        b.mv((dir, b"empty"), (b.at(dir, "full"), b"more"), REPLACE)
    }),
    ("append to a fragment", |b, dir| whole_write(b, b.at(dir, "small"), 700, 3000)),
    ("write far beyond the end of a fragment", |b, dir| whole_write(b, b.at(dir, "small"), 30_000, 10)),
    ("write behind indirect blocks", |b, dir| whole_write(b, b.at(dir, "large"), 900_000, 10)),
    ("write into a hole", |b, dir| whole_write(b, b.at(dir, "sparse"), 20_000, 5000)),
    ("write over data and into a hole", |b, dir| whole_write(b, b.at(dir, "sparse"), 0, 25_000)),
    ("grow", |b, dir| {
        let set = SetAttr { size: Some(70_001), ..SetAttr::default() };
        b.setattr(b.at(dir, "small"), &set, Privilege::Root).map(drop)
    }),
    ("allocate", |b, dir| fallocate(b, dir, FallocateMode::Allocate { keep_size: false })),
    ("zero data and holes", |b, dir| fallocate(b, dir, FallocateMode::ZeroRange { keep_size: false })),
    ("set an attribute", |b, dir| {
        b.setxattr(b.at(dir, "small"), b"user.new", &[7; 300], XattrMode::Set, Privilege::Root)
    }),
    ("replace an attribute by a longer one", |b, dir| {
        b.setxattr(b.at(dir, "marked"), b"user.old", &[7; 3000], XattrMode::Set, Privilege::Root)
    }),
];

/// Writes, without a check of the number of bytes: `write(2)` may write a part and returns its
/// size.
fn whole_write(b: &Bench<'_>, file: Ino, offset: u64, len: usize) -> spindle_vfs::Result<()> {
    b.write(file, offset, &pattern(3, len), Privilege::Root).map(drop)
}

fn fallocate(b: &Bench<'_>, dir: Ino, mode: FallocateMode) -> spindle_vfs::Result<()> {
    b.fallocate(b.at(dir, "sparse"), mode, 100, 60_000, Privilege::Root)
}

/// Creates the tree that [`SPACE_OPERATIONS`] work on.
fn test_tree(b: &Bench<'_>, name: &str) {
    let dir = b.dir(b.root(), name);
    for name in ["small", "large", "sparse", "marked"] {
        b.file(dir, name);
    }
    b.put(b.at(dir, "small"), 0, &pattern(1, 700));
    b.put(b.at(dir, "large"), 0, &pattern(1, 5000));
    b.put(b.at(dir, "sparse"), 0, &pattern(1, 5000));
    b.put(b.at(dir, "sparse"), 45_000, &pattern(2, 3000));
    if b.limits().xattrs {
        b.setxattr(b.at(dir, "marked"), b"user.old", &[5; 200], XattrMode::Set, Privilege::Root).unwrap();
    }
    b.dir(dir, "empty");
    let full = b.dir(dir, "full");
    // Names of all sizes, until the directory would have to grow for another one.
    let mut size = b.size(full);
    for i in 0.. {
        let mut name = format!("{i:03}").into_bytes();
        name.resize(if i % 4 == 0 { b.limits().name_max } else { 3 }, b'-');
        b.link(b.at(dir, "large"), full, &name, Privilege::Root).unwrap();
        let grown = b.size(full) > size;
        size = b.size(full);
        if grown && i > 20 {
            b.unlink(full, &name).unwrap();
            break;
        }
    }
}

/// Promise: whichever allocation of an operation fails for lack of space, the operation changes
/// nothing: no name, attribute, byte or count. With more space it succeeds.
pub(super) fn failed_allocation_changes_nothing(b: &mut Bench<'_>) {
    let unit = u64::from(b.statfs().unwrap().frsize);
    let one = vec![1; usize::try_from(unit).unwrap()];
    let mut refused = 0;
    for (nth, (what, operation)) in SPACE_OPERATIONS.into_iter().enumerate() {
        let name = format!("dir{nth}");
        test_tree(b, &name);
        b.check();
        let dir = b.at(b.root(), &name);
        let filler = b.dir(b.root(), "filler");
        fill(b, filler, Privilege::Root);
        // Files of one unit each take the remaining space; they free it one by one, wherever it is.
        let mut units = Vec::new();
        for i in 0.. {
            let name = format!("unit{i}").into_bytes();
            match b.create(filler, &name, &node(FileKind::Regular), Privilege::Root) {
                Ok(attr) if b.write(attr.ino, 0, &one, Privilege::Root).is_ok() => units.push(name),
                _ => break,
            }
        }
        let mut left = b.list(filler);
        left.reverse();
        for step in 0..400 {
            let before = snapshot(b);
            match operation(b, dir) {
                Ok(()) | Err(spindle_vfs::Error::NotSupported | spindle_vfs::Error::NotFound) => break,
                Err(error) => {
                    refuses::<()>(Err(error), &[ENOSPC]);
                    refused += 1;
                    let after = snapshot(b);
                    let changed = before.iter().zip(&after).find(|(before, after)| before != after);
                    assert_eq!(changed, None, "{what}, step {step}");
                    assert_eq!(before.len(), after.len(), "{what}, step {step}");
                }
            }
            // Frees one more unit: from the end of a file that is left.
            let Some((_, ino, _)) = left.iter().find(|(_, ino, _)| b.size(*ino) > 0) else { break };
            let size = b.size(*ino);
            b.resize(*ino, (size - 1) / unit * unit);
        }
        // A removed file keeps its space while there are references, which end with the mount.
        b.check();
        let filler = b.at(b.root(), "filler");
        for (name, _, _) in b.list(filler) {
            b.unlink(filler, &name).unwrap();
        }
        b.rmdir(b.root(), b"filler").unwrap();
    }
    assert!(refused > 5, "{refused} operations found no space");
    b.check();
}
