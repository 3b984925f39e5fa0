//! Copying what is left of deleted files.

use super::{InodeReport, inode_report, unlinked_report};
use crate::commands::debug::holds_data;
use crate::error::{Context, Failure, Result};
use crate::interrupt;
use crate::outfile::{self, Kind, Out};
use serde::Serialize;
use spindle_ffs::inspect::{Deleted, Inspector};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

#[derive(Serialize)]
struct Manifest {
    note: &'static str,
    files: Vec<FileReport>,
}

#[derive(Serialize)]
struct FileReport {
    /// Name of the file; none if nothing was left, or it could not be written.
    file: Option<String>,
    saved_bytes: u64,
    unreadable_blocks: u64,
    /// Why there is no file.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    #[serde(flatten)]
    inode: InodeReport,
}

impl FileReport {
    /// Returns the report of an inode of which nothing is saved yet.
    fn of(inode: InodeReport) -> Self {
        Self { file: None, saved_bytes: 0, unreadable_blocks: 0, failure: None, inode }
    }

    /// Notes whether the file was written.
    fn note(&mut self, written: Result<()>) {
        self.failure = written.err().map(|failure| failure.to_string());
        if self.failure.is_some() {
            (self.file, self.saved_bytes) = (None, 0);
        }
    }
}

const NOTE: &str = "A block that is free now may have been used for another file since the deletion. Blocks \
                    that are in use again were not copied: they are holes.";

/// Checks that nothing can be overwritten in a directory.
pub fn check(dir: &Path) -> Result<()> {
    let names = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        found => found.context(dir.display())?,
    };
    match names.count() {
        0 => Ok(()),
        _ => Err(Failure::new(format!("{}: is not empty; name a new directory", dir.display()))),
    }
}

/// Copies what is left of each deleted inode into a directory, and writes the manifest. Returns the
/// number of files that could not be written.
pub fn save(inspector: &mut Inspector<'_>, deleted: &Deleted, dir: &Path) -> Result<usize> {
    std::fs::create_dir_all(dir)?;
    let mut files = Vec::new();
    let interrupted = save_each(inspector, deleted, dir, &mut files);
    let failed = files.iter().filter(|saved| saved.failure.is_some()).count();
    let manifest = serde_json::to_string_pretty(&Manifest { note: NOTE, files });
    let text = manifest.map_err(|error| Failure::new(error.to_string()))? + "\n";
    outfile::write(&dir.join("manifest.json"), Kind::Result, text, false)?;
    interrupted?;
    Ok(failed)
}

/// Saves one inode after the other until a signal comes.
fn save_each(
    inspector: &mut Inspector<'_>,
    deleted: &Deleted,
    dir: &Path,
    files: &mut Vec<FileReport>,
) -> Result<()> {
    let file_of = |ino: u32| dir.join(format!("inode-{ino}"));
    for inode in &deleted.inodes {
        interrupt::check()?;
        let mut saved = FileReport::of(inode_report(deleted, inode));
        let remains = inode.remains;
        if remains.free + remains.shared > 0 {
            let written = write(&file_of(inode.ino), inode.size, &mut saved, |visit| {
                inspector.read_deleted(deleted, inode, visit)
            });
            interrupt::check()?;
            saved.note(written);
        }
        files.push(saved);
    }
    for &ino in &deleted.unlinked {
        interrupt::check()?;
        let inode = inspector.inode(ino)?;
        let mut saved = FileReport::of(unlinked_report(deleted, &inode));
        let written = if let Some(target) = &inode.target {
            write(&file_of(ino), Some(inode.size), &mut saved, |visit| {
                visit(0, target)?;
                Ok(0)
            })
        } else {
            let size = holds_data(inode.kind).then_some(inode.size);
            write(&file_of(ino), size, &mut saved, |visit| inspector.read_file(ino, visit))
        };
        interrupt::check()?;
        saved.note(written);
        files.push(saved);
    }
    Ok(())
}

/// What is called with bytes of a file, and where they stand in it.
type Visit<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<()>;

/// Writes the file of one inode by `read`, which passes its bytes and returns the number of blocks
/// that cannot be read.
fn write(
    path: &Path,
    size: Option<u64>,
    saved: &mut FileReport,
    read: impl FnOnce(Visit<'_>) -> Result<u64>,
) -> Result<()> {
    saved.file = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let out = Out::create(path, Kind::Contents, false)?;
    let mut file = out.handle()?;
    let mut bytes_saved = 0;
    let unread = read(&mut |at, bytes| {
        bytes_saved += bytes.len() as u64;
        file.seek(SeekFrom::Start(at))?;
        Ok(file.write_all(bytes)?)
    })?;
    (saved.saved_bytes, saved.unreadable_blocks) = (bytes_saved, unread);
    if let Some(size) = size {
        file.set_len(size)?;
    }
    // A signal has made the last reads fail.
    interrupt::check()?;
    out.finish()
}
