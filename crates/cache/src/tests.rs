use super::*;
use spindle_clock::SystemClock;
use spindle_device::{AlignedBuf, Info, MemoryDevice, Request, Ticket};
use std::sync::atomic::AtomicBool;

fn cache(bytes: u64) -> (Arc<MemoryDevice>, Cache) {
    let device = Arc::new(MemoryDevice::new(bytes));
    (device.clone(), Cache::new(device, Arc::new(SystemClock), Settings::default()))
}

/// Promise: a change reaches the device with the next flush and not before; reads see it at once.
#[test]
fn changes_reach_the_device_with_the_flush() {
    let (device, cache) = cache(1 << 20);
    let tx = cache.begin(0).unwrap().unwrap();
    cache.get(8192, 4096, None).unwrap().write(&tx).bytes_mut(7..8)[0] = 9;
    assert_eq!(cache.get(8192, 4096, None).unwrap().read()[7], 9);
    tx.commit();
    assert!(device.to_bytes().iter().all(|&b| b == 0));
    cache.flush().unwrap();
    assert_eq!(device.to_bytes()[8199], 9);
}

/// Promise: a forgotten buffer is never written, and its space reads as the device has it.
#[test]
fn forgotten_changes_are_gone() {
    let (device, cache) = cache(1 << 20);
    let tx = cache.begin(0).unwrap().unwrap();
    cache.get_new(4096, 4096, None, &tx).unwrap().write(&tx).bytes_mut(0..4096).fill(1);
    cache.forget(4096);
    tx.commit();
    device.write_at(4096, &[5; 512]).unwrap();
    cache.sync().unwrap();
    assert_eq!(device.to_bytes()[4096..4608], [5; 512]);
    assert_eq!(cache.get(4096, 4096, None).unwrap().read()[..512], [5; 512]);
}

/// Promise: the seal is applied to every write to the device, and the buffer in memory stays as it
/// was written.
#[test]
fn seals_every_write() {
    struct Sum;
    impl Seal for Sum {
        fn seal(&self, bytes: &mut [u8]) {
            bytes[0] = bytes[1..].iter().fold(0, |a: u8, &b| a.wrapping_add(b));
        }
    }
    let (device, cache) = cache(1 << 20);
    let seal: Arc<dyn Seal> = Arc::new(Sum);
    let tx = cache.begin(0).unwrap().unwrap();
    cache.get(0, 512, Some(&seal)).unwrap().write(&tx).bytes_mut(5..6)[0] = 3;
    tx.commit();
    cache.flush().unwrap();
    assert_eq!(device.to_bytes()[0], 3);
    assert_eq!(cache.get(0, 512, Some(&seal)).unwrap().read()[0], 0);
}

/// Promise: a buffer asked for with another length keeps its changed bytes, and the rest comes from
/// the device.
#[test]
fn buffers_change_length() {
    let (device, cache) = cache(1 << 20);
    device.write_at(1024, &[7; 1024]).unwrap();
    let tx = cache.begin(0).unwrap().unwrap();
    cache.get(0, 1024, None).unwrap().write(&tx).bytes_mut(0..1024).fill(1);
    let longer = cache.get(0, 2048, None).unwrap().read().to_vec();
    assert!(longer[..1024].iter().all(|&b| b == 1) && longer[1024..].iter().all(|&b| b == 7));
    assert_eq!(cache.get(0, 512, None).unwrap().read().len(), 512);
    tx.commit();
    cache.flush().unwrap();
    assert_eq!(device.to_bytes()[..512], [1; 512]);
}

/// Promise: the cache stays within its capacity however much is read, and evicts nothing that is
/// changed.
#[test]
fn capacity_is_kept() {
    let device = Arc::new(MemoryDevice::new(8 << 20));
    let cache = Cache::new(
        device.clone(),
        Arc::new(SystemClock),
        Settings { capacity_bytes: 1 << 20, dirty_limit_bytes: 8 << 20, ..Settings::default() },
    );
    let tx = cache.begin(0).unwrap().unwrap();
    cache.get(0, 4096, None).unwrap().write(&tx).bytes_mut(0..1)[0] = 1;
    tx.commit();
    for at in (0..8 << 20).step_by(4096) {
        cache.get(at, 4096, None).unwrap();
    }
    let held: usize = cache.shards.iter().map(|s| s.read().bytes()).sum();
    assert!(held <= (1 << 20) + SHARDS * 4096, "{held} bytes are held");
    cache.flush().unwrap();
    assert_eq!(device.to_bytes()[0], 1);
}

