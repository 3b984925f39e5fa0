//! File systems that are made larger: every format and dialect, to any size, also when it is cut.

#[path = "../check/images.rs"]
#[allow(dead_code, reason = "the tests of the check use the rest")]
mod images;
mod shrink;
#[path = "../repair/victim.rs"]
#[allow(dead_code, reason = "the tests of the repair use the rest")]
mod victim;

use rand::rngs::{SmallRng, StdRng};
use rand::{Rng, SeedableRng};
use spindle_conformance::cuts::{Recorder, cut};
use spindle_conformance::random::seed;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::Report;
use spindle_ffs::growfs::{Resize, grow};
use spindle_ffs::newfs::{Format, Geometry, Parameters};
use spindle_ffs::{Dialect, Ffs, LogUse, OpenOptions, Superblock};
use spindle_ondisk::Endian;
use spindle_samples::present;
use spindle_vfs::{Error, FileKind, FileSystem, Ino, NewNode, Privilege, Result};
use std::sync::Arc;
use victim::{Tree, checked, clock, damage, repair, tree};

const BY: Privilege = Privilege::Root;

/// Returns the number of cases of a random test.
fn cases(default: u64) -> u64 {
    std::env::var("SPINDLE_CASES").map_or(default, |cases| cases.parse().expect("it is a number"))
}

/// Returns a device with what another one holds, and room behind it that holds rubbish.
fn enlarged(device: &MemoryDevice, bytes: u64) -> MemoryDevice {
    let larger = MemoryDevice::new(bytes);
    let old = device.to_bytes();
    larger.write_at(0, &old).unwrap();
    let mut at = old.len() as u64;
    let rubbish = vec![0xa5; 1 << 20];
    while at < larger.info().size_bytes {
        let n = (larger.info().size_bytes - at).min(rubbish.len() as u64);
        larger.write_at(at, &rubbish[..usize::try_from(n).unwrap()]).unwrap();
        at += n;
    }
    larger
}

fn growth(device: &dyn Device, bytes: u64) -> Result<Resize> {
    Resize::of(&Superblock::open(device)?, bytes)
}

/// Makes the file system as large as `bytes` allow.
fn grown(device: &Arc<dyn Device>, bytes: u64) -> Result<(Resize, Report)> {
    let growth = growth(&**device, bytes)?;
    let report = grow(device, &clock(), &mut StdRng::seed_from_u64(7), &growth, &mut |_, _| Ok(()))?;
    Ok((growth, report))
}

fn mount(device: Arc<dyn Device>) -> Ffs {
    let options = OpenOptions { seed: Some(1), log: LogUse::Never, ..OpenOptions::default() };
    let fs = Ffs::open(device, clock(), &options).unwrap();
    assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
    fs
}

fn create(fs: &Ffs, dir: Ino, name: &str, kind: FileKind) -> Result<Ino> {
    Ok(fs.create(dir, name.as_bytes(), &NewNode::new(kind, 0o755), BY)?.ino)
}

/// Puts directories and files of many sizes into a file system, until so many bytes are written or
/// it is full.
fn fill(device: &MemoryDevice, bytes: u64, rng: &mut SmallRng) -> MemoryDevice {
    let device = Arc::new(device.branch());
    let fs = mount(device.clone());
    let mut dirs = vec![fs.root()];
    let (mut written, mut n) = (0, 0);
    while written < bytes {
        n += 1;
        let dir = dirs[rng.random_range(0..dirs.len())];
        if rng.random_ratio(1, 8) {
            match create(&fs, dir, &format!("dir{n}"), FileKind::Directory) {
                Ok(ino) => dirs.push(ino),
                Err(Error::NoSpace) => break,
                Err(error) => panic!("{error}"),
            }
            continue;
        }
        let Ok(file) = create(&fs, dir, &format!("file{n}"), FileKind::Regular) else { break };
        let len = [0, 700, 5000, 40_000, 300_000][rng.random_range(0..5)];
        let content: Vec<u8> = (0..len).map(|at: usize| ((at / 512 + n) % 251).to_le_bytes()[0]).collect();
        let Ok(n) = fs.write(file, 0, &content, BY) else { break };
        written += n as u64;
    }
    fs.unmount().unwrap();
    drop(fs);
    Arc::into_inner(device).unwrap()
}

