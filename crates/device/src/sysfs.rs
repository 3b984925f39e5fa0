//! What sysfs says of block devices. Each has a directory; that of a partition is in that of its
//! disk.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes of a sector in sysfs, whatever the sectors of the device are.
const SECTOR_BYTES: u64 = 512;

/// Returns the number of the block device at `path`, if it is one.
pub(crate) fn block_number(path: &Path) -> Option<u64> {
    let found = fs::metadata(path).ok()?;
    found.file_type().is_block_device().then(|| found.rdev())
}

/// Returns the directory of the block device at `path`; none if it is no block device, and on
/// systems without sysfs.
pub(crate) fn directory_of(path: &Path) -> Option<PathBuf> {
    let number = block_number(path)?;
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()
}

/// Returns the number in a file of a directory.
pub(crate) fn number(dir: &Path, name: &str) -> Option<u64> {
    fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok()
}

/// Returns the bytes of its disk that the directory of a partition describes; none if it is none.
pub(crate) fn bytes_of(dir: &Path) -> Option<Range<u64>> {
    number(dir, "partition")?;
    let start = number(dir, "start")?.checked_mul(SECTOR_BYTES)?;
    Some(start..start.checked_add(number(dir, "size")?.checked_mul(SECTOR_BYTES)?)?)
}

/// Returns the disk that a directory belongs to, and the bytes of it that the directory describes:
/// all of them, if it is not that of a partition.
pub(crate) fn disk_of(dir: &Path) -> (&Path, Range<u64>) {
    match (bytes_of(dir), dir.parent()) {
        (Some(bytes), Some(disk)) => (disk, bytes),
        _ => (dir, 0..u64::MAX),
    }
}

/// Returns true if the system lets nobody write a block device (`blockdev --setro`).
#[must_use]
pub fn is_write_protected(path: &Path) -> bool {
    directory_of(path).and_then(|dir| number(&dir, "ro")) == Some(1)
}
