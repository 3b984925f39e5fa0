//! NetBSD's log, both ways: what NetBSD makes of ours, and we of NetBSD's.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::ManualClock;
use spindle_conformance::random::seed;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::{self, check};
use spindle_ffs::newfs::{self, Parameters, Plan};
use spindle_ffs::{Dialect, Ffs, FoundLog, LogPlace, LogUse, OpenOptions, Replay, Superblock};
use spindle_interop::Result;
use spindle_interop::wapbl::{LogLocation, Transaction, replay, write};
use spindle_ondisk::Endian;
use spindle_vfs::{Error, FileKind, FileSystem, NewNode, Privilege};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use tempfile::NamedTempFile;

const LOG_BYTES: u64 = 1 << 20;

fn open(device: Arc<MemoryDevice>, log: LogUse) -> Ffs {
    let options = OpenOptions { log, log_bytes: Some(LOG_BYTES), seed: Some(1), ..OpenOptions::default() };
    let fs = Ffs::open(device, Arc::new(ManualClock::at(1_700_000_000)), &options).unwrap();
    assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
    fs
}

/// Returns a NetBSD image with a log, cleanly unmounted.
fn image(endian: Endian, ufs1: bool) -> Arc<MemoryDevice> {
    let parameters = Parameters {
        dialect: Some(Dialect::NetBsd),
        endian: Some(endian),
        format: if ufs1 { newfs::Format::Ufs1 } else { newfs::Format::Ufs2 },
        bsize: Some(8192),
        fsize: Some(1024),
        density: Some(4096),
        ..Parameters::new(16 << 20)
    };
    let device = Arc::new(MemoryDevice::new(parameters.size_bytes));
    let clock = ManualClock::at(1_700_000_000);
    let plan = Plan::new(&parameters).unwrap();
    newfs::write(&plan, &*device, &clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
    open(device.clone(), LogUse::Wanted).unmount().unwrap();
    device
}

/// Works for a while, with files that are removed while open, and loses power after a last sync.
fn work(device: &Arc<MemoryDevice>, seed: u64) -> Arc<MemoryDevice> {
    let random = &mut StdRng::seed_from_u64(seed);
    let fs = open(device.clone(), LogUse::IfThere);
    for step in 0..400 {
        let name = format!("f{}", random.random_range(0..40));
        let (name, root) = (name.as_bytes(), fs.root());
        let kind = if random.random_range(0..6) == 0 { FileKind::Directory } else { FileKind::Regular };
        let node = NewNode::new(kind, 0o755);
        match random.random_range(0..9) {
            0..=5 => match fs.create(root, name, &node, Privilege::Root) {
                Ok(attr) if kind == FileKind::Regular => {
                    let bytes = vec![random.random(); random.random_range(0..40_000)];
                    fs.write(attr.ino, 0, &bytes, Privilege::Root).unwrap();
                }
                Ok(_) | Err(Error::Exists) => {}
                Err(error) => panic!("seed {seed}, step {step}: {error}"),
            },
            6 | 7 => drop(fs.unlink(root, name).or_else(|_| fs.rmdir(root, name))),
            _ => fs.sync().unwrap(),
        }
    }
    fs.sync().unwrap();
    Arc::new(device.branch())
}

fn place(device: &MemoryDevice) -> (LogPlace, LogLocation) {
    let superblock = Superblock::open(device).unwrap();
    let place = superblock.log_place().unwrap();
    let big_endian = superblock.layout.endian == Endian::Big;
    (place, LogLocation { at: place.at, bytes: place.len, big_endian })
}

fn stored(device: &MemoryDevice) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), device.to_bytes()).unwrap();
    file
}

/// Returns the names, sizes and contents of the root's files, after the recovery that opening does,
/// and what a check says after unmounting.
fn recovered(device: &Arc<MemoryDevice>) -> (BTreeMap<Vec<u8>, Vec<u8>>, Vec<String>) {
    let fs = open(device.clone(), LogUse::IfThere);
    let mut names = Vec::new();
    fs.readdir(fs.root(), 0, &mut |entry| {
        names.push(entry.name.to_vec());
        ControlFlow::Continue(())
    })
    .unwrap();
    let mut tree = BTreeMap::new();
    for name in names {
        let attr = fs.lookup(fs.root(), &name).unwrap();
        let mut bytes = vec![0; usize::try_from(attr.size).unwrap()];
        if attr.kind == FileKind::Regular {
            fs.read(attr.ino, 0, &mut bytes).unwrap();
        }
        fs.forget(attr.ino, 1);
        tree.insert(name, bytes);
    }
    fs.unmount().unwrap();
    let report = check(&**device, &check::Options::default(), &mut |_| ()).unwrap();
    let damage = report.findings.iter().filter(|found| found.severity.is_damage());
    (tree, damage.map(ToString::to_string).collect())
}

