//! Promises of files and block devices, with every engine.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::Mutex;
use spindle_device::{
    AlignedBuf, Caching, Device, Engine, Error, FileDevice, Op, OpenOptions, Part, Request, Spec, Ticket,
    open_spec,
};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

const SECTOR: usize = 512;
/// Number of threads of a random load, and number of sectors of each.
const THREADS: usize = 4;
const SECTORS: usize = 256;

/// Returns a new directory and an image of `size` bytes in it, with the sector number in each byte.
fn image(size: usize) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    let bytes: Vec<u8> = (0..size).map(|i| u8::try_from(i / SECTOR % 251).unwrap()).collect();
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn with_engine(engine: Engine) -> OpenOptions {
    OpenOptions { engine, ..OpenOptions::read_write() }
}

/// Returns the seed of a random test: `SPINDLE_SEED`, or a random one; a failing test prints it.
fn seed(test: &str) -> u64 {
    let seed =
        std::env::var("SPINDLE_SEED").map_or_else(|_| StdRng::from_os_rng().random(), |s| s.parse().unwrap());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-device --test file {test}");
    seed
}

/// Submits a random load from several threads, each on sectors of its own, waits in random order,
/// and compares every read, and finally the file, with the written data.
fn random_load(device: &FileDevice, seed: u64) {
    let cases: u32 = std::env::var("SPINDLE_CASES").map_or(600, |s| s.parse().unwrap());
    let sector = device.info().sector_bytes as usize;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(seed ^ (thread as u64) << 56);
                let base = (thread * SECTORS * sector) as u64;
                let mut model = vec![0; SECTORS * sector];
                device.read_at(base, &mut model).unwrap();
                let mut pending: Vec<(Ticket, Op, usize, usize)> = Vec::new();
                for _ in 0..cases {
                    let first = rng.random_range(0..SECTORS);
                    let count = rng.random_range(1..=(SECTORS - first).min(40));
                    let (start, end) = (first * sector, (first + count) * sector);
                    // Requests in flight have no order, so they may overlap only if all of them
                    // read.
                    let op = if rng.random() { Op::Read } else { Op::Write };
                    let clash = |&(_, other, s, e): &(Ticket, Op, usize, usize)| {
                        s < end && start < e && (op, other) != (Op::Read, Op::Read)
                    };
                    while pending.iter().any(clash) || pending.len() > 20 {
                        let next = rng.random_range(0..pending.len());
                        settle(device, pending.swap_remove(next), &model);
                    }
                    let mut buf = AlignedBuf::zeroed(end - start);
                    if op == Op::Write {
                        rng.fill(&mut buf[..]);
                        model[start..end].copy_from_slice(&buf);
                    }
                    let ticket = device.submit(Request { op, offset: base + start as u64, buf }).unwrap();
                    pending.push((ticket, op, start, end));
                }
                for transfer in pending {
                    settle(device, transfer, &model);
                }
                let mut found = vec![0; model.len()];
                device.read_at(base, &mut found).unwrap();
                assert!(found == model, "the part of thread {thread} differs");
            });
        }
    });
}

fn settle(device: &FileDevice, (ticket, op, start, end): (Ticket, Op, usize, usize), model: &[u8]) {
    let buf = device.wait(ticket).unwrap();
    assert!(buf[..] == model[start..end], "{op:?} of {start}..{end} gave other bytes");
}

/// Promise: with every engine and kind of caching, transfers that many threads submit and wait for
/// out of order transfer exactly their bytes.
#[test]
fn torture_out_of_order() {
    let seed = seed("torture_out_of_order");
    for engine in [Engine::Auto, Engine::Threads] {
        for caching in [Caching::Buffered, Caching::Direct] {
            // Not on tmpfs, which may refuse direct transfers.
            let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let options = OpenOptions { caching, ..with_engine(engine) };
            let device = FileDevice::create(dir.path().join("disk.img"), 4 << 20, &options).unwrap();
            random_load(&device, seed);
            device.flush().unwrap();
        }
    }
}

