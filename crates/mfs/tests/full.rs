//! Sets without free space: whatever is full, and whatever is done, an operation is done or refused
//! with ENOSPC and changes nothing; what gives space back is never refused.

mod support;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use spindle_conformance::random::seed;
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::check::check;
use spindle_mfs::newfs::{Member, NewArea, Wishes, make};
use spindle_mfs::{Class, Mfs, OpenOptions, Role, Set};
use spindle_vfs::{
    Attr, Error, FallocateMode, FileKind, FileSystem, Ino, NewNode, Privilege, RenameMode, Result, SetAttr,
    XattrMode,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Barrier};
use support::{cases, clock};

const BY: Privilege = Privilege::Root;
/// Bytes of a data block.
const BLOCK: u64 = 512;
/// How much of the filling is taken away again before an operation.
const LEVELS: [u64; 6] = [0, 1, 2, 4, 9, 40];

type Media = Vec<Arc<MemoryDevice>>;

/// What is full.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Full {
    /// Control storage, with headers of files.
    Headers,
    /// Control storage, with names.
    Names,
    /// Control storage, with overflow headers of one file.
    Extents,
    /// Control storage, with attributes.
    Attributes,
    /// Data storage.
    Data,
}

const ALL: [Full; 5] = [Full::Headers, Full::Names, Full::Extents, Full::Attributes, Full::Data];

/// An operation in the directory `keep` and `tag`, or with a name that ends in `tag` in `shared`.
struct Operation {
    name: &'static str,
    /// It gives space back.
    frees: bool,
    run: fn(&Mfs, &str) -> Result<()>,
}

const fn takes(name: &'static str, run: fn(&Mfs, &str) -> Result<()>) -> Operation {
    Operation { name, frees: false, run }
}

const fn frees(name: &'static str, run: fn(&Mfs, &str) -> Result<()>) -> Operation {
    Operation { name, frees: true, run }
}

const OPERATIONS: &[Operation] = &[
    takes("create", |fs, tag| enter(fs, &new(tag), FileKind::Regular, b"")),
    takes("mkdir", |fs, tag| enter(fs, &new(tag), FileKind::Directory, b"")),
    takes("short symlink", |fs, tag| enter(fs, &new(tag), FileKind::Symlink, b"there")),
    takes("long symlink", |fs, tag| enter(fs, &new(tag), FileKind::Symlink, &[b'l'; 3000])),
    takes("link", |fs, tag| {
        let ino = keep(fs, tag, "plain");
        fs.link(ino, at(fs, "/shared"), new(tag).as_bytes(), BY).map(|_| fs.forget(ino, 1))
    }),
    takes("rename", |fs, tag| {
        let (from, to, name) = (keep(fs, tag, ""), at(fs, "/shared"), new(tag));
        fs.rename(from, b"plain", to, name.as_bytes(), RenameMode::NoReplace, BY)
    }),
    takes("rename of a directory", |fs, tag| {
        let (from, to, name) = (keep(fs, tag, ""), at(fs, "/shared"), new(tag));
        fs.rename(from, b"some", to, name.as_bytes(), RenameMode::NoReplace, BY)
    }),
    takes("rename over another", |fs, tag| {
        let dir = keep(fs, tag, "");
        fs.rename(dir, b"plain", dir, b"data", RenameMode::Replace, BY)
    }),
    takes("append", |fs, tag| whole(fs.write(keep(fs, tag, "data"), 3000, &[4; 2000], BY), 2000)),
    takes("write in place", |fs, tag| whole(fs.write(keep(fs, tag, "data"), 10, &[4; 2000], BY), 2000)),
    takes("write into a hole", |fs, tag| whole(fs.write(keep(fs, tag, "sparse"), 2560, &[4; 512], BY), 512)),
    takes("write to an immediate file", |fs, tag| {
        whole(fs.write(keep(fs, tag, "plain"), 50, &[4; 900], BY), 900)
    }),
    takes("growth", |fs, tag| resize(fs, keep(fs, tag, "plain"), 5000)),
    takes("allocation", |fs, tag| {
        fs.fallocate(keep(fs, tag, "data"), FallocateMode::Allocate { keep_size: true }, 0, 9000, BY)
    }),
    takes("punch", |fs, tag| fs.fallocate(keep(fs, tag, "data"), FallocateMode::PunchHole, 1024, 512, BY)),
    takes("setxattr", |fs, tag| {
        fs.setxattr(keep(fs, tag, "plain"), b"user.new", &[4; 1500], XattrMode::Set, BY)
    }),
    takes("longer attribute", |fs, tag| {
        fs.setxattr(keep(fs, tag, "marked"), b"user.old", &[4; 1900], XattrMode::Replace, BY)
    }),
    frees("shorter attribute", |fs, tag| {
        fs.setxattr(keep(fs, tag, "marked"), b"user.old", &[4; 500], XattrMode::Replace, BY)
    }),
    frees("removexattr", |fs, tag| fs.removexattr(keep(fs, tag, "marked"), b"user.old")),
    frees("unlink", |fs, tag| fs.unlink(keep(fs, tag, ""), b"sparse")),
    frees("unlink of a link", |fs, tag| fs.unlink(keep(fs, tag, "some"), b"07")),
    frees("rmdir", |fs, tag| fs.rmdir(keep(fs, tag, ""), b"empty")),
    frees("truncate", |fs, tag| resize(fs, keep(fs, tag, "sparse"), 20_000)),
    frees("truncate to nothing", |fs, tag| resize(fs, keep(fs, tag, "data"), 0)),
    frees("chmod", |fs, tag| {
        let set = SetAttr { perm: Some(0o600), ..SetAttr::default() };
        fs.setattr(keep(fs, tag, "plain"), &set, BY).map(drop)
    }),
];