/// Promise: if many files are written one after the other without a flush, few of them wait in
/// memory.
#[test]
fn files_do_not_pile_up() {
    let (device, cache) = cache(1 << 26);
    for n in 0..3 * PENDING_STREAMS as u64 {
        let stream = cache.stream(4096, 1);
        let tx = cache.begin(0).unwrap().unwrap();
        let at = n * 4096;
        let space = Space { offset: 0, at, end: 4096 };
        cache.write(&stream, &tx, space, &[7; 512]).unwrap();
        tx.commit();
    }
    assert!(cache.pool.pending_streams() <= PENDING_STREAMS + 1);
    cache.flush().unwrap();
    assert_eq!(cache.pool.pending_streams(), 0);
    assert_eq!(device.to_bytes()[(3 * PENDING_STREAMS - 1) * 4096], 7);
}

/// Promise: delayed data beyond a limit goes to the device while changes go on, and what was
/// started before it has arrived by then; the rest waits for the flush.
#[test]
fn delayed_data_starts_early() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let data = DataSettings { start_bytes: Some(3 * 4096), ..DataSettings::THROUGH };
    let cache = Cache::new(device.clone(), Arc::new(SystemClock), Settings { data, ..Settings::default() });
    for n in 0..10_u64 {
        let stream = cache.stream(4096, 64);
        let tx = cache.begin(0).unwrap().unwrap();
        let at = n * 8192;
        cache.write(&stream, &tx, Space { offset: 0, at, end: 4096 }, &[7; 4096]).unwrap();
        tx.commit();
    }
    let written = || (0..10).filter(|n| device.to_bytes()[n * 8192] == 7).count();
    assert_eq!((written(), cache.pool.pending_streams()), (8, 6));
    cache.flush().unwrap();
    assert_eq!((written(), cache.pool.pending_streams()), (10, 0));
}

/// A device whose reads, writes and flushes can be made to fail.
struct Failing {
    device: MemoryDevice,
    reads: AtomicBool,
    writes: AtomicBool,
    flushes: AtomicBool,
}

impl Failing {
    fn new() -> Arc<Self> {
        let works = || AtomicBool::new(false);
        let device = MemoryDevice::new(1 << 20);
        Arc::new(Self { device, reads: works(), writes: works(), flushes: works() })
    }
}

impl Device for Failing {
    fn info(&self) -> &Info {
        self.device.info()
    }
    fn submit(&self, request: Request) -> Result<Ticket> {
        let (fails, action) = match request.op {
            spindle_device::Op::Read => (&self.reads, "read"),
            spindle_device::Op::Write => (&self.writes, "write"),
        };
        if fails.load(Ordering::Relaxed) {
            return Err(Error::io("failing", action, std::io::ErrorKind::Other.into()));
        }
        self.device.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.device.wait(ticket)
    }
    fn flush(&self) -> Result<()> {
        if self.flushes.load(Ordering::Relaxed) {
            return Err(Error::io("failing", "flush", std::io::ErrorKind::Other.into()));
        }
        self.device.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.device.discard(offset, len)
    }
}

/// Promise: after a failed write no change is accepted, also when the device works again; reads go
/// on.
#[test]
fn a_failed_write_latches() {
    let device = Failing::new();
    device.writes.store(true, Ordering::Relaxed);
    let cache = Cache::new(device.clone(), Arc::new(SystemClock), Settings::default());
    let tx = cache.begin(0).unwrap().unwrap();
    cache.get(0, 512, None).unwrap().write(&tx).bytes_mut(0..1)[0] = 1;
    tx.commit();
    assert!(cache.sync().is_err());
    device.writes.store(false, Ordering::Relaxed);
    assert!(matches!(cache.begin(0), Err(Error::Latched { .. })));
    assert!(cache.get(4096, 512, None).is_ok());
}

