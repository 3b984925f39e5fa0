//! Renaming.

use super::Feature;
use super::bench::*;
use spindle_vfs::{FileKind, Ino, Privilege, Rdev, RenameMode};

use RenameMode::{Exchange, NoReplace, Replace};

/// The target of a rename.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    Nothing,
    Other(FileKind),
    FullDirectory,
}

/// Returns the expected result of renaming `kind` onto `target`: the error number, or 0.
fn expected(kind: FileKind, target: Target) -> i32 {
    match (kind, target) {
        (_, Target::Nothing) | (FileKind::Directory, Target::Other(FileKind::Directory)) => 0,
        (FileKind::Directory, Target::FullDirectory) => ENOTEMPTY,
        (FileKind::Directory, Target::Other(_)) => ENOTDIR,
        (_, Target::Other(FileKind::Directory) | Target::FullDirectory) => EISDIR,
        (_, Target::Other(_)) => 0,
    }
}

fn kinds(b: &Bench<'_>) -> Vec<FileKind> {
    let mut kinds = vec![FileKind::Regular, FileKind::Directory, FileKind::CharDevice];
    if b.limits().symlink_max > 0 {
        kinds.push(FileKind::Symlink);
    }
    kinds
}

/// Promise: renaming any kind onto any other, in one directory and across two, succeeds or is
/// refused as POSIX requires, and the link counts are right.
pub(super) fn rename_matrix(b: &mut Bench<'_>) {
    let root = b.root();
    let kinds = kinds(b);
    let mut targets = vec![Target::Nothing, Target::FullDirectory];
    targets.extend(kinds.iter().map(|kind| Target::Other(*kind)));
    for across in [false, true] {
        for &kind in &kinds {
            for &target in &targets {
                let from = b.dir(root, "from");
                let to = if across { b.dir(root, "to") } else { from };
                let moved = b.make(from, "a", kind);
                let met = match target {
                    Target::Nothing => None,
                    Target::Other(kind) => Some(b.make(to, "b", kind)),
                    Target::FullDirectory => {
                        let dir = b.dir(to, "b");
                        b.file(dir, "in");
                        Some(dir)
                    }
                };
                let result = b.mv((from, b"a"), (to, b"b"), Replace);
                let want = expected(kind, target);
                assert_eq!(errno(&result), want, "{kind:?} onto {target:?}, across: {across}");
                if want == 0 {
                    refuses(b.lookup(from, b"a"), &[ENOENT]);
                    assert_eq!(b.at(to, "b"), moved);
                    if kind == FileKind::Directory {
                        assert_eq!(b.at(moved, ".."), to);
                    }
                    if let Some(met) = met {
                        assert_eq!(b.nlink(met), 0, "the replaced {target:?}");
                        b.forget(met, 1);
                    }
                } else {
                    assert_eq!(b.at(from, "a"), moved);
                    assert_eq!(Some(b.at(to, "b")), met);
                }
                clear(b, root, "from");
                if across {
                    clear(b, root, "to");
                }
                assert_eq!(b.nlink(root), 2);
            }
        }
    }
}

/// Checks the link counts of a directory and removes it with all its contents.
fn clear(b: &Bench<'_>, parent: Ino, name: &str) {
    let dir = b.at(parent, name);
    let mut children = 0;
    for (child, ino, _) in b.list(dir) {
        if b.getattr(ino).unwrap().kind == FileKind::Directory {
            children += 1;
            clear(b, dir, std::str::from_utf8(&child).unwrap());
        } else {
            assert_eq!(b.nlink(ino), 1);
            b.unlink(dir, &child).unwrap();
        }
        b.forget(ino, 1);
    }
    assert_eq!(b.nlink(dir), 2, "after its {children} directories were removed");
    b.rmdir(parent, name.as_bytes()).unwrap();
    b.forget(dir, 1);
}

/// Promise: a rename needs an existing name, and directories on both sides.
pub(super) fn rename_refuses(b: &mut Bench<'_>) {
    let root = b.root();
    let file = b.file(root, "file");
    for mode in [Replace, NoReplace] {
        refuses(b.mv((root, b"none"), (root, b"x"), mode), &[ENOENT]);
        refuses(b.mv((root, b"none"), (root, b"file"), mode), &[ENOENT, EEXIST]);
        refuses(b.mv((file, b"x"), (root, b"y"), mode), &[ENOTDIR]);
        refuses(b.mv((root, b"file"), (file, b"y"), mode), &[ENOTDIR]);
        refuses(b.mv((root, b"file"), (root, b"a/b"), mode), &[EINVAL, ENOENT]);
    }
    assert_eq!(b.sorted(root), [b"file".to_vec()]);
}