fn new(tag: &str) -> String {
    format!("new{}{tag}", "-".repeat(200))
}

fn at(fs: &Mfs, path: &str) -> Ino {
    path.split('/').filter(|name| !name.is_empty()).fold(fs.root(), |dir, name| {
        let ino = fs.lookup(dir, name.as_bytes()).unwrap().ino;
        fs.forget(ino, 1);
        ino
    })
}

fn keep(fs: &Mfs, tag: &str, name: &str) -> Ino {
    at(fs, &format!("/keep{tag}/{name}"))
}

fn resize(fs: &Mfs, ino: Ino, size: u64) -> Result<()> {
    fs.setattr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }, BY).map(drop)
}

/// Takes a write that was done in part for one that was interrupted.
fn whole(written: Result<usize>, wanted: usize) -> Result<()> {
    if written? == wanted { Ok(()) } else { Err(Error::Interrupted) }
}

fn make_in(fs: &Mfs, dir: Ino, name: &str, kind: FileKind, target: &[u8]) -> Result<Ino> {
    let node = NewNode { target, ..NewNode::new(kind, 0o755) };
    let ino = fs.create(dir, name.as_bytes(), &node, BY)?.ino;
    fs.forget(ino, 1);
    Ok(ino)
}

fn enter(fs: &Mfs, name: &str, kind: FileKind, target: &[u8]) -> Result<()> {
    make_in(fs, at(fs, "/shared"), name, kind, target).map(drop)
}

fn branch(media: &Media) -> Media {
    media.iter().map(|device| Arc::new(device.branch())).collect()
}

fn set(media: &Media) -> Set {
    Set::open(&media.iter().map(|device| device.clone() as Arc<dyn Device>).collect::<Vec<_>>()).unwrap()
}

fn open(media: &Media) -> Mfs {
    let fs = Mfs::open(&set(media), clock(), &OpenOptions::default()).unwrap();
    assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
    fs
}

fn assert_clean(media: &Media, what: &str) {
    let set = set(media);
    assert!(set.storage_use().unwrap().classes[1..].iter().all(|share| share.used == 0), "{what}");
    let report = check(&set, 100, &mut |_| ()).unwrap();
    assert!(report.findings.is_empty(), "{what}: {:#?}", report.findings);
}

