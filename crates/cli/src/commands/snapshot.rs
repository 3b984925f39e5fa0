//! `spindle snapshot`

use crate::error::{Context, Failure, Result};
use crate::image::{self, ReadArgs, WriteArgs};
use crate::interrupt;
use crate::listing::{Names, time};
use crate::output::Output;
use crate::text::printable;
use serde::Serialize;
use spindle::image::Family;
use spindle::snapshot::{Snapshot, list, make, remove};
use spindle_clock::Timestamp;
use spindle_report::number;
use spindle_vfs::Attr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// Make, list and remove snapshots of a UFS file system
///
/// A snapshot is a file that holds the whole file system as it was. It shares with the file system
/// what has not changed since, so reading it needs both. It can be copied by its name, and where
/// the image is mounted, the snapshot is an image itself, for all commands that read, and for a
/// mount.
///
/// The file system goes on being written: what a block held is preserved before it changes, which
/// needs a log, and space; when there is none left, changes fail. FreeBSD and NetBSD have
/// snapshots.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXAMPLES
    spindle snapshot make disk.img /.snap/monday
    spindle snapshot list disk.img
    spindle snapshot rm disk.img /.snap/monday
    spindle cp disk.img:/.snap/monday monday.img
    spindle mount disk.img /mnt && spindle ls -l /mnt/.snap/monday:/home
    spindle mount -r /mnt/.snap/monday /monday")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Make a snapshot of the file system as it is now
    ///
    /// The file system may be mounted; changes wait for a moment while the snapshot is taken. When
    /// the command has ended, the snapshot is durable.
    #[command(after_long_help = "EXAMPLES
    spindle snapshot make disk.img /.snap/monday")]
    Make {
        #[command(flatten)]
        write: WriteArgs,
        /// The file, block device or partition, or the directory that it is mounted on
        #[arg(value_name = "IMAGE")]
        image: String,
        /// The name that the snapshot gets, in a directory of the file system
        #[arg(value_name = "/PATH")]
        path: OsString,
    },
    /// Remove a snapshot of a file system that is not mounted
    ///
    /// On a mount, rm(1) removes it. What other snapshots need of it, they get.
    #[command(
        name = "rm",
        after_long_help = "EXAMPLES
    spindle snapshot rm disk.img /.snap/monday"
    )]
    Remove {
        #[command(flatten)]
        write: WriteArgs,
        /// The file, block device or partition
        #[arg(value_name = "IMAGE")]
        image: String,
        /// The name of the snapshot in the file system
        #[arg(value_name = "/PATH")]
        path: OsString,
    },
    /// List the snapshots that the superblock names
    ///
    /// Prints when each was made, the size of the file system then, the space that the snapshot
    /// takes now, and its name.
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        read: ReadArgs,
        /// The file, block device or partition
        #[arg(value_name = "IMAGE")]
        image: String,
    },
}

#[derive(Serialize)]
struct Report<'a> {
    image: &'a str,
    snapshots: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    inode: u32,
    path: Option<String>,
    /// Seconds since 1970.
    made: Option<i64>,
    size_bytes: Option<u64>,
    used_bytes: Option<u64>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (json, read, image) = match &args.command {
        Command::Make { write, image, path } => {
            make(&image::find(image)?, path.as_bytes(), &write.open_options()?)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Remove { write, image, path } => {
            remove(&image::find(image)?, path.as_bytes(), &write.open_options()?)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::List { json, read, image } => (json, read, image),
    };
    interrupt::watch()?;
    let found = image::run_image(image, &read.open_options(), |opened| match opened.family() {
        Family::Ffs => Ok(list(opened, &mut interrupt::check)?),
        Family::Old | Family::Mfs => Err(Failure::new("only UFS has snapshots")),
    })
    .context(image)?;
    let mut out = Output::stdout();
    if *json {
        out.json(&Report { image, snapshots: found.iter().map(Row::of).collect() })?;
    } else {
        for snapshot in &found {
            out.line(line(snapshot))?;
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

impl Row {
    fn of(snapshot: &Snapshot) -> Self {
        let attr = snapshot.attr.as_ref();
        Self {
            inode: snapshot.ino,
            path: snapshot.path.as_deref().map(printable),
            made: attr.map(|attr| made(attr).secs),
            size_bytes: attr.map(|attr| attr.size),
            used_bytes: attr.map(|attr| attr.blocks512 * 512),
        }
    }
}

/// Returns when a snapshot was made: nobody writes it afterwards.
fn made(attr: &Attr) -> Timestamp {
    attr.birthtime.unwrap_or(attr.mtime)
}

/// Returns the line of a snapshot in the list.
fn line(snapshot: &Snapshot) -> String {
    let name = match &snapshot.path {
        Some(path) => Names::for_stdout().show(path),
        None => format!("(inode {}, without a name)", snapshot.ino),
    };
    match &snapshot.attr {
        Some(attr) => {
            let (size, used) = (number::bytes(attr.size), number::bytes(attr.blocks512 * 512));
            format!("{}  {size:>10}  {used:>10} used  {name}", time(made(attr), false))
        }
        None => format!("{name}: its inode is not that of a snapshot, or cannot be read"),
    }
}
