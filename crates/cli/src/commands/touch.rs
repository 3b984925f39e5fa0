//! `spindle touch`

use crate::caller::Caller;
use crate::date;
use crate::error::{Context, Failure, Result};
use crate::image::{self, ReadArgs, WriteArgs};
use crate::target::Target;
use spindle::path::{change, create, resolve, resolve_parent};
use spindle_clock::{Clock, SystemClock, Timestamp};
use spindle_vfs::{Error, FileKind, NewNode, Rdev, SetAttr, SetTime, Vfs};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;

/// Set the times of files in an image, and create those that do not exist
///
/// Without a time, that is now. New files are empty; they belong to you, and your umask applies.
/// All times are in UTC.
#[derive(clap::Args, Debug)]
#[command(
    disable_help_flag = true,
    after_long_help = "EXAMPLES
    spindle touch disk.img:/etc/nologin
    spindle touch -m -d 1984-08-01T12:00:00 disk.img:/usr/src
    spindle touch -r old.img:/etc/passwd new.img:/etc/passwd"
)]
pub struct Args {
    /// Set the time of the last read only
    #[arg(short = 'a')]
    read_time: bool,
    /// Set the time of the last change only
    #[arg(short = 'm')]
    change_time: bool,
    /// Do not create files
    #[arg(short = 'c')]
    no_create: bool,
    /// Set the times of a symbolic link itself; do not create files
    #[arg(short = 'h')]
    link: bool,
    /// The time, like 2026-05-20T16:49:03, or @ and seconds since 1970
    #[arg(short = 'd', value_name = "TIME", group = "time", value_parser = date::parse)]
    date: Option<Timestamp>,
    /// The time as [[CC]YY]MMDDhhmm[.SS]
    #[arg(short = 't', value_name = "STAMP", group = "time")]
    stamp: Option<String>,
    /// Take the times of this file, of this machine or in an image
    #[arg(short = 'r', value_name = "FILE", group = "time")]
    reference: Option<OsString>,
    #[command(flatten)]
    write: WriteArgs,
    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,
    /// The files
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    targets: Vec<OsString>,
}

/// The times to set: of the last read, and of the last change.
type Times = (SetTime, SetTime);

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let caller = Caller::find();
    let (read, changed) = times(args)?;
    let both = args.read_time == args.change_time;
    let set = SetAttr {
        atime: (both || args.read_time).then_some(read),
        mtime: (both || args.change_time).then_some(changed),
        ..SetAttr::default()
    };
    image::change_each(&args.targets, args.write, |vfs, target, _| {
        touch(vfs, &target.path, args, &set, &caller)
    })
}

/// Returns the times that the arguments name.
fn times(args: &Args) -> Result<Times> {
    let at = |time| (SetTime::At(time), SetTime::At(time));
    Ok(match (args.date, &args.stamp, &args.reference) {
        (Some(time), ..) => at(time),
        (_, Some(stamp), _) => at(date::parse_stamp(stamp, SystemClock.now()).map_err(Failure::usage)?),
        (.., Some(file)) => {
            let (read, changed) = times_of(file, !args.link)?;
            (SetTime::At(read), SetTime::At(changed))
        }
        _ => (SetTime::Now, SetTime::Now),
    })
}

/// Returns the times of the last read and the last change of a file of this machine or in an image.
pub fn times_of(file: &OsStr, follow: bool) -> Result<(Timestamp, Timestamp)> {
    match Target::parse(file) {
        Target::Inside(inside) => image::read(&inside.image, ReadArgs::default(), |vfs| {
            let node = resolve(vfs, &inside.path, follow).context(&inside.image)?;
            Ok((node.attr().atime, node.attr().mtime))
        }),
        Target::Local(path) => {
            Target::check_local(&path)?;
            let found = if follow { path.metadata() } else { path.symlink_metadata() };
            let found = found.context(path.display())?;
            let time = |secs, nanos| Timestamp::new(secs, u32::try_from(nanos).unwrap_or(0));
            let read = time(found.atime(), found.atime_nsec());
            Ok((read, time(found.mtime(), found.mtime_nsec())))
        }
    }
}

/// Refuses times that the format cannot store; a file system may move them to the end of its range.
fn check_times(vfs: &Vfs, set: &SetAttr) -> Result<()> {
    let (first, last) = vfs.fs().limits().time_range;
    let fits = |time: Option<SetTime>| match time {
        Some(SetTime::At(time)) => (first..=last).contains(&time.secs),
        _ => true,
    };
    if fits(set.atime) && fits(set.mtime) {
        return Ok(());
    }
    let date = |secs| date::minute(Timestamp::new(secs, 0));
    let (first, last) = (date(first), date(last));
    Err(Failure::new(format!("the time does not fit: the format has those from {first} to {last}")))
}

fn touch(vfs: &Vfs, path: &[u8], args: &Args, set: &SetAttr, caller: &Caller) -> Result<()> {
    check_times(vfs, set).named(path)?;
    let node = match resolve(vfs, path, !args.link) {
        Err(e) if e.is(&Error::NotFound) && !path.ends_with(b"/") => {
            if args.no_create || args.link {
                return Ok(());
            }
            let (dir, name) = resolve_parent(vfs, path)?;
            let (perm, masked) = (0o666 & !caller.umask, 0o666 & caller.umask);
            let (uid, gid, rdev) = (caller.uid, caller.gid, Rdev::default());
            let new = NewNode { kind: FileKind::Regular, perm, masked, uid, gid, rdev, target: b"" };
            create(vfs, dir.ino(), name, &new).named(path)?
        }
        found => found?,
    };
    change(vfs, node.ino(), set).named(path)
}
