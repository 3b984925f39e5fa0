//! `spindle snapshot`

use crate::error::{Context, Result};
use crate::image::{self, ReadArgs, WriteArgs};
use crate::listing::{Names, time};
use crate::output::Output;
use crate::text::printable;
use crate::{interrupt, mount_point};
use serde::Serialize;
use spindle::snapshot::{Snapshot, list, list_mounted, make, remove};
use spindle::{Image, OpenOptions, Spec, partition};
use spindle_clock::Timestamp;
use spindle_report::number;
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
///
/// A snapshot belongs to the user who makes it, or has mounted the file system, and only this user
/// and root can read it. Quotas do not count it.
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
    Make(One),
    /// Remove a snapshot
    ///
    /// The file system may be mounted; there, rm(1) removes it, too. What other snapshots need of
    /// it, they get.
    #[command(
        name = "rm",
        after_long_help = "EXAMPLES
    spindle snapshot rm disk.img /.snap/monday"
    )]
    Remove(One),
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
        /// The file, block device or partition, or the directory that it is mounted on
        #[arg(value_name = "IMAGE")]
        image: String,
    },
}

/// A snapshot that is made or removed.
#[derive(clap::Args, Debug)]
struct One {
    #[command(flatten)]
    write: WriteArgs,
    /// The file, block device or partition, or the directory that it is mounted on
    #[arg(value_name = "IMAGE")]
    image: String,
    /// The name of the snapshot in the file system
    #[arg(value_name = "/PATH")]
    path: OsString,
}

impl One {
    /// Makes or removes it, as `work` does.
    fn change(
        &self,
        work: impl FnOnce(&Spec, &[u8], &OpenOptions) -> spindle::Result<()>,
    ) -> Result<ExitCode> {
        work(&image::find(&self.image)?, self.path.as_bytes(), &self.write.open_options()?)?;
        Ok(ExitCode::SUCCESS)
    }
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
        Command::Make(one) => return one.change(make),
        Command::Remove(one) => return one.change(remove),
        Command::List { json, read, image } => (json, read, image),
    };
    interrupt::watch()?;
    let found = snapshots(image, *read)?;
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

/// Returns the snapshots of an image, or of what is mounted: only the process that serves a mount
/// for writing knows them.
fn snapshots(image: &str, read: ReadArgs) -> Result<Vec<Snapshot>> {
    let (spec, is_mounted) = if let Some(spec) = mount_point::image_on(image)? {
        (spec, true)
    } else {
        let spec = partition::find(image)?;
        let is_mounted = mount_point::of_image(&spec).is_some_and(|mounted| !mounted.read_only);
        (spec, is_mounted)
    };
    if is_mounted && let Some(found) = list_mounted(&spec, &mut interrupt::check)? {
        return Ok(found);
    }
    let listed = |opened: &Image| Ok(list(opened, &mut interrupt::check)?);
    image::run_image(image, &read.open_options(), listed).context(image)
}

impl Row {
    fn of(snapshot: &Snapshot) -> Self {
        let contents = snapshot.contents.as_ref();
        Self {
            inode: snapshot.ino,
            path: snapshot.path.as_deref().map(printable),
            made: contents.map(|contents| contents.made),
            size_bytes: contents.map(|contents| contents.size_bytes),
            used_bytes: contents.map(|contents| contents.used_bytes),
        }
    }
}

/// Returns the line of a snapshot in the list.
fn line(snapshot: &Snapshot) -> String {
    let name = match &snapshot.path {
        Some(path) => Names::for_stdout().show(path),
        None => format!("(inode {}, without a name)", snapshot.ino),
    };
    match &snapshot.contents {
        Some(contents) => {
            let (size, used) = (number::bytes(contents.size_bytes), number::bytes(contents.used_bytes));
            let made = time(Timestamp::new(contents.made, 0), false);
            format!("{made}  {size:>10}  {used:>10} used  {name}")
        }
        None => format!("{name}: its inode is not that of a snapshot, or cannot be read"),
    }
}
