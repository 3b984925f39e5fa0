//! An image file as a block device, which can be made to fail.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::tool::{command, run};
use crate::{Failure, Result};

/// A loop device, which is let go with this value.
#[derive(Debug)]
pub struct Loopback {
    device: PathBuf,
}

impl Loopback {
    /// Makes `image` a block device that passes the system's memory by.
    ///
    /// # Errors
    /// What `losetup` said.
    pub fn new(image: &Path) -> Result<Self> {
        let said = run(command("losetup").args(["--find", "--show", "--direct-io=on"]).arg(image))?;
        Ok(Self { device: String::from_utf8_lossy(&said).trim_end().into() })
    }

    /// Makes the device fail from now on, as if it had been pulled out: nothing of it but the first
    /// sector can be read or written. (To shorten the image would not do: until the device knows,
    /// it reads zeros.)
    ///
    /// # Errors
    /// What the system said.
    pub fn fail(&self) -> Result<()> {
        let limited = File::open(&self.device).and_then(|device| limit(&device, 512));
        limited.map_err(Failure::of(self.device.display()))
    }

    /// Returns the device.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.device
    }
}

/// Lets a loop device have only its first `bytes` bytes (loop(4), `LOOP_SET_STATUS64`).
fn limit(device: &File, bytes: u64) -> std::io::Result<()> {
    use rustix::ioctl::{Setter, ioctl};
    const LOOP_SET_STATUS64: rustix::ioctl::Opcode = 0x4c04;
    /// Byte of `lo_sizelimit` in `struct loop_info64`.
    const SIZE_LIMIT: usize = 32;
    let mut info = [0; 232];
    info[SIZE_LIMIT..SIZE_LIMIT + 8].copy_from_slice(&bytes.to_ne_bytes());
    #[allow(unsafe_code, reason = "the ioctl reads a struct loop_info64, whose size the array has")]
    unsafe {
        Ok(ioctl(device, Setter::<LOOP_SET_STATUS64, [u8; 232]>::new(info))?)
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        let _ = run(command("losetup").arg("--detach").arg(&self.device));
    }
}
