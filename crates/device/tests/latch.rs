//! What happens after a failed write. Alone in its process, because the way to make a write fail is
//! a limit on the whole process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spindle_device::{AlignedBuf, Device, Engine, Error, FileDevice, Op, OpenOptions, Request};

const SECTOR: usize = 512;

/// Promise: after a write failed, in either way of writing, later writes and flushes are refused
/// and reads go on.
#[test]
fn a_failed_write_latches() {
    // SAFETY: only makes the signal that comes with the limit harmless.
    #[allow(unsafe_code)]
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    let dir = tempfile::tempdir().unwrap();
    let data = [1; SECTOR];
    let write = |offset| Request { op: Op::Write, offset, buf: AlignedBuf::from(&data[..]) };
    for engine in [Engine::Auto, Engine::Threads] {
        for submitted in [false, true] {
            let options = OpenOptions { engine, ..OpenOptions::read_write() };
            let device = FileDevice::create(dir.path().join("disk.img"), 64 * 512, &options).unwrap();
            let limit = getrlimit(Resource::Fsize);
            setrlimit(Resource::Fsize, Rlimit { current: Some(8 * 512), ..limit }).unwrap();
            let failed = if submitted {
                device.submit(write(32 * 512)).and_then(|ticket| device.wait(ticket)).map(drop)
            } else {
                device.write_at(32 * 512, &data)
            };
            setrlimit(Resource::Fsize, limit).unwrap();
            assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
            assert!(matches!(device.write_at(0, &data), Err(Error::Latched { .. })));
            assert!(matches!(device.flush(), Err(Error::Latched { .. })));
            assert!(matches!(device.submit(write(0)), Err(Error::Latched { .. })));
            device.read_at(0, &mut [0; SECTOR]).unwrap();
        }
    }
}
