//! File systems with snapshots that are written to: each snapshot reads as the file system was when
//! it was made, whatever is changed, removed or cut off afterwards.

#[path = "repair/victim.rs"]
#[allow(dead_code, reason = "the tests of the repair use the rest")]
mod victim;

use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{Rng, SeedableRng};
use spindle_device::{AlignedBuf, Device, Info, MemoryDevice, Op, Request, Result, Ticket};
use spindle_ffs::newfs::{Format, Parameters, Plan, write};
use spindle_ffs::{Dialect, Ffs, Frag, Group, GroupMap, LogUse, OpenOptions, Superblock};
use spindle_ondisk::Endian;
use spindle_vfs::{
    Cred, Error, FallocateMode, FileKind, FileSystem, Ino, NewNode, Privilege, RenameMode, SetAttr, XattrMode,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use victim::{clock, damage, tree};

const BY: Privilege = Privilege::Root;
const LOG_BYTES: u64 = 2 << 20;

/// Has freed space discarded: what a snapshot needs must not be taken for free.
fn options() -> OpenOptions {
    let (log, log_bytes) = (LogUse::Wanted, Some(LOG_BYTES));
    OpenOptions { seed: Some(1), log, log_bytes, discard: true, ..OpenOptions::default() }
}

fn open(device: &Arc<MemoryDevice>) -> Ffs {
    let fs = Ffs::open(device.clone(), clock(), &options()).unwrap();
    assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
    fs
}

fn new(parameters: &Parameters) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(parameters.size_bytes));
    let plan = Plan::new(parameters).unwrap();
    write(&plan, &*device, &*clock(), &mut StdRng::seed_from_u64(5), &mut |_, _| ()).unwrap();
    device
}

/// Returns the formats that have snapshots: blocks, fragments, versions and orders of bytes.
fn formats() -> Vec<(&'static str, Parameters)> {
    let base = Parameters {
        bsize: Some(8192),
        fsize: Some(1024),
        dialect: Some(Dialect::FreeBsd),
        ..Parameters::new((24 << 20) + 3 * 1024)
    };
    vec![
        ("FreeBSD UFS2", base.clone()),
        (
            "FreeBSD UFS2, big-endian",
            Parameters { endian: Some(Endian::Big), check_hashes: false, ..base.clone() },
        ),
        ("FreeBSD UFS1", Parameters { format: Format::Ufs1, check_hashes: false, ..base.clone() }),
        ("NetBSD UFS2", Parameters { dialect: Some(Dialect::NetBsd), check_hashes: false, ..base.clone() }),
        (
            "FreeBSD UFS2, small blocks",
            Parameters { bsize: Some(4096), fsize: Some(4096), ..Parameters::new(24 << 20) },
        ),
    ]
}

fn make(fs: &Ffs, dir: Ino, name: &str, kind: FileKind) -> std::result::Result<Ino, Error> {
    let attr = fs.create(dir, name.as_bytes(), &NewNode::new(kind, 0o755), BY)?;
    fs.forget(attr.ino, 1);
    Ok(attr.ino)
}

fn find(fs: &Ffs, dir: Ino, name: &str) -> Ino {
    let attr = fs.lookup(dir, name.as_bytes()).unwrap();
    fs.forget(attr.ino, 1);
    attr.ino
}

fn unlink(fs: &Ffs, dir: Ino, name: &str) -> std::result::Result<(), Error> {
    fs.unlink(dir, name.as_bytes())
}

/// Returns what a file holds.
fn content(fs: &Ffs, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(fs.getattr(ino).unwrap().size).unwrap()];
    for (n, piece) in bytes.chunks_mut(77_777).enumerate() {
        assert_eq!(fs.read(ino, n as u64 * 77_777, piece).unwrap(), piece.len());
    }
    bytes
}

/// Returns the image that a snapshot holds, without the list behind it.
fn image(fs: &Ffs, name: &str) -> Vec<u8> {
    let layout = fs.layout();
    let mut bytes = content(fs, find(fs, fs.root(), name));
    bytes.truncate(usize::try_from(layout.fs_size << layout.fs_fshift).unwrap());
    bytes
}