/// Promise: metadata that the device could not read, in a buffer or past it, is known until it is
/// read; data of a file that cannot be read is not metadata.
#[test]
fn unread_metadata_is_remembered() {
    let device = Failing::new();
    let open = || Cache::new(device.clone(), Arc::new(SystemClock), Settings::default());
    let refuse = |refuses| device.reads.store(refuses, Ordering::Relaxed);
    let reads: [fn(&Cache) -> bool; 3] = [
        |cache| cache.get(4096, 1024, None).is_ok(),
        |cache| cache.read_unbuffered(4096, &mut [0; 1024]).is_ok(),
        |cache| cache.resize_slot(&cache.slot(4096, 1024, None).unwrap(), 2048).is_ok(),
    ];
    for read in reads {
        let cache = open();
        refuse(true);
        assert!(!read(&cache) && cache.read_failures().remain());
        refuse(false);
        cache.forget(4096);
        assert!(cache.get(8192, 512, None).is_ok() && cache.get(4096, 512, None).is_ok());
        assert!(cache.read_failures().remain());
        cache.forget(4096);
        assert!(cache.get(4096, 1024, None).is_ok() && !cache.read_failures().remain());
    }
    let cache = open();
    let stream = cache.stream(4096, 1);
    let data = || {
        let bmap = |_, _| Ok::<_, Error>(Extent { at: Some(4096), blocks: 1 });
        cache.read(&stream, 4096, 0, &mut [0; 512], bmap)
    };
    refuse(true);
    assert!(data().is_err() && !cache.read_failures().remain());
}

/// A log that only flushes its device.
struct Barrier(Arc<Failing>);

impl Log for Barrier {
    fn commit_bytes(&self) -> usize {
        1 << 20
    }
    fn limit_bytes(&self) -> usize {
        4 << 20
    }
    fn has_room(&self, _changes: &Changes) -> bool {
        true
    }
    fn commit(&self, _changes: &Changes) -> Result<()> {
        self.0.flush()
    }
    fn wants_checkpoint(&self) -> bool {
        false
    }
    fn checkpointed(&self) {}
}

/// A log that takes every epoch, and has as much room as the test sets.
struct Book {
    limit_bytes: usize,
    full: AtomicBool,
    committed: Mutex<Vec<Changes>>,
}

impl Default for Book {
    fn default() -> Self {
        Self { limit_bytes: 1 << 20, full: AtomicBool::new(false), committed: Mutex::default() }
    }
}

impl Log for Book {
    fn commit_bytes(&self) -> usize {
        self.limit_bytes / 2
    }
    fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }
    fn has_room(&self, _changes: &Changes) -> bool {
        !self.full.swap(false, Ordering::Relaxed)
    }
    fn commit(&self, changes: &Changes) -> Result<()> {
        self.committed.lock().push(changes.clone());
        Ok(())
    }
    fn wants_checkpoint(&self) -> bool {
        false
    }
    fn checkpointed(&self) {}
}

fn logged(bytes: u64) -> (Arc<MemoryDevice>, Arc<Book>, Cache) {
    let device = Arc::new(MemoryDevice::new(bytes));
    let log = Arc::new(Book::default());
    let cache = Cache::with_log(device.clone(), Arc::new(SystemClock), Settings::default(), log.clone());
    (device, log, cache)
}

fn commit(cache: &Cache) {
    cache.commit::<Error>(cache.epoch(), |_| Ok(Vec::new())).unwrap();
}

/// Promise: only committed bytes are checkpointed, also of a buffer that has changed since: at an
/// explicit checkpoint, and when an epoch has no room in the log, which then gets the changes of
/// that epoch.
#[test]
fn only_what_is_committed_is_checkpointed() {
    let (device, log, cache) = logged(1 << 20);
    let change = |at: usize, byte| {
        let tx = cache.begin(0).unwrap().unwrap();
        cache.get(0, 4096, None).unwrap().write(&tx).bytes_mut(at..at + 1)[0] = byte;
        tx.commit();
    };
    let in_place = || {
        let bytes = device.to_bytes();
        (bytes[0], bytes[512])
    };
    change(0, 1);
    commit(&cache);
    assert_eq!(in_place(), (0, 0));
    change(0, 2);
    cache.checkpoint().unwrap();
    assert_eq!(in_place(), (1, 0));
    commit(&cache);
    change(512, 3);
    log.full.store(true, Ordering::Relaxed);
    commit(&cache);
    assert_eq!(in_place(), (2, 0));
    let expected = |at, byte| {
        let mut bytes = vec![0; 512];
        bytes[0] = byte;
        vec![Change { at, bytes }]
    };
    let committed: Vec<_> = log.committed.lock().iter().map(|changes| changes.changed.clone()).collect();
    assert_eq!(committed, [expected(0, 1), expected(0, 2), expected(512, 3)]);
    cache.checkpoint().unwrap();
    assert_eq!(in_place(), (2, 3));
}

