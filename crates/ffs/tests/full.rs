//! A full file system: an operation that runs out of space halfway has destroyed nothing.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::ManualClock;
use spindle_device::MemoryDevice;
use spindle_ffs::check::{self, check};
use spindle_ffs::newfs::{self, Parameters, Plan};
use spindle_ffs::{Ffs, LogUse, OpenOptions};
use spindle_vfs::{Error, FallocateMode, FileKind, FileSystem, Ino, NewNode, Privilege};
use std::sync::Arc;

const BSIZE: usize = 4096;
const FSIZE: usize = 512;
/// The ways of logging under which each promise holds.
const LOGS: [LogUse; 2] = [LogUse::Wanted, LogUse::Never];

struct Disk {
    device: Arc<MemoryDevice>,
    clock: Arc<ManualClock>,
    log: LogUse,
}

impl Disk {
    fn new(bytes: u64, log: LogUse) -> Self {
        let parameters = Parameters {
            bsize: u32::try_from(BSIZE).ok(),
            fsize: u32::try_from(FSIZE).ok(),
            minfree: Some(0),
            snap_dir: false,
            ..Parameters::new(bytes)
        };
        let device = Arc::new(MemoryDevice::new(bytes));
        let clock = Arc::new(ManualClock::at(1_700_000_000));
        let plan = Plan::new(&parameters).unwrap();
        newfs::write(&plan, &*device, &*clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
        Self { device, clock, log }
    }

    fn open(&self) -> Ffs {
        let options =
            OpenOptions { log: self.log, log_bytes: Some(64 << 10), seed: Some(3), ..OpenOptions::default() };
        Ffs::open(self.device.clone(), self.clock.clone(), &options).unwrap()
    }

    fn damage(&self) -> Vec<String> {
        let report = check(&*self.device, &check::Options::default(), &mut |_| ()).unwrap();
        let damage = report.findings.iter().filter(|f| f.severity.is_damage());
        damage.map(ToString::to_string).collect()
    }
}

fn file(fs: &Ffs, name: &str) -> Ino {
    let node = NewNode::new(FileKind::Regular, 0o644);
    fs.create(fs.root(), name.as_bytes(), &node, Privilege::Root).unwrap().ino
}

fn content(fs: &Ffs, ino: Ino, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    assert_eq!(fs.read(ino, 0, &mut bytes).unwrap(), len);
    bytes
}

/// Takes all free blocks but those of the file `spare`, which are free afterwards.
fn leave_just(fs: &Ffs, spare: &str) {
    let ballast = file(fs, "ballast");
    let mut size = 0;
    while let Ok(written) = fs.write(ballast, size, &[1; BSIZE], Privilege::Root) {
        size += written as u64;
    }
    let ino = fs.lookup(fs.root(), spare.as_bytes()).unwrap().ino;
    fs.unlink(fs.root(), spare.as_bytes()).unwrap();
    fs.forget(ino, 2);
    fs.sync().unwrap();
}

/// Promise: where the end of a file moves to make room and there is no space for what should follow
/// it, the file has the bytes that were written last, those that have not reached the device too.
#[test]
fn moved_bytes_are_put_back() {
    for log in LOGS {
        let disk = Disk::new(8 << 20, log);
        let fs = disk.open();
        let ino = file(&fs, "grows");
        fs.write(ino, 0, &[7; FSIZE], Privilege::Root).unwrap();
        // The fragment behind it is taken, so it cannot grow in its place.
        fs.write(file(&fs, "behind"), 0, &[8; FSIZE], Privilege::Root).unwrap();
        fs.write(file(&fs, "spare"), 0, &[9; BSIZE], Privilege::Root).unwrap();
        leave_just(&fs, "spare");
        fs.write(ino, 0, &[10; FSIZE], Privilege::Root).unwrap();
        let result = fs.write(ino, BSIZE as u64, &[11; BSIZE], Privilege::Root);
        assert!(matches!(result, Err(Error::NoSpace)), "{log:?}: {result:?}");
        assert_eq!(content(&fs, ino, FSIZE), [10; FSIZE], "{log:?}");
        fs.unmount().unwrap();
        drop(fs);
        let fs = disk.open();
        let ino = fs.lookup(fs.root(), b"grows").unwrap().ino;
        assert_eq!(content(&fs, ino, FSIZE), [10; FSIZE], "{log:?}, mounted again");
        fs.unmount().unwrap();
        assert_eq!(disk.damage(), Vec::<String>::new(), "{log:?}");
    }
}

/// Promise: a range that is to be zeroed, and has holes that there is no space for, keeps its
/// bytes. The range is so long that it is filled in several transactions, and what is missing is
/// found in the last.
#[test]
fn a_range_is_not_zeroed_before_it_has_all_its_space() {
    const RANGE: u64 = 70 << 20;
    let data = vec![7; 1 << 20];
    let missing = (RANGE - data.len() as u64) / BSIZE as u64;
    for log in LOGS {
        let disk = Disk::new(96 << 20, log);
        let fs = disk.open();
        let ino = file(&fs, "stays");
        fs.write(ino, 0, &data, Privilege::Root).unwrap();
        // With its indirect blocks it has room for all that is missing, but not for the indirect
        // blocks of that.
        let (spare, bytes) = (file(&fs, "spare"), (missing - 10) * BSIZE as u64);
        fs.fallocate(spare, FallocateMode::Allocate { keep_size: false }, 0, bytes, Privilege::Root).unwrap();
        fs.forget(spare, 1);
        leave_just(&fs, "spare");
        let free = fs.statfs().unwrap().bfree / (BSIZE / FSIZE) as u64;
        assert!(free >= missing, "{log:?}: {free} blocks are free, and {missing} are missing");
        let result =
            fs.fallocate(ino, FallocateMode::ZeroRange { keep_size: false }, 0, RANGE, Privilege::Root);
        assert!(matches!(result, Err(Error::NoSpace)), "{log:?}: {result:?}");
        assert_eq!(fs.getattr(ino).unwrap().size, data.len() as u64, "{log:?}");
        assert!(content(&fs, ino, data.len()) == data, "{log:?}: the file has lost its bytes");
        fs.unmount().unwrap();
        assert_eq!(disk.damage(), Vec::<String>::new(), "{log:?}");
    }
}
