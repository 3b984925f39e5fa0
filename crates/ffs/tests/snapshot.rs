//! Snapshots: a file system with one is made from what `ffs_snapshot.c` does, and reading the
//! snapshot gives the file system as it was.

#[path = "check/images.rs"]
#[allow(dead_code, reason = "the tests of the check use the rest")]
mod images;
#[path = "repair/victim.rs"]
#[allow(dead_code, reason = "the tests of the repair use the rest")]
mod victim;

use images::{Image, new};
use spindle_device::MemoryDevice;
use spindle_ffs::newfs::{Format, Parameters};
use spindle_ffs::repair::Scope;
use spindle_ffs::{Dialect, Ffs, LogUse, OpenOptions};
use spindle_ondisk::Endian;
use spindle_vfs::{Error, FileKind, FileSystem, Ino, NewNode, Privilege, SetAttr};
use std::collections::HashSet;
use std::sync::Arc;
use victim::{clock, damage, tree};

const BY: Privilege = Privilege::Root;
/// Byte of `fs_snapinum` in the superblock.
const FS_SNAPINUM: u64 = 1116;
/// `SF_SNAPSHOT`, and the byte of `di_flags` in the inodes of UFS2 and UFS1.
const SF_SNAPSHOT: u32 = 0x20_0000;
const DI_FLAGS: [u64; 2] = [100, 88];

fn open(device: Arc<MemoryDevice>) -> Ffs {
    let options = OpenOptions { seed: Some(1), log: LogUse::Never, ..OpenOptions::default() };
    Ffs::open(device, clock(), &options).unwrap()
}

/// Does something in a file system.
fn change(device: &MemoryDevice, work: impl FnOnce(&Ffs)) -> MemoryDevice {
    let device = Arc::new(device.branch());
    let fs = open(device.clone());
    assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
    work(&fs);
    fs.unmount().unwrap();
    drop(fs);
    device.branch()
}

fn make(fs: &Ffs, dir: Ino, name: &str, kind: FileKind) -> Ino {
    fs.create(dir, name.as_bytes(), &NewNode::new(kind, 0o755), BY).unwrap().ino
}

fn fill(fs: &Ffs, dir: Ino, name: &str, len: usize) {
    let file = make(fs, dir, name, FileKind::Regular);
    let data: Vec<u8> = (0..len).map(|n| u8::try_from((n * 7 + len) % 251).unwrap()).collect();
    assert_eq!(fs.write(file, 0, &data, BY).unwrap(), len);
}

/// Puts files and directories into an empty file system.
fn populate(fs: &Ffs) {
    let root = fs.root();
    for n in 0..40 {
        let dir = make(fs, root, &format!("dir{n}"), FileKind::Directory);
        fill(fs, dir, "small", 100 + n * 700);
    }
    fill(fs, root, "large", 3 << 20);
    fill(fs, root, "gone", 1 << 20);
}

/// Changes, removes, renames and adds files.
fn work(fs: &Ffs) {
    let root = fs.root();
    fs.unlink(root, b"gone").unwrap();
    let large = fs.lookup(root, b"large").unwrap().ino;
    fs.write(large, 100_000, &vec![9; 300_000], BY).unwrap();
    for n in 0..20 {
        let dir = fs.lookup(root, format!("dir{n}").as_bytes()).unwrap().ino;
        fs.unlink(dir, b"small").unwrap();
        fs.rmdir(root, format!("dir{n}").as_bytes()).unwrap();
    }
    fill(fs, root, "new", 1 << 20);
}

/// Returns, for each block of a file system, whether all of it is free.
fn free_blocks(image: &Image) -> Vec<bool> {
    let layout = image.layout();
    let frag = u64::from(layout.fs_frag);
    let is_free = |at: u64| {
        let cgx = layout.dtog(spindle_ffs::Frag(at));
        let (cg, within) = (image.cg(cgx), at - layout.cgbase(cgx).0);
        let map = cg + u64::from(image.get::<u32>(cg + 96));
        image.get::<u8>(map + within / 8) & (1 << (within % 8)) != 0
    };
    let blocks = layout.fs_size.div_ceil(frag);
    (0..blocks).map(|n| (n * frag..(n * frag + frag).min(layout.fs_size)).all(is_free)).collect()
}