fn pending(device: &MemoryDevice) -> Replay {
    match FoundLog::look(device, &Superblock::open(device).unwrap()).unwrap() {
        FoundLog::Recovery(replay) => *replay,
        other => panic!("{other:?}"),
    }
}

/// Returns the formats with a log. Big-endian file systems get none: NetBSD's kernels do not agree
/// on its order of bytes.
fn formats() -> [(Endian, bool); 2] {
    [(Endian::Little, false), (Endian::Little, true)]
}

/// Promise: NetBSD's way of carrying a log out makes of ours, byte for byte, what ours makes of it,
/// and finds the same inodes to free.
#[test]
fn netbsd_carries_our_log_out() -> Result<()> {
    let seed = seed();
    for (endian, ufs1) in formats() {
        let crashed = work(&image(endian, ufs1), seed);
        let (_, place) = place(&crashed);
        let file = stored(&crashed);
        let theirs = replay(file.path(), place)?;
        let log = pending(&crashed);
        assert!(!log.is_empty(), "seed {seed}");
        let ours: Vec<_> = log.orphans().map(|(ino, mode)| (ino, u32::from(mode))).collect();
        assert!(!ours.is_empty() && ours == theirs, "seed {seed}: {ours:?}, {theirs:?}");
        log.replay(&*crashed).unwrap();
        assert!(std::fs::read(file.path()).unwrap() == crashed.to_bytes(), "seed {seed}, {endian:?}");
    }
    Ok(())
}

/// Promise: from a log that NetBSD has written, with blocks logged twice, revoked and logged again,
/// around the end of its ring, we recover the same files as from our own, free what is on its list,
/// and the check finds nothing.
#[test]
fn we_carry_netbsds_log_out() -> Result<()> {
    let seed = seed();
    let random = &mut StdRng::seed_from_u64(seed);
    for (endian, ufs1) in formats() {
        let clean = image(endian, ufs1);
        let before = Arc::new(clean.branch());
        let crashed = work(&clean, seed);
        let (at, place) = place(&crashed);
        let log = pending(&crashed);
        let inodes: Vec<_> = log.orphans().map(|(ino, mode)| (ino, u32::from(mode))).collect();
        log.replay(&*crashed).unwrap();
        let expected = recovered(&Arc::new(crashed.branch()));

        // What changed, as blocks of a log; file data went home before its metadata, as always.
        let (old, new) = (before.to_bytes(), crashed.to_bytes());
        let in_log = |byte: usize| (at.at..at.at + at.len).contains(&(byte as u64));
        let changed = (0..old.len())
            .step_by(512)
            .filter(|&byte| !in_log(byte) && old[byte..byte + 512] != new[byte..byte + 512]);
        let (mut first, mut junk, mut last) =
            (Transaction::default(), Transaction::default(), Transaction::default());
        for byte in changed {
            let daddr = byte as u64 / 512;
            let content = new[byte..byte + 512].to_vec();
            // The log has room for so much; the rest is home already.
            if last.blocks.len() > 600 {
                before.write_at(byte as u64, &content).unwrap();
                continue;
            }
            if random.random() {
                first.blocks.push((daddr, vec![0xaa; 512]));
            }
            last.blocks.push((daddr, content));
        }
        for _ in 0..40 {
            let byte = random.random_range(200..1000) * 512;
            let daddr = byte as u64 / 512;
            if !in_log(byte) && !last.blocks.iter().any(|(known, _)| *known == daddr) {
                first.blocks.push((daddr, vec![0xbb; 512]));
                junk.revoked.push((daddr, 512));
            }
        }
        junk.inodes.push((77_777, 0o100_644));
        last.inodes = inodes;
        // In use, and to be recovered, as NetBSD says it before it begins.
        let superblock = Superblock::open(&*crashed).unwrap();
        let sblock = superblock.layout.fs_sblockloc;
        before.write_at(sblock, &superblock.raw()[..2048]).unwrap();
        let file = stored(&before);
        write(file.path(), place, &[first, junk, last])?;
        let theirs = Arc::new(MemoryDevice::from_bytes(&std::fs::read(file.path()).unwrap()));
        let found = recovered(&theirs);
        assert_eq!(found.1, Vec::<String>::new(), "seed {seed}, {endian:?}");
        assert!(found == expected, "seed {seed}, {endian:?}: {:?}", found.0.keys());
    }
    Ok(())
}