/// Returns the bytes of an image where fragments that are free in it, and inodes that were never
/// used, are zeros.
fn significant(bytes: &[u8]) -> Vec<u8> {
    let device = MemoryDevice::from_bytes(bytes);
    let layout = Superblock::open(&device).unwrap().layout;
    let mut bytes = bytes.to_vec();
    for cgx in 0..layout.fs_ncg {
        let at = usize::try_from(layout.byte(layout.cgtod(cgx))).unwrap();
        let block = bytes[at..at + layout.fs_cgsize as usize].to_vec();
        let map = GroupMap::check(&layout, &block, cgx).unwrap();
        let group = Group::new(&layout, &map, &block);
        for bno in 0..map.ndblk {
            if spindle_ffs::isset(group.blksfree(), bno) {
                let at = usize::try_from(layout.byte(layout.cgbase(cgx) + u64::from(bno))).unwrap();
                bytes[at..at + layout.fs_fsize as usize].fill(0);
            }
        }
        let made = usize::try_from(group.initediblk().min(layout.fs_ipg)).unwrap() * layout.inode_size();
        let inodes = usize::try_from(layout.byte(layout.cgimin(cgx))).unwrap();
        bytes[inodes + made..inodes + layout.fs_ipg as usize * layout.inode_size()].fill(0);
    }
    bytes
}

fn assert_same(before: &[u8], after: &[u8], what: &str) {
    let layout = Superblock::open(&MemoryDevice::from_bytes(before)).unwrap().layout;
    let (before, after) = (significant(before), significant(after));
    let size = layout.fs_bsize as usize;
    for (n, (old, new)) in before.chunks(size).zip(after.chunks(size)).enumerate() {
        if old != new {
            let at = old.iter().zip(new).position(|(old, new)| old != new).unwrap();
            panic!("{what}: block {n}, byte {at} of it: {} instead of {}", new[at], old[at]);
        }
    }
    assert_eq!(before.len(), after.len(), "{what}");
}

fn bytes_of(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|n| u8::try_from((n * 7 + n / 251 + seed * 13) % 251).unwrap()).collect()
}

fn fill(fs: &Ffs, dir: Ino, name: &str, len: usize) -> Ino {
    let file = make(fs, dir, name, FileKind::Regular).unwrap();
    assert_eq!(fs.write(file, 0, &bytes_of(len, len), BY).unwrap(), len);
    file
}

/// Puts files and directories into an empty file system.
fn populate(fs: &Ffs) {
    let root = fs.root();
    for n in 0..40 {
        let dir = make(fs, root, &format!("dir{n}"), FileKind::Directory).unwrap();
        fill(fs, dir, "small", 100 + n * 700);
    }
    fill(fs, root, "large", 3 << 20);
    fill(fs, root, "gone", 1 << 20);
}

/// Changes files in every way.
fn work(fs: &Ffs, round: usize) {
    let root = fs.root();
    let large = find(fs, root, "large");
    fs.write(large, 100_000 + round as u64, &vec![9; 300_000], BY).unwrap();
    fs.write(large, 5, &[8; 10], BY).unwrap();
    fs.fallocate(large, FallocateMode::PunchHole, 700_001, 200_000, BY).unwrap();
    fs.fallocate(large, FallocateMode::ZeroRange { keep_size: true }, 1_000_001, 200_000, BY).unwrap();
    let _ = unlink(fs, root, "gone");
    for n in 0..40 {
        let dir = find(fs, root, &format!("dir{n}"));
        let file = find(fs, dir, "small");
        match (n + round) % 5 {
            0 => {
                fs.write(file, 30, &[7; 50], BY).unwrap();
            }
            1 => {
                let size = fs.getattr(file).unwrap().size;
                fs.write(file, size, &[6; 900], BY).unwrap();
            }
            2 => {
                let size = Some(fs.getattr(file).unwrap().size / 2);
                fs.setattr(file, &SetAttr { size, ..SetAttr::default() }, BY).unwrap();
            }
            3 => {
                unlink(fs, dir, "small").unwrap();
                fill(fs, dir, "small", 3000 + round * 100);
            }
            _ => {
                fs.setattr(file, &SetAttr { perm: Some(0o600), ..SetAttr::default() }, BY).unwrap();
            }
        }
    }
    fill(fs, root, &format!("new{round}"), 1 << 20);
}