/// Promise: another thread may wait for a ticket after the submitting thread has ended.
#[test]
fn the_submitting_thread_may_end() {
    for engine in [Engine::Auto, Engine::Threads] {
        let (_dir, path) = image(1 << 20);
        let device = FileDevice::open(&path, &with_engine(engine)).unwrap();
        let tickets = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for i in 0..64_u8 {
                let (device, tickets) = (&device, &tickets);
                scope.spawn(move || {
                    let buf = AlignedBuf::from(&vec![i; 16384][..]);
                    let offset = u64::from(i) * 16384;
                    tickets.lock().push(device.submit(Request { op: Op::Write, offset, buf }).unwrap());
                });
            }
        });
        for ticket in tickets.into_inner() {
            device.wait(ticket).unwrap();
        }
        drop(device);
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.chunks(16384).zip(0..).all(|(chunk, i)| chunk.iter().all(|&b| b == i)));
    }
}

/// Promise: a transfer continues when its ticket is dropped, even for more than fit in flight, and
/// closing the device waits for all.
#[test]
fn dropped_tickets_are_completed() {
    for engine in [Engine::Auto, Engine::Threads] {
        let (_dir, path) = image(1024 * SECTOR);
        let device = FileDevice::open(&path, &with_engine(engine)).unwrap();
        for sector in 0..1024_u64 {
            let buf = AlignedBuf::from(&[0xaa; SECTOR][..]);
            drop(device.submit(Request { op: Op::Write, offset: sector * 512, buf }).unwrap());
        }
        drop(device);
        assert!(std::fs::read(&path).unwrap().iter().all(|&b| b == 0xaa));
    }
}

