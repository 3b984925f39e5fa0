use super::*;
use spindle_clock::SystemClock;
use spindle_device::{Info, MemoryDevice, Request, Ticket};
use std::sync::atomic::AtomicBool;

fn cache(bytes: u64) -> (Arc<MemoryDevice>, Cache) {
    let device = Arc::new(MemoryDevice::new(bytes));
    (device.clone(), Cache::new(device, Arc::new(SystemClock), Settings::default()))
}

/// Promise: a change reaches the device with the next flush, not before, and reads see it at once.
#[test]
fn changes_go_home_with_the_flush() {
    let (device, cache) = cache(1 << 20);
    let tx = cache.begin().unwrap();
    cache.get(8192, 4096, None).unwrap().write(&tx)[7] = 9;
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
    let tx = cache.begin().unwrap();
    cache.get_new(4096, 4096, None, &tx).unwrap().write(&tx).fill(1);
    cache.forget(4096);
    tx.commit();
    device.write_at(4096, &[5; 512]).unwrap();
    cache.sync().unwrap();
    assert_eq!(device.to_bytes()[4096..4608], [5; 512]);
    assert_eq!(cache.get(4096, 4096, None).unwrap().read()[..512], [5; 512]);
}

/// Promise: the seal sees every write on its way out, and the buffer in memory stays as it was written.
#[test]
fn seals_what_leaves() {
    struct Sum;
    impl Seal for Sum {
        fn seal(&self, bytes: &mut [u8]) {
            bytes[0] = bytes[1..].iter().fold(0, |a: u8, &b| a.wrapping_add(b));
        }
    }
    let (device, cache) = cache(1 << 20);
    let seal: Arc<dyn Seal> = Arc::new(Sum);
    let tx = cache.begin().unwrap();
    cache.get(0, 512, Some(&seal)).unwrap().write(&tx)[5] = 3;
    tx.commit();
    cache.flush().unwrap();
    assert_eq!(device.to_bytes()[0], 3);
    assert_eq!(cache.get(0, 512, Some(&seal)).unwrap().read()[0], 0);
}

/// Promise: a buffer asked for with another length keeps its changed bytes, and the rest comes from the device.
#[test]
fn buffers_change_length() {
    let (device, cache) = cache(1 << 20);
    device.write_at(1024, &[7; 1024]).unwrap();
    let tx = cache.begin().unwrap();
    cache.get(0, 1024, None).unwrap().write(&tx).fill(1);
    let longer = cache.get(0, 2048, None).unwrap().read().to_vec();
    assert!(longer[..1024].iter().all(|&b| b == 1) && longer[1024..].iter().all(|&b| b == 7));
    assert_eq!(cache.get(0, 512, None).unwrap().read().len(), 512);
    tx.commit();
    cache.flush().unwrap();
    assert_eq!(device.to_bytes()[..512], [1; 512]);
}

/// Promise: the cache stays within its capacity however much is read, and evicts nothing that is changed.
#[test]
fn capacity_is_kept() {
    let device = Arc::new(MemoryDevice::new(8 << 20));
    let cache = Cache::new(
        device.clone(),
        Arc::new(SystemClock),
        Settings { capacity_bytes: 1 << 20, dirty_limit_bytes: 8 << 20, ..Settings::default() },
    );
    let tx = cache.begin().unwrap();
    cache.get(0, 4096, None).unwrap().write(&tx)[0] = 1;
    tx.commit();
    for at in (0..8 << 20).step_by(4096) {
        cache.get(at, 4096, None).unwrap();
    }
    let held: usize = cache.shards.iter().map(|s| s.lock().bytes).sum();
    assert!(held <= (1 << 20) + SHARDS * 4096, "{held} bytes are held");
    cache.flush().unwrap();
    assert_eq!(device.to_bytes()[0], 1);
}

