//! How much of each role's storage is in use: read from its structures, or as a volume knows it.

use super::Volume;
use super::control::ControlSpace;
use super::data::DataSpace;
use crate::format::layout::{ClassLayout, Layout};
use crate::log::Ring;
use spindle_device::Device;
use spindle_vfs::Result;
use std::sync::Arc;

/// What is used and what is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Share {
    /// In use.
    pub used: u64,
    /// Free.
    pub free: u64,
}

/// What of the storage of a set is used, by role.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StorageUse {
    /// Control storage: cylinders that hold headers.
    pub header_cylinders: u64,
    /// The headers in them: of files, overflow and attribute headers.
    pub headers: Share,
    /// Control storage: cylinders that hold names.
    pub name_cylinders: u64,
    /// The blocks in them.
    pub name_blocks: Share,
    /// Control storage: cylinders that hold nothing, and can hold either.
    pub unused_cylinders: u64,
    /// Data storage of all classes that can be written, in bytes.
    pub data_bytes: Share,
    /// The same of each class; the first one is the default one. Of a read-only class all is used.
    pub classes: Vec<Share>,
    /// Log storage, in bytes: records that are not in their places yet.
    pub log_bytes: Share,
}

impl StorageUse {
    /// Reads what is used from the storage of a set that nobody changes.
    pub(crate) fn read(layout: &Layout, device: &Arc<dyn Device>, ring: Option<&Ring>) -> Result<Self> {
        let control = ControlSpace::read(layout, device)?;
        let free_of = |class: &ClassLayout| Ok(DataSpace::read(class, device)?.free());
        let free: Vec<u64> = layout.classes.iter().map(free_of).collect::<Result<_>>()?;
        Ok(Self::of(layout, &control, &free, ring))
    }

    /// Adds up what is known of control storage, the free blocks of each class of data, and the
    /// log, if there is one.
    fn of(layout: &Layout, control: &ControlSpace, free: &[u64], ring: Option<&Ring>) -> Self {
        let mut found = control.usage(layout);
        for (class, free) in layout.classes.iter().zip(free) {
            let in_bytes = |blocks: u64| blocks * class.block_bytes();
            let used = in_bytes(class.blocks().saturating_sub(*free));
            let share = Share { used, free: in_bytes(*free) };
            found.classes.push(share);
            if !class.read_only {
                found.data_bytes.used += share.used;
                found.data_bytes.free += share.free;
            }
        }
        if let Some(ring) = ring {
            let (used, all) = ring.used_bytes();
            found.log_bytes = Share { used, free: all - used };
        }
        found
    }
}

impl Volume {
    /// Returns what of the storage is used at this moment, with what a commit frees as free data.
    pub(crate) fn storage_use(&self) -> StorageUse {
        let free: Vec<u64> = (0..self.data.len()).map(|class| self.free_data_blocks(class)).collect();
        StorageUse::of(&self.layout, &self.control.lock(), &free, self.log.as_deref())
    }
}
