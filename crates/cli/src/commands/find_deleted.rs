//! `spindle find-deleted`

pub mod old;
mod save;

use crate::error::{Context, Failure, Result};
use crate::inspect::{InspectArgs, open_old, open_to_read};
use crate::interruptible::Interruptible;
use crate::output::Output;
use crate::progress::Progress;
use crate::{interrupt, listing, text};
use serde::Serialize;
use spindle_ffs::Layout;
use spindle_ffs::inspect::{Deleted, DeletedInode, DeletedName, Inode, InodeNow, Inspector, Remains};
use std::path::PathBuf;
use std::process::ExitCode;

/// Find deleted files in a UFS, V7 or System V file system
///
/// Lists names that were removed from directories and whose bytes are still there, with the inode
/// that they named and what it is now; inodes that are free but still have pointers to their
/// blocks, with how much of that is in free blocks, and those that lost their kind and were not
/// freed; and inodes without names that are not free: those that were removed while they were open,
/// and those that no directory names any more, as when a directory is lost.
///
/// With --save, what of the deleted inodes is in free blocks is copied into a directory, and with
/// it all of the inodes that were removed while they were open: a file inode-N for each, and
/// manifest.json, which says for each how sure it is. Blocks that are in use again are not copied,
/// and are holes in the file. Nothing is written to the image. If a signal ends it, the manifest
/// lists what was saved until then.
///
/// On V7 and System V names keep their bytes when they are removed, but not the number of the
/// inode. --save is for UFS only.
///
/// A block that is free now may have been used for another file since; nothing on the disk says
/// so. Look at what was saved before you trust it.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "NOTES
    FreeBSD, OpenBSD and illumos clear size and pointers of an inode before they free it: of a
    file that was removed in an orderly way, the name is left, but not where its data was.
    Spindle also erases the name. An inode has pointers if the system went down in between,
    or if something else freed it. Of other systems nothing is said here.
    An inode that was removed while it was open is freed by fsck and by the next mount: save it
    before. It is shown by the option --lost of ls and cp, too, as are other inodes without names
    that are in use, which get names by fsck -y.

EXIT CODES
    0  done, also if nothing was found    1  failed    2  invalid command line

EXAMPLES
    spindle find-deleted disk.img
    spindle find-deleted --save found disk.img && less found/manifest.json
    spindle find-deleted --json disk.img | jq -r '.names[].name'")]
pub struct Args {
    /// Copy what can be saved into this directory, which is made, or is empty
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: InspectArgs,
    /// The file, block device or partition
    #[arg(value_name = "IMAGE")]
    image: String,
}

#[derive(Serialize)]
struct Report<'a> {
    image: &'a str,
    names: Vec<NameReport>,
    inodes: Vec<InodeReport>,
    /// Inodes in use without a name, by their own count.
    unlinked: &'a [u32],
    /// Inodes in use with names by their own count, of which no directory has one.
    unnamed: &'a [u32],
    unreadable_groups: u64,
}

#[derive(Serialize)]
struct NameReport {
    directory_inode: u32,
    directory: Option<String>,
    /// Byte of the entry in the directory.
    offset: u64,
    name: String,
    /// The inode that it named; none if that was cleared.
    inode: Option<u32>,
    inode_now: InodeNow,
}

/// A deleted inode, as JSON in the report and in the manifest.
#[derive(Serialize)]
struct InodeReport {
    inode: u32,
    kind: Option<&'static str>,
    mode: String,
    uid: u32,
    gid: u32,
    /// Bytes; none if that was cleared.
    size: Option<u64>,
    mtime: String,
    ctime: String,
    /// Old names that speak of this inode; they may be older than it.
    names: Vec<String>,
    surety: &'static str,
    /// What is left of a freed inode, in fragments.
    #[serde(skip_serializing_if = "Option::is_none")]
    remains: Option<Remains>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(dir) = &args.save {
        interrupt::watch()?;
        save::check(dir)?;
    }
    if let Some(opened) = open_old(&args.image, args.read)? {
        return old::run(args, &opened);
    }
    let opened = open_to_read(&args.image, args.read)?;
    let device = Interruptible(&*opened.device);
    let mut inspector = Inspector::new(&device, &opened.superblock);
    let progress = Progress::of_fraction("find-deleted");
    let deleted = inspector.deleted(&mut |done, groups| {
        progress.set(u64::from(done) * 1000 / u64::from(groups.max(1)), "inodes");
    });
    drop(progress);
    interrupt::check()?;
    let failed = match &args.save {
        Some(dir) => save::save(&mut inspector, &deleted, dir).context(dir.display())?,
        None => 0,
    };
    let mut out = Output::stdout();
    if args.json {
        out.json(&report(args, &deleted))?;
    } else {
        show(&mut out, &opened.superblock.layout, &deleted)?;
    }
    out.finish()?;
    if failed > 0 {
        let what =
            format!("{} could not be written; manifest.json says why", text::counted(failed as u64, "file"));
        return Err(Failure::new(what)).context(&args.image);
    }
    if deleted.unreadable_groups > 0 {
        let groups = deleted.unreadable_groups;
        let what = format!(
            "the maps of {} cannot be read; nothing is known of them",
            text::counted(groups, "cylinder group")
        );
        return Err(Failure::new(what)).context(&args.image);
    }
    Ok(ExitCode::SUCCESS)
}