/// Promise: a device opened read-only has a descriptor that cannot write, and refuses writes.
#[test]
fn read_only_cannot_write() {
    let (_dir, path) = image(8 * SECTOR);
    let before = std::fs::read(&path).unwrap();
    let device = FileDevice::open(&path, &OpenOptions::read_only()).unwrap();
    let access: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|target| target == path))
        .map(|fd| {
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.file_name().display()));
            let info = info.unwrap();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
            i32::from_str_radix(flags.trim(), 8).unwrap() & libc::O_ACCMODE
        })
        .collect();
    assert_eq!(access, [libc::O_RDONLY]);
    assert!(matches!(device.write_at(0, &[1; SECTOR]), Err(Error::ReadOnly { .. })));
    let request = Request { op: Op::Write, offset: 0, buf: AlignedBuf::zeroed(SECTOR) };
    assert!(matches!(device.submit(request), Err(Error::ReadOnly { .. })));
    assert!(matches!(device.discard(0, 512), Err(Error::ReadOnly { .. })));
    device.flush().unwrap();
    assert!(matches!(FileDevice::create(&path, 1, &OpenOptions::read_only()), Err(Error::ReadOnly { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// Promise: an image can be open for writing once, readers exclude writers, and closing unlocks it.
#[test]
fn locks_exclude() {
    let (_dir, path) = image(8 * SECTOR);
    let (rw, ro) = (OpenOptions::read_write(), OpenOptions::read_only());
    let writer = FileDevice::open(&path, &rw).unwrap();
    for options in [&rw, &ro] {
        let refused = FileDevice::open(&path, options).err().unwrap();
        assert!(matches!(refused, Error::Busy { .. }), "{refused}");
        assert!(
            refused.to_string().contains(path.to_str().unwrap()) && refused.to_string().contains("unmount")
        );
    }
    assert!(matches!(FileDevice::create(&path, 512, &rw), Err(Error::Busy { .. })));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 8 * 512, "a locked image is not emptied");
    FileDevice::open(&path, &OpenOptions { lock: false, ..ro.clone() }).unwrap();
    drop(writer);
    let readers = [FileDevice::open(&path, &ro).unwrap(), FileDevice::open(&path, &ro).unwrap()];
    assert!(matches!(FileDevice::open(&path, &rw), Err(Error::Busy { .. })));
    drop(readers);
    FileDevice::open(&path, &rw).unwrap();
}

/// Promise: parts that do not overlap can be open for writing at the same time; what overlaps one
/// of them is refused, with the process that uses it, until that is closed.
#[test]
fn parts_are_locked_apart() {
    let (_dir, path) = image(16 * SECTOR);
    let part = |at, len| Spec { path: path.clone(), part: Part::Offset { at, len } };
    let (rw, ro) = (OpenOptions::read_write(), OpenOptions::read_only());
    let first = part(0, Some(4096)).open(&rw).unwrap();
    let second = part(4096, None).open(&rw).unwrap();
    assert_eq!((first.info().size_bytes, second.info().size_bytes), (4096, 4096));
    let user = format!("process {}", std::process::id());
    for (at, len) in [(0, Some(512)), (3584, Some(1024)), (4096, Some(512)), (0, None)] {
        for options in [&rw, &ro] {
            let refused = part(at, len).open(options).err().unwrap();
            assert!(
                matches!(refused, Error::Busy { .. }) && refused.to_string().contains(&user),
                "{refused}"
            );
        }
    }
    assert!(matches!(FileDevice::open(&path, &ro), Err(Error::Busy { .. })));
    drop(second);
    let readers = [part(4096, None).open(&ro).unwrap(), part(4608, None).open(&ro).unwrap()];
    assert!(matches!(part(7680, None).open(&rw), Err(Error::Busy { .. })));
    drop((first, readers));
    FileDevice::open(&path, &rw).unwrap();
}

/// Promise: a file that is not whole sectors is used up to its last whole sector; the rest is out
/// of range, as is anything truncated after opening.
#[test]
fn truncated_images() {
    for engine in [Engine::Auto, Engine::Threads] {
        let (_dir, path) = image(8 * SECTOR + 100);
        let device = FileDevice::open(&path, &with_engine(engine)).unwrap();
        assert_eq!(device.info().size_bytes, 8 * 512);
        let mut buf = [0; SECTOR];
        assert!(matches!(device.read_at(8 * 512, &mut buf), Err(Error::OutOfRange { .. })));
        std::fs::File::options().write(true).open(&path).unwrap().set_len(4 * 512 + 10).unwrap();
        device.read_at(3 * 512, &mut buf).unwrap();
        assert!(matches!(device.read_at(4 * 512, &mut buf), Err(Error::OutOfRange { .. })));
        let request = Request { op: Op::Read, offset: 3 * 512, buf: AlignedBuf::zeroed(4 * SECTOR) };
        let ticket = device.submit(request).unwrap();
        assert!(matches!(device.wait(ticket), Err(Error::OutOfRange { .. })));
    }
}

/// Promise: a created image has the requested size, takes no space, and loses the old content; a
/// resized one keeps it.
#[test]
fn create_and_resize() {
    let (_dir, path) = image(8 * SECTOR);
    let options = OpenOptions::read_write();
    let device = FileDevice::open_resized(&path, 16 * 512, &options).unwrap();
    let mut buf = vec![9; 16 * SECTOR];
    device.read_at(0, &mut buf).unwrap();
    assert!(buf.chunks(SECTOR).zip(0..).all(|(s, i)| s.iter().all(|&b| b == if i < 8 { i } else { 0 })));
    drop(device);
    let device = FileDevice::create(&path, 1 << 30, &options).unwrap();
    assert_eq!(device.info().size_bytes, 1 << 30);
    assert_eq!(std::fs::metadata(&path).unwrap().blocks(), 0);
    device.read_at(0, &mut buf).unwrap();
    assert!(buf.iter().all(|&b| b == 0));
    let new = path.with_file_name("new.img");
    FileDevice::create(&new, 512, &options).unwrap();
    assert_eq!(std::fs::metadata(&new).unwrap().len(), 512);
}

/// Promise: discarded space is returned to the file system that holds the image, and adjacent data
/// stays.
#[test]
fn discard_frees_space() {
    let (_dir, path) = image(1 << 20);
    let device = FileDevice::open(&path, &OpenOptions::read_write()).unwrap();
    device.flush().unwrap();
    let before = std::fs::metadata(&path).unwrap().blocks();
    device.discard(256 << 10, 512 << 10).unwrap();
    assert!(std::fs::metadata(&path).unwrap().blocks() <= before - 900);
    let mut buf = vec![0; SECTOR];
    device.read_at((256 << 10) - 512, &mut buf).unwrap();
    assert!(buf.iter().all(|&b| usize::from(b) == 511 % 251));
    assert!(matches!(device.discard(1 << 20, 512), Err(Error::OutOfRange { .. })));
    assert!(matches!(device.discard(0, u64::MAX - 511), Err(Error::OutOfRange { .. })));
}

/// Promise: anything but a file or block device is refused by name, without blocking on it.
#[test]
fn other_kinds_of_files_are_refused() {
    for path in ["/", "/dev/null"] {
        let refused = FileDevice::open(path, &OpenOptions::read_only()).err().unwrap();
        assert!(matches!(refused, Error::Unusable { .. }), "{refused}");
    }
    let missing = FileDevice::open("/nonexistent/disk.img", &OpenOptions::read_only()).err().unwrap();
    assert!(missing.to_string().contains("/nonexistent/disk.img"), "{missing}");
}

/// Promise: a path that exists is never split at its `@`, and one that does not is split at the
/// last.
#[test]
fn specs() {
    let (dir, path) = image(16 * SECTOR);
    let path = path.to_str().unwrap();
    let odd = format!("{path}@s1");
    assert_eq!(Spec::parse(&odd).unwrap().part, Part::Named("s1".into()));
    std::fs::copy(path, &odd).unwrap();
    assert_eq!(Spec::parse(&odd).unwrap().part, Part::Whole);
    assert_eq!(Spec::parse(&format!("{odd}@p2")).unwrap().part, Part::Named("p2".into()));
    let in_odd_directory = format!("{}@home/disk.img", dir.path().display());
    assert_eq!(Spec::parse(&in_odd_directory).unwrap().part, Part::Whole);
    assert!(matches!(Spec::parse(&format!("{path}@offset=1k")), Err(Error::Unusable { .. })));
    let device = open_spec(&format!("{path}@offset=0x400"), &OpenOptions::read_only()).unwrap();
    assert_eq!(device.info().size_bytes, 14 * 512);
    let mut buf = [0; SECTOR];
    device.read_at(0, &mut buf).unwrap();
    assert_eq!(buf, [2; SECTOR]);
    assert!(open_spec(&format!("{path}@offset=99999"), &OpenOptions::read_only()).is_err());
    let missing = open_spec(&format!("{path}@s7"), &OpenOptions::read_only()).err().unwrap();
    assert!(missing.to_string().contains("s7"), "{missing}");
    drop(device);
    let device: Arc<dyn Device> = open_spec(path, &OpenOptions::read_write()).unwrap();
    assert_eq!(device.info().size_bytes, 16 * 512);
}

/// Promise: a flush of a file that has become shorter fails, because what was cut off is not
/// durable, and nothing is written afterwards.
#[test]
fn a_file_that_becomes_shorter() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let device = FileDevice::open(file.path(), &OpenOptions::read_write()).unwrap();
    device.write_at(0, &[1; 512]).unwrap();
    device.flush().unwrap();
    file.as_file().set_len(1 << 19).unwrap();
    let error = device.flush().unwrap_err().to_string();
    assert!(error.contains("the file has 524288 bytes now, and had 1048576"), "{error}");
    assert!(matches!(device.write_at(0, &[2; 512]), Err(Error::Latched { .. })));
}
