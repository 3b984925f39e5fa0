//! Several threads at once: no operation is lost or half done, and the check finds no problem
//! afterwards.

use super::bench::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_vfs::{FileKind, FileSystem, Ino, Privilege, RenameMode};

const THREADS: u64 = 4;
const ROOT: Privilege = Privilege::Root;

/// Runs `work` on four threads, each with its number.
fn together(b: &Bench<'_>, work: impl Fn(&dyn FileSystem, u64, &mut StdRng) + Sync) {
    let fs = b.shared();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (fs, work) = (&fs, &work);
            scope.spawn(move || work(&**fs, thread, &mut StdRng::seed_from_u64(thread)));
        }
    });
}

/// Creates a node and releases the reference.
fn make(fs: &dyn FileSystem, dir: Ino, name: &[u8], kind: FileKind) -> spindle_vfs::Result<Ino> {
    let attr = fs.create(dir, name, &node(kind), ROOT)?;
    fs.forget(attr.ino, 1);
    Ok(attr.ino)
}

/// Removes everything in a directory.
fn empty(b: &Bench<'_>, dir: Ino) {
    for (name, ino, _) in b.list(dir) {
        if b.getattr(ino).unwrap().kind == FileKind::Directory {
            empty(b, ino);
            b.rmdir(dir, &name).unwrap();
        } else {
            b.unlink(dir, &name).unwrap();
        }
    }
}

/// Promise: threads that work in their own directories see only their own changes.
pub(super) fn threads_in_their_own_directories(b: &mut Bench<'_>) {
    let root = b.root();
    let dirs: Vec<Ino> = (0..THREADS).map(|i| b.dir(root, format!("d{i}"))).collect();
    together(b, |fs, thread, rng| {
        let dir = dirs[thread as usize];
        let mut names = std::collections::BTreeSet::new();
        for _ in 0..300 {
            let name = rng.random_range(0..30).to_string().into_bytes();
            if names.remove(&name) {
                fs.unlink(dir, &name).unwrap();
            } else {
                let ino = make(fs, dir, &name, FileKind::Regular).unwrap();
                assert_eq!(fs.write(ino, 0, &pattern(thread, 3000), ROOT).unwrap(), 3000);
                names.insert(name);
            }
        }
        for name in &names {
            let ino = fs.lookup(dir, name).unwrap().ino;
            let mut buf = vec![0; 4000];
            assert_eq!(fs.read(ino, 0, &mut buf).unwrap(), 3000);
            assert_eq!(buf[..3000], pattern(thread, 3000));
            fs.forget(ino, 1);
        }
    });
    b.check();
    for i in 0..THREADS {
        empty(b, b.at(root, format!("d{i}")));
    }
}

/// Promise: of several threads that create, rename and remove one name, exactly one succeeds at a
/// time.
pub(super) fn threads_in_one_directory(b: &mut Bench<'_>) {
    let dir = b.dir(b.root(), "dir");
    let balance = std::sync::atomic::AtomicI64::new(0);
    together(b, |fs, _, rng| {
        let count = |by| balance.fetch_add(by, std::sync::atomic::Ordering::Relaxed);
        for _ in 0..500 {
            let name = rng.random_range(0..20).to_string().into_bytes();
            let other = rng.random_range(0..20).to_string().into_bytes();
            match rng.random_range(0..4) {
                0 | 1 => match make(fs, dir, &name, FileKind::Regular) {
                    Ok(_) => drop(count(1)),
                    Err(error) => refuses::<()>(Err(error), &[EEXIST]),
                },
                2 => match fs.unlink(dir, &name) {
                    Ok(()) => drop(count(-1)),
                    Err(error) => refuses::<()>(Err(error), &[ENOENT]),
                },
                _ => match fs.rename(dir, &name, dir, &other, RenameMode::NoReplace, ROOT) {
                    Ok(()) => {}
                    Err(error) => refuses::<()>(Err(error), &[ENOENT, EEXIST]),
                },
            }
        }
    });
    let left = b.list(dir).len();
    assert_eq!(left as i64, balance.into_inner(), "names made less names removed");
    b.check();
    let dir = b.at(b.root(), "dir");
    assert_eq!(b.list(dir).len(), left);
    empty(b, dir);
}