/// Promise: a directory moves with its contents; the link counts of both parents and its `..` are
/// updated, durably.
pub(super) fn rename_moves_directories(b: &mut Bench<'_>) {
    let root = b.root();
    let (one, two) = (b.dir(root, "one"), b.dir(root, "two"));
    let moved = b.dir(one, "moved");
    let file = b.file(moved, "file");
    b.put(file, 0, b"inside");
    b.dir(moved, "sub");
    b.mv((one, b"moved"), (two, b"here"), Replace).unwrap();
    assert_eq!((b.nlink(one), b.nlink(two), b.nlink(moved)), (2, 3, 3));
    b.remount();
    let two = b.at(b.root(), "two");
    assert_eq!(b.at(two, "here"), moved);
    assert_eq!(b.at(moved, ".."), two);
    b.holds(b.at(moved, "file"), b"inside");
    // Onto an empty directory of the other parent.
    let one = b.at(b.root(), "one");
    b.dir(one, "empty");
    b.mv((two, b"here"), (one, b"empty"), Replace).unwrap();
    assert_eq!((b.nlink(one), b.nlink(two)), (3, 2));
    assert_eq!(b.at(moved, ".."), one);
    // A long name replaces a short one and the reverse, in the same directory.
    let long = vec![b'x'; b.limits().name_max];
    b.mv((one, b"empty"), (one, &long), Replace).unwrap();
    b.mv((one, &long), (one, b"e"), Replace).unwrap();
    assert_eq!(b.sorted(one), [b"e".to_vec()]);
    assert_eq!(b.nlink(one), 3);
}

/// Promise: a directory cannot be moved into itself or below.
pub(super) fn rename_never_into_itself(b: &mut Bench<'_>) {
    let root = b.root();
    let top = b.dir(root, "top");
    let mut deepest = top;
    for _ in 0..5 {
        deepest = b.dir(deepest, "d");
    }
    refuses(b.mv((root, b"top"), (top, b"x"), Replace), &[EINVAL]);
    refuses(b.mv((root, b"top"), (deepest, b"x"), Replace), &[EINVAL]);
    refuses(b.mv((root, b"top"), (deepest, b"x"), NoReplace), &[EINVAL]);
    refuses(b.mv((root, b"top"), (top, b"d"), Replace), &[EINVAL, ENOTEMPTY]);
    let d = b.at(top, "d");
    refuses(b.mv((d, b"d"), (root, b"top"), Replace), &[ENOTEMPTY]);
    if b.has(Feature::Exchange) {
        refuses(b.mv((root, b"top"), (top, b"d"), Exchange), &[EINVAL]);
        refuses(b.mv((d, b"d"), (root, b"top"), Exchange), &[EINVAL]);
    }
    assert_eq!((b.nlink(root), b.nlink(top), b.nlink(deepest)), (3, 3, 2));
    // Onto its own name: nothing happens.
    b.mv((root, b"top"), (root, b"top"), Replace).unwrap();
    assert_eq!(b.at(root, "top"), top);
}

/// Promise: renaming one name of a file onto another of the same file does nothing.
pub(super) fn rename_onto_another_name_of_the_same_file(b: &mut Bench<'_>) {
    let root = b.root();
    let dir = b.dir(root, "dir");
    let file = b.file(root, "a");
    b.link(file, root, b"b", Privilege::Root).unwrap();
    b.link(file, dir, b"c", Privilege::Root).unwrap();
    for (to_dir, to) in [(root, "a"), (root, "b"), (dir, "c")] {
        b.mv((root, b"a"), (to_dir, to.as_bytes()), Replace).unwrap();
        assert_eq!((b.at(root, "a"), b.at(to_dir, to), b.nlink(file)), (file, file, 3));
    }
}

/// Promise: a file that was replaced stays while it has references; then its space is freed.
pub(super) fn rename_keeps_replaced_file_alive(b: &mut Bench<'_>) {
    let root = b.root();
    let new = b.file(root, "new");
    b.put(new, 0, b"new");
    let before = b.free();
    let old = b.file(root, "old");
    b.put(old, 0, &pattern(1, 100_000));
    b.mv((root, b"new"), (root, b"old"), Replace).unwrap();
    assert_eq!((b.nlink(old), b.nlink(new)), (0, 1));
    b.holds(old, &pattern(1, 100_000));
    b.forget(old, 1);
    b.holds(b.at(root, "old"), b"new");
    assert_eq!(b.free(), before);
}

