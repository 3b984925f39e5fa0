//! Data is read as it was written: growth, truncation, and no bytes that were never written.

use super::bench::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_vfs::{FallocateMode, FileKind, Privilege, RenameMode, SetAttr, XattrMode};

const ROOT: Privilege = Privilege::Root;

/// Sizes at which a block or fragment of some format ends.
const BORDERS: [u64; 12] = [512, 1024, 2048, 4096, 8192, 16384, 24576, 32768, 49152, 65536, 98304, 131_072];

/// Promise: reads return the written bytes, fewer at the end and none after it; an empty write
/// changes nothing.
pub(super) fn reads_what_was_written(b: &mut Bench<'_>) {
    let file = b.file(b.root(), "file");
    b.holds(file, b"");
    assert_eq!(b.write(file, 100, b"", ROOT).unwrap(), 0);
    b.holds(file, b"");
    b.put(file, 0, b"hello");
    b.put(file, 5, b", world");
    b.holds(file, b"hello, world");
    b.put(file, 7, b"there");
    b.holds(file, b"hello, there");
    let mut buf = [0; 4];
    for offset in [12, 13, 1 << 20, 1 << 40, u64::MAX] {
        assert_eq!(b.read(file, offset, &mut buf).unwrap(), 0, "at {offset}");
    }
    assert_eq!(b.read(file, 10, &mut buf).unwrap(), 2);
    assert_eq!(b.read(file, 0, &mut []).unwrap(), 0);
    assert_eq!(b.getattr(file).unwrap().size, 12);
}

/// Promise: a file that grows byte by byte across the boundaries of fragments and blocks keeps
/// every byte.
pub(super) fn growth_byte_by_byte(b: &mut Bench<'_>) {
    let data = pattern(2, 140_000);
    for border in BORDERS {
        let file = b.file(b.root(), format!("f{border}"));
        let start = border as usize - 4;
        b.put(file, 0, &data[..start]);
        for at in start..start + 8 {
            b.put(file, at as u64, &data[at..=at]);
            assert_eq!(b.size(file), at as u64 + 1);
        }
        b.holds(file, &data[..start + 8]);
    }
    // Begins with the first byte, while another file takes the space next to it.
    let (one, two) = (b.file(b.root(), "one"), b.file(b.root(), "two"));
    for at in 0..3000 {
        b.put(one, at as u64, &data[at..=at]);
        b.put(two, at as u64, &data[at + 1..at + 2]);
    }
    b.remount();
    b.holds(one, &data[..3000]);
    b.holds(two, &data[1..3001]);
    for border in BORDERS {
        b.holds(b.at(b.root(), format!("f{border}")), &data[..border as usize + 4]);
    }
}

/// Promise: two files that grow in turn, by steps of every size, keep their bytes and use no more
/// space than necessary.
pub(super) fn growth_in_steps(b: &mut Bench<'_>) {
    let before = b.free();
    let data = pattern(3, 200_000);
    for step in [100, 511, 512, 513, 1024, 1500, 4096, 8192, 20_000] {
        let files = [b.file(b.root(), "a"), b.file(b.root(), "b")];
        let total = (step * 12).min(data.len());
        for at in (0..total).step_by(step) {
            for file in files {
                b.put(file, at as u64, &data[at..(at + step).min(total)]);
            }
        }
        for (file, name) in files.into_iter().zip(["a", "b"]) {
            b.holds(file, &data[..total]);
            b.unlink(b.root(), name.as_bytes()).unwrap();
            b.forget(file, 1);
        }
    }
    assert_eq!(b.free(), before);
}

/// Promise: any size can follow any other; truncated bytes are gone, added bytes are zero.
pub(super) fn truncate_both_ways(b: &mut Bench<'_>) {
    let before = b.free();
    let file = b.file(b.root(), "file");
    let mut sizes: Vec<u64> = BORDERS.iter().flat_map(|s| [s - 1, *s, s + 1]).collect();
    sizes.extend([0, 1, 200_000]);
    let mut rng = StdRng::seed_from_u64(4);
    let mut data: Vec<u8> = Vec::new();
    for round in 0..120 {
        let size = sizes[rng.random_range(0..sizes.len())];
        b.resize(file, size);
        data.resize(size as usize, 0);
        if round % 3 == 0 && size > 0 {
            let fresh = pattern(round, data.len());
            b.put(file, 0, &fresh);
            data = fresh;
        }
        b.holds(file, &data);
    }
    b.remount();
    b.holds(file, &data);
    b.resize(file, 0);
    assert_eq!(b.getattr(file).unwrap().blocks512, 0, "an empty file holds no space");
    b.unlink(b.root(), b"file").unwrap();
    assert_eq!(b.free(), before);
}

/// Promise: truncated bytes never reappear: not after growth by `setattr`, by a write further on,
/// or after a remount; nor do bytes of a deleted file.
pub(super) fn truncated_bytes_never_reappear(b: &mut Bench<'_>) {
    let secret = vec![0xaa; 150_000];
    for size in [1u64, 100, 511, 512, 513, 1000, 4095, 4097, 10_000, 40_000, 98_305, 100_001] {
        for by_write in [false, true] {
            let file = b.file(b.root(), "file");
            b.put(file, 0, &secret);
            b.resize(file, size);
            if by_write {
                b.put(file, 149_999, &[0]);
            } else {
                b.resize(file, size + 1);
                b.resize(file, 150_000);
            }
            let mut expected = secret.clone();
            expected[size as usize..].fill(0);
            b.holds(file, &expected);
            b.remount();
            let file = b.at(b.root(), "file");
            b.holds(file, &expected);
            b.unlink(b.root(), b"file").unwrap();
        }
    }
    // New files reuse the freed space; their unwritten parts must be zero.
    for i in 0..10 {
        let file = b.file(b.root(), format!("new{i}"));
        b.put(file, 30_000 + i * 700, b"end");
        let mut expected = vec![0; 30_000 + i as usize * 700];
        expected.extend(b"end");
        b.holds(file, &expected);
    }
}