/// Promise: directories that several threads move at once never form a loop, get lost, or have
/// wrong link counts.
pub(super) fn threads_moving_directories(b: &mut Bench<'_>) {
    let root = b.root();
    let before = b.free();
    let dirs: Vec<Ino> = (0..8).map(|i| b.dir(root, format!("d{i}"))).collect();
    let exchange = b.has(super::Feature::Exchange);
    together(b, |fs, _, rng| {
        for _ in 0..400 {
            let mut pick = || {
                let dir = rng.random_range(0..=dirs.len());
                let name = format!("d{}", rng.random_range(0..8)).into_bytes();
                (dirs.get(dir).copied().unwrap_or(root), name)
            };
            let (from, to) = (pick(), pick());
            let mode = match rng.random_range(0..3) {
                0 if exchange => RenameMode::Exchange,
                1 => RenameMode::NoReplace,
                _ => RenameMode::Replace,
            };
            let allowed = [ENOENT, EEXIST, EINVAL, ENOTEMPTY];
            match fs.rename(from.0, &from.1, to.0, &to.1, mode, ROOT) {
                Ok(()) => {}
                Err(error) => refuses::<()>(Err(error), &allowed),
            }
        }
    });
    // Every remaining directory is in exactly one place, below the root.
    let mut found = Vec::new();
    let mut below = vec![root];
    while let Some(dir) = below.pop() {
        let children = b.list(dir);
        assert_eq!(b.nlink(dir) as usize, children.len() + 2);
        for (_, child, _) in children {
            assert_eq!(b.at(child, ".."), dir);
            assert!(!found.contains(&child), "{child:?} is in two places");
            found.push(child);
            below.push(child);
        }
    }
    for dir in dirs {
        assert_eq!(found.contains(&dir), b.nlink(dir) > 0, "{dir:?} is lost");
    }
    b.check();
    empty(b, root);
    assert_eq!(b.free().1, before.1);
}

/// Promise: threads that write different parts of one file, and extend and truncate files of their
/// own, lose no byte.
pub(super) fn threads_writing_files(b: &mut Bench<'_>) {
    let root = b.root();
    let shared = b.file(root, "shared");
    let own: Vec<Ino> = (0..THREADS).map(|i| b.file(root, format!("own{i}"))).collect();
    together(b, |fs, thread, rng| {
        let own = own[thread as usize];
        let mut data: Vec<u8> = Vec::new();
        for piece in 0..100u64 {
            // Adjacent pieces of odd size, so that two threads write to the same block.
            let at = (piece * THREADS + thread) * 777;
            assert_eq!(fs.write(shared, at, &pattern(at, 777), ROOT).unwrap(), 777);
            let at = rng.random_range(0..60_000);
            let part = pattern(piece, rng.random_range(1..9000));
            assert_eq!(fs.write(own, at as u64, &part, ROOT).unwrap(), part.len());
            data.resize(data.len().max(at + part.len()), 0);
            data[at..at + part.len()].copy_from_slice(&part);
            if piece % 10 == 9 {
                let size = rng.random_range(0..60_000);
                let set = spindle_vfs::SetAttr { size: Some(size as u64), ..spindle_vfs::SetAttr::default() };
                fs.setattr(own, &set, ROOT).unwrap();
                data.resize(size, 0);
            }
        }
        let mut buf = vec![1; data.len() + 1];
        assert_eq!(fs.read(own, 0, &mut buf).unwrap(), data.len());
        assert!(buf[..data.len()] == data, "thread {thread}'s own file");
    });
    b.check();
    let shared = b.at(root, "shared");
    for piece in 0..100 * THREADS {
        assert!(b.get(shared, piece * 777, 777) == pattern(piece * 777, 777), "piece {piece}");
    }
}

/// Promise: a walk of a directory that others change passes each name that stays exactly once.
pub(super) fn threads_listing_a_changing_directory(b: &mut Bench<'_>) {
    let dir = b.dir(b.root(), "dir");
    for i in 0..120 {
        b.file(dir, format!("stay{i}"));
        b.file(dir, format!("go{i}"));
    }
    together(b, |fs, thread, rng| {
        if thread > 1 {
            for i in 0..250 {
                let name = format!("go{}", rng.random_range(0..120)).into_bytes();
                let new = format!("t{thread}-{i}").into_bytes();
                let done = match rng.random_range(0..3) {
                    0 => fs.unlink(dir, &name),
                    1 => make(fs, dir, &name, FileKind::Regular).map(drop),
                    _ => fs.rename(dir, &name, dir, &new, RenameMode::Replace, ROOT),
                };
                if let Err(error) = done {
                    refuses::<()>(Err(error), &[ENOENT, EEXIST]);
                }
            }
            return;
        }
        for _ in 0..25 {
            let mut stayed = std::collections::BTreeMap::new();
            let mut from = 0;
            loop {
                let mut left = rng.random_range(1..40);
                let start = from;
                fs.readdir(dir, from, &mut |entry| {
                    if left == 0 {
                        return std::ops::ControlFlow::Break(());
                    }
                    left -= 1;
                    from = entry.next;
                    if entry.name.starts_with(b"stay") {
                        *stayed.entry(entry.name.to_vec()).or_insert(0) += 1;
                    }
                    std::ops::ControlFlow::Continue(())
                })
                .unwrap();
                if from == start {
                    break;
                }
            }
            assert_eq!(stayed.len(), 120);
            assert!(stayed.values().all(|times| *times == 1), "{stayed:?}");
        }
    });
}