/// Promise: in every version and byte order, a snapshot is the file system as it was when it was
/// made, as a check would leave it, and stays that, byte by byte, while files are changed and
/// removed, across mounts; and a check of the file system finds nothing.
#[test]
fn snapshots_stay_what_they_were() {
    for (name, parameters) in formats() {
        let device = new(&parameters);
        let fs = open(&device);
        populate(&fs);
        fs.unmount().unwrap();
        drop(fs);
        let before = device.to_bytes();
        let fs = open(&device);
        let made = fs.make_snapshot(fs.root(), b"snap", &Cred::root()).unwrap();
        assert!(made.size > fs.layout().fs_size << fs.layout().fs_fshift, "{name}");
        let first = image(&fs, "snap");
        let then = MemoryDevice::from_bytes(&first);
        assert_eq!(damage(&then), Vec::<String>::new(), "{name}");
        let mut expected = tree(&MemoryDevice::from_bytes(&before));
        let mut seen = tree(&then);
        if let Some(log) = expected.remove("/.spindlelog") {
            assert_eq!(
                seen.remove("/.spindlelog").map(|empty| (empty.ino, empty.content.len())),
                Some((log.ino, 0))
            );
        }
        assert!(seen == expected, "{name}");
        for round in 0..3 {
            work(&fs, round);
            assert_same(&first, &image(&fs, "snap"), &format!("{name}, round {round}"));
        }
        fs.unmount().unwrap();
        drop(fs);
        assert_eq!(damage(&device), Vec::<String>::new(), "{name}");
        let fs = open(&device);
        assert_same(&first, &image(&fs, "snap"), &format!("{name}, remounted"));
        work(&fs, 3);
        assert_same(&first, &image(&fs, "snap"), &format!("{name}, remounted, changed"));
        fs.unmount().unwrap();
        drop(fs);
        assert_eq!(damage(&device), Vec::<String>::new(), "{name}");
        let read_only = OpenOptions { read_only: true, ..options() };
        let fs = Ffs::open(device.clone(), clock(), &read_only).unwrap();
        assert_same(&first, &image(&fs, "snap"), &format!("{name}, read-only"));
    }
}

/// Promise: a snapshot belongs to its owner, who alone reads it; what it holds cannot be changed,
/// nor its attributes; and no file becomes one by a flag.
#[test]
fn snapshots_are_not_written() {
    let (_, parameters) = formats().remove(0);
    let device = new(&parameters);
    let fs = open(&device);
    let file = fill(&fs, fs.root(), "file", 100);
    let made = fs.make_snapshot(fs.root(), b"snap", &Cred::user(7, 8)).unwrap();
    assert_eq!((made.uid, made.gid, made.perm), (7, 8, 0o400));
    let snap = made.ino;
    let denied = |result: std::result::Result<(), Error>| {
        assert!(matches!(result, Err(Error::NotPermitted)), "{result:?}");
    };
    denied(fs.write(snap, 0, b"x", BY).map(drop));
    denied(fs.setattr(snap, &SetAttr { size: Some(0), ..SetAttr::default() }, BY).map(drop));
    denied(fs.setattr(snap, &SetAttr { perm: Some(0), ..SetAttr::default() }, BY).map(drop));
    denied(fs.fallocate(snap, FallocateMode::PunchHole, 0, 1 << 20, BY));
    denied(fs.setxattr(snap, b"user.a", b"b", XattrMode::Set, BY));
    denied(fs.setattr(file, &SetAttr { flags: Some(0x20_0000), ..SetAttr::default() }, BY).map(drop));
    assert!(matches!(fs.make_snapshot(fs.root(), b"snap", &Cred::root()), Err(Error::Exists)));
    fs.unmount().unwrap();
    assert_eq!(damage(&device), Vec::<String>::new());
}