/// Promise: any order of writes, truncations and growth has the same result as on bytes in memory.
pub(super) fn random_writes_match_memory(b: &mut Bench<'_>) {
    let mut rng = StdRng::seed_from_u64(5);
    let file = b.file(b.root(), "file");
    let mut data: Vec<u8> = Vec::new();
    for round in 0..400 {
        if rng.random_bool(0.2) {
            let size = rng.random_range(0..300_000);
            b.resize(file, size as u64);
            data.resize(size, 0);
        } else {
            let at = rng.random_range(0..250_000);
            let len =
                if rng.random_bool(0.5) { rng.random_range(1..2000) } else { rng.random_range(1..50_000) };
            let part = pattern(round, len);
            b.put(file, at as u64, &part);
            data.resize(data.len().max(at + len), 0);
            data[at..at + len].copy_from_slice(&part);
        }
        if round % 20 == 0 {
            b.holds(file, &data);
        }
        if round % 100 == 99 {
            b.remount();
        }
    }
    b.holds(file, &data);
}

/// Promise: the largest file can have its last byte, and no file can be larger.
pub(super) fn largest_file(b: &mut Bench<'_>) {
    let max = b.limits().file_size_max;
    let before = b.free();
    let file = b.file(b.root(), "file");
    let size = |size| SetAttr { size: Some(size), ..SetAttr::default() };
    if max < u64::MAX {
        refuses(b.write(file, max, b"x", ROOT), &[EFBIG]);
        refuses(b.setattr(file, &size(max + 1), ROOT), &[EFBIG]);
        refuses(b.setattr(file, &size(u64::MAX), ROOT), &[EFBIG]);
    }
    refuses(b.write(file, u64::MAX, b"xx", ROOT), &[EFBIG]);
    b.holds(file, b"");
    b.put(file, max - 1, b"x");
    assert_eq!(b.size(file), max);
    assert_eq!(b.get(file, max - 1, 10), b"x");
    assert_eq!(b.get(file, max - 5, 10), b"\0\0\0\0x");
    b.remount();
    assert_eq!(b.get(file, max - 2, 10), b"\0x");
    b.unlink(b.root(), b"file").unwrap();
    assert_eq!(b.free(), before);
}

/// Promise: bytes and sizes are the same after a remount, also of many files.
pub(super) fn data_survives_remount(b: &mut Bench<'_>) {
    let dir = b.dir(b.root(), "dir");
    let len = |i: u64| (i * i * 37 % 70_000) as usize;
    for i in 0..60 {
        let file = b.file(dir, format!("f{i}"));
        b.put(file, 0, &pattern(i, len(i)));
        b.forget(file, 1);
    }
    b.remount();
    let dir = b.at(b.root(), "dir");
    for i in 0..60 {
        b.holds(b.at(dir, format!("f{i}")), &pattern(i, len(i)));
    }
}

/// Promise: files, directories and files without names can be made durable at any time.
pub(super) fn fsync_and_sync_succeed(b: &mut Bench<'_>) {
    let root = b.root();
    let file = b.file(root, "file");
    b.fsync(root, false).unwrap();
    b.put(file, 0, &pattern(1, 50_000));
    b.fsync(file, true).unwrap();
    b.put(file, 50_000, b"more");
    b.fsync(file, false).unwrap();
    b.unlink(root, b"file").unwrap();
    b.put(file, 50_004, b"still");
    b.fsync(file, false).unwrap();
    b.sync().unwrap();
    b.holds(file, &[pattern(1, 50_000), b"morestill".to_vec()].concat());
}

/// Promise: after `unmount` every call that changes something is refused; unmounting again is no
/// error.
pub(super) fn unmounted_refuses_changes(b: &mut Bench<'_>) {
    let root = b.root();
    let file = b.file(root, "file");
    b.dir(root, "dir");
    b.put(file, 0, b"kept");
    b.unmount().unwrap();
    assert!(b.read_only());
    refuses(b.write(file, 0, b"x", ROOT), &[EROFS]);
    for kind in [FileKind::Regular, FileKind::Directory] {
        refuses(b.create(root, b"new", &node(kind), ROOT), &[EROFS]);
    }
    refuses(b.link(file, root, b"link", ROOT), &[EROFS]);
    refuses(b.unlink(root, b"file"), &[EROFS]);
    refuses(b.rmdir(root, b"dir"), &[EROFS]);
    refuses(b.mv((root, b"file"), (root, b"x"), RenameMode::Replace), &[EROFS]);
    refuses(b.setattr(file, &SetAttr { perm: Some(0), ..SetAttr::default() }, ROOT), &[EROFS]);
    refuses(b.setattr(file, &SetAttr { size: Some(0), ..SetAttr::default() }, ROOT), &[EROFS]);
    let hole = FallocateMode::PunchHole;
    refuses(b.fallocate(file, hole, 0, 1, ROOT), &[EROFS, ENOTSUP]);
    refuses(b.setxattr(file, b"user.x", b"", XattrMode::Set, ROOT), &[EROFS, ENOTSUP]);
    refuses(b.removexattr(file, b"user.x"), &[EROFS, ENOTSUP]);
    b.unmount().unwrap();
    b.remount();
    b.holds(b.at(b.root(), "file"), b"kept");
    assert_eq!(b.sorted(b.root()), [b"dir".to_vec(), b"file".to_vec()]);
}
