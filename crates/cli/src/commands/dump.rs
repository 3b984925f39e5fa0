//! `spindle dump`

mod dumpdates;
mod level;
mod volumes;

use crate::date;
use crate::error::{Context, Failure, Result};
use crate::image::{self, Losses, ReadArgs};
use crate::interrupt;
use crate::logger;
use crate::mount_point;
use crate::outfile::{self, Kind, OutArgs};
use crate::progress::Progress;
use crate::timestamp::source_date_epoch;
use crate::volumes::Names;
use dumpdates::Dumpdates;
use level::Level;
use spindle::dump::{Honor, Plan, Stamp};
use spindle::snapshot::Held;
use spindle::{Image, Spec};
use spindle_clock::{Clock, TickClock};
use spindle_report::number;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use volumes::Files;

/// Name of the snapshot that is dumped, until it is open, as on FreeBSD.
const SNAPSHOT: &str = "dump_snapshot";

/// Dump an image, or what has changed in it, as dump(8)
///
/// A dump is a stream that "spindle restore" and the restore(8) of the BSDs and of Linux read. Its
/// level is 0 if it has everything. A dump of a higher level has what has changed since the last
/// one of a lower level, and the directories that lead there; when that was is in the file
/// dumpdates, into which -u writes.
///
/// The image is only read. While it is mounted for writing, -L dumps a snapshot of it, which is
/// removed in the end: the dump is the file system as it was at one moment, and what has changed
/// since then is in the next dump of a higher level. This needs the directory .snap of the mount,
/// and the right to make a file there.
///
/// The dump has names, contents, holes, hard and symbolic links, owners, permissions, times with
/// nanoseconds, file flags, device nodes, fifos, sockets and extended attributes. Of snapshots it
/// has only the inode; it leaves out the log of Spindle and the journal of FreeBSD.
///
/// What cannot be read in a damaged image is listed, and the dump goes on: a file or directory is
/// left out, and zeros stand in place of what cannot be read of a file. Then the exit code is 1,
/// and -u writes nothing.
#[derive(clap::Args, Debug)]
#[command(
    disable_help_flag = true,
    after_long_help = "VOLUMES
    A dump that is larger than a file may be is divided into volumes: of so many records (-B), or as
    large as their disks or devices have room (-a). Each has the next of the names that -f gives,
    divided by commas, or a number behind its name (-M). Behind the last name dump asks on a
    terminal for another medium in the same place; a file there has to be moved away first. Files
    get their names when the dump is complete, but for those that have to be moved. restore takes
    the volumes in the same form, in the same order.

FILES WITH THE FLAG nodump
    From the level that -h gives (1) on, files that have it are left out, and so is everything below
    directories that have it. When such a dump is restored on top of those before it, these files
    stay as the last dump had them that has them.

EXAMPLES
    spindle dump -0 -u -f home.0 disk.img@s1f
    spindle dump -1 -u -f home.1 disk.img@s1f
    spindle dump -0 -u -L -f home.0 /home
    spindle dump -0 -B 4000000 -M -f home.0. disk.img@s1f
    spindle dump -0 -f /mnt/a/home,/mnt/b/home disk.img@s1f
    spindle dump -0 -f - disk.img | zstd >disk.dump.zst"
)]
pub struct Args {
    #[command(flatten)]
    level: Level,
    /// Enter a complete dump into the file dumpdates
    #[arg(short = 'u')]
    update: bool,
    /// The file for the dump; - for standard output; A,B,C for the volumes of a dump
    #[arg(short = 'f', value_name = "FILE[,FILE...]", required = true)]
    file: PathBuf,
    /// Begin another volume after so many records of 1 KiB
    ///
    /// They are rounded down to whole blocks of 10 KiB.
    #[arg(short = 'B', value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(10..))]
    records: Option<u64>,
    /// Begin another volume when one is full; the default with several files or -M
    #[arg(short = 'a')]
    auto: bool,
    /// Name the volumes as -f with 001, 002 and so on behind it, as Linux's dump does
    #[arg(short = 'M')]
    prefix: bool,
    /// The file dumpdates: for each image and level, when it was dumped last
    #[arg(short = 'D', value_name = "FILE", default_value = "/etc/dumpdates")]
    dumpdates: PathBuf,
    /// The lowest level that leaves out files with the flag nodump
    #[arg(short = 'h', value_name = "LEVEL", default_value_t = 1, value_parser = clap::value_parser!(i32).range(0..=10))]
    honor: i32,
    /// Dump a snapshot of the file system, if it is mounted for writing
    #[arg(short = 'L')]
    live: bool,
    /// A label for the dump, of at most 15 bytes
    #[arg(long, value_name = "LABEL", default_value = "none", value_parser = parse_label)]
    label: String,
    #[command(flatten)]
    out: OutArgs,
    #[command(flatten)]
    read: ReadArgs,
    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,
    /// The image, or the directory that it is mounted on
    #[arg(value_name = "IMAGE")]
    image: String,
}

