//! Compaction, over a log in memory that is replayed after each commit.

use super::*;
use crate::{Change, Settings};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::SystemClock;
use spindle_device::MemoryDevice;

const LEN: usize = 4096;

/// Records after which the log wants a checkpoint.
const FULL: usize = 6;

/// A log that keeps its records in memory. During a commit another change is made.
#[derive(Default)]
struct Circle {
    records: Mutex<Vec<Changes>>,
    compact_bytes: AtomicUsize,
    compacted: AtomicUsize,
    checkpoints: AtomicUsize,
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Log for Circle {
    fn commit_bytes(&self) -> usize {
        1 << 20
    }
    fn limit_bytes(&self) -> usize {
        1 << 20
    }
    fn has_room(&self, _changes: &Changes) -> bool {
        true
    }
    fn commit(&self, changes: &Changes) -> Result<()> {
        self.records.lock().push(changes.clone());
        let change = self.meanwhile.lock().take();
        if let Some(change) = change {
            change();
        }
        Ok(())
    }
    fn wants_checkpoint(&self) -> bool {
        self.records.lock().len() >= FULL
    }
    fn compact_bytes(&self) -> usize {
        self.compact_bytes.load(Ordering::Relaxed)
    }
    fn compact(&self, changes: &Changes) -> Result<()> {
        *self.records.lock() = vec![changes.clone()];
        self.compacted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn checkpointed(&self) {
        self.records.lock().clear();
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
    }
}

impl Circle {
    /// Replays the records to `bytes`.
    fn replay(&self, bytes: &mut [u8]) {
        let records = self.records.lock();
        for (n, record) in records.iter().enumerate() {
            for Change { at, bytes: changed } in &record.changed {
                for (sector, new) in (*at..).step_by(512).zip(changed.chunks(512)) {
                    let revokes = |later: &Changes| later.revoked.iter().any(|range| range.contains(&sector));
                    if !records[n + 1..].iter().any(revokes) {
                        let at = usize::try_from(sector).unwrap();
                        bytes[at..at + 512].copy_from_slice(new);
                    }
                }
            }
        }
    }
}

/// What is at an address.
#[derive(Clone, PartialEq)]
enum Place {
    Buffer(Vec<u8>),
    /// Something that the log has nothing of.
    Other(Vec<u8>),
    Freed,
}

fn change(cache: &Cache, at: u64, byte: usize, value: u8) {
    let tx = cache.begin(512).unwrap().unwrap();
    cache.get(at, LEN, None).unwrap().write(&tx).bytes_mut(byte..byte + 1)[0] = value;
    tx.commit();
}

fn commit(cache: &Cache) {
    cache.commit::<spindle_device::Error>(cache.epoch(), |_| Ok(Vec::new())).unwrap();
}

/// Promise: after every commit the device and the log together have what is committed and nothing
/// else, whether the log was compacted or checkpointed, while buffers are changed, are freed, and
/// their space is used again.
#[test]
fn a_compacted_log_has_everything() {
    const PLACES: usize = 12;
    let seed = std::env::var("SPINDLE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(31);
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let (device, log) = (Arc::new(MemoryDevice::new(1 << 20)), Arc::new(Circle::default()));
    let settings = Settings { compaction: true, ..Settings::default() };
    let cache = Arc::new(Cache::with_log(device.clone(), Arc::new(SystemClock), settings, log.clone()));
    let mut places = vec![Place::Buffer(vec![0; LEN]); PLACES];
    for _ in 0..600 {
        log.compact_bytes.store([0, 1 << 20, 1 << 20][rng.random_range(0..3)], Ordering::Relaxed);
        let before = places.clone();
        for _ in 0..rng.random_range(1..8) {
            let n = rng.random_range(0..PLACES);
            let (at, byte, value) = ((n * LEN) as u64, rng.random_range(0..LEN), rng.random());
            match &mut places[n] {
                Place::Buffer(_) if rng.random_range(0..6) == 0 => {
                    let tx = cache.begin(512).unwrap().unwrap();
                    cache.forget(at);
                    cache.revoke(&tx, at..at + LEN as u64);
                    tx.commit();
                    places[n] = Place::Freed;
                }
                Place::Buffer(bytes) => {
                    change(&cache, at, byte, value);
                    bytes[byte] = value;
                }
                // What was freed is used again when that is durable.
                _ if matches!(before[n], Place::Buffer(_)) => {}
                _ if rng.random() => {
                    cache.directly(|device| device.write_at(at, &[value; LEN])).unwrap();
                    places[n] = Place::Other(vec![value; LEN]);
                }
                _ => {
                    let tx = cache.begin(512).unwrap().unwrap();
                    let new = cache.get_new(at, LEN, None, &tx).unwrap();
                    new.write(&tx).bytes_mut(0..LEN).fill(value);
                    tx.commit();
                    places[n] = Place::Buffer(vec![value; LEN]);
                }
            }
        }
        let committed = places.clone();
        let n = rng.random_range(0..PLACES);
        if let Place::Buffer(bytes) = &mut places[n] {
            let (own, at, byte, value) =
                (cache.clone(), (n * LEN) as u64, rng.random_range(0..LEN), rng.random());
            *log.meanwhile.lock() = Some(Box::new(move || change(&own, at, byte, value)));
            bytes[byte] = value;
        }
        commit(&cache);
        if let Some(late) = log.meanwhile.lock().take() {
            // An epoch without changes is not logged.
            late();
        }
        let mut bytes = device.to_bytes();
        log.replay(&mut bytes);
        for (n, place) in committed.iter().enumerate() {
            if let Place::Buffer(expected) | Place::Other(expected) = place {
                assert!(bytes[n * LEN..(n + 1) * LEN] == **expected, "seed {seed}, place {n}");
            }
        }
    }
    let [compacted, checkpoints] =
        [&log.compacted, &log.checkpoints].map(|count| count.load(Ordering::Relaxed));
    assert!(compacted > 20 && checkpoints > 10, "{compacted} {checkpoints}");
}

/// Promise: only what is not in its place is appended again, however often it was changed; not if
/// that is too much.
#[test]
fn only_what_the_log_has_is_compacted() {
    let (device, log) = (Arc::new(MemoryDevice::new(1 << 20)), Arc::new(Circle::default()));
    let settings = Settings { compaction: true, ..Settings::default() };
    let cache = Cache::with_log(device.clone(), Arc::new(SystemClock), settings, log.clone());
    change(&cache, 0, 5000 % LEN, 1);
    commit(&cache);
    cache.checkpoint().unwrap();
    let change_often = || {
        for n in 0..FULL {
            change(&cache, 0, 600, u8::try_from(n + 1).unwrap());
            commit(&cache);
        }
    };
    log.compact_bytes.store(512, Ordering::Relaxed);
    change_often();
    let records = log.records.lock().clone();
    let [Changes { changed, .. }] = &records[..] else { panic!("{} records", records.len()) };
    assert!(changed.len() == 1 && changed[0].at == 512 && changed[0].bytes.len() == 512);
    assert_eq!(changed[0].bytes[88], u8::try_from(FULL).unwrap());
    assert_eq!(device.to_bytes()[600], 0);
    log.compact_bytes.store(511, Ordering::Relaxed);
    change_often();
    assert!(log.records.lock().len() < FULL && device.to_bytes()[600] > 0);
}
