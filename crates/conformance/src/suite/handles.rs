//! File handles: the number and the generation of an inode to which there may be no reference.

use super::Feature;
use super::bench::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_vfs::{Attr, FileKind, Ino, Privilege, RenameMode, XattrMode};
use std::collections::BTreeSet;

const ROOT: Privilege = Privilege::Root;

/// Creates a file of each kind that the format has.
fn one_of_each(b: &Bench<'_>, dir: Ino) -> Vec<Attr> {
    use FileKind::{BlockDevice, CharDevice, Directory, Fifo, Regular, Socket, Symlink};
    let kinds = [Regular, Directory, BlockDevice, CharDevice, Fifo, Socket, Symlink];
    let exists = |kind: &FileKind| match kind {
        Fifo | Socket => b.has(Feature::FifosAndSockets),
        Symlink => b.limits().symlink_max > 0,
        _ => true,
    };
    let make = |kind| b.create(dir, format!("{kind:?}").as_bytes(), &node(kind), ROOT).unwrap();
    kinds.into_iter().filter(exists).map(make).collect()
}

/// Promise: a file of any kind is reached by its number after all references were released, and on
/// the next mount, with its generation and its contents; so is each directory above it.
pub(super) fn handles_outlive_references(b: &mut Bench<'_>) {
    let mut deepest = b.root();
    let mut above = BTreeSet::new();
    for _ in 0..12 {
        above.insert(deepest);
        deepest = b.dir(deepest, "deep");
        b.forget(deepest, 1);
    }
    let made = one_of_each(b, deepest);
    let file = made[0].ino;
    let mut data = pattern(3, 100_000);
    b.put(file, 0, &data);
    for attr in &made {
        b.forget(attr.ino, 1);
    }
    for mount in 1..3 {
        for old in &made {
            let found = b.reference(old.ino).unwrap();
            let identity = |attr: &Attr| (attr.ino, attr.generation, attr.kind, attr.nlink, attr.perm);
            assert_eq!(identity(&found), identity(old), "mount {mount}");
            match old.kind {
                FileKind::Symlink => assert_eq!(b.readlink(old.ino).unwrap(), b"target"),
                FileKind::Directory => {
                    assert_eq!(b.lookup(old.ino, b"..").unwrap().ino, deepest);
                    b.forget(deepest, 1);
                }
                _ => {}
            }
        }
        b.holds(file, &data);
        data[7] = mount;
        b.put(file, 7, &[mount]);
        let (mut dir, mut passed) = (deepest, BTreeSet::new());
        while dir != b.root() {
            dir = b.lookup(dir, b"..").unwrap().ino;
            passed.insert(dir);
        }
        assert_eq!(passed, above);
        for ino in above.iter().copied().chain(made.iter().map(|attr| attr.ino)) {
            b.forget(ino, 1);
        }
        b.remount();
    }
    b.holds(file, &data);
}

/// Promise: a file that has lost its last name is not reached by its number: not while it is still
/// in use, not when it is free, and not on the next mount.
pub(super) fn handles_of_removed_files_are_stale(b: &mut Bench<'_>) {
    let root = b.root();
    let before = b.free();
    let [unlinked, replaced, twice] = ["unlinked", "replaced", "twice"].map(|name| b.file(root, name));
    let dir = b.dir(root, "dir");
    b.file(root, "new");
    b.link(twice, root, b"other", ROOT).unwrap();
    b.unlink(root, b"unlinked").unwrap();
    b.unlink(root, b"twice").unwrap();
    b.rmdir(root, b"dir").unwrap();
    b.mv((root, b"new"), (root, b"replaced"), RenameMode::Replace).unwrap();
    let removed = [unlinked, replaced, dir];
    for ino in removed {
        refuses(b.reference(ino), &[ESTALE]);
    }
    b.put(unlinked, 0, b"still in use");
    b.holds(unlinked, b"still in use");
    for ino in removed {
        b.forget(ino, 1);
        refuses(b.reference(ino), &[ESTALE]);
    }
    assert_eq!(b.reference(twice).unwrap().nlink, 1, "another name is left");
    b.remount();
    for ino in removed {
        refuses(b.reference(ino), &[ESTALE]);
    }
    for name in ["other", "replaced"] {
        b.unlink(b.root(), name.as_bytes()).unwrap();
    }
    assert_eq!(b.free(), before);
}

/// Promise: a number that is used again has a generation that it did not have before, also after
/// mounting again. (The old file systems count to 255.)
pub(super) fn handles_of_reused_numbers_differ(b: &mut Bench<'_>) {
    const FILES: usize = 200;
    let mut seen = BTreeSet::new();
    for n in 0..FILES {
        let (root, directory) = (b.root(), n % 3 == 0);
        let kind = if directory { FileKind::Directory } else { FileKind::Regular };
        let made = b.create(root, b"again", &node(kind), ROOT).unwrap();
        assert!(seen.insert((made.ino, made.generation)), "{made:?} is taken for a file before it");
        assert_eq!(b.reference(made.ino).unwrap().generation, made.generation);
        b.forget(made.ino, 2);
        if directory { b.rmdir(root, b"again") } else { b.unlink(root, b"again") }.unwrap();
        if n % 20 == 0 {
            b.remount();
        }
    }
    let numbers: BTreeSet<Ino> = seen.into_iter().map(|(ino, _)| ino).collect();
    assert!(numbers.len() < FILES, "no number was used again");
}

/// Adds the inodes below a directory.
fn walk(b: &Bench<'_>, dir: Ino, all: &mut BTreeSet<Ino>) {
    if all.insert(dir) && b.getattr(dir).unwrap().kind == FileKind::Directory {
        for (_, ino, _) in b.list(dir) {
            walk(b, ino, all);
        }
    }
}

/// Promise: of all numbers only those of files are reached; asking for the others changes nothing.
pub(super) fn handles_of_any_number(b: &mut Bench<'_>) {
    let root = b.root();
    one_of_each(b, root);
    // Files that may need more than one inode.
    let scattered = b.file(root, "scattered");
    for n in 0..40 {
        b.put(scattered, n * 200_000, b"a piece");
    }
    if b.limits().xattrs {
        b.setxattr(scattered, b"user.long", &pattern(4, 3000), XattrMode::Set, ROOT).unwrap();
    }
    b.remount();
    let mut files = BTreeSet::new();
    walk(b, b.root(), &mut files);
    let before = b.free();
    let mut rng = StdRng::seed_from_u64(5);
    let powers = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 2]);
    let random = (0..1000).map(|_| rng.random::<u64>() >> rng.random_range(0..64));
    for number in (0..5000).chain(powers).chain(random).chain([u64::MAX]) {
        let ino = Ino(number);
        match b.reference(ino) {
            Ok(found) => {
                assert!(found.ino == ino && files.contains(&ino), "{found:?} has no name");
                b.forget(ino, 1);
            }
            error => {
                assert!(!files.contains(&ino), "{ino:?}: {error:?}");
                refuses(error, &[ESTALE]);
                refuses(b.lookup(ino, b".."), &[ESTALE, ENOTDIR]);
            }
        }
    }
    assert_eq!(b.free(), before);
}
