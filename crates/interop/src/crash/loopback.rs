//! An image file as a block device, which can be made to fail.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::tool::{command, run};
use crate::{Failure, Result};

/// A loop device, which is let go with this value.
#[derive(Debug)]
pub struct Loopback {
    device: PathBuf,
    image: PathBuf,
}

impl Loopback {
    /// Makes `image` a block device that passes the system's memory by.
    ///
    /// # Errors
    /// What `losetup` said.
    pub fn new(image: &Path) -> Result<Self> {
        let said = run(command("losetup").args(["--find", "--show", "--direct-io=on"]).arg(image))?;
        Ok(Self { device: String::from_utf8_lossy(&said).trim_end().into(), image: image.into() })
    }

    /// Makes the device fail from now on, as if it had been pulled out: nothing of it can be read
    /// or written.
    ///
    /// # Errors
    /// What the system said.
    pub fn fail(&self) -> Result<()> {
        let empty = |image: &Path| File::options().write(true).open(image)?.set_len(0);
        empty(&self.image).map_err(Failure::of(self.image.display()))?;
        run(command("losetup").arg("--set-capacity").arg(&self.device)).map(drop)
    }

    /// Returns the device.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.device
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        let _ = run(command("losetup").arg("--detach").arg(&self.device));
    }
}