fn report<'a>(args: &'a Args, deleted: &'a Deleted) -> Report<'a> {
    let name = |name: &DeletedName| NameReport {
        directory_inode: name.dir,
        directory: name.dir_path.as_ref().map(|path| text::encoded(path)),
        offset: name.at,
        name: text::encoded(&name.name),
        inode: (name.ino != 0).then_some(name.ino),
        inode_now: name.inode,
    };
    Report {
        image: &args.image,
        names: deleted.names.iter().map(name).collect(),
        inodes: deleted.inodes.iter().map(|inode| inode_report(deleted, inode)).collect(),
        unlinked: &deleted.unlinked,
        unnamed: &deleted.unnamed,
        unreadable_groups: deleted.unreadable_groups,
    }
}

fn inode_report(deleted: &Deleted, inode: &DeletedInode) -> InodeReport {
    InodeReport {
        inode: inode.ino,
        kind: inode.kind.map(text::kind_name),
        mode: format!("{:04o}", inode.mode & 0o7777),
        uid: inode.uid,
        gid: inode.gid,
        size: inode.size,
        mtime: listing::time(inode.mtime, true),
        ctime: listing::time(inode.ctime, true),
        names: names_of(deleted, inode.ino),
        surety: surety(inode),
        remains: Some(inode.remains),
    }
}

/// Returns the report of an inode that was removed while it was open.
fn unlinked_report(deleted: &Deleted, inode: &Inode) -> InodeReport {
    InodeReport {
        inode: inode.ino,
        kind: inode.kind.map(text::kind_name),
        mode: format!("{:04o}", inode.mode & 0o7777),
        uid: inode.uid,
        gid: inode.gid,
        size: Some(inode.size),
        mtime: listing::time(inode.mtime, true),
        ctime: listing::time(inode.ctime, true),
        names: names_of(deleted, inode.ino),
        surety: "all of it: it was removed while it was open, and is not freed",
        remains: None,
    }
}

/// Returns the old names that speak of an inode.
fn names_of(deleted: &Deleted, ino: u32) -> Vec<String> {
    let names = deleted.names.iter().filter(|name| name.ino == ino);
    names.map(|name| text::encoded(&path(name))).collect()
}

/// Returns how sure it is that what is left of an inode is what it was.
fn surety(inode: &DeletedInode) -> &'static str {
    match (inode.remains, inode.size) {
        (Remains { free: 0, shared: 0, .. }, _) => "nothing is left",
        (remains, Some(_)) if remains.is_whole() => "all blocks are free",
        (remains, None) if remains.is_whole() => "all blocks are free, the size is unknown",
        (_, Some(_)) => "some blocks are lost, used again or claimed twice",
        (_, None) => "some blocks are lost, used again or claimed twice, the size is unknown",
    }
}

/// Returns the path that a name had.
fn path(name: &DeletedName) -> Vec<u8> {
    let mut path = name.dir_path.clone().unwrap_or_else(|| format!("<{}>", name.dir).into_bytes());
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(&name.name);
    path
}

/// Returns what an inode is now, for people.
const fn now(inode: InodeNow) -> &'static str {
    match inode {
        InodeNow::Unknown => "unknown",
        InodeNow::Cleared => "cleared",
        InodeNow::Deleted => "has pointers",
        InodeNow::InUse => "in use",
        InodeNow::UsedAgain => "used again",
    }
}

/// Prints what was deleted.
pub fn show(out: &mut Output, layout: &Layout, deleted: &Deleted) -> Result<()> {
    if deleted.names.is_empty() {
        out.line("no deleted names")?;
    } else {
        out.line("deleted names\n     inode  now           path")?;
    }
    for name in &deleted.names {
        let ino = if name.ino == 0 { "?".into() } else { name.ino.to_string() };
        let path = text::printable(&path(name));
        out.line(format!("{ino:>10}  {:<12}  {path}", now(name.inode)))?;
    }
    if deleted.inodes.is_empty() {
        out.line("no deleted inodes with pointers")?;
    } else {
        out.line("deleted inodes with pointers\n     inode          size  changed           left")?;
    }
    for inode in &deleted.inodes {
        let Remains { free, shared, used_again, .. } = inode.remains;
        let total = free + shared + used_again;
        let size = inode.size.map_or_else(|| "?".into(), |size| size.to_string());
        let bytes = |frags: u64| frags << layout.fs_fshift;
        out.line(format!(
            "{:>10} {size:>13}  {}  {} of {} bytes in free blocks: {}",
            inode.ino,
            listing::time(inode.ctime, false),
            bytes(free),
            bytes(total),
            surety(inode)
        ))?;
    }
    for ino in &deleted.unlinked {
        out.line(format!(
            "inode {ino} was removed while it was open; --save saves it, ls --lost shows it, fsck frees it"
        ))?;
    }
    for ino in &deleted.unnamed {
        out.line(format!("inode {ino} is in use, but no directory names it; see ls --lost"))?;
    }
    Ok(())
}