/// Returns the members of a new set, of which little has to be filled. It has a second class of
/// data, which stays empty: one that is full does not get the space of another.
fn members(full: Full, checksums: bool) -> Media {
    let (control, data) = match full {
        Full::Data => (1024, 512),
        Full::Extents => (256, 8192),
        _ => (384, 2048),
    };
    let media = [control, data, 1280, 512].map(|kib| Arc::new(MemoryDevice::new(kib << 10)));
    let roles = [Role::Control, Role::Data, Role::Log];
    let members = media.iter().zip(roles).map(|(device, role)| Member::of(device.clone(), role));
    let other = NewArea { class: 1, part: Some(1), ..NewArea::of(Role::Data) };
    let other = Member { device: media[3].clone(), areas: vec![other] };
    let mut wishes = Wishes::new();
    wishes.parameters.block_bytes = 1024;
    wishes.parameters.cylinder_bytes = 16 << 10;
    wishes.parameters.data_block_bytes = 512;
    wishes.parameters.track_blocks = 8;
    wishes.parameters.stripe_bytes = 4096;
    wishes.parameters.checksums = checksums;
    wishes.classes = vec![Class { name: "other".parse().unwrap(), structure: wishes.parameters.structure() }];
    make(&members.chain([other]).collect::<Vec<_>>(), &wishes, &*clock(), &mut StdRng::seed_from_u64(5))
        .unwrap();
    media.into()
}

/// Makes what operations need.
fn prepare(fs: &Mfs) {
    make_in(fs, fs.root(), "shared", FileKind::Directory, b"").unwrap();
    make_in(fs, fs.root(), "fill", FileKind::Directory, b"").unwrap();
    for tag in ["0", "1"] {
        let dir = make_in(fs, fs.root(), &format!("keep{tag}"), FileKind::Directory, b"").unwrap();
        let file = |name| make_in(fs, dir, name, FileKind::Regular, b"").unwrap();
        let write = |ino, at, len: usize| assert_eq!(fs.write(ino, at, &vec![3; len], BY).unwrap(), len);
        write(file("plain"), 0, 100);
        write(file("data"), 0, 3000);
        let sparse = file("sparse");
        (0..82).for_each(|n| write(sparse, n * 3 * BLOCK, 512));
        fs.setxattr(file("marked"), b"user.old", &[3; 900], XattrMode::Set, BY).unwrap();
        make_in(fs, dir, "empty", FileKind::Directory, b"").unwrap();
        let some = make_in(fs, dir, "some", FileKind::Directory, b"").unwrap();
        for n in 0..12 {
            fs.link(at(fs, &format!("/keep{tag}/plain")), some, format!("{n:02}").as_bytes(), BY).unwrap();
            fs.forget(keep(fs, tag, "plain"), 1);
        }
    }
}

fn filler(n: u64) -> String {
    format!("{n}{}", "f".repeat(100))
}

/// Fills something; returns the number of units that were found room for.
fn fill(fs: &Mfs, full: Full) -> u64 {
    let dir = at(fs, "/fill");
    let file = || make_in(fs, dir, "file", FileKind::Regular, b"");
    let one: Box<dyn Fn(u64) -> Result<()>> = match full {
        Full::Headers => Box::new(|n| make_in(fs, dir, &n.to_string(), FileKind::Regular, b"").map(drop)),
        Full::Names => {
            let ino = file().unwrap();
            Box::new(move |n| fs.link(ino, dir, filler(n).as_bytes(), BY).map(|_| fs.forget(ino, 1)))
        }
        Full::Extents => {
            let ino = file().unwrap();
            Box::new(move |n| whole(fs.write(ino, n * 2 * BLOCK, &[5; 512], BY), 512))
        }
        Full::Attributes => Box::new(|n| {
            let ino = make_in(fs, dir, &n.to_string(), FileKind::Regular, b"")?;
            fs.setxattr(ino, b"user.fill", &[5; 1300], XattrMode::Set, BY)
        }),
        Full::Data => {
            let ino = file().unwrap();
            Box::new(move |n| whole(fs.write(ino, n * BLOCK, &[5; 512], BY), 512))
        }
    };
    for n in 0.. {
        match one(n) {
            Ok(()) => {}
            Err(error) => {
                assert!(matches!(error, Error::NoSpace), "{full:?}: {error}");
                let single =
                    |n: &u64| make_in(fs, dir, &format!("single{n}"), FileKind::Regular, b"").is_ok();
                if full == Full::Attributes {
                    // What is too little for attributes is enough for files.
                    (0..u64::MAX).take_while(single).for_each(drop);
                }
                return n;
            }
        }
    }
    unreachable!("all sets are finite")
}