/// Promise: a buffer that an epoch has made in free space is in its place when the epoch is
/// committed, and takes no room in the log; later changes of it do.
#[test]
fn new_buffers_are_not_logged() {
    let (device, log, cache) = logged(1 << 20);
    let tx = cache.begin(0).unwrap().unwrap();
    let new = cache.get_new(8192, 4096, None, &tx).unwrap();
    new.write(&tx).bytes_mut(0..4096).fill(7);
    cache.get(0, 512, None).unwrap().write(&tx).bytes_mut(0..1)[0] = 1;
    tx.commit();
    assert_eq!(device.to_bytes()[8192], 0);
    commit(&cache);
    assert_eq!(device.to_bytes()[8192..12_288], [7; 4096]);
    let tx = cache.begin(512).unwrap().unwrap();
    cache.get(8192, 4096, None).unwrap().write(&tx).bytes_mut(600..601)[0] = 9;
    tx.commit();
    commit(&cache);
    let logged: Vec<Vec<u64>> =
        log.committed.lock().iter().map(|c| c.changed.iter().map(|change| change.at).collect()).collect();
    assert_eq!(logged, [vec![0], vec![8704]]);
}

/// Promise: the changes of the transactions of an epoch, and those that they may still make, never
/// exceed what the log can take; a sector counts once; unused reservations go to others.
#[test]
fn room_in_the_log_is_reserved() {
    const LIMIT: usize = 8 * 512;
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let log = Arc::new(Book { limit_bytes: LIMIT, ..Book::default() });
    let cache = Cache::with_log(device, Arc::new(SystemClock), Settings::default(), log);
    let sector = |tx: &Tx<'_>, n: usize| {
        cache.get(0, 65_536, None).unwrap().write(tx).bytes_mut(n * 512..n * 512 + 1)[0] ^= 1;
    };
    let open = cache.begin(6 * 512).unwrap().unwrap();
    assert!(cache.begin(3 * 512).unwrap().is_none());
    let other = cache.begin(2 * 512).unwrap().unwrap();
    (0..2).for_each(|n| sector(&other, n));
    assert_eq!(other.room(), 0);
    sector(&other, 1);
    assert_eq!(other.room(), 0);
    other.commit();
    sector(&open, 2);
    assert_eq!(open.room(), 5 * 512);
    open.commit();
    assert!(cache.begin(6 * 512).unwrap().is_none());
    let last = cache.begin(5 * 512).unwrap().unwrap();
    // Changes of new buffers need no room.
    cache.get_new(1 << 19, 4096, None, &last).unwrap().write(&last).bytes_mut(0..4096).fill(1);
    last.spend(512);
    last.spend(512);
    last.refund(512);
    assert_eq!(last.room(), 4 * 512);
    last.commit();
    commit(&cache);
    assert!(cache.begin(LIMIT).unwrap().is_some());
}