/// Promise: NOREPLACE succeeds only if the new name does not exist, even for the same file.
pub(super) fn rename_noreplace(b: &mut Bench<'_>) {
    let root = b.root();
    let dir = b.dir(root, "dir");
    let file = b.file(root, "a");
    b.file(root, "b");
    b.link(file, root, b"c", Privilege::Root).unwrap();
    for to in ["a", "b", "c", "dir"] {
        refuses(b.mv((root, b"a"), (root, to.as_bytes()), NoReplace), &[EEXIST]);
    }
    b.mv((root, b"a"), (dir, b"moved"), NoReplace).unwrap();
    assert_eq!(b.at(dir, "moved"), file);
    assert_eq!(b.nlink(file), 2);
}

/// Promise: EXCHANGE swaps any two names atomically; `..` and both parents' link counts are
/// updated.
pub(super) fn exchange_swaps_anything(b: &mut Bench<'_>) {
    if !b.has(Feature::Exchange) {
        return;
    }
    let root = b.root();
    let kinds = kinds(b);
    for across in [false, true] {
        for &first in &kinds {
            for &second in &kinds {
                let one = b.dir(root, "one");
                let two = if across { b.dir(root, "two") } else { one };
                let (x, y) = (b.make(one, "x", first), b.make(two, "y", second));
                if first == FileKind::Directory {
                    b.file(x, "in");
                }
                let two_counts = (b.nlink(one), b.nlink(two));
                b.mv((one, b"x"), (two, b"y"), Exchange).unwrap();
                assert_eq!((b.at(one, "x"), b.at(two, "y")), (y, x));
                if first == FileKind::Directory {
                    assert_eq!(b.at(x, ".."), two);
                }
                if second == FileKind::Directory {
                    assert_eq!(b.at(y, ".."), one);
                }
                let swapped = (b.nlink(two), b.nlink(one));
                let moved = across && (first == FileKind::Directory) != (second == FileKind::Directory);
                assert_eq!(if moved { swapped } else { (b.nlink(one), b.nlink(two)) }, two_counts);
                clear(b, root, "one");
                if across {
                    clear(b, root, "two");
                }
            }
        }
    }
}

/// Promise: EXCHANGE needs two existing names; on one name twice it does nothing.
pub(super) fn exchange_refuses(b: &mut Bench<'_>) {
    let root = b.root();
    let file = b.file(root, "file");
    if !b.has(Feature::Exchange) {
        refuses(b.mv((root, b"file"), (root, b"file"), Exchange), &[ENOTSUP, EINVAL]);
        return;
    }
    refuses(b.mv((root, b"file"), (root, b"none"), Exchange), &[ENOENT]);
    refuses(b.mv((root, b"none"), (root, b"file"), Exchange), &[ENOENT]);
    b.mv((root, b"file"), (root, b"file"), Exchange).unwrap();
    assert_eq!((b.at(root, "file"), b.nlink(file)), (file, 1));
}

/// Promise: WHITEOUT moves any name, over another or not, and leaves in its place a character
/// device 0, 0 of the owner that is asked for, which can be removed; otherwise all is as without
/// it.
pub(super) fn whiteouts_take_the_old_name(b: &mut Bench<'_>) {
    let root = b.root();
    let whiteout = RenameMode::Whiteout { uid: 7, gid: 8 };
    for (across, kind, replaces) in [
        (false, FileKind::Regular, false),
        (false, FileKind::Directory, true),
        (true, FileKind::Regular, true),
        (true, FileKind::Directory, false),
        (true, FileKind::Directory, true),
    ] {
        let one = b.dir(root, "one");
        let two = if across { b.dir(root, "two") } else { one };
        let moved = b.make(one, "x", kind);
        if replaces {
            b.make(two, "y", kind);
        }
        b.mv((one, b"x"), (two, b"y"), whiteout).unwrap();
        assert_eq!(b.at(two, "y"), moved);
        let left = b.at(one, "x");
        let attr = b.getattr(left).unwrap();
        assert_eq!((attr.kind, attr.perm, attr.nlink), (FileKind::CharDevice, 0, 1));
        assert_eq!((attr.uid, attr.gid, attr.rdev), (7, 8, Rdev::default()));
        let directory = u32::from(kind == FileKind::Directory);
        assert_eq!(b.nlink(two), 2 + directory);
        if across {
            assert_eq!(b.nlink(one), 2);
        }
        if kind == FileKind::Directory {
            assert_eq!(b.at(moved, ".."), two);
        }
        b.unlink(one, b"x").unwrap();
        refuses(b.mv((one, b"x"), (two, b"z"), whiteout), &[ENOENT]);
        clear(b, root, "one");
        if across {
            clear(b, root, "two");
        }
    }
    let top = b.dir(root, "top");
    refuses(b.mv((root, b"top"), (top, b"below"), whiteout), &[EINVAL]);
    assert_eq!(b.at(root, "top"), top);
}