/// Returns the file systems that grow, each with its name.
fn all() -> Vec<(String, Parameters)> {
    let disk = Geometry { nsect: Some(32), ntrak: Some(7), nrpos: Some(8), ..Geometry::default() };
    let mut all = Vec::new();
    for (format, dialect, geometry) in [
        (Format::Ufs2, Some(Dialect::FreeBsd), None),
        (Format::Ufs2, Some(Dialect::NetBsd), None),
        (Format::Ufs2, Some(Dialect::OpenBsd), None),
        (Format::Ufs1, Some(Dialect::FreeBsd), None),
        (Format::Ufs1, Some(Dialect::NetBsd), None),
        (Format::Ufs1, Some(Dialect::OpenBsd), None),
        (Format::Ufs1, None, Some(disk)),
        (Format::Ufs1, Some(Dialect::Sun { x86: false }), Some(disk)),
        (Format::Ufs1, Some(Dialect::Sun { x86: true }), Some(disk)),
        (Format::Old, None, Some(disk)),
    ] {
        for endian in [Endian::Little, Endian::Big] {
            let parameters = Parameters { format, dialect, endian: Some(endian), ..Parameters::new(0) };
            let parameters = Parameters { geometry: geometry.unwrap_or_default(), ..parameters };
            let one = Parameters { size_bytes: 12 << 20, ..parameters.clone() };
            if spindle_ffs::newfs::Plan::new(&one).is_ok() {
                all.push((format!("{format:?} {dialect:?} {endian:?}"), parameters));
            }
        }
    }
    assert!(all.len() > 14);
    all
}

/// Checks that a file system is without damage and has these files, and that all its space can be
/// used and given back.
fn assert_whole(device: &MemoryDevice, files: &Tree, what: &str) {
    assert_eq!(damage(device), Vec::<String>::new(), "{what}");
    assert!(checked(device).marked_clean, "{what}");
    assert!(tree(device) == *files, "{what}: the files are others");
    let used = Arc::new(device.branch());
    let fs = mount(used.clone());
    let free = fs.statfs().unwrap().bfree;
    let file = create(&fs, fs.root(), "all of it", FileKind::Regular).unwrap();
    let (mut at, part) = (0, vec![0x5a; 1 << 18]);
    while let Ok(n) = fs.write(file, at, &part, BY) {
        at += n as u64;
        if n < 1 << 18 {
            break;
        }
    }
    let left = fs.statfs().unwrap().bfree;
    // Loose fragments, of which no block can be made, and that a full file system had before.
    assert!(left <= free / 8 + 1000, "{what}: {left} of {free} fragments cannot be used");
    fs.unlink(fs.root(), b"all of it").unwrap();
    fs.forget(file, 1);
    fs.unmount().unwrap();
    drop(fs);
    assert_eq!(damage(&used), Vec::<String>::new(), "{what}, used");
    assert!(tree(&used) == *files, "{what}, used");
}