/// Takes away the last `count` of `units`.
fn empty(fs: &Mfs, full: Full, units: u64, count: u64) {
    let dir = at(fs, "/fill");
    let left = units.saturating_sub(count);
    match full {
        Full::Headers | Full::Attributes => {
            (left..units).for_each(|n| fs.unlink(dir, n.to_string().as_bytes()).unwrap());
        }
        Full::Names => (left..units).for_each(|n| fs.unlink(dir, filler(n).as_bytes()).unwrap()),
        Full::Extents => resize(fs, at(fs, "/fill/file"), left * 2 * BLOCK).unwrap(),
        Full::Data => resize(fs, at(fs, "/fill/file"), left * BLOCK).unwrap(),
    }
}

/// Returns a set that is full but for `count` units.
fn filled(full: Full, count: u64, checksums: bool) -> Media {
    let media = members(full, checksums);
    let fs = open(&media);
    prepare(&fs);
    let units = fill(&fs, full);
    let stat = fs.statfs().unwrap();
    match full {
        Full::Headers | Full::Attributes | Full::Extents => {
            assert!(stat.ffree == 0 && stat.bfree > 0, "{stat:?}");
        }
        Full::Names => assert!(stat.bfree > 0, "{stat:?}"),
        Full::Data => assert!(stat.bfree == 0 && stat.ffree > 0, "{stat:?}"),
    }
    empty(&fs, full, units, count);
    fs.unmount().unwrap();
    assert_clean(&media, &format!("{full:?}"));
    media
}

/// What can be seen of a file: its attributes, its bytes or target, its extended attributes.
type Seen = (Attr, Vec<u8>, Vec<Vec<u8>>);
type Tree = BTreeMap<String, Seen>;

/// Returns everything that can be seen but access times; of the filling only the names.
fn snapshot(fs: &Mfs) -> Tree {
    let mut tree = Tree::new();
    let mut rest = vec![(String::new(), fs.root())];
    while let Some((path, ino)) = rest.pop() {
        let attr = fs.getattr(ino).unwrap();
        let attr = Attr { atime: attr.mtime, ..attr };
        let mut bytes = Vec::new();
        match attr.kind {
            FileKind::Directory => fs
                .readdir(ino, 0, &mut |entry| {
                    if !matches!(entry.name, b"." | b"..") {
                        rest.push((format!("{path}/{}", entry.name.escape_ascii()), entry.ino));
                    }
                    ControlFlow::Continue(())
                })
                .unwrap(),
            FileKind::Symlink => bytes = fs.readlink(ino).unwrap(),
            _ if path.starts_with("/fill") => {}
            _ => {
                bytes.resize(usize::try_from(attr.size).unwrap(), 0);
                assert_eq!(fs.read(ino, 0, &mut bytes).unwrap(), bytes.len());
            }
        }
        let values = fs.listxattr(ino).unwrap().into_iter().map(|name| fs.getxattr(ino, &name).unwrap());
        let values = values.collect();
        tree.insert(path, (attr, bytes, values));
    }
    tree
}

fn difference<'t>(before: &'t Tree, after: &'t Tree) -> Option<&'t String> {
    let paths = before.keys().chain(after.keys());
    paths.into_iter().find(|path| before.get(*path) != after.get(*path))
}

/// Removes everything, which must be possible; all space must be free then.
fn remove_all(fs: &Mfs, dir: Ino, what: &str) {
    let mut names = Vec::new();
    fs.readdir(dir, 0, &mut |entry| {
        names.push((entry.name.to_vec(), entry.ino, entry.kind));
        ControlFlow::Continue(())
    })
    .unwrap();
    for (name, ino, kind) in names.into_iter().filter(|(name, ..)| !matches!(&name[..], b"." | b"..")) {
        let removed = if kind == Some(FileKind::Directory) {
            remove_all(fs, ino, what);
            fs.rmdir(dir, &name)
        } else {
            fs.unlink(dir, &name)
        };
        assert!(removed.is_ok(), "{what}: {} {removed:?}", name.escape_ascii());
    }
}