fn parse_label(text: &str) -> Result<String, String> {
    if text.len() <= 15 { Ok(text.to_owned()) } else { Err("a label has at most 15 bytes".into()) }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    interrupt::watch()?;
    // Before anything is read: what changes later is dated later, by the same clock.
    let date = source_date_epoch()?.unwrap_or_else(|| TickClock.now().secs);
    let spec = image::find(&args.image)?;
    let names = Names::new(&args.file, args.prefix)?;
    if args.file.as_os_str() == "-" && (args.prefix || args.auto || args.records.is_some()) {
        return Err(Failure::usage(
            "standard output has no volumes: leave out -B, -a and -M, or name a file",
        ));
    }
    for file in names.known() {
        outfile::refuse_input(&file, &spec.path)?;
        outfile::check(&file, Kind::Dump, args.out.force)?;
    }
    if args.update {
        Dumpdates::check_writable(&args.dumpdates).context(args.dumpdates.display())?;
    }
    let name = name_of(&spec);
    let level = args.level.number();
    let base = if level == 0 {
        None
    } else {
        Dumpdates::read(&args.dumpdates).context(args.dumpdates.display())?.base(&name, level)
    };
    let stamp = Stamp {
        date,
        ddate: base.map_or(0, |base| base.date),
        level,
        label: args.label.clone().into_bytes(),
        filesys: b"an unlisted file system".to_vec(),
        device: name.clone(),
        host: rustix::system::uname().nodename().to_bytes().to_vec(),
    };
    let losses = Losses::default();
    let options = args.read.open_options();
    let work = |image: &Image| dump(args, &names, image, stamp, &losses).context(&args.image);
    let held = if args.live { Held::make(&spec, SNAPSHOT, &mut interrupt::check)? } else { None };
    if let Some(held) = &held {
        image::work_in(&args.image, held.open(&options)?, work)?;
    } else {
        mount_point::refuse_changing(&spec, "dump a snapshot of it (-L)")?;
        image::run_image(&args.image, &options, work)?;
    }
    drop(held);
    losses.check().context(&args.image)?;
    if args.update {
        Dumpdates::record(&args.dumpdates, &name, level, date).context(args.dumpdates.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the name of an image in dumpdates: its path from the root of this machine, and its
/// partition.
fn name_of(spec: &Spec) -> Vec<u8> {
    let path = std::fs::canonicalize(&spec.path).unwrap_or_else(|_| spec.path.clone());
    let part = spec.to_string();
    let part = part.strip_prefix(&spec.path.display().to_string()).unwrap_or_default();
    [path.as_os_str().as_bytes(), part.as_bytes()].concat()
}

/// Writes the dump.
fn dump(args: &Args, names: &Names, image: &Image, stamp: Stamp, losses: &Losses) -> Result<()> {
    let lost = |error| losses.add(&args.image, error);
    let searching = Progress::new("searching", None);
    let plan = Plan::new(image, stamp, Honor(args.honor), &lost, &|| searching.step(0))?;
    drop(searching);
    let Stamp { level, ddate, .. } = *plan.stamp();
    let since = match ddate {
        0 => "everything".into(),
        since => format!("what has changed since {}", date::second(since)),
    };
    let size = number::bytes(plan.bytes());
    logger::note(format_args!(
        "{}: level {level} dump of {since}: {}, about {size}",
        args.image,
        things(plan.files() as u64)
    ));
    let progress = Progress::new("dumping", Some(plan.bytes()));
    let changes = args.auto || args.prefix || args.records.is_some() || names.known().len() > 1;
    let mut files = Files::new(names, args.out.force, args.records.map(volumes::room), changes)?;
    let written = plan.write(&mut files, &lost, &|bytes| progress.step(bytes));
    let written = written.map_err(|error| files.failure(error))?;
    files.finish()?;
    let size = number::bytes(written.bytes);
    logger::note(format_args!("{}: {}, {size}", args.image, things(written.files)));
    Ok(())
}

/// Returns the number of what a dump has, in words.
fn things(n: u64) -> String {
    if n == 1 { "1 file or directory".into() } else { format!("{n} files and directories") }
}
