//! Whose a superblock is that stands anywhere on a disk: of a file system that begins elsewhere,
//! and whether it is the standard one or a copy.
//!
//! A copy has the bytes of the standard superblock, so that nothing in it says where it stands.
//! The cylinder group behind it does: the one behind a copy has its number, and the first one of
//! the file system stands at its place behind the standard one.

use crate::format::group::GroupMap;
use crate::format::layout::{Extent, Layout};
use crate::format::ondisk::{Cg, FS_UFS2_MAGIC, FS_UFS2EA_MAGIC, OldCg, SBLOCK_UFS1, SBLOCKSEARCH};
use crate::format::superblock::{Superblock, decode, is_finished};
use spindle_device::Device;
use spindle_ondisk::{Endian, Field};
use spindle_vfs::Result;

/// Place of `fs_magic` in a superblock.
const FS_MAGIC: usize = 1372;

impl Superblock {
    /// Bytes from the beginning of a superblock on that [`Self::is_likely`] looks at.
    pub const LIKELY_BYTES: usize = FS_MAGIC + 4;

    /// Returns true if these bytes begin with what has the magic number of a superblock, in either
    /// byte order. Most of what has it is one.
    #[must_use]
    pub fn is_likely(bytes: &[u8]) -> bool {
        let magic = bytes.get(FS_MAGIC..Self::LIKELY_BYTES);
        let is_magic = |magic, endian| is_finished(i32::get(magic, endian));
        magic.is_some_and(|magic| [Endian::Little, Endian::Big].into_iter().any(|e| is_magic(magic, e)))
    }

    /// Returns the first byte of the file system that the superblock at byte `at` of a device
    /// belongs to: as its standard superblock, or as the copy in a cylinder group. None if there is
    /// no superblock, or if no cylinder group says whose it is.
    ///
    /// # Errors
    /// Device errors.
    pub fn origin(device: &dyn Device, at: u64) -> Result<Option<u64>> {
        let Some(raw) = Self::read_raw(device, at)? else { return Ok(None) };
        let Some((fs, endian)) = decode(&raw).filter(|(fs, _)| is_finished(fs.fs_magic)) else {
            return Ok(None);
        };
        let standard = match fs.fs_magic {
            FS_UFS2_MAGIC | FS_UFS2EA_MAGIC => vec![fs.fs_sblockloc.cast_unsigned()],
            _ => vec![SBLOCK_UFS1, 0],
        };
        for sblockloc in standard.into_iter().filter(|place| SBLOCKSEARCH.contains(place)) {
            let extent = Extent::Beginning(device.info().size_bytes);
            let Ok(layout) = Layout::check(&fs, &raw, endian, sblockloc, extent) else { continue };
            if let Some(start) = at.checked_sub(sblockloc)
                && is_group(device, &layout, start.saturating_add(layout.byte(layout.cgtod(0))), 0)?
            {
                return Ok(Some(start));
            }
            let behind = u64::from(layout.fs_cblkno - layout.fs_sblkno) << layout.fs_fshift;
            let group = at.saturating_add(behind);
            let Some(cgx) = number(device, &layout, group)?.filter(|&cgx| cgx < layout.fs_ncg) else {
                continue;
            };
            if let Some(start) = at.checked_sub(layout.byte(layout.cgsblock(cgx)))
                && is_group(device, &layout, group, cgx)?
            {
                return Ok(Some(start));
            }
        }
        Ok(None)
    }
}

/// Reads the block at byte `at`; none beyond the end of the device.
fn block(device: &dyn Device, layout: &Layout, at: u64) -> Result<Option<Vec<u8>>> {
    let len = u64::from(layout.fs_bsize);
    if at.checked_add(len).is_none_or(|end| end > device.info().size_bytes)
        || !at.is_multiple_of(device.info().sector_bytes.into())
    {
        return Ok(None);
    }
    let mut bytes = vec![0; layout.fs_bsize as usize];
    device.read_at(at, &mut bytes)?;
    Ok(Some(bytes))
}

/// Returns the number in what would be a cylinder group at byte `at`.
fn number(device: &dyn Device, layout: &Layout, at: u64) -> Result<Option<u32>> {
    Ok(block(device, layout, at)?.map(|bytes| {
        if layout.old_cg {
            OldCg::decode(&bytes, layout.endian).cg_cgx.cast_unsigned()
        } else {
            Cg::decode(&bytes, layout.endian).cg_cgx
        }
    }))
}

/// Returns true if cylinder group `cgx` stands at byte `at`.
fn is_group(device: &dyn Device, layout: &Layout, at: u64, cgx: u32) -> Result<bool> {
    Ok(block(device, layout, at)?.is_some_and(|bytes| GroupMap::check(layout, &bytes, cgx).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::newfs::{self, Format, Parameters, Plan};
    use crate::{Dialect, Frag};
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use spindle_clock::ManualClock;
    use spindle_device::{MemoryDevice, Window};
    use std::sync::Arc;

    /// Promise: each superblock of a file system that begins anywhere on a disk says where that is,
    /// the standard one and all copies, in each format and byte order; and nothing else on the disk
    /// is taken for one.
    #[test]
    fn each_superblock_says_where_its_file_system_begins() {
        for (format, dialect, endian) in [
            (Format::Ufs2, Dialect::FreeBsd, Endian::Little),
            (Format::Ufs2, Dialect::NetBsd, Endian::Big),
            (Format::Ufs1, Dialect::OpenBsd, Endian::Little),
            (Format::Ufs1, Dialect::Sun { x86: false }, Endian::Big),
            (Format::Old, Dialect::Bsd43, Endian::Little),
        ] {
            let mut wishes = Parameters::new(64 << 20);
            (wishes.format, wishes.dialect, wishes.endian) = (format, Some(dialect), Some(endian));
            let plan = Plan::new(&wishes).unwrap();
            let start = 777 * 512;
            let disk = Arc::new(MemoryDevice::new(start + plan.size_bytes() + 4096));
            let window = Window::new(disk.clone(), start, plan.size_bytes(), "part".into()).unwrap();
            let clock = ManualClock::at(1_700_000_000);
            newfs::write(&plan, &window, &clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
            let layout = &plan.layout;
            assert!(layout.fs_ncg > 2 && layout.byte(Frag(layout.fs_size)) <= plan.size_bytes());
            let mut places: Vec<u64> =
                (0..layout.fs_ncg).map(|cgx| start + layout.byte(layout.cgsblock(cgx))).collect();
            places.push(start + layout.fs_sblockloc);
            places.sort_unstable();
            places.dedup();
            let bytes = disk.to_bytes();
            let likely: Vec<u64> = (0..bytes.len() - Superblock::LIKELY_BYTES)
                .step_by(512)
                .filter(|&at| Superblock::is_likely(&bytes[at..at + Superblock::LIKELY_BYTES]))
                .map(|at| at as u64)
                .collect();
            assert_eq!(likely, places, "{format:?} {dialect}");
            for &at in &places {
                assert_eq!(
                    Superblock::origin(&*disk, at).unwrap(),
                    Some(start),
                    "{format:?} {dialect}: {at}"
                );
            }
            // With the first group and the standard superblock gone, the copies still say it.
            disk.write_at(start + layout.byte(layout.cgtod(0)), &[0; 4096]).unwrap();
            assert_eq!(Superblock::origin(&*disk, places[places.len() - 1]).unwrap(), Some(start));
            assert_eq!(Superblock::origin(&*disk, 0).unwrap(), None);
        }
    }
}
