//! Copying what is left of deleted files.

use super::{InodeReport, inode_report};
use crate::error::{Context, Failure, Result};
use crate::interrupt;
use serde::Serialize;
use spindle_ffs::inspect::{Deleted, DeletedInode, Inspector};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

#[derive(Serialize)]
struct Manifest {
    note: &'static str,
    files: Vec<FileReport>,
}

#[derive(Serialize)]
struct FileReport {
    /// Name of the file; none if nothing was left.
    file: Option<String>,
    saved_bytes: u64,
    unreadable_blocks: u64,
    /// Why the file is not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    #[serde(flatten)]
    inode: InodeReport,
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
    let mut failed = 0;
    let mut interrupted = Ok(());
    for inode in &deleted.inodes {
        interrupted = interrupt::check();
        if interrupted.is_err() {
            break;
        }
        let report = inode_report(deleted, inode);
        let mut saved =
            FileReport { file: None, saved_bytes: 0, unreadable_blocks: 0, failure: None, inode: report };
        let remains = inode.remains;
        if remains.free + remains.shared > 0 {
            let name = format!("inode-{}", inode.ino);
            let written = write(inspector, deleted, inode, &dir.join(&name), &mut saved);
            saved.failure = written.err().map(|failure| failure.to_string());
            failed += usize::from(saved.failure.is_some());
            saved.file = Some(name);
        }
        files.push(saved);
    }
    let manifest = serde_json::to_string_pretty(&Manifest { note: NOTE, files });
    let text = manifest.map_err(|error| Failure::new(error.to_string()))?;
    let mut file = File::create_new(dir.join("manifest.json")).context("manifest.json")?;
    file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).context("manifest.json")?;
    interrupted?;
    Ok(failed)
}

/// Writes the file of one inode.
fn write(
    inspector: &mut Inspector<'_>,
    deleted: &Deleted,
    inode: &DeletedInode,
    path: &Path,
    saved: &mut FileReport,
) -> Result<()> {
    let mut file = File::create_new(path)?;
    let mut bytes_saved = 0;
    let unread = inspector.read_deleted(deleted, inode, &mut |at, bytes| -> Result<()> {
        bytes_saved += bytes.len() as u64;
        file.seek(SeekFrom::Start(at))?;
        Ok(file.write_all(bytes)?)
    });
    saved.saved_bytes = bytes_saved;
    saved.unreadable_blocks = unread?;
    if let Some(size) = inode.size {
        file.set_len(size)?;
    }
    Ok(())
}
