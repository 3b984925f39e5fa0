//! The partitions of a block device that the system has devices for (`/dev/sdb1`), from sysfs.
//!
//! Such a device has a claim, a page cache and locks of its own, so it is what must be opened for
//! its bytes: by us, as by the system when it mounts it.

use crate::sysfs::{block_number, bytes_of, directory_of, disk_of};
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A partition that the system knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its device.
    pub(crate) node: PathBuf,
    /// Where it is on the disk.
    pub(crate) bytes: Range<u64>,
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.display().fmt(f)
    }
}

/// Returns the partitions within the block device at `path`, with their bytes on that device. There
/// are none in a file, and on systems without sysfs.
pub(crate) fn known_partitions(path: &Path) -> Vec<Known> {
    let Some(own) = directory_of(path) else { return Vec::new() };
    // The partitions within a slice are beside it: sysfs has no levels.
    let (disk, outer) = disk_of(&own);
    let entries = fs::read_dir(disk).into_iter().flatten().flatten();
    let mut known: Vec<Known> = entries.filter_map(|entry| known_at(&entry.path(), &outer)).collect();
    known.sort_by_key(|known| (known.bytes.start, known.bytes.end));
    known
}

/// Returns the device that has exactly the bytes `part` of the block device at `path`.
pub(crate) fn node_of(path: &Path, part: &Range<u64>) -> Option<PathBuf> {
    known_partitions(path).into_iter().find(|known| known.bytes == *part).map(|known| known.node)
}

/// Returns what helps if the bytes `part` of the disk at `path` cannot be claimed, because
/// something else uses the disk, and the system has no device for them.
pub(crate) fn remedy(path: &Path, part: &Range<u64>) -> String {
    let disk = path.display();
    let limit =
        if part.end == u64::MAX { String::new() } else { format!(" --sizelimit {}", part.end - part.start) };
    let device = format!("use the device that \"losetup -f --show -o {}{limit} {disk}\" prints", part.start);
    let overlaps = |known: &Known| known.bytes.start < part.end && part.start < known.bytes.end;
    let nodes: Vec<String> =
        known_partitions(path).iter().filter(|known| overlaps(known)).map(Known::to_string).collect();
    if nodes.is_empty() {
        return format!(
            "the system has no device for this part of it: unmount what uses {disk}, run \"partx -u {disk}\", \
             and try again; or {device}"
        );
    }
    // One that the system knows may be what is in use, so nothing may be done before it is not.
    format!(
        "the system has no device for this part of it, which overlaps {}: unmount what uses {disk}, and {device}",
        nodes.join(" and ")
    )
}

/// Returns the partition that a directory of sysfs describes, if it is within the bytes `outer` of
/// its disk and its device is in `/dev`.
fn known_at(dir: &Path, outer: &Range<u64>) -> Option<Known> {
    let bytes = bytes_of(dir).filter(|bytes| outer.start <= bytes.start && bytes.end <= outer.end)?;
    // In sysfs a slash in a name is an exclamation mark.
    let name = dir.file_name()?.to_str()?.replace('!', "/");
    let node = Path::new("/dev").join(name);
    let number = fs::read_to_string(dir.join("dev")).ok()?;
    let (major, minor) = number.trim().split_once(':')?;
    let number = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
    (block_number(&node) == Some(number))
        .then(|| Known { node, bytes: bytes.start - outer.start..bytes.end - outer.start })
}
