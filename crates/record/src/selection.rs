//! The names that are recorded: those below a path, or on a file system.
//!
//! The kernel part leaves out open files of other file systems by itself. Of calls that name a file
//! it does not know where the file is, so these are chosen by their paths.

use crate::mounts::{Mounts, is_below};

/// What is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only files at or below this absolute path.
    pub prefix: Option<String>,
    /// Only files on the file system with this device, in the kernel's encoding.
    pub mount: Option<(Mounts, u32)>,
}

impl Selection {
    /// Returns true if a file at this path may be recorded.
    pub fn has_path(&self, path: &str) -> bool {
        self.prefix.as_deref().is_none_or(|prefix| is_below(path, prefix))
    }

    /// Returns true if a call on this name is recorded; `device` is that of the file, in the
    /// kernel's encoding, if the call has returned it.
    pub fn has_name(&self, path: &str, device: Option<u32>) -> bool {
        let is_there = self.mount.as_ref().is_none_or(|(mounts, wanted)| {
            // A name may lead to another file system; on btrfs the device is that of a subvolume.
            let is_other = |device| device != *wanted && mounts.has(device);
            !path.is_empty() && mounts.is_on(path, *wanted) && !device.is_some_and(is_other)
        });
        is_there && self.has_path(path)
    }
}
