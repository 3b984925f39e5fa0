//! An image file as a block device.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::tool::{command, run};

/// A loop device, which is let go with this value.
#[derive(Debug)]
pub struct Loopback(PathBuf);

impl Loopback {
    /// Makes `image` a block device that passes the system's memory by.
    ///
    /// # Errors
    /// What `losetup` said.
    pub fn new(image: &Path) -> Result<Self> {
        let said = run(command("losetup").args(["--find", "--show", "--direct-io=on"]).arg(image))?;
        Ok(Self(String::from_utf8_lossy(&said).trim_end().into()))
    }

    /// Returns the device.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        let _ = run(command("losetup").arg("--detach").arg(&self.0));
    }
}
