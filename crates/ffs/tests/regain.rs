//! Space that could not be freed when its file lost its last name.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::ManualClock;
use spindle_device::{AlignedBuf, Device, Error, Info, MemoryDevice, Op, Request, Result, Ticket};
use spindle_ffs::newfs::{self, Parameters, Plan};
use spindle_ffs::{Ffs, LogUse, OpenOptions};
use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege, Rdev};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device that may refuse to read.
struct Reluctant {
    inner: MemoryDevice,
    refuses: AtomicBool,
}

impl Device for Reluctant {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        if request.op == Op::Read && self.refuses.load(Ordering::Relaxed) {
            return Err(Error::io(&self.info().name, "read", std::io::Error::other("it does not want to")));
        }
        self.inner.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.inner.wait(ticket)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.discard(offset, len)
    }
}

fn create(fs: &Ffs, name: &str) -> Ino {
    let node =
        NewNode { kind: FileKind::Regular, perm: 0o644, uid: 0, gid: 0, rdev: Rdev::default(), target: b"" };
    fs.create(fs.root(), name.as_bytes(), &node, Privilege::Root).unwrap().ino
}

/// Promise: where a file's blocks cannot be read when it loses its name, its space is there again as soon as it is wanted and they can.
#[test]
fn space_is_regained() {
    const SIZE: u64 = 4 << 20;
    for log in [LogUse::Wanted, LogUse::Never] {
        let inner = MemoryDevice::new(SIZE);
        let clock = Arc::new(ManualClock::at(1_700_000_000));
        let plan =
            Plan::new(&Parameters { bsize: Some(4096), fsize: Some(512), ..Parameters::new(SIZE) }).unwrap();
        newfs::write(&plan, &inner, &*clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
        let device = Arc::new(Reluctant { inner, refuses: AtomicBool::new(false) });
        let open = || {
            let options = OpenOptions { log, log_bytes: Some(64 << 10), ..OpenOptions::default() };
            Ffs::open(device.clone(), clock.clone(), &options).unwrap()
        };
        let fs = open();
        let large = create(&fs, "large");
        let mut len = 0;
        while let Ok(written) = fs.write(large, len, &[7; 4096], Privilege::User) {
            len += written as u64;
        }
        fs.forget(large, 1);
        fs.unmount().unwrap();

        let fs = open();
        let next = create(&fs, "next");
        let found = fs.lookup(fs.root(), b"large").unwrap();
        fs.forget(found.ino, 1);
        device.refuses.store(true, Ordering::Relaxed);
        fs.unlink(fs.root(), b"large").unwrap();
        device.refuses.store(false, Ordering::Relaxed);
        let bytes = vec![9; usize::try_from(len / 2).unwrap()];
        assert_eq!(fs.write(next, 0, &bytes, Privilege::User).unwrap(), bytes.len(), "{log:?}");
        fs.forget(next, 1);
        fs.unmount().unwrap();
    }
}
