//! Files that commands write beside images: traces, pages, tables, tar streams, copies.
//!
//! One rule for all of them: a name is followed and written through, as the system does, but what
//! is under it is not an image or a disk, unless the user insists. A forgotten colon must not cost
//! a file system.

use crate::error::{Context, Failure, Result};
use crate::image::{self, Found};
use crate::interrupt;
use crate::text;
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use spindle_device::{Caching, Device, FileDevice, partitions};
use std::fs::{File, Metadata};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The option of commands that write such a file.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct OutArgs {
    /// Write even over an image or a block device
    #[arg(long)]
    pub force: bool,
}

/// Tells what a device holds that its owner would miss, if Spindle knows it.
pub fn holds(device: &dyn Device) -> Result<Option<String>> {
    match image::detect(device) {
        Ok(Found::Old(found)) => {
            return Ok(Some(format!("an old UNIX file system ({})", found.superblock.format)));
        }
        Ok(Found::Ffs(found)) => {
            let version = text::version(found.layout.version, found.layout.inode_format);
            return Ok(Some(format!("{version} of {}", found.dialect)));
        }
        Err(spindle_vfs::Error::Corrupt { .. }) => return Ok(Some("a damaged file system".into())),
        Err(_) => {}
    }
    let table = partitions(device)?;
    Ok(table.scheme.map(|scheme| {
        let names: Vec<&str> = table.partitions.iter().map(|p| p.name.as_str()).collect();
        format!("a partition table ({scheme}: {})", names.join(", "))
    }))
}

/// Tells what an existing file or block device at `path` holds; nothing for what is neither.
pub fn image_at(path: &Path) -> Result<Option<String>> {
    let options = spindle_device::OpenOptions {
        lock: false,
        caching: Caching::Buffered,
        ..spindle_device::OpenOptions::read_only()
    };
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() || found.file_type().is_block_device() => {
            holds(&FileDevice::open(path, &options)?)
        }
        _ => Ok(None),
    }
}

/// Refuses to write an output over an image or a block device unless `force` is what the user has
/// said.
pub fn check(path: &Path, force: bool) -> Result<()> {
    if force { Ok(()) } else { refuse(path, "; --force overwrites it") }
}

/// Refuses to write an output over an image or a block device; `remedy` is added to what helps.
pub fn refuse(path: &Path, remedy: &str) -> Result<()> {
    let held = match image_at(path).context(path.display())? {
        Some(held) => held,
        None if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device()) => {
            "a block device".into()
        }
        None => return Ok(()),
    };
    Err(Failure::new(format!(
        "{}: there is {held}, which the output would replace; name another file{remedy}",
        path.display()
    )))
}

/// Refuses to write an output over the file that it is made of, whatever the user insists on.
pub fn spare(path: &Path, input: &Path) -> Result<()> {
    let id =
        |path: &Path| path.metadata().ok().filter(Metadata::is_file).map(|found| (found.dev(), found.ino()));
    match (id(path), id(input)) {
        (Some(to), Some(from)) if to == from => Err(Failure::new(format!(
            "{}: the output would replace what it is made of; name another file",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Makes or empties the file of an output.
pub fn create(path: &Path, force: bool) -> Result<File> {
    check(path, force)?;
    match std::fs::metadata(path) {
        Ok(_) => Ok(overwrite(CWD, path).context(path.display())?.into()),
        Err(_) => File::create(path).context(path.display()),
    }
}

/// Writes a whole output.
pub fn write(path: &Path, content: impl AsRef<[u8]>, force: bool) -> Result<()> {
    create(path, force)?.write_all(content.as_ref()).context(path.display())
}

/// Takes back an output that was not finished, so that it does not look whole.
pub fn undo(path: &Path) {
    // What cannot be taken back stays; why it should be is what is told.
    if path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        let _ = std::fs::remove_file(path);
    } else if path.metadata().is_ok_and(|found| found.is_file()) {
        let _ = File::create(path);
    }
}

/// Opens a pipe by its name once somebody reads from it.
fn open_pipe(dir: BorrowedFd<'_>, name: &Path, flags: OFlags) -> Result<OwnedFd> {
    loop {
        match rustix::fs::openat(dir, name, flags | OFlags::NONBLOCK, Mode::empty()) {
            Err(Errno::NXIO) => interrupt::pause()?,
            other => {
                let fd = other?;
                rustix::fs::fcntl_setfl(&fd, OFlags::empty())?;
                return Ok(fd);
            }
        }
    }
}

/// Opens what stands at a name, through links, for a new content; a regular file is emptied.
/// Refused if another program has it as an image, or the system uses the block device.
pub fn overwrite(dir: impl AsFd, name: &Path) -> Result<OwnedFd> {
    let found = rustix::fs::statat(&dir, name, AtFlags::empty())?;
    let kind = FileType::from_raw_mode(found.st_mode);
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let in_use = || Failure::new("another program has it open as an image; unmount it there first");
    if kind == FileType::BlockDevice {
        return match rustix::fs::openat(dir, name, flags | OFlags::EXCL, Mode::empty()) {
            Err(Errno::BUSY) => Err(Failure::new("the system uses this block device; unmount it first")),
            other => Ok(other?),
        };
    }
    if kind == FileType::Fifo {
        return open_pipe(dir.as_fd(), name, flags);
    }
    let fd = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    if kind == FileType::RegularFile {
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(in_use()),
            // What cannot be locked is not locked elsewhere.
            _ => rustix::fs::ftruncate(&fd, 0)?,
        }
    }
    Ok(fd)
}
