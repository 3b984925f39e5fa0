//! Tests the latch after a failed write. It is alone in its process because it makes writes fail by
//! a limit on the whole process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spindle_device::{AlignedBuf, Device, Engine, Error, FileDevice, Op, OpenOptions, Request};

const SECTOR: usize = 512;

/// Promise: after a failed write, by either function, later writes and flushes are refused and
/// reads still work.
#[test]
fn a_failed_write_latches() {
    // SAFETY: only ignores the signal that comes with the limit.
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
