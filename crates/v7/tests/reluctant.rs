//! A device that refuses to read for a while: a removed file whose blocks cannot be read is not
//! forgotten.

mod support;

use spindle_device::{AlignedBuf, Device, Error, Info, MemoryDevice, Op, Request, Result, Ticket};
use spindle_v7::check::{Options, check};
use spindle_v7::{Format, OpenOptions, V7};
use spindle_vfs::{FileSystem, Privilege};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::Victim;

/// A device that may refuse to read.
struct Reluctant {
    inner: Arc<MemoryDevice>,
    refuses: AtomicBool,
}

impl Device for Reluctant {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        if request.op == Op::Read && self.refuses.load(Ordering::Relaxed) {
            return Err(Error::io(&self.info().name, "read", std::io::Error::other("refused")));
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

/// Promise: an unmount that cannot free a removed file, because a read of it fails, reports this
/// and leaves the file system marked as in use.
#[test]
fn an_unmount_reports_a_file_that_it_could_not_free() {
    for (format, refuses) in [Format::V7, Format::BSD41].into_iter().flat_map(|f| [(f, false), (f, true)]) {
        let victim = Victim::new(format);
        let device = Arc::new(Reluctant { inner: victim.device.clone(), refuses: AtomicBool::new(false) });
        let fs = V7::open(device.clone(), victim.clock.clone(), &OpenOptions::default()).unwrap();
        let dir = fs.lookup(fs.root(), b"dir").unwrap().ino;
        // This reads the directory, but not the file's indirect blocks, which its attributes need.
        fs.lookup(dir, b"sub").unwrap();
        let other = fs.lookup(fs.root(), b"other").unwrap().ino;
        fs.write(other, 0, b"changed", Privilege::User).unwrap();
        device.refuses.store(refuses, Ordering::Relaxed);
        fs.unlink(dir, b"file").unwrap();
        let unmounted = fs.unmount();
        assert_eq!(unmounted.is_err(), refuses, "{format}: {unmounted:?}");
        device.refuses.store(false, Ordering::Relaxed);
        let options = Options { format: Some(format), ..Options::default() };
        let report = check(&*device, &options, &mut |_| ()).unwrap();
        assert_eq!(report.marked_clean, !refuses, "{format}: {:?}", report.findings);
    }
}