/// Promise: on a set that is full of anything, and almost full, each operation is done, or refused
/// with ENOSPC and changes nothing that can be seen, free space included; what gives space back is
/// done. The check finds nothing afterwards, and a remount sees the same.
#[test]
fn each_operation_is_done_or_refused() {
    for (full, checksums) in ALL.into_iter().flat_map(|full| [(full, false), (full, true)]) {
        let (mut refused, mut done) = (0, 0);
        for level in LEVELS {
            let media = filled(full, level, checksums);
            for Operation { name, frees, run } in OPERATIONS {
                let what = format!("{full:?}, {level} less, {name}, checksums: {checksums}");
                let media = branch(&media);
                let fs = open(&media);
                let (before, free) = (snapshot(&fs), fs.statfs().unwrap());
                let result = run(&fs, "0");
                let after = snapshot(&fs);
                match result {
                    Ok(()) => done += 1,
                    Err(Error::NoSpace) if !frees => {
                        refused += 1;
                        let stat = fs.statfs().unwrap();
                        assert_eq!(difference(&before, &after), None, "{what}");
                        assert_eq!((stat.bfree, stat.ffree), (free.bfree, free.ffree), "{what}");
                    }
                    Err(Error::Interrupted) => {}
                    Err(error) => panic!("{what}: {error}"),
                }
                fs.unmount().unwrap();
                drop(fs);
                assert_clean(&media, &what);
                let fs = open(&media);
                assert_eq!(difference(&after, &snapshot(&fs)), None, "{what}, after a remount");
                // What was refused is possible when there is space.
                if level == 0 && !frees {
                    remove_all(&fs, at(&fs, "/fill"), &what);
                    run(&fs, if result_is_done(&before, &after) { "1" } else { "0" })
                        .unwrap_or_else(|error| panic!("{what}, with space: {error}"));
                }
                fs.unmount().unwrap();
            }
        }
        assert!(refused > 5 && done > 10, "{full:?}: {refused} refused, {done} done");
    }
}

fn result_is_done(before: &Tree, after: &Tree) -> bool {
    difference(before, after).is_some()
}

/// Promise: from a full set everything can be removed, without a sync or an unmount in between, and
/// all space is free then.
#[test]
fn everything_can_be_removed() {
    for (full, checksums) in ALL.into_iter().flat_map(|full| [(full, false), (full, true)]) {
        let what = format!("{full:?}, checksums: {checksums}");
        let media = filled(full, 0, checksums);
        let fs = open(&media);
        remove_all(&fs, fs.root(), &what);
        let (emptied, fresh) = (fs.statfs().unwrap(), open(&members(full, checksums)).statfs().unwrap());
        assert_eq!((emptied.bfree, emptied.ffree), (fresh.bfree, fresh.ffree), "{what}");
        assert_eq!(emptied.files, fresh.files, "{what}");
        prepare(&fs);
        assert!(fill(&fs, full) > 0);
        fs.unmount().unwrap();
        assert_clean(&media, &what);
    }
}

/// Promise: headers whose files are gone make room for names at once, and `statfs` counts as files
/// what is in use and what can still be made: names take from the second, and count as no files.
#[test]
fn headers_make_room_for_names() {
    let media = members(Full::Headers, false);
    let fs = open(&media);
    let (dir, other) = (
        make_in(&fs, fs.root(), "fill", FileKind::Directory, b"").unwrap(),
        make_in(&fs, fs.root(), "other", FileKind::Directory, b"").unwrap(),
    );
    let used = || {
        let stat = fs.statfs().unwrap();
        stat.files - stat.ffree
    };
    assert_eq!(used(), 3, "the root and two directories");
    let node = NewNode::new(FileKind::Regular, 0o644);
    // Until no header is left, or no room for a name; they are open when they are removed.
    let files: Vec<_> =
        (0..).map_while(|n| fs.create(dir, format!("{n}").as_bytes(), &node, BY).ok()).collect();
    assert_eq!(used(), 3 + files.len() as u64);
    assert!(fs.statfs().unwrap().ffree < 28);
    let count = files.len();
    (0..count).for_each(|n| fs.unlink(dir, format!("{n}").as_bytes()).unwrap());
    fs.sync().unwrap();
    assert_eq!(used(), 3 + count as u64);
    for attr in files {
        fs.forget(attr.ino, 1);
    }
    assert_eq!(used(), 3);
    let before = fs.statfs().unwrap();
    // Two names in a block.
    let one = make_in(&fs, other, "one", FileKind::Regular, b"").unwrap();
    let link = |n: &usize| fs.link(one, other, filler(*n as u64).as_bytes(), BY).is_ok();
    let links = (0..usize::MAX).take_while(link).count();
    fs.forget(one, 1 + links as u64);
    assert!(links > 1000, "{links}");
    assert_eq!(used(), 4);
    let after = fs.statfs().unwrap();
    assert!(after.files < before.files / 4, "{before:?} {after:?}");
    fs.unmount().unwrap();
    assert_clean(&media, "in the end");
}

