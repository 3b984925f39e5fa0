//! Damaged and malicious sets: whatever their bytes are, nothing panics, hangs or uses memory
//! without bound.
//!
//! Structures are changed at random and get a right checksum again, so that the changes reach the
//! code behind the checksums.

#[path = "support/structures.rs"]
mod structures;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use spindle_clock::ManualClock;
use spindle_conformance::random::seed;
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::check::{check, repair};
use spindle_mfs::newfs::{Member, NewArea, Wishes, make};
use spindle_mfs::{Class, Fingerprint, Mfs, OpenOptions, ReadOnlyClass, Role, Set, Structure};
use spindle_vfs::{Extent, FileKind, FileSystem, Ino, NewNode, Privilege, Rdev, Result, SetAttr, XattrMode};
use std::ops::ControlFlow;
use std::sync::Arc;
use structures::{STRUCTURES, seal};

const BY: Privilege = Privilege::Root;
fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(1_000_000_000))
}

fn make_file(fs: &Mfs, dir: Ino, name: &str, kind: FileKind) -> Result<Ino> {
    let target: &[u8] = if kind == FileKind::Symlink { b"somewhere" } else { b"" };
    let node = NewNode { kind, perm: 0o755, uid: 0, gid: 0, masked: 0, rdev: Rdev::default(), target };
    let ino = fs.create(dir, name.as_bytes(), &node, BY)?.ino;
    fs.forget(ino, 1);
    Ok(ino)
}

/// Returns the device of a read-only class.
fn disc() -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new(128 << 10))
}

/// Makes the disc a read-only class of a set.
fn attach(set: &Set) {
    let area = Some(Fingerprint::read(&*disc(), &mut |_| Ok(())).unwrap());
    let class = ReadOnlyClass { name: "disc".parse().unwrap(), block_bytes: 4096, area };
    set.attach(&class, &*disc()).unwrap();
}

/// Returns a set with all structures, which was unmounted or not.
fn victim(clean: bool) -> Vec<u8> {
    let device = Arc::new(MemoryDevice::new(10 << 20));
    let mut wishes = Wishes::new();
    wishes.parameters.block_bytes = 1024;
    wishes.parameters.cylinder_bytes = 32 << 10;
    wishes.parameters.track_blocks = 8;
    let structure = Structure { block_bytes: 8192, track_blocks: 8, stripe_bytes: 4096 };
    wishes.classes = vec![Class { name: "large".parse().unwrap(), structure }];
    let mut member = Member::with_all(device.clone());
    member.areas.push(NewArea { class: 1, part: Some(1), share: 4, ..NewArea::of(Role::Data) });
    make(&[member], &wishes, &*clock(), &mut StdRng::seed_from_u64(5)).unwrap();
    let devices = [device.clone() as Arc<dyn Device>, disc()];
    attach(&Set::open(&devices[..1]).unwrap());
    let fs = Mfs::open(&Set::open(&devices).unwrap(), clock(), &OpenOptions::default()).unwrap();
    let root = fs.root();
    for n in 0..150 {
        make_file(&fs, root, &format!("file{n}{}", "y".repeat(n % 40)), FileKind::Regular).unwrap();
    }
    let dir = make_file(&fs, root, "dir", FileKind::Directory).unwrap();
    let sub = make_file(&fs, dir, "sub", FileKind::Directory).unwrap();
    fs.setxattr(sub, b"user.spindle.class", b"large", XattrMode::Set, BY).unwrap();
    make_file(&fs, sub, "link", FileKind::Symlink).unwrap();
    let sparse = make_file(&fs, sub, "sparse", FileKind::Regular).unwrap();
    for n in 0..60 {
        fs.write(sparse, n * 10_000, &[7; 100], BY).unwrap();
    }
    for (ino, len) in [(root, 100), (dir, 3000), (sparse, 1200)] {
        fs.setxattr(ino, b"user.first", &vec![8; len], XattrMode::Set, BY).unwrap();
        fs.setxattr(ino, b"system.second", b"value", XattrMode::Set, BY).unwrap();
    }
    for (name, to) in [("placed", Some(&b"default"[..])), ("rigid", None)] {
        let placed = make_file(&fs, dir, name, FileKind::Regular).unwrap();
        let run = Extent { offset: 0, at: 8192, len: 50_000 };
        fs.place(placed, 50_000, (b"disc", to), &[run]).unwrap();
    }
    fs.write(make_file(&fs, dir, "short", FileKind::Regular).unwrap(), 0, &[1; 200], BY).unwrap();
    fs.sync().unwrap();
    if clean {
        fs.unmount().unwrap();
    }
    drop(fs);
    device.to_bytes()
}