/// Promise: a transaction that is rolled back leaves bytes, buffers and data as they were, at any
/// of its savepoints, with a log and without; it then ends as any other, and changes that others
/// made meanwhile in the same buffers stay.
#[test]
fn a_rollback_restores_everything() {
    for with_log in [false, true] {
        let device = Arc::new(MemoryDevice::new(1 << 20));
        device.write_at(0, &[1; 8192]).unwrap();
        device.write_at(65_536, &[2; 4096]).unwrap();
        let (clock, settings) = (Arc::new(SystemClock), Settings::default());
        let log = Arc::new(Book::default());
        let cache = if with_log {
            Cache::with_log(device.clone(), clock, settings, log.clone())
        } else {
            Cache::new(device.clone(), clock, settings)
        };
        let end = || if with_log { commit(&cache) } else { cache.flush().unwrap() };
        let stream = cache.stream(4096, 1);
        let read = |block: u64, at: Option<u64>| {
            let mut bytes = vec![0; 4096];
            let bmap = |_, _| Ok::<_, Error>(Extent { at, blocks: 1 });
            cache.read(&stream, 16_384, block * 4096, &mut bytes, bmap).unwrap();
            bytes
        };
        let space = |offset, at| Space { offset, at, end: offset + 4096 };
        // Bytes of a file that the device does not have yet.
        let tx = cache.begin(0).unwrap().unwrap();
        cache.write(&stream, &tx, space(0, 65_536), &[3; 512]).unwrap();
        tx.commit();
        let tx = cache.begin(0).unwrap().unwrap();
        let change = |tx: &Tx<'_>, at: usize, byte| {
            cache.get(0, 4096, None).unwrap().write(tx).bytes_mut(at..at + 8).fill(byte);
        };
        change(&tx, 0, 5);
        let savepoint = tx.savepoint();
        change(&tx, 4, 6);
        cache.resize(0, 8192, &tx).unwrap();
        cache.get(0, 8192, None).unwrap().write(&tx).bytes_mut(4096..8192).fill(6);
        cache.get_new(16_384, 4096, None, &tx).unwrap().write(&tx).bytes_mut(0..4096).fill(6);
        // The first block of the file moves, and a second one is written.
        let mut moved = read(0, Some(65_536));
        tx.restore_data_on_rollback(&stream, space(0, 65_536), moved.clone());
        cache.discard(&stream, 0..1).unwrap();
        moved[0] = 9;
        cache.write(&stream, &tx, space(0, 131_072), &moved).unwrap();
        tx.forget_data_on_rollback(&stream, 1..2);
        cache.write(&stream, &tx, space(4096, 196_608), &[6; 4096]).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let other = cache.begin(0).unwrap().unwrap();
                cache.get(0, 8192, None).unwrap().write(&other).bytes_mut(100..101)[0] = 8;
                other.commit();
            });
        });
        tx.roll_back(savepoint).unwrap();
        let now = cache.get(0, 4096, None).unwrap().read().to_vec();
        assert!(now[..8] == [5; 8] && now[8..100] == [1; 92] && now[100] == 8, "{:?}", &now[..101]);
        assert!(cache.get(16_384, 4096, None).unwrap().read().iter().all(|&byte| byte == 0));
        let first = read(0, Some(65_536));
        assert!(first[..512] == [3; 512] && first[512..] == [2; 3584]);
        assert!(read(1, None).iter().all(|&byte| byte == 0));
        tx.roll_back(Tx::beginning()).unwrap();
        tx.commit();
        end();
        if with_log {
            cache.checkpoint().unwrap();
        }
        let bytes = device.to_bytes();
        assert!(bytes[..100] == [1; 100] && bytes[100] == 8 && bytes[101..8192] == [1; 8091]);
        assert!(bytes[16_384..65_536].iter().all(|&byte| byte == 0));
        assert!(bytes[65_536..66_048] == [3; 512] && bytes[66_048..69_632] == [2; 3584]);
        assert!(cache.begin(0).unwrap().is_some());
    }
}

/// Promise: a rollback also restores bytes that somebody has meanwhile read with less length, as
/// happens in a damaged file system in which two things claim the same space.
#[test]
fn a_rollback_finds_bytes_that_were_read_with_less_length() {
    let (device, cache) = cache(1 << 20);
    device.write_at(8192, &[1; 4096]).unwrap();
    let tx = cache.begin(0).unwrap().unwrap();
    cache.get(8192, 4096, None).unwrap().write(&tx).bytes_mut(4048..4096).fill(7);
    assert_eq!(cache.get(8192, 1024, None).unwrap().read().len(), 1024);
    tx.roll_back(Tx::beginning()).unwrap();
    tx.commit();
    assert!(cache.get(8192, 4096, None).unwrap().read().iter().all(|&byte| byte == 1));
    cache.sync().unwrap();
    assert!(device.to_bytes()[8192..12_288].iter().all(|&byte| byte == 1));
}