/// Puts 0 in place of the marks of all blocks that a snapshot has itself, as the kernels of the
/// BSDs leave them, which mark only what was free before they gave blocks to the snapshot. Returns
/// the number of these marks.
fn unmark_own_blocks(device: &MemoryDevice, ino: Ino) -> usize {
    let layout = Superblock::open(device).unwrap().layout;
    let (endian, size) = (layout.endian, layout.pointer_size());
    let (block, offset) = layout.ino_to_fsba(u32::try_from(ino.0).unwrap());
    // The place of `di_db` in an inode; `di_ib` follows.
    let db = layout.byte(block) + offset as u64 + if size == 8 { 112 } else { 40 };
    let read = |at: u64, bytes: &mut [u8]| {
        let mut sectors = vec![0; (bytes.len() + 1024) / 512 * 512];
        device.read_at(at / 512 * 512, &mut sectors).unwrap();
        let from = usize::try_from(at % 512).unwrap();
        bytes.copy_from_slice(&sectors[from..from + bytes.len()]);
    };
    let word = |at: u64| {
        let mut bytes = [0; 8];
        read(at, &mut bytes[..size]);
        let bytes = &bytes[..size];
        let shift = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        if endian == Endian::Big { bytes.iter().fold(0, shift) } else { bytes.iter().rev().fold(0, shift) }
    };
    // The places of all pointers, in the order of the blocks, and the blocks that they lead to.
    let mut places: Vec<u64> = (0..12).map(|n| db + n * size as u64).collect();
    let mut own = Vec::new();
    let nindir = u64::from(layout.fs_nindir);
    let each = |block: u64| {
        let first = layout.byte(Frag(block));
        (0..nindir).map(move |n| first + n * size as u64)
    };
    let mut indirect = vec![(word(db + 12 * size as u64), 1), (word(db + 13 * size as u64), 2)];
    indirect.retain(|&(block, _)| block != 0);
    for (block, levels) in indirect {
        own.push(block);
        for at in each(block) {
            if levels == 1 {
                places.push(at);
            } else if word(at) != 0 {
                own.push(word(at));
                places.extend(each(word(at)));
            }
        }
    }
    let blocks = usize::try_from(layout.fs_size / u64::from(layout.fs_frag)).unwrap();
    own.extend(places.iter().map(|&at| word(at)).filter(|&raw| raw > 2));
    let mut unmarked = 0;
    for block in own.into_iter().map(|frag| usize::try_from(frag / u64::from(layout.fs_frag)).unwrap()) {
        let Some(&at) = places.get(block).filter(|&&at| block < blocks && word(at) == 1) else { continue };
        let mut sector = [0; 512];
        read(at / 512 * 512, &mut sector);
        let from = usize::try_from(at % 512).unwrap();
        sector[from..from + size].fill(0);
        device.write_at(at / 512 * 512, &sector).unwrap();
        unmarked += 1;
    }
    unmarked
}

