//! The writer against the reader, with a model of what counts.

use super::format::{DEV_BSIZE, Identity, Stamp};
use super::{Replay, Ring, Wapbl};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_cache::{Change, Group, Log};
use spindle_clock::ManualClock;
use spindle_device::{Device, MemoryDevice};
use spindle_ondisk::Endian;
use spindle_vfs::random::seed;
use std::collections::BTreeMap;
use std::sync::Arc;

const AT: u64 = 1 << 20;
const IDENTITY: Identity = Identity { time: 7, hash: 9 };

/// What a recovery has to find: the content of each block, and the inodes without names.
#[derive(Default)]
struct Model {
    blocks: BTreeMap<u64, u8>,
    inodes: BTreeMap<u32, u16>,
}

fn group(random: &mut StdRng, model: &mut Model) -> Group {
    let mut group = Group::default();
    for _ in 0..random.random_range(0..4) {
        let start = random.random_range(0..1000) * DEV_BSIZE;
        group.revoked.push(start..start + random.random_range(1..9) * DEV_BSIZE);
    }
    for range in &group.revoked {
        model.blocks.retain(|block, _| !range.contains(block));
    }
    let mut at = random.random_range(0..200) * DEV_BSIZE;
    for _ in 0..random.random_range(0..70) {
        let sectors = random.random_range(1..4);
        let fill: u8 = random.random();
        for n in 0..sectors {
            model.blocks.insert(at + n * DEV_BSIZE, fill);
        }
        let bytes = vec![fill; usize::try_from(sectors * DEV_BSIZE).unwrap()];
        group.changes.push(Change { at, bytes });
        at += (sectors + random.random_range(1..9)) * DEV_BSIZE;
    }
    match random.random_range(0..3) {
        0 => model.inodes.clear(),
        1 => {
            for _ in 0..random.random_range(1..200) {
                model.inodes.insert(random.random_range(3..100_000), random.random());
            }
        }
        _ => {}
    }
    group
}

fn run(seed: u64) {
    let random = &mut StdRng::seed_from_u64(seed);
    let clock = Arc::new(ManualClock::at(1));
    let device: Arc<MemoryDevice> = Arc::new(MemoryDevice::new(2 << 20));
    let len = random.random_range(160..400) << 10;
    let endian = if random.random() { Endian::Big } else { Endian::Little };
    let ring = Ring::new(AT, len, 512);
    let mut log = Wapbl::create(device.clone(), clock.clone(), ring, endian, IDENTITY).unwrap();
    let mut model = Model::default();
    for step in 0..200 {
        let group = group(random, &mut model);
        log.set_nameless(model.inodes.clone());
        if !log.has_room(&group) || random.random_range(0..8) == 0 {
            log.trim();
            model.blocks.retain(|&block, _| {
                group.changes.iter().any(|c| (c.at..c.at + c.bytes.len() as u64).contains(&block))
            });
        }
        log.commit(&group).unwrap();
        let place = format!("seed {seed}, step {step}");
        let replay = Replay::read(&*device, AT, len).unwrap();
        let mut found = BTreeMap::new();
        for (at, bytes) in replay.changes(&*device).unwrap() {
            for (n, block) in bytes.chunks(512).enumerate() {
                assert!(block.iter().all(|&byte| byte == block[0]), "{place}");
                found.insert(at + n as u64 * DEV_BSIZE, block[0]);
            }
        }
        assert!(found == model.blocks, "{place}");
        assert_eq!(replay.nameless().collect::<BTreeMap<_, _>>(), model.inodes, "{place}");
        assert_eq!(replay.stamp().map(|stamp| stamp.before), Some(IDENTITY), "{place}");
        if random.random_range(0..10) == 0 {
            log = Wapbl::resume(device.clone(), clock.clone(), &replay, model.inodes.clone(), IDENTITY);
            log.restamp(Stamp { before: IDENTITY, after: IDENTITY }).unwrap();
            model.blocks.clear();
            let replay = Replay::read(&*device, AT, len).unwrap();
            assert_eq!(replay.blocks(), 0, "{place}");
            assert_eq!(replay.nameless().collect::<BTreeMap<_, _>>(), model.inodes, "{place}");
        }
    }
}

/// Promise: whatever is committed, revoked and given up, a reader finds the blocks that count with their last content, and
/// the inodes without names; also after a recovery, and around the end of the ring many times.
#[test]
fn torture_log_against_a_model() {
    let cases = std::env::var("SPINDLE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(20_u64).min(5000);
    let first = seed();
    for nth in 0..cases {
        run(first.wrapping_add(nth));
    }
}

/// Promise: a log that was copied elsewhere does not count as ours there.
#[test]
fn a_copy_has_no_stamp() {
    let device = Arc::new(MemoryDevice::new(2 << 20));
    let ring = Ring::new(AT, 64 << 10, 512);
    Wapbl::create(device.clone(), Arc::new(ManualClock::at(1)), ring, Endian::Little, IDENTITY).unwrap();
    assert!(Replay::read(&*device, AT, 64 << 10).unwrap().stamp().is_some());
    let mut bytes = vec![0; 64 << 10];
    device.read_at(AT, &mut bytes).unwrap();
    device.write_at(0, &bytes).unwrap();
    assert!(Replay::read(&*device, 0, 64 << 10).unwrap().stamp().is_none());
}

/// Promise: a log of any bytes is refused or read, without a panic and in bounded time, whatever it says of itself.
#[test]
fn torture_any_bytes() {
    let cases =
        std::env::var("SPINDLE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2000_u64).min(200_000);
    let first = seed();
    let clock = Arc::new(ManualClock::at(1));
    let len = 256 << 10;
    let good = Arc::new(MemoryDevice::new(2 << 20));
    let ring = Ring::new(AT, len, 512);
    let log = Wapbl::create(good.clone(), clock, ring, Endian::Little, IDENTITY).unwrap();
    let mut model = Model::default();
    for n in 0..3 {
        let group = group(&mut StdRng::seed_from_u64(n), &mut model);
        log.set_nameless(model.inodes.clone());
        log.commit(&group).unwrap();
    }
    for nth in 0..cases {
        let random = &mut StdRng::seed_from_u64(first.wrapping_add(nth));
        let device = good.branch();
        for _ in 0..random.random_range(1..6) {
            let block = if random.random() { random.random_range(0..2) } else { random.random_range(0..512) };
            let at = AT + block * 512;
            let mut bytes = vec![0; 512];
            device.read_at(at, &mut bytes).unwrap();
            let end = if random.random() { 120 } else { 512 };
            let value = [0, 1, 0x7f, 0x80, 0xff, random.random()][random.random_range(0..6)];
            bytes[random.random_range(0..end)] = value;
            device.write_at(at, &bytes).unwrap();
        }
        if let Ok(replay) = Replay::read(&device, AT, len) {
            let _ = replay.changes(&device);
        }
    }
}
