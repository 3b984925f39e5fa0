//! Output files of commands other than images: traces, pages, tables, tar streams, copies.
//!
//! One rule holds for all of them: symbolic links are followed and existing files overwritten, as
//! usual, but an image or a disk is overwritten only with `--force`. A forgotten colon must not
//! destroy a file system.

use crate::error::{Context, Failure, Result};
use crate::interrupt;
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use spindle::detect::contents;
use spindle::transfer::InPlace;
use spindle_device::FileDevice;
use std::fs::{File, Metadata};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The option of commands that write an output file.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct OutArgs {
    /// Overwrite even an image or a block device
    #[arg(long)]
    pub force: bool,
}

/// Returns a description of the file system or partition table in the file or block device at
/// `path`, if there is one.
pub fn image_at(path: &Path) -> Result<Option<String>> {
    let options = spindle_device::OpenOptions::look();
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() || found.file_type().is_block_device() => {
            Ok(contents(&FileDevice::open(path, &options)?)?)
        }
        _ => Ok(None),
    }
}

/// Refuses to overwrite an image or a block device unless `force` is set.
pub fn check(path: &Path, force: bool) -> Result<()> {
    if force { Ok(()) } else { refuse_image(path, "; --force overwrites it") }
}

/// Refuses to overwrite an image or a block device; `remedy` is added to the message.
pub fn refuse_image(path: &Path, remedy: &str) -> Result<()> {
    let state = match image_at(path).context(path.display())? {
        Some(found) => format!("contains {found}"),
        None if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device()) => {
            "is a block device".into()
        }
        None => return Ok(()),
    };
    Err(Failure::new(format!(
        "{}: {state}, which the output would overwrite; name another file{remedy}",
        path.display()
    )))
}

/// Refuses to overwrite the input of the command, even with `--force`.
pub fn refuse_input(path: &Path, input: &Path) -> Result<()> {
    let id =
        |path: &Path| path.metadata().ok().filter(Metadata::is_file).map(|found| (found.dev(), found.ino()));
    match (id(path), id(input)) {
        (Some(to), Some(from)) if to == from => Err(Failure::new(format!(
            "{}: the output would overwrite its own input; name another file",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Creates or truncates an output file.
pub fn create(path: &Path, force: bool) -> Result<File> {
    check(path, force)?;
    match std::fs::metadata(path) {
        Ok(_) => Ok(overwrite(CWD, path).context(path.display())?.into()),
        Err(_) => File::create(path).context(path.display()),
    }
}

/// Writes an output file.
pub fn write(path: &Path, content: impl AsRef<[u8]>, force: bool) -> Result<()> {
    create(path, force)?.write_all(content.as_ref()).context(path.display())
}

/// Removes an unfinished output file, so that nobody takes it for a complete one. Truncates it if
/// `path` is a symbolic link to it.
pub fn remove_unfinished(path: &Path) {
    // Errors are ignored, because the caller reports the failure that led here.
    if path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        let _ = std::fs::remove_file(path);
    } else if path.metadata().is_ok_and(|found| found.is_file()) {
        let _ = File::create(path);
    }
}

/// Opens a named pipe for writing when it has a reader.
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

/// Opens an existing file for overwriting by a transfer.
pub fn overwrite_in_place(dir: BorrowedFd<'_>, name: &Path) -> spindle::Result<InPlace> {
    let fd = overwrite(dir, name).map_err(Failure::into_error)?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode);
    Ok(match kind {
        FileType::RegularFile => InPlace::File(fd),
        _ => InPlace::Stream(Box::new(interrupt::Writer(File::from(fd)))),
    })
}

/// Opens an existing file for overwriting, through symbolic links, and truncates a regular file.
/// Refuses if another program uses it as an image, or the system uses the block device.
pub fn overwrite(dir: impl AsFd, name: &Path) -> Result<OwnedFd> {
    let found = rustix::fs::statat(&dir, name, AtFlags::empty())?;
    let kind = FileType::from_raw_mode(found.st_mode);
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let in_use = || Failure::new("another program uses it as an image; unmount it first");
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
            // A file system without locks has no other lock on the file.
            _ => rustix::fs::ftruncate(&fd, 0)?,
        }
    }
    Ok(fd)
}