/// Promise: snapshots of the BSDs, whose own blocks are not marked in them, stay what they were
/// while the file system is written and others are made and removed; and a check finds nothing, in
/// them, in others, and in the file system, also when they are gone.
#[test]
fn snapshots_with_own_blocks_that_are_not_marked_are_kept() {
    for (name, parameters) in formats() {
        // The hash of the inode would be wrong.
        let parameters = Parameters { check_hashes: false, ..parameters };
        let device = new(&parameters);
        let fs = open(&device);
        populate(&fs);
        let ino = fs.make_snapshot(fs.root(), b"snap", &Cred::root()).unwrap().ino;
        fs.unmount().unwrap();
        drop(fs);
        let unmarked = unmark_own_blocks(&device, ino);
        assert!(unmarked > 10, "{name}: {unmarked}");
        assert_eq!(damage(&device), Vec::<String>::new(), "{name}");
        let fs = open(&device);
        let first = image(&fs, "snap");
        for round in 0..3 {
            work(&fs, round);
            fs.make_snapshot(fs.root(), format!("other{round}").as_bytes(), &Cred::root()).unwrap();
            let then = MemoryDevice::from_bytes(&image(&fs, &format!("other{round}")));
            assert_eq!(damage(&then), Vec::<String>::new(), "{name}, round {round}");
            assert_same(&first, &image(&fs, "snap"), &format!("{name}, round {round}"));
        }
        fs.unmount().unwrap();
        drop(fs);
        assert_eq!(damage(&device), Vec::<String>::new(), "{name}");
        let fs = open(&device);
        unlink(&fs, fs.root(), "other0").unwrap();
        work(&fs, 3);
        assert_same(&first, &image(&fs, "snap"), &format!("{name}, without another"));
        let other = image(&fs, "other1");
        unlink(&fs, fs.root(), "snap").unwrap();
        work(&fs, 4);
        assert_same(&other, &image(&fs, "other1"), &format!("{name}, without the first"));
        unlink(&fs, fs.root(), "other1").unwrap();
        unlink(&fs, fs.root(), "other2").unwrap();
        fs.unmount().unwrap();
        drop(fs);
        assert_eq!(damage(&device), Vec::<String>::new(), "{name}, removed");
    }
}

/// Promise: several snapshots each stay what they were when one of them is removed, whichever; the
/// space comes back when the last one is gone.
#[test]
fn snapshots_are_removed() {
    for (name, parameters) in formats() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let device = new(&parameters);
            let fs = open(&device);
            populate(&fs);
            fs.sync().unwrap();
            let mut images = Vec::new();
            for n in 0..3 {
                fs.make_snapshot(fs.root(), format!("snap{n}").as_bytes(), &Cred::root()).unwrap();
                images.push(image(&fs, &format!("snap{n}")));
                let then = MemoryDevice::from_bytes(&images[n]);
                assert_eq!(damage(&then), Vec::<String>::new(), "{name}, snapshot {n}");
                work(&fs, n);
            }
            let mut left = vec![0, 1, 2];
            for gone in order {
                unlink(&fs, fs.root(), &format!("snap{gone}")).unwrap();
                left.retain(|&n| n != gone);
                work(&fs, gone + 4);
                for &n in &left {
                    let what = format!("{name}, {order:?}: snapshot {n} without {gone}");
                    assert_same(&images[n], &image(&fs, &format!("snap{n}")), &what);
                }
                assert_eq!(fs.superblock().snapshots().len(), left.len());
            }
            fs.unmount().unwrap();
            drop(fs);
            assert_eq!(damage(&device), Vec::<String>::new(), "{name}, {order:?}");
        }
    }
}

/// A file system with its files, as they should be, and its snapshots.
struct World {
    fs: Ffs,
    files: BTreeMap<String, Vec<u8>>,
    snapshots: BTreeMap<String, Vec<u8>>,
    next: usize,
    /// Bytes of the largest new files.
    large: usize,
}

