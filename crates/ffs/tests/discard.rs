//! Mounts with `discard`: what is freed is declared unused to the device when that is durable.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::{ManualClock, Mutex};
use spindle_device::{AlignedBuf, Device, Error as DeviceError, Info, MemoryDevice, Request, Ticket};
use spindle_ffs::newfs::{self, Parameters, Plan};
use spindle_ffs::{Ffs, LogUse, OpenOptions};
use spindle_vfs::{Cred, FileKind, FileSystem, Ino, NewNode, Privilege};
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;

const BYTES: u64 = 8 << 20;
const ROOT: Privilege = Privilege::Root;

/// A device that notes what is discarded, or cannot.
struct Noting {
    inner: MemoryDevice,
    discarded: Mutex<Vec<Range<u64>>>,
    can: bool,
    /// What happens when it is flushed the next time.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Noting {
    fn take(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut *self.discarded.lock())
    }
}

impl Device for Noting {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn submit(&self, request: Request) -> Result<Ticket, DeviceError> {
        self.inner.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf, DeviceError> {
        self.inner.wait(ticket)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let meanwhile = self.meanwhile.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        if !self.can {
            return Err(DeviceError::io(&self.info().name, "discard", ErrorKind::Unsupported.into()));
        }
        self.discarded.lock().push(offset..offset + len);
        // What is read there from now on can be anything.
        self.inner.write_at(offset, &vec![0xdd; usize::try_from(len).unwrap()])
    }
}

fn open(can: bool, discard: bool, log: LogUse) -> (Ffs, Arc<Noting>) {
    open_with_log(can, discard, log, 64 << 10)
}

fn open_with_log(can: bool, discard: bool, log: LogUse, log_bytes: u64) -> (Ffs, Arc<Noting>) {
    let inner = MemoryDevice::new(BYTES);
    let clock = Arc::new(ManualClock::at(0));
    let plan = Plan::new(&Parameters { snap_dir: false, ..Parameters::new(BYTES) }).unwrap();
    newfs::write(&plan, &inner, &*clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
    let device = Arc::new(Noting { inner, discarded: Mutex::default(), can, meanwhile: Mutex::default() });
    let options =
        OpenOptions { log, log_bytes: Some(log_bytes), discard, seed: Some(1), ..OpenOptions::default() };
    (Ffs::open(device.clone(), clock, &options).unwrap(), device)
}

fn make(fs: &Ffs, name: &str, bytes: usize) -> Ino {
    let node = NewNode::new(FileKind::Regular, 0o644);
    let ino = fs.create(fs.root(), name.as_bytes(), &node, ROOT).unwrap().ino;
    fs.forget(ino, 1);
    assert_eq!(fs.write(ino, 0, &vec![7; bytes], ROOT).unwrap(), bytes);
    ino
}

fn held(fs: &Ffs, ino: Ino) -> Vec<Range<u64>> {
    let mut held = Vec::new();
    fs.held(ino, &mut |bytes| held.push(bytes)).unwrap();
    held
}

fn is_covered(all: &[Range<u64>], by: &[Range<u64>]) -> bool {
    let covers = |at: u64| by.iter().any(|range| range.contains(&at));
    all.iter().flat_map(|range| range.clone().step_by(512)).all(covers)
}

/// Promise: what a removed file had is discarded by the commit of the removal, all of it and
/// nothing else, and not before; without the option, or without a log, nothing is.
#[test]
fn freed_space_is_discarded_with_the_commit() {
    for (discard, log) in [(true, LogUse::Wanted), (false, LogUse::Wanted), (true, LogUse::Never)] {
        let (fs, device) = open(true, discard, log);
        let (gone, kept) = (make(&fs, "gone", 900_000), make(&fs, "kept", 300_000));
        fs.sync().unwrap();
        assert_eq!(device.take(), []);
        let was = held(&fs, gone);
        fs.unlink(fs.root(), b"gone").unwrap();
        assert_eq!(device.take(), [], "the removal is not durable");
        fs.sync().unwrap();
        let discarded = device.take();
        let works = discard && log == LogUse::Wanted;
        assert_eq!(is_covered(&was, &discarded), works);
        assert!(is_covered(&discarded, &was), "nothing else");
        assert!(discarded.len() <= was.len(), "in runs");
        let mut data = vec![0; 300_000];
        fs.read(kept, 0, &mut data).unwrap();
        assert!(data.iter().all(|&byte| byte == 7));
        fs.unmount().unwrap();
    }
}

/// Promise: what another file gets while the commit of the removal is on its way to the log is not
/// discarded, and keeps its data.
#[test]
fn space_in_use_again_is_kept() {
    let (fs, device) = open(true, true, LogUse::Wanted);
    let fs = Arc::new(fs);
    let gone = make(&fs, "gone", 400_000);
    let rest = make(&fs, "rest", 0);
    let mut size = 0;
    while let Ok(len) = fs.write(rest, size, &[1; 4096], ROOT) {
        size += len as u64;
    }
    fs.sync().unwrap();
    let was = held(&fs, gone);
    fs.unlink(fs.root(), b"gone").unwrap();
    device.take();
    let other = fs.clone();
    *device.meanwhile.lock() = Some(Box::new(move || {
        make(&other, "heir", 100_000);
    }));
    fs.sync().unwrap();
    let discarded = device.take();
    let heir = fs.lookup(fs.root(), b"heir").unwrap().ino;
    let is = held(&fs, heir);
    let again = |range: &Range<u64>| was.iter().any(|was| was.contains(&range.start));
    assert!(is.iter().any(again), "it has space of the removed file");
    for (range, used) in discarded.iter().flat_map(|range| is.iter().map(move |used| (range, used))) {
        assert!(range.end <= used.start || used.end <= range.start, "{range:?} of {used:?}");
    }
    assert!(is_covered(&was, &[&discarded[..], &is].concat()), "all the rest is discarded");
    fs.unmount().unwrap();
    let (clock, options) = (Arc::new(ManualClock::at(0)), OpenOptions::default());
    let again = Ffs::open(device, clock, &options).unwrap();
    let mut data = vec![0; 100_000];
    assert_eq!(again.read(heir, 0, &mut data).unwrap(), 100_000);
    assert!(data.iter().all(|&byte| byte == 7));
    again.unmount().unwrap();
}

/// Promise: a snapshot is taken while freed space waits for the commit with which it is discarded,
/// and shows what was there; it does not wait for itself.
#[test]
fn snapshots_are_taken_beside_discards() {
    let (fs, device) = open_with_log(true, true, LogUse::Wanted, 1 << 20);
    let fs = Arc::new(fs);
    make(&fs, "kept", 300_000);
    let gone = make(&fs, "gone", 900_000);
    fs.sync().unwrap();
    let was = held(&fs, gone);
    fs.unlink(fs.root(), b"gone").unwrap();
    device.take();
    let (done, taken) = std::sync::mpsc::channel();
    let snapped = fs.clone();
    std::thread::spawn(move || {
        done.send(snapped.make_snapshot(snapped.root(), b"snap", &Cred::root()).map(|snap| snap.ino))
    });
    let snap = taken.recv_timeout(std::time::Duration::from_secs(60)).expect("it is taken").unwrap();
    assert!(is_covered(&was, &device.take()), "what was free before is discarded");
    let mut image = vec![0; usize::try_from(BYTES).unwrap()];
    assert_eq!(fs.read(snap, 0, &mut image).unwrap(), image.len());
    fs.forget(snap, 1);
    fs.unmount().unwrap();
    let (clock, options) =
        (Arc::new(ManualClock::at(0)), OpenOptions { read_only: true, ..OpenOptions::default() });
    let seen = Ffs::open(Arc::new(MemoryDevice::from_bytes(&image)), clock, &options).unwrap();
    let kept = seen.lookup(seen.root(), b"kept").unwrap().ino;
    let mut data = vec![0; 300_000];
    assert_eq!(seen.read(kept, 0, &mut data).unwrap(), 300_000);
    assert!(data.iter().all(|&byte| byte == 7));
    assert!(seen.lookup(seen.root(), b"gone").is_err());
}

/// Promise: a device that cannot discard makes no operation fail.
#[test]
fn devices_that_cannot_discard_serve_as_well() {
    let (fs, device) = open(false, true, LogUse::Wanted);
    for n in 0..3 {
        let name = format!("file{n}");
        make(&fs, &name, 100_000);
        fs.unlink(fs.root(), name.as_bytes()).unwrap();
        fs.sync().unwrap();
    }
    assert_eq!(device.take(), []);
    fs.unmount().unwrap();
}
