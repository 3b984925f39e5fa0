//! Reading directories, and large ones.

use super::bench::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use spindle_vfs::{FileKind, Ino};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Reads at most `count` entries from a cookie. Returns the entries, and true at the end.
fn some(b: &Bench<'_>, dir: Ino, from: u64, count: usize) -> (Vec<(Vec<u8>, u64)>, bool) {
    let mut entries = Vec::new();
    let mut ended = true;
    b.readdir(dir, from, &mut |entry| {
        if entries.len() == count {
            ended = false;
            return ControlFlow::Break(());
        }
        entries.push((entry.name.to_vec(), entry.next));
        ControlFlow::Continue(())
    })
    .unwrap();
    (entries, ended)
}

/// Promise: `readdir` passes `.`, `..` and every name once, with the number and kind that `lookup`
/// returns.
pub(super) fn readdir_lists_everything_once(b: &mut Bench<'_>) {
    let root = b.root();
    let dir = b.dir(root, "dir");
    for i in 0..50 {
        b.make(dir, format!("e{i}"), if i % 3 == 0 { FileKind::Directory } else { FileKind::Regular });
    }
    for _ in 0..2 {
        let mut seen = BTreeMap::new();
        b.readdir(dir, 0, &mut |entry| {
            assert!(seen.insert(entry.name.to_vec(), (entry.ino, entry.kind)).is_none(), "{:?}", entry.name);
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(seen.len(), 52);
        assert_eq!((seen[&b".".to_vec()].0, seen[&b"..".to_vec()].0), (dir, root));
        for (name, (ino, kind)) in &seen {
            let attr = b.peek(dir, name).unwrap();
            assert_eq!(attr.ino, *ino);
            assert!(kind.is_none_or(|kind| kind == attr.kind));
        }
        b.remount();
    }
}

/// Promise: a walk can stop after any entry and continue from its cookie, in pieces of any size,
/// repeatedly.
pub(super) fn readdir_continues_from_any_cookie(b: &mut Bench<'_>) {
    let dir = b.dir(b.root(), "dir");
    for i in 0..200 {
        b.file(dir, format!("name-{i}"));
    }
    let (all, ended) = some(b, dir, 0, usize::MAX);
    assert!(ended);
    assert_eq!(all.len(), 202);
    for count in [1, 2, 3, 7, 50, 201, 202] {
        let mut found = Vec::new();
        let mut from = 0;
        loop {
            let (part, ended) = some(b, dir, from, count);
            from = part.last().map_or(from, |entry| entry.1);
            found.extend(part);
            if ended {
                break;
            }
        }
        assert_eq!(found, all, "in pieces of {count}");
    }
    for at in (0..all.len()).rev() {
        let (rest, _) = some(b, dir, all[at].1, usize::MAX);
        assert_eq!(rest, all[at + 1..], "after entry {at}");
    }
}

/// Promise: names that exist during a whole walk are passed exactly once, whatever is created,
/// removed and renamed between its steps; a name that never existed is not passed.
pub(super) fn readdir_is_stable_while_names_change(b: &mut Bench<'_>) {
    let dir = b.dir(b.root(), "dir");
    let mut rng = StdRng::seed_from_u64(6);
    for round in 0..6 {
        let stay: BTreeSet<Vec<u8>> = (0..150).map(|i| format!("s{round}-{i}").into_bytes()).collect();
        let mut go: Vec<Vec<u8>> = (0..150).map(|i| format!("g{round}-{i}").into_bytes()).collect();
        let mut both: Vec<_> = stay.iter().chain(&go).cloned().collect();
        both.shuffle(&mut rng);
        for name in &both {
            let ino = b.file(dir, name);
            b.forget(ino, 1);
        }
        let mut ever: BTreeSet<Vec<u8>> = both.into_iter().collect();
        let mut seen = BTreeMap::new();
        let mut from = 0;
        let mut fresh = 0;
        loop {
            let (part, ended) = some(b, dir, from, rng.random_range(1..20));
            from = part.last().map_or(from, |entry| entry.1);
            for (name, _) in part {
                *seen.entry(name).or_insert(0) += 1;
            }
            if ended {
                break;
            }
            for _ in 0..8 {
                let new = format!("n{round}-{fresh}").into_bytes();
                fresh += 1;
                let at = rng.random_range(0..=go.len());
                match (go.get(at).cloned(), rng.random_range(0..3)) {
                    (Some(name), 0) => {
                        b.mv((dir, &name), (dir, &new), spindle_vfs::RenameMode::Replace).unwrap();
                        go[at].clone_from(&new);
                        ever.insert(new);
                    }
                    (Some(name), 1) => {
                        b.unlink(dir, &name).unwrap();
                        go.swap_remove(at);
                    }
                    _ if fresh < 400 => {
                        let ino = b.file(dir, &new);
                        b.forget(ino, 1);
                        go.push(new.clone());
                        ever.insert(new);
                    }
                    _ => {}
                }
            }
        }
        for name in &stay {
            let times = seen.get(name).copied().unwrap_or(0);
            assert_eq!(times, 1, "{} was passed {times} times", String::from_utf8_lossy(name));
        }
        for name in seen.keys().filter(|name| *name != b"." && *name != b"..") {
            assert!(ever.contains(name), "{} never was there", String::from_utf8_lossy(name));
        }
        for name in stay.iter().chain(&go) {
            b.unlink(dir, name).unwrap();
        }
    }
}

/// Promise: only directories can be listed, and a cookie beyond the end returns no entries.
pub(super) fn readdir_refuses(b: &mut Bench<'_>) {
    let root = b.root();
    let file = b.file(root, "file");
    refuses(b.readdir(file, 0, &mut |_| ControlFlow::Continue(())), &[ENOTDIR]);
    let (all, _) = some(b, root, 0, usize::MAX);
    let end = all.last().unwrap().1;
    assert!(some(b, root, end, usize::MAX).0.is_empty());
}

/// Promise: thousands of names in one directory are found, listed, and removed in any order.
pub(super) fn many_names(b: &mut Bench<'_>) {
    let before = b.free();
    let dir = b.dir(b.root(), "dir");
    let count = (b.statfs().unwrap().ffree.saturating_sub(10)).min(5000);
    let name = |i: u64| format!("{:04}{}", i, &"abcdefghij"[..(i % 11) as usize]).into_bytes();
    for i in 0..count {
        let ino = b.file(dir, name(i));
        b.forget(ino, 1);
    }
    b.remount();
    assert_eq!(b.list(dir).len() as u64, count);
    for i in 0..count {
        assert_eq!(b.peek(dir, name(i)).unwrap().kind, FileKind::Regular);
    }
    refuses(b.lookup(dir, b"none"), &[ENOENT]);
    let mut order: Vec<u64> = (0..count).collect();
    order.shuffle(&mut StdRng::seed_from_u64(7));
    for (done, i) in order.iter().enumerate() {
        b.unlink(dir, &name(*i)).unwrap();
        refuses(b.unlink(dir, &name(*i)), &[ENOENT]);
        if done as u64 == count / 2 {
            assert_eq!(b.list(dir).len() as u64, count - done as u64 - 1);
        }
    }
    assert!(b.list(dir).is_empty());
    b.rmdir(b.root(), b"dir").unwrap();
    assert_eq!(b.free(), before);
}

/// Promise: a directory that was filled and emptied in any order is empty: its slots are reused,
/// and it can be removed.
pub(super) fn emptied_directory_can_be_removed(b: &mut Bench<'_>) {
    let mut rng = StdRng::seed_from_u64(8);
    let dir = b.dir(b.root(), "dir");
    let mut names: BTreeSet<Vec<u8>> = BTreeSet::new();
    let max = b.limits().name_max;
    for round in 0..800 {
        if rng.random_bool(0.55) {
            let mut name = format!("{round}").into_bytes();
            name.resize(rng.random_range(name.len()..=max), b'-');
            let ino = b.file(dir, &name);
            b.forget(ino, 1);
            names.insert(name);
        } else if let Some(name) = names.iter().nth(rng.random_range(0..=names.len())).cloned() {
            b.unlink(dir, &name).unwrap();
            names.remove(&name);
        }
        if round % 100 == 0 {
            assert_eq!(b.sorted(dir), names.iter().cloned().collect::<Vec<_>>());
        }
    }
    refuses(b.rmdir(b.root(), b"dir"), &[ENOTEMPTY]);
    for name in names {
        b.unlink(dir, &name).unwrap();
    }
    b.remount();
    b.rmdir(b.root(), b"dir").unwrap();
}

/// Promise: directories can be nested deeply, and `..` leads back to the root.
pub(super) fn deep_directories(b: &mut Bench<'_>) {
    let root = b.root();
    let mut path = vec![root];
    for _ in 0..120 {
        let dir = b.dir(path[path.len() - 1], "d");
        path.push(dir);
    }
    b.remount();
    let mut at = path[120];
    for parent in path[..120].iter().rev() {
        at = b.at(at, "..");
        assert_eq!(at, *parent);
    }
    for parent in path[..120].iter().rev() {
        b.rmdir(*parent, b"d").unwrap();
    }
    assert_eq!(b.nlink(root), 2);
}
