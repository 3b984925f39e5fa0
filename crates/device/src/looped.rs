//! Loop devices and the files below them: the same bytes under two names.
//!
//! The locks of a file and of a loop device over it do not know of each other, and neither do the
//! page caches. So who opens a loop device also locks the bytes of its file, and a file is not
//! opened for writing while a loop device over it is in use.

use crate::lock::lock;
use crate::sysfs::{directory_of, disk_of, number};
use crate::{Error, Result};
use rustix::io::Errno;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Locks the bytes of the file below the bytes `part` of a block device, if that is a loop device
/// or a partition of one, and if this process can open the file. The locks end with the result.
///
/// # Errors
/// [`Error::Busy`] if another process uses them.
pub(crate) fn lock_below(path: &Path, part: &Range<u64>, read_only: bool) -> Result<Option<File>> {
    let Some((below, bytes)) = below(path, part) else { return Ok(None) };
    let Ok(file) = File::options().read(true).write(!read_only).open(&below) else { return Ok(None) };
    lock(&file, &below.display().to_string(), &bytes, read_only)?;
    Ok(Some(file))
}

/// Checks that no loop device over a file is in use by the system.
///
/// # Errors
/// [`Error::Busy`] that names it.
pub(crate) fn check_unused(file: &fs::Metadata, name: &str) -> Result<()> {
    for device in devices_over(file) {
        let options = File::options().read(true).custom_flags(libc::O_EXCL).open(&device);
        if options.is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::BUSY)) {
            let device = device.display();
            let reason =
                format!("{device}, which shows this file, is in use; unmount it first, or use {device}");
            return Err(Error::Busy { device: name.to_owned(), reason });
        }
    }
    Ok(())
}

/// Returns the file below the bytes `part` of a block device, and their place in it.
fn below(path: &Path, part: &Range<u64>) -> Option<(PathBuf, Range<u64>)> {
    let own = directory_of(path)?;
    let (disk, bytes) = disk_of(&own);
    let file = backing_file(disk)?;
    let offset = number(&disk.join("loop"), "offset")?;
    let (start, end) = (offset.checked_add(bytes.start)?, offset.saturating_add(bytes.end));
    let within = |at: u64| start.saturating_add(at).min(end);
    Some((file, within(part.start)..within(part.end)))
}

/// Returns the file of the loop device that a directory of sysfs describes.
fn backing_file(device: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(device.join("loop/backing_file")).ok()?;
    Some(text.strip_suffix('\n').unwrap_or(&text).into())
}

/// Returns the loop devices over a file.
fn devices_over(file: &fs::Metadata) -> Vec<PathBuf> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let is_over = |device: &Path| {
        let same = |other: fs::Metadata| (other.dev(), other.ino()) == (file.dev(), file.ino());
        backing_file(device).and_then(|path| fs::metadata(path).ok()).is_some_and(same)
    };
    let loops = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("loop"));
    let over = loops.filter(|entry| is_over(&entry.path()));
    over.map(|entry| Path::new("/dev").join(entry.file_name())).collect()
}