/// Changes some structures, and puts their checksums right.
fn damage(bytes: &mut [u8], rng: &mut StdRng) {
    let (magic, len, checksum) = *STRUCTURES.choose(rng).unwrap();
    let is_one = |at: &usize| bytes[*at..].starts_with(magic);
    let places: Vec<_> = (0..bytes.len()).step_by(512).filter(is_one).collect();
    let Some(&at) = places.choose(rng) else { return };
    let len = if len == 0 {
        let stored = u64::from_le_bytes(bytes[at + 32..at + 40].try_into().unwrap());
        usize::try_from(stored).unwrap().min(bytes.len() - at)
    } else {
        len
    };
    let structure = &mut bytes[at..at + len];
    for _ in 0..rng.random_range(1..5) {
        // Most of what matters is at the beginning.
        let end = [24, 140, len][rng.random_range(0..3)].min(len);
        let n = rng.random_range(magic.len()..end);
        structure[n] = match rng.random_range(0..4) {
            0 => 0,
            1 => 0xff,
            2 => structure[n] ^ 1 << rng.random_range(0..8),
            _ => rng.random(),
        };
    }
    seal(structure, checksum);
}

/// Uses everything that can be found, whatever comes of it.
fn exercise(fs: &Mfs, dir: Ino, depth: usize, rng: &mut StdRng) {
    let mut entries = Vec::new();
    let _ = fs.readdir(dir, 0, &mut |entry| {
        entries.push((entry.name.to_vec(), entry.ino));
        if entries.len() < 500 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    for (name, _) in entries {
        let Ok(attr) = fs.lookup(dir, &name) else { continue };
        if attr.kind == FileKind::Directory && depth > 0 && !matches!(&name[..], b"." | b"..") {
            exercise(fs, attr.ino, depth - 1, rng);
        }
        let _ = fs.readlink(attr.ino);
        let _ = fs.read(attr.ino, 0, &mut [0; 4096]);
        for name in fs.listxattr(attr.ino).unwrap_or_default() {
            let _ = fs.getxattr(attr.ino, &name);
        }
        match rng.random_range(0..10) {
            0 => drop(fs.write(attr.ino, rng.random_range(0..100_000), &[3; 3000], BY)),
            1 => drop(fs.setattr(attr.ino, &SetAttr { size: Some(10), ..SetAttr::default() }, BY)),
            2 => drop(fs.unlink(dir, &name)),
            3 => drop(fs.rmdir(dir, &name)),
            4 => drop(make_file(fs, dir, "new", FileKind::Directory)),
            5 => drop(fs.sync()),
            6 => drop(fs.setxattr(attr.ino, b"user.first", &[4; 700], XattrMode::Set, BY)),
            7 => drop(fs.removexattr(attr.ino, b"user.first")),
            _ => {}
        }
        fs.forget(attr.ino, 1);
    }
}

/// Promise: any change of any structure gives an error or a file system that can be used.
#[test]
fn torture_damaged_sets() {
    let cases: u64 = std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400);
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test hostile torture_damaged_sets");
    let victims = [victim(true), victim(false)];
    for case in 0..cases {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(case));
        let mut bytes = victims.choose(&mut rng).unwrap().clone();
        for _ in 0..rng.random_range(1..4) {
            damage(&mut bytes, &mut rng);
        }
        let devices = [Arc::new(MemoryDevice::from_bytes(&bytes)) as Arc<dyn Device>, disc()];
        let Ok(set) = Set::open(&devices) else { continue };
        let _ = check(&set, 100, &mut |_| ());
        if let Ok(fs) = Mfs::open(&set, clock(), &OpenOptions::default()) {
            let _ = fs.statfs();
            exercise(&fs, fs.root(), 3, &mut rng);
            let _ = fs.unmount();
        }
        let _ = check(&set, 100, &mut |_| ());
        // Sizes and places of areas may be wrong; but what is called whole can be used.
        if let Ok(repaired) = repair(&set, &*clock(), false, 100, &mut |_| ())
            && repaired.after.is_clean()
        {
            let fs = Mfs::open(&set, clock(), &OpenOptions::default()).unwrap();
            assert!(!fs.read_only(), "seed {seed}, case {case}");
            exercise(&fs, fs.root(), 3, &mut rng);
            let _ = fs.unmount();
        }
    }
}
