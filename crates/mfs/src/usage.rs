//! How much of each role's storage is in use, read from the members without mounting the set.

use crate::format::cylinder::{CYLINDER_BYTES, Cylinder, Kind};
use crate::format::layout::ROOT_INO;
use crate::format::map_page::{MAP_PAGE_BYTES, MapPage};
use crate::log::replay_to_copy;
use crate::set::members::Set;
use spindle_device::{CowDevice, Device};
use spindle_vfs::Result;
use std::sync::Arc;

/// What is used and what is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Share {
    /// In use.
    pub used: u64,
    /// Free.
    pub free: u64,
}

/// What of the storage of a set is used, by role.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
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

impl Set {
    /// Returns what of the set's storage is used. If the set was not unmounted, its log is replayed
    /// in memory first; of a set that is mounted, this is what was durable at some moment.
    ///
    /// # Errors
    /// Device errors; [`spindle_vfs::Error::Corrupt`] if a description of space is damaged.
    pub fn storage_use(&self) -> Result<StorageUse> {
        let layout = &self.layout;
        let device: Arc<dyn Device> = Arc::new(CowDevice::new(self.space.clone()));
        let (ring, state) = self.open_log(device.clone())?;
        if let Some(ring) = ring.as_ref().filter(|_| state.in_use) {
            replay_to_copy(ring, &*device)?;
        }
        let mut found = StorageUse::default();
        let mut bytes = vec![0; MAP_PAGE_BYTES.max(device.info().sector_bytes as usize)];
        let described = CYLINDER_BYTES.max(device.info().sector_bytes as usize);
        for number in 0..layout.cylinders {
            device.read_at(layout.cylinder_at(number), &mut bytes[..described])?;
            let cylinder = Cylinder::decode(&bytes, number, layout.cylinder_blocks())?;
            let free = u64::from(cylinder.free);
            let (count, share, entries) = match cylinder.kind {
                Kind::Unused => {
                    found.unused_cylinders += 1;
                    continue;
                }
                Kind::Headers => {
                    (&mut found.header_cylinders, &mut found.headers, layout.headers_in_cylinder())
                }
                Kind::Names => {
                    (&mut found.name_cylinders, &mut found.name_blocks, layout.cylinder_blocks().into())
                }
            };
            *count += 1;
            share.free += free;
            share.used += entries.saturating_sub(free);
        }
        // The first numbers are of no file.
        found.headers.used = found.headers.used.saturating_sub(ROOT_INO);
        for class in &layout.classes {
            let mut free = 0;
            for page in 0..class.map_pages {
                device.read_at(class.map_page_at(page), &mut bytes[..MAP_PAGE_BYTES])?;
                free += u64::from(MapPage::new(&bytes, page, class.structure.track_blocks)?.free());
            }
            let in_bytes = |blocks: u64| blocks * class.block_bytes();
            let used = in_bytes(class.blocks().saturating_sub(free));
            let share = Share { used, free: in_bytes(free) };
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
        Ok(found)
    }
}
