//! Files of very many extents: what a change of them costs, and that it is right.

mod support;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_cache::Settings;
use spindle_conformance::random::seed;
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::check::{Usage, check};
use spindle_mfs::newfs::{Member, Wishes, make};
use spindle_mfs::{Mfs, OpenOptions, Role, Set};
use spindle_vfs::{FallocateMode, FileKind, FileSystem, Ino, NewNode, Privilege, SetAttr};
use std::sync::Arc;
use support::{Event, Events, clock, recorders};

const BY: Privilege = Privilege::Root;
/// Bytes of a data block.
const BLOCK: u64 = 512;
/// The member that has log storage.
const LOG: usize = 2;
/// Most bytes of the log for one more extent: a record with the header of the file, three overflow
/// headers, the descriptions of two cylinders, and two pieces of the allocation map.
const MOST: usize = 9 * 512;

/// Returns the members of a new set, in the order control, data, log.
fn members() -> Vec<MemoryDevice> {
    let roles = [(1024, Role::Control), (12 << 10, Role::Data), (1280, Role::Log)];
    let members = roles.map(|(kib, role)| Member::of(Arc::new(MemoryDevice::new(kib << 10)), role));
    let mut wishes = Wishes::new();
    wishes.parameters.block_bytes = 1024;
    wishes.parameters.cylinder_bytes = 64 << 10;
    wishes.parameters.data_block_bytes = 512;
    wishes.parameters.track_blocks = 8;
    wishes.parameters.stripe_bytes = 4096;
    make(&members, &wishes, &*clock(), &mut StdRng::seed_from_u64(5)).unwrap();
    let bytes = |member: &Member| {
        let mut bytes = vec![0; usize::try_from(member.device.info().size_bytes).unwrap()];
        member.device.read_at(0, &mut bytes).unwrap();
        MemoryDevice::from_bytes(&bytes)
    };
    members.iter().map(bytes).collect()
}

fn open(devices: &[Arc<dyn Device>]) -> Mfs {
    Mfs::open(&Set::open(devices).unwrap(), clock(), &OpenOptions::default()).unwrap()
}

fn create(fs: &Mfs) -> Ino {
    fs.create(fs.root(), b"file", &NewNode::new(FileKind::Regular, 0o644), BY).unwrap().ino
}

fn resize(fs: &Mfs, ino: Ino, size: u64) {
    fs.setattr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }, BY).unwrap();
}

/// Checks a set that was unmounted.
fn usage(devices: &[Arc<dyn Device>], what: &str) -> Usage {
    let report = check(&Set::open(devices).unwrap(), 100, &mut |_| ()).unwrap();
    assert!(report.findings.is_empty(), "{what}: {:#?}", report.findings);
    report.usage
}

/// Promise: whatever their number, one more extent and one less, at the end of a file or anywhere
/// else, cost the log the same few headers.
#[test]
fn a_change_of_one_extent_logs_few_headers() {
    let events = Events::default();
    let devices = recorders(&members(), &events);
    // A compaction would append more than the change.
    let cache = Settings { compaction: false, ..Settings::default() };
    let options = OpenOptions { cache, ..OpenOptions::default() };
    let fs = Mfs::open(&Set::open(&devices).unwrap(), clock(), &options).unwrap();
    let ino = create(&fs);
    let written = |lbn: u64| assert_eq!(fs.write(ino, lbn * BLOCK, &[7; 512], BY).unwrap(), 512);
    (0..10_000).for_each(|n| written(n * 3));
    fs.sync().unwrap();
    let logged = |change: &dyn Fn()| -> usize {
        events.lock().clear();
        change();
        fs.sync().unwrap();
        let events = std::mem::take(&mut *events.lock());
        let bytes = |event: &Event| match event {
            Event::Write { member: LOG, bytes, .. } => bytes.len(),
            _ => 0,
        };
        events.iter().map(bytes).sum()
    };
    let punched = |lbn: u64| {
        fs.fallocate(ino, FallocateMode::PunchHole, lbn * BLOCK, BLOCK, BY).unwrap();
    };
    for n in 0..40 {
        let end = logged(&|| written(30_000 + n * 3));
        let middle = logged(&|| written(13_000 + n * 3 + 1));
        let first = logged(&|| written(n * 6 + 1));
        let removed = logged(&|| punched(20_001 + n * 3));
        for bytes in [end, middle, first, removed] {
            assert!(bytes > 0 && bytes <= MOST, "{end}, {middle}, {first}, {removed}");
        }
    }
    fs.unmount().unwrap();
    let usage = usage(&devices, "in the end");
    assert!(usage.overflow_headers < 10_000 / 20, "{usage:?}");
    let fs = open(&devices);
    let mut bytes = vec![0; 512];
    for (lbn, expected) in [(0, 7), (1, 7), (2, 0), (13_001, 7), (20_001, 0), (30_117, 7)] {
        assert_eq!(fs.read(ino, lbn * BLOCK, &mut bytes).unwrap(), 512);
        assert!(bytes.iter().all(|&byte| byte == expected), "block {lbn}");
    }
    // A hole over all of them but the first and a part of the last.
    let size = fs.getattr(ino).unwrap().size;
    fs.fallocate(ino, FallocateMode::PunchHole, BLOCK, size - BLOCK - 100, BY).unwrap();
    let mut bytes = vec![0; usize::try_from(size).unwrap()];
    assert_eq!(fs.read(ino, 0, &mut bytes).unwrap(), bytes.len());
    let kept = |at: usize| at < 512 || at >= bytes.len() - 100;
    assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == if kept(at) { 7 } else { 0 }));
    fs.unmount().unwrap();
    assert_eq!(self::usage(&devices, "after the hole").overflow_headers, 0);
}

