//! Taking the magic from remains of other file systems, so that nobody who probes the device takes
//! them for the new one. Only magics that are really there are cleared, and only inside the new
//! file system; boot code and labels keep their bytes.

use crate::format::layout::Layout;
use crate::format::ondisk::{AppleLabel, FS_BAD_MAGIC, SBLOCKSEARCH, SBLOCKSIZE};
use crate::format::superblock::{MAGICS, Superblock};
use crate::format::units::Frag;
use spindle_device::Device;
use spindle_ondisk::Field;
use spindle_vfs::Result;

/// Byte offset of the magic in a superblock.
const FS_MAGIC: u64 = 1372;

/// Magics of others: byte offset and bytes. ext2 and its successors (NetBSD's newfs clears it for
/// the boot loaders' sake), btrfs, XFS, Linux swap, and the label of Apple, which decides how
/// directories are read.
const OTHERS: [(u64, &[u8]); 5] = [
    (1080, b"\x53\xef"),
    (65600, b"_BHRfS_M"),
    (0, b"XFSB"),
    (4086, b"SWAPSPACE2"),
    (AppleLabel::AT, b"LABL"),
];

/// Overwrites `bytes` at byte `at`, keeping the rest of their sectors.
pub(super) fn patch(device: &dyn Device, at: u64, bytes: &[u8]) -> Result<()> {
    with_sectors(device, at, bytes.len(), |there| {
        there.copy_from_slice(bytes);
        true
    })
}

/// Marks the file system on a device as one that was not finished, as [`super::write`] does until
/// it is: it is no longer taken for a whole one.
///
/// # Errors
/// When there is none, or the device fails.
pub fn mark_unfinished(device: &dyn Device) -> Result<()> {
    let layout = Superblock::open(device)?.layout;
    let mut magic = [0; 4];
    FS_BAD_MAGIC.put(&mut magic, layout.endian);
    patch(device, layout.fs_sblockloc + FS_MAGIC, &magic)?;
    Ok(device.flush()?)
}

/// Lets `change` look at `len` bytes at byte `at`, and writes them back if it says so.
fn with_sectors(
    device: &dyn Device,
    at: u64,
    len: usize,
    change: impl FnOnce(&mut [u8]) -> bool,
) -> Result<()> {
    let sector = u64::from(device.info().sector_bytes);
    let start = at / sector * sector;
    let end = (at + len as u64).next_multiple_of(sector);
    let mut bytes = vec![0; crate::format::units::index(end - start)];
    device.read_at(start, &mut bytes)?;
    let skip = crate::format::units::index(at - start);
    if change(&mut bytes[skip..skip + len]) {
        device.write_at(start, &bytes)?;
    }
    Ok(())
}

/// Clears the magic of a superblock at each of `places` that is not the new one's.
fn superblocks(layout: &Layout, device: &dyn Device, places: &[u64]) -> Result<()> {
    let end = layout.byte(Frag(layout.fs_size));
    let magics = MAGICS.map(|magic| [magic.to_le_bytes(), magic.to_be_bytes()]);
    for &place in places {
        if place == layout.fs_sblockloc || place + SBLOCKSIZE as u64 > end {
            continue;
        }
        with_sectors(device, place + FS_MAGIC, 4, |bytes| {
            let found = magics.as_flattened().iter().any(|magic| magic == bytes);
            if found {
                bytes.fill(0);
            }
            found
        })?;
    }
    Ok(())
}

/// Clears the magics at the standard places of superblocks: what stood there is no file system any
/// more.
pub(super) fn standard_superblocks(layout: &Layout, device: &dyn Device) -> Result<()> {
    superblocks(layout, device, &SBLOCKSEARCH)
}

/// Clears the magics where the first copy after each standard place would be, and those of other
/// families.
pub(super) fn other_file_systems(layout: &Layout, device: &dyn Device) -> Result<()> {
    let end = layout.byte(Frag(layout.fs_size));
    let copy_bytes = SBLOCKSIZE as u64;
    let mut places: Vec<u64> = SBLOCKSEARCH
        .into_iter()
        .flat_map(|place| (13..=16).map(move |shift| (place + copy_bytes).next_multiple_of(1 << shift)))
        .collect();
    places.sort_unstable();
    places.dedup();
    superblocks(layout, device, &places)?;
    let own = layout.fs_sblockloc..layout.fs_sblockloc + copy_bytes;
    for (at, magic) in OTHERS {
        if own.contains(&at) || at + magic.len() as u64 > end {
            continue;
        }
        with_sectors(device, at, magic.len(), |bytes| {
            let found = bytes == magic;
            if found {
                bytes.fill(0);
            }
            found
        })?;
    }
    Ok(())
}