impl World {
    /// Does something at random; `NoSpace` is no failure, and must change nothing.
    fn step(&mut self, rng: &mut StdRng) {
        let root = self.fs.root();
        self.next += 1;
        let name = format!("f{}", self.next);
        let pick = self.files.keys().choose(rng).cloned();
        let done = match (rng.random_range(0..16), pick) {
            (0..3, _) | (_, None) => {
                let len = [100, 3000, 9000, 100_000, self.large][rng.random_range(0..5)];
                let bytes = bytes_of(rng.random_range(0..len), self.next);
                make(&self.fs, root, &name, FileKind::Regular).map(|ino| {
                    let written = self.fs.write(ino, 0, &bytes, BY).unwrap_or(0);
                    self.files.insert(name.clone(), bytes[..written].to_vec());
                })
            }
            (3..7, Some(name)) => {
                let ino = find(&self.fs, root, &name);
                let old = self.files.get_mut(&name).unwrap();
                let at = rng.random_range(0..=old.len() + 2000);
                let bytes = bytes_of(rng.random_range(1..60_000), self.next);
                self.fs.write(ino, at as u64, &bytes, BY).map(|written| {
                    if old.len() < at + written {
                        old.resize(at + written, 0);
                    }
                    old[at..at + written].copy_from_slice(&bytes[..written]);
                })
            }
            (7, Some(name)) => {
                let ino = find(&self.fs, root, &name);
                let old = self.files.get_mut(&name).unwrap();
                let size = rng.random_range(0..=old.len() * 2);
                let set = SetAttr { size: Some(size as u64), ..SetAttr::default() };
                self.fs.setattr(ino, &set, BY).map(|_| old.resize(size, 0))
            }
            (8, Some(name)) => {
                let ino = find(&self.fs, root, &name);
                let old = self.files.get_mut(&name).unwrap();
                let from = rng.random_range(0..=old.len());
                let len = rng.random_range(1..=40_000);
                let to = (from + len).min(old.len());
                let mode = if rng.random() {
                    FallocateMode::PunchHole
                } else {
                    FallocateMode::ZeroRange { keep_size: true }
                };
                let len = (to - from).max(1) as u64;
                let mode = if from == to { FallocateMode::PunchHole } else { mode };
                self.fs.fallocate(ino, mode, from as u64, len, BY).map(|()| old[from..to].fill(0))
            }
            (9..11, Some(name)) => {
                self.files.remove(&name);
                unlink(&self.fs, root, &name)
            }
            (11, Some(name)) => {
                let to = format!("{name}{}", "x".repeat(rng.random_range(1..60)));
                if to.len() > 200 || self.files.contains_key(&to) {
                    return;
                }
                let moved =
                    self.fs.rename(root, name.as_bytes(), root, to.as_bytes(), RenameMode::Replace, BY);
                if moved.is_ok() {
                    let bytes = self.files.remove(&name).unwrap();
                    self.files.insert(to, bytes);
                }
                moved
            }
            (12, Some(name)) => {
                let ino = find(&self.fs, root, &name);
                let value = bytes_of(rng.random_range(0..3000), self.next);
                self.fs.setxattr(ino, b"user.a", &value, XattrMode::Set, BY)
            }
            (13, Some(_)) => {
                let dir = format!("d{}", self.next);
                make(&self.fs, root, &dir, FileKind::Directory).map(|ino| {
                    let _ = make(&self.fs, ino, "inner", FileKind::Regular);
                    if rng.random() {
                        unlink(&self.fs, ino, "inner")
                            .and_then(|()| self.fs.rmdir(root, dir.as_bytes()))
                            .ok();
                    }
                })
            }
            (14, Some(_)) => self.fs.sync(),
            (_, Some(_)) => {
                let snapshots = self.snapshots.len();
                if rng.random_range(0..4) > 0 {
                    return;
                }
                if snapshots < 2 && rng.random() {
                    let name = format!("snap{}", self.next);
                    self.fs.make_snapshot(root, name.as_bytes(), &Cred::root()).map(|_| {
                        let held = image(&self.fs, &name);
                        let damage = damage(&MemoryDevice::from_bytes(&held));
                        assert!(damage.is_empty(), "{name}: {damage:?}");
                        self.snapshots.insert(name, held);
                    })
                } else if let Some(name) = self.snapshots.keys().choose(rng).cloned() {
                    self.snapshots.remove(&name);
                    unlink(&self.fs, root, &name)
                } else {
                    return;
                }
            }
        };
        match done {
            Ok(()) | Err(Error::NoSpace | Error::NotSupported) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn check(&self, what: &str) {
        for (name, bytes) in &self.files {
            let held = content(&self.fs, find(&self.fs, self.fs.root(), name));
            assert!(held == *bytes, "{what}: {name}");
        }
        for (name, held) in &self.snapshots {
            assert_same(held, &image(&self.fs, name), &format!("{what}: {name}"));
        }
    }
}

/// Returns the seeds of a random test that has so many cases by default.
fn seeds(cases: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse::<u64>().ok());
    let seed = number("SPINDLE_SEED").unwrap_or(1);
    seed..seed + number("SPINDLE_CASES").unwrap_or(cases)
}

/// Promise: whatever is done at random under no, one or two snapshots, also on a disk that is full,
/// all files are what they should be, each snapshot is what it was, and a check finds nothing.
#[test]
fn torture_random_changes() {
    for seed in seeds(6) {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let formats = formats();
        let (name, parameters) = &formats[usize::try_from(seed).unwrap() % formats.len()];
        let device = new(parameters);
        let mut world = World {
            fs: open(&device),
            files: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            next: 0,
            // In a third of the cases the disk is full soon.
            large: if seed % 3 == 0 { 4 << 20 } else { 400_000 },
        };
        for round in 0..6 {
            for _ in 0..60 {
                world.step(&mut rng);
            }
            let what = format!("seed {seed}, {name}, round {round}");
            world.check(&what);
            world.fs.unmount().unwrap();
            assert_eq!(damage(&device), Vec::<String>::new(), "{what}");
            world.fs = open(&device);
            world.check(&format!("{what}, remounted"));
        }
    }
}

/// A device that records what is written to it and when it is flushed.
struct Recorder {
    device: MemoryDevice,
    events: Mutex<Vec<Event>>,
}

enum Event {
    Write(u64, Vec<u8>),
    Flush,
}

impl Device for Recorder {
    fn info(&self) -> &Info {
        self.device.info()
    }
    fn submit(&self, request: Request) -> Result<Ticket> {
        if request.op == Op::Write {
            self.events.lock().unwrap().push(Event::Write(request.offset, request.buf.to_vec()));
        }
        self.device.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.device.wait(ticket)
    }
    fn flush(&self) -> Result<()> {
        self.events.lock().unwrap().push(Event::Flush);
        self.device.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.device.discard(offset, len)
    }
}

/// Promise: wherever power is cut while a snapshot is made, files are changed under it, and it is
/// removed, the recovery leaves nothing that a check finds; a snapshot that was made is there, and
/// each that is there is what it was.
#[test]
fn torture_cuts() {
    let formats = formats();
    for seed in seeds(1) {
        let (format, parameters) = &formats[usize::try_from(seed).unwrap() % formats.len()];
        println!("seed {seed}, {format}");
        let device = new(parameters);
        let fs = open(&device);
        populate(&fs);
        fs.unmount().unwrap();
        drop(fs);
        let start = device.branch();
        let recorder = Arc::new(Recorder { device: device.branch(), events: Mutex::default() });
        let fs = Ffs::open(recorder.clone(), clock(), &options()).unwrap();
        let mut marks = Vec::new();
        let mut images = BTreeMap::new();
        let mark = |marks: &mut Vec<(usize, Option<&str>)>, snapshot| {
            marks.push((recorder.events.lock().unwrap().len(), snapshot));
        };
        fs.make_snapshot(fs.root(), b"one", &Cred::root()).unwrap();
        images.insert("one", image(&fs, "one"));
        mark(&mut marks, Some("one"));
        work(&fs, 0);
        fs.sync().unwrap();
        fs.make_snapshot(fs.root(), b"two", &Cred::root()).unwrap();
        images.insert("two", image(&fs, "two"));
        mark(&mut marks, Some("two"));
        work(&fs, 1);
        unlink(&fs, fs.root(), "one").unwrap();
        mark(&mut marks, None);
        work(&fs, 2);
        fs.unmount().unwrap();
        drop(fs);
        let events = std::mem::take(&mut *recorder.events.lock().unwrap());
        let mut rng = StdRng::seed_from_u64(seed);
        let mut durable = start;
        let mut waiting: Vec<(u64, &[u8])> = Vec::new();
        println!("{} events", events.len());
        for (n, event) in events.iter().enumerate() {
            match event {
                Event::Flush => {
                    for (at, bytes) in waiting.drain(..) {
                        durable.write_at(at, bytes).unwrap();
                    }
                    durable = durable.branch();
                }
                Event::Write(at, bytes) => waiting.push((*at, bytes)),
            }
            if rng.random_range(0..6) > 0 {
                continue;
            }
            let medium = durable.branch();
            for (at, bytes) in &waiting {
                for (sector, bytes) in (*at..).step_by(512).zip(bytes.chunks(512)) {
                    if rng.random() {
                        medium.write_at(sector, bytes).unwrap();
                    }
                }
            }
            let medium = Arc::new(medium);
            let what = format!("seed {seed}, {format}, after {n} of {} events", events.len());
            let fs = open(&medium);
            for (name, held) in &images {
                let is_there = fs.lookup(fs.root(), name.as_bytes()).is_ok();
                let made = marks.iter().any(|&(at, mark)| mark == Some(name) && at <= n);
                let removed =
                    *name == "one" && marks.iter().any(|&(_, mark)| mark.is_none()) && n >= marks[1].0;
                assert!(is_there || !made || removed, "{what}: {name}");
                if is_there {
                    assert_same(held, &image(&fs, name), &format!("{what}: {name}"));
                }
            }
            if rng.random_range(0..4) == 0 {
                work(&fs, 5);
                for (name, held) in &images {
                    if fs.lookup(fs.root(), name.as_bytes()).is_ok() {
                        assert_same(held, &image(&fs, name), &format!("{what}, changed: {name}"));
                    }
                }
            }
            fs.unmount().unwrap();
            drop(fs);
            assert_eq!(damage(&medium), Vec::<String>::new(), "{what}");
        }
    }
}

/// Promise: snapshots that are made while other threads write are file systems in which a check
/// finds nothing, and stay what they were; so is the file system in the end.
#[test]
fn snapshots_of_busy_file_systems() {
    let (_, parameters) = formats().remove(0);
    let device = new(&parameters);
    let fs = Arc::new(open(&device));
    let workers: Vec<_> = (0..3_usize)
        .map(|worker| {
            let fs = fs.clone();
            std::thread::spawn(move || {
                let dir = make(&fs, fs.root(), &format!("worker{worker}"), FileKind::Directory).unwrap();
                for n in 0..150 {
                    let name = format!("f{}", n % 12);
                    let _ = unlink(&fs, dir, &name);
                    let Ok(file) = make(&fs, dir, &name, FileKind::Regular) else { continue };
                    let _ = fs.write(file, 0, &bytes_of(n * 1700 % 90_000 + 1, n), BY);
                    let _ = fs.write(file, n as u64 * 31 % 5000, &bytes_of(20_000, n), BY);
                    let _ = fs.fallocate(file, FallocateMode::PunchHole, 3000, 12_000, BY);
                    let size = Some(n as u64 * 997 % 40_000);
                    let _ = fs.setattr(file, &SetAttr { size, ..SetAttr::default() }, BY);
                    if n % 10 == 0 {
                        fs.sync().unwrap();
                    }
                }
            })
        })
        .collect();
    let mut images = BTreeMap::new();
    for n in 0..12 {
        let name = format!("snap{n}");
        fs.make_snapshot(fs.root(), name.as_bytes(), &Cred::root()).unwrap();
        let held = image(&fs, &name);
        assert_eq!(damage(&MemoryDevice::from_bytes(&held)), Vec::<String>::new(), "{name}");
        images.insert(name, held);
        if n >= 2 {
            let gone = format!("snap{}", n - 2);
            unlink(&fs, fs.root(), &gone).unwrap();
            images.remove(&gone);
        }
        for (name, held) in &images {
            assert_same(held, &image(&fs, name), name);
        }
    }
    for worker in workers {
        worker.join().unwrap();
    }
    for (name, held) in &images {
        assert_same(held, &image(&fs, name), name);
    }
    fs.unmount().unwrap();
    assert_eq!(damage(&device), Vec::<String>::new());
}
