//! The writer against the reader, with a model of what counts.

use super::format::{DEV_BSIZE, Identity, Stamp};
use super::{OrphanChanges, Replay, Ring, Wapbl};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_cache::{Change, Changes, Log};
use spindle_clock::{ManualClock, Mutex};
use spindle_conformance::random::seed;
use spindle_device::{AlignedBuf, Device, Info, MemoryDevice, Request, Ticket};
use spindle_ondisk::Endian;
use std::collections::BTreeMap;
use std::sync::Arc;

const AT: u64 = 1 << 20;

fn identity() -> Identity {
    Identity::of(&[7; 1376])
}

/// A device that keeps what the medium is at each flush: what a power cut just after it leaves.
struct Flushed {
    inner: MemoryDevice,
    media: Mutex<Vec<MemoryDevice>>,
}

impl Device for Flushed {
    fn info(&self) -> &Info {
        self.inner.info()
    }
    fn submit(&self, request: Request) -> spindle_device::Result<Ticket> {
        self.inner.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> spindle_device::Result<AlignedBuf> {
        self.inner.wait(ticket)
    }
    fn flush(&self) -> spindle_device::Result<()> {
        self.media.lock().push(self.inner.branch());
        self.inner.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> spindle_device::Result<()> {
        self.inner.discard(offset, len)
    }
}

/// Returns the first byte of each block that a replay of the log would write, all of which are the
/// same.
fn replayed(replay: &Replay, device: &dyn Device, place: &str) -> BTreeMap<u64, u8> {
    let mut found = BTreeMap::new();
    for (at, bytes) in replay.changes(device).unwrap() {
        for (n, block) in bytes.chunks(512).enumerate() {
            assert!(block.iter().all(|&byte| byte == block[0]), "{place}");
            found.insert(at + n as u64 * DEV_BSIZE, block[0]);
        }
    }
    found
}

/// What a recovery has to find: the content of each block, and the orphans.
#[derive(Default)]
struct Model {
    blocks: BTreeMap<u64, u8>,
    inodes: BTreeMap<u32, u16>,
}

impl Model {
    /// Returns what a recovery may find, if the list need not be exact: all orphans, and others
    /// that once were.
    fn accepts(&self, found: &BTreeMap<u32, u16>, exact: bool) -> bool {
        let all = self.inodes.iter().all(|(ino, mode)| found.get(ino) == Some(mode));
        all && (!exact || found.len() == self.inodes.len())
    }
}

fn changes(random: &mut StdRng, model: &mut Model, log: &Wapbl) -> Changes {
    let mut group = Changes::default();
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
        group.changed.push(Change { at, bytes });
        at += (sectors + random.random_range(1..9)) * DEV_BSIZE;
    }
    let mut orphans = OrphanChanges::default();
    match random.random_range(0..4) {
        0 => orphans.removed.extend(std::mem::take(&mut model.inodes).into_keys()),
        1 => {
            while model.inodes.len() < log.most_orphans() && random.random_range(0..150) > 0 {
                let (ino, mode) = (random.random_range(3..100_000), random.random());
                if model.inodes.insert(ino, mode).is_none() {
                    orphans.added.insert(ino, mode);
                } else {
                    model.inodes.remove(&ino);
                    if orphans.added.remove(&ino).is_none() {
                        orphans.removed.push(ino);
                    }
                }
            }
        }
        2 => {
            let gone: Vec<_> =
                model.inodes.keys().copied().filter(|_| random.random_range(0..3) == 0).collect();
            for ino in gone {
                model.inodes.remove(&ino);
                orphans.removed.push(ino);
                // The number may have been given out again, to another file that is an orphan by
                // now.
                if random.random_range(0..3) == 0 {
                    model.inodes.insert(ino, 7);
                    orphans.added.insert(ino, 7);
                }
            }
        }
        _ => {}
    }
    log.note_orphans(orphans);
    group
}

fn run(seed: u64) {
    let random = &mut StdRng::seed_from_u64(seed);
    let clock = Arc::new(ManualClock::at(1));
    let device = Arc::new(Flushed { inner: MemoryDevice::new(2 << 20), media: Mutex::default() });
    let len = random.random_range(160..400) << 10;
    let endian = if random.random() { Endian::Big } else { Endian::Little };
    let ring = Ring::new(AT, len, 512);
    let exact = random.random();
    let mut log = Wapbl::create(device.clone(), clock.clone(), ring, endian, exact, identity()).unwrap();
    let mut model = Model::default();
    for step in 0..200 {
        let before = model.blocks.clone();
        let group = changes(random, &mut model, &log);
        if !log.has_room(&group) || random.random_range(0..8) == 0 {
            log.checkpointed();
            model.blocks.retain(|&block, _| {
                group.changed.iter().any(|c| (c.at..c.at + c.bytes.len() as u64).contains(&block))
            });
        }
        device.media.lock().clear();
        log.commit(&group).unwrap();
        let place = format!("seed {seed}, step {step}");
        for (nth, medium) in device.media.lock().drain(..).enumerate() {
            let place = format!("{place}, power cut after flush {nth} of the commit");
            let replay = Replay::read(&medium, AT, len).unwrap_or_else(|error| panic!("{place}: {error}"));
            for (block, fill) in replayed(&replay, &medium, &place) {
                let known = [before.get(&block), model.blocks.get(&block)];
                assert!(known.contains(&Some(&fill)), "{place}, block {block}");
            }
        }
        let replay = Replay::read(&*device, AT, len).unwrap();
        assert!(replayed(&replay, &*device, &place) == model.blocks, "{place}");
        assert!(model.accepts(&replay.orphans().collect(), exact), "{place}");
        assert_eq!(replay.stamp().map(|stamp| stamp.before), Some(identity()), "{place}");
        if random.random_range(0..10) == 0 {
            model.inodes = replay.orphans().collect();
            let (device, clock) = (device.clone(), clock.clone());
            log = Wapbl::resume(device.clone(), clock, &replay, model.inodes.clone(), exact, identity());
            log.restamp(Stamp { before: identity(), after: identity() }).unwrap();
            model.blocks.clear();
            let replay = Replay::read(&*device, AT, len).unwrap();
            assert_eq!(replay.blocks(), 0, "{place}");
            assert!(model.accepts(&replay.orphans().collect(), true), "{place}");
        }
    }
}

/// Promise: whatever is committed, revoked and given up, a reader finds the blocks that count with
/// their last content, and the orphans, without others if the list is to be exact; also after a
/// recovery, and around the end of the ring many times. After a power cut during a commit it finds
/// blocks of before or after it.
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
    let clock = Arc::new(ManualClock::at(1));
    Wapbl::create(device.clone(), clock, ring, Endian::Little, false, identity()).unwrap();
    assert!(Replay::read(&*device, AT, 64 << 10).unwrap().stamp().is_some());
    let mut bytes = vec![0; 64 << 10];
    device.read_at(AT, &mut bytes).unwrap();
    device.write_at(0, &bytes).unwrap();
    assert!(Replay::read(&*device, 0, 64 << 10).unwrap().stamp().is_none());
}