/// Returns a file system that has changed since a snapshot of it, `/snap`, was made: of each block
/// that was in use and has changed, the snapshot has a copy; of some that were free it has marks.
fn with_snapshot(before: &Image, changes: impl FnOnce(&Ffs)) -> Image {
    let layout = before.layout().clone();
    let bsize = layout.fs_bsize as usize;
    let free = free_blocks(before);
    let block = |bytes: &[u8], n: usize| {
        let mut block = bytes[n * bsize..bytes.len().min((n + 1) * bsize)].to_vec();
        block.resize(bsize, 0);
        block
    };
    let mut copied = HashSet::new();
    let mut now = change(&MemoryDevice::from_bytes(&before.bytes), |fs| {
        let snapshot = make(fs, fs.root(), "snap", FileKind::Regular);
        let size = Some((free.len() * bsize) as u64);
        fs.setattr(snapshot, &SetAttr { size, ..SetAttr::default() }, BY).unwrap();
        // The last block always has a copy.
        let last = free.len() - 1;
        fs.write(snapshot, (last * bsize) as u64, &block(&before.bytes, last), BY).unwrap();
        copied.insert(last);
        changes(fs);
    });
    loop {
        let bytes = now.to_bytes();
        let is_due =
            |n: &usize| !free[*n] && !copied.contains(n) && block(&bytes, *n) != block(&before.bytes, *n);
        let due: Vec<usize> = (0..free.len()).filter(is_due).collect();
        if due.is_empty() {
            break;
        }
        now = change(&now, |fs| {
            let snapshot = fs.lookup(fs.root(), b"snap").unwrap().ino;
            for &n in &due {
                fs.write(snapshot, (n * bsize) as u64, &block(&before.bytes, n), BY).unwrap();
            }
        });
        copied.extend(due);
    }
    let mut image = Image::new(&now);
    let ino = image.ino("snap");
    image.put(image.inode(ino) + DI_FLAGS[usize::from(image.is_ufs2())], SF_SNAPSHOT);
    image.put(image.sb() + FS_SNAPINUM, ino);
    let indirect = layout.byte(spindle_ffs::Frag(image.block(ino, 12)));
    let mut mark = 1_u32;
    for n in (12..free.len()).take(layout.fs_nindir as usize).filter(|&n| free[n]) {
        let at = |width: u64| indirect + (n as u64 - 12) * width;
        if image.is_ufs2() && image.get::<u64>(at(8)) == 0 {
            image.put(at(8), u64::from(mark));
        } else if !image.is_ufs2() && image.get::<u32>(at(4)) == 0 {
            image.put(at(4), mark);
        }
        mark = 3 - mark;
    }
    image
}

/// Returns the content of the snapshot, read in pieces that are no blocks.
fn content(fs: &Ffs) -> Vec<u8> {
    let attr = fs.lookup(fs.root(), b"snap").unwrap();
    let mut bytes = vec![0; usize::try_from(attr.size).unwrap()];
    for (n, piece) in bytes.chunks_mut(77_777).enumerate() {
        assert_eq!(fs.read(attr.ino, n as u64 * 77_777, piece).unwrap(), piece.len());
    }
    bytes
}

