//! Tests asynchronous transfers on a system without rings. It is alone in its process because it
//! refuses rings by a limit on the whole process.

#![cfg(target_os = "linux")]

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spindle_device::{AlignedBuf, Device, FileDevice, Op, OpenOptions, Request};

/// Returns true if the process has a ring open.
fn has_ring() -> bool {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let mut targets = open.filter_map(|fd| std::fs::read_link(fd.path()).ok());
    targets.any(|target| target.to_string_lossy().contains("io_uring"))
}

/// Writes and reads back through tickets.
fn transfers(device: &FileDevice) {
    let tickets: Vec<_> = (0..64)
        .map(|i| {
            let buf = AlignedBuf::from(&[i; 512][..]);
            device.submit(Request { op: Op::Write, offset: u64::from(i) * 512, buf }).unwrap()
        })
        .collect();
    for ticket in tickets.into_iter().rev() {
        device.wait(ticket).unwrap();
    }
    let mut bytes = vec![0; 64 * 512];
    device.read_at(0, &mut bytes).unwrap();
    assert!(bytes.chunks(512).zip(0..).all(|(sector, i)| sector.iter().all(|&b| b == i)));
}

/// Promise: a device uses `io_uring` if the system permits it, and threads otherwise.
#[test]
fn threads_replace_a_refused_ring() {
    let dir = tempfile::tempdir().unwrap();
    let create =
        |name| FileDevice::create(dir.path().join(name), 64 * 512, &OpenOptions::read_write()).unwrap();
    let device = create("refused.img");
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).unwrap();
    transfers(&device);
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(!has_ring());
    let device = create("permitted.img");
    transfers(&device);
    assert_eq!(has_ring(), io_uring::IoUring::new(8).is_ok());
}
