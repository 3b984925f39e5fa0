//! What of the storage of a set is used, mounted or not.

use crate::log::replay_to_copy;
use crate::set::members::Set;
use crate::tree::mount::Mfs;
use crate::volume::usage::StorageUse;
use spindle_device::{CowDevice, Device};
use spindle_vfs::Result;
use std::sync::Arc;

impl Set {
    /// Returns what of the set's storage is used. If the set was not unmounted, its log is replayed
    /// in memory first; of a set that is mounted, this is what was durable at some moment.
    ///
    /// # Errors
    /// Device errors; [`spindle_vfs::Error::Corrupt`] if a description of space is damaged.
    pub fn storage_use(&self) -> Result<StorageUse> {
        let device: Arc<dyn Device> = Arc::new(CowDevice::new(self.space.clone()));
        let (ring, state) = self.open_log(device.clone())?;
        if let Some(ring) = ring.as_ref().filter(|_| state.in_use) {
            replay_to_copy(ring, &*device)?;
        }
        StorageUse::read(&self.layout, &device, ring.as_ref())
    }
}

impl Mfs {
    /// Returns what of the set's storage is used at this moment.
    #[must_use]
    pub fn storage_use(&self) -> StorageUse {
        self.volume.storage_use()
    }
}