/// Promise: in every version and byte order, a snapshot reads as the file system that it was taken
/// of, which is undamaged and has all its files; those of today are as they are now; and nothing
/// is written.
#[test]
fn snapshots_are_read() {
    let base = Parameters {
        bsize: Some(8192),
        fsize: Some(1024),
        check_hashes: false,
        ..Parameters::new((32 << 20) + 3 * 1024)
    };
    for (name, parameters) in [
        ("FreeBSD UFS2", Parameters { dialect: Some(Dialect::FreeBsd), ..base.clone() }),
        (
            "FreeBSD UFS1",
            Parameters { format: Format::Ufs1, dialect: Some(Dialect::FreeBsd), ..base.clone() },
        ),
        (
            "NetBSD, big-endian",
            Parameters { dialect: Some(Dialect::NetBsd), endian: Some(Endian::Big), ..base.clone() },
        ),
    ] {
        let device = change(&new(&parameters), populate);
        let before = Image::new(&device);
        let after = with_snapshot(&before, work);
        let device = MemoryDevice::from_bytes(&after.bytes);
        assert_eq!(damage(&device), Vec::<String>::new(), "{name}");
        let fs = open(Arc::new(device));
        assert!(
            fs.read_only_reasons().iter().any(|objection| objection.reason.contains("snapshot")),
            "{name}"
        );
        let bytes = content(&fs);
        let bsize = before.layout().fs_bsize as usize;
        for (n, is_free) in free_blocks(&before).into_iter().enumerate().filter(|(_, is_free)| !is_free) {
            let range = n * bsize..before.bytes.len().min((n + 1) * bsize);
            assert!(bytes[range.clone()] == before.bytes[range], "{name}: block {n}, free: {is_free}");
        }
        let then = MemoryDevice::from_bytes(&bytes[..before.bytes.len()]);
        assert_eq!(damage(&then), Vec::<String>::new(), "{name}");
        assert_eq!(tree(&then), tree(&MemoryDevice::from_bytes(&before.bytes)), "{name}");
        let snapshot = fs.lookup(fs.root(), b"snap").unwrap().ino;
        assert!(matches!(fs.write(snapshot, 0, b"x", BY), Err(Error::ReadOnly)), "{name}");
        assert!(fs.lookup(fs.root(), b"new").is_ok() && fs.lookup(fs.root(), b"gone").is_err(), "{name}");
    }
}

/// Promise: a number in the superblock's list of snapshots that is not the inode of one keeps no
/// mount from writing. A check finds it, and a repair that loses nothing takes it out of the list.
/// Real snapshots stay, at the front of the list.
#[test]
fn false_snapshots_are_taken_out() {
    let parameters = Parameters { bsize: Some(8192), fsize: Some(1024), ..Parameters::new(32 << 20) };
    let device = change(&new(&parameters), populate);
    let mut image = Image::new(&device);
    let (file, beyond) = (image.ino("large"), image.layout().inodes());
    for (n, ino) in [(0, file), (3, beyond), (19, u32::MAX)] {
        image.put(image.sb() + FS_SNAPINUM + 4 * n, ino);
    }
    image.hash_superblock();
    let device = MemoryDevice::from_bytes(&image.bytes);
    let listed = |found: &String| found.contains("AS A SNAPSHOT, WHICH IT IS NOT");
    for device in [device.branch(), change(&device, work)] {
        let found = damage(&device);
        assert!(found.len() == 3 && found.iter().all(listed), "{found:?}");
    }
    let plan = victim::planned(&device, Scope::Harmless);
    assert_eq!(plan.refusal, None);
    plan.apply(&device).unwrap();
    assert_eq!(damage(&device), Vec::<String>::new());
    assert_eq!(Image::new(&device).superblock.snapshots(), [0; 0]);
    change(&device, work);

    // The same with a superblock that is rejected, because its check-hash is as it was before.
    let at = usize::try_from(image.sb() + FS_SNAPINUM).unwrap();
    image.bytes[at] ^= 1;
    let device = MemoryDevice::from_bytes(&image.bytes);
    assert!(damage(&device).iter().any(|found| found.contains("BAD SUPER BLOCK")));
    assert_eq!(victim::repair(&device).refusal, None);
    assert_eq!(damage(&device), Vec::<String>::new());
    change(&device, work);

    let base = Parameters { check_hashes: false, ..parameters };
    let mut image = with_snapshot(&Image::new(&change(&new(&base), populate)), work);
    let snapshot = image.ino("snap");
    for (n, ino) in [(0, beyond), (1, snapshot)] {
        image.put(image.sb() + FS_SNAPINUM + 4 * n, ino);
    }
    let mut superblock = image.superblock.clone();
    assert_eq!(superblock.false_snapshots(&image.device()), [0; 0]);
    superblock = Image::new(&MemoryDevice::from_bytes(&image.bytes)).superblock;
    assert_eq!(superblock.snapshots(), [beyond, snapshot]);
    assert_eq!(superblock.false_snapshots(&image.device()), [beyond]);
    let device = MemoryDevice::from_bytes(&image.bytes);
    assert_eq!(victim::repair(&device).refusal, None);
    assert_eq!(damage(&device), Vec::<String>::new());
    assert_eq!(Image::new(&device).superblock.snapshots(), [snapshot]);
}