/// Promise: a rollback takes back everything in memory also when the device has failed in the
/// middle of the move of a file's block: what is read afterwards is what was there, and nothing of
/// it is written.
#[test]
fn a_rollback_restores_what_is_read_when_the_device_has_failed() {
    for (straight_bytes, straight_random_bytes) in [(None, None), (Some(4096), None), (None, Some(512))] {
        let device = Failing::new();
        device.write_at(0, &[1; 4096]).unwrap();
        device.write_at(65_536, &[2; 8192]).unwrap();
        let mut settings = Settings::default();
        settings.data.straight_bytes = straight_bytes;
        settings.data.straight_random_bytes = straight_random_bytes;
        let cache = Cache::new(device.clone(), Arc::new(SystemClock), settings);
        let stream = cache.stream(4096, 1);
        let read = |block: u64| {
            let mut bytes = vec![0; 4096];
            let bmap = |block, _| Ok::<_, Error>(Extent { at: Some(65_536 + block * 4096), blocks: 1 });
            cache.read(&stream, 8192, block * 4096, &mut bytes, bmap).unwrap();
            bytes
        };
        let space = |offset, at| Space { offset, at, end: offset + 4096 };
        // Bytes of a file that the device does not have yet.
        let tx = cache.begin(0).unwrap().unwrap();
        cache.write(&stream, &tx, space(0, 65_536), &[3; 512]).unwrap();
        tx.commit();
        let tx = cache.begin(0).unwrap().unwrap();
        cache.get(0, 4096, None).unwrap().write(&tx).bytes_mut(0..8).fill(5);
        for block in 0..2 {
            let from = space(block * 4096, 65_536 + block * 4096);
            let moved = read(block);
            tx.move_data_back_on_rollback(&stream, from, moved.clone());
            cache.discard(&stream, block..block + 1).unwrap();
            let to = space(block * 4096, 131_072 + block * 4096);
            device.writes.store(block == 1, Ordering::Relaxed);
            let written = cache.write(&stream, &tx, to, &moved);
            assert!(block == 0 || straight_bytes.is_none() || written.is_err());
        }
        cache.get(0, 4096, None).unwrap().write(&tx).bytes_mut(8..16).fill(6);
        assert!(cache.directly(|device| device.write_at(262_144, &[0; 512])).is_err());
        let before = device.device.to_bytes();
        device.writes.store(false, Ordering::Relaxed);
        let _ = tx.roll_back(Tx::beginning());
        tx.commit();
        assert!(cache.get(0, 4096, None).unwrap().read()[..] == [1; 4096]);
        let first = read(0);
        assert!(first[..512] == [3; 512] && first[512..] == [2; 3584]);
        assert!(read(1) == [2; 4096]);
        assert!(device.device.to_bytes() == before, "written after a failure");
    }
}

/// Promise: there is a barrier between every write of data and the end of the sync that makes it
/// durable, on every path to the device and also if nothing else had changed.
#[test]
fn every_write_gets_its_barrier() {
    struct Watched(MemoryDevice, AtomicBool);
    impl Device for Watched {
        fn info(&self) -> &Info {
            self.0.info()
        }
        fn submit(&self, request: Request) -> Result<Ticket> {
            self.1.fetch_or(request.op == spindle_device::Op::Write, Ordering::Relaxed);
            self.0.submit(request)
        }
        fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
            self.0.wait(ticket)
        }
        fn flush(&self) -> Result<()> {
            self.1.store(false, Ordering::Relaxed);
            self.0.flush()
        }
        fn discard(&self, offset: u64, len: u64) -> Result<()> {
            self.0.discard(offset, len)
        }
    }
    let straight = DataSettings { straight_bytes: Some(65_536), ..DataSettings::THROUGH };
    let random = DataSettings { straight_random_bytes: Some(512), ..DataSettings::THROUGH };
    let through = DataSettings::THROUGH;
    for (data, dirty_limit_bytes) in
        [(through, 1 << 20), (straight, 1 << 20), (straight, 0), (random, 1 << 20)]
    {
        for with_log in [false, true] {
            let device = Arc::new(Watched(MemoryDevice::new(1 << 20), AtomicBool::new(false)));
            let (clock, log) = (Arc::new(SystemClock), Arc::new(Book::default()));
            let settings = Settings { dirty_limit_bytes, data, ..Settings::default() };
            let cache = if with_log {
                Cache::with_log(device.clone(), clock, settings, log)
            } else {
                Cache::new(device.clone(), clock, settings)
            };
            let stream = cache.stream(4096, 1);
            for len in [65_536, 131_072, 4096, 65_536, 512] {
                let tx = cache.begin(0).unwrap().unwrap();
                let space = Space { offset: 0, at: 0, end: len as u64 };
                cache.write(&stream, &tx, space, &vec![1; len]).unwrap();
                tx.commit();
                // The next transaction may write it to the device.
                drop(cache.begin(0).unwrap());
                for _ in 0..2 {
                    cache.commit::<Error>(cache.epoch(), |_| Ok(Vec::new())).unwrap();
                    let unflushed = device.1.load(Ordering::Relaxed);
                    assert!(!unflushed, "{len} bytes, log {with_log}, {data:?}");
                }
            }
        }
    }
}

