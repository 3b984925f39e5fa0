//! Block devices: a loop device over an image. These tests need root and loop devices.

#![cfg(target_os = "linux")]

use spindle_device::{AlignedBuf, Device, Error, FileDevice, Op, OpenOptions, Request};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A loop device, detached on drop.
struct Loop(PathBuf);

impl Loop {
    fn over(image: &Path, sector_bytes: u32) -> Self {
        let output = Command::new("/usr/sbin/losetup")
            .args(["--find", "--show", "--sector-size", &sector_bytes.to_string()])
            .arg(image)
            .output()
            .unwrap();
        assert!(output.status.success(), "losetup: {}", String::from_utf8_lossy(&output.stderr));
        Self(String::from_utf8(output.stdout).unwrap().trim().into())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        Command::new("/usr/sbin/losetup").arg("--detach").arg(&self.0).status().unwrap();
    }
}

/// Promise: a block device has its own size and sectors, is opened for writing only once, its
/// transfers reach the image from any memory, and discarding frees space.
#[test]
fn loop_device() {
    if !rustix::process::geteuid().is_root() && std::env::var_os("CI").is_none() {
        eprintln!("not root: block devices not tested");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    for sector_bytes in [512, 4096] {
        FileDevice::create(&image, 1 << 20, &OpenOptions::read_write()).unwrap();
        let attached = Loop::over(&image, sector_bytes);
        let device = FileDevice::open(&attached.0, &OpenOptions::read_write()).unwrap();
        assert_eq!((device.info().size_bytes, device.info().sector_bytes), (1 << 20, sector_bytes));
        let refused = FileDevice::open(&attached.0, &OpenOptions::read_write()).err().unwrap();
        assert!(matches!(refused, Error::Busy { .. }), "{refused}");
        let mut memory = vec![7; (1 << 18) + 1];
        device.write_at(1 << 18, &memory[1..]).unwrap();
        let ticket = device
            .submit(Request { op: Op::Write, offset: 1 << 19, buf: AlignedBuf::from(&memory[1..]) })
            .unwrap();
        device.wait(ticket).unwrap();
        device.flush().unwrap();
        memory.fill(0);
        device.read_at(1 << 18, &mut memory[1..]).unwrap();
        assert!(memory[1..].iter().all(|&b| b == 7));
        assert!(device.read_at(1 << 20, &mut memory[1..4097]).is_err());
        device.discard(1 << 18, 1 << 18).unwrap();
        drop(device);
        drop(attached);
        let bytes = std::fs::read(&image).unwrap();
        assert!(bytes[1 << 19..3 << 18].iter().all(|&b| b == 7));
        assert!(bytes[1 << 18..1 << 19].iter().all(|&b| b == 0));
    }
}