/// Promise: a file that was looked up stays the same until it is forgotten, even if it is removed
/// or replaced in the meantime; then its space is freed.
pub(super) fn threads_using_removed_files(b: &mut Bench<'_>) {
    let root = b.root();
    let before = b.free();
    let dir = b.dir(root, "dir");
    together(b, |fs, thread, rng| {
        for round in 0..300 {
            let name = [b'a' + rng.random_range(0..6u8)];
            match rng.random_range(0..4) {
                0 => match fs.create(dir, &name, &node(FileKind::Regular), ROOT) {
                    Ok(attr) => {
                        let fill = [attr.ino.0.to_le_bytes()[0]; 5000];
                        assert_eq!(fs.write(attr.ino, 0, &fill, ROOT).unwrap(), 5000);
                        fs.forget(attr.ino, 1);
                    }
                    Err(error) => refuses::<()>(Err(error), &[EEXIST]),
                },
                1 => {
                    let own = format!("t{thread}-{round}").into_bytes();
                    make(fs, dir, &own, FileKind::Regular).unwrap();
                    fs.rename(dir, &own, dir, &name, RenameMode::Replace, ROOT).unwrap();
                }
                2 => {
                    if let Err(error) = fs.unlink(dir, &name) {
                        refuses::<()>(Err(error), &[ENOENT]);
                    }
                }
                _ => match fs.lookup(dir, &name) {
                    Ok(held) => {
                        for _ in 0..5 {
                            let now = fs.getattr(held.ino).unwrap();
                            assert_eq!((now.kind, now.generation), (held.kind, held.generation));
                            let mut data = vec![0; 6000];
                            let n = fs.read(held.ino, 0, &mut data).unwrap();
                            let fill = held.ino.0.to_le_bytes()[0];
                            assert!(data[..n].iter().all(|byte| *byte == fill), "another file's bytes");
                        }
                        fs.forget(held.ino, 1);
                    }
                    Err(error) => refuses::<()>(Err(error), &[ENOENT]),
                },
            }
        }
    });
    b.check();
    empty(b, b.at(root, "dir"));
    b.rmdir(root, b"dir").unwrap();
    assert_eq!(b.free(), before);
}

/// Promise: threads that use files by handles, while others remove the files and use their numbers
/// again, get those files or none, and bring none of them back.
pub(super) fn threads_using_old_handles(b: &mut Bench<'_>) {
    let root = b.root();
    let before = b.free();
    let dir = b.dir(root, "dir");
    let handles = spindle_clock::Mutex::new(Vec::new());
    together(b, |fs, _, rng| {
        for _ in 0..500 {
            let name = [b'a' + rng.random_range(0..6u8)];
            match rng.random_range(0..4) {
                0 => match fs.create(dir, &name, &node(FileKind::Regular), ROOT) {
                    Ok(attr) => {
                        handles.lock().push((attr.ino, attr.generation));
                        fs.forget(attr.ino, 1);
                    }
                    Err(error) => refuses::<()>(Err(error), &[EEXIST]),
                },
                1 => {
                    if let Err(error) = fs.unlink(dir, &name) {
                        refuses::<()>(Err(error), &[ENOENT]);
                    }
                }
                _ => {
                    let known = handles.lock().len();
                    if known == 0 {
                        continue;
                    }
                    let (ino, generation) = handles.lock()[rng.random_range(known / 2..known)];
                    match fs.reference(ino) {
                        Ok(found) => {
                            if found.generation == generation {
                                fs.write(ino, 0, &generation.to_le_bytes(), ROOT).unwrap();
                                let mut bytes = [0; 8];
                                assert_eq!(fs.read(ino, 0, &mut bytes).unwrap(), 8);
                                assert_eq!(bytes, generation.to_le_bytes(), "another file's bytes");
                                assert_eq!(fs.getattr(ino).unwrap().generation, generation);
                            }
                            fs.forget(ino, 1);
                        }
                        Err(error) => refuses::<()>(Err(error), &[ESTALE]),
                    }
                }
            }
        }
    });
    b.check();
    empty(b, b.at(root, "dir"));
    b.rmdir(root, b"dir").unwrap();
    assert_eq!(b.free(), before);
}