/// Promise: however many files are written one after the other, few wait in memory for a flush that does not come.
#[test]
fn files_do_not_pile_up() {
    let (device, cache) = cache(1 << 26);
    for n in 0..3 * PENDING_STREAMS as u64 {
        let stream = cache.stream(4096, 1);
        let tx = cache.begin().unwrap();
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

/// A device whose writes can be made to fail, and whose flushes can.
struct Failing(MemoryDevice, AtomicBool, AtomicBool);

impl Failing {
    fn new() -> Arc<Self> {
        Arc::new(Self(MemoryDevice::new(1 << 20), AtomicBool::new(false), AtomicBool::new(false)))
    }
}

impl Device for Failing {
    fn info(&self) -> &Info {
        self.0.info()
    }
    fn submit(&self, request: Request) -> Result<Ticket> {
        if request.op == spindle_device::Op::Write && self.1.load(Ordering::Relaxed) {
            return Err(Error::io("failing", "write", std::io::ErrorKind::Other.into()));
        }
        self.0.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.0.wait(ticket)
    }
    fn flush(&self) -> Result<()> {
        if self.2.load(Ordering::Relaxed) {
            return Err(Error::io("failing", "flush", std::io::ErrorKind::Other.into()));
        }
        self.0.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.0.discard(offset, len)
    }
}

/// Promise: after a failed write nothing more is accepted, also when the device works again, and reads go on.
#[test]
fn a_failed_write_latches() {
    let device = Failing::new();
    device.1.store(true, Ordering::Relaxed);
    let cache = Cache::new(device.clone(), Arc::new(SystemClock), Settings::default());
    let tx = cache.begin().unwrap();
    cache.get(0, 512, None).unwrap().write(&tx)[0] = 1;
    tx.commit();
    assert!(cache.sync().is_err());
    device.1.store(false, Ordering::Relaxed);
    assert!(matches!(cache.begin(), Err(Error::Latched { .. })));
    assert!(cache.get(4096, 512, None).is_ok());
}

/// A log that is as good as its device.
struct Barrier(Arc<Failing>);

impl Log for Barrier {
    fn group_bytes(&self) -> usize {
        1 << 20
    }
    fn has_room(&self, _group: &Group) -> bool {
        true
    }
    fn commit(&self, _group: &Group) -> Result<()> {
        self.0.flush()
    }
    fn wants_trim(&self) -> bool {
        false
    }
    fn trim(&self) {}
}

/// A log that takes every group, and has the room that it is told to have.
#[derive(Default)]
struct Book {
    full: AtomicBool,
    committed: Mutex<Vec<Group>>,
}

impl Log for Book {
    fn group_bytes(&self) -> usize {
        1 << 20
    }
    fn has_room(&self, _group: &Group) -> bool {
        !self.full.swap(false, Ordering::Relaxed)
    }
    fn commit(&self, group: &Group) -> Result<()> {
        self.committed.lock().push(group.clone());
        Ok(())
    }
    fn wants_trim(&self) -> bool {
        false
    }
    fn trim(&self) {}
}

/// Promise: only committed bytes go home, also of a buffer that has changed since: when everything is brought home, and when
/// a group has no room in the log, which then gets what that group has changed.
#[test]
fn only_what_is_committed_goes_home() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let log = Arc::new(Book::default());
    let cache = Cache::with_log(device.clone(), Arc::new(SystemClock), Settings::default(), log.clone());
    let change = |at: usize, byte| {
        let tx = cache.begin().unwrap();
        cache.get(0, 4096, None).unwrap().write(&tx)[at] = byte;
        tx.commit();
    };
    let commit = || cache.commit::<Error>(cache.group(), |_| Ok(Resume::Taken)).unwrap();
    let home = || {
        let bytes = device.to_bytes();
        (bytes[0], bytes[512])
    };
    change(0, 1);
    commit();
    assert_eq!(home(), (0, 0));
    change(0, 2);
    cache.bring_home().unwrap();
    assert_eq!(home(), (1, 0));
    commit();
    change(512, 3);
    log.full.store(true, Ordering::Relaxed);
    commit();
    assert_eq!(home(), (2, 0));
    let expected = |at, byte| {
        let mut bytes = vec![0; 512];
        bytes[0] = byte;
        vec![Change { at, bytes }]
    };
    let committed: Vec<_> = log.committed.lock().iter().map(|group| group.changes.clone()).collect();
    assert_eq!(committed, [expected(0, 1), expected(0, 2), expected(512, 3)]);
    cache.bring_home().unwrap();
    assert_eq!(home(), (2, 3));
}

/// Promise: a failed barrier, a commit that fails, a failure past the buffers and a change that is given up halfway all end
/// changes and promises for good, also when the device works again; reads go on.
#[test]
fn every_failure_latches() {
    type Way<'a> = (&'a str, bool, &'a dyn Fn(&Cache) -> Result<()>);
    let change = |cache: &Cache| {
        let tx = cache.begin().unwrap();
        cache.get(0, 512, None).unwrap().write(&tx)[0] = 1;
        tx.commit();
    };
    let commit = |cache: &Cache| cache.commit::<Error>(cache.group(), |_| Ok(Resume::Taken));
    let give_up = |cache: &Cache| {
        let tx = cache.begin()?;
        cache.get(0, 512, None)?.write(&tx)[0] = 1;
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
        device.2.store(true, Ordering::Relaxed);
        assert!(fail(&cache).is_err(), "{way}");
        device.2.store(false, Ordering::Relaxed);
        assert!(matches!(cache.begin(), Err(Error::Latched { .. })), "{way}");
        let promise = if logged { commit(&cache) } else { cache.sync() };
        assert!(matches!(promise, Err(Error::Latched { .. })), "{way}");
        assert!(matches!(cache.directly(|device| device.flush()), Err(Error::Latched { .. })), "{way}");
        assert!(cache.get(4096, 512, None).is_ok(), "{way}");
    }
}

/// Promise: what a flush takes never has half of a transaction: two buffers always changed together are
/// always the same on the device.
#[test]
fn a_flush_sees_whole_transactions() {
    let (device, cache) = cache(1 << 20);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let tx = cache.begin().unwrap();
                    let (a, b) = (cache.get(0, 512, None).unwrap(), cache.get(65_536, 512, None).unwrap());
                    let mut a = a.write(&tx);
                    a[0] = a[0].wrapping_add(1);
                    std::thread::yield_now();
                    b.write(&tx)[0] = a[0];
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