/// Promise: where zeros are left out, nothing of them is written, and all other data is.
#[test]
fn zeros_are_left_out() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let data = DataSettings { zeros_left_out: true, ..DataSettings::THROUGH };
    let cache = Cache::new(device.clone(), Arc::new(SystemClock), Settings { data, ..Settings::default() });
    let stream = cache.stream(4096, 1);
    // What was there before shows what was not written.
    device.write_at(65_536, &[9; 12_288]).unwrap();
    for (offset, byte) in [(0, 1), (4096, 0), (8192, 2)] {
        let tx = cache.begin(0).unwrap().unwrap();
        let space = Space { offset, at: 65_536 + offset, end: offset + 4096 };
        cache.write(&stream, &tx, space, &[byte; 4096]).unwrap();
        tx.commit();
    }
    cache.commit::<Error>(cache.epoch(), |_| Ok(Vec::new())).unwrap();
    let mut found = vec![0; 12_288];
    device.read_at(65_536, &mut found).unwrap();
    assert_eq!([found[0], found[4096], found[8191], found[8192]], [1, 9, 9, 2]);
}

/// A log whose commits wait for the test.
struct Slow {
    begun: std::sync::mpsc::Sender<()>,
    goes_on: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Log for Slow {
    fn commit_bytes(&self) -> usize {
        1 << 20
    }
    fn limit_bytes(&self) -> usize {
        1 << 20
    }
    fn has_room(&self, _changes: &Changes) -> bool {
        true
    }
    fn commit(&self, _changes: &Changes) -> Result<()> {
        self.begun.send(()).unwrap();
        self.goes_on.lock().recv().unwrap();
        Ok(())
    }
    fn wants_checkpoint(&self) -> bool {
        false
    }
    fn checkpointed(&self) {}
}

/// Promise: while an epoch that has freed space is written to the log, transactions go on; what
/// they write to that space, in whatever way, reaches the device only when the epoch is durable.
#[test]
fn freed_space_is_not_written_before_the_commit() {
    const FREED: u64 = 256 << 10;
    let usual = DataSettings::THROUGH;
    let straight = (DataSettings { straight_bytes: Some(65_536), ..usual }, 65_536, 1 << 20);
    let random = (DataSettings { straight_random_bytes: Some(4096), ..usual }, 4096, 0);
    let in_clusters = (DataSettings { cluster_bytes: Some(8192), ..usual }, 16_384, 1 << 20);
    let with_others = (usual, 4096, 0);
    let early = (DataSettings { start_bytes: Some(0), ..usual }, 4096, 1 << 20);
    for (data, len, dirty_limit_bytes) in [straight, random, in_clusters, with_others, early] {
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (go_on, goes_on) = std::sync::mpsc::channel();
        let device = Arc::new(MemoryDevice::new(1 << 20));
        let settings = Settings { dirty_limit_bytes, data, ..Settings::default() };
        let log = Arc::new(Slow { begun, goes_on: Mutex::new(goes_on) });
        let cache = Cache::with_log(device.clone(), Arc::new(SystemClock), settings, log);
        let write = |at: u64| {
            let stream = cache.stream(4096, 2);
            let tx = cache.begin(0).unwrap().unwrap();
            // Not where the last write of the file ended.
            let offset = 65_536;
            let space = Space { offset, at, end: offset + len as u64 };
            cache.write(&stream, &tx, space, &vec![7; len]).unwrap();
            tx.commit();
            // The next transaction writes what is beyond the limit.
            drop(cache.begin(0).unwrap());
        };
        let change = || {
            let tx = cache.begin(0).unwrap().unwrap();
            cache.get(0, 512, None).unwrap().write(&tx).bytes_mut(0..1)[0] += 1;
            tx.commit();
        };
        change();
        std::thread::scope(|scope| {
            let freed = FREED..FREED + len as u64;
            scope.spawn(|| cache.commit::<Error>(cache.epoch(), |_| Ok(vec![freed])).unwrap());
            has_begun.recv().unwrap();
            change();
            write(FREED + len as u64);
            let late = scope.spawn(|| write(FREED));
            // What waits for nothing else is over by then.
            std::thread::sleep(std::time::Duration::from_millis(20));
            let at = usize::try_from(FREED).unwrap();
            let held = |bytes: &[u8]| bytes[at..at + len].iter().all(|&b| b == 0);
            let (bytes, finished) = (device.to_bytes(), late.is_finished());
            go_on.send(()).unwrap();
            assert!(held(&bytes) && bytes[at + len] == 7 && !finished, "{len} bytes");
            late.join().unwrap();
        });
        go_on.send(()).unwrap();
        change();
        cache.commit::<Error>(cache.epoch(), |_| Ok(Vec::new())).unwrap();
        let at = usize::try_from(FREED).unwrap();
        assert!(device.to_bytes()[at..at + 2 * len].iter().all(|&b| b == 7));
    }
}

/// Promise: while an epoch that has freed space is written to the log, that space is not declared
/// unused, but other space is; afterwards it can be.
#[test]
fn freed_space_is_not_discarded_before_the_commit() {
    let freed = 4096..8192;
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel();
    let device = Arc::new(MemoryDevice::from_bytes(&[7; 16384]));
    let log = Arc::new(Slow { begun, goes_on: Mutex::new(goes_on) });
    let cache = Cache::with_log(device.clone(), Arc::new(SystemClock), Settings::default(), log);
    let tx = cache.begin(0).unwrap().unwrap();
    cache.get(0, 512, None).unwrap().write(&tx).bytes_mut(0..1)[0] = 1;
    tx.commit();
    let discard = |bytes| cache.discard_free(&cache.begin(0).unwrap().unwrap(), &bytes).unwrap();
    std::thread::scope(|scope| {
        let freed = freed.clone();
        let commit = scope.spawn(|| cache.commit::<Error>(cache.epoch(), |_| Ok(vec![freed])).unwrap());
        has_begun.recv().unwrap();
        let done = [discard(0..4096 + 512), discard(8192 - 512..8192), discard(8192..12288)];
        go_on.send(()).unwrap();
        assert_eq!(done, [false, false, true]);
        commit.join().unwrap();
    });
    assert!(device.to_bytes()[4096..8192].iter().all(|&byte| byte == 7));
    assert!(discard(freed));
}

/// Promise: a failed barrier, a failed commit, a failure past the buffers and a transaction that is
/// dropped halfway are all latched, also when the device works again; reads go on.
#[test]
fn every_failure_latches() {
    type Way<'a> = (&'a str, bool, &'a dyn Fn(&Cache) -> Result<()>);
    let change = |cache: &Cache| {
        let tx = cache.begin(0).unwrap().unwrap();
        cache.get(0, 512, None).unwrap().write(&tx).bytes_mut(0..1)[0] = 1;
        tx.commit();
    };
    let commit = |cache: &Cache| cache.commit::<Error>(cache.epoch(), |_| Ok(Vec::new()));
    let give_up = |cache: &Cache| {
        let tx = cache.begin(0)?.expect("room");
        cache.get(0, 512, None)?.write(&tx).bytes_mut(0..1)[0] = 1;
        Err(Error::io("failing", "an operation", std::io::ErrorKind::Other.into()))
    };
    let ways: [Way<'_>; 4] = [
        ("barrier", false, &|cache| cache.sync()),
        ("commit", true, &commit),
        ("past the buffers", true, &|cache| cache.directly(|device| device.flush())),
        ("given up", true, &give_up),
    ];
    for (way, logged, fail) in ways {
        let device = Failing::new();
        let (clock, settings) = (Arc::new(SystemClock), Settings::default());
        let cache = if logged {
            Cache::with_log(device.clone(), clock, settings, Arc::new(Barrier(device.clone())))
        } else {
            Cache::new(device.clone(), clock, settings)
        };
        change(&cache);
        device.flushes.store(true, Ordering::Relaxed);
        assert!(fail(&cache).is_err(), "{way}");
        device.flushes.store(false, Ordering::Relaxed);
        assert!(matches!(cache.begin(0), Err(Error::Latched { .. })), "{way}");
        let promise = if logged { commit(&cache) } else { cache.sync() };
        assert!(matches!(promise, Err(Error::Latched { .. })), "{way}");
        assert!(matches!(cache.directly(|device| device.flush()), Err(Error::Latched { .. })), "{way}");
        assert!(cache.get(4096, 512, None).is_ok(), "{way}");
    }
}

/// Promise: a flush never takes half of a transaction: two buffers that are always changed together
/// are always the same on the device.
#[test]
fn a_flush_sees_whole_transactions() {
    let (device, cache) = cache(1 << 20);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let tx = cache.begin(0).unwrap().unwrap();
                    let (a, b) = (cache.get(0, 512, None).unwrap(), cache.get(65_536, 512, None).unwrap());
                    let mut a = a.write(&tx);
                    let next = a[0].wrapping_add(1);
                    a.bytes_mut(0..1)[0] = next;
                    std::thread::yield_now();
                    b.write(&tx).bytes_mut(0..1)[0] = next;
                    drop(a);
                    tx.commit();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..200 {
                cache.flush().unwrap();
                let _gate = cache.flushing.lock();
                let bytes = device.to_bytes();
                assert_eq!(bytes[0], bytes[65_536]);
            }
        });
    });
}