/// Promise: a file system of any format grows to any size that its device has room for, also again
/// and again; afterwards a check finds nothing, every file is as it was, and all space can be used.
#[test]
fn torture_growth() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test growfs torture_growth");
    let all = all();
    for case in 0..cases(all.len() as u64) {
        let mut rng = SmallRng::seed_from_u64(seed.wrapping_add(case));
        let (name, parameters) = &all[usize::try_from(case).unwrap() % all.len()];
        let mut size = rng.random_range(6_u64 << 20..24 << 20);
        let mut parameters = Parameters { size_bytes: size, ..parameters.clone() };
        if rng.random() {
            let bsize = if parameters.format == Format::Ufs2 { [8192, 16384] } else { [4096, 8192] };
            (parameters.bsize, parameters.fsize) = (Some(bsize[rng.random_range(0..2)]), Some(1024));
        }
        if rng.random() && parameters.geometry == Geometry::default() {
            // Small groups, so that the summaries need more space.
            parameters.blocks_per_group = Some(rng.random_range(100..400));
        }
        let Ok(plan) = spindle_ffs::newfs::Plan::new(&parameters) else { continue };
        size = plan.size_bytes();
        let device = images::new(&parameters);
        let share = rng.random_range(0..=120);
        let device = fill(&device, size * share / 100, &mut rng);
        let files = tree(&device);
        let most = size * 5;
        let device = enlarged(&device, most);
        for step in 0..3 {
            let fpg = Superblock::open(&device).unwrap().layout.fs_fpg;
            let fsize = u64::from(Superblock::open(&device).unwrap().layout.fs_fsize);
            let group = u64::from(fpg) * fsize;
            let more = match rng.random_range(0..5) {
                0 => fsize,
                1 => group,
                2 => group - fsize,
                3 => rng.random_range(0..group),
                _ => rng.random_range(0..2 * size),
            };
            let what = format!("seed {}: {name}, {size} + {more}, step {step}", seed.wrapping_add(case));
            let bytes = (size + more).min(most);
            let branch: Arc<MemoryDevice> = Arc::new(device.branch());
            match grown(&(branch.clone() as Arc<dyn Device>), bytes) {
                Ok((growth, report)) => {
                    assert!(report.is_clean(), "{what}");
                    let superblock = Superblock::open(&*branch).unwrap();
                    let layout = &superblock.layout;
                    assert_eq!(layout.fs_size << layout.fs_fshift, growth.new_bytes, "{what}");
                    assert_eq!(layout.fs_ncg, growth.new_groups, "{what}");
                    assert!(growth.new_bytes + growth.unused_bytes <= bytes, "{what}");
                    assert!(growth.unused_bytes < group, "{what}");
                    assert_whole(&branch, &files, &what);
                    device.write_at(0, &branch.to_bytes()).unwrap();
                    size = growth.new_bytes;
                }
                Err(Error::Unsupported { what: why, .. }) => {
                    assert!(why.contains("summaries") || why.contains("no space"), "{what}: {why}");
                    assert!(tree(&branch) == files && damage(&branch).is_empty(), "{what}");
                }
                Err(Error::NoSpace) => {
                    assert!(tree(&branch) == files && damage(&branch).is_empty(), "{what}");
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

/// Promise: images that real systems wrote grow as well, and keep what they hold.
#[test]
fn images_of_real_systems_grow() {
    let all = ["freebsd-ufs2-le", "freebsd-ufs2-be", "openbsd28-ufs1", "openbsd28-43bsd"];
    for sample in present(&all) {
        let name = sample.name;
        let device = MemoryDevice::from_bytes(&sample.image());
        let files = tree(&device);
        let size = device.info().size_bytes;
        for bytes in [size + size / 3, size * 2, size * 3 - 512] {
            let larger = Arc::new(enlarged(&device, bytes));
            let grown = grown(&(larger.clone() as Arc<dyn Device>), bytes);
            let (growth, _) = grown.unwrap_or_else(|error| panic!("{name} to {bytes}: {error}"));
            assert!(!growth.is_nothing(), "{name} to {bytes}");
            assert_whole(&larger, &files, &format!("{name} to {bytes}"));
        }
    }
}

/// Returns a filled file system with small groups, where its format allows them, at the beginning
/// of a device of as many bytes as it is to have; none if there is none of its size.
fn growing(parameters: &Parameters, rng: &mut SmallRng) -> Option<(MemoryDevice, u64)> {
    let mut parameters = Parameters { size_bytes: 8 << 20, ..parameters.clone() };
    if parameters.geometry == Geometry::default() {
        // Where fragments are small, few groups more need more space for their summaries.
        let small = rng.random();
        (parameters.bsize, parameters.fsize) =
            if small { (Some(4096), Some(512)) } else { (Some(8192), Some(1024)) };
        parameters.blocks_per_group = Some(rng.random_range(90..200));
    }
    let size = spindle_ffs::newfs::Plan::new(&parameters).ok()?.size_bytes();
    let device = fill(&images::new(&parameters), 3 << 20, rng);
    let bytes = if rng.random_ratio(1, 3) {
        size + rng.random_range(1..100) * 1024
    } else {
        size * rng.random_range(11..60) / 10
    };
    Some((enlarged(&device, bytes), bytes))
}

/// Repairs what is left of a growth as `fsck -p` and `-y` do, and checks that no damage remains,
/// that every file is as it was, and that it can grow again.
fn assert_grows_again(medium: &MemoryDevice, bytes: u64, files: &Tree, what: &str) {
    assert_eq!(repair(medium).refusal, None, "{what}");
    Superblock::open(medium).unwrap().mark_checked(medium, clock().now()).unwrap();
    assert_eq!(damage(medium), Vec::<String>::new(), "{what}");
    assert!(tree(medium) == *files, "{what}: the files are others");
    let again = Arc::new(medium.branch());
    grown(&(again.clone() as Arc<dyn Device>), bytes)
        .unwrap_or_else(|error| panic!("{what}: again: {error}"));
    assert!(tree(&again) == *files && damage(&again).is_empty(), "{what}: again");
}

/// Lets writes and flushes of `change`, which makes so many of them, fail, once or from then on,
/// and checks that it says so. Passes what the device holds then to `check`, with and without what
/// was not flushed.
fn each_failure(
    device: &MemoryDevice,
    count: usize,
    rng: &mut SmallRng,
    change: impl Fn(&Arc<dyn Device>) -> Option<Error>,
    mut check: impl FnMut(&MemoryDevice, &mut SmallRng, &str),
) {
    for _ in 0..8 {
        let at = rng.random_range(0..count);
        let end = if rng.random() { at + 1 } else { usize::MAX };
        let what = format!("failed at {at} to {end}");
        let failing = Arc::new(Recorder::failing(device, at..end));
        let error = change(&(failing.clone() as Arc<dyn Device>));
        assert!(matches!(error, Some(Error::Device(_))), "{what}: {error:?}");
        let events = std::mem::take(&mut *failing.events.lock());
        for medium in [failing.inner.branch(), cut(device, &events, events.len(), rng)] {
            check(&medium, rng, &what);
        }
    }
}

/// Promise: wherever the growth is cut, and whatever of the writes since the last flush is lost, a
/// repair comes to a file system without damage with every file as it was, which can grow again. If
/// a write or a flush fails, growth says so, and what is on the disk then is repaired as well.
#[test]
fn torture_cut_growth() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test growfs torture_cut_growth");
    let all = all();
    let (cases, mut cut_ones) = (cases(all.len() as u64), 0);
    for case in 0..cases {
        let mut rng = SmallRng::seed_from_u64(seed.wrapping_add(case));
        let (name, parameters) = &all[usize::try_from(case).unwrap() % all.len()];
        let name = format!("seed {}: {name}", seed.wrapping_add(case));
        let Some((device, bytes)) = growing(parameters, &mut rng) else { continue };
        let files = tree(&device);
        let recorder = Arc::new(Recorder::over(&device));
        if grown(&(recorder.clone() as Arc<dyn Device>), bytes).is_err() {
            continue;
        }
        cut_ones += 1;
        let events = std::mem::take(&mut *recorder.events.lock());
        assert_whole(&recorder.inner, &files, &name);
        let ends: Vec<_> = if events.len() < 60 {
            (1..events.len()).collect()
        } else {
            let late = events.len() - 30;
            (0..30).map(|_| rng.random_range(1..late)).chain(late..events.len()).collect()
        };
        for end in ends {
            let what = format!("{name}, cut at {end} of {}", events.len());
            assert_grows_again(&cut(&device, &events, end, &mut rng), bytes, &files, &what);
        }
        let grow = |device: &_| grown(device, bytes).err();
        each_failure(&device, events.len(), &mut rng, grow, |medium, _, what| {
            assert_grows_again(medium, bytes, &files, &format!("{name}, {what}"));
        });
    }
    assert!(cut_ones >= cases / 4, "only {cut_ones} of {cases} have grown");
}

/// Promise: on sectors of any size, what has grown has the groups, the space and the inodes that
/// newfs gives a file system of that size with groups of the same size.
#[test]
fn grown_ones_are_as_newfs_makes_them() {
    for (name, parameters) in all() {
        for sector_bytes in [512, 1024, 2048, 4096] {
            let small = Parameters {
                size_bytes: 20 << 20,
                sector_bytes,
                bsize: Some(8 * sector_bytes.max(1024)),
                fsize: Some(sector_bytes.max(1024)),
                density: Some(8192),
                // Groups small enough for newfs to make at least four at both sizes.
                blocks_per_group: (parameters.geometry == Geometry::default()).then_some(128),
                ..parameters.clone()
            };
            let large = Parameters { size_bytes: 40 << 20, ..small.clone() };
            let what = format!("{name}, sectors of {sector_bytes}");
            let made = images::new(&large);
            let new = Superblock::open(&made).unwrap().layout;
            let device = enlarged(&images::new(&small), large.size_bytes).with_sectors(sector_bytes);
            let device = Arc::new(fill(&device, 1 << 20, &mut SmallRng::seed_from_u64(3)));
            let files = tree(&device);
            let all_of_it = new.fs_size << new.fs_fshift;
            grown(&(device.clone() as Arc<dyn Device>), all_of_it).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(Superblock::open(&*device).unwrap().layout, new, "{what}");
            assert_eq!(damage(&device), Vec::<String>::new(), "{what}");
            assert!(tree(&device) == files, "{what}: the files are others");
            let (grown, made) = (mount(device), mount(Arc::new(made)));
            let (grown, made) = (grown.statfs().unwrap(), made.statfs().unwrap());
            assert_eq!((grown.blocks, grown.files), (made.blocks, made.files), "{what}");
        }
    }
}

/// Promise: what is damaged, or in use, does not grow, and nothing of it is written; nor does it
/// become smaller.
#[test]
fn what_is_not_whole_does_not_grow() {
    let parameters = Parameters::new(8 << 20);
    let small = fill(&images::new(&parameters), 1 << 20, &mut SmallRng::seed_from_u64(1));
    let device = enlarged(&small, 32 << 20);
    let superblock = Superblock::open(&device).unwrap();
    let refused = |device: &MemoryDevice, reason: &str| {
        let before = device.to_bytes();
        let branch = Arc::new(device.branch());
        let error = grown(&(branch.clone() as Arc<dyn Device>), 32 << 20).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        assert!(branch.to_bytes() == before, "{reason}: something was written");
    };
    let damaged = device.branch();
    damaged.write_at(superblock.layout.byte(superblock.layout.fs_csaddr), &[7; 512]).unwrap();
    refused(&damaged, "damage");
    let used = Arc::new(device.branch());
    let fs = mount(used.clone());
    create(&fs, fs.root(), "new", FileKind::Regular).unwrap();
    fs.sync().unwrap();
    refused(&used, "not unmounted");
    fs.unmount().unwrap();
    let error = growth(&device, 4 << 20).unwrap_err().to_string();
    assert!(error.contains("less than"), "{error}");
    assert!(growth(&device, superblock.layout.fs_size << superblock.layout.fs_fshift).unwrap().is_nothing());
}