/// Promise: a file is whole after each extent that it gets at its end, and loses there.
#[test]
fn files_grow_and_shrink_by_extents() {
    let media = members();
    let devices: Vec<_> = media.into_iter().map(|device| Arc::new(device) as Arc<dyn Device>).collect();
    let fs = open(&devices);
    let ino = create(&fs);
    fs.unmount().unwrap();
    for n in (1..=90_u64).chain((0..90).rev()) {
        let fs = open(&devices);
        let size = (n * 2).saturating_sub(1) * BLOCK;
        if fs.getattr(ino).unwrap().size < size {
            assert_eq!(fs.write(ino, size - BLOCK, &[7; 512], BY).unwrap(), 512);
        } else {
            resize(&fs, ino, size);
        }
        assert_eq!(fs.getattr(ino).unwrap().blocks512, n);
        fs.unmount().unwrap();
        let overflow = usage(&devices, &format!("{n} extents")).overflow_headers;
        assert_eq!(overflow, n.saturating_sub(24).div_ceil(29));
    }
}

/// Promise: writes, holes and truncations anywhere in a file of many extents give what a file of
/// bytes has, also after remounts; no header is left when the file is empty.
#[test]
fn torture_many_extents() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test overflow torture_many_extents");
    let mut rng = StdRng::seed_from_u64(seed);
    let media = members();
    let devices: Vec<_> = media.into_iter().map(|device| Arc::new(device) as Arc<dyn Device>).collect();
    let mut fs = open(&devices);
    let ino = create(&fs);
    let mut expected = vec![0_u8; 3000 * 512];
    resize(&fs, ino, expected.len() as u64);
    let mut most = 0;
    for step in 0..4000_usize {
        let cut = rng.random_range(0..20) == 0;
        // Mostly little is cut off.
        let lbn = if cut {
            3000 - rng.random_range(1..[30, 30, 30, 1000][step % 4])
        } else {
            rng.random_range(0..3000)
        };
        let range =
            lbn * 512..(lbn + rng.random_range(1..if step % 50 == 0 { 200 } else { 4 })).min(3000) * 512;
        let (at, len) = (range.start as u64, range.len() as u64);
        if cut {
            resize(&fs, ino, at);
            resize(&fs, ino, expected.len() as u64);
            expected[range.start..].fill(0);
        } else if step % 50 == 0 || rng.random_range(0..4) == 0 {
            fs.fallocate(ino, FallocateMode::PunchHole, at, len, BY).unwrap();
            expected[range].fill(0);
        } else {
            let bytes = vec![u8::try_from(step % 255 + 1).unwrap(); range.len()];
            assert_eq!(fs.write(ino, at, &bytes, BY).unwrap(), bytes.len());
            expected[range].copy_from_slice(&bytes);
        }
        if step % 400 == 399 {
            fs.unmount().unwrap();
            drop(fs);
            most = most.max(usage(&devices, &format!("seed {seed}, step {step}")).overflow_headers);
            fs = open(&devices);
            let mut bytes = vec![0; expected.len()];
            assert_eq!(fs.read(ino, 0, &mut bytes).unwrap(), bytes.len());
            assert!(bytes == expected, "seed {seed}, step {step}");
        }
    }
    assert!(most > 10, "{most}");
    resize(&fs, ino, 0);
    fs.unmount().unwrap();
    assert_eq!(usage(&devices, "in the end").overflow_headers, 0);
}