/// Promise: with the largest blocks and the smallest log, no operation changes more than it has
/// reserved of the log, and none is refused: one that changes names in two directories, with nodes
/// that are divided, changes most of several blocks.
#[test]
fn large_blocks_and_a_small_log() {
    let media = [24 << 10, 1024, 1280].map(|kib| Arc::new(MemoryDevice::new(kib << 10)));
    let roles = [Role::Control, Role::Data, Role::Log];
    let members = media.iter().zip(roles).map(|(device, role)| Member::of(device.clone(), role));
    let mut wishes = Wishes::new();
    wishes.parameters.block_bytes = 64 << 10;
    wishes.parameters.track_blocks = 8;
    make(&members.collect::<Vec<_>>(), &wishes, &*clock(), &mut StdRng::seed_from_u64(5)).unwrap();
    let media: Media = media.into();
    let fs = open(&media);
    let dirs = ["a", "b"].map(|name| make_in(&fs, fs.root(), name, FileKind::Directory, b"").unwrap());
    let ino = make_in(&fs, fs.root(), "file", FileKind::Regular, b"").unwrap();
    for n in 0..1000 {
        fs.link(ino, dirs[0], filler(n * 2).as_bytes(), BY).unwrap();
        fs.link(ino, dirs[1], filler(n * 2 + 1).as_bytes(), BY).unwrap();
    }
    fs.forget(ino, 2000);
    let mut rng = StdRng::seed_from_u64(5);
    for _ in 0..300 {
        // What an epoch has changed already takes no more of the log.
        fs.sync().unwrap();
        let n = rng.random_range(0..1000) * 2;
        let (from, to) = if fs.lookup(dirs[0], filler(n).as_bytes()).is_ok() { (0, 1) } else { (1, 0) };
        let name = filler(n);
        fs.rename(dirs[from], name.as_bytes(), dirs[to], name.as_bytes(), RenameMode::Replace, BY).unwrap();
    }
    fs.unmount().unwrap();
    assert_clean(&media, "in the end");
}

/// Promise: of two operations at the same time on a full or almost full set each is done, or
/// refused with ENOSPC and changes nothing; neither waits for ever.
#[test]
fn torture_two_at_once() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test full torture_two_at_once");
    let mut rng = StdRng::seed_from_u64(seed);
    for case in 0..cases(12) {
        let full = *ALL.choose(&mut rng).unwrap();
        let level = *LEVELS.choose(&mut rng).unwrap();
        let checksums = rng.random();
        let media = filled(full, level, checksums);
        for _ in 0..30 {
            let media = branch(&media);
            let fs = open(&media);
            let before = snapshot(&fs);
            let pair = [0, 1].map(|_| &OPERATIONS[rng.random_range(0..OPERATIONS.len())]);
            let what = format!(
                "seed {seed}, case {case}: {full:?}, {level} less, {}, {}, checksums: {checksums}",
                pair[0].name, pair[1].name
            );
            let barrier = Barrier::new(2);
            let results = std::thread::scope(|scope| {
                let started = [0, 1].map(|n| {
                    let (fs, barrier, operation) = (&fs, &barrier, pair[n]);
                    scope.spawn(move || {
                        barrier.wait();
                        (operation.run)(fs, &n.to_string())
                    })
                });
                started.map(|thread| thread.join().unwrap())
            });
            let after = snapshot(&fs);
            for (n, (result, operation)) in results.into_iter().zip(pair).enumerate() {
                let (kept, new) = (format!("/keep{n}"), new(&n.to_string()));
                let part = |tree: &Tree| -> Tree {
                    let ours = |path: &str| path.starts_with(&kept) || path.ends_with(&new);
                    tree.iter()
                        .filter(|(path, _)| ours(path))
                        .map(|(path, seen)| (path.clone(), seen.clone()))
                        .collect()
                };
                match result {
                    Ok(()) | Err(Error::Interrupted) => {}
                    Err(Error::NoSpace) if !operation.frees => {
                        assert_eq!(difference(&part(&before), &part(&after)), None, "{what}");
                    }
                    Err(error) => panic!("{what}: {error}"),
                }
            }
            fs.unmount().unwrap();
            drop(fs);
            assert_clean(&media, &what);
            let fs = open(&media);
            assert_eq!(difference(&after, &snapshot(&fs)), None, "{what}, after a remount");
        }
    }
}
