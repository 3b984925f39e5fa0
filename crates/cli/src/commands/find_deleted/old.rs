//! Deleted files of an old file system.

use super::Args;
use crate::error::{Context, Failure, Result};
use crate::listing;
use crate::output::Output;
use crate::text::{encoded, printable};
use serde::Serialize;
use spindle::inspect::OpenedOld;
use spindle_v7::inspect::{Deleted, Inspector};
use std::process::ExitCode;

#[derive(Serialize)]
struct Report<'a> {
    image: &'a str,
    names: Vec<NameReport>,
    inodes: Vec<InodeReport>,
}

#[derive(Serialize)]
struct NameReport {
    directory_inode: u16,
    /// Byte of the entry in the directory.
    offset: u64,
    name: String,
}

#[derive(Serialize)]
struct InodeReport {
    inode: u16,
    size: u64,
    uid: u16,
    gid: u16,
    mtime: String,
    /// Blocks that no file has.
    left: u64,
    used_again: u64,
}

/// Lists what was deleted.
pub fn run(args: &Args, opened: &OpenedOld) -> Result<ExitCode> {
    if args.save.is_some() {
        return Err(Failure::usage("--save is for UFS: on V7 and System V only names and inodes are listed"));
    }
    let inspector = Inspector::new(&*opened.device, &opened.detected).context(&args.image)?;
    let deleted = inspector.deleted();
    let mut out = Output::stdout();
    if args.json {
        let names = deleted.names.iter().map(|(dir, entry)| NameReport {
            directory_inode: *dir,
            offset: entry.at,
            name: encoded(&entry.name),
        });
        let inodes = deleted.inodes.iter().map(|deleted| InodeReport {
            inode: deleted.inode.ino,
            size: deleted.inode.di_size,
            uid: deleted.inode.di_uid,
            gid: deleted.inode.di_gid,
            mtime: listing::time(deleted.inode.di_mtime, true),
            left: deleted.left,
            used_again: deleted.used_again,
        });
        out.json(&Report { image: &args.image, names: names.collect(), inodes: inodes.collect() })?;
    } else {
        show_deleted(&mut out, &deleted)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what was deleted.
pub fn show_deleted(out: &mut Output, deleted: &Deleted) -> Result<()> {
    if deleted.names.is_empty() {
        out.line("no deleted names")?;
    } else {
        out.line("deleted names\n directory  name")?;
    }
    for (dir, entry) in &deleted.names {
        out.line(format!("{dir:>10}  {}", printable(&entry.name)))?;
    }
    if deleted.inodes.is_empty() {
        out.line("no deleted inodes with pointers")?;
    } else {
        out.line("deleted inodes with pointers\n     inode          size  changed           left")?;
    }
    for found in &deleted.inodes {
        out.line(format!(
            "{:>10} {:>13}  {}  {} of {} blocks belong to no file",
            found.inode.ino,
            found.inode.di_size,
            listing::time(found.inode.di_mtime, false),
            found.left,
            found.left + found.used_again
        ))?;
    }
    Ok(())
}