/// Promise: a log of any bytes is refused or read, without a panic and in bounded time, whatever it
/// says of itself.
#[test]
fn torture_any_bytes() {
    let cases =
        std::env::var("SPINDLE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2000_u64).min(200_000);
    let first = seed();
    let clock = Arc::new(ManualClock::at(1));
    let len = 256 << 10;
    let good = Arc::new(MemoryDevice::new(2 << 20));
    let ring = Ring::new(AT, len, 512);
    let log = Wapbl::create(good.clone(), clock, ring, Endian::Little, false, identity()).unwrap();
    let mut model = Model::default();
    for n in 0..3 {
        let group = changes(&mut StdRng::seed_from_u64(n), &mut model, &log);
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

/// Promise: a list of orphans that has not changed is in no later commit, and one that has grown
/// only with what is new, however long it is.
#[test]
fn orphans_are_not_listed_again() {
    let device = Arc::new(MemoryDevice::new(8 << 20));
    let ring = Ring::new(AT, 4 << 20, 512);
    let clock = Arc::new(ManualClock::at(1));
    let log = Wapbl::create(device.clone(), clock, ring, Endian::Little, true, identity()).unwrap();
    let added = (3..20_003).map(|ino| (ino, 0o100_644)).collect();
    log.note_orphans(OrphanChanges { added, removed: Vec::new() });
    let commit = |at| {
        let before = Replay::read(&*device, AT, 4 << 20).unwrap().header.wc_head.max(ring.circ_off);
        let changed = vec![Change { at, bytes: vec![1; 512] }];
        log.commit(&Changes { revoked: Vec::new(), changed }).unwrap();
        Replay::read(&*device, AT, 4 << 20).unwrap().header.wc_head - before
    };
    assert!(commit(0) > 20_000 * 8);
    assert_eq!(commit(512), 1024);
    log.note_orphans(OrphanChanges { added: BTreeMap::from([(30_000, 1)]), removed: Vec::new() });
    assert_eq!(commit(1024), 1536);
    let replay = Replay::read(&*device, AT, 4 << 20).unwrap();
    assert_eq!(replay.orphans().count(), 20_001);
    // A checkpoint gives up the record with the list, so the next commit has it again.
    log.checkpointed();
    assert!(commit(1536) > 20_000 * 8);
    assert_eq!(commit(2048), 1024);
    let replay = Replay::read(&*device, AT, 4 << 20).unwrap();
    assert_eq!((replay.orphans().count(), replay.blocks()), (20_001, 2));
}

/// Promise: a superblock is ours if it is what we wrote last, torn if each of its sectors is what
/// we wrote or what was there before, and another system's otherwise, also where it agrees in all
/// but one sector.
#[test]
fn whose_superblock() {
    use super::SuperblockState;
    let (before, after) = ([1; 1376], [2; 1376]);
    let stamp = Stamp { before: Identity::of(&before), after: Identity::of(&after) };
    let state_of = |bytes: &[u8]| stamp.state_of(Identity::of(bytes));
    assert_eq!(state_of(&after), SuperblockState::Ours);
    assert_eq!(state_of(&before), SuperblockState::Torn);
    let mut torn = after;
    torn[512..1024].copy_from_slice(&before[512..1024]);
    assert_eq!(state_of(&torn), SuperblockState::Torn);
    for at in [0, 600, 1375] {
        let mut foreign = after;
        foreign[at] = 3;
        assert_eq!(state_of(&foreign), SuperblockState::Foreign, "{at}");
    }
    assert_eq!(state_of(&after[..1024]), SuperblockState::Foreign);
}
